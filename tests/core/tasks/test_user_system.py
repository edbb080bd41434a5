"""A user-dir that cannot be imported: one error that says why; mended, it is imported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gtransformer.errors import UserError
from gtransformer.tasks.trained import import_user_dir


def test_what_cannot_be_imported(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])  # fairseq puts the folder around the user-dir in front
    import_user_dir(None)
    with pytest.raises(UserError, match="--user-dir .*nowhere: no __init__.py there; give the folder that"):
        import_user_dir(tmp_path / "nowhere")
    for name, code, said in (
        ("lacking_something", "import there_is_no_such_package", "ModuleNotFoundError: No module named 'there_is"),
        ("misspelt", "def:", "SyntaxError"),
        ("reading", "open('not-there')", "FileNotFoundError"),
        ("types", "", "AttributeError"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "__init__.py").write_text(code + "\n", encoding="utf-8")
        for _ in range(2):
            with pytest.raises(UserError, match=f"{name}: cannot be imported: {said}.*; fix it, or rename the folder"):
                import_user_dir(folder)
    (tmp_path / "misspelt" / "__init__.py").write_text("", encoding="utf-8")
    import_user_dir(tmp_path / "misspelt")
