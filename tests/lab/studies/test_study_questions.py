"""Contrastive items of a study: read before anything runs, with as much context as each system has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gtransformer.errors import UserError
from gtransformer.lab.cli.study import main
from gtransformer.lab.studies.data import Corpora
from gtransformer.lab.studies.plan import load_study
from gtransformer.lab.studies.questions import Questions, content
from gtransformer.run.recipe import load_recipe
from tests.core.evaluation.test_suites import contrapro_entry, write_json, write_text_form
from tests.support import ROOT

OWN = ROOT / "tests" / "compatibility" / "contrastive.json"
VOITA = {"src": "a _eos b", "dst": ["c _eos d", "c _eos e"], "true_ind": 0}


@pytest.fixture
def suites(tmp_path: Path) -> Path:
    """All kinds in one folder; context stands in subtitles/."""
    (tmp_path / "subtitles").mkdir()
    for lang, word in (("en", "line"), ("de", "Zeile")):
        lines = "".join(f"{word} {number}\n" for number in range(1, 7))
        (tmp_path / "subtitles" / f"d.{lang}").write_text(lines, encoding="utf-8")
    write_json(tmp_path / "contrapro.json", [contrapro_entry(number) for number in (2, 5)])
    write_text_form(tmp_path / "text")
    write_json(tmp_path / "lex.json", [VOITA])
    return tmp_path


def told(place: Path, items: str, **options) -> list[dict]:
    """What models of single sentences, of pseudo-documents and of whole documents are asked with."""
    questions = Questions((place / items,), **options)
    recipes = ("docflat/sentences", "docflat/c", "arena/gtransformer")
    return [questions.options(load_recipe(name)) for name in recipes]


def test_each_system_has_its_own_context(suites: Path, monkeypatch):
    """That of its instances, the command's default where these have no number; or that which is given."""
    monkeypatch.chdir(suites)
    documents = {"documents": str(suites / "subtitles")}
    given = {"documents": Path("subtitles")}
    assert told(suites, "contrapro.json", **given) == [
        documents | {"context": 0},
        documents | {"context": 3},
        documents,
    ]
    assert told(suites, "contrapro.json", **given, context=1) == [documents | {"context": 1}] * 3
    assert told(suites, "text") == [{"context": 0}, {"context": 3}, {}]
    assert told(suites, "lex.json") == told(Path(), str(OWN)) == [{}] * 3
    assert Questions().options(load_recipe("docflat/c")) == {}


def study(place: Path, *options: object, figure: str = "docflat_figure4") -> int:
    return main([figure, str(place / "none"), str(place / "out"), *map(str, options)])


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--items", "contrapro.jsn"], "contrapro.jsn"),
        (["--items", "contrapro.json"], "documents"),
        (["--items", "contrapro.json", "--documents", "subtitle"], "subtitle"),
        (["--items", "text"], "distance"),
        (["--items", "contrapro.json", "--context", "-1"], "--context"),
        (["--items", OWN, "--context", "2"], "--context"),
        (["--items", "lex.json"], "lex.json"),
        (["--context", "2"], "--context"),
        ([], "--items"),
    ],
)
def test_what_cannot_be_asked_is_said_before_anything_runs(suites: Path, capsys, monkeypatch, options, word):
    monkeypatch.chdir(suites)
    assert study(suites, *options) == 1
    error = capsys.readouterr().err
    assert word in error and error.count("\n") == 1 and not (suites / "out").exists()
    assert study(suites, figure="docflat_table7") == 1, "a row that does not translate is asked, or not run"


def test_what_was_asked_before_is_not_taken_for_something_else(suites: Path):
    """In one OUTPUT runs that are done are kept, and so are their accuracies; earlier versions noted no context."""
    recipe, text = load_recipe("docflat/c"), Questions((suites / "text",))
    others = (
        replace(text, context=1),
        Questions((suites / "contrapro.json",), suites / "subtitles"),
        Questions((OWN,)),
    )
    for noted, refused in ((text.options(recipe), others), ({}, others[:1])):
        write_json(suites / "run.json", {"contrastive": {"items": ["/elsewhere/text"], **noted}})
        text.check_contrastive(suites, recipe, text.items)
        Questions().check_contrastive(suites, recipe, ())
        for other in refused:
            with pytest.raises(UserError, match="--items text"):
                other.check_contrastive(suites, recipe, other.items)
    write_json(suites / "run.json", {})
    text.check_contrastive(suites, recipe, text.items)


def test_items_are_the_same_by_their_content(tmp_path: Path):
    """Also those of a generated corpus, which are not given with --items."""
    recipe, items = load_recipe("docflat/c"), tmp_path / "items.json"
    items.write_text("[1]")
    write_json(tmp_path / "run.json", {"contrastive": {"items": [str(items)]}, "items_sha256": content([items])})
    Questions().check_contrastive(tmp_path, recipe, [items])
    items.write_text("[2]")
    with pytest.raises(UserError, match="other items of this name"):
        Questions().check_contrastive(tmp_path, recipe, [items])


def test_what_can_be_asked(suites: Path):
    """The items of the text form say their phenomenon; those of the corpus that is generated need not be there yet."""
    documents = suites / "subtitles"
    recipe = load_recipe("docflat/sentences")
    for name, miniature, questions in (
        ("docflat_figure4", False, Questions((suites / "contrapro.json",), documents)),
        ("docflat_figure4", False, Questions((OWN,))),
        ("docflat_table6", False, Questions((suites / "text",))),
        ("docflat_table2", False, Questions()),
        ("docflat_figure4", True, Questions()),
    ):
        asked = load_study(name, miniature)
        corpus = "demo" if miniature else str(suites)
        questions.check(asked, Corpora(suites, corpus, asked.corpus, recipe, questions.items))
