"""Systems that read their batch, through fairseq's commands: trained from a sentence model, resumed, put to work."""

from __future__ import annotations

import json

import pytest

from tests.end_to_end.commands import only_error, run
from tests.end_to_end.test_systems import GENERATION, PREPARED, SMALL, TASK, sentence_model  # noqa: F401  (a fixture)

DOCUMENTS = ["--instances=sliding", "--context-sentences=2", "--batch-order=document"]
SYSTEMS = {
    "docflat": ["--arch=docflat_tiny", "--context-gate=discrete"],
    "abd": ["--arch=abd_tiny"],
    "mbe": ["--arch=mbe_tiny"],
}


@pytest.mark.parametrize("system", SYSTEMS)
def test_trained_and_put_to_work(sentence_model, tmp_path, system):  # noqa: F811
    """Batches of a document's consecutive sentences all along; what reads targets scores, and does not translate."""
    translates = system != "docflat"
    options = [*DOCUMENTS, "--context-loss=off", *SYSTEMS[system], *SMALL, f"--save-dir={tmp_path}"]
    options += [f"--finetune-from-model={sentence_model}", "--load-partial"]
    bleu = ["--eval-bleu"] if translates else []
    log = run("train", PREPARED / "bin", *TASK, *options, *bleu, "--max-update=2")
    assert '"train_loss"' in log and ('"valid_bleu"' in log) == translates
    log = run("train", PREPARED / "bin", *TASK, *options, "--max-update=4")
    assert '"num_updates": "4"' in log and '"num_updates": "2"' not in log
    work = ["generate", PREPARED / "bin", *TASK, *DOCUMENTS, f"--path={tmp_path / 'checkpoint_last.pt'}", *GENERATION]
    if translates:
        run(*work, f"--gen-output={tmp_path / 'test'}")
        lines = [json.loads(line) for line in (tmp_path / "test.jsonl").read_text().splitlines()]
        assert sum(line["current"][1] for line in lines) == 22
    else:
        assert "the decoder reads the targets of the other sentences" in only_error(run(*work, status=1))
        assert run(*work, "--score-reference").count("\nH-") == 22
