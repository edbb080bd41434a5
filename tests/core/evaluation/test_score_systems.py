"""The score command over several systems, plain text and tests."""

from __future__ import annotations

import json

import pytest
import sacrebleu

from gtransformer.cli.score import main
from gtransformer.evaluation.metrics import DEFAULT_TITLES
from gtransformer.evaluation.references import raw_tokenizer

REFERENCE = "<d>\nDas Haus ist alt.\nEs ist auch groß.\nDu kennst es gut.\n<d>\nIch sehe ihn.\nEr bellt nachts laut.\n"
SYSTEM = REFERENCE.replace("alt", "neu").replace("Es ist", "Er ist")


@pytest.fixture
def plain(tmp_path):
    """A reference, a system with documents marked, and one without."""
    (tmp_path / "ref.de").write_text(REFERENCE, encoding="utf-8")
    (tmp_path / "one.txt").write_text(SYSTEM, encoding="utf-8")
    (tmp_path / "two.txt").write_text(REFERENCE.replace("<d>\n", "").replace("laut", "leise"), encoding="utf-8")
    return tmp_path


def sentences(text: str) -> list[str]:
    return [line for line in text.splitlines() if line != "<d>"]


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """run(words, result): what the command prints, and the result file; with status 1 its one line of error."""
    monkeypatch.chdir(tmp_path)

    def call(words: str, result: str = "", status: int = 0):
        assert main(words.split()) == status
        shown = capsys.readouterr()
        if status:
            assert shown.err.startswith("error: ") and shown.err.count("\n") == 1, shown.err
            return shown.err
        return shown.out, json.loads((tmp_path / result).read_text(encoding="utf-8"))

    return call


PLAIN = "--reference-file ref.de --hypotheses"


def test_plain_text_against_a_file(plain, run):
    _, result = run(f"{PLAIN} one.txt", "one.txt.scores.json")
    scores = result["scores"]["raw"]
    assert set(scores) == set(DEFAULT_TITLES)
    assert scores["s_bleu"]["score"] == sacrebleu.corpus_bleu(sentences(SYSTEM), [sentences(REFERENCE)]).score
    assert scores["d_bleu"]["segments"] == 2 and scores["s_bleu"]["segments"] == 5


def test_documents_separated_by_blank_lines(plain, run):
    """With what an editor of another system adds: the scores of the same text with <d>, and what was understood."""
    printed, marked = run(f"{PLAIN} one.txt", "one.txt.scores.json")
    assert "5 sentences in 2 documents, opened by <d>" in printed
    for path in (plain / "ref.de", plain / "one.txt"):
        text = path.read_text(encoding="utf-8").removeprefix("<d>\n").replace("<d>", "").replace("\n", "\r\n")
        path.write_text("\ufeff" + text, encoding="utf-8", newline="")
    printed, blank = run(f"{PLAIN} one.txt", "one.txt.scores.json")
    assert blank["scores"] == marked["scores"] and blank["counts"] == marked["counts"]
    assert "5 sentences in 2 documents, separated by blank lines" in printed
    path.write_text(path.read_text(encoding="utf-8").replace("\n\n", "\nund\n"), encoding="utf-8")
    assert "one.txt, line 6: the file has 6 lines, but" in run(f"{PLAIN} one.txt", status=1)


@pytest.mark.parametrize(
    ("reference", "hypothesis", "tokenizer"),
    [
        ("你好，世界。\n今天天气很好，我们去公园吧。\n", "你好，世界。\n今天天气不好，我们去公园了。\n", "zh"),
        ("今日は天気がいいです。\n散歩に行きましょう。\n", "今日は天気が悪いです。\n散歩に行きました。\n", "char"),
        ("วันนี้อากาศดีมาก\nเราไปสวนกันเถอะ\n", "วันนี้อากาศไม่ดี\nเราไปสวนกันเถอะ\n", "char"),
        ("Der Ort heißt auf Chinesisch 北京.\nEr ist groß.\n", "Der Ort heißt chinesisch 北京.\nEr ist groß.\n", "13a"),
    ],
)
def test_text_without_spaces_is_not_scored_by_words(tmp_path, run, reference, hypothesis, tokenizer):
    """sacrebleu's own score with the tokeniser of the script, also where a corpus calls its language otherwise."""
    (tmp_path / "ref.de").write_text(reference, encoding="utf-8")
    (tmp_path / "hyp").write_text(hypothesis, encoding="utf-8")
    score = run(f"{PLAIN} hyp", "hyp.scores.json")[1]["scores"]["raw"]["s_bleu"]
    expected = sacrebleu.corpus_bleu(hypothesis.splitlines(), [reference.splitlines()], tokenize=tokenizer).score
    assert score["score"] == expected > 10 and f"|tok:{tokenizer}|" in score["signature"]
    assert raw_tokenizer([reference.splitlines()], lang="cn") == tokenizer


