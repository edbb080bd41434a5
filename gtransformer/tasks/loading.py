"""Loading a split: its binarised files, its sentences grouped as the options say, and word dropout on top."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from fairseq import utils
from fairseq.data import Dictionary, FairseqDataset, data_utils

from gtransformer.data.batching import ADDED, DOCUMENT, EVERYTHING, GLOBAL, NOTHING
from gtransformer.data.document_dataset import DocumentPairDataset
from gtransformer.data.instances import DRAWN, STORED, WITH_CONTEXT, Grouping, group
from gtransformer.data.stored import InstanceDataset, check_binary
from gtransformer.data.word_dropout import CurrentWordDropout, WordDropout
from gtransformer.errors import UserError
from gtransformer.tasks.config import TranslationDocConfig
from gtransformer.tasks.grouped import (
    Grouped,
    Part,
    check_limit,
    following,
    joined,
    places_of,
    regrouped,
    stored_as_they_are,
    within_limit,
)
from gtransformer.tasks.grouping_options import check_training, drawn_anew, grouping_of
from gtransformer.tasks.strategy import MakeInstances, strategy_of, walked_documents, window_costs

logger = logging.getLogger(__name__)


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
            check_training(self.cfg)
            check_limit(self.cfg.max_pair_tokens, grouping)
        path = paths[(epoch - 1) % len(paths)] if training else paths[0]
        further = utils.split_paths(self.cfg.more_training_data or "") if training else []
        parts = []
        for one in filter(None, [path, *further]):
            if one != paths[0]:
                self._check_dictionaries(paths[0], one)
            found = self.parts(one, split, combine)
            logger.info("%s %s %d instances", one, split, sum(len(part.source) for part in found))
            parts += found
            if (found[0].target is None) != (parts[0].target is None):
                raise UserError(f"{one}: of it and {path} only one has a target side; prepare both with two sides")
        strategy = strategy_of(self.cfg, grouping)
        walked = walked_documents(strategy)
        limit = self.cfg.max_pair_tokens if training else None
        draw = None
        if training and drawn_anew(self.cfg):  # the same in all processes, and in a resumed epoch
            draw = np.random.RandomState([self.cfg.doc_seed % 2**32, epoch])
        exchange = draw if str(self.cfg.shuffled_context) == EVERYTHING else None
        lengths = draw if str(self.cfg.instance_lengths) == DRAWN else None
        testing = split.startswith("test")  # as in real use, where the source is all that there is
        groups = [self._group(part, grouping, walked, exchange, limit, lengths, testing) for part in parts]
        shuffled = str(self.cfg.shuffled_context) if training else NOTHING
        groups *= 2 if shuffled == ADDED else 1
        if training and not any(len(one.source) for one in groups):
            cause = f"; give more than --max-pair-tokens {limit}" if limit is not None else ": it holds no text"
            raise UserError(f"{path}: no instance is left of the {split} set{cause}")
        source = joined([one.source for one in groups])
        target = None if groups[0].target is None else joined([one.target for one in groups])
        if walked is not None or grouping.kind != STORED:
            how = f"--instances {grouping.kind}" if walked is None else f"--strategy {strategy.kind}"
            logger.info("%s %s %d instances by %s", path, split, len(source), how)
        masked = self.cfg.context_loss == "off" and grouping.kind in WITH_CONTEXT and target is not None
        documents = following([one.documents for one in groups]) if self.cfg.batch_order == DOCUMENT else None
        in_order = None
        if shuffled in (GLOBAL, ADDED):
            in_order = np.arange(len(documents)) < (len(documents) // 2 if shuffled == ADDED else 0)
            documents[~in_order] = draw.permutation(documents[~in_order])
        return self.pairs(
            source,
            target,
            dropout=training,
            shuffle=split != "test",
            context=np.concatenate([one.context for one in groups]) if masked else None,
            documents=documents,
            in_order=in_order,
            joined=training and self.cfg.join_documents,
            numbers=None if documents is None else np.concatenate([one.numbers for one in groups]),
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
            one, other = part.source, part.target
            if other is not None and len(one) != len(other):
                raise UserError(
                    f"{part.prefix}*: {len(one)} source but {len(other)} target instances; prepare it again"
                )
            for lang, side in ((cfg.source_lang, part.source), (cfg.target_lang, part.target)):
                number = None if side is None else side.first_unopened()
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

        A line that does not begin with ``<s>`` is taken as one sentence, with a warning: it must not end the session.
        Raises UserError for lines that are to be grouped anew.
        """
        if grouping_of(self.cfg).kind != STORED:
            raise UserError(
                f"--instances {self.cfg.instances}: lines that are typed or piped in are translated as they are, each "
                "as one instance; give --instances stored, and write together what is to stand together"
            )
        opened = tokens if self.cfg.prepend_bos else [self._opened(line) for line in tokens]
        lengths = lengths if self.cfg.prepend_bos else list(map(len, opened))
        source = self.instances(opened, lengths, self.dictionary)
        return DocumentPairDataset(
            source, None, self.dictionary, self.target_dictionary, self.language, constraints=constraints
        )

    def _opened(self, line: torch.Tensor) -> torch.Tensor:
        """A typed line (length,) int64 as an instance; fairseq has put a further ``</s>`` at its end."""
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
        """One side's instances as they are stored."""
        return InstanceDataset(dataset, sizes, dictionary.bos(), dictionary.eos(), self.cfg.prepend_bos)

    def pairs(
        self, source: FairseqDataset, target: FairseqDataset | None, dropout: bool, **options
    ) -> DocumentPairDataset:
        """Both sides as the model gets them; ``dropout``: with word dropout, if there is to be any."""
        noise = target_noise = current = None
        if dropout and self.cfg.doc_noise_mask > 0:
            noise, target_noise = self.word_dropout(self.dictionary), self.word_dropout(self.target_dictionary)
        if dropout and self.cfg.coword_dropout > 0:
            last, d = grouping_of(self.cfg).kind in WITH_CONTEXT, self.dictionary
            current = CurrentWordDropout(self.cfg.coword_dropout, *self._maskable(d), d.bos(), last)
        return DocumentPairDataset(
            source,
            target,
            self.dictionary,
            self.target_dictionary,
            self.language,
            word_dropout=noise,
            target_word_dropout=target_noise,
            current_dropout=current,
            word_dropout_epochs=self.cfg.doc_noise_epochs,
            left_pad_source=self.cfg.left_pad_source,
            left_pad_target=self.cfg.left_pad_target,
            pad_to_multiple=self.cfg.required_seq_len_multiple,
            **options,
        )

    def word_dropout(self, dictionary: Dictionary) -> WordDropout:
        """``--doc-noise-mask`` for one side."""
        return WordDropout(self.cfg.doc_noise_mask, *self._maskable(dictionary))

    def _maskable(self, dictionary: Dictionary) -> tuple[int, torch.Tensor, int]:
        """One side's own ``<mask>``, its own symbols that are never replaced, and the seed."""
        d, mask = dictionary, dictionary.index("<mask>")
        languages = [d.index(f"[{lang}]") for lang in self.languages]
        return mask, torch.tensor([d.bos(), d.pad(), d.eos(), d.unk(), mask, *languages]), self.cfg.doc_seed

    def _side(self, prefix: str, lang: str, dictionary: Dictionary) -> InstanceDataset | None:
        if os.path.exists(f"{prefix}{lang}.idx"):
            check_binary(f"{prefix}{lang}")
        dataset = data_utils.load_indexed_dataset(prefix + lang, dictionary, self.cfg.dataset_impl)
        if dataset is None:
            return None
        instances = self.instances(dataset, dataset.sizes, dictionary)
        token = instances.foreign_token(len(dictionary))
        if token is not None:
            raise UserError(
                f"{prefix}{lang}.bin: holds the word number {token}, but dict.{lang}.txt ends at "
                f"{len(dictionary) - 1}: it was made with another dictionary; prepare the corpus again"
            )
        return instances

    def _check_dictionaries(self, first: str, path: str) -> None:
        """Raise UserError for data whose words have other numbers; parts of one corpus may have no dictionary."""
        for lang in (self.cfg.source_lang, self.cfg.target_lang):
            ours, theirs = (Path(one) / f"dict.{lang}.txt" for one in (first, path))
            if theirs.is_file() and theirs.read_bytes() != ours.read_bytes():
                raise UserError(
                    f"{theirs}: another dictionary than {ours}, so the two cannot be trained on together; prepare one "
                    "of them with --vocabulary and the other's folder"
                )

    def _group(
        self,
        part: Part,
        grouping: Grouping,
        walked: MakeInstances | None,
        exchange: np.random.RandomState | None,
        limit: int | None,
        lengths: np.random.RandomState | None,
        testing: bool,
    ) -> Grouped:
        if walked is not None:
            view = part.sentences()
            return regrouped(view, walked(view))
        if grouping.kind == STORED:
            return stored_as_they_are(part, self.cfg.batch_order == DOCUMENT)
        view = part.sentences()
        if exchange is not None:
            view.exchange(exchange)
        target = None if view.target is None else view.target.lengths
        if grouping.kind == "parts" and testing:
            target = None
        made = group(grouping, view.source.lengths, target, view.runs(), lengths)
        if limit is not None:
            made = within_limit(view, made, limit)
        if self.cfg.first_pass is not None:  # the target's context is not the corpus's: it is translated first
            made = replace(made, target=made.current)
        return regrouped(view, made)


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
