"""The reader of settings: what it takes, and the sentence for what it does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from gtransformer.settings import read_value, read_yaml, typed


@dataclass
class Part:
    """A schema with each kind of type."""

    name: str
    size: int = 3
    with_dash: bool | None = None
    either: int | str | None = None
    numbers: list[int] | None = None
    names: dict[str, str | None] | None = None
    free: dict[str, Any] | None = None


@pytest.fixture
def read(tmp_path):
    """A function that writes a file and reads its settings."""

    def reader(text: str) -> Part:
        path = tmp_path / "file.yaml"
        path.write_text(text)
        return typed(read_yaml(path), Part, str(path))

    return reader


def test_settings(read):
    text = (
        "name: x\nwith-dash: true\nnumbers: [1, 2]\nnames: {a: b, c: }\nfree: {p-q: {r: [1, "
        "x]}, lr: 5e-4}\n"
    )
    assert read(text) == Part(
        "x", 3, True, None, [1, 2], {"a": "b", "c": None}, {"p-q": {"r": [1, "x"]}, "lr": "5e-4"}
    )
    assert read("name: x\nwith_dash: false\neither: all\nnumbers:\n") == Part("x", 3, False, "all")


def test_values_of_the_command_line():
    found = [read_value(text) for text in ("5", "5e-4", "true", "", "a: b", "[1, x]", "{a")]
    assert found == [5, "5e-4", True, None, {"a": "b"}, [1, "x"], "{a"]
