"""Locks and records: what every command decides by whether its work was done."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gtransformer.errors import UserError
from gtransformer.work import Record, read_record, take_lock


def test_a_lock_is_had_once_and_by_whom_inherits_it(tmp_path):
    path = tmp_path / "new" / "lock"
    with take_lock(path, tmp_path, "busy"), pytest.raises(UserError, match=f"^{tmp_path}: busy$"):
        take_lock(path, tmp_path, "busy")
    sleep = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
    with take_lock(path, tmp_path, "busy") as lock:
        process = subprocess.Popen(sleep, stdout=subprocess.PIPE, pass_fds=[lock.fileno()])
    try:
        assert process.stdout.readline()
        with pytest.raises(UserError, match="busy"):
            take_lock(path, tmp_path, "busy", patience=0.3)
    finally:
        process.kill()
        process.communicate()
    take_lock(path, tmp_path, "busy", patience=5).close()
    with pytest.raises(UserError, match="cannot be written"):
        take_lock(path / "lock", tmp_path, "busy")


def test_a_record_holds_for_its_key_while_what_was_left_is_whole(tmp_path):
    path = tmp_path / "record.json"
    record = Record(path, {"settings": {"langs": ("en", "de")}, "budget": None})
    assert not record.holds() and record.noted() == {}
    record.end(left=3)
    assert Record(path, {"settings": {"langs": ["en", "de"]}}).holds(), "as JSON has it"
    assert record.holds(lambda noted: noted["left"] == 3) and not record.holds(lambda noted: noted["left"] > 3)
    assert not Record(path, {"settings": {}, "budget": None}).holds()
    assert not Record(path, {"other": None}).holds(), "what was not noted is not known"
    record.begin(record.key | {"done": False})
    assert not record.holds() and record.noted()["budget"] is None
    record.begin()
    assert not path.exists()


@pytest.mark.parametrize("content", ["{", "[]", "\0", None])
def test_a_damaged_record_says_nothing(tmp_path, content):
    if content is not None:
        (tmp_path / "record.json").write_text(content)
    assert read_record(tmp_path / "record.json") == {} and not Record(tmp_path / "record.json", {}).holds()
