"""Several references, chunks of documents, and test sets with systems, against sacrebleu on the joined text."""

from __future__ import annotations

import json
import random

import pytest
from sacrebleu.metrics import BLEU, CHRF, TER

from gtransformer.cli.score import main
from gtransformer.evaluation.metrics import CHUNKS
from tests.core.preprocess.test_formats import layout

WORDS = "the old house stands near a river and its garden is green".split()
METRICS = {"s_bleu": BLEU, "chrf": CHRF, "ter": TER}


def text(seed: int, shape: list[int]) -> list[list[str]]:
    """Documents of this many sentences, with words in common; one sentence of them is empty in seed 9."""
    draw = random.Random(seed)
    documents = [[" ".join(draw.choices(WORDS, k=draw.randint(6, 12))) + "." for _ in range(n)] for n in shape]
    if seed == 9:
        documents[0][1] = ""
    return documents


def marked(documents: list[list[str]]) -> str:
    return "".join("<d>\n" + "".join(f"{line}\n" for line in document) for document in documents)


def flat(documents: list[list[str]]) -> list[str]:
    return [line for document in documents for line in document]


SHAPE = [9, 1, 4, 7, 2, 5, 3]
REFERENCES, SYSTEMS = [text(1, SHAPE), text(2, SHAPE), text(3, SHAPE)], {"one": text(9, SHAPE), "two": text(5, SHAPE)}


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """run(words): what the command prints and the result; with a status, its one line of error."""
    monkeypatch.chdir(tmp_path)

    def call(words: str, status: int = 0):
        assert main([*words.split(), "--output", "out.json"]) == status
        shown = capsys.readouterr()
        if status:
            assert shown.err.startswith("error: ") and shown.err.count("\n") == 1
            assert not (tmp_path / "out.json").exists()
            return shown.err
        return shown.out, json.loads((tmp_path / "out.json").read_text())

    return call


@pytest.fixture
def plain(tmp_path):
    for number, documents in enumerate(REFERENCES, 1):
        (tmp_path / f"ref{number}").write_text(marked(documents))
    for name, documents in SYSTEMS.items():
        (tmp_path / name).write_text(marked(documents))
    return tmp_path


@pytest.mark.parametrize("count", [1, 2, 3])
def test_several_references_and_chunks(plain, run, count):
    files = " ".join(f"ref{number}" for number in range(1, count + 1))
    metrics = "--metrics bleu chrf ter bleu-chunks --test documents"
    _, result = run(f"--reference-file {files} --hypotheses one two {metrics}")
    references = REFERENCES[:count]
    for name, documents in SYSTEMS.items():
        scores = result["systems"][name]["scores"]["raw"]
        for key, metric in METRICS.items():
            theirs = metric()
            expected = theirs.corpus_score(flat(documents), [flat(one) for one in references])
            assert scores[key]["score"] == pytest.approx(expected.score, abs=1e-12)
            assert (
                scores[key]["signature"] == str(theirs.get_signature())
                and f"nrefs:{count}|" in scores[key]["signature"]
            )
        for size in (2, 4, 8, None):

            def joined(documents, size=size or 99):
                chunks = [one[at : at + size] for one in documents for at in range(0, len(one), size)]
                return [" ".join(filter(None, chunk)) for chunk in chunks]

            theirs = BLEU().corpus_score(joined(documents), [joined(one) for one in references])
            found = scores[f"d_bleu_{size}" if size else "d_bleu"]
            assert found["score"] == pytest.approx(theirs.score, abs=1e-12)
            assert found["segments"] == len(joined(documents))
    significance = result["significance"]["raw"]
    for size in CHUNKS.values():  # chunks are parts of documents: whole documents are exchanged
        found = significance[f"d_bleu_{size}"]["two"]["documents"]
        scores = [result["systems"][name]["scores"]["raw"][f"d_bleu_{size}"]["score"] for name in ("two", "one")]
        assert found["units"] == len(SHAPE) and found["difference"] == pytest.approx(scores[0] - scores[1])


