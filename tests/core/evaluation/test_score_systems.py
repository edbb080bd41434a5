"""The score command over several systems, plain text, breakdowns, tests and COMET."""

from __future__ import annotations

import json
import sys
import types

import pytest
import sacrebleu

from gtransformer.cli.score import main
from gtransformer.evaluation.comet import load_comet
from gtransformer.evaluation.metrics import USUAL_TITLES
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


def error_of(capsys) -> str:
    text = capsys.readouterr().err
    assert text.startswith("error: ") and text.count("\n") == 1, text
    return text


def test_plain_text_against_a_file(plain, capsys):
    arguments = ["--reference-file", str(plain / "ref.de"), "--hypotheses", str(plain / "one.txt")]
    assert main([*arguments, "--by", "document", "position"]) == 0
    result = json.loads((plain / "one.txt.scores.json").read_text(encoding="utf-8"))
    scores = result["scores"]["raw"]
    assert set(scores) == set(USUAL_TITLES)
    assert scores["s_bleu"]["score"] == sacrebleu.corpus_bleu(sentences(SYSTEM), [sentences(REFERENCE)]).score
    assert scores["d_bleu"]["segments"] == 2 and scores["s_bleu"]["segments"] == 5
    assert [row["sentences"] for row in result["by_document"]["raw"]] == [3, 2]
    assert result["by_document"]["raw"][1]["s_bleu"] == pytest.approx(100)
    assert [row["position"] for row in result["by_position"]["raw"]] == ["1", "2", "3"]
    assert (plain / "one.txt").read_text(encoding="utf-8") == SYSTEM, "a system's text is never written over"
    printed = capsys.readouterr().out
    assert "by document, reference raw" in printed and "by position, reference raw" in printed


def test_documents_separated_by_blank_lines(plain, capsys):
    """With what an editor of another system adds: the scores of the same text with <d>, and what was understood."""
    wanted, given = plain / "ref.de", plain / "one.txt"
    assert main(["--reference-file", str(wanted), "--hypotheses", str(given)]) == 0
    marked = json.loads((plain / "one.txt.scores.json").read_text(encoding="utf-8"))
    assert "5 sentences in 2 documents, opened by <d>" in capsys.readouterr().out
    for path in (wanted, given):
        text = path.read_text(encoding="utf-8").removeprefix("<d>\n").replace("<d>", "").replace("\n", "\r\n")
        path.write_text("\ufeff" + text, encoding="utf-8", newline="")
    assert main(["--reference-file", str(wanted), "--hypotheses", str(given)]) == 0
    blank = json.loads((plain / "one.txt.scores.json").read_text(encoding="utf-8"))
    assert blank["scores"] == marked["scores"] and blank["counts"] == marked["counts"]
    assert "5 sentences in 2 documents, separated by blank lines" in capsys.readouterr().out
    given.write_text(given.read_text(encoding="utf-8").replace("\n\n", "\nund\n"), encoding="utf-8")
    assert main(["--reference-file", str(wanted), "--hypotheses", str(given)]) == 1
    assert "one.txt, line 6: the file has 6 lines, but" in error_of(capsys)


