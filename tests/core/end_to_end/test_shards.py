"""A corpus prepared in shards is that of one run, byte for byte, and is trained on shard by shard."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gtransformer.cli import merge
from gtransformer.data.instance_index import InstanceIndex
from gtransformer.preprocess.manifest import other_vocabulary
from gtransformer.preprocess.settings import Settings
from gtransformer.tasks.translation_doc import TranslationDocTask
from tests.core.end_to_end.test_prepare import snapshot
from tests.core.tasks.loaded import read, sentences_of
from tests.raw_corpus import make_raw, run
from tests.support import task_config

SHARDS = 3


@pytest.fixture(scope="module")
def corpus(prepared, tmp_path_factory) -> Path:
    """A raw corpus with documents that cleaning empties; in one piece and in shards, in words of another corpus."""
    folder = tmp_path_factory.mktemp("shards")
    raw = make_raw(folder / "raw", {"train": 16, "dev": 2, "test": 2}, seed=3)
    for lang, line in (("en", "\u200b"), ("de", "Das Haus.")):
        path = raw / f"concatenated_en2de_train_{lang}.txt"
        documents = path.read_bytes().decode().split("<d>\n")[1:]
        for place in (0, 4, 5, 17):
            documents.insert(place, f"{line}\n")
        path.write_text("".join(f"<d>\n{document}" for document in documents), encoding="utf-8", newline="\n")
    run(raw, folder / "whole", "--vocabulary", str(prepared), "--workers", "1")
    for number in range(SHARDS):
        shard = f"{number}/{SHARDS}"
        run(raw, folder / f"{number}", "--vocabulary", str(prepared), "--workers", "1", "--shard", shard)
    return folder


def shards(corpus: Path) -> list[str]:
    return [str(corpus / f"{number}") for number in range(SHARDS)]


def test_merged_shards_are_one_run_byte_for_byte(corpus, tmp_path, capfd):
    first, *others = shards(corpus)
    assert merge.main([str(tmp_path / "merged"), *others, first]) == 0
    found, expected = snapshot(tmp_path / "merged"), snapshot(corpus / "whole")
    expected = {name: sum for name, sum in expected.items() if not name.startswith("steps/")}  # on the way to others
    assert found == expected and len(found) > 25
    counts = json.loads((corpus / "whole" / "manifest.json").read_text())["splits"]["train"]
    assert counts["dropped"]["documents_emptied_by_cleaning"] == 4 and counts["raw"]["documents"] == 20
    assert capfd.readouterr().out.splitlines()[1].split()[:3] == ["train", str(counts["sentences"]), "16"]
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "merged" / "bin").iterdir()}
    assert merge.main([str(tmp_path / "merged"), first, *others]) == 0
    assert "done before, kept" in capfd.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert {path.name for path in Path(others[0], "text").iterdir()} == {"train.en", "train.de"}


@pytest.mark.parametrize("order", ["size", "document"])
def test_an_epoch_a_shard(corpus, order):
    """``bin:bin:bin``: each epoch has its shard's sentences, in their documents; together they are the corpus."""
    options = {"instances": "sliding", "context_sentences": 2, "batch_order": order, "context_loss": "off"}
    found, expected = [], []
    task = TranslationDocTask.setup_task(
        task_config(data=":".join(f"{shard}/bin" for shard in shards(corpus)), **options)
    )
    assert task.has_sharded_data("train")
    for epoch in range(1, SHARDS + 2):
        task.load_dataset("train", epoch=epoch)
        dataset = task.dataset("train")
        batches = task.get_batch_iterator(
            dataset, max_tokens=300, max_positions=(1000, 1000), seed=1, epoch=epoch, disable_iterator_cache=True
        ).next_epoch_itr(shuffle=True)
        numbers = sorted(number for batch in batches for number in read(batch)[0])
        assert numbers == list(range(len(dataset)))
        instance_index = InstanceIndex.load(corpus / f"{(epoch - 1) % SHARDS}" / "bin" / "train.en-de.instances.json")
        assert {place.document for place in dataset.spans()} == set(range(instance_index.documents))
        if epoch <= SHARDS:
            found += [sentences_of(task, dataset[number]["source"])[-1] for number in numbers]
    whole = TranslationDocTask.setup_task(task_config(data=str(corpus / "whole" / "bin"), **options))
    whole.load_dataset("train")
    expected = [
        sentences_of(whole, whole.dataset("train")[i]["source"])[-1] for i in range(len(whole.dataset("train")))
    ]
    assert sorted(found) == sorted(expected) and len(found) > 100


