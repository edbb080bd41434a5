"""Model directories that anybody may have made, options and texts that cannot be: one sentence each."""

from __future__ import annotations

import json
import math
import shutil

import pytest

from gtransformer.cli.translate import main
from gtransformer.files import sha256

TEXT = "The old dog sleeps.\nMary finds her book.\n"


@pytest.fixture
def failing(tmp_path, capsys):
    """failing(model, *options): the one sentence that scripts/translate.sh ends with."""
    (tmp_path / "text").write_text(TEXT, encoding="utf-8")

    def run(model, *options: str) -> str:
        given = ["--model", str(model), str(tmp_path / "text"), "--cpu", "--quiet", *options]
        assert main([*given, *([] if "-o" in options else ["-o", str(tmp_path / "out")])]) == 1
        errors = capsys.readouterr().err.splitlines()
        assert errors[-1].startswith("error: ") and len(errors) == 1, errors
        assert not (tmp_path / "out").exists()
        return errors[-1].removeprefix("error: ")

    return run


@pytest.fixture
def changed(saved_model, tmp_path):
    """changed(file=bytes or a function, ..., settings={}, search={}): such a directory, the checksums put right."""

    def make(files=(), settings=(), search=(), **top):
        folder = tmp_path / "model"
        shutil.copytree(saved_model, folder)
        manifest = json.loads((folder / "manifest.json").read_text())
        for name, content in dict(files).items():
            path = folder / name
            path.write_bytes(content(path.read_bytes()) if callable(content) else content)
            manifest["files"][name] = sha256(path)
        manifest["settings"] |= dict(settings)
        manifest["search"] |= dict(search)
        (folder / "manifest.json").write_text(json.dumps(manifest | top))
        return folder

    return make


def first_line_again(content: bytes) -> bytes:
    return content.partition(b"\n")[0] + b"\n" + content


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("dict.en.txt", lambda old: old + b"word\n", "dict.en.txt, line 57: not a dictionary entry ('word count')"),
        ("dict.en.txt", lambda old: old + b"word many\n", "dict.en.txt, line 57: not a dictionary entry"),
        ("dict.en.txt", first_line_again, "stands in line 1 already; keep one"),
        ("dict.de.txt", first_line_again, "dict.de.txt, line 2: "),
        ("dict.en.txt", lambda old: old + b"\xff 3\n", "dict.en.txt, line 57: byte 0xff at column 1 is not UTF-8"),
        ("dict.en.txt", lambda old: b"<s> 3\n" + old, "dict.en.txt: cannot be read (Duplicate word found"),
        ("dict.en.txt", b"", "does not fit this model: 1 are of another size"),
        ("bpe.codes", b"", "bpe.codes: holds no BPE merges; give what was learnt with the vocabulary"),
        ("bpe.codes", b"#version: 0.2\n", "bpe.codes: holds no BPE merges"),
        ("bpe.codes", b"#version: two\na b\n", "bpe.codes, line 1: not a version of BPE codes"),
        ("bpe.codes", b"#version: 0.2\na b\nabc\n", "bpe.codes, line 3: not a BPE merge (two symbols)"),
        ("truecase.en", b"hello world\n", "truecase.en, line 1: not a truecaser model line"),
        ("truecase.en", b"Mary (3/4) mary\n", "truecase.en, line 1: not a truecaser model line"),
        ("truecase.en", b"\xff (1/1)\n", "truecase.en, line 1: byte 0xff"),
        ("model.pt", b"", "model.pt cannot be read, it is truncated or damaged"),
        ("model.pt", lambda old: old[:-300], "model.pt cannot be read, it is truncated or damaged"),
    ],
)
def test_damaged_parts_of_a_model(changed, failing, name, content, message):
    assert message in failing(changed({name: content}))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("max_instance_tokens", -5, "max-instance-tokens is -5; give a whole number of at least 1"),
        ("max_instance_tokens", "many", "max-instance-tokens is 'many'; give a whole number"),
        ("max_sents", 0, "max-sents is 0; give a whole number of at least 1"),
        ("max_sents", 1.5, "max-sents is 1.5; give a whole number"),
        ("sentences_beside", -3, "sentences-beside is -3; give a whole number of at least 0"),
        ("sentences_before", True, "sentences-before is True; give a whole number"),
        ("langs", [1], "langs is [1]; give a list"),
        ("langs", "en", "langs is 'en'; give a list"),
        ("langs", [], "langs is []; give a list"),
        ("langs", None, "lacks langs"),
        ("source_lang", 3, "source-lang is 3; give a language"),
        ("source_lang", "../../x", "source-lang is '../../x'; give a language"),
        ("source_lang", "fr", "damaged ('dict.fr.txt')"),
        ("target_lang", "en", "source and target language are both en"),
        ("moses", "scripts", "moses is 'scripts'; give true or false"),  # a directory whose programs would be run
        ("normalise_punctuation", 1, "normalise-punctuation is 1; give true or false"),
        ("sentencepiece", "model", "sentencepiece is 'model'; give true or false"),
        ("bert", True, "damaged ('wordpieces.json')"),
        ("first_pass", True, "damaged ('first_pass.pt')"),
    ],
)
def test_settings_of_a_model(changed, failing, key, value, message):
    error = failing(changed(settings={key: value}))
    assert "manifest.json: damaged (" in error and error.endswith("); export the model again") and message in error


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("beam", "five", "--beam 'five': give a whole number"),
        ("beam", None, "--beam None: give a whole number"),
        ("beam", 2.5, "--beam 2.5: give a whole number"),
        ("beam", True, "--beam True: give a whole number"),
        ("lenpen", "long", "--lenpen 'long': give a number"),
        ("lenpen", math.nan, "--lenpen nan: give a number"),
        ("unkpen", math.inf, "--unkpen inf: give a number"),
        ("max_len_a", [1], "--max-len-a [1]: give a number"),
        ("strategy", 3, "--strategy 3: give a text"),
        ("window_tokens", "x", "--window-tokens 'x': give a whole number"),
        ("max_tokens", -1, "--max-tokens -1: must be at least 1"),
    ],
)
def test_search_of_a_model(changed, failing, key, value, message):
    error = failing(changed(search={key: value}))
    assert "manifest.json: damaged (" in error and error.endswith("); export the model again") and message in error


