"""First translations of a split, by a sentence model or from a file: the context of the second pass."""

from __future__ import annotations

import logging
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.data.instances import STORED, InstanceScheme
from gtransformer.data.sides import Sides
from gtransformer.data.translations import read_documents
from gtransformer.errors import UserError
from gtransformer.files import CHECKPOINT_ENDING
from gtransformer.plugin.document_dataset import DocumentPairDataset
from gtransformer.search.generator import in_batches
from gtransformer.search.strategies import ON
from gtransformer.tasks.checkpoints import read_settings
from gtransformer.tasks.loading import binarised_prefix
from gtransformer.tasks.trained import AS_GIVEN, load_trained

logger = logging.getLogger(__name__)

MAX_TOKENS = 4096  # source tokens of a batch
Location = tuple[int, int]  # document and sentence in it, from 0


class FirstPass:
    """The contexts of ``SecondPass``: called with a batch, it returns the prefixes of its translations.

    Args:
        dataset: its instances have one target sentence, and the source sentence with previous ones.
        translations: the words of every sentence of the split, (n,) int64, by its location.
        dictionary: target dictionary.
    """

    def __init__(self, dataset: DocumentPairDataset, translations: dict[Location, Tensor], dictionary: Dictionary):
        self.spans, self.source = dataset.spans(), dataset.src.ranges
        self.translations, self.dictionary = translations, dictionary

    def __call__(self, sample: dict) -> list[Tensor]:
        found = []
        for number in sample["id"].tolist():
            span, (first, last) = self.spans[number], self.source[number].tolist()
            at = span.first_sentence
            before = [self.translations[span.document, one] for one in range(at - (last - first - 1), at)]
            found.append(with_boundaries(before, self.dictionary))
        return found


def with_boundaries(sentences: Sequence[Tensor], dictionary: Dictionary) -> Tensor:
    """Concatenate ``<s> words </s>`` of each sentence: (length,) int64."""
    bos, eos = torch.tensor([dictionary.bos()]), torch.tensor([dictionary.eos()])
    return torch.cat([bos[:0], *(part for words in sentences for part in (bos, words, eos))])


def open_first_pass(task: FairseqTask, models: Sequence[nn.Module], args: Namespace) -> FirstPass:
    """Read the first translations of the split that a task has loaded, or make them with a sentence model.

    Args:
        models: of the second pass.
        args: options of search.

    Raises UserError if no data are loaded, and for translations of another split.
    """
    path = Path(task.cfg.first_pass)
    if len(task.datasets) != 1:
        raise UserError(f"--first-pass {path}: translates one split of a prepared corpus at a time (--gen-subset)")
    ((split, dataset),), began = task.datasets.items(), time.monotonic()
    if path.suffix == CHECKPOINT_ENDING:
        model = SentenceModel(path, task, next(models[0].parameters()))
        # Each sentence is the last one of an instance's source.
        sources = [dataset.src.sentences.tokens(last - 1, last) for last in dataset.src.ranges[:, 1].tolist()]
        spans = [(span.document, span.first_sentence) for span in dataset.spans()]
        translations = dict(zip(spans, model.translate(sources, args), strict=True))
    else:
        words = read_words(path, task, split)
        translations = {sentence: target_words(text, task.sides) for sentence, text in words.items()}
    logger.info("first pass: %d sentences by %s in %.1fs", len(translations), path, time.monotonic() - began)
    return FirstPass(dataset, translations, task.target_dictionary)


def target_words(words: Sequence[str], sides: Sides) -> Tensor:
    """Return the indices (n,) int64 of a translation's subwords, after the prefix of all sentences if it lacks it."""
    found = sides.indices(words, sides.target)
    if sides.prefix is not None and found[:1] != [sides.prefix]:
        found = [sides.prefix, *found]
    return torch.tensor(found, dtype=torch.int64)


def read_words(path: Path, task: FairseqTask, split: str) -> dict[Location, list[str]]:
    """Read the subwords of every sentence of a split from ``PREFIX.jsonl``."""
    data = utils.split_paths(task.cfg.data)[0]
    prefix = binarised_prefix(data, split, task.cfg.source_lang, task.cfg.target_lang)
    documents = read_documents(path, InstanceIndex.load(f"{prefix}instances.json"))
    return {(number, at): (text or "").split() for number, one in enumerate(documents) for at, text in enumerate(one)}


class SentenceModel:
    """A model that translates single sentences, ``<s> words </s>``.

    Args:
        checkpoint: of a model of single sentences.
        task: a task translation_doc with the same languages; its data directory has the dictionaries.
        like: a parameter of the model of the second pass, for device and type.

    Raises UserError for another kind of model, another language pair or another vocabulary.
    """

    def __init__(self, checkpoint: Path, task: FairseqTask, like: Tensor):
        pair = task.cfg.source_lang, task.cfg.target_lang
        check_sentence_model(read_settings(checkpoint).get("task") or {}, f"--first-pass {checkpoint}", pair)
        model, self.task = load_trained(
            checkpoint,
            data=task.cfg.data,
            source_lang=task.cfg.source_lang,
            target_lang=task.cfg.target_lang,
            langs=",".join(task.langs),
            sentence_rule=ON,
            **AS_GIVEN,
        )
        self.model: nn.Module = model.to(like)
        model.decoder.hold_weights()

    @torch.no_grad()
    def translate(self, sources: Sequence[Tensor], args: Namespace) -> list[Tensor]:
        """Return the best translation of every source (length,) int64: its words (n,) int64, on the CPU.

        ``args``: options of search.
        """
        generator, lengths = self.task.build_generator([self.model], args), [len(one) for one in sources]
        found: list[Tensor] = [torch.zeros(0, dtype=torch.int64)] * len(sources)
        for number, nbest in in_batches(generator, sources, lengths, MAX_TOKENS):
            tokens = nbest[0]["tokens"].cpu()
            found[number] = tokens[: int(tokens.eq(self.task.target_dictionary.eos()).nonzero()[0])]
        return found


def check_sentence_model(task: Mapping[str, Any], where: str, wanted: tuple[str, str] | None = None) -> None:
    """Raise UserError if a model is no sentence model of a language pair, by the options of its task.

    Instances that were taken as prepared are accepted: their length is not known.

    Args:
        where: for messages.
        wanted: the language pair; None if it has been checked already.
    """
    pair = task.get("source_lang"), task.get("target_lang")
    if wanted is not None and None not in pair and pair != wanted:
        raise UserError(
            f"{where}: translates {'-'.join(pair)}, but the data are {'-'.join(wanted)}; give a model of the same "
            "languages"
        )
    scheme = InstanceScheme.stored_in(task)
    if scheme.kind != STORED and scheme.max_sentences != 1:
        raise UserError(
            f"{where}: trained on more than single sentences (--instances {scheme.kind}); give a sentence model, "
            "trained with --instances disjoint --context-sentences 0"
        )
