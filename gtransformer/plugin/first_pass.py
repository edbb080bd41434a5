"""First translations of a split, by a sentence model or from a file: the context of the second
pass.
"""

from __future__ import annotations

import logging
import time
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq import utils
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.data.instances import STORED, InstanceScheme
from gtransformer.data.sides import Sides
from gtransformer.data.translations import read_documents
from gtransformer.errors import UserError
from gtransformer.plugin.checkpoints import AS_GIVEN, load_trained, read_settings
from gtransformer.plugin.loading import binarised_prefix
from gtransformer.plugin.options import check_languages
from gtransformer.search.generator import in_batches
from gtransformer.search.strategies import ON

logger = logging.getLogger(__name__)

MAX_TOKENS = 4096  # source tokens of a batch
Translations = dict[
    tuple[int, int], Tensor
]  # (words,) int64 by document and sentence in it, from 0


def open_first_pass(
    task: FairseqTask, models: Sequence[nn.Module], args: Namespace
) -> Callable[[dict], list[Tensor]]:
    """Read the first translations of the split that a task has loaded, or make them with a sentence
    model.

    Args:
        models: of the second pass.
        args: options of search.

    Returns:
        the ``contexts`` of ``SecondPass``: for a batch the translations that precede each of its
        sentences.

    Raises UserError if no data are loaded, and for translations of another split.
    """
    path = Path(task.cfg.first_pass)
    if len(task.datasets) != 1:
        raise UserError(
            f"--first-pass {path}: translates one split of a prepared corpus at a time "
            "(--gen-subset)"
        )
    ((split, dataset),), began = task.datasets.items(), time.monotonic()
    spans, ranges = dataset.spans(), dataset.src.ranges.tolist()
    if path.suffix == ".pt":
        # Each sentence is the last one of an instance's source.
        sources = [dataset.src.sentences.tokens(last - 1, last) for _, last in ranges]
        locations = [(span.document, span.first_sentence) for span in spans]
        found = translated(path, task, next(models[0].parameters()), sources, args)
        translations = dict(zip(locations, found, strict=True))
    else:
        translations = read_first_pass(path, task, split)
    logger.info(
        "first pass: %d sentences by %s in %.1fs", len(translations), path, time.monotonic() - began
    )
    bos, eos = (
        torch.tensor([symbol])
        for symbol in (task.target_dictionary.bos(), task.target_dictionary.eos())
    )

    def contexts(sample: dict) -> list[Tensor]:
        """Return ``<s> words </s>`` of each preceding sentence of the instance, (length,) int64,
        possibly none.
        """
        prefixes = []
        for number in sample["id"].tolist():
            span, (first, last) = spans[number], ranges[number]
            before = range(span.first_sentence - (last - first - 1), span.first_sentence)
            sentences = [translations[span.document, position] for position in before]
            prefixes.append(
                torch.cat([bos[:0], *(part for words in sentences for part in (bos, words, eos))])
            )
        return prefixes

    return contexts


def read_first_pass(path: Path, task: FairseqTask, split: str) -> Translations:
    """Read the translation of every sentence of a split from ``PREFIX.jsonl``."""
    data = utils.split_paths(task.cfg.data)[0]
    prefix = binarised_prefix(data, split, *task.sides.pair)
    documents = read_documents(path, InstanceIndex.load(f"{prefix}instances.json"))
    return {
        (number, position): target_words((text or "").split(), task.sides)
        for number, document in enumerate(documents)
        for position, text in enumerate(document)
    }


def target_words(words: Sequence[str], sides: Sides) -> Tensor:
    """Return the indices (n,) int64 of a translation's subwords, after the prefix of all sentences
    if it lacks it.
    """
    found = sides.indices(words, sides.target)
    if sides.prefix is not None and found[:1] != [sides.prefix]:
        found = [sides.prefix, *found]
    return torch.tensor(found, dtype=torch.int64)


@torch.no_grad()
def translated(
    checkpoint: Path, task: FairseqTask, like: Tensor, sources: Sequence[Tensor], args: Namespace
) -> list[Tensor]:
    """Return the best translation of each sentence, its words (n,) int64 on the CPU, by a sentence
    model.

    Args:
        checkpoint: of a model of single sentences.
        task: a task translation_doc with the same languages and dictionaries.
        like: a parameter of the model of the second pass, for device and type.
        sources: ``<s> words </s>`` each.
        args: options of search.

    Raises UserError for another kind of model, another language pair or another vocabulary.
    """
    settings = read_settings(checkpoint)["task"]
    check_languages(settings, task.cfg)
    check_sentence_model(settings, f"--first-pass {checkpoint}")
    languages = dict(
        zip(("source_lang", "target_lang"), task.sides.pair, strict=True),
        langs=",".join(task.langs),
    )
    model, own = load_trained(
        checkpoint, data=task.cfg.data, sentence_rule=ON, **languages, **AS_GIVEN
    )
    model = model.to(like)
    generator, eos = own.build_generator([model], args), own.target_dictionary.eos()
    model.prepare_for_inference_(None)
    found = [torch.zeros(0, dtype=torch.int64)] * len(sources)
    for number, nbest in in_batches(generator, sources, list(map(len, sources)), MAX_TOKENS):
        if nbest:
            tokens = nbest[0]["tokens"].cpu()
            found[number] = tokens[: int(tokens.eq(eos).nonzero()[0])]
    return found


def check_sentence_model(task: Mapping[str, Any], where: str) -> None:
    """Raise UserError if a model is no sentence model, by the options of its task.

    Instances that were taken as prepared are accepted: their length is not known. ``where``: for
    messages.
    """
    scheme = InstanceScheme.stored_in(task)
    if scheme.kind != STORED and scheme.max_sentences != 1:
        raise UserError(
            f"{where}: trained on more than single sentences (--instances {scheme.kind}); give a "
            "sentence model, "
            "trained with --instances disjoint --context-sentences 0"
        )
