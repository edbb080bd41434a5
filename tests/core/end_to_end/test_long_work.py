"""What takes long says how far it is; a training is kept between fairseq's own saves."""

from __future__ import annotations

import re

import pytest
import torch

from tests import commands
from tests.commands import GENERATION, kill_at, losses, run, short_training

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


def test_a_killed_training_loses_no_more_than_its_last_minute(copy_corpus, tmp_path, impatient):
    """In the middle of an epoch, without a validation; it goes on as if it had not been interrupted."""
    undisturbed = losses(run(*short_training(copy_corpus, tmp_path / "whole")))
    before = kill_at("num_updates=13,", *short_training(copy_corpus, tmp_path / "killed"))
    assert "valid on" not in before
    kept = torch.load(tmp_path / "killed" / "checkpoint_last.pt")["optimizer_history"][-1]["num_updates"]
    assert kept in (12, 13)
    found = losses(run(*short_training(copy_corpus, tmp_path / "killed")))
    assert list(found) == [update for update in undisturbed if update > kept]
    whole, resumed = (torch.load(tmp_path / name / "checkpoint_last.pt")["model"] for name in ("whole", "killed"))
    assert all(torch.equal(value, resumed[name]) for name, value in whole.items())


def test_a_resumed_training_draws_the_same_parts_of_corpora(copy_corpus, tmp_path, impatient):
    """By --training-weights, others in every epoch: the same without workers, and with them and two interruptions."""
    weights = [f"--more-training-data={copy_corpus / 'bin'}", "--training-weights=0.05,0.03"]
    whole = run(*short_training(copy_corpus, tmp_path / "whole", *weights))
    found = {}
    for last in (5, 17, 24):
        command = short_training(copy_corpus, tmp_path / "parts", *weights, "--num-workers=2", f"--max-update={last}")
        found |= losses(run(*command))
    assert found == losses(whole) and len(found) == 24 and "epoch 004" in whole
    one, other = (torch.load(tmp_path / name / "checkpoint_last.pt")["model"] for name in ("whole", "parts"))
    assert all(torch.equal(value, other[name]) for name, value in one.items())


def test_what_is_not_to_be_saved_is_not(copy_corpus, tmp_path, impatient):
    for number, option in enumerate(("--no-save", "--no-last-checkpoints")):
        run(*short_training(copy_corpus, tmp_path / str(number), option, "--max-update=3"))
        assert not (tmp_path / str(number) / "checkpoint_last.pt").exists()


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
    options = ["--distributed-world-size=2", "--max-update=6"]
    whole = run(*short_training(copy_corpus, tmp_path / "whole", *options))
    assert whole.count("Saved checkpoint") > 4
    run(*short_training(copy_corpus, tmp_path / "parts", *options, "--max-update=3"))
    run(*short_training(copy_corpus, tmp_path / "parts", *options))
    one, other = (torch.load(tmp_path / name / "checkpoint_last.pt")["model"] for name in ("whole", "parts"))
    assert all(torch.equal(value, other[name]) for name, value in one.items())


def test_a_single_batch_and_a_single_update(copy_corpus, tmp_path, impatient):
    """Of which no pace is known, and nothing is left."""
    run(*short_training(copy_corpus, tmp_path, "--max-update=1"))
    path = f"--path={tmp_path / 'checkpoint_last.pt'}"
    said = run("generate", copy_corpus / "bin", *GENERATION, path, "--batch-size=100", "--max-len-b=3")
    assert "translated 20 of 20 instances, about 0 s left" in said
