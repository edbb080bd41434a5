"""Reading a checkpoint's settings."""

from argparse import Namespace

import pytest
import torch

from gtransformer.errors import UserError
from gtransformer.plugin.checkpoints import read_settings


@pytest.mark.parametrize("old_format", [False, True])
def test_settings_of_both_formats_and_layouts(tmp_path, old_format):
    options = {"_use_new_zipfile_serialization": not old_format}
    state = {"model": {}, "args": Namespace(encoder_layers=3), "cfg": None}
    torch.save(state, tmp_path / "args.pt", **options)
    assert read_settings(tmp_path / "args.pt")["model"] == {"encoder_layers": 3}
    state["cfg"] = {"model": Namespace(encoder_layers=4), "task": {"data": "x"}}
    torch.save(state, tmp_path / "cfg.pt", **options)
    assert read_settings(tmp_path / "cfg.pt") == {
        "model": {"encoder_layers": 4},
        "task": {"data": "x"},
    }
    (tmp_path / "bad.pt").write_bytes(b"bad")
    with pytest.raises(UserError, match="bad.pt"):
        read_settings(tmp_path / "bad.pt")
