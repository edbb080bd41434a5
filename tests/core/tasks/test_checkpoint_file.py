"""Reading a checkpoint's settings, and finishing a save that was interrupted."""

import os
import shutil
from argparse import Namespace

import pytest
import torch
from fairseq.dataclass.configs import CheckpointConfig

from gtransformer.tasks.checkpoints import (
    Done,
    finish_interrupted_save,
    is_cut_short,
    read_settings,
    remove_older,
    training_done,
    weights_digest,
)


@pytest.mark.parametrize("old_format", [False, True])
def test_settings_of_both_formats_and_layouts(tmp_path, old_format):
    options = {"_use_new_zipfile_serialization": not old_format}
    torch.save({"args": Namespace(encoder_layers=3), "cfg": None}, tmp_path / "args.pt", **options)
    assert read_settings(tmp_path / "args.pt")["model"] == {"encoder_layers": 3}
    torch.save({"cfg": {"model": Namespace(encoder_layers=4), "task": {"data": "x"}}}, tmp_path / "cfg.pt", **options)
    assert read_settings(tmp_path / "cfg.pt") == {"model": {"encoder_layers": 4}, "task": {"data": "x"}}
    (tmp_path / "bad.pt").write_bytes(b"bad")
    assert read_settings(tmp_path / "bad.pt") == {"model": {}, "task": {}}
    assert training_done(tmp_path / "cfg.pt") == training_done(tmp_path / "bad.pt") == Done(0, 0.0)


def save(path, update, loss=None, best=None, **options):
    """A checkpoint as fairseq lays it out, as many seconds old as updates are missing to 1,000."""
    state = {"model": {"weight": torch.full((500,), update)}, "extra_state": {"val_loss": loss, "best": best}}
    torch.save(state, path, **options)
    os.utime(path, (1e9 + update, 1e9 + update))
    return path


def cut(path, kept):
    """Cut a file to its first bytes, or to a share of them."""
    data = path.read_bytes()
    path.write_bytes(data[: int(kept * len(data)) if isinstance(kept, float) else kept])


def update_of(path):
    return int(torch.load(path)["model"]["weight"][0])


@pytest.fixture
def saved(tmp_path):
    """After update 20, the best so far: its own file, then the copies."""
    save(tmp_path / "checkpoint_1_10.pt", 10, 4.0, 4.0)
    source = save(tmp_path / "checkpoint_1_20.pt", 20, 3.0, 3.0)
    for name in ("best", "last"):
        shutil.copy(source, tmp_path / f"checkpoint_{name}.pt")
    return tmp_path


@pytest.mark.parametrize("kept", [0, 1, 2, 0.5, 0.99])
def test_the_last_checkpoint_is_copied_again(saved, kept, caplog):
    cut(saved / "checkpoint_last.pt", kept)
    assert is_cut_short(saved / "checkpoint_last.pt")
    assert finish_interrupted_save(saved) == [saved / "checkpoint_last.pt"]
    assert update_of(saved / "checkpoint_last.pt") == 20
    assert "checkpoint_last.pt truncated" in caplog.text and caplog.text.count("\n") == 1
    assert finish_interrupted_save(saved) == []
    assert sorted(path.name for path in saved.iterdir()) == [
        f"checkpoint_{name}.pt" for name in ("1_10", "1_20", "best", "last")
    ]


def test_the_best_checkpoint_is_copied_again_and_the_last_follows(saved):
    """Interrupted at the first copy: ``checkpoint_last.pt`` is still that of the save before."""
    shutil.copy2(saved / "checkpoint_1_10.pt", saved / "checkpoint_last.pt")
    cut(saved / "checkpoint_best.pt", 0.3)
    assert finish_interrupted_save(saved) == [saved / "checkpoint_last.pt", saved / "checkpoint_best.pt"]
    assert update_of(saved / "checkpoint_last.pt") == update_of(saved / "checkpoint_best.pt") == 20


def test_another_checkpoint_is_not_made_the_best(saved):
    """The newest says that its loss was not the lowest: the damaged file stays, and is named when it is loaded."""
    save(saved / "checkpoint_1_30.pt", 30, 3.5, 3.0)
    shutil.copy2(saved / "checkpoint_1_30.pt", saved / "checkpoint_last.pt")
    cut(saved / "checkpoint_best.pt", 0.5)
    assert saved / "checkpoint_best.pt" not in finish_interrupted_save(saved)
    assert is_cut_short(saved / "checkpoint_best.pt") and update_of(saved / "checkpoint_last.pt") == 30


BOTH = ["1_10", "1_20"]


@pytest.mark.parametrize(("keep", "pattern", "left"), [(1, -1, ["1_20"]), (2, -1, BOTH), (1, 10, BOTH)])
def test_older_files_that_the_save_was_about_to_remove(saved, keep, pattern, left):
    options = {"keep_interval_updates": keep, "keep_interval_updates_pattern": pattern}
    for other in ({"no_save": True}, {"restore_file": "checkpoint_1_10.pt"}, {"save_dir": str(saved / "none")}):
        remove_older(CheckpointConfig(**{"save_dir": str(saved), **options, **other}))
        assert (saved / "checkpoint_1_10.pt").is_file()
    remove_older(CheckpointConfig(save_dir=str(saved), **options))
    names = sorted(path.name for path in saved.iterdir())
    assert names == [f"checkpoint_{name}.pt" for name in (*left, "best", "last")]


def test_nothing_is_done_where_nothing_is_whole_or_all_is(saved):
    assert finish_interrupted_save(saved) == []
    assert finish_interrupted_save(saved / "missing") == []
    for path in saved.iterdir():
        cut(path, 0.5)
    assert finish_interrupted_save(saved) == []


def test_files_of_the_old_format_are_not_taken_for_cut_ones(tmp_path):
    path = save(tmp_path / "checkpoint_last.pt", 10, _use_new_zipfile_serialization=False)
    assert not is_cut_short(path)


def test_weights_are_told_by_their_bits(tmp_path):
    """Whatever else a checkpoint says: when it was trained, where its files lay."""
    weights = {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor(3)}
    found = []
    for number, model in enumerate(
        (weights, dict(reversed(weights.items())), weights | {"a": torch.tensor([1.0, 2.1])})
    ):
        torch.save({"model": model, "extra_state": {"previous_training_time": number}}, tmp_path / "one.pt")
        found.append(weights_digest(tmp_path / "one.pt"))
    assert found[0] == found[1] != found[2] and len(found[0]) == 64
    torch.save({"model": weights | {"a": torch.tensor([[1.0, 2.0]])}}, tmp_path / "one.pt")
    assert weights_digest(tmp_path / "one.pt") != found[0]
