"""Attention and gates across one batch, a document of a prepared corpus, in a model that reads its batch.

This is Figure 8 of Wu et al. (2023): attention across the batch by sentence (Eq. 12), in front of the first layers.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

from gtransformer.errors import UserError
from gtransformer.lab.analysis.attention import Inspection, recording
from gtransformer.lab.analysis.watching import across_batch
from gtransformer.tasks.generation import as_read
from gtransformer.tasks.trained import AS_IT_IS, load_trained
from gtransformer.tasks.translation_doc import TranslationDocTask


def look_across(prepared: Path, checkpoint: Path, split: str, number: int) -> Inspection:
    """Return a checkpoint's attention across a document of the prepared corpus; the decoder reads the reference.

    Args:
        number: the document, from 1.

    Raises UserError for a missing file, a model without such attention, and a missing document.
    """
    model, task = load_for_analysis(prepared, checkpoint)
    if next(across_batch(model), None) is None:
        raise UserError(
            f"{checkpoint}: this model does not attend across its batch (as docflat, abd); inspect others after "
            "gtransformer export"
        )
    sample = document_batch(task, model, split, number)
    found = Inspection()
    with torch.no_grad(), recording(model, found):
        model(**sample["net_input"])
    return found


def load_for_analysis(prepared: Path, checkpoint: Path) -> tuple[nn.Module, TranslationDocTask]:
    """Return a trained model and its task over a prepared corpus. Raises UserError for a missing file."""
    if not checkpoint.is_file():
        raise UserError(f"{checkpoint}: no such file; train the model first")
    if not (prepared / "bin").is_dir():
        raise UserError(f"{prepared}: not a prepared corpus (no folder bin in it); make one with gtransformer prepare")
    return load_trained(checkpoint, data=str(prepared / "bin"), **AS_IT_IS)


def document_batch(task: TranslationDocTask, model: nn.Module, split: str, number: int) -> dict:
    """Return all sentences of a document (from 1) in order, as one batch of the model."""
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
