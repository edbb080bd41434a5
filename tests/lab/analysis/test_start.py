"""Where a document model starts: on a prepared corpus, from a sentence model of this package and one of fairseq."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary

from gtransformer.errors import UserError
from gtransformer.lab.analysis.start import NEUTRAL, PAPER, cut, measure
from gtransformer.lab.cli.start import main
from tests.core.evaluation.corpus_tasks import PREPARED
from tests.core.models import fairseq_models
from tests.saved_model import make_checkpoint

pytestmark = pytest.mark.slow
SHUT, NEARLY = "1000", "3"


def own(folder: Path) -> Path:
    options = "--doc-mode=full", "--instances=disjoint", "--context-sentences=0"
    return make_checkpoint(PREPARED, folder / "own.pt", *options)


def fairseqs(folder: Path) -> Path:
    """Of the task translation: its dictionary ends where our symbols begin."""
    whole = Dictionary.load(str(PREPARED / "bin" / "dict.en.txt"))
    dictionary = cut(whole, whole.index("[en]"))
    assert len(dictionary) < len(whole) and dictionary.symbols == whole.symbols[: len(dictionary)]
    joined = {"share_all_embeddings": True}
    args = fairseq_models.settings("transformer", source_lang="en", target_lang="de", **joined)
    torch.save(fairseq_models.checkpoint(fairseq_models.build(dictionary, **joined), args), folder / "fairseq.pt")
    return folder / "fairseq.pt"


@pytest.mark.parametrize("make", [own, fairseqs])
def test_documents_cost_what_their_sentences_do(tmp_path, make):
    """Not so with the paper's positions and gates: what is measured can be seen."""
    checkpoint, output = make(tmp_path), tmp_path / "start.json"
    line = [str(PREPARED), f"--sentence-model={checkpoint}", "--context-layers=1", "--instances=9", "--cpu"]
    assert main([*line, f"--output={output}", "--gates", NEUTRAL, SHUT, NEARLY, PAPER]) == 0
    found = json.loads(output.read_text())
    assert found["instances"] == 9 < found["sentences"] == 12 < found["tokens"]
    starts = found["starts"]
    for exact in (NEUTRAL, SHUT):
        assert starts[exact]["largest"] < 1e-4 * found["sentence_model"]
        assert starts[exact]["nats"] == pytest.approx(found["sentence_model"], rel=1e-5)
    assert 1e-3 < starts[NEARLY]["largest"] < starts[PAPER]["largest"]
    for one in starts.values():
        assert one["above"] == pytest.approx(one["nats"] - found["sentence_model"], abs=1e-9)


def test_what_is_drawn_is_drawn_again(tmp_path):
    checkpoint = own(tmp_path)
    assert main([str(PREPARED), f"--sentence-model={checkpoint}", "--instances=1", "--cpu"]) == 0
    one, same, other = (
        measure(PREPARED, checkpoint, "valid", [0.0], 1, 2, seed, cpu=True)["starts"]["0"] for seed in (1, 1, 2)
    )
    assert one == same != other


def test_what_cannot_be(tmp_path):
    line = [str(PREPARED), f"--sentence-model={tmp_path / 'none.pt'}", "--cpu"]
    with pytest.raises(UserError, match="none.pt: no such checkpoint"):
        measure(PREPARED, tmp_path / "none.pt", "valid", [5.0], cpu=True)
    assert main([*line, "--instances=0"]) == 1
