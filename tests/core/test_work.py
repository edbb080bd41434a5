"""Records of work: what says nothing counts as not done."""

from __future__ import annotations

import pytest

from gtransformer.work import read_record


@pytest.mark.parametrize("content", ["{", "[]", None])
def test_a_damaged_record_says_nothing(tmp_path, content):
    if content is not None:
        (tmp_path / "record.json").write_text(content)
    assert read_record(tmp_path / "record.json") == {}
