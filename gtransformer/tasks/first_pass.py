"""First translations of a split, by a sentence model or from a file: what the second pass writes behind."""

from __future__ import annotations

import logging
import time
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from gtransformer.data.document_dataset import DocumentPairDataset
from gtransformer.data.instances import STORED, InstanceScheme
from gtransformer.data.sentences import RunDataset
from gtransformer.data.sidecar import Sidecar, join
from gtransformer.data.translations import read_documents
from gtransformer.errors import UserError
from gtransformer.models.common.model import needs_of
from gtransformer.search.beam import decodes_stepwise
from gtransformer.search.strategies import ON
from gtransformer.tasks.checkpoints import read_settings
from gtransformer.tasks.loading import binarised_prefix
from gtransformer.tasks.trained import AS_GIVEN, in_batches, load_trained

logger = logging.getLogger(__name__)


CHECKPOINT, TRANSLATIONS = ".pt", ".jsonl"  # endings of what --first-pass names; other files are plain text

# Reads and encodes plain text: (file, prepared corpus, language, sentences of each document, what must fit it). The
# package sets it (``gtransformer/__init__.py``): preparing text is not for the tasks.
read_plain_text: Callable[..., list[list[str]]] | None = None

Location = tuple[int, int]  # document and sentence in it, from 0


class FirstPass:
    """Calling it with a batch of the dataset gives what its translations begin with: ``SecondPass``'s contexts.

    Args:
        dataset: its instances hold one target sentence, and previous ones of the source.
        translations: the words of every sentence of the split, (n,) int64, by its place.
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
            found.append(marked(before, self.dictionary))
        return found


def marked(sentences: Sequence[Tensor], dictionary: Dictionary) -> Tensor:
    """(length,) int64 ``<s> words </s>`` for each sentence's words."""
    bos, eos = torch.tensor([dictionary.bos()]), torch.tensor([dictionary.eos()])
    return torch.cat([bos[:0], *(part for words in sentences for part in (bos, words, eos))])


def open_first_pass(task: FairseqTask, models: Sequence[nn.Module], args: Namespace) -> FirstPass:
    """The first translations of the one split that a task has loaded, which are made now if they are not there.

    Args:
        models: of the second pass.
        args: options of search.

    Raises UserError if ``--first-pass`` is not there, or is not of this split or model.
    """
    path = Path(task.cfg.first_pass)
    if len(task.datasets) != 1:
        raise UserError(
            f"--first-pass {path}: translates one split of a prepared corpus at a time; give one with --gen-subset, or "
            "leave it out"
        )
    if not path.is_file():
        raise UserError(f"--first-pass {path}: no such file; give a sentence model's checkpoint or its translations")
    ((split, dataset),) = task.datasets.items()
    if not isinstance(dataset.src, RunDataset):
        raise UserError(f"--first-pass {path}: translates one set at a time; leave --combine-valid-subsets out")
    if path.suffix == CHECKPOINT:
        model, began = SentenceModel(path, task, next(models[0].parameters())), time.monotonic()
        # Every sentence by itself; each is the last one of an instance's source.
        sources = [dataset.src.sentences.tokens(last - 1, last) for last in dataset.src.ranges[:, 1].tolist()]
        spans = [(span.document, span.first_sentence) for span in dataset.spans()]
        translations = dict(zip(spans, model.translate(sources, args), strict=True))
        logger.info("first pass: %d sentences by %s in %.1fs", len(translations), path, time.monotonic() - began)
    else:
        words = read_words(path, task, split)
        indices = WordIndices(task.target_dictionary, task)
        translations = {sentence: torch.tensor(indices(text), dtype=torch.int64) for sentence, text in words.items()}
        logger.info("first pass: %d sentences of %s", len(translations), path)
    return FirstPass(dataset, translations, task.target_dictionary)