def test_systems_side_by_side(plain, run):
    """Seven documents of two sentences, the second system wrong in one word of three of them."""
    for name, wrong in (("ref.de", ()), ("one", range(7)), ("two", (4, 5, 6))):
        words = ["Ein" if number in wrong else "Das" for number in range(7)]
        lines = [f"<d>\n{word} Haus {n} ist alt.\nEs ist auch sehr groß.\n" for n, word in enumerate(words)]
        (plain / name).write_text("".join(lines), encoding="utf-8")
    printed, result = run(f"{PLAIN} base=one two=two --test --output out.json", "out.json")
    assert result["baseline"] == "base" and list(result["systems"]) == ["base", "two"]
    significance = result["significance"]["raw"]
    assert set(significance) == set(DEFAULT_TITLES)
    for key, one in significance.items():
        found = one["two"]
        # Four documents differ, all to one side: two of the sixteen ways to exchange them are as far apart.
        assert found["p_value"] == 2 / 2**4 and found["units"] == 7
        scores = [result["systems"][name]["scores"]["raw"][key]["score"] for name in ("two", "base")]
        assert found["difference"] == pytest.approx(scores[0] - scores[1])
        assert found["interval"][0] < found["difference"] < found["interval"][1]
        assert found["signature"].endswith(result["systems"]["base"]["scores"]["raw"][key]["signature"])
    (head, *rows) = printed.splitlines()
    assert head.split() == ["reference", "score", "base", "two", "segments", "signature"]
    assert any("documents exchanged" in row and "] p 0.12" in row for row in rows)
    printed, result = run(f"{PLAIN} one two --test sentences --samples 50 --output out.json", "out.json")
    assert set(result["significance"]["raw"]) == {"s_bleu", "chrf", "ter"} and "not independent" in printed


def test_few_documents_have_no_p_value(plain, run):
    printed, result = run(f"{PLAIN} one.txt two.txt --test --output out.json", "out.json")
    assert {one["two"]["p_value"] for one in result["significance"]["raw"].values()} == {None}
    assert "too few documents" in printed


def test_generated_beside_plain_text(prepared, hypotheses, tmp_path, helpers, run):
    """Another system's text stands beside the package's own translations of a prepared split."""
    helpers.write_documents(tmp_path / "other.txt", helpers.TEXT["de"])
    systems = run("--hypotheses out.jsonl other.txt prepared", "comparison.json")[1]["systems"]
    assert systems["other"]["scores"]["raw"]["d_bleu_instance"]["score"] == pytest.approx(100)
    assert systems["other"]["scores"]["raw"]["d_bleu_instance"]["segments"] == 3
    assert systems["out"]["scores"]["raw"]["s_bleu"]["score"] < 90
    assert (tmp_path / "out.txt").is_file()


def test_systems_of_one_file_name_are_told_apart_by_folder(plain, run):
    for folder in ("a", "b"):
        (plain / folder).mkdir()
        (plain / folder / "test.txt").write_text(SYSTEM, encoding="utf-8")
    printed, _ = run(f"{PLAIN} a/test.txt b/test.txt --metrics chrf", "a/comparison.json")
    assert printed.splitlines()[0].split()[2:4] == ["a/test", "b/test"]
    assert "two systems have the same name" in run(f"{PLAIN} a/test.txt a/test.txt", status=1)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda text: text.replace("Du kennst es gut.\n", ""), 1),
        (lambda text: text + "Noch einer.\n", 5),
        (lambda text: text + "<d>\nx\n", 8),
        (lambda text: text.partition("<d>\nIch")[0], 4),
        (lambda text: text.replace("<d>\n", "") + "x\n", 6),
        (lambda text: "x\n" + text, 1),
        (lambda text: text + "<d>\n", 8),
        (lambda text: "", 1),
    ],
)
def test_text_that_is_not_aligned(plain, run, change, line):
    (plain / "one.txt").write_text(change(SYSTEM), encoding="utf-8")
    assert f"one.txt, line {line}: " in run(f"{PLAIN} one.txt", status=1)
    assert not list(plain.glob("*.json"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--hypotheses one.txt", "--reference-file"),
        ("--hypotheses one.txt two.txt --reference-file ref.de --text x", "--text"),
        ("--hypotheses no.txt --reference-file ref.de", "no.txt: no such file"),
        ("--hypotheses one.txt --reference-file ref.de --comet", "--source-file"),
        ("prepared --reference release --hypotheses one.txt", "raw reference"),
        ("prepared --reference release --comet --hypotheses one.txt", "COMET"),
    ],
)
def test_wrong_use(plain, prepared, run, line, said):
    assert said in run(line, status=1)


def marked(rows: list[list[str]]) -> str:
    return "".join("<d>\n" + "".join(f"{line}\n" for line in document) for document in rows)


def test_several_references(tmp_path, run):
    """sacrebleu's own scores with two references; documents of both are joined for d-BLEU."""
    references = [[["Das Haus ist alt.", "Er geht jetzt."], ["Ja, sie kommt."]]]
    references.append([["Das ist ein altes Haus.", "Er geht nun fort."], ["Ja, sie kommt gern."]])
    hypothesis = [["Das Haus ist ein altes.", "Er geht nun."], ["Ja, sie kommt gern."]]
    for name, text in zip(("ref1", "ref2", "hyp"), [*references, hypothesis], strict=True):
        (tmp_path / name).write_text(marked(text), encoding="utf-8")
    _, result = run("--reference-file ref1 ref2 --hypotheses hyp", "hyp.scores.json")
    scores = result["scores"]["raw"]
    flat = [[line for document in text for line in document] for text in [*references, hypothesis]]
    metrics = {"s_bleu": sacrebleu.corpus_bleu, "chrf": sacrebleu.corpus_chrf, "ter": sacrebleu.corpus_ter}
    for key, metric in metrics.items():
        assert scores[key]["score"] == metric(flat[2], flat[:2]).score and "nrefs:2" in scores[key]["signature"]
    joined = [[" ".join(document) for document in text] for text in [*references, hypothesis]]
    assert scores["d_bleu"]["score"] == sacrebleu.corpus_bleu(joined[2], joined[:2]).score
