"""The Dockerfile: what its lines are as a script, and that it asks for what is there."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.dockerfile import as_script, base_image, copied, instructions

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
SMALL = """\
# FROM nothing
FROM python:3.12-slim
ARG WHO="the world"
ENV ONE=1 \\
    TWO="to $WHO"
WORKDIR /opt/a
COPY one.txt folder ./
COPY folder inner
# between
RUN echo "$ONE $TWO" >said \\
    && pwd >where
RUN cd /; X=1
WORKDIR /data
RUN test -z "$X" && cat ../opt/a/said >copy
CMD ["cat", "copy"]
"""


def test_the_script_does_what_the_lines_say(tmp_path):
    context, files = tmp_path / "context", tmp_path / "files"
    (context / "folder").mkdir(parents=True)
    (context / "one.txt").write_text("one")
    (context / "folder" / "two.txt").write_text("two")
    (tmp_path / "script").write_text(as_script(SMALL))
    environment = os.environ | {"CONTEXT": str(context), "FILES": str(files), "WHO": "you"}

    def run() -> subprocess.CompletedProcess:
        return subprocess.run(["bash", tmp_path / "script"], env=environment, capture_output=True, text=True)

    done = run()
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 to you\n", "")
    assert (files / "opt/a/where").read_text() == f"{files}/opt/a\n"
    found = {path.relative_to(files).as_posix() for path in files.rglob("*.txt")}
    assert found == {"opt/a/one.txt", "opt/a/two.txt", "opt/a/inner/two.txt"}
    del environment["WHO"]
    assert run().stdout == "1 to the world\n"
    (context / "one.txt").unlink()
    assert run().returncode != 0


def test_a_line_that_fails_ends_the_script(tmp_path):
    (tmp_path / "script").write_text(as_script("FROM a\nRUN false\nRUN touch reached\n"))
    environment = os.environ | {"CONTEXT": str(tmp_path), "FILES": str(tmp_path / "files")}
    assert subprocess.run(["bash", tmp_path / "script"], env=environment).returncode != 0
    assert not (tmp_path / "files" / "reached").exists()


def test_no_instruction_is_left_out():
    with pytest.raises(ValueError, match="^VOLUME: not known"):
        as_script("FROM a\nVOLUME /data\n")


def test_the_image_copies_what_is_there_and_not_ignored():
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert ignored[0] == "*"
    names = copied(TEXT)
    assert {"gtransformer", "configs", "requirements", "setup.py"} <= set(names)
    assert not [name for name in names if not (ROOT / name).exists() or f"!{name}" not in ignored]
    assert as_script(TEXT).count("\nsh -c ") == sum(keyword == "RUN" for keyword, _ in instructions(TEXT)) >= 4


def test_the_image_has_a_python_that_the_package_is_for():
    version = re.fullmatch(r"python:(3\.\d+)-slim", base_image(TEXT))[1]
    assert f"Python :: {version}" in (ROOT / "setup.py").read_text(encoding="utf-8")
