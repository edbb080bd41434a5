"""Systems that read their batch, through fairseq's commands: trained from a sentence model, put to work."""

from __future__ import annotations

import json

import pytest

from gtransformer.cli import contrastive
from tests.commands import only_error, run
from tests.core.end_to_end.test_systems import EVAL, GENERATION, PREPARED, SMALL, TASK, sentence_model  # noqa: F401  (a fixture)

DOCUMENTS = ["--instances=sliding", "--context-sentences=2", "--batch-order=document"]
SYSTEMS = {
    "docflat": ["--arch=docflat_mini", "--context-gate=discrete"],
    "mbe": ["--arch=mbe_mini"],
}
CONTRAPRO = [
    {
        **{"src segment": english, "ref segment": f"Er {german}.", "src pronoun": "it", "ref pronoun": "er"},
        **{"document id": "a", "segment id": 1, "ante distance": 1, "intrasegmental": False},
        "errors": [{"contrastive": f"Sie {german}."}],
    }
    for english, german in (("It is old.", "ist alt"), ("It barks.", "bellt"), ("It is here.", "ist hier"))
]


@pytest.mark.parametrize("system", SYSTEMS)
def test_trained_and_put_to_work(sentence_model, tmp_path, system):  # noqa: F811
    """Batches of a document's consecutive sentences all along; by two passes what reads targets, and MBE as well."""
    translates = system != "docflat"
    options = [*DOCUMENTS, "--context-loss=off", *SYSTEMS[system], *SMALL, f"--save-dir={tmp_path}"]
    options += [f"--finetune-from-model={sentence_model}", "--load-partial"]
    bleu = ["--eval-bleu", EVAL] if translates else []
    log = run("train", PREPARED / "bin", *TASK, *options, *bleu, "--max-update=2")
    assert '"train_loss"' in log and ('"valid_bleu"' in log) == translates
    work = ["generate", PREPARED / "bin", *TASK, *DOCUMENTS, f"--path={tmp_path / 'checkpoint_last.pt'}", *GENERATION]
    passes = [f"--first-pass={sentence_model}", "--batch-sentences=4"]
    log = run(*work, *passes, f"--gen-output={tmp_path / 'test'}")
    lines = [json.loads(line) for line in (tmp_path / "test.jsonl").read_text().splitlines()]
    assert sum(line["current"][1] for line in lines) == 22
    assert "first pass: 22 sentences by" in log and "instances overlap" not in log
    assert all(line["sentences"] == len(line["hypotheses"][0]["sentences"]) == 1 for line in lines)
    if translates:  # each sentence with its previous ones
        assert "instances overlap" in run(*work)
    else:
        assert "give --first-pass CHECKPOINT" in only_error(run(*work, status=1))
        (tmp_path / "items.json").write_text(json.dumps(CONTRAPRO), encoding="utf-8")
        line = [str(PREPARED), f"--path={tmp_path / 'checkpoint_last.pt'}", f"--items={tmp_path / 'items.json'}"]
        assert contrastive.main([*line, f"--output={tmp_path / 'found'}", "--context=0", "--cpu"]) == 1
