"""Options of Document Flattening and of attention between datapoints."""

from dataclasses import dataclass

from fairseq.dataclass import ChoiceEnum

from gtransformer.models.common.config import ON, SWITCH, DocumentModelConfig, option

ENCODER, DECODER, BOTH, NONE = PLACES = ("encoder", "decoder", "both", "none")
CONTINUOUS, DISCRETE, IDENTITY = GATES = ("continuous", "discrete", "identity")
THRESHOLD = 0.5
WHERE = "which sides attend to the other instances of the batch; none: a pseudo-document Transformer with the same norm"


# The annotations below must be types, not strings, because fairseq builds its command line from them.
@dataclass
class BatchAttentionConfig(DocumentModelConfig):
    """A Transformer over pseudo-documents that reads the batch in front of its first layers."""

    batch_attention_in: ChoiceEnum(PLACES) = option(BOTH, f"{WHERE} (Table 3)")
    sentence_numbers: ChoiceEnum(SWITCH) = option(
        ON, "on: each sentence begins with its number in the document in place of <s>"
    )


@dataclass
class DocFlatConfig(BatchAttentionConfig):
    """Flat-batch attention; defaults are the paper's DocFlat C."""

    context_gate: ChoiceEnum(GATES) = option(
        CONTINUOUS,
        "how what is found in the batch is taken in. continuous: by a gate (DocFlat C); discrete: by a gate of 0 or 1 "
        "(D); identity: it is added (I)",
    )
    gate_threshold: float = option(THRESHOLD, "gamma: where discrete gates open")


@dataclass
class AbdConfig(BatchAttentionConfig):
    """Attention between datapoints, in the encoder alone unless asked for."""

    batch_attention_in: ChoiceEnum(PLACES) = option(
        ENCODER, f"{WHERE} (Table 7); in the decoder, as printed, it reads the target that is to be predicted"
    )