def test_one_reference_and_the_same_words(plain, run):
    """A translation equal to any one of the references is perfect."""
    (plain / "same").write_text(marked(REFERENCES[1]).replace("<d>\n", ""))
    _, result = run("--reference-file ref1 ref2 --hypotheses same --metrics bleu bleu-chunks ter")
    scores = result["scores"]["raw"]
    assert {round(score["score"], 9) for key, score in scores.items() if key != "ter"} == {100}
    assert scores["ter"]["score"] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--reference-file ref1 ref1 --hypotheses one", "ref1: the same reference is given twice"),
        ("--reference-file ref1 short --hypotheses one", "short, line 1: document 0 has 8 sentences, but 9 in ref1"),
        ("--reference-file ref1 ref2 --hypotheses ref1", "ref1: this is the reference itself"),
        ("--reference-file ref1 --hypotheses one --systems x", "are for --test-set"),
        ("--test-set ref1 --langs en-de", "ref1: no test set"),
        ("--test-set ref1 --hypotheses one", "give one with --langs"),
        ("--test-set ref1 --langs ende", "--langs ende: give source and target"),
        ("--test-set wmt --langs en-de --systems GPT-5", "no hypothesis 'GPT-5' in de; there are: Claude-3.5, GPT-4"),
        ("--test-set wmt --langs en-de --references A", "no reference 'A' in de; there are: refA, refB"),
        ("--test-set wmt --langs en-fr", "one file for the language pair en-fr is needed"),
        ("--test-set wmt --langs en-de --hypotheses GPT-4=one", "has a system 'GPT-4', too"),
        ("--test-set wmt --langs en-de --hypotheses one", "one, line "),
        ("--test-set wmt --langs en-de --source-file one", "leave out --source-file"),
        ("--test-set set.tsv --langs en-de --hypotheses one --html set.tsv", "set.tsv: is read, and the results"),
        ("--reference-file ref1 --hypotheses one --html out.json", "out.json: two results would be written to it"),
        ("--reference-file pairs.tsv --hypotheses one", "but does not tell which is the reference"),
        ("--hypotheses one --metrics bleu", "--test-set to score against"),
        ("--reference-file ref1", "give the translations to score"),
    ],
)
def test_what_users_run_into(plain, run, words, said):
    (plain / "short").write_text(marked([REFERENCES[1][0][:8], *REFERENCES[1][1:]]))
    (plain / "pairs.tsv").write_text("docid\ten\tde\na\tx\ty\n")
    (plain / "set.tsv").write_text("docid\tsrc\tref\na\tx\ty\n")
    layout(plain / "wmt")
    assert said in run(words, status=1)


def test_folder_of_wmt(tmp_path, run):
    """One table: our system, as lines without documents, beside those of the folder, with both references or one."""
    layout(tmp_path / "wmt")
    (tmp_path / "ours").write_text("Eins.\nZwei!\nDrei.\n")
    printed, result = run("--test-set wmt --langs en-de --hypotheses ours --metrics chrf ter bleu-chunks")
    assert printed.splitlines()[0].split() == [
        "reference",
        "score",
        "ours",
        "Claude-3.5",
        "GPT-4",
        "segments",
        "signature",
    ]
    assert "3 sentences in 2 documents, of WMT's folder" in printed and result["baseline"] == "ours"
    outputs = {
        "ours": ["Eins.", "Zwei!", "Drei."],
        "GPT-4": ["Eins.", "Zwei.", "Drei."],
        "Claude-3.5": ["Eins.", "", "Vier."],
    }
    references = [["Eins.", "Zwei.", "Drei."], ["Ein.", "Zwei!", "III."]]
    for name, lines in outputs.items():
        found = result["systems"][name]
        assert found["scores"]["raw"]["chrf"]["score"] == CHRF().corpus_score(lines, references).score
        assert found["scores"]["raw"]["ter"]["score"] == TER().corpus_score(lines, references).score
    assert result["systems"]["GPT-4"]["hypotheses"].endswith("system-outputs/en-de/GPT-4.txt")
    _, result = run(
        "--test-set wmt --langs en-de --systems GPT-4 GPT-4 --references refB refB --metrics chrf --html page.html"
    )
    assert "nrefs:1" in result["scores"]["raw"]["chrf"]["signature"], "a name that is given twice counts once"
    assert result["scores"]["raw"]["chrf"]["score"] == CHRF().corpus_score(outputs["GPT-4"], references[1:]).score
    (tmp_path / "wmt" / "txt" / "system-outputs" / "en-de" / "Claude-3.5.txt").write_text("Eins.</s>\n")
    _, again = run("--test-set wmt --langs en-de --systems GPT-4 --references refB --metrics chrf")
    assert again["scores"] == result["scores"], "the outputs of other systems are not read"
    page = (tmp_path / "page.html").read_text()
    assert "Three." in page and "III." in page and "Translations of wmt" in page


