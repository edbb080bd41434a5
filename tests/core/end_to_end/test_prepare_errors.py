"""What cannot be prepared is said in one line, and leaves nothing behind."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gtransformer.cli.prepare import main
from gtransformer.preprocess.manifest import check_same
from gtransformer.preprocess.settings import Settings
from tests.bert import skip_without_transformers
from tests.raw_corpus import LIMITS, OPTIONS, lines, make_raw, run


def failure(capsys, *arguments: str) -> str:
    assert main(list(arguments)) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and err.startswith("error: ")
    return err


def test_vocabulary_that_cannot_be_borrowed(raw, prepared, tmp_path, capsys):
    output = str(tmp_path / "out")
    for place, lender, more, shown in (
        (output, tmp_path, [], "manifest.json: no such file"),
        (str(prepared), prepared, [], "its own vocabulary"),
        (output, prepared, ["--langs", "de,en"], "--langs"),
        (output, prepared, ["--normalise-punctuation"], "--normalise-punctuation"),
    ):
        assert shown in failure(capsys, str(raw), place, "--vocabulary", str(lender), *more)
    assert not Path(output).exists()


def test_what_is_there_is_not_lost(raw, prepared, capsys):
    """Models are of the corpus as it was prepared; and raw files are not to lie among what is made of them."""
    before = (prepared / "manifest.json").read_bytes()
    assert "--max-sents: None, not 1" in failure(capsys, str(raw), str(prepared), *OPTIONS, "--max-sents", "1")
    assert (prepared / "manifest.json").read_bytes() == before
    assert f"{raw}: holds the raw corpus" in failure(capsys, str(raw), str(raw), *OPTIONS)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"settings": "x"}', '{"settings": {"langs": ["de"]}}'])
def test_a_manifest_that_cannot_be_used_is_none(tmp_path, content):
    """Nothing is finished where it says nothing; preparing goes on and writes it again."""
    (tmp_path / "manifest.json").write_text(content)
    check_same(tmp_path, Settings(), None, {})


def test_another_vocabulary_than_that_of_what_is_there(raw, prepared, tmp_path, capsys):
    """What it consists of counts, not where it lies."""
    small, output, lender = make_raw(tmp_path / "raw", {"dev": 2}), tmp_path / "out", tmp_path / "moved"
    run(small, output, "--vocabulary", str(prepared))
    shutil.copytree(prepared, lender)
    run(small, output, "--vocabulary", str(lender))
    with open(lender / "bpe.codes", "a") as stream:
        stream.write("x y\n")
    before = (output / "manifest.json").read_bytes()
    capsys.readouterr()
    err = failure(capsys, str(small), str(output), *LIMITS, "--vocabulary", str(lender))
    assert f"another vocabulary: {lender / 'bpe.codes'}" in err
    assert (output / "manifest.json").read_bytes() == before
    err = failure(capsys, str(raw), str(prepared), *LIMITS, "--vocabulary", str(lender))
    assert "--vocabulary: False, not True" in err


@pytest.mark.parametrize(
    ("side", "change", "message"),
    [
        ("de", lambda text: text + b"Noch eins.\n", "concatenated_en2de_test_en.txt, line {n}: "),
        ("en", lambda text: text[4:], "concatenated_en2de_test_en.txt, line 1: "),
        ("de", lambda text: text[:-20] + b" <s> \n", "concatenated_en2de_test_de.txt, line {n}: <s>"),
        ("en", lambda text: text[:-2] + b"\xe4\n", "concatenated_en2de_test_en.txt, line {n}: byte 0xe4"),
        ("de", None, "concatenated_en2de_test_de.txt: no such file"),
    ],
)
def test_bad_input_leaves_nothing(raw, tmp_path, capsys, side, change, message):
    broken, output = tmp_path / "raw", tmp_path / "out"
    shutil.copytree(raw, broken)
    path = broken / f"concatenated_en2de_test_{side}.txt"
    number = len(lines(path))
    path.write_bytes(change(path.read_bytes())) if change else path.unlink()
    assert message.format(n=number) in failure(capsys, str(broken), str(output))
    assert not output.exists()


def test_a_pretrained_model_that_is_none(raw, tmp_path, capsys):
    """Said before anything is prepared."""
    skip_without_transformers()
    output, model = tmp_path / "out", tmp_path / "model"
    model.write_text("no model")
    assert "no tokeniser of a BERT" in failure(capsys, str(raw), str(output), "--bert", str(tmp_path))
    err = failure(capsys, str(raw), str(output), "--sentencepiece", str(model), "--dictionary", str(model))
    assert f"{model}, line 1: not a dictionary entry" in err
    (tmp_path / "dict.txt").write_text("a 1\n")
    given = ["--sentencepiece", str(model), "--dictionary", str(tmp_path / "dict.txt")]
    assert f"{model}: not a SentencePiece model" in failure(capsys, str(raw), str(output), *given)
    assert not output.exists()


@pytest.mark.parametrize("shard", ["2", "2/2", "-1/2", "0/0", "a/b", "1/2/3"])
def test_shards_that_there_are_not(raw, tmp_path, capsys, shard):
    output = tmp_path / "out"
    err = failure(capsys, str(raw), str(output), f"--shard={shard}")
    assert f"--shard {shard}: give I/N, which shard of how many" in err and not output.exists()


def test_shards_of_too_few_documents(prepared, tmp_path, capsys):
    small, output = make_raw(tmp_path / "raw", {"train": 2}), str(tmp_path / "out")
    err = failure(capsys, str(small), output, "--shard=2/3", "--vocabulary", str(prepared))
    assert "has no 3 documents for as many shards" in err
    small = make_raw(tmp_path / "other", {"dev": 2})
    err = failure(capsys, str(small), output, "--shard=0/3", "--vocabulary", str(prepared))
    assert "has no training set to divide by --shard 0/3" in err
