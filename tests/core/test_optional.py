"""Packages that stand beside and cannot be imported are no reason to stop."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from gtransformer.optional import hide_broken


@pytest.mark.parametrize(
    "content", ["raise RuntimeError('compiled for another CUDA')", "import no_such_library", "x = 1"]
)
def test_a_broken_package_counts_as_not_installed(tmp_path, monkeypatch, content):
    """Others ask as transformers does, by find_spec, and then import it."""
    package = tmp_path / "sound"
    package.mkdir()
    (package / "inner.py").write_text("y = 2\n")
    (package / "__init__.py").write_text(f"from sound import inner\n{content}\n")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        hide_broken("sound")
        if content == "x = 1":
            assert importlib.util.find_spec("sound") is not None and importlib.import_module("sound").x == 1
        else:
            assert importlib.util.find_spec("sound") is None
            with pytest.raises(ImportError):
                importlib.import_module("sound")
    finally:
        for name in ("sound", "sound.inner"):
            sys.modules.pop(name, None)
