"""Load a split: binarised files, instances of its sentences by the options, and word dropout."""

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
from fairseq.data import ConcatDataset, Dictionary, FairseqDataset, MMapIndexedDataset, data_utils
from omegaconf import DictConfig, open_dict

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.data.instances import BOUNDARY_TOKENS, KINDS, STORED, Instances, build_instances
from gtransformer.data.sides import never_text
from gtransformer.data.word_dropout import WordDropout
from gtransformer.errors import UserError
from gtransformer.plugin.document_dataset import DocumentPairDataset
from gtransformer.plugin.sentences import (
    Chosen,
    RunDataset,
    Sentences,
    SentenceSpan,
    regrouped_spans,
    stored_spans,
    tokens_between,
)
from gtransformer.plugin.stored import InstanceDataset
from gtransformer.search.strategies import Strategy
from gtransformer.tasks.options import Options

logger = logging.getLogger(__name__)


class Loader:
    """A maker of datasets by a task's options.

    Args:
        dictionary, target_dictionary: of the two sides.
        language: index of the target language symbol.
        languages: the language symbols, which word dropout never replaces.
        numbered: whether batches have the numbers of sentences, in any order of batches.
        prefix: index of the word that the model's target sentences begin with; None: there is none.
    """

    def __init__(
        self,
        options: Options,
        dictionary: Dictionary,
        target_dictionary: Dictionary,
        language: int,
        languages: Sequence[str],
        numbered: bool = False,
        prefix: int | None = None,
    ):
        self.numbered, self.prefix = numbered or options.ordered, prefix
        self.options, self.cfg = options, options.cfg
        self.dictionary, self.target_dictionary = dictionary, target_dictionary
        self.language, self.languages = language, languages

    def load(self, split: str, epoch: int, combine: bool, training: bool = False) -> DocumentPairDataset:
        """Load a split (for ``training``, the epoch's shard, with word dropout and the like). Raise UserError for
        missing or unsuitable files.
        """
        scheme, whole = self.options.scheme, self.options.whole_documents
        paths = utils.split_paths(self.cfg.data)
        path = paths[(epoch - 1) % len(paths)] if training else paths[0]
        further = self.options.further if training else []
        parts, weights = [], []
        given = (training and self.options.weights) or [1.0] * (1 + len(further))
        for one, weight in zip([path, *further], given, strict=True):
            if one != paths[0]:
                self._check_dictionaries(paths[0], one)
            found = self.parts(one, split, combine)
            logger.info("%s %s %d instances", one, split, sum(len(part.source) for part in found))
            parts += found
            weights += [weight] * len(found)
        limit = self.cfg.max_pair_tokens if training else None
        draw = None
        if training and self.options.drawn_anew:  # the same in all processes, and in a resumed epoch
            draw = np.random.RandomState([self.cfg.doc_seed % 2**32, epoch])
        testing = split.startswith("test")  # as in real use, there is only the source
        groups = [self._group(part, limit, testing) for part in parts]
        groups = [one for group, weight in zip(groups, weights, strict=True) for one in weighted(group, weight, draw)]
        source = joined([one.source for one in groups])
        target = None if groups[0].target is None else joined([one.target for one in groups])
        if whole or scheme.kind != STORED:
            how = f"--strategy {self.cfg.strategy}" if whole else f"--instances {scheme.kind}"
            logger.info("%s %s %d instances by %s", path, split, len(source), how)
        masked = self.cfg.context_loss == "off" and scheme.with_context and target is not None
        documents = following([one.documents for one in groups]) if self.options.ordered else None
        if training and self.options.shuffled:
            documents = draw.permutation(documents)
        return self.pairs(
            source,
            target,
            dropout=training,
            shuffle=split != "test",
            context=np.concatenate([one.context for one in groups]) if masked else None,
            documents=documents,
            numbers=np.concatenate([one.numbers for one in groups]) if self.numbered else None,
            spans=groups[0].spans if len(groups) == 1 else None,
            costs=window_costs(self.options.strategy, [one.source for one in groups]) if whole else None,
        )

    def parts(self, path: str, split: str, combine: bool) -> list[Part]:
        """Return the binarised sets of a split in a data directory; several if shards are combined."""
        cfg, found = self.cfg, []
        for name in shard_names(path, split, combine):
            prefix = binarised_prefix(path, name, cfg.source_lang, cfg.target_lang)
            if prefix is None:
                break
            sides = (cfg.source_lang, self.dictionary), (cfg.target_lang, self.target_dictionary)
            found.append(Part(prefix, *(self._side(prefix, *side) for side in sides)))
        if not found:
            pair = f"{cfg.source_lang}-{cfg.target_lang}"
            raise UserError(f"{path}: no binarised {split} set for {pair} (looked for {split}.{pair}.*)")
        for part in found:
            one, other = part.source, part.target
            if other is not None and len(one) != len(other):
                raise UserError(
                    f"{part.prefix}*: {len(one)} source but {len(other)} target instances; prepare it again"
                )
            for lang, side in ((cfg.source_lang, part.source), (cfg.target_lang, part.target)):
                number = None if side is None else side.first_without_bos()
                if number is not None:
                    raise UserError(
                        f"{part.prefix}{lang}: instance {number} does not begin with <s>: write every sentence as '<s> "
                        "words </s>' (gtransformer prepare does), or give --prepend-bos for one sentence a line"
                    )
            self._check_prefix(part)
        return found

    def _check_prefix(self, part: Part) -> None:
        """Raise UserError where target sentences lack the word that the model is given at their beginning."""
        if self.prefix is None or part.target is None or not len(part.target):
            return
        begins = part.target[0][:2].tolist()
        if begins != [self.target_dictionary.bos(), self.prefix]:
            word = self.target_dictionary[self.prefix]
            raise UserError(
                f"{part.prefix}{self.cfg.target_lang}: its sentences do not begin with {word}, as the model's do; "
                "prepare the corpus with --vocabulary and the directory of the converted model"
            )

    def typed(self, tokens, lengths, constraints=None) -> DocumentPairDataset:
        """Return a dataset of typed or piped lines (fairseq-interactive), each a list of ``<s> words </s>``.

        A line that does not begin with ``<s>`` is taken as one sentence, with a warning. Raises UserError for an
        ``--instances`` that would group lines.
        """
        if self.options.scheme.kind != STORED:
            raise UserError(
                f"--instances {self.cfg.instances}: lines that are typed or piped in are translated as they are, each "
                "as one instance; give --instances stored, and write the sentences of an instance on one line"
            )
        opened = tokens if self.cfg.prepend_bos else [self._opened(line) for line in tokens]
        lengths = lengths if self.cfg.prepend_bos else list(map(len, opened))
        source = self.instances(opened, lengths, self.dictionary)
        return DocumentPairDataset(
            source, None, self.dictionary, self.target_dictionary, self.language, constraints=constraints
        )

    def _opened(self, line: torch.Tensor) -> torch.Tensor:
        """Return a typed line (length,) int64 as an instance; fairseq has appended another ``</s>``."""
        bos, eos = self.dictionary.bos(), self.dictionary.eos()
        if len(line) and line[0] == bos:
            return line
        begin = self.dictionary.string(line[:8], bpe_symbol=None)
        logger.warning(
            "the input line '%s ...' does not begin with <s> and is taken as one sentence: write every sentence as "
            "'<s> words </s>', or give --prepend-bos for one sentence a line", begin,
        )  # fmt: skip
        closed = len(line) > 1 and line[-2] == eos
        return torch.cat([line.new_tensor([bos]), line, line.new_tensor([] if closed else [eos])])

    def instances(self, dataset, sizes, dictionary: Dictionary) -> InstanceDataset:
        """Return the stored instances of one side."""
        return InstanceDataset(dataset, sizes, dictionary.bos(), dictionary.eos(), self.cfg.prepend_bos)

    def pairs(
        self, source: FairseqDataset, target: FairseqDataset | None, dropout: bool, **options
    ) -> DocumentPairDataset:
        """Return both sides in the form that the model reads; ``dropout``: with word dropout if the options have it."""
        noise = target_noise = None
        if dropout and self.cfg.doc_noise_mask > 0:
            sides = self.dictionary, self.target_dictionary
            noise, target_noise = (WordDropout(self.cfg.doc_noise_mask, *self._maskable(one)) for one in sides)
        return DocumentPairDataset(
            source,
            target,
            self.dictionary,
            self.target_dictionary,
            self.language,
            word_dropout=noise,
            target_word_dropout=target_noise,
            word_dropout_epochs=self.cfg.doc_noise_epochs,
            left_pad_target=False,
            **options,
        )

    def _maskable(self, dictionary: Dictionary) -> tuple[int, torch.Tensor, int]:
        """Return one side's ``<mask>``, its symbols that are never replaced, and the seed."""
        d, mask = dictionary, dictionary.index("<mask>")
        languages = [d.index(f"[{lang}]") for lang in self.languages]
        prefix = None if self.prefix is None else self.target_dictionary[self.prefix]
        languages += never_text(d, prefix, (self.cfg.source_lang, self.cfg.target_lang))  # those of converted models
        return mask, torch.tensor([d.bos(), d.pad(), d.eos(), d.unk(), mask, *languages]), self.cfg.doc_seed

    def _side(self, prefix: str, lang: str, dictionary: Dictionary) -> InstanceDataset | None:
        if not os.path.exists(f"{prefix}{lang}.idx"):
            return None
        dataset = MMapIndexedDataset(f"{prefix}{lang}")
        instances = self.instances(dataset, dataset.sizes, dictionary)
        token = instances.invalid_token(len(dictionary))
        if token is not None:
            raise UserError(
                f"{prefix}{lang}.bin: holds the word number {token}, but dict.{lang}.txt ends at "
                f"{len(dictionary) - 1}: it was made with another dictionary; prepare the corpus again"
            )
        return instances

    def _check_dictionaries(self, first: str, path: str) -> None:
        """Raise UserError for data with another dictionary; parts of one corpus may have no dictionary."""
        for lang in (self.cfg.source_lang, self.cfg.target_lang):
            ours, theirs = (Path(one) / f"dict.{lang}.txt" for one in (first, path))
            if theirs.is_file() and theirs.read_bytes() != ours.read_bytes():
                raise UserError(
                    f"{theirs}: another dictionary than {ours}, so the two cannot be trained on together; prepare one "
                    "of them with --vocabulary and the other's folder"
                )

    def _group(self, part: Part, limit: int | None, testing: bool) -> Grouped:
        """Return the instances of a part. Raise UserError for a sentence that is longer than the strategy's windows."""
        options, scheme = self.options, self.options.scheme
        if scheme.kind == STORED and not options.whole_documents:
            return stored_as_they_are(part, self.numbered)
        view = part.sentences()
        if options.whole_documents:
            columns = (column.tolist() for column in (view.source.lengths, view.document, view.position))
            for length, document, position in zip(*columns, strict=True):
                options.strategy.check_sentence(length, document + 1, position + 1)
            runs = np.array(view.runs(), dtype=np.int64).reshape(-1, 2)
            return regrouped(view, Instances(runs, runs, runs))
        target = None if view.target is None else view.target.lengths
        if testing and KINDS[scheme.kind].by_target:
            target = None
        made = build_instances(scheme, view.source.lengths, target, view.runs())
        if limit is not None:
            made = within_limit(view, made, limit)
        if self.cfg.first_pass is not None:  # the target context comes from first translations, not from the corpus
            made = replace(made, target=made.current)
        return regrouped(view, made)


