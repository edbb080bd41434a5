"""A user-dir that cannot be imported; mended, it is imported."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from gtransformer.errors import UserError
from gtransformer.optional import import_user_dir


def test_what_cannot_be_imported(tmp_path: Path, monkeypatch):
    # fairseq puts the folder around the user-dir in front.
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(UserError, match="--user-dir .*misspelt: no __init__.py there"):
        import_user_dir(tmp_path / "misspelt")
    (tmp_path / "misspelt").mkdir()
    for text, refused in (("def:", pytest.raises(SyntaxError)), ("", nullcontext())):
        (tmp_path / "misspelt" / "__init__.py").write_text(text, encoding="utf-8")
        with refused:
            import_user_dir(tmp_path / "misspelt")
