"""Options of the task translation_doc; names are the release's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.tasks.translation import TranslationConfig
from omegaconf import II

from gtransformer.data.batching import NOTHING, ORDERS, SHUFFLES, SIZE
from gtransformer.data.instances import FIXED, INSTANCE_KINDS, KINDS, LENGTHS, STORED
from gtransformer.models.common.config import SWITCH, option
from gtransformer.models.common.embedding import UNLIMITED_POSITIONS
from gtransformer.models.gtransformer.model import DOC_MODES
from gtransformer.search.strategies import AUTO, FULL, SENTENCE_RULES, STRATEGIES, STRATEGY_KINDS

DECODER_STARTS = ("bos",)


def _each(table: Mapping[str, Any]) -> str:
    """Return the help of an option that names an entry of a table."""
    return "; ".join(f"{name}: {entry.help}" for name, entry in table.items())


# The annotations must be types that fairseq's command line understands: Optional[str], not str | None.
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
    coword_dropout: float = option(
        0.0,
        "CoWord: probability of replacing a word of the current source sentence by <mask> in training, context "
        "untouched; where all sentences of an instance are current, every other one is in each epoch, so that P / 2 of "
        "all words are replaced; no word of an instance of one sentence is",
    )
    decoder_start: ChoiceEnum(DECODER_STARTS) = option(
        "bos",
        "what the decoder's input begins with, saved with the model: the first <s>, as the release validates and "
        "searches; there is no other choice",
    )
    sentence_rule: ChoiceEnum(SENTENCE_RULES) = option(
        AUTO,
        "in generation, on: exactly as many sentences as the source has; off: as many as the model will; auto: off "
        "with --doc-mode full unless a --strategy decodes documents in windows, else on",
    )
    doc_constraint: bool = option(False, "the same as --sentence-rule on")
    prepend_bos: bool = option(False, "put <s> before instances that do not start with it (one sentence a line)")
    instances: ChoiceEnum(INSTANCE_KINDS) = option(
        STORED,
        f"which sentences stand together, whatever the corpus was prepared with; {_each(KINDS)}. Without an instance "
        "index a prepared instance is the document",
    )
    instance_tokens: Optional[int] = option(  # noqa: UP045
        None,
        "N of --instances greedy (of a sentence the longer side counts) and parts (the target does; of test sets, as "
        "in real use, the source), with <s> and </s>",
    )
    context_sentences: Optional[int] = option(  # noqa: UP045
        None, "K of --instances disjoint, sliding and current (of the source); 0, but for sliding: single sentences"
    )
    target_context_sentences: Optional[int] = option(  # noqa: UP045
        None, "previous target sentences of --instances current, a prefix of the current one (default: 0)"
    )
    instance_lengths: ChoiceEnum(LENGTHS) = option(
        FIXED,
        "drawn: in training, --instances greedy and disjoint are cut again in every epoch, each instance of 1 to as "
        "many sentences as these would take",
    )
    max_pair_tokens: Optional[int] = option(  # noqa: UP045
        None,
        "training leaves out instances with more tokens, <s> and </s> not counted, in the current source sentence, the "
        "current target sentence, or what is before it on either side (of --instances whose sentences are all "
        "current: in either side)",
    )
    more_training_data: Optional[str] = option(  # noqa: UP045
        None,
        "further prepared corpora with the same dictionary, DIR/bin or several with : between them, whose training "
        "sets are trained on together with the data's (DATA:DATA takes turns, an epoch each)",
    )
    context_loss: ChoiceEnum(SWITCH) = option(
        "on", "--instances sliding and current: off leaves target sentences of the context out of the loss"
    )
    batch_order: ChoiceEnum(ORDERS) = option(
        SIZE,
        "size: instances of equal length together; document: consecutive instances of one document in order, the batch "
        "ends with the document, unless --join-documents; of several processes each has its own documents",
    )
    join_documents: bool = option(
        False,
        "in training, with --batch-order document: whole documents fill what a batch has room for behind the end of "
        "another; what reads its batch reads its own document there",
    )
    shuffled_context: ChoiceEnum(SHUFFLES) = option(
        NOTHING,
        "in training, to see what context is worth; drawn again in every epoch. global: with --batch-order document, "
        "each batch is drawn from the whole corpus, its instances are as they were; everything: all sentences of the "
        "corpus change places before instances are made. added: every epoch has the corpus twice, as it is and as with "
        "global",
    )
    gen_output: Optional[str] = option(  # noqa: UP045
        None, "write the generated translations to PREFIX.jsonl, one instance a line, in the order of the corpus"
    )
    strategy: ChoiceEnum(STRATEGIES) = option(
        FULL,
        f"in generation, how a document is decoded; {_each(STRATEGY_KINDS)}. As many sentences as the source has, "
        "whatever --doc-mode",
    )
    window_tokens: Optional[int] = option(  # noqa: UP045
        None, "W of --strategy sliding and sequential: source tokens of a window at most, with <s> and </s>"
    )
    first_pass: Optional[str] = option(  # noqa: UP045
        None,
        "in generation, with --instances sliding: translate the sentences of a batch together, behind first "
        "translations of their context: a sentence model's checkpoint (.pt), its translations (PREFIX.jsonl), or plain "
        "text, one sentence a line",
    )
    batch_sentences: Optional[int] = option(  # noqa: UP045
        None,
        "in generation, with --batch-order document: so many consecutive sentences are a batch, whatever --max-tokens "
        "(default: 16 with --first-pass, else what --max-tokens and --batch-size allow)",
    )
    documents_at_once: int = option(
        0,
        "in generation, translate so many documents of a batch at a time; when one is finished, the next takes its "
        "place (0: all of the batch)",
    )
    doc_double_lr: bool = option(
        False,
        "two learning rates: --lr for global attention and gates (with --load-partial-global-from-local for gates "
        "alone), --lr-scale-pretrained times it for the rest",
    )
    lr_scale_pretrained: float = option(0.2, "--doc-double-lr: learning rate of pretrained parameters over --lr")
    # None is that of older checkpoints, whose new parameters had --weight-decay, too.
    weight_decay_randinit: Optional[float] = option(  # noqa: UP045
        0.0, "--doc-double-lr: weight decay of what learns at --lr; --weight-decay is that of the rest"
    )
    doc_attn_entropy: bool = option(
        False,
        "at each validation, log the entropy in bits of encoder, decoder and cross-attention (mean over heads, layers "
        "and tokens), by group and over the document, beside what flat attention would have",
    )
    doc_seed: int = II("common.seed")
    max_source_positions: int = option(UNLIMITED_POSITIONS, "longest source instance in tokens")
    max_target_positions: int = option(UNLIMITED_POSITIONS, "longest target instance in tokens")
    eval_bleu_remove_bpe: Optional[str] = field(  # noqa: UP045
        default="@@ ", metadata={"help": "remove BPE before computing BLEU in validation", "argparse_const": "@@ "}
    )
