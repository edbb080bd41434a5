"""Checkpoints laid out like those of the authors' release."""

import shutil
from argparse import Namespace

import numpy as np
import pytest
import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task

from gtransformer.files import read_json
from tests.core.models import fairseq_models
from tests.support import PARITY, relative_error

RELEASE = {"arch": "gtransformer_base", "task": "translation_doc", "langs": "en,de", "data": None}


@pytest.mark.parametrize("case", ["partial_2_2_2", "full", "prenorm"])
def test_a_checkpoint_of_the_release(tmp_path, case):
    """Laid out like those of the authors' fork: ``args``, no ``cfg``, their parameter names; it
    gives their logits.
    """
    arrays = np.load(PARITY / f"{case}.npz")
    for lang in ("en", "de"):
        shutil.copy(PARITY / "dict.txt", tmp_path / f"dict.{lang}.txt")
    options = read_json(PARITY / f"{case}.json") | RELEASE | {"data": str(tmp_path)}
    model = {
        name.removeprefix("state/"): torch.from_numpy(arrays[name])
        for name in arrays.files
        if "state/" in name
    }
    assert "encoder.version" in model and "decoder.embed_positions._float_tensor" in model
    args = Namespace(
        **options, criterion="label_smoothed_cross_entropy", optimizer="adam",
        adam_betas="(0.9, 0.98)",
        lr=[0.0005], lr_scheduler="inverse_sqrt", max_tokens=4096, save_dir="exp/checkpoints",
    )  # fmt: skip
    torch.save(fairseq_models.checkpoint(model, args), tmp_path / "checkpoint_best.pt")

    (loaded,), cfg, task = load_model_ensemble_and_task([str(tmp_path / "checkpoint_best.pt")])
    assert (
        task.language == 25
        and cfg.model.doc_mode == options["doc_mode"]
        and task.cfg.decoder_start == "bos"
    )
    assert loaded.cfg.encoder_ctxlayers == options["encoder_ctxlayers"]
    loaded.eval()
    source, previous = (
        torch.from_numpy(arrays[name]) for name in ("src_tokens", "prev_output_tokens")
    )
    real = torch.from_numpy(arrays["target"]).ne(1)
    logits = loaded(source, None, previous)[0]
    assert relative_error(logits[real], torch.from_numpy(arrays["logits"])[real]) < 1e-5
