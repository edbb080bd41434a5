"""``translate --jobs``: several processes write what one writes; a failure ends them all and can be resumed."""

from __future__ import annotations

import multiprocessing
import os
import signal

import pytest
import torch

from gtransformer.cli.translate import main
from gtransformer.errors import UserError
from gtransformer.modules.processor import has_int8
from gtransformer.translation.api import GTransformer
from gtransformer.translation.resumable import ResumableOutput
from tests.core.translation.test_resuming import command, source, uninterrupted  # noqa: F401, F811

HERE = os.getpid()


def jobs(saved_model, text, output, *more) -> list[str]:
    return command(saved_model, text, output, "--jobs", 3, *more)


def fail_once(monkeypatch, failure) -> None:
    """Let the third window fail, in the process that translates it."""
    real = GTransformer._translate

    def translate(self, window, **options):
        if window.lines[0].position.lines > 15:
            failure()
        return real(self, window, **options)

    monkeypatch.setattr(GTransformer, "_translate", translate)


def killed() -> None:
    assert os.getpid() != HERE
    os.kill(os.getpid(), signal.SIGKILL)


def wrong() -> None:
    assert os.getpid() != HERE
    raise UserError("the model is wrong")


@pytest.mark.slow
def test_several_processes_write_what_one_writes(saved_model, source, uninterrupted, tmp_path):  # noqa: F811
    assert main(jobs(saved_model, source, tmp_path / "out.jsonl")) == 0
    assert (tmp_path / "out.jsonl").read_bytes() == uninterrupted
    assert not multiprocessing.active_children()


@pytest.mark.slow
@pytest.mark.parametrize(("failure", "said"), [(killed, "fewer --jobs"), (wrong, "the model is wrong")])
def test_a_failure_is_one_sentence_and_can_be_resumed(
    failure, said, saved_model, source, uninterrupted, tmp_path, monkeypatch, capsys,  # noqa: F811
):  # fmt: skip
    output = tmp_path / "out.jsonl"
    with monkeypatch.context() as patch:
        fail_once(patch, failure)
        assert main(jobs(saved_model, source, output)) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and said in error
    assert not output.exists() and not multiprocessing.active_children()
    assert main(jobs(saved_model, source, output)) == 0
    assert output.read_bytes() == uninterrupted


@pytest.mark.slow
def test_an_interrupt_ends_all_processes(saved_model, source, uninterrupted, tmp_path, monkeypatch):  # noqa: F811
    output, real, written = tmp_path / "out.jsonl", ResumableOutput.add, []

    def add(self, lines, position):
        if written:
            raise KeyboardInterrupt
        written.append(real(self, lines, position))

    with monkeypatch.context() as patch:
        patch.setattr(ResumableOutput, "add", add)
        assert main(jobs(saved_model, source, output)) == 130
    assert not multiprocessing.active_children() and not output.exists()
    assert main(command(saved_model, source, output)) == 0  # by one process
    assert output.read_bytes() == uninterrupted


@pytest.mark.parametrize("strategy", ["full", "parallel"])
def test_processes_share_packed_weights(saved_model, strategy):
    """What was packed before they start is all that translating packs; for drafts, too."""
    model = GTransformer.from_pretrained(saved_model, "cpu")
    decoders = [model.engine.model.decoder]
    model._pack_weights(model.options.changed(strategy=strategy))
    decoders += [one for one in [decoders[0].for_drafts()] if strategy == "parallel" and has_int8()]
    packed = [one.pack.cache_info().misses for one in decoders]
    model.translate([["The old dog sleeps.", "Mary finds her book."]], strategy=strategy)
    assert [one.pack.cache_info().misses for one in decoders] == packed and min(packed) > 0


@pytest.mark.parametrize(
    ("given", "gpu", "said"), [(["--jobs", "0"], False, "at least 1"), (["--jobs", "2"], True, "--cpu")]
)
def test_mistakes(given, gpu, said, saved_model, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    text = tmp_path / "text.txt"
    text.write_text("The old dog sleeps.\n")
    assert main(["--model", str(saved_model), str(text), "-o", str(tmp_path / "out"), *given]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and said in error
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_a_number_that_is_none(saved_model):
    model = GTransformer.from_pretrained(saved_model, device="cpu")
    with pytest.raises(UserError, match="jobs 0"):
        next(model.translate_lines(["A dog sleeps."], jobs=0))


def test_threads_that_forked_processes_would_wait_for(saved_model):
    model, before = GTransformer.from_pretrained(saved_model, device="cpu"), torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with pytest.raises(UserError, match=r"jobs 2: PyTorch has 2 threads.*set_num_threads\(1\)"):
            next(model.translate_lines(["A dog sleeps."], jobs=2))
    finally:
        torch.set_num_threads(before)
