"""Load a split in three steps: binaries, sentences of documents, instances by the options."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from fairseq import utils
from fairseq.data import ConcatDataset, MMapIndexedDataset

from gtransformer.data.dictionaries import Vocabulary
from gtransformer.data.instance_index import InstanceIndex
from gtransformer.data.instances import KINDS, STORED, Instances, build_instances
from gtransformer.data.sentences import (
    RunDataset,
    Sentences,
    SideSentences,
    sentence_spans,
    tokens_between,
)
from gtransformer.data.sides import Sides, never_text
from gtransformer.data.word_dropout import WordDropout
from gtransformer.errors import UserError
from gtransformer.plugin.document_dataset import DocumentPairDataset
from gtransformer.plugin.options import Options

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Binaries:
    """One binarised set.

    Attributes:
        prefix: ``DIRECTORY/SPLIT.SOURCE-TARGET.`` of its files.
        target: None for text without.
        index: None in the layout of the authors' release.
    """

    prefix: str
    source: SideSentences
    target: SideSentences | None
    index: InstanceIndex | None


@dataclass(frozen=True)
class Group:
    """The instances of one set.

    Attributes:
        spans: as of ``sentence_spans``.
        first: (instances,) int64, the number of each first source sentence in its document, from 1.
        context: (instances,) int64, target tokens before the current sentences.
    """

    source: RunDataset
    target: RunDataset | None
    spans: np.ndarray
    first: np.ndarray
    context: np.ndarray | None = None


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
        combine: also load ``SPLIT1``, ``SPLIT2`` and so on, as fairseq does for training.
        training: the epoch's shard, with word dropout and further corpora.
        numbered: the model reads the numbers of sentences.
        unpredicted: target symbols that do not count in its loss.

    Raises UserError for missing or unsuitable files.
    """
    cfg = options.cfg
    paths = utils.split_paths(cfg.data)
    # fairseq's way to train on one part of the data in each epoch: A/bin:B/bin.
    shard = paths[(epoch - 1) % len(paths)]
    groups = []
    for path in [shard, *options.further] if training else paths[:1]:
        check_dictionaries(paths[0], path, sides.pair)
        for binaries in read_binaries(path, split, sides, combine):
            groups.append(form_instances(binaries, options, split.startswith("test")))
            logger.info("%s %s %d instances", path, split, len(groups[-1].source))
    target = context = None
    if groups[0].target is not None:
        target = joined([group.target for group in groups])
        # Context sentences count in the loss unless --context-loss says otherwise.
        if str(cfg.context_loss) == "off" and options.scheme.with_context:
            context = np.concatenate([group.context for group in groups])
    spans = joined_spans([group.spans for group in groups])
    return DocumentPairDataset(
        joined([group.source for group in groups]),
        target,
        sides.source,
        sides.target,
        sides.language,
        word_dropout=word_dropout(options, sides) if training and cfg.doc_noise_mask > 0 else None,
        context=context,
        unpredicted=unpredicted,
        spans=spans,
        in_order=options.ordered,
        numbers=np.concatenate([group.first for group in groups]) if numbered else None,
        shuffle=split != "test",
        seed=cfg.doc_seed + 1,
    )


# --- Binaries


def read_binaries(path: str, split: str, sides: Sides, combine: bool) -> list[Binaries]:
    """Return the binarised sets of a split in a data directory.

    Raises UserError for missing binaries, for those of another dictionary or without ``<s>``, for
    sides of unequal length, and for targets without the model's prefix.
    """
    sets: list[Binaries] = []
    while not sets or combine:
        # fairseq's names of further training sets: train, train1, train2.
        prefix = binarised_prefix(path, f"{split}{len(sets) or ''}", *sides.pair)
        if prefix is None:
            break
        source = read_side(f"{prefix}{sides.pair[0]}", sides.source)
        target = read_side(f"{prefix}{sides.pair[1]}", sides.target)
        sets.append(Binaries(prefix, source, target, read_index(prefix, source)))
        if target is None:
            continue
        if len(source.counts) != len(target.counts):
            numbers = f"{len(source.counts)} source but {len(target.counts)} target instances"
            raise UserError(f"{prefix}*: {numbers}; prepare it again")
        if sides.prefix is not None and len(target.counts):
            # prepare writes it into every sentence, so that the first one tells of all.
            if int(target.tokens(0, 1)[1]) != sides.prefix:
                raise UserError(
                    f"{prefix}{sides.pair[1]}: its sentences do not begin with "
                    f"{sides.target[sides.prefix]}, as the model's do; prepare the corpus with "
                    "--vocabulary and the directory of the converted model"
                )
    if not sets:
        names = "-".join(sides.pair)
        raise UserError(
            f"{path}: no binarised {split} set for {names} (looked for {split}.{names}.*)"
        )
    return sets


def binarised_prefix(path: str, split: str, source: str, target: str) -> str | None:
    """Return ``path/split.source-target.``, or that of the reverse pair, whichever exists."""
    # fairseq-preprocess names files after one direction; they serve the other as well.
    for pair in (f"{source}-{target}", f"{target}-{source}"):
        prefix = os.path.join(path, f"{split}.{pair}.")
        if os.path.exists(f"{prefix}{source}.idx"):
            return prefix
    return None


