"""The mean of checkpoints: by hand, of the right ones, and refused where they do not belong
together.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from gtransformer.cli.average import main
from gtransformer.errors import UserError
from gtransformer.plugin.checkpoints import AVERAGE, average, last_checkpoints, model_in
from tests.support import tiny_dictionary, tiny_model

SETTINGS = {
    "_name": "docflat_mini",
    "encoder_attention_heads": 2,
    "context_gate": "continuous",
    "window": 20,
}


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
        "cfg": {"model": SETTINGS, "task": {"data": "x"}},
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
    one, other = (found["model"][f"{side}.embed.weight"] for side in ("encoder", "decoder"))
    assert one.data_ptr() == other.data_ptr()
    assert not list(saved.glob("*.tmp"))


def test_the_last_are_those_with_most_updates(saved: Path):
    """Of epochs and of updates together; what is no numbered checkpoint does not count."""
    names = ["checkpoint2.pt", "checkpoint_3_10.pt", "checkpoint10.pt"]
    assert [path.name for path in last_checkpoints(saved, 3)] == names
    with pytest.raises(
        UserError,
        match=r"holds 4 numbered checkpoint\(s\), but 5 are to be averaged; average fewer",
    ):
        last_checkpoints(saved, 5)


@pytest.mark.parametrize("other", [{"more": torch.zeros(2)}, {"norm": torch.zeros(4)}])
def test_checkpoints_of_different_models_are_refused(saved: Path, other: dict):
    path = save(saved / "checkpoint11.pt", 16, **other)
    with pytest.raises(UserError, match=rf"{path}: another model than {saved}/checkpoint10.pt"):
        average(last_checkpoints(saved, 2), saved / AVERAGE)
    assert not (saved / AVERAGE).exists()


def test_the_command(saved: Path, capsys):
    output = saved / "folder" / "mean.pt"
    assert main([str(saved), "--last", "2", "--output", str(output)]) == 0
    assert (
        "the mean of 2 checkpoints, checkpoint_3_10.pt, checkpoint10.pt" in capsys.readouterr().out
    )
    by_name = saved / "named.pt"
    main(
        [
            *(str(saved / f"{name}.pt") for name in ("checkpoint_3_10", "checkpoint10")),
            "-o",
            str(by_name),
        ]
    )
    assert torch.load(by_name)["model"]["norm"].equal(torch.load(output)["model"]["norm"])
    assert main([str(saved), "--last", "0", "--output", str(output)]) == 1


def test_the_model_of_a_training(saved: Path):
    assert model_in(saved).name == "checkpoint_best.pt"
    (saved / AVERAGE).touch()
    assert model_in(saved).name == AVERAGE


def test_a_mean_of_models_loads_as_one(tmp_path: Path):
    """Of real ones, tied embeddings and all: strictly, and the output layer still is the
    embedding.
    """
    dictionary = tiny_dictionary()
    for number in (1, 2):
        model = tiny_model(dictionary, seed=number)
        torch.save({"model": model.state_dict(), "cfg": None}, tmp_path / f"{number}.pt")
    average([tmp_path / "1.pt", tmp_path / "2.pt"], tmp_path / AVERAGE)
    model.load_state_dict(torch.load(tmp_path / AVERAGE)["model"], strict=True)
    one, other = (
        tiny_model(dictionary, seed=number).encoder.embed_tokens.weight for number in (1, 2)
    )
    assert torch.allclose(model.decoder.output_projection.weight, (one + other) / 2)
    assert (tmp_path / AVERAGE).stat().st_size < 1.2 * (tmp_path / "1.pt").stat().st_size
