"""The score command over several systems, plain text, breakdowns and tests."""

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
    printed, result = run(f"{PLAIN} one.txt --by document position", "one.txt.scores.json")
    scores = result["scores"]["raw"]
    assert set(scores) == set(DEFAULT_TITLES)
    assert scores["s_bleu"]["score"] == sacrebleu.corpus_bleu(sentences(SYSTEM), [sentences(REFERENCE)]).score
    assert scores["d_bleu"]["segments"] == 2 and scores["s_bleu"]["segments"] == 5
    assert [row["sentences"] for row in result["by_document"]["raw"]] == [3, 2]
    assert result["by_document"]["raw"][1]["s_bleu"] == pytest.approx(100)
    assert [row["position"] for row in result["by_position"]["raw"]] == ["1", "2", "3"]
    assert (plain / "one.txt").read_text(encoding="utf-8") == SYSTEM, "a system's text is never written over"
    assert "by document, reference raw" in printed and "by position, reference raw" in printed


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


def test_sentences_too_short_for_bleu(plain, run):
    """A perfect translation of a few short lines has 0; a reader is told why."""
    for name in ("ref.de", "same"):
        (plain / name).write_text("Guten Tag!\nWie geht's?\n", encoding="utf-8")
    printed, result = run(f"{PLAIN} same", "same.scores.json")
    assert "note: s-BLEU: no translated segment has four words" in printed and "note: d-BLEU" not in printed
    scores = result["scores"]["raw"]
    assert (scores["s_bleu"]["score"], scores["d_bleu"]["score"]) == (0, pytest.approx(100))


def test_systems_side_by_side(plain, run):
    """Seven documents of two sentences, the second system wrong in one word of three of them."""
    for name, wrong in (("ref.de", ()), ("one", range(7)), ("two", (4, 5, 6))):
        words = ["Ein" if number in wrong else "Das" for number in range(7)]
        lines = [f"<d>\n{word} Haus {n} ist alt.\nEs ist auch sehr groß.\n" for n, word in enumerate(words)]
        (plain / name).write_text("".join(lines), encoding="utf-8")
    tests = "--test documents sentences sign --samples 50"
    printed, result = run(f"{PLAIN} base=one two=two {tests} --output out.json", "out.json")
    assert result["baseline"] == "base" and list(result["systems"]) == ["base", "two"]
    significance = result["significance"]["raw"]
    assert set(significance) == set(DEFAULT_TITLES)
    assert {key: set(one["two"]) for key, one in significance.items()} == {
        key: {"documents", "sign", *(["sentences"] if key != "d_bleu" else [])} for key in significance
    }
    for key, one in significance.items():
        found = one["two"]["documents"]
        # Four documents differ, all to one side: two of the sixteen ways to exchange them are as far apart.
        assert found["p_value"] == 2 / 2**4 and found["sides"] == "two-sided" and found["units"] == 7
        scores = [result["systems"][name]["scores"]["raw"][key]["score"] for name in ("two", "base")]
        assert found["difference"] == pytest.approx(scores[0] - scores[1])
        assert found["interval"][0] < found["difference"] < found["interval"][1]
        assert found["signature"].endswith(result["systems"]["base"]["scores"]["raw"][key]["signature"])
        assert (one["two"]["sign"]["better"], one["two"]["sign"]["p_value"]) == (4, 0.125)
    (head, *rows) = printed.splitlines()
    assert head.split() == ["reference", "score", "base", "two", "segments", "signature"]
    assert any("p two-sided, sign test" in row and "+4 -0 p 0.1250" in row for row in rows)
    assert "p-values, not corrected for their number" in printed
    assert any("p two-sided, documents exchanged" in row and "] p 0.1250" in row for row in rows)


def test_every_test_has_its_own_signature(plain, run):
    """A system that differs in few documents is tested exactly, another one is not."""
    lines = {name: [f"Das Haus {number} ist sehr alt." for number in range(20)] for name in ("ref.de", "few", "many")}
    for number in range(20):
        lines["many"][number] = f"Ein Haus {number} war einmal alt."
    lines["few"][:6] = lines["many"][:6]
    for name, text in {**lines, "same": lines["ref.de"]}.items():
        (plain / name).write_text("".join(f"<d>\n{line}\n" for line in text), encoding="utf-8")
    printed, _ = run(
        f"{PLAIN} same few many --metrics chrf --test documents --samples 50 --output out.json", "out.json"
    )
    exact, drawn = (row.split() for row in printed.splitlines() if "documents exchanged" in row)
    assert exact[-1] != drawn[-1] and "samples" in " ".join(drawn) and "exact" in " ".join(exact)


