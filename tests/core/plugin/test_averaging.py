"""The mean of checkpoints: by hand, of the right ones, and refused where they do not belong
together.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from gtransformer.errors import UserError
from gtransformer.plugin.checkpoints import AVERAGE, average, last_checkpoints, model_in
from tests.support import command

main = command("average")


def save(path: Path, updates: int, **parameters) -> Path:
    """A checkpoint as fairseq lays it out, with an embedding under two names."""
    generator = torch.Generator().manual_seed(updates)
    shared = torch.randn(5, 3, generator=generator)
    model = {
        "encoder.embed.weight": shared,
        "decoder.embed.weight": shared,
        "version": torch.tensor([3]),
    }
    model |= {
        "norm": torch.randn(3, generator=generator).half(),
        "wide": torch.randn(2, generator=generator).double(),
    }
    state = {
        "cfg": {"model": {"window": 20}, "task": {"data": "x"}},
        "model": model | parameters,
        "extra_state": {"previous_training_time": float(updates)},
        "last_optimizer_state": {"state": {0: torch.zeros(5)}},
    }
    torch.save(state, path)
    return path


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Checkpoints of three epochs and of an update between them, best and last beside them."""
    for name, updates in (
        ("checkpoint1", 4),
        ("checkpoint2", 8),
        ("checkpoint_3_10", 10),
        ("checkpoint10", 12),
    ):
        save(tmp_path / f"{name}.pt", updates)
    for name in ("best", "last", "_best_loss_4.0", "1.old"):
        save(tmp_path / f"checkpoint_{name}.pt", 20)
    return tmp_path


def test_the_mean_by_hand(saved: Path):
    """In NumPy, float64; half precision is kept in float32, whole numbers and all else are the last
    one's.
    """
    paths = [saved / "checkpoint1.pt", saved / "checkpoint2.pt", saved / "checkpoint_3_10.pt"]
    average(paths, saved / AVERAGE)
    states, found = [torch.load(path) for path in paths], torch.load(saved / AVERAGE)
    for name in ("encoder.embed.weight", "decoder.embed.weight", "norm", "wide"):
        mean = np.mean([state["model"][name].double().numpy() for state in states], axis=0)
        assert np.allclose(found["model"][name].numpy(), mean, rtol=1e-6, atol=1e-7), name
    assert [found["model"][name].dtype for name in ("encoder.embed.weight", "norm", "wide")] == [
        torch.float32, torch.float32, torch.float64,
    ]  # fmt: skip
    assert (
        found["model"]["version"].tolist() == [3]
        and found["model"].keys() == states[0]["model"].keys()
    )
    assert found["cfg"] == states[-1]["cfg"] and found["extra_state"] == states[-1]["extra_state"]
    assert found["last_optimizer_state"] is None
    names = "encoder.embed.weight", "decoder.embed.weight"
    assert len({found["model"][name].data_ptr() for name in names}) == 1  # tied, and stored once
    assert not list(saved.glob("*.tmp"))


def test_the_last_are_those_with_most_updates(saved: Path):
    """Of epochs and of updates together; what is no numbered checkpoint does not count."""
    names = ["checkpoint2.pt", "checkpoint_3_10.pt", "checkpoint10.pt"]
    assert [path.name for path in last_checkpoints(saved, 3)] == names
    assert len(last_checkpoints(saved, 5)) == 4
    with pytest.raises(UserError, match="holds no numbered"):
        last_checkpoints(saved.parent / "none", 5)


def test_checkpoints_of_different_models_are_refused(saved: Path):
    save(saved / "checkpoint11.pt", 16, norm=torch.zeros(4))
    with pytest.raises(UserError, match="checkpoint11.pt: another model than .*checkpoint10.pt"):
        average(last_checkpoints(saved, 2), saved / AVERAGE)
    assert not (saved / AVERAGE).exists()


def test_the_command(saved: Path, capsys):
    """By number and by name; then the mean is the model of the training."""
    assert model_in(saved).name == "checkpoint_best.pt"
    assert main([str(saved), "--last", "2", "--output", str(saved / AVERAGE)]) == 0
    names = ["checkpoint_3_10.pt", "checkpoint10.pt"]
    assert ", ".join(names) in capsys.readouterr().out
    main([*(str(saved / name) for name in names), "-o", str(saved / "named.pt")])
    means = [torch.load(path)["model"]["norm"] for path in (saved / "named.pt", model_in(saved))]
    assert means[0].equal(means[1])
