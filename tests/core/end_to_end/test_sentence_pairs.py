"""Sentence pairs that belong to no documents: prepared, trained on beside documents, translated, scored."""

from __future__ import annotations

import json

import pytest

from gtransformer.cli.score import main as score
from tests import raw_corpus
from tests.commands import run
from tests.core.end_to_end.test_systems import GENERATION, SMALL, TASK

STEPS = [*TASK, *SMALL, "--max-update", "2", "--max-pair-tokens", "60"]


@pytest.fixture(scope="module")
def pairs(prepared, tmp_path_factory):
    """A prepared corpus of sentence pairs in the words of ``prepared``."""
    folder = tmp_path_factory.mktemp("pairs")
    raw = raw_corpus.make_raw(folder / "raw", {"train": 4, "test": 1}, seed=2)
    for path in raw.iterdir():
        path.write_bytes(path.read_bytes().replace(b"<d>\n", b""))
    raw_corpus.run(raw, folder / "prepared", "--sentence-pairs", "--vocabulary", str(prepared))
    return folder / "prepared"


def test_every_pair_is_a_document(pairs):
    counts = json.loads((pairs / "manifest.json").read_text())["splits"]["train"]
    instance_index = json.loads((pairs / "bin" / "train.en-de.instances.json").read_text())["instances"]
    assert counts["sentences"] == counts["documents"] == counts["instances"] == len(instance_index) > 20
    assert [row[1:] for row in instance_index] == [[0, 1]] * len(instance_index)


def test_both_steps_beside_documents(prepared, pairs, tmp_path):
    """Step 2 has the pairs' own words as their context; what has no context at all is translated and scored, too."""
    sentences = [
        json.loads((one / "manifest.json").read_text())["splits"]["train"]["sentences"] for one in (prepared, pairs)
    ]
    data = [prepared / "bin", f"--more-training-data={pairs / 'bin'}"]
    single = ["--instances", "disjoint", "--context-sentences", "0"]
    log = run("train", *data, *STEPS, *single, "--arch", "doc_transformer_mini", f"--save-dir={tmp_path / '1'}")
    assert f"{pairs / 'bin'} train {sentences[1]} instances" in log
    start = [f"--finetune-from-model={tmp_path / '1' / 'checkpoint_last.pt'}", "--load-partial"]
    log = run(
        "train", *data, *STEPS, "--instances", "current", "--context-sentences", "2", "--context-of-first", "itself",
        "--arch", "document_transformer_mini", "--freeze-sentence-parameters", *start, f"--save-dir={tmp_path / '2'}",
    )  # fmt: skip
    assert f"of {sentences[0]} instances left out (--max-pair-tokens 60)" in log and '"valid_loss"' in log
    output = tmp_path / "test"
    run(
        "generate", pairs / "bin", *TASK, "--instances", "current", "--context-sentences", "2",
        f"--path={tmp_path / '2' / 'checkpoint_last.pt'}", *GENERATION, f"--gen-output={output}",
    )  # fmt: skip
    assert score([str(pairs), f"--hypotheses={output}.jsonl"]) == 0
    counts = json.loads(output.with_suffix(".scores.json").read_text())["counts"]
    lines = output.with_suffix(".jsonl").read_text().splitlines()
    assert counts["sentences"] == len({json.loads(line)["document"] for line in lines}) == len(lines) > 2