def test_folder_of_wmt_and_documents_with_ids(tmp_path, run):
    """Their ids are in a file of the folder's own: translations in another order are matched by them."""
    layout(tmp_path / "wmt")
    (tmp_path / "ours.tsv").write_text("docid\thyp\nb\tDrei.\na\tEins.\na\tZwei.\n")
    words = "--test-set wmt --langs en-de --systems GPT-4 --references refA --metrics chrf --hypotheses ours.tsv"
    for more in ("", " --align mwer"):
        printed, result = run(f"{words}{more} --by document")
        assert {one["scores"]["raw"]["chrf"]["score"] for one in result["systems"].values()} == {100}
    assert [row["id"] for row in result["systems"]["ours.tsv"]["by_document"]["raw"]] == ["a", "b"]
    (tmp_path / "out.json").unlink()
    (tmp_path / "ours.tsv").write_text("docid\thyp\nc\tDrei.\na\tEins.\na\tZwei.\n")
    assert "document b is not in ours.tsv" in run(words, status=1)


XML = """<dataset><doc id="a"><src lang="en"><seg id="1">One.</seg><seg id="2">Two.</seg></src>
<ref lang="de" translator="A"><seg id="1">Eins.</seg><seg id="2">Zwei.</seg></ref>
<hyp lang="de" system="x"><seg id="1">Eins.</seg><seg id="2">Drei.</seg></hyp></doc>
<doc id="suite" testsuite="t"><src lang="en"><seg id="1">Suite.</seg></src>
<hyp lang="de" system="x"><seg id="1">Suite.</seg></hyp></doc>
<doc id="b"><src lang="en"><seg id="1">Three.</seg></src>
<ref lang="de" translator="A"><seg id="1">Drei.</seg></ref>
<hyp lang="de" system="x"><seg id="1">Vier.</seg></hyp></doc></dataset>
"""


def test_xml_of_wmt(tmp_path, run):
    """A document without reference is left out, also of our own translation of the whole test set."""
    (tmp_path / "x.xml").write_text(XML)
    (tmp_path / "ours").write_text("Eins.\nZwei.\nSuite.\nDrei.\n")
    printed, result = run("--test-set x.xml --langs en-de --hypotheses ours --metrics chrf --by document")
    rows = result["systems"]["ours"]["by_document"]["raw"]
    assert [(row["document"], row["id"]) for row in rows] == [(0, "a"), (2, "b")] and "\nb " in printed
    assert result["systems"]["ours"]["scores"]["raw"]["chrf"]["score"] == 100
    expected = CHRF().corpus_score(["Eins.", "Drei.", "Vier."], [["Eins.", "Zwei.", "Drei."]]).score
    assert result["systems"]["x"]["scores"]["raw"]["chrf"]["score"] == expected
    assert "1 sentences are in no instance (of a test set: have no reference)" in printed
    (tmp_path / "x.xml").write_text(XML.replace('<hyp lang="de" system="x"><seg id="1">Vier.</seg></hyp>', ""))
    (tmp_path / "out.json").unlink()
    assert "x.xml, line 6: document b has no hypothesis x (de); it has source (en)" in run(
        "--test-set x.xml --langs en-de", status=1
    )


