"""Learned metrics: what is scored, how context is cut, the process in another Python, and unbabel-comet itself.

The last needs the variable GTRANSFORMER_COMET_PYTHON: the Python of an environment with unbabel-comet.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from gtransformer.cli.score import main
from gtransformer.evaluation.comet import windows, with_context
from gtransformer.evaluation.comet_process import cut_context
from gtransformer.evaluation.segments import segments_of_text

# A package of the same interface: a token a word, at most 11 in a sequence, 13 in a joint one. A text's score is the
# share of the words of "mt" that are in "ref" (without one: in "src"). It writes down what it is given.
PACKAGE = """
import json, os, sys
from types import SimpleNamespace

def download_model(name):
    if "missing" in name:
        raise KeyError(f"no model {name}")
    return name

class Tokenizer:
    sep_token = "</s>"
    def __call__(self, text):
        return {"input_ids": ["<s>", *text.split(), "</s>"]}

class Model:
    use_context = False
    encoder = SimpleNamespace(tokenizer=Tokenizer(), max_positions=13, size_separator=2)
    def __init__(self, name):
        if "broken" in name:
            raise ValueError("not a checkpoint\\nmore")
        self.name = name
        self.hparams = {"input_segments": ["mt", "src", "ref"][: 2 if "kiwi" in name else 3]}
        if "da" in name.split("-") and "kiwi" not in name:
            self.hparams = {}
        else:
            self.concat_inputs = None
    def requires_references(self):
        return not self.hparams
    def enable_context(self):
        self.use_context = not self.hparams
    def predict(self, samples, batch_size, gpus, progress_bar):
        if "dies" in self.name:
            sys.exit("no memory is left")
        with open(os.environ["SEEN"], "a") as stream:
            stream.write(json.dumps([self.name, samples]) + "\\n")
        def score(sample):
            words, wanted = sample["mt"].split(), sample.get("ref", sample["src"]).split()
            return sum(word in wanted for word in words) / max(1, len(words))
        return {"scores": [score(sample) for sample in samples]}