@pytest.mark.parametrize(
    ("reference", "hypothesis", "tokenizer"),
    [
        ("你好，世界。\n今天天气很好，我们去公园吧。\n", "你好，世界。\n今天天气不好，我们去公园了。\n", "zh"),
        ("今日は天気がいいです。\n散歩に行きましょう。\n", "今日は天気が悪いです。\n散歩に行きました。\n", "char"),
        ("วันนี้อากาศดีมาก\nเราไปสวนกันเถอะ\n", "วันนี้อากาศไม่ดี\nเราไปสวนกันเถอะ\n", "char"),
        ("Der Ort heißt auf Chinesisch 北京.\nEr ist groß.\n", "Der Ort heißt chinesisch 北京.\nEr ist groß.\n", "13a"),
    ],
)
def test_text_without_spaces_is_not_scored_by_words(tmp_path, reference, hypothesis, tokenizer):
    """sacrebleu's own score with the tokeniser of the script, also where a corpus calls its language otherwise."""
    (tmp_path / "ref").write_text(reference, encoding="utf-8")
    (tmp_path / "hyp").write_text(hypothesis, encoding="utf-8")
    assert main(["--reference-file", str(tmp_path / "ref"), "--hypotheses", str(tmp_path / "hyp")]) == 0
    score = json.loads((tmp_path / "hyp.scores.json").read_text(encoding="utf-8"))["scores"]["raw"]["s_bleu"]
    expected = sacrebleu.corpus_bleu(hypothesis.splitlines(), [reference.splitlines()], tokenize=tokenizer).score
    assert score["score"] == expected > 10 and f"|tok:{tokenizer}|" in score["signature"]
    assert raw_tokenizer([reference.splitlines()], lang="cn") == tokenizer


def test_sentences_too_short_for_bleu(plain, capsys):
    """A perfect translation of a few short lines has 0; a reader is told why."""
    (plain / "short").write_text("Guten Tag!\nWie geht's?\n", encoding="utf-8")
    (plain / "same").write_text("Guten Tag!\nWie geht's?\n", encoding="utf-8")
    assert main(["--reference-file", str(plain / "short"), "--hypotheses", str(plain / "same")]) == 0
    printed = capsys.readouterr().out
    assert "note: s-BLEU: no translated segment has four words" in printed and "note: d-BLEU" not in printed
    result = json.loads((plain / "same.scores.json").read_text(encoding="utf-8"))["scores"]["raw"]
    assert (result["s_bleu"]["score"], result["d_bleu"]["score"]) == (0, pytest.approx(100))


