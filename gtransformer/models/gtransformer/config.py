"""Configuration of the model; field names are the command-line names of the authors' release."""

from dataclasses import dataclass
from typing import Optional

from fairseq.dataclass import ChoiceEnum

from gtransformer.models.common.config import BOTH, DOCUMENT, MARKS, POSITIONS, DocumentModelConfig, option

CONTEXT_ATTENTION = ("combined", "global")
ALL, NEW, TOP = TRAINED = ("all", "new", "top")


# The annotations below must be types, not strings, because fairseq builds its command line from them.
@dataclass
class GTransformerConfig(DocumentModelConfig):
    """A document model, and which of its layers look beyond the sentence."""

    encoder_ctxlayers: int = option(2, "top encoder layers with combined (group and global) self-attention")
    decoder_ctxlayers: int = option(2, "top decoder layers with combined (group and global) self-attention")
    cross_ctxlayers: int = option(2, "top decoder layers with combined (group and global) cross-attention")
    context_attention: ChoiceEnum(CONTEXT_ATTENTION) = option(
        "combined",
        "on the top layers that --*-ctxlayers count: group and global attention, gated (combined), or global attention "
        "alone (Table 6)",
    )
    no_language_locality: bool = option(
        False, "self-attention of every layer sees the whole document, in encoder and decoder (Table 5)"
    )
    no_translation_locality: bool = option(
        False, "cross-attention of every layer sees the whole source document (Table 5)"
    )
    positions: ChoiceEnum(POSITIONS) = option(
        DOCUMENT,
        "document: positions run through the instance, as in the paper; sentence: they begin anew with each sentence, "
        "and global attention is told the sentences' numbers, which it learns to use",
    )
    gate_bias: Optional[float] = option(  # noqa: UP045
        None, "bias that gates begin with; the larger, the less of global attention they let through (default: 0)"
    )
    neutral_gates: bool = option(
        False,
        "with --load-partial, gates change nothing at first, however open: global attention begins at zero, and group "
        "attention is scaled up by what gates take from it (with --gate-bias 0 unless given)",
    )
    sentence_model: Optional[str] = option(  # noqa: UP045
        None,
        "start from this sentence Transformer, a checkpoint of fairseq's task translation or of this package, exactly "
        "where it is: structure, marks of sentences and vocabulary are its own, with --positions sentence and, unless "
        "--gate-bias is given, --neutral-gates; the data must have its dictionary",
    )
    sentence_marks: ChoiceEnum(MARKS) = option(
        BOTH,
        "what layers see of <s> and </s> around each sentence. both; end: as models of fairseq's task translation do, "
        "</s> alone on the source side, in front of a target sentence </s> in place of <s> (set by --sentence-model)",
    )
    output_words: Optional[int] = option(  # noqa: UP045
        None,
        "only the first N entries of the dictionary can be predicted, what is behind them was added to the sentence "
        "model's; <s> and the language symbol do not count in the loss (set by --sentence-model)",
    )
    load_partial_global_from_local: bool = option(
        False, "as --load-partial, but global attention starts as a copy of group attention"
    )
    trained_parameters: ChoiceEnum(TRAINED) = option(
        ALL,
        "what fine-tuning trains; the rest stays as it begins, its dropout still on. new: what that "
        "has not, global attention, gates and maps of sentence numbers; top: all of the layers that have something new",
    )


@dataclass
class GTransformerBertConfig(GTransformerConfig):
    """The encoder is BERT base; the decoder as wide, with the six layers of the base model."""

    encoder_embed_dim: int = option(768, "encoder model dimension, BERT's")
    encoder_ffn_embed_dim: int = option(3072, "encoder feed-forward dimension, BERT's")
    encoder_layers: int = option(12, "encoder layers, BERT's")
    encoder_attention_heads: int = option(12, "encoder attention heads, BERT's")
    decoder_embed_dim: int = option(768, "decoder model dimension")
    decoder_ffn_embed_dim: int = option(3072, "decoder feed-forward dimension")
    decoder_attention_heads: int = option(12, "decoder attention heads")
    bert_checkpoint: Optional[str] = option(  # noqa: UP045
        None, "folder with a BERT of Hugging Face transformers (config.json, weights, tokeniser) to start training from"
    )
