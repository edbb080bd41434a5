"""Options of mini-batch embeddings."""

from dataclasses import dataclass

from fairseq.dataclass import ChoiceEnum

from gtransformer.models.common.config import DocumentModelConfig, option

ENCODER, DECODER, BOTH = PLACES = ("encoder", "decoder", "both")


# The annotations below must be types, not strings, because fairseq builds its command line from them.
@dataclass
class MbeConfig(DocumentModelConfig):
    """A Transformer, and which of its sides see the vector of the batch."""

    batch_vector_in: ChoiceEnum(PLACES) = option(BOTH, "which sides see the vector of the batch")
    doc_encoder_layer_norm: bool = option(
        False, "layer norm over the encoder's words and vector, in front of its layers, as in the authors' scripts"
    )
    doc_decoder_layer_norm: bool = option(False, "the same over the decoder's vector and words")
    batch_classifier: bool = option(
        False,
        "learn whether the sentences of a batch are of one document or drawn from the corpus, and multiply the vector "
        "by the probability of the former; needs --shuffled-context added and the fused criterion",
    )
