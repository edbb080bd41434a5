"""Copying is learned to perfection, and every way of generating gives every sentence back in its
place.
"""

import re

import pytest

from gtransformer.modules.processor import has_bfloat16
from tests.commands import (
    GENERATION,
    SMALL,
    TRAINING,
    binarise,
    losses,
    only_error,
    run,
    write_copy_corpus,
)
from tests.support import read_jsonl

LIMITS = ["--max-len-a=1.2", "--max-len-b=3"]


@pytest.fixture(scope="module")
def copier(tmp_path_factory):
    """A folder with the corpus, ``bin``, ``train.log`` and the checkpoint of a model that
    copies.
    """
    folder = tmp_path_factory.mktemp("copier")
    write_copy_corpus(folder, words=8, most=3, train=3000, valid=20, test=20)
    binarise(folder)
    output = run(
        "train", folder / "bin", *TRAINING, *SMALL, "--max-tokens=600", "--lr=0.006",
        "--warmup-updates=30",
        "--lr-scheduler=polynomial_decay", "--total-num-update=300", "--max-update=300",
        f"--save-dir={folder}",
        "--no-epoch-checkpoints", "--adam-betas=(0.9, 0.98)", "--clip-norm=1",
    )  # fmt: skip
    found = losses(output)
    assert list(found) == list(range(1, 301)) and "done training" in output
    assert found[1] > 3 and sum(found[n] for n in range(281, 301)) / 20 < 0.2
    return folder


@pytest.fixture
def generate(copier, tmp_path):
    """generate(options): fairseq-generate's output, and the best hypotheses that it wrote, which
    must be copies.
    """
    text = (copier / "test.de").read_text(encoding="utf-8")
    copies = [re.findall(r"<s> (.*?) </s>", line) for line in text.splitlines()]

    def call(*options: str) -> tuple[str, list[dict]]:
        path = f"--path={copier / 'checkpoint_last.pt'}"
        output = run(
            "generate",
            copier / "bin",
            *GENERATION,
            path,
            *LIMITS,
            f"--gen-output={tmp_path / 'o'}",
            *options,
        )
        lines = read_jsonl(tmp_path / "o.jsonl")
        assert [line["id"] for line in lines] == list(range(20))
        best = [line["hypotheses"][0] for line in lines]
        assert [hypothesis["sentences"] for hypothesis in best] == copies
        return output, best

    return call


def test_copies_every_test_document_exactly(generate):
    """Scored as a document, also by the options of the release."""
    output, _ = generate("--batch-size=7")
    assert "[document-level] Generate test with beam=3: BLEU = 100.00, " in output
    output, _ = generate("--tokenizer=moses", "--remove-bpe", "--sacrebleu")
    assert "[document-level] Generate test with beam=3: BLEU = 100.00, " in output


@pytest.mark.skipif(not has_bfloat16(), reason="the processor has no instructions for bfloat16")
def test_in_bfloat16(generate):
    """The copies of float32, each at nearly the same score."""
    exact, rounded = (
        [one["score"] for one in generate(f"--model-overrides={{'autocast': '{autocast}'}}")[1]]
        for autocast in ("none", "bfloat16")
    )
    assert rounded != exact and rounded == pytest.approx(exact, abs=0.02)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--source-lang=en", "--target-lang=de"], "--task translation_doc"),
        (
            ["--task=translation_doc", "--langs=en,de", "--source-lang=de", "--target-lang=en"],
            "--source-lang de",
        ),
    ],
)
def test_a_document_model_is_for_documents_and_its_own_direction(copier, options, said):
    """Otherwise it would translate sentence by sentence, or words of no language."""
    path = f"--path={copier / 'checkpoint_last.pt'}"
    assert said in only_error(
        run("generate", copier / "bin", path, *LIMITS, "--cpu", *options, status=1)
    )
