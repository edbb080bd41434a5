"""Load a trained model for scoring translations."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from gtransformer.errors import UserError
from gtransformer.evaluation.sentence_scores import SentenceScorer
from gtransformer.plugin.checkpoints import load_trained
from gtransformer.plugin.options import wants_document
from gtransformer.plugin.task import TranslationDocTask
from gtransformer.preprocess.chain import prepared_settings


def load_model(prepared: Path, checkpoint: Path, cpu: bool) -> tuple[nn.Module, TranslationDocTask]:
    """Return a checkpoint's model, for text of the prepared corpus, and its task; ``cpu``: do not
    use a GPU.

    Raises UserError for a model of another task than ``translation_doc``, and for a corpus whose
    target sentences do not begin with the word that the model is given there.
    """
    model, task = load_trained(checkpoint, data=str(prepared / "bin"))
    if not isinstance(task, TranslationDocTask):
        raise UserError(f"{checkpoint}: not trained with --task translation_doc")
    word = getattr(model.cfg, "target_prefix", None)
    # Text that is scored is not loaded as a split, where this is checked, too.
    if word is not None and prepared_settings(prepared).get("target_prefix") != word:
        raise UserError(
            f"{prepared}: its sentences do not begin with {word}, as the model's do; prepare the "
            "corpus with --vocabulary and the directory of the converted model"
        )
    return model.cuda() if torch.cuda.is_available() and not cpu else model, task


def load_scorer(
    prepared: Path, checkpoint: Path, max_tokens: int, cpu: bool
) -> tuple[SentenceScorer, TranslationDocTask]:
    """Return a scorer with a checkpoint's model, for translations of the prepared corpus, and the
    model's task.

    Raises UserError for a model that reads the other instances of its batch, whose scores would
    depend on them.
    """
    model, task = load_model(prepared, checkpoint, cpu)
    if wants_document(model):
        raise UserError(f"{checkpoint}: the model reads the other sentences of its batch")
    return SentenceScorer(model, task.source_dictionary, task.target_dictionary, max_tokens), task