def test_other_formats_stand_for_text(tmp_path, run):
    """A table as reference and hypothesis at once, SGM against it, and the source from it."""
    rows = [("a", "One.", "Eins.", "Eins."), ("a", "Two.", "Zwei.", "Drei."), ("b", "Three.", "Drei.", "Drei.")]
    (tmp_path / "x.tsv").write_text("docid\tsrc\tref\thyp\n" + "".join("\t".join(row) + "\n" for row in rows))
    sgm = "".join(
        f"<doc docid={n}>{''.join(f'<seg>{row[2]}</seg>' for row in rows if row[0] == n)}</doc>" for n in "ab"
    )
    (tmp_path / "y.sgm").write_text(f"<tstset trglang='de'>{sgm}</tstset>")
    _, result = run(
        "--reference-file x.tsv --hypotheses t=x.tsv s=y.sgm --source-file x.tsv --metrics chrf --html p.html"
    )
    expected = CHRF().corpus_score([row[3] for row in rows], [[row[2] for row in rows]]).score
    scores = {name: found["scores"]["raw"]["chrf"]["score"] for name, found in result["systems"].items()}
    assert scores == {"t": expected, "s": 100} and "Three." in (tmp_path / "p.html").read_text()
    (tmp_path / "out.json").unlink()
    assert "y.sgm: this is the reference itself" in run("--reference-file y.sgm --hypotheses y.sgm", status=1)
    source = "has no hypothesis; it has source (en)"
    (tmp_path / "z.sgm").write_text(
        (tmp_path / "y.sgm").read_text().replace("tstset trglang='de'", "srcset srclang=en")
    )
    (tmp_path / "z.sgm").write_text((tmp_path / "z.sgm").read_text().replace("tstset", "srcset"))
    assert source in run("--reference-file x.tsv --hypotheses z.sgm", status=1)


def test_documents_are_matched_by_their_ids(tmp_path, run):
    """Of files with ids, whose order differs: references, translations, the source. Other ids are refused."""
    rows = {"a": ["Eins und zwei.", "Drei."], "b": ["Vier."], "c": ["Noch fünf."]}
    table = "docid\tsegid\t{}\n" + "".join(f"{n}\t{at}\t{one}\n" for n in rows for at, one in enumerate(rows[n]))
    (tmp_path / "ref.tsv").write_text(table.format("ref"))
    (tmp_path / "src.tsv").write_text(table.format("src"))
    lines = [json.dumps({"docid": n, "ref": rows[n], "hyp": rows[n]}) for n in "cba"]
    (tmp_path / "other.jsonl").write_text("\n".join(lines))
    sgm = "".join(f"<doc docid={n}>{''.join(f'<seg>{one}</seg>' for one in rows[n])}</doc>" for n in "bca")
    (tmp_path / "x.sgm").write_text(f"<tstset trglang=de>{sgm}</tstset>")
    (tmp_path / "joined.tsv").write_text("docid\thyp\nc\tNoch fünf.\nb\tVier.\na\tEins und zwei. Drei.\n")
    words = "--reference-file ref.tsv other.jsonl --source-file src.tsv --metrics chrf ter --html p.html --hypotheses"
    _, result = run(f"{words} x.sgm other.jsonl")
    assert {one["scores"]["raw"]["chrf"]["score"] for one in result["systems"].values()} == {100}
    _, result = run(f"{words} joined.tsv --align mwer")
    assert result["scores"]["raw"]["ter"]["score"] == 0 and result["counts"]["misaligned_instances"] == 1
    (tmp_path / "out.json").unlink()
    (tmp_path / "y.sgm").write_text((tmp_path / "x.sgm").read_text().replace("docid=b", "docid=d"))
    assert "ref.tsv, line 4: document b is not in y.sgm" in run(f"{words} y.sgm", status=1)
    (tmp_path / "y.sgm").write_text((tmp_path / "x.sgm").read_text().replace("<seg>Drei", "<seg id=7>Drei"))
    assert "y.sgm, line 1: segment 7, but the other side has segment 1 here, in line 3" in run(
        f"{words} y.sgm", status=1
    )