def test_what_a_sign_test_does_not_take_into_account(plain, run):
    printed, _ = run(f"{PLAIN} one.txt two.txt --test sign --output out.json", "out.json")
    assert "not independent" in printed


@pytest.mark.parametrize("marked", [True, False])
def test_few_documents_have_no_p_value(plain, run, marked):
    """Plain text without <d> is one document; of two nothing can be told either."""
    for file in () if marked else ("ref.de", "one.txt"):
        (plain / file).write_text("\n".join(sentences((plain / file).read_text(encoding="utf-8"))), encoding="utf-8")
    tests = "--test documents sentences sign --output out.json"
    printed, result = run(f"{PLAIN} one.txt two.txt {tests}", "out.json")
    found = result["significance"]["raw"]
    assert {part["p_value"] for one in found.values() for part in one["two"].values()} == {None}
    assert "too few documents" in printed and "too few sentences" in printed and "p-values, not" not in printed
    assert f"note: {1 + marked} document(s)" in printed and ("not independent" in printed) == marked


def test_generated_beside_plain_text(prepared, hypotheses, tmp_path, helpers, run):
    """Another system's text stands beside the package's own translations of a prepared split."""
    helpers.write_documents(tmp_path / "other.txt", helpers.TEXT["de"])
    systems = run("--hypotheses out.jsonl other.txt prepared", "comparison.json")[1]["systems"]
    assert systems["other"]["scores"]["raw"]["d_bleu_instance"]["score"] == pytest.approx(100)
    assert systems["other"]["scores"]["raw"]["d_bleu_instance"]["segments"] == 3
    assert systems["out"]["scores"]["raw"]["s_bleu"]["score"] < 90
    assert (tmp_path / "out.txt").is_file() and systems["other"]["text"] == "other.txt"
    rows = ({"docid": str(number), "hyp": document} for number, document in enumerate(helpers.TEXT["de"]))
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))  # no file of generation
    scores = run("--hypotheses rows.jsonl prepared", "rows.scores.json")[1]["scores"]["raw"]
    assert scores == systems["other"]["scores"]["raw"] and not (tmp_path / "rows.txt").exists()


def test_systems_of_one_file_name_are_told_apart_by_folder(plain, run):
    for folder in ("a", "b"):
        (plain / folder).mkdir()
        (plain / folder / "test.txt").write_text(SYSTEM, encoding="utf-8")
    printed, _ = run(f"{PLAIN} a/test.txt b/test.txt --metrics chrf", "a/comparison.json")
    assert printed.splitlines()[0].split()[2:4] == ["a/test", "b/test"]
    assert "two systems are called 'a/test'" in run(f"{PLAIN} a/test.txt a/test.txt", status=1)


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
        ("--hypotheses one.txt --reference-file ref.de --reference release", "--reference needs"),
        ("--hypotheses one.txt --reference-file ref.de --test sign", "--test"),
        ("--hypotheses one.txt two.txt --reference-file ref.de --metrics bleu-chunks --test sentences", "is not for"),
        ("--hypotheses one.txt two.txt --reference-file ref.de --text x", "--text"),
        ("--hypotheses ref.de --reference-file ref.de", "ref.de: this is the reference itself"),
        ("--hypotheses no.txt --reference-file ref.de", "no.txt: no such file"),
        ("--hypotheses one.txt --reference-file ref.de --comet", "--comet-python"),
        ("--hypotheses one.txt --reference-file ref.de --comet --comet-python x", "--source-file"),
        ("--hypotheses one.txt --reference-file ref.de --comet-context 1", "--comet"),
        ("--hypotheses one.txt --reference-file ref.de --comet-model a", "--comet"),
        ("prepared --hypotheses one.txt --comet slide --comet-python x --comet-context 1", "another metric than slide"),
        ("prepared --hypotheses one.txt --comet comet kiwi --comet-python x --comet-model a", "as comet=a"),
        ("prepared --hypotheses one.txt --comet --comet-python x --comet-model kiwi=a", "kiwi is not computed"),
        ("prepared --hypotheses one.txt --comet --comet-python x --comet-model a.ckpt", "a.ckpt: no such file"),
        ("prepared --hypotheses one.txt --comet --comet-python no/such", "no/such: no such program"),
        ("--hypotheses one.txt --reference-file ref.de --samples 0", "--samples 0"),
        ("--hypotheses one.txt --reference-file ref.de --samples 9", "--samples"),
        ("prepared --reference tokenised --hypotheses one.txt", "raw reference"),
        ("prepared --reference release --comet --hypotheses one.txt", "COMET"),
    ],
)
def test_options_that_do_not_go_together(plain, prepared, run, line, said):
    assert said in run(line, status=1)
