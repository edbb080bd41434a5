"""Preparing a corpus from raw documents to binaries: counts, resuming, borrowed vocabulary."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from fairseq.data import Dictionary, data_utils

from gtransformer.cli.score import main as score
from gtransformer.data.instance_index import InstanceIndex, join
from gtransformer.errors import UserError
from gtransformer.files import sha256
from gtransformer.preprocess import pipeline
from gtransformer.preprocess.chain import open_text
from gtransformer.preprocess.instances import split_instance
from tests.raw_corpus import documents, lines, run

ROOT = Path(__file__).resolve().parents[3]


def test_manifest_counts_recomputed(raw, prepared):
    manifest = json.loads((prepared / "manifest.json").read_text())
    dictionary = set(line.rsplit(" ", 1)[0] for line in lines(prepared / "bin" / "dict.en.txt")) | {"<s>", "</s>"}
    assert manifest["vocabulary"]["size"] == len(dictionary) + 2
    for split, name in {"train": "train", "valid": "dev", "test": "test"}.items():
        counts = manifest["splits"][split]
        rawlines = {lang: lines(raw / f"concatenated_en2de_{name}_{lang}.txt") for lang in ("en", "de")}
        blank = {lang: [not line.strip(" \u200b") for line in rawlines[lang]] for lang in ("en", "de")}
        both = sum(map(all, zip(*blank.values(), strict=True)))
        empty = {lang: sum(blank[lang]) - both for lang in blank}
        marks = rawlines["en"].count("<d>")
        assert (empty, both) == ({"en": 1, "de": 1}, 1)
        assert counts["raw"]["sentences"] == len(rawlines["en"]) - marks
        assert counts["raw"]["documents"] == counts["documents"] == marks
        dropped = {"empty_side": empty["en"] + empty["de"] + both, "without_source": 0}
        if split != "train":
            dropped = dict.fromkeys(dropped, 0) | {"without_source": empty["en"] + both}
            assert len(lines(prepared / "text" / f"{split}.en")) == len(rawlines["en"])
        assert counts["dropped"].items() >= dropped.items()
        instances = {lang: lines(prepared / "instances" / f"{split}.{lang}") for lang in ("en", "de")}
        number = len(instances["en"])
        assert counts["instances"] == len(instances["de"]) == number
        sentences = sum(line.split().count("<s>") for line in instances["en"])
        assert counts["sentences"] == sentences
        for lang, content in instances.items():
            words = [word for line in content for word in line.split()]
            tokens = len(words) - 2 * sentences
            assert counts["tokens"][lang] == tokens
            assert counts["unknown_tokens"][lang] == sum(word not in dictionary for word in words)
        too_long = 1 if split == "train" else 0
        assert counts["dropped"]["longer_than_max_sentence_tokens"] == too_long
        assert sentences == counts["raw"]["sentences"] - sum(dropped.values()) - too_long
    assert manifest["outputs"] == {
        str(path.relative_to(prepared)): sha256(path)
        for path in sorted(prepared.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }
    assert manifest["inputs"] == {path.name: sha256(path) for path in raw.iterdir()}


def test_every_sentence_comes_back_from_the_binaries(prepared):
    """Binaries -> dictionary words -> sentences -> documents are the text again, sentence by sentence."""
    for split in ("train", "valid", "test"):
        instance_index = InstanceIndex.load(prepared / "bin" / f"{split}.en-de.instances.json")
        for lang in ("en", "de"):
            dictionary = Dictionary.load(str(prepared / "bin" / f"dict.{lang}.txt"))
            data = data_utils.load_indexed_dataset(str(prepared / "bin" / f"{split}.en-de.{lang}"), dictionary)
            words = [[dictionary.symbols[index] for index in row] for row in data]
            assert all(row[-2:] == ["</s>", "</s>"] for row in words)
            found = join(instance_index, [split_instance(" ".join(row[:-1])) for row in words])
            text = documents(prepared / "text" / f"{split}.{lang}")
            processor = open_text(prepared, lang)
            dropped = set(instance_index.dropped)
            assert len(dropped) == (1 if split == "train" else 2)
            assert [len(document) for document in found] == [len(document) for document in text]
            for number, (document, plain) in enumerate(zip(found, text, strict=True)):
                for position, bpe in enumerate(document):
                    assert (bpe is None) == ((number, position) in dropped)
                    if bpe is not None and "<unk>" not in bpe:
                        assert processor.decode([bpe]) == [plain[position]]


def test_text_that_is_translated_keeps_its_lines(raw, tmp_path, capfd):
    """What has no source is in no instance, and has an empty line in the translation."""
    output = tmp_path / "out"
    run(raw, output)
    err = capfd.readouterr().err
    for lang in ("en", "de"):
        path = raw / f"concatenated_en2de_test_{lang}.txt"
        given, text = lines(path), lines(output / "text" / f"test.{lang}")
        empty = [number for number, line in enumerate(given, 1) if not line.strip(" \u200b")]
        assert len(text) == len(given) and [number for number, line in enumerate(text, 1) if not line] == empty
        assert f"warning: {path}: 2 sentences without text" in err
        assert "concatenated_en2de_train" not in err
    instance_index, target = (
        InstanceIndex.load(output / "bin" / "test.en-de.instances.json"),
        documents(output / "text" / "test.de"),
    )
    with open(tmp_path / "gen.jsonl", "w") as stream:
        for number, (document, first, count) in enumerate(instance_index.instances):
            sentences = [f"{document} {position}" for position in range(first, first + count)]
            place = {"id": number, "document": document, "first_sentence": first, "sentences": count}
            stream.write(json.dumps(place | {"hypotheses": [{"score": -1.0, "sentences": sentences}]}) + "\n")
    assert score([str(output), "--hypotheses", str(tmp_path / "gen.jsonl"), "--metrics", "bleu"]) == 0
    assert "2 sentences are in no instance" in capfd.readouterr().out
    assert documents(tmp_path / "gen.txt") == [
        ["" if (number, at) in instance_index.dropped else f"{number} {at}" for at in range(len(document))]
        for number, document in enumerate(target)
    ]


@pytest.mark.slow
def test_borrowed_vocabulary(raw, prepared, tmp_path):
    """A test set alone, one sentence an instance, with the vocabulary of another corpus."""
    test_only, output = tmp_path / "raw", tmp_path / "out"
    test_only.mkdir()
    for lang in ("en", "de"):
        shutil.copy(raw / f"concatenated_en2de_test_{lang}.txt", test_only)
    run(test_only, output, "--vocabulary", str(prepared), "--max-sents", "1")
    for name in ("bpe.codes", "truecase.en", "truecase.de", "bin/dict.en.txt", "bin/dict.de.txt"):
        assert (output / name).read_bytes() == (prepared / name).read_bytes()
    assert (output / "text" / "test.de").read_bytes() == (prepared / "text" / "test.de").read_bytes()
    manifest = json.loads((output / "manifest.json").read_text())
    counts = manifest["splits"]["test"]
    assert list(manifest["splits"]) == ["test"] and counts["instances"] == counts["sentences"] > 50
    assert all(line.count("<s>") == 1 for line in lines(output / "instances" / "test.en"))
    raw_sentences = [line for line in lines(output / "text" / "test.en") if line not in ("<d>", "")]
    assert open_text(prepared, "en").encode(raw_sentences) == [
        split_instance(line)[0] for line in lines(output / "instances" / "test.en")
    ]
    with pytest.raises(UserError, match="which lacks fr"):
        open_text(prepared, "fr")


def test_same_options_and_files_keep_the_corpus(raw, prepared, capfd):
    before = {path: path.stat().st_mtime_ns for path in prepared.rglob("*")}
    run(raw, prepared, "--workers", "1")
    assert {path: path.stat().st_mtime_ns for path in prepared.rglob("*")} == before
    captured = capfd.readouterr()
    assert "with the same settings, kept\n" in captured.err
    assert captured.out.split("\n")[0].split() == [
        *("split", "sentences", "documents", "instances", "sents/inst", "tokens/inst", "en", "tokens/inst", "de")
    ]


def test_an_error_leaves_nothing(raw, tmp_path, monkeypatch):
    """Neither a part of a corpus nor temporary files, and what was there before is whole."""
    output = tmp_path / "out"
    run(raw, output)
    before = (output / "manifest.json").read_bytes()
    monkeypatch.setattr(pipeline, "binarise", lambda *arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(raw, output, "--max-sents", "2", "--overwrite")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (output / "manifest.json").read_bytes() == before
    assert (output / "bin" / "dict.en.txt").is_file()