def read_words(path: Path, task: FairseqTask, split: str) -> dict[Location, list[str]]:
    """The subwords of every sentence of a split in a file: ``PREFIX.jsonl``, or plain text, one sentence a line.

    Raises UserError where the file does not hold the sentences of the split.
    """
    data = Path(utils.split_paths(task.cfg.data)[0])
    prefix = binarised_prefix(str(data), split, task.cfg.source_lang, task.cfg.target_lang)
    sidecar = Sidecar.load(f"{prefix}instances.json")
    if path.suffix == TRANSLATIONS:
        documents = read_documents(path, sidecar)
    else:
        shape = [len(one) for one in join(sidecar, [[""] * count for *_, count in sidecar.instances])]
        documents = read_plain_text(path, data.parent, task.cfg.target_lang, shape, f"the split {split}")
    return {(number, at): (text or "").split() for number, one in enumerate(documents) for at, text in enumerate(one)}


class WordIndices:
    """Calling it with subwords gives their indices in a dictionary; text can never be a symbol of the model's own."""

    def __init__(self, dictionary: Dictionary, task: FairseqTask):
        self.dictionary = dictionary
        self.reserved = {
            dictionary.bos(), dictionary.pad(), dictionary.eos(), dictionary.index("<mask>"),
            *task.language_symbols(dictionary),
        }  # fmt: skip

    def __call__(self, words: Sequence[str]) -> list[int]:
        found = [self.dictionary.index(word) for word in words]
        return [self.dictionary.unk() if index in self.reserved else index for index in found]


class SentenceModel:
    """Translates single sentences, ``<s> words </s>``.

    Args:
        checkpoint: of a model of single sentences.
        task: a task translation_doc; its data directory has the dictionaries, its languages are to be the model's.
        like: a parameter of the model of the second pass: the same device and type.
        options: further ones that take the place of the checkpoint's.

    Raises UserError for another kind of model, and for one of another language pair or another vocabulary.
    """

    def __init__(self, checkpoint: Path, task: FairseqTask, like: Tensor, **options):
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
            **options,
        )
        if needs_of(model).numbers:
            raise UserError(
                f"--first-pass {checkpoint}: reads the numbers of sentences, which a first pass does not know; give "
                "another sentence model"
            )
        self.model: nn.Module = model.to(like)
        if decodes_stepwise(model):
            model.decoder.hold_weights()

    @torch.no_grad()
    def translate(self, sources: Sequence[Tensor], args: Namespace, max_tokens: int = 4096) -> list[Tensor]:
        """The best translation of every source (length,) int64: its words (n,) int64, without marks, on the CPU.

        What it is does not depend on ``max_tokens``, the source tokens of a batch. ``args``: options of search.
        """
        generator, lengths = self.task.build_generator([self.model], args), [len(one) for one in sources]
        found: list[Tensor] = [torch.zeros(0, dtype=torch.int64)] * len(sources)
        for number, nbest in in_batches(self.task, self.model, generator, sources, lengths, max_tokens):
            if nbest:
                tokens = nbest[0]["tokens"].cpu()
                found[number] = tokens[: int(tokens.eq(self.task.target_dictionary.eos()).nonzero()[0])]
        return found


def check_sentence_model(said: Mapping[str, Any], where: str, wanted: tuple[str, str] | None = None) -> None:
    """Raise UserError for a model whose task's options say that it is no sentence model of a language pair.

    What its instances were is not known where they were taken as prepared. ``where`` is for messages. ``wanted`` is
    None where the languages have been looked at.
    """
    name = said.get("_name") or said.get("task")
    if name not in (None, "translation_doc"):
        raise UserError(
            f"{where}: a model of the task {name}; give one of translation_doc, or a file with its translations"
        )
    pair = said.get("source_lang"), said.get("target_lang")
    if wanted is not None and None not in pair and pair != wanted:
        raise UserError(
            f"{where}: translates {'-'.join(pair)}, but the data are {'-'.join(wanted)}; give a model of the same "
            "languages"
        )
    grouping = InstanceScheme.stored_in(said)
    if grouping.kind != STORED and grouping.max_sentences != 1:
        raise UserError(
            f"{where}: trained on more than single sentences (--instances {grouping.kind}); give a sentence model, "
            "trained with --instances disjoint --context-sentences 0"
        )
