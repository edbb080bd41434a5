"""Loading a split: its binarised files, its sentences grouped as the options say, and word dropout on top."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from fairseq import utils
from fairseq.data import ConcatDataset, Dictionary, FairseqDataset, data_utils

from gtransformer.data.batching import DOCUMENT
from gtransformer.data.document_dataset import DocumentPairDataset
from gtransformer.data.instances import STORED, WITH_CONTEXT, Grouping, Instances, group
from gtransformer.data.places import Place, regrouped_places, stored_places
from gtransformer.data.sentences import RunDataset, Sentences, StoredSide, tokens_between
from gtransformer.data.sidecar import Sidecar
from gtransformer.data.stored import InstanceDataset
from gtransformer.data.word_dropout import WordDropout
from gtransformer.errors import UserError
from gtransformer.tasks.config import TranslationDocConfig
from gtransformer.tasks.strategy import MakeInstances, strategy_of, walked_documents, window_costs

logger = logging.getLogger(__name__)


def grouping_of(cfg: TranslationDocConfig) -> Grouping:
    """What the options say about instances. Raises UserError where they contradict each other."""
    grouping = Grouping(str(cfg.instances), cfg.instance_tokens, cfg.context_sentences, cfg.target_context_sentences)
    grouping.check()
    return grouping


def check_loss(cfg: TranslationDocConfig) -> None:
    """Raise UserError for ``--context-loss off`` in training where no instance has context.

    Translating has no loss, and may have other instances than training.
    """
    kind = grouping_of(cfg).kind
    if cfg.context_loss == "off" and kind not in WITH_CONTEXT:
        raise UserError(
            f"--context-loss off: no instance of --instances {kind} has context; leave it out, or give "
            f"--instances {' or '.join(WITH_CONTEXT)}"
        )


@dataclass(frozen=True)
class Part:
    """One binarised set. ``prefix``: ``DIRECTORY/SPLIT.SOURCE-TARGET.`` of its files."""

    prefix: str
    source: StoredSide
    target: StoredSide | None

    @property
    def sidecar(self) -> Path:
        """Where its sidecar lies, if it has one."""
        return Path(f"{self.prefix}instances.json")

    def sentences(self) -> Sentences:
        """The view of its sentences. Raises UserError where its files do not belong together."""
        found = self.sidecar.is_file()
        sidecar = Sidecar.load(self.sidecar) if found else None
        return Sentences(self.source, self.target, self.prefix, sidecar, self.sidecar if found else None)


class Loader:
    """Makes datasets as a task's options say.

    Args:
        dictionary, target_dictionary: of the two sides.
        language: index of the target language symbol.
        languages: the language symbols, which word dropout leaves alone.
    """

    def __init__(
        self,
        cfg: TranslationDocConfig,
        dictionary: Dictionary,
        target_dictionary: Dictionary,
        language: int,
        languages: Sequence[str],
    ):
        self.cfg, self.dictionary, self.target_dictionary = cfg, dictionary, target_dictionary
        self.language, self.languages = language, languages

    def load(self, split: str, epoch: int, combine: bool) -> DocumentPairDataset:
        """A split (for training, the epoch's shard); UserError for files that are missing or unfit."""
        grouping = grouping_of(self.cfg)
        paths = utils.split_paths(self.cfg.data)
        training = split == self.cfg.train_subset
        if training:
            check_loss(self.cfg)
        path = paths[(epoch - 1) % len(paths)] if training else paths[0]
        parts = self.parts(path, split, combine)
        logger.info("%s %s %d instances", path, split, sum(len(part.source.instances) for part in parts))
        strategy = strategy_of(self.cfg, grouping)
        walked = walked_documents(strategy)
        groups = [self._group(part, grouping, walked) for part in parts]
        source = joined([one.source for one in groups])
        target = None if groups[0].target is None else joined([one.target for one in groups])
        if walked is not None or grouping.kind != STORED:
            how = f"--instances {grouping.kind}" if walked is None else f"--strategy {strategy.kind}"
            logger.info("%s %s %d instances by %s", path, split, len(source), how)
        masked = self.cfg.context_loss == "off" and grouping.kind in WITH_CONTEXT and target is not None
        return self.pairs(
            source,
            target,
            dropout=training,
            shuffle=split != "test",
            context=np.concatenate([one.context for one in groups]) if masked else None,
            documents=following([one.documents for one in groups]) if self.cfg.batch_order == DOCUMENT else None,
            places=places_of(groups, grouping),
            costs=None if walked is None else window_costs(strategy, [one.source for one in groups]),
        )

    def parts(self, path: str, split: str, combine: bool) -> list[Part]:
        """The binarised sets of a split in a data directory; several where shards are combined."""
        cfg, found = self.cfg, []
        for name in shard_names(path, split, combine):
            prefix = binarised_prefix(path, name, cfg.source_lang, cfg.target_lang)
            source = prefix and self._side(prefix, cfg.source_lang, self.dictionary)
            if not source:
                break
            found.append(Part(prefix, source, self._side(prefix, cfg.target_lang, self.target_dictionary)))
        if not found:
            pair = f"{cfg.source_lang}-{cfg.target_lang}"
            raise UserError(f"{path}: no binarised {split} set for {pair} (looked for {split}.{pair}.*)")
        for part in found:
            one, other = part.source.instances, part.target and part.target.instances
            if other is not None and len(one) != len(other):
                raise UserError(
                    f"{part.prefix}*: {len(one)} source but {len(other)} target instances; prepare it again"
                )
            for lang, side in ((cfg.source_lang, part.source), (cfg.target_lang, part.target)):
                number = None if side is None else side.instances.first_unopened(side.file)
                if number is not None:
                    raise UserError(
                        f"{part.prefix}{lang}: instance {number} does not begin with <s>: write every sentence as '<s> "
                        "words </s>' (scripts/prepare.sh does), or give --prepend-bos for one sentence a line"
                    )
        if any(part.target is None for part in found):
            found = [Part(part.prefix, part.source, None) for part in found]
        return found

    def typed(self, tokens, lengths, constraints=None) -> DocumentPairDataset:
        """Instances typed or piped in (fairseq-interactive), each a list of ``<s> words </s>``.

        Raises UserError for a line that does not begin with ``<s>``, and for lines that are to be grouped anew.
        """
        if grouping_of(self.cfg).kind != STORED:
            raise UserError(
                f"--instances {self.cfg.instances}: lines that are typed or piped in are translated as they are, each "
                "as one instance; give --instances stored, and write together what is to stand together"
            )
        source = self.instances(tokens, lengths, self.dictionary)
        number = source.first_unopened()
        if number is not None:
            begin = self.dictionary.string(tokens[number][:8], bpe_symbol=None)
            raise UserError(
                f"the input line '{begin} ...' does not begin with <s>: write every sentence as '<s> words </s>', or "
                "give --prepend-bos for one sentence a line"
            )
        return DocumentPairDataset(
            source, None, self.dictionary, self.target_dictionary, self.language, constraints=constraints
        )

    def instances(self, dataset, sizes, dictionary: Dictionary) -> InstanceDataset:
        """One side's instances as they are stored."""
        return InstanceDataset(dataset, sizes, dictionary.bos(), dictionary.eos(), self.cfg.prepend_bos)

    def pairs(
        self, source: FairseqDataset, target: FairseqDataset | None, dropout: bool, **options
    ) -> DocumentPairDataset:
        """Both sides as the model gets them; ``dropout``: with word dropout, if there is to be any."""
        noise = target_noise = None
        if dropout and self.cfg.doc_noise_mask > 0:
            noise, target_noise = self.word_dropout(self.dictionary), self.word_dropout(self.target_dictionary)
        return DocumentPairDataset(
            source,
            target,
            self.dictionary,
            self.target_dictionary,
            self.language,
            word_dropout=noise,
            target_word_dropout=target_noise,
            word_dropout_epochs=self.cfg.doc_noise_epochs,
            left_pad_source=self.cfg.left_pad_source,
            left_pad_target=self.cfg.left_pad_target,
            pad_to_multiple=self.cfg.required_seq_len_multiple,
            **options,
        )

    def word_dropout(self, dictionary: Dictionary) -> WordDropout:
        """``--doc-noise-mask`` for one side: its own ``<mask>``, and its own symbols that are never replaced."""
        d, mask = dictionary, dictionary.index("<mask>")
        languages = [d.index(f"[{lang}]") for lang in self.languages]
        protected = torch.tensor([d.bos(), d.pad(), d.eos(), d.unk(), mask, *languages])
        return WordDropout(self.cfg.doc_noise_mask, mask, protected, self.cfg.doc_seed)

    def _side(self, prefix: str, lang: str, dictionary: Dictionary) -> StoredSide | None:
        dataset = data_utils.load_indexed_dataset(prefix + lang, dictionary, self.cfg.dataset_impl)
        if dataset is None:
            return None
        return StoredSide(self.instances(dataset, dataset.sizes, dictionary), Path(f"{prefix}{lang}.bin"))

    def _group(self, part: Part, grouping: Grouping, walked: MakeInstances | None) -> Grouped:
        if walked is not None:
            view = part.sentences()
            return regrouped(view, walked(view))
        if grouping.kind == STORED:
            return stored_as_they_are(part, self.cfg.batch_order == DOCUMENT)
        view = part.sentences()
        target = None if view.target is None else view.target.lengths
        return regrouped(view, group(grouping, view.source.lengths, target, view.runs()))


@dataclass(frozen=True)
class Grouped:
    """The instances of one part.

    ``context`` (instances,) and ``documents`` (instances, 2) as ``DocumentPairDataset`` takes them, None where nobody
    asks for them; ``places`` reads where the instances stand.
    """

    source: FairseqDataset
    target: FairseqDataset | None
    context: np.ndarray | None
    documents: np.ndarray | None
    places: partial[list[Place] | None]


def stored_as_they_are(part: Part, ordered: bool) -> Grouped:
    """The instances on disk; ``ordered``: with their documents, which the sidecar has to be read for."""
    number, documents = len(part.source.instances), None
    places = partial(stored_places, part.sidecar, number)
    if ordered:
        known = places() or [Place(one, 0, 1) for one in range(number)]
        documents = np.array([(place.document, place.first_sentence) for place in known], dtype=np.int64)
    target = None if part.target is None else part.target.instances
    return Grouped(part.source.instances, target, None, documents, places)


def regrouped(view: Sentences, made: Instances) -> Grouped:
    """Instances over the view of a part's sentences."""
    source, target, context = RunDataset(view.source, made.source), None, None
    first = made.current[:, 0]
    if view.target is not None:
        target = RunDataset(view.target, made.target)
        context = tokens_between(view.target.lengths, np.stack([made.target[:, 0], first], 1))
    documents = np.stack([view.document[first], view.position[first]], 1)
    return Grouped(source, target, context, documents, partial(regrouped_places, view, made))


def places_of(groups: list[Grouped], grouping: Grouping) -> Callable[[], list[Place] | None] | None:
    """What reads the places of a split's instances: one part's; of several parts that hold stored instances, none.

    Of several that were grouped anew it raises UserError: their translations could not be put back.
    """
    if len(groups) == 1:
        return groups[0].places
    return None if grouping.kind == STORED else partial(no_places, grouping.kind)


def no_places(kind: str) -> list[Place]:
    """Raise UserError."""
    raise UserError(
        f"--gen-output: translations of --instances {kind} cannot be put back where several sets are combined; "
        "translate one set at a time, or leave --gen-output out"
    )


def joined(datasets: list[FairseqDataset]) -> FairseqDataset:
    """One after the other."""
    return datasets[0] if len(datasets) == 1 else ConcatDataset(datasets)


def following(documents: list[np.ndarray]) -> np.ndarray:
    """(instances, 2) documents and places in them of several parts, documents counted on from part to part."""
    counted, begin = [], 0
    for one in documents:
        counted.append(one + [begin, 0])
        begin += int(one[:, 0].max(initial=-1)) + 1
    return np.concatenate(counted)


def shard_names(path: str, split: str, combine: bool) -> list[str]:
    """``split``, and ``split1``, ``split2``, ... if shards are to be combined."""
    if not combine:
        return [split]
    count = sum(1 for _ in Path(path).glob(f"{split}*.idx"))
    return [split, *(f"{split}{i}" for i in range(1, count + 1))]


def binarised_prefix(path: str, split: str, source: str, target: str) -> str | None:
    """``path/split.source-target.`` or the reverse pair, whichever exists."""
    for pair in (f"{source}-{target}", f"{target}-{source}"):
        prefix = os.path.join(path, f"{split}.{pair}.")
        if os.path.exists(f"{prefix}{source}.idx"):
            return prefix
    return None
