"""What takes long says how far it is; a training is kept between fairseq's own saves."""

from __future__ import annotations

import re

import pytest
import torch

from tests import commands
from tests.commands import GENERATION, kill_at, losses, run, short_training
from tests.core.end_to_end.test_distributed import train_in_processes

pytestmark = pytest.mark.slow


@pytest.fixture
def impatient(monkeypatch, tmp_path):
    """Everything is said, and kept, at once."""
    (tmp_path / "impatient").mkdir()
    (tmp_path / "impatient" / "__init__.py").write_text(
        "from gtransformer.tasks import training\n"
        "training.LOG_SECONDS, training.SAVE_SECONDS, training.SAVE_FACTOR = 0.0, 0.0, 0\n"
    )
    monkeypatch.setattr(commands, "USER_DIR", str(tmp_path / "impatient"))


def test_a_killed_training_loses_no_more_than_its_last_minute(copy_corpus, undisturbed_training, tmp_path, impatient):
    """In the middle of an epoch, without a validation; it goes on as if it had not been interrupted."""
    undisturbed = losses(undisturbed_training.log)
    before = kill_at("num_updates=13,", *short_training(copy_corpus, tmp_path / "killed"))
    assert "valid on" not in before
    kept = torch.load(tmp_path / "killed" / "checkpoint_last.pt")["optimizer_history"][-1]["num_updates"]
    assert kept in (12, 13)
    found = losses(run(*short_training(copy_corpus, tmp_path / "killed")))
    assert list(found) == [update for update in undisturbed if update > kept]
    whole, resumed = (
        torch.load(path)["model"]
        for path in (undisturbed_training.checkpoint, tmp_path / "killed" / "checkpoint_last.pt")
    )
    assert all(torch.equal(value, resumed[name]) for name, value in whole.items())


def test_training_and_translation_say_how_far_they_are(copy_corpus, tmp_path, impatient):
    said = run(*short_training(copy_corpus, tmp_path, "--max-update=9", "--eval-bleu"))
    found = re.findall(r"update (\d+) of 9, epoch \d+ \(\d+%\)(, about \d+ (?:s|min \d+ s) left)?", said)
    assert [int(update) for update, _ in found] == list(range(1, 10))
    assert all(left for _, left in found[1:]) and "validating, 1 batches so far" in said
    path = f"--path={tmp_path / 'checkpoint_last.pt'}"
    said = run("generate", copy_corpus / "bin", *GENERATION, path, "--max-tokens=100", "--max-len-b=3")
    found = re.findall(r"translated (\d+) of (\d+) instances, about (\d+) s left", said)
    assert len(found) > 1 and found[-1][0] == found[-1][1] and found[-1][2] == "0"


def test_of_several_processes_the_first_one_keeps(copy_corpus, tmp_path, impatient):
    """And the others go on beside it."""
    whole, other = train_in_processes(2, *short_training(copy_corpus, tmp_path / "whole", "--max-update=6"))
    assert whole.count("Saved checkpoint") > 4 and "Saved checkpoint" not in other
    for updates in (3, 6):
        train_in_processes(2, *short_training(copy_corpus, tmp_path / "parts", f"--max-update={updates}"))
    one, other = (torch.load(tmp_path / name / "checkpoint_last.pt")["model"] for name in ("whole", "parts"))
    assert all(torch.equal(value, other[name]) for name, value in one.items())


def test_a_single_batch_and_a_single_update(copy_corpus, tmp_path, impatient):
    """Of which no pace is known, and nothing is left."""
    run(*short_training(copy_corpus, tmp_path, "--max-update=1"))
    path = f"--path={tmp_path / 'checkpoint_last.pt'}"
    said = run("generate", copy_corpus / "bin", *GENERATION, path, "--batch-size=100", "--max-len-b=3")
    assert "translated 20 of 20 instances, about 0 s left" in said
