"""The page that sets systems side by side: what is in it, whatever the texts hold, and what a browser makes of it."""

from __future__ import annotations

import json

import pytest

from gtransformer.cli.score import main
from gtransformer.lab.report.pages.compare import telling_words
from gtransformer.preprocess.characters import clean_line
from tests.hard_text import STRANGE
from tests.pages import Page, check_alone, try_page

MARKUP = (
    "</script><script>window.spoilt = 1</script>",
    "<img src=x onerror='window.spoilt = 1'> <!-- ]]> <!--<script>",
    "&lt;b&gt; &amp; \" ' {{ 7 * 7 }} {% raw %} </body>",
    "\u202eright to left\u2066",
)
SOURCE = [["Hi Tom!", "I have a vase.", "Is it old?"], ["Good morning!", "He sleeps."]]
REFERENCE = [["Hallo Tom!", "Ich habe eine Vase.", "Ist sie alt?"], ["Guten Morgen!", "Er schläft."]]
BASE = [["Hallo Tom!", "Ich habe Vase.", "Ist er alt?"], ["Guten Morgen!", "Er schläft."]]
OTHER = [["Hallo Tom!", "Ich habe eine Vase.", "Ist sie alt?"], ["Guten Abend!", "Sie schläft nun."]]
ITEM = {"id": 0, "phenomenon": "pronoun", "detail": "it -> sie", "document": 0, "sentence": 2, "distance": 1,
        "correct": "Ist sie alt?", "wrong": ["Ist er alt?", "Ist es alt?"]}  # fmt: skip


@pytest.fixture
def score(tmp_path, capsys):
    """score(texts by name, *options, items=(), status=0): (its page, if one was written, stderr)."""

    def write(name, documents):
        path = tmp_path / name
        path.write_text("".join("<d>\n" + "".join(f"{line}\n" for line in one) for one in documents), encoding="utf-8")
        return path

    def run(source, reference, systems, *options, items=(), status=0):
        arguments = ["--reference-file", write("ref", reference), "--source-file", write("src", source)]
        if items:
            (tmp_path / "items.json").write_text(json.dumps({"split": "test", "items": list(items)}))
            arguments += ["--items", tmp_path / "items.json"]
        files = [f"{name}={write(f'sys{at}', texts)}" for at, (name, texts) in enumerate(systems.items())]
        arguments += ["--metrics", "chrf", "--html", tmp_path / "page.html", *options, "--hypotheses", *files]
        assert main([str(word) for word in arguments]) == status
        return tmp_path / "page.html", capsys.readouterr().err

    return run


@pytest.fixture
def page(score):
    return score(SOURCE, REFERENCE, {"transformer": BASE, "mine": OTHER}, items=[ITEM])[0]


def test_what_is_in_the_page(page):
    found = Page(page)
    check_alone(found)
    assert [one["name"] for one in found.data["systems"]] == ["transformer", "mine"]
    assert found.data["systems"][0]["colour"] == "#c43f40"  # as in every picture
    (one, first), (two, second) = found.data["documents"]
    assert (one, two) == (1, 2)
    # Equal texts stand once; the words that tell right from wrong are of the item.
    assert first[0] == [1, "Hi Tom!", ["Hallo Tom!", 0, 0], [1000, 1000]]
    assert first[2][:3] == [3, "Is it old?", ["Ist sie alt?", "Ist er alt?", 0]] and first[2][3][1] == 1000
    assert first[2][4] == [["pronoun", "it -> sie", 1, ["sie"], ["er", "es"]]] and len(first[1]) == 4
    assert second[1][3][0] == 1000 > second[1][3][1] > 0
    text = "".join(found.texts)
    assert "chrF" in text and "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no" in text
    labels = {attrs["for"] for tag, attrs in found.elements if tag == "label" and "for" in attrs}
    assert {attrs["id"] for tag, attrs in found.elements if tag == "select"} == labels


def test_texts_of_any_kind_stay_texts(score, tmp_path):
    """Markup, control characters, other directions: no element more than of a harmless text, all that scoring reads."""
    lines = [*MARKUP, *(line.rstrip("\r") for line in STRANGE)]
    lines = [line for line in lines if line.strip() != "<d>"]
    name = "<b onclick>\"'&"
    path, _ = score([lines], [lines[::-1]], {name: [lines], "mine": [lines[1:] + lines[:1]]})
    found, texts = Page(path), []
    lines = [clean_line(line) for line in lines]
    check_alone(found)
    for _, source, some, *_ in found.data["documents"][0][1]:
        texts.append([source, *(some[text] if isinstance(text, int) else text for text in some)])
    assert texts == [list(row) for row in zip(lines, lines[::-1], lines, lines[1:] + lines[:1], strict=True)]
    assert found.data["systems"][0]["name"] == name and "".join(found.texts).count(name) >= 4
    (tmp_path / "page.html").rename(tmp_path / "strange.html")
    plain, _ = score(SOURCE, REFERENCE, {"a": BASE, "b": OTHER})
    assert found.tags == Page(plain).tags
    seen = try_page(tmp_path / "strange.html", """() => [window.spoilt === undefined, document.scripts.length,
      [...document.querySelectorAll("tbody td:nth-of-type(1) > div")].map((one) => one.textContent)]""")  # fmt: skip
    assert seen == [True, 3, lines]


