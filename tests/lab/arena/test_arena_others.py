"""Systems of other arenas beside this one's: only on the same terms, and their origin is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gtransformer.errors import UserError
from gtransformer.lab.arena.others import SPEED_SETTINGS, add_others, read_others
from gtransformer.lab.arena.table import arena_text
from tests.support import ROOT

RECORDED = ROOT / "exp_logs" / "arena" / "arena.json"
TERMS = ("corpus", "seeds", "tokens", "start", "baseline", "changes")


@pytest.fixture
def result() -> dict:
    """The recorded arena, as if all its systems had been its own."""
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    recorded.pop("beside", None)
    return recorded | {"files": {"items": "i", "test": ["e", "d"], "start": "s"}}


def split(result: dict, folder: Path, *names: str) -> Path:
    """What the arena of some of the systems would have written."""
    path = folder / f"{names[-1]}.json"
    systems = {name: result["systems"][name] for name in names}
    path.write_text(json.dumps({**result, "systems": systems}), encoding="utf-8")
    return path


def terms(result: dict, **more: object) -> dict:
    return {key: result[key] for key in TERMS} | more


def test_two_halves_are_the_whole(result, tmp_path):
    halves = list(result["systems"])
    first = {**result, "systems": {name: result["systems"][name] for name in halves[:3]}}
    other = split(result, tmp_path, "sentences", *halves[3:])
    whole = add_others(first, read_others([other], terms(result), halves[:3]))
    assert whole["systems"] == result["systems"] and list(whole["systems"]) == halves
    (origin,) = whole["beside"]
    assert origin["file"] == other.name and origin["systems"] == halves[3:] and origin["commit"] == result["commit"]
    (line,) = set(arena_text(whole).splitlines()) - set(arena_text(result).splitlines())
    assert line.endswith(", ".join(halves[3:])) and result["commit"][:7] in line and "another start" not in line
    origin["files"] = {"start": "another"}
    assert "from another start" in arena_text(whole)
    origin["commit"] = None  # of an installed package
    assert f"({result['machine']['processor']})" in arena_text(whole)
    assert add_others(result, []) == result


def test_where_they_come_from_is_not_lost_on_the_way(result, tmp_path):
    earlier = [{"file": "earlier.json", "systems": ["window"]}, {"file": "gone.json", "systems": ["documents"]}]
    path = split({**result, "beside": earlier}, tmp_path, "sentences", "window", "documents", "lst")
    whole = add_others(result, read_others([path], terms(result), ["sentences", "documents"]))
    origins = [(one["file"], one["systems"]) for one in whole["beside"]]
    assert origins == [("lst.json", ["lst"]), ("earlier.json", ["window"])]
    path = split({**result, "beside": earlier}, tmp_path, "sentences", "window")
    whole = add_others(result, read_others([path], terms(result), ["sentences"]))
    assert [one["file"] for one in whole["beside"]] == ["earlier.json"], "the other shows none of its own"


@pytest.mark.parametrize(
    ("change", "option"), [({"tokens": 5}, "--tokens"), ({"seeds": [1]}, "--seeds"), ({"changes": []}, "--set")]
)
def test_other_terms(result, tmp_path, change, option):
    path = split(result | change, tmp_path, "sentences", "lst")
    with pytest.raises(UserError, match=f"lst.json.*{option}"):
        read_others([path], terms(result), ["sentences"])


@pytest.mark.parametrize("change", [{"jobs": 9}, {"threads": 9}, {"machine": {"processor": "x", "device": "CPU"}}])
def test_minutes_are_of_one_machine(result, tmp_path, change):
    result |= {"tokens": None, "minutes": 5, "threads": 1}
    clock, wanted = {key: result[key] for key in SPEED_SETTINGS}, terms(result, minutes=5)
    assert read_others([split(result, tmp_path, "sentences", "lst")], wanted, ["sentences"], clock)
    path = split(result | change, tmp_path, "sentences", "lst")
    with pytest.raises(UserError, match=next(iter(change))):
        read_others([path], wanted, ["sentences"], clock)
    path = split(result | change | {"updates": 5, "minutes": None}, tmp_path, "sentences", "lst")
    assert read_others([path], wanted | {"updates": 5, "minutes": None}, ["sentences"], clock)


def test_files_that_cannot_be_used(result, tmp_path):
    paths = [split(result, tmp_path, "sentences", "window", "lst"), split(result, tmp_path, "sentences", "window")]
    with pytest.raises(UserError, match="window.json: 'window'"):
        read_others(paths, terms(result), ["sentences"])
    for text in ("[]", '{"systems": {}}'):
        (tmp_path / "x.json").write_text(text, encoding="utf-8")
        with pytest.raises(UserError, match="x.json"):
            read_others([tmp_path / "x.json"], {}, ["sentences"])


@pytest.mark.parametrize("change", [{"items": "j"}, {"test": ["e", "f"]}])
def test_other_questions(result, tmp_path, change):
    path = split(result | {"files": result["files"] | change}, tmp_path, "sentences", "lst")
    with pytest.raises(UserError, match="lst.json"):
        add_others(result, read_others([path], terms(result), ["sentences"]))


def test_a_corpus_is_the_same_wherever_it_lies(result, tmp_path):
    corpus = {"name": "mine", "files": {"test.en": "abc"}}
    path = split(result | {"corpus": corpus}, tmp_path, "sentences", "lst")
    assert read_others([path], terms(result, corpus={**corpus, "name": "copy"}), ["sentences"])
    with pytest.raises(UserError, match="'abc'.* here .*'def'"):
        read_others([path], terms(result, corpus={"name": "mine", "files": {"test.en": "def"}}), ["sentences"])
