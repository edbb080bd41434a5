"""Converted models of many languages: what each sentence begins with is there wherever text is made or read."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from sentencepiece import SentencePieceProcessor

from gtransformer.cli.prepare import main as prepare
from gtransformer.errors import UserError
from gtransformer.plugin.checkpoints import load_trained
from gtransformer.plugin.first_pass import open_first_pass
from tests.core.models.from_sentence_model.hf_folders import (
    load,
    many_languages,
)
from tests.core.models.from_sentence_model.test_hugging_face import write_raw

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(pieces: Path, tmp_path_factory) -> dict[str, Path]:
    """A converted M2M-100, a corpus prepared for it, and one prepared with its pieces and words alone."""
    folder = tmp_path_factory.mktemp("made")
    load(many_languages(pieces, folder / "folder", "m2m", ends=3.0), folder / "model")
    write_raw(folder / "raw")
    common = [str(folder / "raw"), "--workers=1"]
    assert prepare([*common, str(folder / "prepared"), f"--vocabulary={folder / 'model'}"]) == 0
    given = [f"--sentencepiece={folder / 'model' / 'sentencepiece.model'}", f"--dictionary={folder / 'model'}"]
    assert prepare([*common, str(folder / "bare"), *given]) == 0
    return {name: folder / name for name in ("model", "raw", "prepared", "bare")}


def task_of(made: dict[str, Path], corpus: str = "prepared", **options):
    stored = {"instances": "stored", "context_sentences": None}
    return load_trained(made["model"], data=str(made[corpus] / "bin"), **{**stored, **options})


def test_a_corpus_without_them_is_refused(made):
    _, task = task_of(made, "bare")
    with pytest.raises(UserError, match="do not begin with __de__.*--vocabulary"):
        task.load_dataset("valid")


def translations(made, path: Path) -> list[list[str]]:
    """Write the references of the test set as first translations, in both forms, as they are translated: bare."""
    text = (made["prepared"] / "text" / "test.de").read_text(encoding="utf-8")
    path.with_suffix(".txt").write_text(text, encoding="utf-8")
    cut = SentencePieceProcessor(model_file=str(made["model"] / "sentencepiece.model"))
    found = [
        [" ".join(cut.encode(line, out_type=str)) for line in one.strip().split("\n")]
        for one in text.split("<d>\n")[1:]
    ]
    lines = [
        {"id": number, "document": number, "first_sentence": 0, "sentences": len(one),
         "hypotheses": [{"score": 0.0, "sentences": one}]}
        for number, one in enumerate(found)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return found


def test_first_translations(made, tmp_path: Path):
    """What the decoder reads of them begins as its own translations do."""
    path = tmp_path / "first.jsonl"
    wanted = translations(made, path)
    model, task = task_of(made, instances="sliding", context_sentences=1, first_pass=str(path))
    task.load_dataset("test")
    contexts = open_first_pass(task, [model], Namespace())
    dataset = task.datasets["test"]
    found = contexts({"id": torch.arange(len(dataset))})
    spans = [(span.document, span.first_sentence) for span in dataset.spans()]
    for (document, at), context in zip(spans, found, strict=True):
        before = ["<s>", "__de__", *wanted[document][at - 1].split(), "</s>"] if at else []
        assert [task.tgt_dict[index] for index in context] == before