load_from_checkpoint = Model
"""


@pytest.fixture
def command(prepared, hypotheses, tmp_path, capsys, monkeypatch):
    """command(words, status): what is printed, the scores, and what the package got; with status 1 the error."""
    site = tmp_path / "site"
    (site / "unbabel_comet-2.5.dist-info").mkdir(parents=True)
    (site / "unbabel_comet-2.5.dist-info" / "METADATA").write_text("Name: unbabel-comet\nVersion: 2.5\n")
    (site / "comet.py").write_text(PACKAGE)
    (site / "torch.py").write_text("class cuda:\n    is_available = staticmethod(lambda: False)\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={site} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    monkeypatch.setenv("PYTHONPATH", "/nowhere")

    def call(words: str, status: int = 0, package: str = PACKAGE):
        (site / "comet.py").write_text(package)
        (tmp_path / "seen").write_text("")
        line = f"prepared --hypotheses out.jsonl --metrics bleu --comet-python {python} {words}"
        assert main(line.split()) == status
        shown = capsys.readouterr()
        if status:
            assert shown.err.startswith("error: ") and shown.err.count("\n") == 1, shown.err
            return shown.err
        scores = json.loads((tmp_path / "out.scores.json").read_text(encoding="utf-8"))["scores"]["raw"]
        return shown.out, scores, [json.loads(line) for line in (tmp_path / "seen").read_text().splitlines()]

    return call


def test_all_metrics(command, helpers):
    """Each is the mean over its texts; only COMET and XCOMET get references; SLIDE gets documents."""
    shown, scores, seen = command("--comet comet kiwi xcomet slide")
    assert [name for name, _ in seen] == [
        "Unbabel/wmt22-comet-da", "Unbabel/wmt22-cometkiwi-da", "Unbabel/XCOMET-XL", "Unbabel/wmt22-cometkiwi-da",
    ]  # fmt: skip
    sources, references = (sum(helpers.TEXT[lang], []) for lang in ("en", "de"))
    (_, comet), (_, kiwi), (_, xcomet), (_, slide) = seen
    assert [one["src"] for one in comet] == sources and [one["ref"] for one in comet] == references
    assert comet[0]["mt"] == "Das Haus ist neu." and xcomet == comet
    assert kiwi == [{key: one[key] for key in ("src", "mt")} for one in comet]
    assert [one["src"] for one in slide] == [" ".join(document) for document in helpers.TEXT["en"]]
    assert [one["mt"].count(".") for one in slide] == [3, 2]
    right = (3 / 4 + 3 / 4 + 1 + 1 + 5 / 6) / 5  # words of each sentence that are in its reference
    for key in ("comet", "xcomet"):
        assert scores[key]["score"] == pytest.approx(right) and scores[key]["segments"] == 5
    assert scores["comet"]["signature"] == "comet:Unbabel/wmt22-comet-da|version:2.5"
    assert scores["slide"]["segments"] == 2 and scores["slide"]["signature"].endswith("|windows:6|moved:6")
    assert "COMETKiwi" in shown and "2 windows of 6 sentences" in shown and f"{right:.4f}" in shown


def test_context(command):
    """COMET pools the last sentence, after the reference's; COMETKiwi scores the whole text, all of it translated."""
    shown, scores, seen = command("--comet comet kiwi --comet-context 1 --comet-model comet=a-da kiwi=a-kiwi")
    (_, comet), (_, kiwi) = seen
    assert comet[1] == {
        "src": "The house is old. </s> It is big, too.",
        "mt": "Das Haus ist alt. </s> Er ist auch groß.",
        "ref": "Das Haus ist alt. </s> Es ist auch groß.",
    }
    assert comet[3]["src"] == "I see the small dog.", "the first of its document"
    assert kiwi[2] == {"src": "You know it.", "mt": "Du kennst es gut."}, "with context 8 + 7 words would be too many"
    assert set(scores) == {"s_bleu", "d_bleu", "d_bleu_instance", "comet_context", "comet_kiwi_context"}
    assert scores["comet_context"]["signature"].endswith("|context:1|of:reference|scored:sentence")
    found = scores["comet_kiwi_context"]
    assert found["signature"].endswith("|context:1|of:hypothesis|scored:text")
    # In sequences of mt and src are their words and 4 tokens; at most 13. The last sentences alone have 6 + 4 words.
    assert (found["context_cut"], found["too_long"]) == (3, 1) and kiwi[4]["src"] == "It barks at night."
    # Of each text 11, with a separator: only the fifth has 12, in the source.
    assert (scores["comet_context"]["context_cut"], scores["comet_context"]["too_long"]) == (1, 0)
    assert "1 segments are longer than the encoder reads" in shown and "3 segments have less context" in shown


@pytest.mark.parametrize(
    ("words", "package", "said"),
    [
        ("--comet", "import no_such_library", "has no unbabel-comet (No module named 'no_such_library'); make an"),
        ("--comet --comet-model some/missing", PACKAGE, "some/missing cannot be loaded ('no model some/missing')"),
        ("--comet --comet-model some-broken-da", PACKAGE, "some-broken-da cannot be loaded (not a checkpoint)"),
        ("--comet --comet-model dies-da", PACKAGE, "unbabel-comet failed (no memory is left)"),
        ("--comet --comet-model a-kiwi", PACKAGE, "a-kiwi reads no references"),
        ("--comet kiwi --comet-model a-da", PACKAGE, "a-da needs references"),
    ],
)
def test_what_users_run_into(command, tmp_path, words, package, said):
    assert said in command(words, 1, package)
    assert not (tmp_path / "out.scores.json").exists()


def test_resuming(command, tmp_path, monkeypatch):
    """Parts before a failure are scored once; the file that keeps them goes when all is done."""
    draw = random.Random(2)
    for name in ("a.src", "a.ref", "a.mt"):
        lines = (" ".join(draw.choices("a b c d e f".split(), k=5)) for _ in range(600))
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    words = "--reference-file a.ref --source-file a.src --hypotheses a.mt --metrics bleu --comet comet kiwi"
    opened = '        with open(os.environ["SEEN"], "a")'
    full = "        if os.environ.get('FAIL') and os.path.getsize(os.environ['SEEN']): raise MemoryError('full')\n"
    package = PACKAGE.replace(opened, full + opened)

    def run(status: int = 0):
        (tmp_path / "seen").write_text("")
        (tmp_path / "site" / "comet.py").write_text(package)
        assert main(f"{words} --comet-python {tmp_path / 'python'}".split()) == status
        return [len(json.loads(line)[1]) for line in (tmp_path / "seen").read_text().splitlines()]

    part, scores = tmp_path / "a.mt.scores.json.part", tmp_path / "a.mt.scores.json"
    assert run() == [512, 88, 512, 88] and not part.exists()
    whole = json.loads(scores.read_text())["scores"]
    scores.unlink()
    monkeypatch.setenv("FAIL", "yes")
    assert run(1) == [512] and part.exists() and not scores.exists()
    monkeypatch.delenv("FAIL")
    part.write_text(part.read_text() + '{"cut')
    assert run() == [88, 512, 88] and not part.exists()
    assert json.loads(scores.read_text())["scores"] == whole