@pytest.mark.parametrize("content", [b"[1", b"\xff\xfe", b"[" * 100_000, b"[1]", b"{}", b"null"])
def test_what_is_no_manifest(tmp_path, failing, content):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "manifest.json").write_bytes(content)
    assert failing(tmp_path / "model").startswith(f"{tmp_path / 'model' / 'manifest.json'}")


@pytest.mark.parametrize("option", ["lenpen", "unkpen", "max-len-a", "max-len-b"])
@pytest.mark.parametrize("value", ["nan", "inf"])
def test_numbers_that_are_none(saved_model, failing, option, value):
    assert failing(saved_model, f"--{option}", value) == f"--{option} {value}: give a number"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--moses", "/none"], "/none/scripts/tokenizer/tokenizer.perl: no such file"),
        (["--nbest", "9"], "--nbest 9 is more than --beam 2"),
        (["--first-pass", "/none"], "/none: no such file"),
    ],
)
def test_options_of_translate(saved_model, failing, options, message):
    assert message in failing(saved_model, *options)


def test_several_texts(saved_model, tmp_path, capsys):
    """Each has a file in a directory; those that are there are kept, so that the same command goes on."""
    given = ["--model", str(saved_model), "--cpu", "--quiet", "--beam", "1"]
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text(TEXT), two.write_text("The river.\n")
    for text in (one, two):
        assert main([*given, str(text), "-o", str(tmp_path / f"{text.name}.de")]) == 0
    assert main([*given, str(one), str(two), "-o", str(tmp_path / "out")]) == 0
    for text in (one, two):
        assert (tmp_path / "out" / text.name).read_bytes() == (tmp_path / f"{text.name}.de").read_bytes()
    (tmp_path / "out" / "two.txt").unlink(), (tmp_path / "out" / "one.txt").write_text("kept")
    capsys.readouterr()
    assert main([*given, str(one), str(two), "-o", str(tmp_path / "out")]) == 0
    assert (
        capsys.readouterr().err == f"{tmp_path / 'out' / 'one.txt'}: there already, kept (--restart makes it again)\n"
    )
    assert (tmp_path / "out" / "two.txt").read_bytes() == (tmp_path / "two.txt.de").read_bytes()


def test_several_texts_that_cannot_be(failing, saved_model, tmp_path):
    other, there = tmp_path / "other" / "text", tmp_path / "there"
    other.parent.mkdir(), other.write_text(TEXT), there.write_text("")
    assert "2 files: their translations need a directory; give" in failing(saved_model, str(other), "-o", str(there))
    folder = ["-o", str(tmp_path / "folder")]
    assert "another of the files is called text, too" in failing(saved_model, str(other), *folder)
    assert "2 files: neither standard input nor" in failing(saved_model, "-", *folder)
    assert "/none: no such file" in failing(saved_model, "/none", *folder) and not (tmp_path / "folder").exists()
