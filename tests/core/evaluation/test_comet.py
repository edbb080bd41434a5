"""COMET by a stand-in for unbabel-comet's command, which prints in its format."""

from __future__ import annotations

import sys

from gtransformer.files import read_json
from tests.support import command

main = command("score")


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


def test_the_figure_is_in_the_table_and_the_result(tmp_path, monkeypatch, capsys):
    """What the program says when it fails is passed on."""
    monkeypatch.chdir(tmp_path)
    files = {
        "comet-score": PROGRAM.format(python=sys.executable),
        "src": "<d>\nOne two.\nThree.\n", "ref": "<d>\nEins zwei.\nDrei.\n",
        "a": "Eins drei.\nDrei.\n", "b": "Eins zwei.\nDrei.\n", "failing": "fail\nx\n",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "comet-score").chmod(0o755)
    line = "--reference-file ref --source-file src --output out.json --metrics chrf "
    line += "--comet ./comet-score --hypotheses"
    assert main([*line.split(), "a", "b"]) == 0
    systems = read_json(tmp_path / "out.json")["systems"]
    assert [systems[name]["scores"]["raw"]["comet"]["score"] for name in "ab"] == [0.75, 1.0]
    printed = capsys.readouterr().out.splitlines()
    assert any(row.split()[1:4] == ["COMET", "0.7500", "1.0000"] for row in printed)
    assert main([*line.split(), "failing"]) == 1
    assert "no memory is left" in capsys.readouterr().err
