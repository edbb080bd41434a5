"""The score command over several systems, plain text and tests."""

from __future__ import annotations

import pytest
import sacrebleu

from gtransformer.evaluation.metrics import DEFAULT_TITLES
from gtransformer.evaluation.references import raw_tokenizer
from gtransformer.files import read_json
from tests.core.evaluation.support import HYPOTHESES, TEXT, write_documents
from tests.support import command, write_lines

main = command("score")


REFERENCE = (
    "<d>\nDas Haus ist alt.\nEs ist auch groß.\nDu kennst es gut.\n<d>\nIch sehe ihn.\nEr "
    "bellt nachts laut.\n"
)
SYSTEM = REFERENCE.replace("alt", "neu").replace("Es ist", "Er ist")


@pytest.fixture
def plain(tmp_path):
    """A reference, a system with documents marked, and one without."""
    (tmp_path / "ref.de").write_text(REFERENCE, encoding="utf-8")
    (tmp_path / "one.txt").write_text(SYSTEM, encoding="utf-8")
    (tmp_path / "two.txt").write_text(
        REFERENCE.replace("<d>\n", "").replace("laut", "leise"), encoding="utf-8"
    )
    return tmp_path


def sentences(text: str) -> list[str]:
    return [line for line in text.splitlines() if line != "<d>"]


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """run(words, result): what the command prints, and the result file."""
    monkeypatch.chdir(tmp_path)

    def call(words: str, result: str):
        assert main(words.split()) == 0
        return capsys.readouterr().out, read_json(tmp_path / result)

    return call


PLAIN = "--reference-file ref.de --hypotheses"


@pytest.mark.parametrize(
    ("reference", "hypothesis", "tokenizer"),
    [
        (
            "你好，世界。\n今天天气很好，我们去公园吧。\n",
            "你好，世界。\n今天天气不好，我们去公园了。\n",
            "zh",
        ),
        (
            "今日は天気がいいです。\n散歩に行きましょう。\n",
            "今日は天気が悪いです。\n散歩に行きました。\n",
            "char",
        ),
        ("วันนี้อากาศดีมาก\nเราไปสวนกันเถอะ\n", "วันนี้อากาศไม่ดี\nเราไปสวนกันเถอะ\n", "char"),
        (
            "Der Ort heißt auf Chinesisch 北京.\nEr ist groß.\n",
            "Der Ort heißt chinesisch 北京.\nEr ist groß.\n",
            "13a",
        ),
    ],
)
def test_text_without_spaces_is_not_scored_by_words(
    tmp_path, run, reference, hypothesis, tokenizer
):
    """sacrebleu's own score with the tokeniser of the script, also where a corpus calls its
    language otherwise.
    """
    (tmp_path / "ref.de").write_text(reference, encoding="utf-8")
    (tmp_path / "hyp").write_text(hypothesis, encoding="utf-8")
    score = run(f"{PLAIN} hyp", "hyp.scores.json")[1]["scores"]["raw"]["s_bleu"]
    expected = sacrebleu.corpus_bleu(
        hypothesis.splitlines(), [reference.splitlines()], tokenize=tokenizer
    ).score
    assert score["score"] == expected > 10 and f"|tok:{tokenizer}|" in score["signature"]
    assert raw_tokenizer([reference.splitlines()], lang="cn") == tokenizer


def test_systems_side_by_side(plain, run):
    """Seven documents of two sentences, the second system wrong in one word of three of them."""
    for name, wrong in (("ref.de", ()), ("one", range(7)), ("two", (4, 5, 6))):
        words = ["Ein" if number in wrong else "Das" for number in range(7)]
        lines = [
            f"<d>\n{word} Haus {n} ist alt.\nEs ist auch sehr groß.\n"
            for n, word in enumerate(words)
        ]
        (plain / name).write_text("".join(lines), encoding="utf-8")
    printed, result = run(f"{PLAIN} base=one two=two --test --output out.json", "out.json")
    assert result["baseline"] == "base" and list(result["systems"]) == ["base", "two"]
    significance = result["significance"]["raw"]
    assert set(significance) == set(DEFAULT_TITLES)
    for key, one in significance.items():
        found = one["two"]
        # Four documents differ, all to one side: two of the sixteen ways to exchange them are as
        # far apart.
        assert found["p_value"] == 2 / 2**4 and found["units"] == 7
        scores = [
            result["systems"][name]["scores"]["raw"][key]["score"] for name in ("two", "base")
        ]
        assert found["difference"] == pytest.approx(scores[0] - scores[1])
        assert found["interval"][0] < found["difference"] < found["interval"][1]
        assert found["signature"].endswith(
            result["systems"]["base"]["scores"]["raw"][key]["signature"]
        )
    assert "p 0.12" in printed