def shard_names(path: str, split: str, combine: bool) -> list[str]:
    """Return ``split``, and ``split1``, ``split2``, ... if shards are combined."""
    if not combine:
        return [split]
    count = sum(1 for _ in Path(path).glob(f"{split}*.idx"))
    return [split, *(f"{split}{i}" for i in range(1, count + 1))]


def binarised_prefix(path: str, split: str, source: str, target: str) -> str | None:
    """Return ``path/split.source-target.``, or that of the reverse pair, whichever exists."""
    for pair in (f"{source}-{target}", f"{target}-{source}"):
        prefix = os.path.join(path, f"{split}.{pair}.")
        if os.path.exists(f"{prefix}{source}.idx"):
            return prefix
    return None


@dataclass(frozen=True)
class Part:
    """One binarised set. ``prefix``: ``DIRECTORY/SPLIT.SOURCE-TARGET.`` of its files."""

    prefix: str
    source: InstanceDataset
    target: InstanceDataset | None

    @property
    def instance_index(self) -> Path:
        """Return the path of its instance index, which may not exist."""
        return Path(f"{self.prefix}instances.json")

    def sentences(self) -> Sentences:
        """Return the view of its sentences. Raise UserError if its files do not belong together."""
        instance_index = InstanceIndex.load(self.instance_index) if self.instance_index.is_file() else None
        return Sentences(self.source, self.target, self.prefix, instance_index, self.instance_index)


