"""Load a split in three steps: binaries, sentences of documents, instances by the options."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from fairseq import utils
from fairseq.data import ConcatDataset, MMapIndexedDataset
from omegaconf import DictConfig, open_dict

from gtransformer.data.dictionaries import Vocabulary
from gtransformer.data.instance_index import InstanceIndex
from gtransformer.data.instances import BOUNDARY_TOKENS, KINDS, STORED, Instances, build_instances
from gtransformer.data.sides import Sides, never_text
from gtransformer.data.word_dropout import WordDropout
from gtransformer.errors import UserError
from gtransformer.plugin.document_dataset import DocumentPairDataset
from gtransformer.plugin.options import Options
from gtransformer.plugin.sentences import (
    RunDataset,
    Sentences,
    SentenceSpan,
    SideSentences,
    regrouped_spans,
    tokens_between,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Part:
    """One binarised set. ``prefix``: ``DIRECTORY/SPLIT.SOURCE-TARGET.`` of its files."""

    prefix: str
    source: SideSentences
    target: SideSentences | None

    def instance_index(self) -> InstanceIndex | None:
        """Read its instance index; None if there is none. Raise UserError if it is not that of the
        binaries.
        """
        path = Path(f"{self.prefix}instances.json")
        if not path.is_file():
            return None
        index = InstanceIndex.load(path)
        index.check_counts(self.source.counts.tolist(), path)
        return index

    def sentences(self) -> Sentences:
        """Return the view of its sentences. Raise UserError if its files do not belong together."""
        return Sentences(self.source, self.target, self.instance_index(), self.prefix)


@dataclass(frozen=True)
class Grouped:
    """The instances of one part.

    ``context`` (instances,), ``documents`` (instances, 2) and ``numbers`` (instances,) are those of
    ``DocumentPairDataset``, None if not needed. ``spans`` reads the locations of instances.
    """

    source: RunDataset
    target: RunDataset | None
    context: np.ndarray | None
    documents: np.ndarray | None
    numbers: np.ndarray | None
    spans: Callable[[], Sequence[SentenceSpan] | None]


def read_parts(
    path: str,
    split: str,
    pair: tuple[str, str],
    dictionaries: tuple[Vocabulary, Vocabulary],
    combine: bool = False,
) -> list[Part]:
    """Return the binarised sets of a split in a data directory; several if shards are combined.

    Raises UserError for missing binaries, and for those of another dictionary or without ``<s>``.
    """
    parts: list[Part] = []
    while not parts or combine:
        prefix = binarised_prefix(path, f"{split}{len(parts) or ''}", *pair)
        if prefix is None:
            break
        sides = []
        for lang, dictionary in zip(pair, dictionaries, strict=True):
            name = f"{prefix}{lang}"
            exists = os.path.exists(f"{name}.idx")
            sides.append(
                SideSentences(MMapIndexedDataset(name), dictionary, f"{name}.bin")
                if exists
                else None
            )
        source, target = sides
        if target is not None and len(source.counts) != len(target.counts):
            numbers = f"{len(source.counts)} source but {len(target.counts)} target instances"
            raise UserError(f"{prefix}*: {numbers}; prepare it again")
        parts.append(Part(prefix, source, target))
    if not parts:
        names = "-".join(pair)
        raise UserError(
            f"{path}: no binarised {split} set for {names} (looked for {split}.{names}.*)"
        )
    return parts


def binarised_prefix(path: str, split: str, source: str, target: str) -> str | None:
    """Return ``path/split.source-target.``, or that of the reverse pair, whichever exists."""
    for pair in (f"{source}-{target}", f"{target}-{source}"):
        prefix = os.path.join(path, f"{split}.{pair}.")
        if os.path.exists(f"{prefix}{source}.idx"):
            return prefix
    return None


def form_instances(
    part: Part, options: Options, limit: int | None = None, testing: bool = False
) -> Grouped:
    """Return the instances of a part by the options.

    Args:
        limit: ``--max-pair-tokens``; None: none.
        testing: as in real use, there is only the source.

    Raises UserError for a sentence that is longer than the strategy's windows.
    """
    scheme = options.scheme
    if scheme.kind == STORED and not options.whole_documents:
        return as_stored(part)
    view = part.sentences()
    if options.whole_documents:
        columns = (
            column.tolist() for column in (view.source.lengths, view.document, view.position)
        )
        for length, document, position in zip(*columns, strict=True):
            options.strategy.check_sentence(length, document + 1, position + 1)
        runs = np.array(view.runs(), dtype=np.int64).reshape(-1, 2)
        return regrouped(view, Instances(runs, runs, runs))
    by_source = view.target is None or (testing and KINDS[scheme.kind].by_target)
    made = build_instances(
        scheme, view.source.lengths, None if by_source else view.target.lengths, view.runs()
    )
    if limit is not None:
        made = within_limit(view, made, limit)
    if (
        options.cfg.first_pass is not None
    ):  # the target context comes from first translations, not from the corpus
        made = replace(made, target=made.current)
    return regrouped(view, made)


def as_stored(part: Part) -> Grouped:
    """Return the instances on disk."""
    source, target = (
        side and RunDataset(side, side.stored_ranges()) for side in (part.source, part.target)
    )
    spans = partial(stored_spans, part.instance_index())
    known = spans() or [SentenceSpan(number, 0, 1) for number in range(len(source))]
    documents = np.array(
        [(span.document, span.first_sentence) for span in known], dtype=np.int64
    ).reshape(-1, 2)
    return Grouped(source, target, None, documents, documents[:, 1] + 1, spans)


def stored_spans(index: InstanceIndex | None) -> list[SentenceSpan] | None:
    """Return the spans of the instances on disk; None if there is no index."""
    return None if index is None else [SentenceSpan(*row) for row in index.instances]


def regrouped(view: Sentences, made: Instances) -> Grouped:
    """Return instances over the view of a part's sentences."""
    source, target, context = RunDataset(view.source, made.source), None, None
    first = made.current[:, 0]
    if view.target is not None:
        target = RunDataset(view.target, made.target)
        context = tokens_between(view.target.lengths, np.stack([made.target[:, 0], first], 1))
    documents = np.stack([view.document[first], view.position[first]], 1)
    numbers = view.position[made.source[:, 0]] + 1
    return Grouped(
        source, target, context, documents, numbers, partial(regrouped_spans, view, made)
    )


