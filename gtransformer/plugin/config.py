"""Options of the task translation_doc; names are those of the authors' release."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.tasks.translation import TranslationConfig
from omegaconf import II

from gtransformer.data.batching import ORDERS, SIZE
from gtransformer.data.instances import INSTANCE_KINDS, KINDS, STORED
from gtransformer.models.common.config import COMPILE, SWITCH, option
from gtransformer.models.common.embedding import UNLIMITED_POSITIONS
from gtransformer.models.gtransformer.model import DOC_MODES
from gtransformer.search.strategies import AUTO, FULL, SENTENCE_RULES, STRATEGIES, STRATEGY_KINDS

FUSED_LOSS = "fused_label_smoothed_cross_entropy"  # the criterion of this package


def _each(table: Mapping[str, Any]) -> str:
    """Return the help of an option that names an entry of a table."""
    return "; ".join(f"{name}: {entry.help}" for name, entry in table.items())


# fairseq's command line understands annotations like Optional[str], not str | None.
@dataclass
class TranslationDocConfig(TranslationConfig):
    """fairseq's translation options, and those for documents."""

    langs: Optional[str] = option(  # noqa: UP045
        None,
        "languages, comma-separated, in the order of their symbols in the dictionary (default: "
        "source,target)",
    )
    doc_mode: ChoiceEnum(DOC_MODES) = option(
        "partial",
        "partial: group attention, gated global attention on top layers; full: a Transformer over "
        "the document",
    )
    doc_noise_mask: float = option(
        0.0, "probability of word dropout: a word of either side is replaced by <mask> in training"
    )
    doc_noise_epochs: int = option(30, "word dropout in epochs 1 to N - 1")
    decoder_start: ChoiceEnum(("bos",)) = option(
        "bos", "first token of the decoder's input: <s>, the only choice"
    )
    sentence_rule: ChoiceEnum(SENTENCE_RULES) = option(
        AUTO,
        "on: translations have as many sentences as the source; off: the model decides; auto: off "
        "with --doc-mode full and the default --strategy, else on",
    )
    instances: ChoiceEnum(INSTANCE_KINDS) = option(
        STORED, f"which sentences form an instance; {_each(KINDS)}"
    )
    instance_tokens: Optional[int] = option(  # noqa: UP045
        None,
        "N of --instances greedy (longer side of each sentence) and parts (target; in test sets "
        "source), with <s> and </s>",
    )
    context_sentences: Optional[int] = option(  # noqa: UP045
        None, "K of --instances disjoint, sliding and current"
    )
    target_context_sentences: Optional[int] = option(  # noqa: UP045
        None, "previous target sentences of --instances current (default: 0)"
    )
    more_training_data: Optional[str] = option(  # noqa: UP045
        None, "further prepared corpora with the same dictionary: DIR/bin, separated by ':'"
    )
    context_loss: ChoiceEnum(SWITCH) = option(
        "on",
        "off: target sentences of the context do not count in the loss (--instances sliding and "
        "current)",
    )
    batch_order: ChoiceEnum(ORDERS) = option(
        SIZE,
        "batches are shuffled; size: of instances of similar length; document: of consecutive "
        "instances of one document, in order",
    )
    gen_output: Optional[str] = option(  # noqa: UP045
        None, "write translations to PREFIX.jsonl, one instance a line, in the order of the corpus"
    )
    strategy: ChoiceEnum(STRATEGIES) = option(
        FULL, f"how a document is decoded; {_each(STRATEGY_KINDS)}"
    )
    window_tokens: Optional[int] = option(  # noqa: UP045
        None, "W of --strategy sliding and sequential: source tokens of a window, with <s> and </s>"
    )
    first_pass: Optional[str] = option(  # noqa: UP045
        None,
        "first translations of the context of --instances sliding: PREFIX.jsonl, which a sentence "
        "model wrote by --gen-output PREFIX",
    )
    batch_sentences: Optional[int] = option(  # noqa: UP045
        None,
        "with --batch-order document: consecutive sentences of a batch (default: as many as "
        "--max-tokens allows)",
    )
    compile: ChoiceEnum(COMPILE) = option(
        "auto",
        "compile encoder, decoder and loss of training, with batches of fixed shapes. on: refuse "
        "what cannot be compiled; auto: on a GPU, where it is possible; graphs: as on, and one "
        "CUDA graph computes a batch and its gradients, which saves time if batches are small",
        COMPILE,
    )
    doc_double_lr: bool = option(
        False,
        "two learning rates: --lr for global attention and gates (with "
        "--load-partial-global-from-local: gates alone), --lr times --lr-scale-pretrained for the "
        "rest",
    )
    lr_scale_pretrained: float = option(
        0.2, "with --doc-double-lr: factor of the learning rate of pretrained parameters"
    )
    # None is the value of older checkpoints: their new parameters had --weight-decay, too.
    weight_decay_randinit: Optional[float] = option(  # noqa: UP045
        0.0, "with --doc-double-lr: weight decay of new parameters"
    )
    doc_seed: int = II("common.seed")
    max_source_positions: int = option(UNLIMITED_POSITIONS, "longest source instance in tokens")
    max_target_positions: int = option(UNLIMITED_POSITIONS, "longest target instance in tokens")
    eval_bleu_remove_bpe: Optional[str] = field(  # noqa: UP045
        default="@@ ",
        metadata={
            "help": "remove BPE before computing BLEU in validation",
            "argparse_const": "@@ ",
        },
    )
