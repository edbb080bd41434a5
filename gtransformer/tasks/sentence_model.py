"""A trained model that translates sentences one by one: the first of two passes."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from gtransformer.data.instances import STORED, Grouping
from gtransformer.errors import UserError
from gtransformer.search.rules import ON
from gtransformer.search.stepwise import decodes_stepwise
from gtransformer.tasks.checkpoint_file import read_settings
from gtransformer.tasks.trained import AS_GIVEN, in_batches, load_trained


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
    grouping = Grouping.stored_in(said)
    if grouping.kind != STORED and grouping.max_sentences != 1:
        raise UserError(
            f"{where}: trained on more than single sentences (--instances {grouping.kind}); give a sentence model, "
            "trained with --instances disjoint --context-sentences 0"
        )
