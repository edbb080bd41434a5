"""A document of a prepared corpus as one batch of a model that reads its batch: who looks at whom in it, and gates.

What Wu et al. (2023) draw in Figure 8: attention across the batch by sentence (Eq. 12), in front of the first layers.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

from gtransformer.errors import UserError
from gtransformer.lab.analysis.attention import Inspection, recording
from gtransformer.models.common.watching import across_batch
from gtransformer.tasks.generation import as_read
from gtransformer.tasks.trained import AS_IT_IS, load_trained
from gtransformer.tasks.translation_doc import TranslationDocTask


def look_across(prepared: Path, checkpoint: Path, split: str, number: int) -> Inspection:
    """Return what the model of a checkpoint looks at across a document of the prepared corpus, reading its reference.

    Args:
        number: the document, from 1.

    Raises UserError for a missing file, a model with no such attention, and a document that is not there.
    """
    model, task = load_for_analysis(prepared, checkpoint)
    if next(across_batch(model), None) is None:
        raise UserError(
            f"{checkpoint}: no model that attends across its batch (docflat, abd); gtransformer export makes others "
            "ready to be looked at"
        )
    sample = document_batch(task, model, split, number)
    found = Inspection()
    with torch.no_grad(), recording(model, found):
        model(**sample["net_input"])
    return found


def load_for_analysis(prepared: Path, checkpoint: Path) -> tuple[nn.Module, TranslationDocTask]:
    """Return a trained model and its task over a prepared corpus whose text is read as it is; UserError for a missing
    file.
    """
    if not checkpoint.is_file():
        raise UserError(f"{checkpoint}: no such file; train the model first")
    if not (prepared / "bin").is_dir():
        raise UserError(f"{prepared}: not a prepared corpus (no folder bin in it); make one with gtransformer prepare")
    return load_trained(checkpoint, data=str(prepared / "bin"), **AS_IT_IS)


def document_batch(task: TranslationDocTask, model: nn.Module, split: str, number: int) -> dict:
    """Return all sentences of a document, from 1, as one batch in their order, as the model reads it."""
    task.load_dataset(split)
    dataset = task.dataset(split)
    if dataset.tgt is None:
        raise UserError(f"{task.cfg.data}: split '{split}' has no target side; give another split")
    document, place = dataset.documents.T
    rows = np.flatnonzero(document == number - 1)
    if not len(rows):
        count = int(document.max()) + 1 if len(document) else 0
        raise UserError(f"{task.cfg.data}: split '{split}' has {count} documents, there is no document {number}")
    rows = rows[np.argsort(place[rows], kind="stable")]
    return as_read(dataset.collater([dataset[int(row)] for row in rows]), model)
