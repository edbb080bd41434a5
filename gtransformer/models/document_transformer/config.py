"""Options of the Document Transformer."""

from dataclasses import dataclass

from fairseq.dataclass import ChoiceEnum

from gtransformer.models.common.config import DocumentModelConfig, option

ENCODER, DECODER, BOTH = PLACES = ("encoder", "decoder", "both")
GATE, RESIDUAL = JOINS = ("gate", "residual")
NOTHING, ITSELF = FIRST = ("nothing", "itself")


# The annotations below must be types, not strings, because fairseq builds its command line from them.
@dataclass
class DocumentTransformerConfig(DocumentModelConfig):
    """A Transformer that reads previous source sentences beside its own; defaults are the paper's choices."""

    context_layers: int = option(1, "N_c: layers of the context encoder (Table 2)")
    context_in: ChoiceEnum(PLACES) = option(BOTH, "which layers attend to the context (Table 8)")
    context_join: ChoiceEnum(JOINS) = option(
        GATE, "how a layer takes in what it finds in the context: by a gate, or by a residual connection (Table 9)"
    )
    context_of_first: ChoiceEnum(FIRST) = option(
        NOTHING,
        "context of a sentence that has none before it: nothing, a single </s>; itself: its own words, so that single "
        "sentences train context attention, too",
    )
    freeze_sentence_parameters: bool = option(
        False,
        "step 2 of two: train the context encoder, context attention, gates and the norms behind them alone; all else "
        "stays as the checkpoint of --finetune-from-model has it, its dropout still on",
    )
