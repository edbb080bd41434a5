"""Several texts into one directory: nothing is lost, and nothing is taken for a translation that is none of them."""

from __future__ import annotations

import gzip

import pytest

from gtransformer.cli.translate import main
from gtransformer.errors import UserError
from gtransformer.translation.resumable import outputs_of
from tests.core.translation.test_resuming import stop_after
from tests.support import without_limit_remarks

TEXT = "The old dog sleeps.\nMary finds her book.\n"


@pytest.fixture
def translate(saved_model, tmp_path, capsys):
    """translate(*options, status=0): standard error of translating one.txt and two.txt into ``out``."""
    names = [str(tmp_path / name) for name in ("one.txt", "two.txt")]

    def run(*options: str, status: int = 0) -> str:
        given = ["--model", str(saved_model), "--cpu", "--quiet", *names, "-o", str(tmp_path / "out")]
        assert main([*given, *options]) == status
        return without_limit_remarks(capsys.readouterr().err)

    for name in names:
        (tmp_path / name).write_text("The old dog sleeps.\n")
    return run


def test_each_text_has_a_file(saved_model, tmp_path, capsys):
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
    kept = f"{tmp_path / 'out' / 'one.txt'}: there already, kept (--restart makes it again)\n"
    assert without_limit_remarks(capsys.readouterr().err) == kept
    assert (tmp_path / "out" / "two.txt").read_bytes() == (tmp_path / "two.txt.de").read_bytes()
    assert main([*given, str(two), "-o", f"{tmp_path / 'new'}/"]) == 0, "the only match of a pattern"
    assert (tmp_path / "new" / "two.txt").read_bytes() == (tmp_path / "two.txt.de").read_bytes()


def test_standard_input_has_no_name_in_a_directory(saved_model, tmp_path, capsys):
    assert main(["--model", str(saved_model), "--cpu", "-o", f"{tmp_path / 'new'}/"]) == 1
    assert "standard input has no name" in capsys.readouterr().err and not (tmp_path / "new").exists()


def test_another_key_text_or_origin_is_refused(translate, saved_model, tmp_path, capsys):
    out = tmp_path / "out"
    translate("--beam", "1")
    assert translate("--beam", "1").count("there already, kept") == 2
    refused = f"error: {out / 'one.txt'}: there already, but not known to be of {tmp_path / 'one.txt'} as it is now"
    assert translate(status=1).startswith(refused)
    (tmp_path / "one.txt").write_text("The river.\n")
    assert translate("--beam", "1", status=1).startswith(refused)
    (out / "one.txt").unlink()
    assert translate("--beam", "1") == f"{out / 'two.txt'}: there already, kept (--restart makes it again)\n"
    given = ["--model", str(saved_model), "--cpu", "--quiet", "--scores"]
    assert main([*given, str(tmp_path / "one.txt"), "-o", str(out / "one.txt")]) == 0
    assert translate("--beam", "1", status=1).startswith(refused)


def test_a_restart_that_was_interrupted_goes_on(translate, tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    for name in ("one.txt", "two.txt"):
        (out / name).write_text("old\n")
    with monkeypatch.context() as patch:
        stop_after(patch, 1)
        with pytest.raises(OSError, match="the machine failed"):
            translate("--restart")
    assert (out / "two.txt").read_text() == "old\n" != (out / "one.txt").read_text()
    assert translate() == f"{out / 'one.txt'}: there already, kept (--restart makes it again)\n"
    assert (out / "two.txt").read_text() == (out / "one.txt").read_text()


def test_no_text_is_replaced(translate, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path, "."):
        message = translate("-o", str(folder), status=1)
        assert message.startswith(f"error: {tmp_path / 'one.txt'}: its translation would take the place of ")
        translate("-o", str(folder), "--restart", status=1)
    assert (tmp_path / "one.txt").read_text() == "The old dog sleeps.\n"
    (tmp_path / "x.txt.gz").write_bytes(gzip.compress(b"A dog.\n"))
    with pytest.raises(UserError, match=r"x.txt.gz: its translation would take the place of .*x.txt; give another"):
        outputs_of([str(tmp_path / "x.txt.gz"), "other"], tmp_path)
    assert [path.name for path in outputs_of(["x/a.xz", "b"], tmp_path / "out")] == ["a", "b"]