def read_side(name: str, vocabulary: Vocabulary) -> SideSentences | None:
    """Read the binaries of one side, ``name`` without suffix; None if there are none."""
    if not os.path.exists(f"{name}.idx"):
        return None
    index = MMapIndexedDataset.Index(f"{name}.idx")
    stored = np.zeros(0, dtype=np.int64)  # an empty file cannot be mapped
    if len(index):
        # Not fairseq's map, which ends with its object.
        stored = np.asarray(np.memmap(f"{name}.bin", dtype=index.dtype, mode="r"))
    return SideSentences(stored, index.sizes.copy(), vocabulary, f"{name}.bin")


def read_index(prefix: str, source: SideSentences) -> InstanceIndex | None:
    """Read the instance index of binaries; None if there is none. Raise UserError for another's."""
    path = Path(f"{prefix}instances.json")
    if not path.is_file():
        return None
    index = InstanceIndex.load(path)
    if source.counts.tolist() != [count for *_, count in index.instances]:
        raise UserError(f"{path}: describes other instances than the data; prepare it again")
    return index


def check_dictionaries(first: str, path: str, pair: tuple[str, str]) -> None:
    """Raise UserError for data with another dictionary; parts of one corpus may have none."""
    for lang in pair:
        ours, theirs = (Path(folder) / f"dict.{lang}.txt" for folder in (first, path))
        if theirs.is_file() and theirs.read_bytes() != ours.read_bytes():
            raise UserError(
                f"{theirs}: another dictionary than {ours}, so the two cannot be trained on "
                "together; prepare one of them with --vocabulary and the other's folder"
            )


# --- Instances


def form_instances(binaries: Binaries, options: Options, testing: bool) -> Group:
    """Return the instances of a set by the options.

    Args:
        testing: as in real use, there is only the source.

    Raises UserError for a sentence that is longer than the strategy's windows.
    """
    scheme = options.scheme
    if scheme.kind == STORED and not options.whole_documents:
        return stored_instances(binaries)
    view = Sentences(binaries.source, binaries.target, binaries.index, binaries.prefix)
    if options.whole_documents:
        columns = view.source.lengths, view.document + 1, view.position + 1
        for sentence in np.stack(columns, 1).tolist():
            options.strategy.check_sentence(*sentence)
        runs = np.array(view.runs(), dtype=np.int64).reshape(-1, 2)
        instances = Instances(runs, runs, runs)
    else:
        # A test set is cut as a text is that has no translation yet, or scores would depend on the
        # reference.
        by_source = view.target is None or (testing and KINDS[scheme.kind].by_target)
        target = None if by_source else view.target.lengths
        instances = build_instances(scheme, view.source.lengths, target, view.runs())
    if options.cfg.first_pass is not None:  # its translations are the target context
        instances = replace(instances, target=instances.current)
    spans, first = sentence_spans(view, instances), view.position[instances.source[:, 0]] + 1
    source = RunDataset(view.source, instances.source)
    if view.target is None:
        return Group(source, None, spans, first)
    before = np.stack([instances.target[:, 0], instances.current[:, 0]], 1)
    context = tokens_between(view.target.lengths, before)
    return Group(source, RunDataset(view.target, instances.target), spans, first, context)


def stored_instances(binaries: Binaries) -> Group:
    """Return the instances on disk; without an index each of them is a document."""
    source, target = (
        side and RunDataset(side, side.stored_ranges())
        for side in (binaries.source, binaries.target)
    )
    if binaries.index is None:
        counts = binaries.source.counts
        spans = np.stack([np.arange(len(counts)), np.zeros_like(counts), counts], 1)
    else:
        spans = np.array(binaries.index.instances, dtype=np.int64).reshape(-1, 3)
    # All sentences of a stored instance are current.
    return Group(source, target, spans[:, [0, 1, 2, 1, 2]], spans[:, 1] + 1)


def joined(datasets: list[RunDataset]) -> RunDataset | ConcatDataset:
    """Concatenate datasets."""
    return datasets[0] if len(datasets) == 1 else ConcatDataset(datasets)


def joined_spans(groups: list[np.ndarray]) -> np.ndarray:
    """Concatenate spans; the numbers of documents continue from set to set."""
    documents = 0
    for spans in groups:
        spans[:, 0] += documents
        documents = spans[:, 0].max(initial=documents - 1) + 1
    return np.concatenate(groups)


def word_dropout(options: Options, sides: Sides) -> tuple[WordDropout, WordDropout]:
    """Return the word dropout of both sides."""
    cfg, prefix = options.cfg, None if sides.prefix is None else sides.target[sides.prefix]
    dropouts = []
    for side in (sides.source, sides.target):
        # Boundaries and languages carry no text; without them an instance has another form.
        protected = [*sides.symbols(side), side.unk(), *never_text(side, prefix, sides.pair)]
        settings = cfg.doc_noise_mask, side.index("<mask>"), torch.tensor(protected)
        dropouts.append(WordDropout(*settings, cfg.doc_noise_epochs, cfg.doc_seed))
    return tuple(dropouts)
