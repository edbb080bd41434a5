"""The reader of settings: what it takes, and the sentence for what it does not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gtransformer.errors import UserError
from gtransformer.settings import check_value, count, read_entries, read_settings, read_value, setting, typed


@dataclass
class Part:
    """A schema with each kind of type."""

    name: str
    size: int = count(3)
    kind: str = setting("one of a, b", ("a", "b").__contains__, "a")
    with_dash: bool | None = None
    either: int | str | None = None
    numbers: list[int] | None = None
    names: dict[str, str | None] | None = None
    free: dict[str, Any] | None = None
    rate: int | float | None = None


@pytest.fixture
def write(tmp_path):
    """A function that writes a file and returns its path."""

    def writer(text: str | bytes) -> Path:
        path = tmp_path / "file.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return writer


def test_settings(write):
    text = "name: x\nwith-dash: true\nnumbers: [1, 2]\nnames: {a: b, c: }\nfree: {p-q: {r: [1, x]}, s_t: 2}\nrate: 1\n"
    assert read_settings(write(text), Part) == Part(
        "x", 3, "a", True, None, [1, 2], {"a": "b", "c": None}, {"p-q": {"r": [1, "x"]}, "s_t": 2}, 1
    )
    assert read_settings(write("name: x\nwith_dash: false\neither: all\nnumbers:\n"), Part) == Part(
        "x", 3, "a", False, "all"
    )


@pytest.mark.parametrize(
    ("text", "line", "named"),
    [
        ("", None, ""), ("- a\n", None, ""), ("name: {a\n", 2, ""), ("name: x\nsize: !!int y\n", None, ""),
        (b"name: x\nkind: \xff\n", 2, "column 7"), ("name: x\nsize: 1\nsize: 2\n", 3, "size"),
        ("name: x\nfree: {a: {b: 1,\n  b: 2}}\n", 3, "b"),
        ("name: x\nwith_dash: true\nwith-dash: true\n", 3, "with-dash"),
        ("name: x\nfree: &f {a: *f}\n", 2, ""), ("name: x\nsiez: 1\n", 2, "siez"), ("size: 1\n", 1, "name"),
        ("name:\n", 1, "name"), ("name: ''\n", 1, "name"), ("name: 3\n", 1, "name"),
        ("name: x\nsize: '3'\n", 2, "size"),
        ("name: x\nsize: 0\n", 2, "size"), ("name: x\nsize: true\n", 2, "size"), ("name: x\nsize:\n", 2, "size"),
        ("name: x\nkind: c\n", 2, "kind is 'c'; give one of a, b"), ("name: x\nwith-dash: 1\n", 2, "with-dash"),
        ("name: x\neither: 1.5\n", 2, "either"), ("name: x\nnumbers: [1, '2']\n", 2, "numbers"),
        ("name: x\nnumbers: []\n", 2, "numbers"), ("name: x\nnames: {a: 1}\n", 2, "names"),
        ("name: x\nfree: 3\n", 2, "free"), ("name: x\nrate: 5e-4\n", 2, "rate is '5e-4'"),
        ("name: x\n\nfree: {a: 'b ${c}'}\n", 3, "b ${c}"), ("name: ???\n", 1, "???"),
    ],
)  # fmt: skip
def test_what_is_refused_is_said_with_file_line_and_key(write, text, line, named):
    path = write(text)
    with pytest.raises(UserError) as error:
        read_settings(path, Part)
    said = str(error.value)
    assert "\n" not in said and said.startswith(f"{path}, line {line}" if line else str(path)) and named in said


def test_values_are_not_changed(write):
    """Numbers as PyYAML has them, dates and keys as they are written."""
    text = "a: 5e-4\nb: 1.0e-3\nno: on\n2: 010\nd: 2020-01-01\ne: ~\nf: &f {x: 1, y: 2}\ng: {<<: *f, y: 3}\n"
    entries = read_entries(write(text))
    assert entries == {
        "a": "5e-4", "b": 0.001, "no": True, "2": 8, "d": "2020-01-01", "e": None, "f": {"x": 1, "y": 2},
        "g": {"x": 1, "y": 3},
    }  # fmt: skip
    assert [type(entries[key]) for key in ("no", "2")] == [bool, int]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5e-4", "5e-4"), ("1", 1), ("off", False), ("null", None), ("", None), ("[a, 2]", ["a", 2]), ("[a", "[a"),
        ("(0.9, 0.98)", "(0.9, 0.98)"), ("@a", "@a"), ("'1'", "1"), ("{'a': 1}", {"a": 1}),
        ("2020-01-01", "2020-01-01"),
    ],
)  # fmt: skip
def test_values_of_the_command_line(text, value):
    found = read_value(text, "--set x")
    assert found == value and isinstance(found, type(value))


@pytest.mark.parametrize("text", ["${HOME}", "{a: 1, a: 2}"])
def test_values_of_the_command_line_that_are_refused(text):
    with pytest.raises(UserError, match="^--set x, line 1: "):
        read_value(text, "--set x")


def test_two_together_say_where_each_key_stands(write, tmp_path):
    below, above = read_entries(write("name: x\nsize: 0\n")), tmp_path / "above.yaml"
    above.write_text("# a comment\nname: 3\n")
    both = below | read_entries(above)
    with pytest.raises(UserError, match="above.yaml, line 2, a part: name is 3"):
        typed(both, Part, "", "a part")
    both["name"] = "y"
    with pytest.raises(UserError, match="file.yaml, line 2: size is 0"):
        typed(both, Part, "")
    del both["name"], both["size"]
    with pytest.raises(UserError, match="above.yaml, line 2 and .*file.yaml, line 1: lacks name$"):
        typed(both, Part, "")


def test_a_single_value():
    check_value(Part, "size", 4, "--set size=4")
    with pytest.raises(UserError, match="^--set size=x: size is 'x'"):
        check_value(Part, "size", "x", "--set size=x")
    with pytest.raises(UserError, match="^F, line 3, entry 1: is 'x'"):
        typed("x", Part, "F, line 3", "entry 1")
