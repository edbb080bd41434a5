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
from gtransformer.evaluation.load_model import load_scorer
from gtransformer.files import read_json
from gtransformer.lab.analysis import documents
from gtransformer.lab.cli.start import main as start
from gtransformer.preprocess.manifest import noted_digests
from gtransformer.run.recipe import load_recipe, start_from
from gtransformer.tasks.first_pass import open_first_pass
from gtransformer.tasks.trained import load_trained
from gtransformer.translation.api import GTransformer
from gtransformer.translation.lines import read_text
from gtransformer.translation.options import SearchOptions
from tests.core.models.from_sentence_model.hf_folders import (
    TEXT,
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
    return load_trained(made["model"] / "model.pt", data=str(made[corpus] / "bin"), **{**stored, **options})


def test_word_dropout_leaves_languages(made):
    _, task = task_of(made, doc_noise_mask=1.0)
    task.load_dataset("train")
    dataset = task.datasets["train"]
    dataset.set_epoch(1)
    batch = dataset.collater([dataset[0]])["net_input"]
    for tokens, dictionary, language in (
        (batch["src_tokens"], task.src_dict, "__en__"),
        (batch["prev_output_tokens"], task.tgt_dict, "__de__"),
    ):
        tokens = tokens[0].tolist()
        begins = [at for at, token in enumerate(tokens) if token == dictionary.bos()]
        assert len(begins) == 3 and {dictionary[tokens[at + 1]] for at in begins} == {language}
        assert tokens.count(dictionary.index("<mask>")) > 10


def test_a_corpus_without_them_is_refused(made):
    _, task = task_of(made, "bare")
    with pytest.raises(UserError, match="do not begin with __de__.*--vocabulary"):
        task.load_dataset("valid")


def test_contrastive_scores_without_them_are_refused(made):
    given = made["model"] / "model.pt", 4096, True
    load_scorer(made["prepared"], *given)
    with pytest.raises(UserError, match="do not begin with __de__"):
        load_scorer(made["bare"], *given)


def test_a_prepared_corpus_lends_them(made, tmp_path: Path):
    """Another corpus for the model of a run: --model-of."""
    raw = str(made["raw"])
    assert prepare([raw, str(tmp_path / "other"), "--workers=1", f"--vocabulary={made['prepared']}"]) == 0
    one, other = (read_json(path / "manifest.json") for path in (made["prepared"], tmp_path / "other"))
    assert one["outputs"] == other["outputs"] and one["settings"]["target_prefix"] == "__de__"
    assert noted_digests(made["prepared"]) == noted_digests(tmp_path / "other")


def test_a_run_from_a_directory_of_any_name(made, monkeypatch, tmp_path: Path):
    """YAML would make another number of 010, and a comment of # 2."""
    monkeypatch.chdir(tmp_path)
    for name in ("010", "a # 2", "it's: on"):
        Path(name).symlink_to(made["model"])
        loaded = load_recipe(*start_from("from_sentence_model", Path(name)))
        assert loaded.sections["train"]["sentence-model"] == loaded.sections["prepare"]["vocabulary"] == name


def test_a_corpus_that_would_lose_them(made, capsys):
    """The message names no option that there is not."""
    given = [f"--sentencepiece={made['model'] / 'sentencepiece.model'}", f"--dictionary={made['model']}"]
    assert prepare([str(made["raw"]), str(made["prepared"]), *given]) == 1
    assert "(source prefix of --vocabulary: __en__, not None)" in capsys.readouterr().err


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
    """Whatever form they have, what the decoder reads of them begins as its own translations do."""
    wanted = translations(made, tmp_path / "first.jsonl")
    for name in ("first.jsonl", "first.txt"):
        options = {"instances": "sliding", "context_sentences": 1, "first_pass": str(tmp_path / name)}
        model, task = task_of(made, **options)
        task.load_dataset("test")
        contexts = open_first_pass(task, [model], Namespace())
        dataset = task.datasets["test"]
        found = contexts({"id": torch.arange(len(dataset))})
        spans = [(span.document, span.first_sentence) for span in dataset.spans()]
        for (document, at), context in zip(spans, found, strict=True):
            before = ["<s>", "__de__", *wanted[document][at - 1].split(), "</s>"] if at else []
            assert [task.tgt_dict[index] for index in context] == before


def test_inspection(made, monkeypatch, tmp_path: Path):
    """The attention that is shown is that of a translation: each sentence with its language, in both sides."""
    model, seen = GTransformer.from_pretrained(made["model"], device="cpu"), []
    real = documents.inspect
    monkeypatch.setattr(documents, "inspect", lambda *given: seen.append(given) or real(*given))
    lines = documents.find_document(read_text(TEXT["en"], model.chain.encode), 1, "text")
    given = [" ".join(tokens) for tokens in model.chain.encode_target(TEXT["de"])]
    list(documents.inspect_document(model, lines, given, SearchOptions(), tmp_path, "text", 3, by_word=True))
    assert len(seen) == 3
    for _, source, target, watch in seen:
        assert [model.engine.source[index] for index in source[:2]] == ["<s>", "__en__"]
        assert [model.engine.target[index] for index in target[:2]] == ["<s>", "__de__"]
        for name, tokens in (("source", source), ("target", target)):
            assert len(watch.sides[name].of_token) == len(tokens)


def test_start_from_a_directory(made, tmp_path: Path):
    line = [str(made["prepared"]), "--gates=neutral", "--context-layers=1", "--instances=1", "--cpu"]
    assert start([*line, f"--sentence-model={made['model']}", f"--output={tmp_path / 'start.json'}"]) == 0
    assert json.loads((tmp_path / "start.json").read_text())["starts"]["neutral"]["largest"] < 1e-5
