"""What fairseq-generate prints and writes for a model of the authors' release, on data of
fairseq-preprocess.

The translations are those of the release's own search (``nbest.json``); its way to score them is
written again here.
"""

import re
from argparse import Namespace

import numpy as np
import pytest
import torch
from sacrebleu.metrics import BLEU
from sacremoses import MosesDetokenizer

from gtransformer.files import read_json
from gtransformer.plugin.scores import DocumentScorer, DocumentScorerConfig
from tests.commands import run
from tests.core.models import fairseq_models
from tests.support import PARITY

pytestmark = pytest.mark.slow

HERE = PARITY / "search"
DETOKENISE = MosesDetokenizer("de").detokenize
RELEASE = (
    "--task translation_doc --source-lang en --target-lang de --langs en,de --doc-mode partial "
    "--batch-size 16 "
    "--beam 5 --max-len-a 1.2 --max-len-b 10 --tokenizer moses --remove-bpe --sacrebleu --cpu"
).split()


def release_sentences(words: list[str]) -> list[str]:
    """The sentences of an instance, as the release's ``remove_seps`` returns them."""
    joined = (" ".join(words) + " ").replace("@@ ", "").rstrip()
    text = DETOKENISE(joined.split())
    parts = [part.strip() for part in text.replace("<s>", "").split("</s>")]
    return [part for part in parts if part]


def release_bleu(pairs: list[tuple[str, str]]) -> str:
    """sacrebleu's defaults in the release's format."""
    parts = (
        BLEU().corpus_score([hyp for hyp, _ in pairs], [[ref for _, ref in pairs]]).format().split()
    )
    rest = " ".join(parts[4:]).replace(" = ", "=").replace(" ", ", ")
    return f"{' '.join(parts[:3])}, {parts[3]} {rest}"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The test set of the release's model, binarised, and its checkpoint in the release's form."""
    folder = tmp_path_factory.mktemp("release")
    run(
        "preprocess", "--task=translation_doc", "--source-lang=en", "--target-lang=de",
        f"--testpref={HERE / 'test'}",
        f"--srcdict={HERE / 'dict.txt'}", "--joined-dictionary", f"--destdir={folder / 'bin'}",
    )  # fmt: skip
    with np.load(HERE / "state.npz") as state:
        weights = {name: torch.from_numpy(state[name]) for name in state.files}
    arguments = Namespace(**read_json(HERE / "args.json"))
    torch.save(fairseq_models.checkpoint(weights, arguments), folder / "model.pt")
    # Its group attention alone is a plain Transformer.
    plain = {
        name: one
        for name, one in weights.items()
        if "_global." not in name and "_gate." not in name
    }
    arguments.doc_mode = "full"
    torch.save(fairseq_models.checkpoint(plain, arguments), folder / "full.pt")
    return folder


@pytest.fixture(scope="module")
def pairs():
    """For each instance its sentences by the release's search, and those of the reference."""
    known = {line.split()[0] for line in (HERE / "dict.txt").read_text().splitlines()} | {
        "<s>",
        "</s>",
    }
    found = []
    lines = (HERE / "test.de").read_text().splitlines()
    for entry, line in zip(read_json(HERE / "nbest.json"), lines, strict=True):
        hypothesis = [word for word in entry["nbest"][0]["tokens"] if word != "[de]"]
        reference = [word if word in known else "<<unk>>" for word in line.split()]
        found.append((release_sentences(hypothesis), release_sentences(reference)))
    return found


def lines_of(path):
    return path.read_text(encoding="utf-8").splitlines()


def test_scores_buckets_and_files(data, pairs):
    output = run(
        "generate",
        data / "bin",
        "--path",
        data / "model.pt",
        *RELEASE,
        f"--gen-output={data / 'test'}",
    )
    sentences = [pair for hyp, ref in pairs for pair in zip(hyp, ref, strict=True)]
    documents = [(" ".join(hyp), " ".join(ref)) for hyp, ref in pairs]
    assert (
        "[sentence-level] Generate test with beam=5: BLEU = 87.74, 95.5/89.9/85.0/81.9 (BP=0.998"
        in output
    )
    assert f"[sentence-level] Generate test with beam=5: {release_bleu(sentences)}" in output
    assert f"[document-level] Generate test with beam=5: {release_bleu(documents)}" in output
    assert f"\nGenerate test with beam=5: {release_bleu(sentences)}" in output
    for place in range(5):
        there = [(hyp[place], ref[place]) for hyp, ref in pairs if place < len(hyp)]
        assert f"Bucket {place}-th sent: {release_bleu(there)}" in output
    for kind, expected in (("sent", sentences), ("doc", documents)):
        assert lines_of(data / f"test.{kind}.gen") == [hyp for hyp, _ in expected]
        assert lines_of(data / f"test.{kind}.ref") == [ref for _, ref in expected]
    assert lines_of(data / "test.seg.ref") == lines_of(HERE / "test.de")
    first = " ".join(read_json(HERE / "nbest.json")[0]["nbest"][0]["tokens"])
    assert lines_of(data / "test.seg.gen")[0] == f"<s> {first.removesuffix(' [de]')}"
    assert len(lines_of(data / "test.jsonl")) == 6
    # The sentences of an instance can be told apart in the output, as in the release's.
    assert re.search(r"^D-2\t\S+\t.* </s>$", output, re.M)


def test_whole_documents_have_one_level(data, pairs):
    prefix = data / "full"
    full = [*RELEASE, "--doc-mode=full", f"--gen-output={prefix}"]
    output = run("generate", data / "bin", "--path", data / "full.pt", *full)
    hypotheses = [
        " ".join(release_sentences(line.split())) for line in lines_of(data / "full.seg.gen")
    ]
    documents = [(hyp, " ".join(ref)) for hyp, (_, ref) in zip(hypotheses, pairs, strict=True)]
    assert f"[document-level] Generate test with beam=5: {release_bleu(documents)}" in output
    assert "[sentence-level]" not in output and "Bucket" not in output
    assert lines_of(data / "full.doc.gen") == hypotheses and not (data / "full.sent.gen").exists()


def test_text_that_tells_ways_to_score_apart(tmp_path):
    """Quotation marks are counted over the instance, and a final ``@@`` joins nothing to the next
    sentence.
    """
    reference = [
        '" ja " , sagte er . </s> <s> Haus@@ boote sind <<unk>> ! </s>'.split(),
        "das kostet &amp; 5 % . </s>".split(),
    ]
    hypothesis = [
        '" ja , sagte er . </s> <s> " Haus@@ </s>'.split(),
        "das kostet &amp; <unk> % . </s>".split(),
    ]
    scorer = DocumentScorer(
        DocumentScorerConfig(title="Generate test", output=str(tmp_path / "out"))
    )
    for number in (1, 0):  # in another order than the corpus's
        texts = [
            DETOKENISE(" ".join(side[number]).replace("@@ ", "").split())
            for side in (reference, hypothesis)
        ]
        scorer.add_string(*texts)
        DocumentScorer.numbers.append(number)
    sides = zip(map(release_sentences, hypothesis), map(release_sentences, reference), strict=True)
    expected = [pair for hyp, ref in sides for pair in zip(hyp, ref, strict=True)]
    assert scorer.result_string() == release_bleu(expected)
    assert lines_of(tmp_path / "out.sent.gen") == [hyp for hyp, _ in expected]
    assert [hyp for hyp, _ in expected][:2] == ['"ja, sagte er.', '" Haus']
