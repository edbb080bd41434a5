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


def refused(path: Path, schema: type = Part) -> str:
    """The sentence with which a file is refused."""
    with pytest.raises(UserError) as error:
        read_settings(path, schema)
    assert "\n" not in str(error.value) and str(error.value).startswith(str(path))
    return str(error.value).removeprefix(str(path))


def test_settings(write):
    text = "name: x\nwith-dash: true\nnumbers: [1, 2]\nnames: {a: b, c: }\nfree: {p-q: {r: [1, x]}, s_t: 2}\nrate: 1\n"
    assert read_settings(write(text), Part) == Part(
        "x", 3, "a", True, None, [1, 2], {"a": "b", "c": None}, {"p-q": {"r": [1, "x"]}, "s_t": 2}, 1
    )
    assert read_settings(write("name: x\nwith_dash: false\neither: all\nnumbers:\n"), Part) == Part(
        "x", 3, "a", False, "all"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": is empty; give lines of the form 'key: value'"),
        ("- a\n", ": holds ['a']; give lines of the form 'key: value'"),
        ("name: {a\n", ", line 2: not valid YAML (expected ',' or '}', but got '<stream end>')"),
        ("name: x\nsize: !!int y\n", ": not valid YAML (invalid literal for int() with base 10: 'y')"),
        (b"name: x\nkind: \xff\n", ", line 2: byte 0xff at column 7 is not UTF-8; convert the file to UTF-8"),
        ("name: x\nsize: 1\nsize: 2\n", ", line 3: 'size' stands twice; keep one"),
        ("name: x\nfree: {a: {b: 1,\n  b: 2}}\n", ", line 3: 'b' stands twice; keep one"),
        ("name: x\nwith_dash: true\nwith-dash: true\n", "'with_dash' stands twice, once with - and once with _; keep"),
        ("name: x\nfree: &f {a: *f}\n", ", line 2: not valid YAML (found unconstructable recursive node)"),
        ("name: x\nsiez: 1\n", ", line 2: unknown key 'siez'; known are name, size, kind, with-dash, either, "),
        ("size: 1\n", ", line 1: lacks name"),
        ("name:\n", ", line 1: lacks name"),
        ("name: ''\n", ", line 1: name is ''; give a text"),
        ("name: 3\n", ", line 1: name is 3; give a text"),
        ("name: x\nsize: '3'\n", ", line 2: size is '3'; give a whole number of at least 1"),
        ("name: x\nsize: 0\n", ", line 2: size is 0; give a whole number of at least 1"),
        ("name: x\nsize: true\n", ", line 2: size is True; give a whole number of at least 1"),
        ("name: x\nsize:\n", ", line 2: size is None; give a whole number of at least 1"),
        ("name: x\nkind: c\n", ", line 2: kind is 'c'; give one of a, b"),
        ("name: x\nwith-dash: 1\n", ", line 2: with-dash is 1; give true or false"),
        ("name: x\neither: 1.5\n", ", line 2: either is 1.5; give a whole number or a text"),
        ("name: x\nnumbers: [1, '2']\n", ", line 2: numbers is [1, '2']; give a list"),
        ("name: x\nnumbers: []\n", ", line 2: numbers is []; give a list"),
        ("name: x\nnames: {a: 1}\n", ", line 2: names is {'a': 1}; give lines of the form 'key: value'"),
        ("name: x\nfree: 3\n", ", line 2: free is 3; give lines of the form 'key: value'"),
        ("name: x\nrate: 5e-4\n", ", line 2: rate is '5e-4'; give a whole number or a number"),
        ("name: x\n\nfree: {a: 'b ${c}'}\n", ", line 3: 'b ${c}' stands for something else, but nothing is filled in"),
        ("name: ???\n", ", line 1: '???' stands for something else, but nothing is filled in"),
    ],
)
def test_what_is_refused(write, text, message):
    assert message in refused(write(text))


def test_a_missing_file(tmp_path):
    assert refused(tmp_path / "none.yaml") == ": no such file"


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


def test_what_is_read_once_is_not_changed_for_the_next(write):
    path = write("name: x\nfree: {a: [1]}\n")
    for _ in range(2):
        entries = read_entries(path)
        assert entries == {"name": "x", "free": {"a": [1]}} and entries["free"].at("a") == f"{path}, line 2"
        entries["free"]["a"].append(2)
        del entries["name"]
    path.write_text("name: y\n")
    assert read_entries(path) == {"name": "y"}


def test_two_together_say_where_each_key_stands(write, tmp_path):
    below, above = read_entries(write("name: x\nsize: 0\n")), tmp_path / "above.yaml"
    above.write_text("# a comment\nname: 3\n")
    both = below | read_entries(above)
    with pytest.raises(UserError, match="above.yaml, line 2, a part: name is 3; give a text$"):
        typed(both, Part, "", "a part")
    both["name"] = "y"
    with pytest.raises(UserError, match="file.yaml, line 2: size is 0"):
        typed(both, Part, "")
    del both["name"], both["size"]
    with pytest.raises(UserError, match="above.yaml, line 2 and .*file.yaml, line 1: lacks name$"):
        typed(both, Part, "")


def test_what_is_no_mapping(write):
    with pytest.raises(UserError, match="^F, line 3, entry 1: is 'x'; give lines of the form 'key: value'$"):
        typed("x", Part, "F, line 3", "entry 1")


def test_a_single_value():
    check_value(Part, "size", 4, "--set size=4")
    with pytest.raises(UserError, match="^--set size=x: size is 'x'; give a whole number of at least 1$"):
        check_value(Part, "size", "x", "--set size=x")