def test_systems_side_by_side(plain, capsys):
    """Seven documents of two sentences, the second system wrong in one word of three of them."""
    reference = [[f"Das Haus {number} ist alt.", "Es ist auch sehr groß."] for number in range(7)]
    texts = {
        "ref": reference,
        "one": [[one.replace("Das", "Ein"), other] for one, other in reference],
        "two": [
            [one.replace("Das", "Ein") if number > 3 else one, other] for number, (one, other) in enumerate(reference)
        ],
    }
    for name, documents in texts.items():
        lines = [line for document in documents for line in ("<d>", *document)]
        (plain / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    files = [f"base={plain / 'one'}", f"two={plain / 'two'}"]
    tests = ["--test", "documents", "sentences", "sign", "--samples", "50"]
    output = ["--output", str(plain / "comparison.json")]
    assert main(["--reference-file", str(plain / "ref"), "--hypotheses", *files, *tests, *output]) == 0
    result = json.loads((plain / "comparison.json").read_text(encoding="utf-8"))
    assert result["baseline"] == "base" and list(result["systems"]) == ["base", "two"]
    significance = result["significance"]["raw"]
    assert set(significance) == set(USUAL_TITLES)
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
    (head, *rows) = capsys.readouterr().out.splitlines()
    assert head.split() == ["reference", "score", "base", "two", "segments", "signature"]
    assert any("p two-sided, sign test" in row and "+4 -0 p 0.1250" in row for row in rows)
    assert any("p two-sided, documents exchanged" in row and "] p 0.1250" in row for row in rows)


@pytest.mark.parametrize("marked", [True, False])
def test_few_documents_have_no_p_value(plain, capsys, marked):
    """Plain text without <d> is one document; of two nothing can be told either."""
    for file in () if marked else ("ref.de", "one.txt"):
        (plain / file).write_text("\n".join(sentences((plain / file).read_text(encoding="utf-8"))), encoding="utf-8")
    files = [str(plain / name) for name in ("one.txt", "two.txt")]
    tests = ["--test", "documents", "sentences", "sign", "--output", str(plain / "out.json")]
    assert main(["--reference-file", str(plain / "ref.de"), "--hypotheses", *files, *tests]) == 0
    found = json.loads((plain / "out.json").read_text(encoding="utf-8"))["significance"]["raw"]
    assert {part["p_value"] for one in found.values() for part in one["two"].values()} == {None}
    printed = capsys.readouterr().out
    assert "too few documents" in printed and "too few sentences" in printed
    assert f"note: {1 + marked} document(s)" in printed and ("not independent" in printed) == marked


def test_generated_beside_plain_text(prepared, hypotheses, tmp_path, helpers):
    """Another system's text stands beside the package's own translations of a prepared split."""
    other = tmp_path / "other.txt"
    helpers.write_documents(other, helpers.TEXT["de"])
    assert main(["--hypotheses", str(hypotheses), str(other), str(prepared)]) == 0
    systems = json.loads((tmp_path / "comparison.json").read_text(encoding="utf-8"))["systems"]
    assert systems["other"]["scores"]["raw"]["d_bleu_instance"]["score"] == pytest.approx(100)
    assert systems["other"]["scores"]["raw"]["d_bleu_instance"]["segments"] == 3
    assert systems["out"]["scores"]["raw"]["s_bleu"]["score"] < 90
    assert (tmp_path / "out.txt").is_file() and systems["other"]["text"] == str(other)


def test_systems_of_one_file_name_are_told_apart_by_folder(plain, capsys):
    for folder in ("a", "b"):
        (plain / folder).mkdir()
        (plain / folder / "test.txt").write_text(SYSTEM, encoding="utf-8")
    files = [str(plain / folder / "test.txt") for folder in ("a", "b")]
    arguments = ["--reference-file", str(plain / "ref.de"), "--metrics", "chrf", "--hypotheses"]
    assert main([*arguments, *files]) == 0
    assert capsys.readouterr().out.splitlines()[0].split()[2:4] == ["a/test", "b/test"]
    assert main([*arguments, files[0], files[0]]) == 1
    assert "two systems are called 'a/test'" in error_of(capsys)


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
def test_text_that_is_not_aligned(plain, capsys, change, line):
    (plain / "one.txt").write_text(change(SYSTEM), encoding="utf-8")
    assert main(["--reference-file", str(plain / "ref.de"), "--hypotheses", str(plain / "one.txt")]) == 1
    assert f"one.txt, line {line}: " in error_of(capsys)
    assert not list(plain.glob("*.json"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--hypotheses one.txt", "--reference-file"),
        ("--hypotheses one.txt --reference-file ref.de --paper", "--paper"),
        ("--hypotheses one.txt --reference-file ref.de --test sign", "--test"),
        ("--hypotheses one.txt two.txt --reference-file ref.de --text x", "--text"),
        ("--hypotheses ref.de --reference-file ref.de", "ref.de: is the reference itself"),
        ("--hypotheses no.txt --reference-file ref.de", "no.txt: no such file"),
        ("--hypotheses one.txt --reference-file ref.de --comet", "--source-file"),
        ("--hypotheses one.txt --reference-file ref.de --comet-context 1", "--comet"),
        ("--hypotheses one.txt --reference-file ref.de --samples 0", "--samples 0"),
        ("--hypotheses one.txt --reference-file ref.de --samples 9", "--samples"),
        ("prepared --reference tokenised --hypotheses one.txt", "raw reference"),
        ("prepared --paper --comet --hypotheses one.txt", "COMET"),
    ],
)
def test_options_that_do_not_go_together(plain, prepared, capsys, monkeypatch, line, said):
    monkeypatch.chdir(plain)
    assert main(line.split()) == 1
    assert said in error_of(capsys)


COMET = ["--comet", "--comet-model", "some/model"]


def test_without_comet(prepared, hypotheses, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "comet", None)  # an import of it fails, installed or not
    assert main([str(prepared), "--hypotheses", str(hypotheses), *COMET]) == 1
    assert "COMET is not installed" in (message := error_of(capsys)) and "pip install '.[comet]'" in message
    assert not hypotheses.with_suffix(".scores.json").exists()


def test_comet_beside_a_torchaudio_for_another_pytorch(tmp_path, monkeypatch):
    """What COMET is built upon imports it wherever it is found; it is not needed, so it is as good as not there."""
    (tmp_path / "torchaudio.py").write_text("raise RuntimeError('compiled with another CUDA')\n")
    (tmp_path / "comet.py").write_text(
        "import importlib.util\nif importlib.util.find_spec('torchaudio'):\n    import torchaudio\n"
        "download_model = load_from_checkpoint = str.upper\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("comet", "torchaudio"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    try:
        assert load_comet("a/model") == "A/MODEL"
    finally:
        for name in ("comet", "torchaudio"):
            sys.modules.pop(name, None)


@pytest.fixture
def comet(monkeypatch):
    """A stand-in for the package; what it is given, and what becomes of its answer, 0.8125."""
    seen = []

    class Model:
        encoder = types.SimpleNamespace(tokenizer=types.SimpleNamespace(sep_token="</s>"))
        use_context = False

        def enable_context(self):
            self.use_context = True

        def predict(self, data, **options):
            seen.extend(data)
            return types.SimpleNamespace(system_score=0.8125)

    module = types.ModuleType("comet")
    module.download_model, module.load_from_checkpoint = lambda name: f"{name}.ckpt", lambda path: Model()
    module.seen, module.Model = seen, Model
    monkeypatch.setitem(sys.modules, "comet", module)
    return module


def test_comet_gets_source_translation_and_reference(prepared, hypotheses, capsys, comet, helpers):
    assert main([str(prepared), "--hypotheses", str(hypotheses), *COMET]) == 0
    found = json.loads(hypotheses.with_suffix(".scores.json").read_text(encoding="utf-8"))["scores"]["raw"]["comet"]
    assert (found["score"], found["segments"]) == (0.8125, 5)
    assert found["signature"].startswith("comet:some/model|version:")
    assert "0.8125" in capsys.readouterr().out
    sources, references = (
        [sentence for document in helpers.TEXT[lang] for sentence in document] for lang in ("en", "de")
    )
    assert [entry["src"] for entry in comet.seen] == sources
    assert [entry["ref"] for entry in comet.seen] == references and comet.seen[0]["mt"] == "Das Haus ist neu."


def test_comet_with_context(prepared, hypotheses, capsys, comet):
    """What stands before a sentence is the reference's; a model without such pooling is refused."""
    line = [str(prepared), "--hypotheses", str(hypotheses), *COMET, "--comet-context", "1"]
    assert main(line) == 0
    scores = json.loads(hypotheses.with_suffix(".scores.json").read_text(encoding="utf-8"))["scores"]["raw"]
    assert scores["comet_context"]["score"] == 0.8125 and "comet" not in scores
    assert scores["comet_context"]["signature"].endswith("|context:1|of:reference")
    assert "COMET with context" in capsys.readouterr().out
    assert comet.seen[0]["mt"] == "Das Haus ist neu." and comet.seen[3]["src"] == "I see the small dog."
    assert comet.seen[1] == {
        "src": "The house is old. </s> It is big, too.",
        "mt": "Das Haus ist alt. </s> Er ist auch groß.",
        "ref": "Das Haus ist alt. </s> Es ist auch groß.",
    }
    del comet.Model.enable_context
    assert main(line) == 1 and "some/model" in error_of(capsys)


def test_comet_model_that_cannot_be_had(prepared, hypotheses, capsys, comet):
    def download(name):
        raise KeyError(f"no model {name}")

    comet.download_model = download
    assert main([str(prepared), "--hypotheses", str(hypotheses), *COMET]) == 1
    assert "some/model" in error_of(capsys)
