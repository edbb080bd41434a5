"""Made-up results for the tests of the results page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gtransformer.lab.cli import report

ROOT = Path(__file__).resolve().parents[3]
PRINTED = ROOT.parent / "shared" / "papers" / "g-transformer.md"
NAMES = ("raw", "release", "tokenised", "paper")
SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"


def section(authors: str, page: str, name: str) -> list[str]:
    """The lines of the section of a table of the paper by these authors."""
    return page.split(f"## Tables of {authors}")[1].split(f"### {name}: ")[1].split("\n### ")[0].splitlines()


def row(authors: str, page: str, name: str, method: str) -> list[str]:
    """The cells of a row of such a table behind its name."""
    (line,) = [line for line in section(authors, page, name) if line.startswith(f"| {method} |")]
    return [cell.strip() for cell in line.strip("|").split("|")[1:]]


def refused(logs: Path, capsys, *arguments: str) -> str:
    """The one sentence with which the command fails."""
    capsys.readouterr()
    assert report.main(["--logs", str(logs), *arguments]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    return line


def scores(s_bleu: float, d_bleu: float, missing: int = 0) -> dict:
    """What a comparison holds of one set; the release's computation gives one point more, and by instance another."""
    values = {"s_bleu": s_bleu, "d_bleu": d_bleu, "d_bleu_instance": d_bleu + 1}
    result: dict = {"aligned": missing == 0, "counts": {"misaligned_instances": missing}}
    for reference, more in (("raw", 0), ("release", 1)):
        result[reference] = {key: {"score": score + more, "signature": SIGNATURE} for key, score in values.items()}
    return result


def only(reference: str, values: dict, name: str | None = None) -> dict:
    """Scores against one reference alone, under another name if one is given."""
    return {name or reference: values[reference]} | {key: values[key] for key in values if key not in NAMES}


def write_comparison(
    logs: Path, corpus: str, recipes: dict[str, dict], every: int = 1, changes: tuple[str, ...] = ()
) -> None:
    """A folder ``new`` with the results of a comparison: scores by recipe and set."""
    (logs / "new").mkdir()
    (logs / "new" / "about.yaml").write_text("about: a comparison\nmachine: one H1 GPU\n")
    content = {
        "corpus": {"name": corpus, "every": every},
        "changes": list(changes),
        "recipes": {
            recipe: {"minutes": 5, "updates": 77, "validation_perplexity": 9.5, "note": None, "scores": sets}
            for recipe, sets in recipes.items()
        },
        "command": "python -m gtransformer.lab.cli.compare x",
        "commit": "0123456789+changes",
    }
    (logs / "new" / "comparison.json").write_text(json.dumps(content))


def arena_of(systems: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The recorded arena with these systems, each like one of its own but for what is given."""
    recorded = json.loads((ROOT / "exp_logs" / "arena" / "arena.json").read_text(encoding="utf-8"))
    like = recorded["systems"]["lst"]
    made = {}
    for name, given in systems.items():
        made[name] = {**like, **given, "accuracy": {**like["accuracy"], **given.get("accuracy", {})}}
    return {**recorded, "systems": made}