@dataclass(frozen=True)
class Grouped:
    """The instances of one part.

    ``context`` (instances,), ``documents`` (instances, 2) and ``numbers`` (instances,) are those of
    ``DocumentPairDataset``, None if not needed. ``spans`` reads the locations of instances.
    """

    source: FairseqDataset
    target: FairseqDataset | None
    context: np.ndarray | None
    documents: np.ndarray | None
    numbers: np.ndarray | None
    spans: partial[list[SentenceSpan] | None]


def stored_as_they_are(part: Part, placed: bool) -> Grouped:
    """Return the instances on disk; ``placed``: with their documents, which needs the instance index."""
    number, documents, numbers = len(part.source), None, None
    spans = partial(stored_spans, part.instance_index, part.source)
    if placed:
        known = spans() or [SentenceSpan(one, 0, 1) for one in range(number)]
        documents = np.array([(span.document, span.first_sentence) for span in known], dtype=np.int64).reshape(-1, 2)
        numbers = documents[:, 1] + 1
    return Grouped(part.source, part.target, None, documents, numbers, spans)


def regrouped(view: Sentences, made: Instances) -> Grouped:
    """Return instances over the view of a part's sentences."""
    source, target, context = RunDataset(view.source, made.source), None, None
    first = made.current[:, 0]
    if view.target is not None:
        target = RunDataset(view.target, made.target)
        context = tokens_between(view.target.lengths, np.stack([made.target[:, 0], first], 1))
    documents = np.stack([view.document[first], view.position[first]], 1)
    numbers = view.position[made.source[:, 0]] + 1
    return Grouped(source, target, context, documents, numbers, partial(regrouped_spans, view, made))