def test_several_references(command, tmp_path):
    """COMET is the mean over the references; COMETKiwi does not depend on them."""
    sides = {"a.src": "b\na\n", "a.mt": "a b\nc d\n", "one": "a b\nc x\n", "two": "a x\nx y\n"}
    for name, text in sides.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "site" / "comet.py").write_text(PACKAGE)
    words = "--source-file a.src --hypotheses a.mt --metrics bleu --comet comet kiwi --comet-context 1 --reference-file"

    def run(files: str):
        (tmp_path / "seen").write_text("")
        assert main(f"{words} {files} --comet-python {tmp_path / 'python'}".split()) == 0
        return json.loads((tmp_path / "a.mt.scores.json").read_text())["scores"]["raw"]

    both, first, second = run("one two"), run("one"), run("two")
    comet = [one["comet_context"]["score"] for one in (both, first, second)]
    assert comet[0] == pytest.approx(sum(comet[1:]) / 2) and comet[1] != comet[2]
    assert both["comet_context"]["segments"] == 2
    assert "|nrefs:2|mean over references|" in both["comet_context"]["signature"]
    assert "nrefs" not in first["comet_context"]["signature"]
    assert both["comet_kiwi_context"] == first["comet_kiwi_context"]


def test_context_is_cut_from_its_far_end():
    """Against all lengths of context: the longest that fits, else none."""
    draw = random.Random(1)

    def fits(sides):
        return sum(map(len, sides["src"])) <= 6 and sum(map(len, sides["mt"])) <= 7

    segments = []
    for _ in range(200):
        count = draw.randint(1, 4)
        segments.append({side: ["x" * draw.randint(0, 8) for _ in range(count)] for side in ("src", "mt")})
    kept, too_long, context_cut = cut_context(segments, fits)
    lengths = []
    for one in segments:
        every = [n for n in range(1, len(one["mt"]) + 1) if fits({side: text[-n:] for side, text in one.items()})]
        lengths.append(max(every, default=0))
    wanted = [{k: text[-max(n, 1) :] for k, text in one.items()} for one, n in zip(segments, lengths, strict=True)]
    assert kept == wanted and too_long == lengths.count(0) > 0
    assert context_cut == sum(max(n, 1) < len(one["mt"]) for one, n in zip(segments, lengths, strict=True)) > 0


def test_windows():
    """Documents of 13, 6 and 1 sentences; an empty sentence leaves no blank."""
    counts = (13, 6, 1)
    sources, texts = (
        [[f"{side}{d}.{n}" for n in range(count)] for d, count in enumerate(counts)] for side in ("s", "t")
    )
    texts[0][1] = ""
    found = windows(segments_of_text(texts, sources, "13a"), sources)
    expected = [(0, 0, 6), (0, 6, 12), (0, 12, 13), (1, 0, 6), (2, 0, 1)]
    assert found["src"] == [[" ".join(sources[d][begin:end])] for d, begin, end in expected]
    assert found["mt"][0] == ["t0.0 t0.2 t0.3 t0.4 t0.5"] and found["mt"][3] == [" ".join(texts[1])]


def test_context_of_a_document():
    sources, texts, references = ([[f"{side}{n}" for n in range(4)], [f"{side}a"]] for side in "str")
    segments = segments_of_text(texts, references, "13a")
    found = with_context(segments, sources, 2, "xcomet")
    assert found["mt"] == [["t0"], ["r0", "t1"], ["r0", "r1", "t2"], ["r1", "r2", "t3"], ["ta"]]
    assert found["src"][3] == ["s1", "s2", "s3"] and found["ref"][2] == ["r0", "r1", "r2"]
    assert with_context(segments, sources, 1, "kiwi") == {
        "src": [["s0"], ["s0", "s1"], ["s1", "s2"], ["s2", "s3"], ["sa"]],
        "mt": [["t0"], ["t0", "t1"], ["t1", "t2"], ["t2", "t3"], ["ta"]],
    }


