"""COMET by a stand-in for unbabel-comet's command, which prints in its format: what it is given,
and its failures.
"""

from __future__ import annotations

import json
import sys

import pytest

from gtransformer.cli.score import main

# The share of the words of each translation that are in its reference; the source must be there.
PROGRAM = """#!{python}
import sys
from argparse import ArgumentParser
parser = ArgumentParser()
for name in "-s", "-r", "--model":
    parser.add_argument(name, required=True)
parser.add_argument("-t", nargs="+")
parser.add_argument("--quiet", action="store_true", required=True)
parser.add_argument("--only_system", action="store_true", required=True)
args = parser.parse_args()
names = (args.s, args.r, *args.t)
sources, references, *texts = (open(name, encoding="utf-8").read().splitlines() for name in names)
assert sources == ["One two.", "Three."], sources
if "fail" in texts[0]:
    sys.exit("no memory is left")
print("Seed set to 1")
for name, text in zip(args.t, texts):
    pairs = zip(text, references, strict=True)
    shares = [sum(w in r.split() for w in t.split()) / len(t.split()) for t, r in pairs]
    print(f"{{name}}\\tscore: {{sum(shares) / len(shares):.4f}}")
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """run(systems, command): the command's status, its output, and its error."""
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "comet-score"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    for name, text in (("src", "<d>\nOne two.\nThree.\n"), ("ref", "<d>\nEins zwei.\nDrei.\n")):
        (tmp_path / name).write_text(text)

    def call(systems: dict[str, str], command: str = "./comet-score"):
        for name, text in systems.items():
            (tmp_path / name).write_text(text)
        line = [
            "--reference-file",
            "ref",
            "--source-file",
            "src",
            "--output",
            "out.json",
            "--metrics",
            "chrf",
        ]
        status = main([*line, "--comet", command, "--hypotheses", *systems])
        return status, *capsys.readouterr()

    return call


def test_the_figure_is_in_the_table_and_the_result(run, tmp_path):
    status, printed, _ = run({"a": "Eins drei.\nDrei.\n", "b": "Eins zwei.\nDrei.\n"})
    assert status == 0
    systems = json.loads((tmp_path / "out.json").read_text())["systems"]
    assert [systems[name]["scores"]["raw"]["comet"]["score"] for name in "ab"] == [0.75, 1.0]
    assert any(row.split()[1:4] == ["COMET", "0.7500", "1.0000"] for row in printed.splitlines())


def test_what_goes_wrong_is_said_in_one_line(run):
    status, _, error = run({"a": "fail\nx\n"})
    assert status == 1 and "no memory is left" in error
    status, _, error = run({"a": "x\ny\n"}, "no/such")
    assert status == 1 and "no/such" in error and "pip install" in error.splitlines()[-1]
