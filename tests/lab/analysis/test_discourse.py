"""Pronoun and formality F1: the rules on hand-tagged sentences, the formulae, and the command."""

from __future__ import annotations

import json
import lzma
import re
import sys
import types
from collections import Counter

import pytest

from gtransformer.lab.analysis.discourse import Token, corpus_f1, discourse_f1, formality_counts, pronoun_counts
from gtransformer.lab.cli.discourse import main
from tests.support import SHARED

CONTRAPRO = SHARED / "data" / "contrapro"
# Tagged by hand where the part of speech decides; every other word is an X.
TAGS = {
    word: "PRON"
    for words in ("it itself you they them she her I he er ihn ihm sie es Es Er du dich dir euch Sie Ihnen", "hers")
    for word in words.split()
}
TAGS |= {"its": "PRON", "your": "PRON", "their": "PRON", "sein": "DET", "dein": "DET", "deine": "DET", "Ihre": "DET"}


def tagged(text: str) -> list[Token]:
    """``word`` with its tag from the list, or ``word/TAG``."""
    pairs = [word.partition("/") for word in text.split()]
    return [Token(word, tag or TAGS.get(word, "X")) for word, _, tag in pairs]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("it barks", "er bellt", {"male": 1}),
        ("I see it", "ich sehe ihn", {"male": 1}),
        ("it is old", "sie ist alt", {"female": 1}),
        ("I help it", "ich helfe ihr/PRON", {"female": 1}),
        ("I see its end", "ich sehe ihr/DET Ende", {}),
        ("it is old and it is good", "Es ist alt und er ist gut", {"neuter": 1, "male": 1}),
        ("it hurts itself", "es verletzt es", {"neuter": 2}),
        ("I help it", "ich helfe ihm", {}),  # male and neuter alike
        ("he barks", "er bellt", {}),  # no neuter pronoun: not ambiguous
        ("the it/NOUN is old", "er ist alt", {}),  # the tagger says it is no pronoun
        ("it barks", "er/NOUN bellt", {}),
        ("they see it", "sie sehen ihn", {"male": 1}),  # sie may be "they"
        ("you see it", "Sie sehen es", {"neuter": 1}),  # Sie may be "you"
        ("it is their/PRON end", "sie ist alt", {}),
        ("she sees it", "sie sieht es", {"female": 1, "neuter": 1}),  # not excluded by the paper's rule
    ],
)
def test_pronouns(source, target, expected):
    assert +pronoun_counts(tagged(source), tagged(target)) == Counter(expected)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("you know", "du weisst", {"informal": 1}),
        ("you know", "Sie wissen", {"formal": 1}),
        ("I help you", "ich helfe Ihnen", {"formal": 1}),
        ("take your dog", "nimm deine Hunde", {"informal": 1}),
        ("take your dog", "nehmen Sie Ihre Hunde", {"formal": 2}),
        ("you know you", "du kennst dich und dir", {"informal": 3}),
        ("you come", "Ihr/PRON kommt", {}),  # the informal plural; not told from "her"
        ("you know", "sie wissen", {}),  # formal address has a capital
        ("I know", "Sie wissen", {}),  # no "you"
        ("you see it", "Sie sehen sie", {}),  # Sie may be "it"
        ("you see her", "Sie sehen sie und du", {"informal": 1}),
        ("you and they know", "Sie wissen", {}),
        ("you/NOUN know", "du weisst", {}),
    ],
)
def test_formality(source, target, expected):
    assert +formality_counts(tagged(source), tagged(target)) == Counter(expected)


def test_formulae_by_hand():
    """Three sentences; classes do not match each other, and surplus occurrences do not either."""
    pairs = [
        (Counter(male=1), Counter(male=1, neuter=1)),  # min: 1
        (Counter(female=2), Counter(female=1)),  # min: 1
        (Counter(neuter=1), Counter(male=1)),  # min: 0
    ]
    score = corpus_f1(pairs, ("male", "female", "neuter"))
    counts = {"matched": 2, "hypothesis": 4, "reference": 4}
    assert score == counts | {"precision": 2 / 4, "recall": 2 / 4, "f1": 2 * 0.5 * 0.5 / (0.5 + 0.5)}
    assert corpus_f1([(Counter(a=4), Counter(a=3)), (Counter(), Counter(a=7))], "a")["f1"] == pytest.approx(
        2 * 0.75 * 0.3 / (0.75 + 0.3), abs=1e-15
    )
    nothing, missed = corpus_f1(pairs, ["formal"]), corpus_f1([(Counter(), Counter(male=3))], ["male"])
    assert {nothing[key] for key in ("f1", "precision", "recall")} == {None}
    assert [missed[key] for key in ("f1", "precision", "recall")] == [0, 0, 0]