def within_limit(view: Sentences, made: Instances, most: int) -> Instances:
    """Return the instances with at most ``most`` tokens in the current part and in the context, on
    each side.

    ``<s>`` and ``</s>`` are not counted. Zhang et al. (2018) also leave out longer ones; their
    code's limit is 256.
    """
    kept = np.ones(len(made), dtype=bool)
    for side, ranges in ((view.source, made.source), (view.target, made.target)):
        for part in (np.stack([ranges[:, 0], made.current[:, 0]], 1), made.current):
            kept &= side is None or tokens_between(side.lengths - BOUNDARY_TOKENS, part) <= most
    logger.info(
        "%d of %d instances left out (--max-pair-tokens %d)",
        len(kept) - kept.sum(),
        len(kept),
        most,
    )
    return Instances(made.source[kept], made.target[kept], made.current[kept])


def load_split(
    options: Options,
    sides: Sides,
    split: str,
    epoch: int = 1,
    combine: bool = False,
    training: bool = False,
    numbered: bool = False,
    unpredicted: Sequence[int] = (),
) -> DocumentPairDataset:
    """Load a split in the form that a model reads.

    Args:
        training: the epoch's shard, with word dropout and further corpora.
        numbered: the model reads the numbers of sentences.
        unpredicted: target symbols that do not count in its loss.

    Raises UserError for missing or unsuitable files.
    """
    cfg, scheme = options.cfg, options.scheme
    paths = utils.split_paths(cfg.data)
    chosen = [paths[(epoch - 1) % len(paths)], *options.further] if training else paths[:1]
    limit = cfg.max_pair_tokens if training else None
    groups = []
    for path in chosen:
        check_dictionaries(paths[0], path, sides.pair)
        for part in read_parts(path, split, sides.pair, (sides.source, sides.target), combine):
            check_prefix(part, sides)
            groups.append(form_instances(part, options, limit, split.startswith("test")))
            logger.info(
                "%s %s %d instances (--instances %s)",
                path,
                split,
                len(groups[-1].source),
                scheme.kind,
            )
    source = joined([one.source for one in groups])
    target = None if groups[0].target is None else joined([one.target for one in groups])
    context = None
    if target is not None and str(cfg.context_loss) == "off" and scheme.with_context:
        context = np.concatenate([one.context for one in groups])
    documents, numbers = (
        following([one.documents for one in groups]),
        np.concatenate([one.numbers for one in groups]),
    )
    return DocumentPairDataset(
        source,
        target,
        sides.source,
        sides.target,
        sides.language,
        word_dropout=word_dropout(options, sides) if training and cfg.doc_noise_mask > 0 else None,
        context=context,
        unpredicted=unpredicted,
        documents=documents if options.ordered else None,
        numbers=numbers if numbered else None,
        spans=groups[0].spans if len(groups) == 1 else partial(stored_spans, None),
        costs=window_costs(options, groups) if options.whole_documents else None,
        shuffle=split != "test",
    )


