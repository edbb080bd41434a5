"""A user-dir that cannot be imported; mended, it is imported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gtransformer.errors import UserError
from gtransformer.optional import import_user_dir


def test_what_cannot_be_imported(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(
        sys, "path", [*sys.path]
    )  # fairseq puts the folder around the user-dir in front
    import_user_dir(None)
    with pytest.raises(
        UserError, match="--user-dir .*nowhere: no __init__.py there; give the folder that"
    ):
        import_user_dir(tmp_path / "nowhere")
    (tmp_path / "misspelt").mkdir()
    (tmp_path / "misspelt" / "__init__.py").write_text("def:\n", encoding="utf-8")
    with pytest.raises(SyntaxError):
        import_user_dir(tmp_path / "misspelt")
    (tmp_path / "misspelt" / "__init__.py").write_text("", encoding="utf-8")
    import_user_dir(tmp_path / "misspelt")