def failure(capsys, *arguments) -> str:
    assert merge.main([str(argument) for argument in arguments]) == 1
    said = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("| ")]  # steps that were done
    assert len(said) == 1 and said[0].startswith("error: ")
    return said[0]


def test_shards_that_cannot_be_merged(corpus, prepared, tmp_path, capsys):
    first, second, third = shards(corpus)
    output = tmp_path / "merged"
    for named, shown in (
        ((output, first, third), "1/3 missing"),
        ((output, first, second, second, third), "both shard 1/3"),
        ((output, first, corpus / "whole"), "a whole corpus"),
        ((output, first, tmp_path / "none"), "no such file"),
        ((first, first, second, third), "is one of the shards"),
        ((prepared, first, second, third), "has another prepared corpus"),
    ):
        assert shown in failure(capsys, *named)
    for part, name, value, shown in (
        ("settings", "max_sents", 4, "--max-sents 4, not None"),
        ("settings", "shard", "1/4", "shard 1/4"),
        ("settings", "shard", 5, "--shard 5"),
        ("settings", "source_lang", None, "--source-lang None"),
        ("versions", "sacremoses", "0.0", "another sacremoses"),
        ("splits", "train", {}, "has other counts"),
        ("inputs", "concatenated_en2de_train_en.txt", "0", "another concatenated_en2de_train_en.txt"),
        ("outputs", "bpe.codes", "0", "another bpe.codes"),
        ("outputs", "text/train.en", "0", "text/train.en: was changed; prepare"),
        (None, "bin/train.en-de.instances.json", b"{", "instances.json: was changed; prepare"),
        (None, "manifest.json", b"[]", "not the manifest of a prepared corpus"),
    ):
        other = tmp_path / "other"
        shutil.copytree(second, other)
        if part is None:
            (other / name).write_bytes(value)
        else:
            manifest = json.loads((other / "manifest.json").read_text())
            manifest[part][name] = value
            (other / "manifest.json").write_text(json.dumps(manifest))
        assert shown in failure(capsys, output, first, other, third)
        assert not output.exists()
        shutil.rmtree(other)


def test_a_merged_corpus_keeps_its_vocabulary(corpus, prepared, tmp_path, capsys):
    """Neither shards in other words nor a preparation with them takes its place."""
    merged = tmp_path / "merged"
    assert merge.main([str(merged), *shards(corpus)]) == 0
    lender = tmp_path / "lender"
    shutil.copytree(prepared, lender)
    with open(lender / "bpe.codes", "a") as stream:
        stream.write("x y\n")
    settings = Settings(vocabulary=str(lender))
    assert other_vocabulary(merged, settings.vocabulary_files()) == str(lender / "bpe.codes")
    assert other_vocabulary(merged, Settings(vocabulary=str(prepared)).vocabulary_files()) is None
    manifest = json.loads((merged / "manifest.json").read_text())
    manifest["outputs"]["bpe.codes"] = "0"
    for content in (json.dumps(manifest), "[]"):
        (merged / "manifest.json").write_text(content)
        capsys.readouterr()
        assert f"{merged}: has another prepared corpus" in failure(capsys, merged, *shards(corpus))
        assert (merged / "manifest.json").read_text() == content
