"""Copying is learned to perfection, and generation gives every sentence back in its place."""

import json

from tests.commands import GENERATION, losses, run


def test_copies_every_test_document_exactly(copier):
    output = run(
        "generate", copier.corpus / "bin", *GENERATION, f"--path={copier.checkpoint}", "--max-len-a=1.2",
        "--max-len-b=3", f"--gen-output={copier.corpus / 'copied'}", "--batch-size=7",
    )  # fmt: skip
    lines = [json.loads(line) for line in (copier.corpus / "copied.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == list(range(20))
    assert [line["hypotheses"][0]["sentences"] for line in lines] == copier.sentences()
    assert "BLEU4 = 100.00" in output and "Translated 60 sentences" in output


def test_without_a_score(copier):
    """As recipes do, whose score is another: that of subwords would stand beside it."""
    options = [*GENERATION, f"--path={copier.checkpoint}", "--max-len-a=1.2", "--max-len-b=3", "--scoring=none"]
    output = run("generate", copier.corpus / "bin", *options)
    assert "BLEU" not in output and "gtransformer score does" in output


def test_training_log(copier):
    found = losses(copier.log)
    assert list(found) == list(range(1, 201))
    assert found[1] > 3 and sum(found[n] for n in range(181, 201)) / 20 < 0.2
    assert "done training" in copier.log
