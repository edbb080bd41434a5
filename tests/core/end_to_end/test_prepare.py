"""Preparing a corpus from raw documents to binaries: counts, resuming, borrowed vocabulary."""

from __future__ import annotations

from pathlib import Path

import pytest
from fairseq.data import Dictionary, data_utils

from gtransformer.data.instance_index import InstanceIndex, join
from gtransformer.files import read_json, sha256
from gtransformer.preprocess import pipeline
from gtransformer.preprocess.chain import open_text
from gtransformer.preprocess.instances import split_instance
from tests.raw_corpus import LIMITS, OPTIONS, documents, lines, make_raw, run
from tests.support import command

main = command("prepare")

ROOT = Path(__file__).resolve().parents[3]


def test_manifest_counts_recomputed(raw, prepared):
    manifest = read_json(prepared / "manifest.json")
    dictionary = Dictionary.load(str(prepared / "bin" / "dict.en.txt")).indices
    assert manifest["vocabulary"]["size"] == len(dictionary)
    for split, name in {"train": "train", "valid": "dev", "test": "test"}.items():
        counts = manifest["splits"][split]
        source = lines(raw / f"concatenated_en2de_{name}_en.txt")
        marks = source.count("<d>")
        assert counts["raw"]["sentences"] == len(source) - marks
        assert counts["raw"]["documents"] == counts["documents"] == marks
        # A sentence has no source, one no target, one neither, and one is too long to learn from.
        if split == "train":
            dropped = {"empty_side": 3, "without_source": 0, "longer_than_max_sentence_tokens": 1}
        else:
            dropped = {"empty_side": 0, "without_source": 2, "longer_than_max_sentence_tokens": 0}
            assert len(lines(prepared / "text" / f"{split}.en")) == len(source)
        assert counts["dropped"].items() >= dropped.items()
        instances = {
            lang: lines(prepared / "instances" / f"{split}.{lang}") for lang in ("en", "de")
        }
        number = len(instances["en"])
        assert counts["instances"] == len(instances["de"]) == number
        sentences = sum(line.split().count("<s>") for line in instances["en"])
        assert counts["sentences"] == sentences
        for lang, content in instances.items():
            words = [word for line in content for word in line.split()]
            tokens = len(words) - 2 * sentences
            assert counts["tokens"][lang] == tokens
            assert counts["unknown_tokens"][lang] == sum(word not in dictionary for word in words)
        assert sentences == counts["raw"]["sentences"] - sum(dropped.values())
    assert manifest["outputs"] == {
        str(path.relative_to(prepared)): sha256(path)
        for path in sorted(prepared.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }
    assert manifest["inputs"] == {path.name: sha256(path) for path in raw.iterdir()}


def test_every_sentence_comes_back_from_the_binaries(prepared):
    """Binaries -> dictionary words -> sentences -> documents are the text again, sentence by
    sentence.
    """
    for split in ("train", "valid", "test"):
        instance_index = InstanceIndex.load(prepared / "bin" / f"{split}.en-de.instances.json")
        for lang in ("en", "de"):
            dictionary = Dictionary.load(str(prepared / "bin" / f"dict.{lang}.txt"))
            data = data_utils.load_indexed_dataset(
                str(prepared / "bin" / f"{split}.en-de.{lang}"), dictionary
            )
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


def snapshot(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_corpus_is_kept_unless_told(raw, prepared, tmp_path, capsys, monkeypatch):
    """Models need it as it was prepared: other options or text replace it only with --overwrite,
    and whole.
    """
    small, output = make_raw(tmp_path / "raw", {"dev": 2}), tmp_path / "out"
    given = [str(small), str(output), *LIMITS, "--vocabulary", str(prepared)]
    assert main(given) == 0
    before = snapshot(output)
    assert main([*given, "--workers=1"]) == 0 and "kept\n" in capsys.readouterr().err
    assert main([*given, "--max-sents=1"]) == 1 and "max_sents" in capsys.readouterr().err
    for side in ("en", "de"):
        with open(small / f"concatenated_en2de_dev_{side}.txt", "a") as stream:
            stream.write("<d>\nAnna.\n")
    assert main(given) == 1 and "concatenated_en2de_dev_de.txt" in capsys.readouterr().err
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "binarise", lambda *arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            main([*given, "--overwrite"])
    assert snapshot(output) == before and {path.name for path in tmp_path.iterdir()} == {
        "raw",
        "out",
    }
    assert main([*given, "--overwrite"]) == 0
    assert lines(output / "text" / "valid.de")[-2:] == ["<d>", "Anna."]
    assert main([str(small), str(raw), *OPTIONS, "--overwrite"]) == 1  # a folder of something else


def test_every_sentence_pair_is_a_document(raw, prepared, tmp_path):
    """A file without <d>, with the vocabulary of another corpus, whose files are taken over as they
    are.
    """
    (tmp_path / "raw").mkdir()
    for lang in ("en", "de"):
        name = f"concatenated_en2de_test_{lang}.txt"
        (tmp_path / "raw" / name).write_bytes((raw / name).read_bytes().replace(b"<d>\n", b""))
    run(tmp_path / "raw", tmp_path / "out", "--sentence-pairs", "--vocabulary", str(prepared))
    for name in ("bpe.codes", "truecase.en", "truecase.de", "bin/dict.en.txt", "bin/dict.de.txt"):
        assert (tmp_path / "out" / name).read_bytes() == (prepared / name).read_bytes()
    counts = read_json(tmp_path / "out" / "manifest.json")["splits"]["test"]
    instances = InstanceIndex.load(tmp_path / "out" / "bin" / "test.en-de.instances.json").instances
    assert counts["sentences"] == counts["documents"] == counts["instances"] == len(instances) > 50
    assert [row[1:] for row in instances] == [(0, 1)] * len(instances)
    text = [line for line in lines(prepared / "text" / "test.en") if line not in ("<d>", "")]
    assert open_text(prepared, "en").encode(text) == [
        split_instance(line)[0] for line in lines(tmp_path / "out" / "instances" / "test.en")
    ]