def test_generated_beside_plain_text(prepared, hypotheses, tmp_path, run):
    """Another system's text stands beside the package's own translations of a prepared split."""
    write_documents(tmp_path / "other.txt", TEXT["de"])
    systems = run("prepared --hypotheses out.jsonl other.txt", "comparison.json")[1]["systems"]
    assert systems["other"]["scores"]["raw"]["d_bleu"]["score"] == pytest.approx(100)
    assert systems["other"]["scores"]["raw"]["d_bleu"]["segments"] == 2
    assert systems["out"]["scores"]["raw"]["s_bleu"]["score"] < 90
    assert (tmp_path / "out.txt").is_file()


def test_two_systems_side_by_side_on_a_page(plain, run):
    """The document in which the second gains most stands first; text is escaped, and other words
    are marked.
    """
    (plain / "two.txt").write_text(REFERENCE.replace("laut", "<b>"), encoding="utf-8")
    run(f"{PLAIN} one.txt two.txt --html page.html", "comparison.json")
    page = (plain / "page.html").read_text(encoding="utf-8")
    assert page.index("<h2>Document 1:") < page.index("<h2>Document 2:")
    assert (
        "<td>Das Haus ist alt.</td>" in page and "<td>Das Haus ist <mark>neu.</mark></td>" in page
    )
    assert "<td>Er bellt nachts <mark>&lt;b&gt;.</mark></td>" in page
    rest = [
        sentences(text)[3:]
        for text in ((plain / "two.txt").read_text(encoding="utf-8"), SYSTEM, REFERENCE)
    ]
    second, first = (sacrebleu.corpus_chrf(text, [rest[2]]).score for text in rest[:2])
    assert f"chrF {first:.1f} and\n{second:.1f} ({second - first:+.1f})" in page
    run(f"{PLAIN} two.txt one.txt --html page.html", "comparison.json")
    page = (plain / "page.html").read_text(encoding="utf-8")
    assert page.index("<h2>Document 2:") < page.index("<h2>Document 1:")


@pytest.mark.parametrize("marks", [True, False])
def test_the_output_of_fairseq_generate(prepared, hypotheses, tmp_path, run, marks):
    """Lines with H- give the scores of the JSON lines; without <s> and </s> those of documents."""
    lines = ["INFO | loading", "S-0\tThe house"]
    for number, sentences in [*enumerate(HYPOTHESES)][::-1]:
        joined = " </s> <s> ".join(sentences) + " </s>" if marks else " ".join(sentences)
        lines += [f"H-{number}\t-0.5\t{joined}", f"H-{number}\t-0.9\tx", f"P-{number}\t-0.5"]
    write_lines(tmp_path / "generate.out", lines)
    expected = run("prepared --reference both --hypotheses out.jsonl", "out.scores.json")[1]
    result = run("prepared --reference both --hypotheses generate.out", "generate.out.scores.json")[
        1
    ]
    if marks:
        assert result["scores"] == expected["scores"] and result["counts"] == expected["counts"]
    else:
        assert result["scores"]["raw"]["d_bleu"] == expected["scores"]["raw"]["d_bleu"]
        assert result["counts"]["misaligned_instances"] == 2
    (prepared / "sentencepiece.model").touch()  # whose pieces H-lines have without --remove-bpe
    assert main(["prepared", "--hypotheses", "generate.out"]) == 1
