"""Steps are done once, and again when anything they depend on has changed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time

import pytest

from gtransformer.errors import UserError
from gtransformer.preprocess.steps import Steps


@pytest.fixture
def world(tmp_path):
    (tmp_path / "in").write_text("1")
    return World(tmp_path)


class World:
    """A two-step pipeline over one input file that remembers which steps it did."""

    def __init__(self, folder):
        self.input, self.output = folder / "in", folder / "out"
        self.did: list[str] = []

    def run(self, setting=1, fail=False):
        self.did = []
        steps = Steps(self.output, final=["final"])
        first, second, final = (self.output / name for name in ("first", "second", "final"))

        def one():
            self.did.append("one")
            first.write_text(self.input.read_text() * 2)
            return {"n": 7}

        def two():
            self.did.append("two")
            second.write_text(first.read_text() + str(setting))
            if fail:
                raise UserError("failed")

        try:
            report = steps.run("one", [self.input], [first], {}, one)
            steps.run("two", [first], [second], {"setting": setting}, two)
            steps.forget_others()
            final.write_text("all")
            return report
        finally:
            steps.close()


def test_once(world):
    assert world.run() == {"n": 7}
    assert world.did == ["one", "two"]
    assert world.run() == {"n": 7}
    assert world.did == []
    assert (world.output / "second").read_text() == "111"


@pytest.mark.parametrize(
    ("name", "content", "did"),
    [
        ("../in", "5", ["one", "two"]),
        ("first", None, ["one"]),
        ("second", "damaged", ["two"]),
        ("steps/two.json", '{"settings": ', ["two"]),
    ],
)
def test_what_changed_is_done_again_and_what_depends_on_it(world, name, content, did):
    world.run()
    path = world.output / name
    path.unlink() if content is None else path.write_text(content)
    world.run()
    assert world.did == did
    assert (world.output / "second").read_text() == ("551" if name == "../in" else "111")


def test_failure_leaves_no_stamp_and_no_final(world):
    world.run()
    with pytest.raises(UserError, match="failed"):
        world.run(setting=2, fail=True)
    assert not (world.output / "final").exists()
    world.run(setting=2)
    assert world.did == ["two"]
    assert (world.output / "final").read_text() == "all"


def test_leftovers_of_a_killed_run_are_swept(world):
    world.run()
    for name in ("first.123.tmp", "steps/second.9.tmp"):
        (world.output / name).write_text("half")
    (world.output / "bin.55.tmp").mkdir()
    (world.output / "users.tmp").write_text("not ours")
    world.run()
    names = {path.name for path in world.output.rglob("*")}
    assert {name for name in names if name.endswith(".tmp")} == {"users.tmp"}


def test_outputs_of_former_steps_go(world):
    steps = Steps(world.output)
    other = world.output / "other"
    steps.run("old", [world.input], [other], {}, lambda: other.write_text("x") and None)
    steps.close()
    assert other.exists()
    world.run()
    assert not other.exists()
    assert not (world.output / "steps" / "old.json").exists()


def _hold(output, ready):
    steps = Steps(output)
    ready.set()
    time.sleep(60)
    steps.close()


def test_one_run_at_a_time(world):
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    process = context.Process(target=_hold, args=(world.output, ready))
    process.start()
    assert ready.wait(20)
    with pytest.raises(UserError, match="another run is preparing into this directory"):
        world.run()
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    world.run()
    assert world.did == ["one", "two"]


def test_unwritable_place(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        Steps(tmp_path / "file" / "out")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("final", ""),
        ("truecase.en", ""),
        ("steps/mine.json", "{}"),
        ("manifest.json", '{"kind": "model", "settings": {}}'),
    ],
)
def test_directories_of_others_stay_as_they_are(tmp_path, name, text):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=f"its {name.partition('/')[0]} was not written by this command"):
        Steps(tmp_path, final=["final", "manifest.json"])
    assert sorted(tmp_path.rglob("*")) == before


def test_a_corpus_without_its_steps_is_our_own(tmp_path):
    """They may be removed to save space."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "manifest.json").write_text('{"settings": {}}')
    Steps(tmp_path, final=["manifest.json", "bin"]).close()