PYTHON = os.environ.get("GTRANSFORMER_COMET_PYTHON", "")
SCRIPT = Path(__file__).with_name("comet_models.py")


@pytest.mark.slow
@pytest.mark.skipif(not PYTHON, reason="GTRANSFORMER_COMET_PYTHON does not name a Python with unbabel-comet")
def test_equals_unbabel_comet(tmp_path, monkeypatch, capsys):
    """Random models of each kind, of 22 and 24 positions; the oracle gets texts that are joined and cut here."""
    draw, names = random.Random(3), ("src", "mt", "ref")
    monkeypatch.chdir(tmp_path)
    lengths = [[draw.randint(1, 6) for _ in range(5)] for _ in range(10)]
    lengths[4][2] = 30  # does not fit
    words = [f"w{number}" for number in range(20)]
    texts = {name: [[" ".join(draw.choices(words, k=n)) for n in one] for one in lengths] for name in names}
    for name, documents in texts.items():
        lines = ("<d>\n" + "".join(f"{line}\n" for line in document) for document in documents)
        (tmp_path / name).write_text("".join(lines), encoding="utf-8")
    subprocess.run([PYTHON, SCRIPT, "write", tmp_path, tmp_path / "src"], check=True, capture_output=True)
    models = {name: tmp_path / name / "checkpoints" / "model.ckpt" for name in ("comet", "kiwi", "xcomet")}
    models["slide"] = models["kiwi"]

    def scores(*more: str):
        given = [f"{name}={path}" for name, path in models.items() if name != "slide" or not more]
        line = ["--reference-file=ref", "--source-file=src", "--hypotheses=mt", "--metrics=chrf", *more]
        line += ["--comet", *(one.partition("=")[0] for one in given), "--comet-model", *given]
        assert main([*line, f"--comet-python={PYTHON}"]) == 0, capsys.readouterr().err
        return json.loads((tmp_path / "mt.scores.json").read_text())["scores"]["raw"]

    found, with_two = scores(), scores("--comet-context=2")
    plain, pooled = [], []
    for d, document in enumerate(lengths):
        for n in range(len(document)):
            plain.append({name: texts[name][d][n] for name in names})
            first = max(0, n - 2)
            while first < n and sum(document[first : n + 1]) + n - first + 2 > 22:
                first += 1
            before = {"src": "src", "mt": "ref", "ref": "ref"}
            pooled.append({k: " </s> ".join([*texts[before[k]][d][first:n], texts[k][d][n]]) for k in names})
    unreferenced = [{key: one[key] for key in ("src", "mt")} for one in plain]
    joined = [{name: " ".join(texts[name][d]) for name in ("src", "mt")} for d in range(10)]
    jobs = {
        "comet": ("comet", plain, False), "xcomet": ("xcomet", plain, False),
        "comet_kiwi": ("kiwi", unreferenced, False), "slide": ("kiwi", joined, False),
        "comet_context": ("comet", pooled, True),
    }  # fmt: skip
    (tmp_path / "jobs").write_text(json.dumps([(str(models[model]), *more) for model, *more in jobs.values()]))
    subprocess.run([PYTHON, SCRIPT, "score", "jobs", "oracle"], check=True, capture_output=True)
    for key, expected in zip(jobs, json.loads((tmp_path / "oracle").read_text()), strict=True):
        assert len({round(one, 4) for one in expected}) > len(expected) / 2, "the random model tells texts apart"
        assert (found | with_two)[key]["score"] == pytest.approx(sum(expected) / len(expected), abs=1e-5), key
    # Beyond the limit: a sequence of 22 tokens with two boundaries; joint ones of 24 with four.
    assert found["comet"]["too_long"] == 1 and found["comet_kiwi"]["too_long"] == 1
    assert found["slide"]["too_long"] == sum(2 * sum(one) + 4 > 24 for one in lengths) > 1
    kept = [one["mt"].count("</s>") for one in pooled]
    wanted = [min(2, n) for _ in lengths for n in range(5)]
    assert with_two["comet_context"]["context_cut"] == sum(a < b for a, b in zip(kept, wanted, strict=True)) > 0