def check_dictionaries(first: str, path: str, pair: tuple[str, str]) -> None:
    """Raise UserError for data with another dictionary; parts of one corpus may have no
    dictionary.
    """
    for lang in pair:
        ours, theirs = (Path(one) / f"dict.{lang}.txt" for one in (first, path))
        if theirs.is_file() and theirs.read_bytes() != ours.read_bytes():
            raise UserError(
                f"{theirs}: another dictionary than {ours}, so the two cannot be trained on "
                "together; prepare one "
                "of them with --vocabulary and the other's folder"
            )


def check_prefix(part: Part, sides: Sides) -> None:
    """Raise UserError where target sentences lack the word that the model is given at their
    beginning.
    """
    if sides.prefix is None or part.target is None or not len(part.target.counts):
        return
    if int(part.target.tokens(0, 1)[1]) != sides.prefix:
        raise UserError(
            f"{part.prefix}{sides.pair[1]}: its sentences do not begin with "
            f"{sides.target[sides.prefix]}, as the "
            "model's do; prepare the corpus with --vocabulary and the directory of the converted "
            "model"
        )


def word_dropout(options: Options, sides: Sides) -> tuple[WordDropout, WordDropout]:
    """Return the word dropout of both sides."""
    cfg, prefix = options.cfg, None if sides.prefix is None else sides.target[sides.prefix]
    found = []
    for side in (sides.source, sides.target):
        protected = torch.tensor(
            [*sides.symbols(side), side.unk(), *never_text(side, prefix, sides.pair)]
        )
        noise = WordDropout(
            cfg.doc_noise_mask, side.index("<mask>"), protected, cfg.doc_noise_epochs, cfg.doc_seed
        )
        found.append(noise)
    return tuple(found)


def joined(datasets: list[RunDataset]) -> RunDataset | ConcatDataset:
    """Concatenate datasets."""
    return datasets[0] if len(datasets) == 1 else ConcatDataset(datasets)


def following(documents: list[np.ndarray]) -> np.ndarray:
    """Concatenate (instances, 2) documents and positions in them; the numbers of documents continue
    over parts.
    """
    counted, begin = [], 0
    for one in documents:
        counted.append(one + [begin, 0])
        begin += int(one[:, 0].max(initial=-1)) + 1
    return np.concatenate(counted)


def set_ratio(model: DictConfig, documents: DocumentPairDataset) -> None:
    """Write the mean over instances of source tokens over target tokens into the model's options.

    ``<s>`` and ``</s>`` are counted on both sides. fairseq saves the options in its checkpoints.
    """
    with open_dict(model):
        model.length_ratio = float(np.mean(documents.src_sizes / documents.tgt_sizes))
    logger.info(
        "--length-ratio %.6f: mean over %d training instances", model.length_ratio, len(documents)
    )


def window_costs(options: Options, groups: Sequence[Grouped]) -> np.ndarray:
    """Return the tokens that each document counts in a batch, (documents,) int64: those of its
    longest window.
    """
    costs = [
        options.strategy.cost(group.source.sentences.lengths[first:last].tolist())
        for group in groups
        for first, last in group.source.ranges.tolist()
    ]
    return np.array(costs, dtype=np.int64)
