"""Options of the task translation_doc; names are those of the authors' release."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.tasks.translation import TranslationConfig
from omegaconf import II

from gtransformer.data.batching import ORDERS, SIZE
from gtransformer.data.instances import INSTANCE_KINDS, KINDS, STORED
from gtransformer.models.common.config import SWITCH, option
from gtransformer.models.common.embedding import UNLIMITED_POSITIONS
from gtransformer.models.gtransformer.model import DOC_MODES
from gtransformer.search.strategies import AUTO, FULL, SENTENCE_RULES, STRATEGIES, STRATEGY_KINDS

DECODER_STARTS = ("bos",)


def _each(table: Mapping[str, Any]) -> str:
    """Return the help of an option that names an entry of a table."""
    return "; ".join(f"{name}: {entry.help}" for name, entry in table.items())


# fairseq's command line understands annotations like Optional[str], not str | None.
@dataclass
class TranslationDocConfig(TranslationConfig):
    """fairseq's translation options, and those for documents."""

    langs: Optional[str] = option(  # noqa: UP045
        None, "comma-separated languages, in the order of their symbols in the dictionary (default: source,target)"
    )
    doc_mode: ChoiceEnum(DOC_MODES) = option(
        "partial",
        "partial: group attention, gated global attention on the top layers; "
        "full: a plain Transformer over the document (the release's default)",
    )
    doc_noise_mask: float = option(0.0, "probability of replacing an input word by <mask> in training, both sides")
    doc_noise_epochs: int = option(30, "word dropout in epochs 1 to N - 1 (the release's default is 0: none)")
    decoder_start: ChoiceEnum(DECODER_STARTS) = option(
        "bos",
        "first token of the decoder's input, saved with the model; bos is the only choice: <s>, as in the release's "
        "validation and search",
    )
    sentence_rule: ChoiceEnum(SENTENCE_RULES) = option(
        AUTO,
        "in generation, on: exactly as many sentences as the source has; off: the model decides; auto: off with "
        "--doc-mode full unless a --strategy decodes documents in windows, else on",
    )
    instances: ChoiceEnum(INSTANCE_KINDS) = option(
        STORED,
        f"which sentences form an instance, whatever the corpus was prepared with; {_each(KINDS)}. Without an instance "
        "index a prepared instance is the document",
    )
    instance_tokens: Optional[int] = option(  # noqa: UP045
        None,
        "N of --instances greedy (the longer side of each sentence counts) and parts (the target side counts; in test "
        "sets, as in real use, the source side), with <s> and </s>",
    )
    context_sentences: Optional[int] = option(  # noqa: UP045
        None, "K of --instances disjoint, sliding and current (of the source); 0 (not for sliding): single sentences"
    )
    target_context_sentences: Optional[int] = option(  # noqa: UP045
        None, "previous target sentences of --instances current, a prefix of the current one (default: 0)"
    )
    max_pair_tokens: Optional[int] = option(  # noqa: UP045
        None,
        "training leaves out instances with more tokens in the current source or target sentence, or "
        "the context before it on either side, <s> and </s> not counted (with --instances whose sentences are all "
        "current: on either side)",
    )
    more_training_data: Optional[str] = option(  # noqa: UP045
        None,
        "further prepared corpora with the same dictionary: DIR/bin, several separated by ':'. Their training sets are "
        "added to that of the data (DATA:DATA instead alternates between epochs)",
    )
    context_loss: ChoiceEnum(SWITCH) = option(
        "on", "--instances sliding and current: off leaves target sentences of the context out of the loss"
    )
    batch_order: ChoiceEnum(ORDERS) = option(
        SIZE,
        "size: instances of similar length; document: consecutive instances of one document in order, and a batch ends "
        "with the document; each of several processes has its own documents",
    )
    gen_output: Optional[str] = option(  # noqa: UP045
        None, "write the generated translations to PREFIX.jsonl, one instance a line, in the order of the corpus"
    )
    strategy: ChoiceEnum(STRATEGIES) = option(
        FULL,
        f"in generation, how a document is decoded; {_each(STRATEGY_KINDS)}. Translations have as many sentences "
        "as the source, with any --doc-mode",
    )
    window_tokens: Optional[int] = option(  # noqa: UP045
        None, "W of --strategy sliding and sequential: maximum source tokens of a window, with <s> and </s>"
    )
    first_pass: Optional[str] = option(  # noqa: UP045
        None,
        "in generation, with --instances sliding: translate the sentences of a batch together, with first translations "
        "of their context as prefix: a sentence model's checkpoint (.pt), or its translations (PREFIX.jsonl)",
    )
    batch_sentences: Optional[int] = option(  # noqa: UP045
        None,
        "in generation, with --batch-order document: number of consecutive sentences in a batch, whatever --max-tokens "
        "(default: 16 with --first-pass, else limited by --max-tokens and --batch-size)",
    )
    doc_double_lr: bool = option(
        False,
        "two learning rates: --lr for global attention and gates (with --load-partial-global-from-local: for gates "
        "only), --lr times --lr-scale-pretrained for the rest",
    )
    lr_scale_pretrained: float = option(
        0.2, "with --doc-double-lr: learning rate of pretrained parameters, as a factor of --lr"
    )
    # None is the value of older checkpoints: their new parameters had --weight-decay, too.
    weight_decay_randinit: Optional[float] = option(  # noqa: UP045
        0.0, "with --doc-double-lr: weight decay of parameters that learn at --lr; the rest has --weight-decay"
    )
    doc_attn_entropy: bool = option(
        False,
        "at each validation, log the entropy in bits of encoder, decoder and cross-attention (mean over heads, layers "
        "and tokens), for group and global attention, and the entropy of uniform attention for comparison",
    )
    doc_seed: int = II("common.seed")
    max_source_positions: int = option(UNLIMITED_POSITIONS, "longest source instance in tokens")
    max_target_positions: int = option(UNLIMITED_POSITIONS, "longest target instance in tokens")
    eval_bleu_remove_bpe: Optional[str] = field(  # noqa: UP045
        default="@@ ", metadata={"help": "remove BPE before computing BLEU in validation", "argparse_const": "@@ "}
    )
