"""Systems of other arenas beside this one's: only on the same terms, and their origin is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gtransformer.errors import UserError
from gtransformer.lab.arena.beside import CLOCK, put_beside, read_beside
from gtransformer.lab.arena.table import arena_text
from tests.support import ROOT

RECORDED = ROOT / "exp_logs" / "arena" / "arena.json"
TERMS = ("corpus", "seeds", "updates", "start", "baseline", "changes")


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


def test_two_halves_are_the_whole(result, tmp_path):
    terms, halves = {key: result[key] for key in TERMS}, list(result["systems"])
    first = {**result, "systems": {name: result["systems"][name] for name in halves[:3]}}
    other = split(result, tmp_path, "sentences", *halves[3:])
    whole = put_beside(first, read_beside([other], terms, halves[:3]))
    assert whole["systems"] == result["systems"] and list(whole["systems"]) == halves
    (origin,) = whole["beside"]
    assert origin["file"] == other.name and origin["systems"] == halves[3:] and origin["commit"] == result["commit"]
    shown, alone = arena_text(whole), arena_text(result)
    (line,) = set(shown.splitlines()) - set(alone.splitlines())
    assert "from another start" not in line
    whole["beside"][0]["files"] = {"start": "another"}
    assert "from another start, compared with" in arena_text(whole)
    assert line.startswith(f"of another arena ({result['machine']['processor']}, {result['commit'][:7]}), compared")
    assert line.endswith(", ".join(halves[3:]))
    assert put_beside(result, []) == result


def test_where_they_come_from_is_not_lost_on_the_way(result, tmp_path):
    terms = {key: result[key] for key in TERMS}
    earlier = [{"file": "earlier.json", "systems": ["window"]}, {"file": "gone.json", "systems": ["documents"]}]
    path = split({**result, "beside": earlier}, tmp_path, "sentences", "window", "documents", "lst")
    whole = put_beside(result, read_beside([path], terms, ["sentences", "documents"]))
    assert [(one["file"], one["systems"]) for one in whole["beside"]] == [
        ("lst.json", ["lst"]), ("earlier.json", ["window"])
    ]  # fmt: skip
    path = split({**result, "beside": earlier}, tmp_path, "sentences", "window")
    whole = put_beside(result, read_beside([path], terms, ["sentences"]))
    assert [one["file"] for one in whole["beside"]] == ["earlier.json"], "the other shows none of its own"


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("updates", 5, "on other terms: updates 5, here 600; set by --updates"),
        ("seeds", [1], "on other terms: seeds \\[1\\], here \\[1, 2, 3\\]; set by --seeds"),
        ("changes", [], "set by --set"),
    ],
)
def test_other_terms(result, tmp_path, key, value, words):
    path = split({**result, key: value}, tmp_path, "sentences", "lst")
    with pytest.raises(UserError, match=f"lst.json: its systems cannot stand .*{words}"):
        read_beside([path], {name: result[name] for name in TERMS}, ["sentences"])


@pytest.mark.parametrize("change", [{"jobs": 9}, {"threads": 9}, {"machine": {"processor": "x", "device": "CPU"}}])
def test_minutes_are_of_one_machine(result, tmp_path, change):
    result |= {"updates": None, "minutes": 5, "threads": 1}
    clock, terms = {key: result[key] for key in CLOCK}, {key: result[key] for key in (*TERMS, "minutes")}
    assert read_beside([split(result, tmp_path, "sentences", "lst")], terms, ["sentences"], clock)
    path = split(result | change, tmp_path, "sentences", "lst")
    with pytest.raises(UserError, match=f"on other terms: {next(iter(change))} "):
        read_beside([path], terms, ["sentences"], clock)
    path = split(result | change | {"updates": 5, "minutes": None}, tmp_path, "sentences", "lst")
    assert read_beside([path], terms | {"updates": 5, "minutes": None}, ["sentences"], clock)


def test_a_result_of_an_installed_package_has_no_commit(result, tmp_path):
    path = split({**result, "commit": None}, tmp_path, "sentences", "lst")
    terms = {key: result[key] for key in TERMS}
    first = {**result, "systems": {"sentences": result["systems"]["sentences"]}}
    text = arena_text(put_beside(first, read_beside([path], terms, ["sentences"])))
    assert f"of another arena ({result['machine']['processor']}), compared with" in text


def test_a_system_in_two_files(result, tmp_path):
    paths = [split(result, tmp_path, "sentences", "window", "lst"), split(result, tmp_path, "sentences", "window")]
    with pytest.raises(UserError, match="window.json: 'window' is in another file of --beside, too"):
        read_beside(paths, {}, ["sentences"])


@pytest.mark.parametrize("text", ["[]", "{}", '{"systems": {}}'])
def test_no_result(tmp_path, text):
    (tmp_path / "x.json").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match="x.json: no result of an arena"):
        read_beside([tmp_path / "x.json"], {}, ["sentences"])


def test_other_questions(result, tmp_path):
    """By checksums; of results that have none, by numbers of items."""
    terms, first = {key: result[key] for key in TERMS}, result
    for change in ({"items": "j"}, {"test": ["e", "f"]}):
        path = split(result | {"files": result["files"] | change}, tmp_path, "sentences", "lst")
        with pytest.raises(UserError, match="lst.json: its systems .*, whose items or test set are others"):
            put_beside(first, read_beside([path], terms, ["sentences"]))
    earlier = {key: value for key, value in result.items() if key != "files"}
    others = read_beside([split(earlier, tmp_path, "sentences", "lst")], terms, ["sentences"])
    assert put_beside(first, others)["beside"][0]["systems"] == ["lst"]
    others[0]["own"]["accuracy"]["by_distance_target"]["1"]["pronoun"]["items"] += 1
    with pytest.raises(UserError, match="whose numbers of items are others"):
        put_beside(first, others)


def test_a_corpus_is_the_same_wherever_it_lies(result, tmp_path):
    corpus = {"name": "mine", "files": {"test.en": "abc"}}
    path = split(result | {"corpus": corpus}, tmp_path, "sentences", "lst")
    terms = {key: result[key] for key in TERMS}
    assert read_beside([path], terms | {"corpus": {**corpus, "name": "copy"}}, ["sentences"])
    with pytest.raises(UserError, match="corpus .*'abc'.* here .*'def'"):
        read_beside([path], terms | {"corpus": {"name": "mine", "files": {"test.en": "def"}}}, ["sentences"])
