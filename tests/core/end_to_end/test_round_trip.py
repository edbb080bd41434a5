"""Text comes back from a prepared corpus as it was, and corpora that were prepared by Moses' rules stay as they are.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sacrebleu.metrics import BLEU

from gtransformer.cli.prepare import main
from gtransformer.data.instance_index import InstanceIndex
from gtransformer.evaluation.references import ReleaseText
from gtransformer.evaluation.score import score_translations
from gtransformer.preprocess.chain import Postprocessor, TextEncoder, postprocessor_for
from gtransformer.preprocess.instances import split_instance
from gtransformer.preprocess.tokenise import Tokeniser
from gtransformer.preprocess.truecase import LOWER

ENGLISH = [
    "It costs 5 € and 20% more than my father’s house.",
    "“Look,” he said; it isn't at 14:30, mail a@b.de and/or c@d.de!",
    "and so it went on: red, at 125 km/h.",
    "Colours: red (and blue) – that's all.",
]
GERMAN = [
    "Es kostet 5 € und 20% mehr als Vaters Haus.",
    "»Ja«, sagte er; wie geht's um 14:30, Mail an a@b.de und/oder c@d.de!",
    "und so ging es weiter: rot, mit 125 km/h.",
    "Farben: rot (und blau) – das ist alles.",
]


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("raw")
    for split in ("train", "test"):
        for lang, lines in (("en", ENGLISH), ("de", GERMAN)):
            text = "".join(f"{line}\n" for line in ["<d>", *lines] * 6)
            (folder / f"concatenated_en2de_{split}_{lang}.txt").write_text(text, encoding="utf-8")
    return folder


def with_options(*arguments: str | Path) -> list[str]:
    merges = [] if "--vocabulary" in arguments else ["--bpe-merges", "90"]
    return [*map(str, arguments), "--workers", "1", *merges]


def prepare(raw: Path, output: Path, *options: str) -> dict:
    assert main(with_options(raw, output, *options)) == 0
    return json.loads((output / "manifest.json").read_text())


@pytest.fixture(scope="module")
def own(raw, tmp_path_factory) -> Path:
    output = tmp_path_factory.mktemp("own") / "prepared"
    prepare(raw, output)
    return output


@pytest.fixture(scope="module")
def moses(raw, tmp_path_factory) -> Path:
    output = tmp_path_factory.mktemp("moses") / "prepared"
    prepare(raw, output, "--moses-rules")
    return output


def perfect(prepared: Path, path: Path) -> Path:
    """The reference as a model's translation."""
    instance_index = InstanceIndex.load(prepared / "bin" / "test.en-de.instances.json")
    lines = (prepared / "instances" / "test.de").read_text(encoding="utf-8").splitlines()
    rows = [
        {
            "id": number, "document": document, "first_sentence": first, "sentences": count,
            "hypotheses": [{"score": -1.0, "sentences": split_instance(line)}],
        }
        for number, (line, (document, first, count)) in enumerate(zip(lines, instance_index.instances, strict=True))
    ]  # fmt: skip
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def test_text_comes_back(raw, own, tmp_path):
    manifest = prepare(raw, own)
    assert manifest["settings"]["moses_rules"] is False
    scores = score_translations(own, "test", perfect(own, tmp_path / "p.jsonl"), ["raw", "release"]).scores
    assert scores["raw"].values["s_bleu"].score == pytest.approx(100)
    for lang, lines in (("en", ENGLISH), ("de", GERMAN)):
        cut = TextEncoder(own, lang)(lines)
        assert postprocessor_for(own, lang).plain_lines(cut) == lines


def test_the_releases_text_has_no_marks_of_ours(own):
    sentences = split_instance((own / "instances" / "test.de").read_text(encoding="utf-8").splitlines()[0])
    words = " ".join(sentences)
    assert LOWER in words and "@/@" in words
    text = " ".join(ReleaseText(own, "de").instance(sentences))
    assert LOWER not in text and "@/@" not in text and "und/oder" in text and "km/h" in text


def test_moses_rules_and_what_they_lose(moses, tmp_path):
    manifest = json.loads((moses / "manifest.json").read_text())
    assert manifest["settings"]["moses_rules"] is True
    lines = [line for line in (moses / "text" / "test.de").read_text().splitlines() if line != "<d>"]
    assert Tokeniser("de")(lines)[1] == (moses / "tok" / "test.de").read_text().splitlines()[2]
    back = Postprocessor("de").plain_lines(TextEncoder(moses, "de")(lines))
    assert sum(one == other for one, other in zip(lines, back, strict=True)) < 12
    score = score_translations(moses, "test", perfect(moses, tmp_path / "p.jsonl")).scores["raw"]
    assert score.values["s_bleu"].score == pytest.approx(BLEU().corpus_score(back, [lines]).score)


def test_vocabulary_is_borrowed_with_its_rules(raw, moses, tmp_path):
    lent = prepare(raw, tmp_path / "lent", "--vocabulary", str(moses))
    assert lent["settings"]["moses_rules"] is True
    assert (tmp_path / "lent" / "tok" / "test.de").read_bytes() == (moses / "tok" / "test.de").read_bytes()
