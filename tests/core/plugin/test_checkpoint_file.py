"""Reading a checkpoint's settings."""

from argparse import Namespace

import pytest
import torch

from gtransformer.plugin.checkpoints import read_settings


@pytest.mark.parametrize("old_format", [False, True])
def test_settings_of_both_formats_and_layouts(tmp_path, old_format):
    options = {"_use_new_zipfile_serialization": not old_format}
    torch.save({"args": Namespace(encoder_layers=3), "cfg": None}, tmp_path / "args.pt", **options)
    assert read_settings(tmp_path / "args.pt")["model"] == {"encoder_layers": 3}
    torch.save({"cfg": {"model": Namespace(encoder_layers=4), "task": {"data": "x"}}}, tmp_path / "cfg.pt", **options)
    assert read_settings(tmp_path / "cfg.pt") == {"model": {"encoder_layers": 4}, "task": {"data": "x"}}
    (tmp_path / "bad.pt").write_bytes(b"bad")
    assert read_settings(tmp_path / "bad.pt") == {"model": {}, "task": {}}