def weighted(group: Grouped, weight: float, draw: np.random.RandomState | None) -> list[Grouped]:
    """Return instances ``weight`` times: whole copies, and a random part of them, at least one, for what is left.

    ``draw`` is needed unless ``weight`` is a whole number.
    """
    copies, part = divmod(weight, 1)
    found = [group] * int(copies)
    if part and (total := len(group.source)):
        index = np.sort(draw.choice(total, max(1, round(part * total)), replace=False))
        source, target = (one and Chosen(one, index) for one in (group.source, group.target))
        columns = (one if one is None else one[index] for one in (group.context, group.documents, group.numbers))
        found.append(Grouped(source, target, *columns, partial(chosen_spans, group.spans, index)))
    return found


def chosen_spans(spans: Callable[[], list[SentenceSpan] | None], index: np.ndarray) -> list[SentenceSpan] | None:
    """Return some of the spans."""
    found = spans()
    return None if found is None else [found[number] for number in index.tolist()]


def within_limit(view: Sentences, made: Instances, most: int) -> Instances:
    """Return the instances with at most ``most`` tokens in the current part and in the context, on each side.

    ``<s>`` and ``</s>`` are not counted. Zhang et al. (2018) also leave out longer ones; their code's limit is 256.
    """
    kept = np.ones(len(made), dtype=bool)
    for side, ranges in ((view.source, made.source), (view.target, made.target)):
        for part in (np.stack([ranges[:, 0], made.current[:, 0]], 1), made.current):
            kept &= side is None or tokens_between(side.lengths - BOUNDARY_TOKENS, part) <= most
    logger.info("%d of %d instances left out (--max-pair-tokens %d)", len(kept) - kept.sum(), len(kept), most)
    return Instances(made.source[kept], made.target[kept], made.current[kept])


def joined(datasets: list[FairseqDataset]) -> FairseqDataset:
    """Concatenate datasets."""
    return datasets[0] if len(datasets) == 1 else ConcatDataset(datasets)


def following(documents: list[np.ndarray]) -> np.ndarray:
    """Concatenate (instances, 2) documents and positions in them; the numbers of documents continue over parts."""
    counted, begin = [], 0
    for one in documents:
        counted.append(one + [begin, 0])
        begin += int(one[:, 0].max(initial=-1)) + 1
    return np.concatenate(counted)


def languages_of(folder: Path, source: str | None, target: str | None) -> tuple[str | None, str | None]:
    """Return source and target language; those not given are from the first pair in a data directory."""
    if (source is not None and target is not None) or not folder.is_dir():
        return source, target
    pair = data_utils.infer_language_pair(str(folder))
    if source == pair[1] or target == pair[0]:
        pair = pair[::-1]
    return source or pair[0], target or pair[1]


def set_ratio(model: DictConfig, documents: DocumentPairDataset) -> None:
    """Write the mean over instances of source tokens over target tokens into the model's options.

    ``<s>`` and ``</s>`` are counted on both sides. fairseq saves the options in its checkpoints.
    """
    with open_dict(model):
        model.length_ratio = float(np.mean(documents.src_sizes / documents.tgt_sizes))
    logger.info("--length-ratio %.6f: mean over %d training instances", model.length_ratio, len(documents))


def window_costs(strategy: Strategy, sources: Sequence[RunDataset]) -> np.ndarray:
    """Return the tokens that each document counts in a batch, (documents,) int64: those of its longest window."""
    costs = [
        strategy.cost(source.sentences.lengths[first:last].tolist())
        for source in sources
        for first, last in source.ranges.tolist()
    ]
    return np.array(costs, dtype=np.int64)