def test_telling_words():
    assert telling_words("Ich mag sie.", ["Ich mag ihn.", "Ich mag es."]) == (["sie"], ["ihn", "es"])
    found = telling_words("Bitte schreiben Sie mir.", ["Bitte schreib mir."])
    assert found == (["schreiben", "Sie"], ["schreib"])
    assert telling_words("er ist er", ["es ist er"]) == (["er"], ["es"])


@pytest.mark.parametrize(
    "change",
    [{"document": 2}, {"sentence": 3}, {"correct": "Ist sie neu?"}],
)
def test_items_of_another_text(score, change):
    path, error = score(SOURCE, REFERENCE, {"a": BASE}, items=[ITEM | change], status=1)
    assert "contrastive item 0" in error and error.count("\n") == 1 and not path.exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--items", "i.json", "--reference-file", "r"], "--items"),
        (["--html", ".", "--reference-file", __file__], "directory"),
        (["--html", "p.html", "p", "--reference", "release"], "--html"),
    ],
)
def test_options_that_do_not_go_together(arguments, named, capsys):
    assert main(["--hypotheses", "a.jsonl", *arguments]) == 1
    assert named in capsys.readouterr().err


def test_a_hundred_documents_are_a_small_page(score):
    """Five systems, 60 sentences of 100 characters, no two alike: what one document adds, a hundred times."""
    text = {part: [f"{part} {at} " + "wort " * 18 for at in range(60)] for part in "abcdefg"}

    def size(documents: int) -> int:
        source, reference, *systems = ([one] * documents for one in text.values())
        return score(source, reference, dict(zip("cdefg", systems, strict=True)))[0].stat().st_size

    both = size(1), size(2)
    assert both[0] + 99 * (both[1] - both[0]) < 10_000_000


STEPS = """() => {
  const all = (query) => [...document.querySelectorAll(query)].map((one) => one.textContent.trim());
  const set = (id, value) => {
    const control = document.getElementById(id);
    if (control.type === "checkbox") control.checked = value; else control.value = value;
    control.dispatchEvent(new Event("change", { bubbles: true }));
  };
  const found = { dark: getComputedStyle(document.body).backgroundColor };
  found.unlabelled = [...document.querySelectorAll("select, input")].filter((one) => !one.labels.length).length;
  found.open = all(".document > h2 > button"), found.rows = all(".texts tbody tr").length;
  found.changed = all(".texts ins"), found.right = all("#shown .right"), found.wrong = all("#shown .wrong");
  found.cue = all(".telling.cue");
  set("missing", true); found.missing = all(".texts del");
  set("base", "1"); found.against_first = all(".texts ins");
  set("base", ""); found.unmarked = all(".texts ins").length;
  document.querySelector(".mark").click(); found.discloses = all(".discloses"); document.querySelector(".mark").click();
  found.closed = all(".discloses").length;
  set("order", "loss"); found.loss = all(".document > h2 > button");
  set("order", "gain"); found.gain = all(".document > h2 > button");
  set("unit", "sentences"); found.sentences = all(".texts tbody th");
  set("order", "loss"); found.worst = all(".texts tbody th")[0];
  set("position", "1,1"); found.position = all(".texts tbody th"); found.status = all("#status")[0];
  set("position", ""); set("phenomenon", "=pronoun"); found.phenomenon = all(".texts tbody th");
  document.querySelector("input[name=system]").click(); found.heads = all(".texts thead th");
  set("unit", "documents"); set("phenomenon", ""); document.getElementById("all").click();
  found.all = all(".texts tbody tr").length;
  return found;
}"""


@pytest.mark.slow
def test_in_a_browser(page):
    found = try_page(page, STEPS, "--blink-settings=preferredColorScheme=0")
    assert found == {
        "dark": "rgb(21, 24, 28)",
        "unlabelled": 0,
        "open": ["Document 1", "Document 2"],
        "rows": 3,  # of the first alone, until somebody asks for more
        "changed": ["er"],
        "right": ["sie", "sie"],
        "wrong": ["er"],
        "cue": ["it"],
        "missing": ["eine", "sie"],
        "against_first": ["eine", "sie"],
        "unmarked": 0,
        "discloses": ["2: I have a vase. – Ich habe eine Vase."],
        "closed": 0,
        "loss": ["Document 2", "Document 1"],
        "gain": ["Document 1", "Document 2"],
        "sentences": ["1 · 3", "1 · 2", "1 · 1", "2 · 2", "2 · 1"],
        "worst": "2 · 1",
        "position": ["2 · 1", "1 · 1"],
        "status": found["status"],
        "phenomenon": ["1 · 3"],
        "heads": ["document · sentence", "source", "reference", "mine"],
        "all": 5,
    }
    assert found["status"].startswith("2 sentences in 2 documents.")
