"""The campaign of faults sees what it is to see: a loss where there is one, and what of results must be the same."""

from __future__ import annotations

import json
import random

import pytest
import torch

from tests.faults import tried
from tests.faults.campaign import summary, undisturbed
from tests.faults.strikes import strike
from tests.faults.trial import Trial
from tests.faults.tried import Tried, results

pytestmark = pytest.mark.slow


def outcomes(kind: str, tmp_path, monkeypatch, draws: int, how: str = "kill") -> list[dict]:
    """Of killing the example command, careful or careless, again and again."""
    command = Tried("tests.faults.example", lambda given: None, lambda given, out: [kind, out / "result.txt"], 1)
    monkeypatch.setitem(tried.COMMANDS, kind, command)
    trial = Trial(kind, tmp_path)
    reference = undisturbed(trial)
    return [strike(how, trial, reference, random.Random(number)) for number in range(draws)]


def test_what_is_written_under_its_name_is_lost(tmp_path, monkeypatch):
    found = outcomes("careless", tmp_path, monkeypatch, 4)
    lost = [one for one in found if one["outcome"] == "lost"]
    assert lost and all(one["why"] == "results differ: result.txt (other)" for one in lost)


def test_what_is_renamed_is_not(tmp_path, monkeypatch):
    found = outcomes("careful", tmp_path, monkeypatch, 4)
    assert [one["outcome"] for one in found] == ["equal"] * 4
    assert {"before rename" in one["struck"] for one in found} == {True, False}


def test_what_is_left_by_one_that_does_not_hear_sigterm(tmp_path, monkeypatch):
    """Looked for before the command is given again, which would tidy it up."""
    found = outcomes("careful", tmp_path, monkeypatch, 4, "term")
    lost = [one for one in found if one["outcome"] == "lost"]
    assert lost and all(one["why"].startswith("temporary files left behind SIGTERM: result.txt.") for one in lost)


def test_results_are_what_lasts(tmp_path):
    """Dates, memory and logs do not count; scores, texts and every number of a model do."""
    state = {
        "model": {"a": torch.zeros(2)}, "last_optimizer_state": {"state": {0: {"exp_avg": torch.ones(2)}}},
        "optimizer_history": [{"num_updates": 3, "lr_scheduler_state": {"best": None}}],
        "extra_state": {"train_iterator": {"epoch": 1}, "previous_training_time": 7.0},
    }  # fmt: skip

    def digests() -> dict[str, str]:
        (tmp_path / "scores.json").write_text(json.dumps(scores))
        torch.save(state, tmp_path / "model.pt")
        return results(tmp_path)

    scores = {"date": "now", "peak_bytes": 2**20, "parts": [{"seconds": 1, "bleu": 3.5}]}
    before = digests()
    scores["date"], scores["parts"][0]["seconds"], state["extra_state"]["previous_training_time"] = "then", 2, 8.0
    scores["peak_bytes"] = {"training": {"mean": 2**21}}
    (tmp_path / "train.log").write_text("words")
    (tmp_path / "arena.txt").write_text("1,536 MiB")
    assert digests() == before and before.keys() == {"scores.json", "model.pt"}
    scores["parts"][0]["bleu"] = 3.6
    state["last_optimizer_state"]["state"][0]["exp_avg"][1] = 1.0000001
    after = digests()
    assert all(after[name] != before[name] for name in before)


def test_figures():
    faults = [
        {"kind": kind, "command": command, "outcome": outcome}
        for kind, command, outcome in (("kill", "train", "equal"), ("cut", "train", "refused"), ("cut", "a", "lost"))
    ]
    found = summary(faults)
    assert found["all"] == {"tried": 3, "survived": 2, "of these refused": 1, "lost": 1}
    assert found["by_kind"]["cut"] == {"tried": 2, "survived": 1, "of these refused": 1, "lost": 1}
    assert found["by_command"]["train"]["tried"] == 2 and found["by_command"]["a"]["survived"] == 0