def test_corpus():
    sources = [tagged(text) for text in ("it barks", "you know", "the end")]
    references = [tagged(text) for text in ("er bellt", "du weisst", "das Ende")]
    hypotheses = [tagged(text) for text in ("es bellt", "du weisst", "er du")]
    result = discourse_f1(sources, hypotheses, references)
    assert result["pronoun"]["f1"] == 0 and result["pronoun"]["sentences"] == 1
    assert result["formality"]["f1"] == 1 and result["formality"]["by_class"]["formal"]["f1"] is None
    assert result["pronoun"]["by_class"]["male"]["reference"] == 1
    assert discourse_f1(sources, references, references)["pronoun"]["f1"] == 1


@pytest.mark.skipif(not CONTRAPRO.is_dir(), reason="the suite is not part of the repository")
def test_word_lists_find_what_table_8_counts():
    """Without a tagger the lists find a little more than the paper did with one."""
    english, german = (
        lzma.open(CONTRAPRO / f"contrapro.text.{lang}.xz", "rt", encoding="utf-8").read().split("\n")
        for lang in ("en", "de")
    )
    starts = lzma.open(CONTRAPRO / "groups.txt.xz", "rt").read().split()[:-1]
    found: Counter[str] = Counter()
    for start in map(int, starts):
        source, target = (
            [Token(word, "PRON") for word in re.findall(r"\w+", text[start])] for text in (english, german)
        )
        found += pronoun_counts(source, target)
    assert found == {"male": 4703, "female": 4007, "neuter": 4820}
    for name, paper in (("male", 4688), ("female", 4001), ("neuter", 4565)):
        assert 1 <= found[name] / paper < 1.06


FILES = {
    "test.en": "<d>\nit barks\nyou know\n",
    "test.de": "<d>\ner bellt\ndu weisst\n",
    "a.txt": "<d>\ner bellt\nSie wissen\n",
    "b.txt": "es bellt\ndu weisst\n",
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Source, reference and two systems in the working directory."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def spacy(monkeypatch):
    """A stand-in for spaCy that tags from the list above and knows two models."""

    class Pipeline:
        meta = {"version": "3.7.0"}

        def pipe(self, texts):
            for text in texts:
                yield [types.SimpleNamespace(text=word, pos_=tag) for word, tag in tagged(text)]

    def load(name, exclude):
        return Pipeline()

    module = types.ModuleType("spacy")
    module.load, module.__version__ = load, "3.8.0"
    monkeypatch.setitem(sys.modules, "spacy", module)


ARGUMENTS = ["--source", "test.en", "--reference", "test.de", "--hypotheses"]


def test_command(files, spacy, capsys):
    assert main([*ARGUMENTS, "a.txt", "second=b.txt"]) == 0
    result = json.loads((files / "a.txt.discourse.json").read_text(encoding="utf-8"))
    systems = result["systems"]
    assert (systems["a"]["pronoun"]["f1"], systems["a"]["formality"]["f1"]) == (1, 0)
    assert (systems["second"]["pronoun"]["f1"], systems["second"]["formality"]["f1"]) == (0, 1)
    assert result["taggers"][1] == "de_core_news_sm|version:3.7.0|spacy:3.8.0"
    printed = capsys.readouterr().out
    assert re.search(r"pronoun +F1 +100.0 +0.0 +1\n", printed) and "F1, informal" in printed


def test_a_real_spacy(files, tmp_path):
    """Where spaCy is installed."""
    spacy = pytest.importorskip("spacy", reason="spaCy is an optional extra")
    models = [f"--source-model={tmp_path / 'en'}", f"--target-model={tmp_path / 'de'}"]
    for lang in ("en", "de"):
        pipeline = spacy.blank(lang)
        ruler = pipeline.add_pipe("attribute_ruler")
        for word, tag in TAGS.items():
            ruler.add([[{"ORTH": word}]], {"POS": tag})
        ruler.add([[{"IS_ALPHA": True, "ORTH": {"NOT_IN": list(TAGS)}}]], {"POS": "X"})
        pipeline.to_disk(tmp_path / lang)
    assert main([*ARGUMENTS, "a.txt", *models]) == 0
    result = json.loads((files / "a.txt.discourse.json").read_text(encoding="utf-8"))["systems"]["a"]
    assert (result["pronoun"]["f1"], result["formality"]["f1"]) == (1, 0)
