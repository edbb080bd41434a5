"""What a study makes of its runs' results: means over seeds, differences, a table, pictures."""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from gtransformer.evaluation.score import score_text
from gtransformer.lab.analysis.study_figures import draw_study
from gtransformer.lab.records import Translations, spread
from gtransformer.lab.studies.table import summary, table

SCORES = {"base": (20.0, 30.0, 40.0), "other": (21.0, 32.0, 43.0), "fewer": (10.0, 10.0)}


def cells(line: str) -> list[str]:
    """The cells of an aligned row."""
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def result(score: float, curve: list[float], aligned: bool = True, seed: int = 0) -> dict:
    """A run's result, as far as a study reads it."""
    bleu = {"score": score, "signature": "nrefs:1"}
    points = [[10 * number, value] for number, value in enumerate(curve, 1)]
    curves = {"valid_loss": points, "valid_loss_flat": [[update, 9.0] for update, _ in points]}
    scores = {"d_bleu": bleu, "s_bleu": bleu if aligned else None}
    return {"scores": scores, "curves": curves, "run": {"seed": seed}}


def test_mean_and_spread():
    error = {"std": pytest.approx(4.5**0.5), "standard_error": pytest.approx(1.5)}
    assert spread([1.0, 4.0]) == {"values": [1, 4], "mean": 2.5, **error, "min": 1, "max": 4}
    assert spread([2.0])["std"] is None


def test_collected_result_and_its_picture(runner, tmp_path, monkeypatch):
    """Runs that fail are left out, and the figure says so."""
    drawn, original = [], Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (drawn.append(self), original(self, *a, **k))[1])
    runner.run(runner.study.runs())
    found = json.loads(json.dumps(runner.collect({})))
    scores, curves = found["panels"]
    points = [(system, length) for system in ("plain", "ours") for length in (64, 512)]
    assert [(line["system"], line["x"]) for line in scores["lines"]] == points
    assert scores["lines"][0]["d_bleu"] == spread([3.0, 1.0]) and len(found["runs"]) == 8
    assert curves["lines"][0]["last"]["mean"] == 3 and set(curves["lines"][0]["runs"]) <= set(found["runs"])
    text = table(found)
    assert "Plain" in text and "2.00 (1.00 to 3.00)" in text and "BLEU: s" in text and "2 seed(s)" in text
    draw_study(found, tmp_path / "figure.png")
    first, second = drawn[0].axes
    assert imread(tmp_path / "figure.png").ndim == 3
    assert first.get_ylim()[0] == 0 and [label.get_text() for label in first.get_xticklabels()] == ["64", "512"]
    strokes = [line.get_xydata().tolist() for line in second.get_lines()]
    assert strokes == [[[10, 8], [20, 3]]] * 2, "every seed is drawn, and nothing is smoothed"
    names = [line["runs"][0] for line in scores["lines"][:2]] + scores["lines"][1]["runs"][1:]
    found = json.loads(json.dumps(runner.collect(dict.fromkeys(names, "stopped"))))
    scores, _ = found["panels"]
    assert [(line["system"], line["x"]) for line in scores["lines"]] == [points[0], *points[2:]]
    assert scores["lines"][0]["d_bleu"] == spread([1.0]) and f"missing: {names[0]} stopped" in table(found)
    draw_study(found, tmp_path / "figure.png")
    assert "3 run(s) missing" in drawn[1].get_suptitle()


def test_a_curve_that_a_run_does_not_have_is_said_to_be_missing(tmp_path):
    line = {"system": "s", "curve": "valid_entropy_cross_group", "label": "local", "flat": True, "runs": ["a"]}
    panel = {"kind": "curves", "title": "t", "axis": "entropy", "lines": [line, line | {"curve": "valid_loss"}]}
    results = {"a": result(10, [5.0, 2.0])}
    found = {"panels": summary([panel], results), "systems": {"s": "System"}, "runs": results}
    lacking, there = found["panels"][0]["lines"]
    assert lacking["last"] is None and there["lowest"]["mean"] == 2
    assert "System, local  -" in table(found)
    draw_study(found | {"miniature": True, "description": "d", "corpus": "demo"}, tmp_path / "figure.png")


def test_further_columns_of_a_table():
    """TER; how long the best model took and what words cost it, where all seeds have curves."""
    curves = [[(10, 1.0), (20, 1.0), (30, 3.0)], [(10, 1.0), (20, 1.5)]]  # of equals fairseq keeps the last
    keys = {"d_bleu": 1, "s_bleu": 2, "ter": 4}
    runs = {}
    for seed, curve in enumerate(curves):
        words = [(n, v * 2) for n, v in curve]
        scores = {key: {"score": 2 * seed + 1 + more, "signature": f"of {key}"} for key, more in keys.items()}
        runs[f"r{seed}"] = {"scores": scores, "curves": {"valid_loss": curve, "valid_word_nll_loss": words}}
    runs["r0"]["curves"]["valid_word_nll_loss"][::2] = [(10, 0.5), (30, 1.0)]  # lower, but of other models
    rows = [("both", ["r0", "r1"])]
    lines = [{"system": "a", "label": label, "runs": names, "x": None} for label, names in rows]
    panels = summary([{"kind": "table", "title": "T", "axis": "row", "lines": lines}], runs)
    assert panels[0]["lines"][0]["best_update"]["values"] == [20, 10]
    _, head, row, _, *foot = table({"panels": panels, "systems": {"a": "A"}}).splitlines()
    columns = ["TER", "perplexity of words", "updates"]
    assert cells(head) == ["row", "d-BLEU", "s-BLEU", *columns]
    assert cells(row)[-2:] == ["4.000 (4.000 to 4.000)", "15 (10 to 20)"]
    assert foot[1:] == ["BLEU: of d_bleu", "TER: of ter"]


def test_a_table_with_a_baseline_has_differences_by_seed_and_their_intervals():
    """t of 2 degrees of freedom is 4.3027; rows are compared over the seeds that both have, one has no interval."""
    seeds = {"base": (0, 1, 2), "other": (2, 1, 0), "fewer": (1, 7)}
    runs = {
        f"{name}{seed}": result(score, [1.0], seed=seed)
        for name, scores in SCORES.items()
        for score, seed in zip(scores, seeds[name], strict=True)
    }
    lines = [{"system": "a", "label": label, "runs": [run for run in runs if run[:-1] == label], "x": None}
             for label in SCORES]  # fmt: skip
    panel = {"kind": "table", "title": "T", "axis": "row", "baseline": "base", "lines": lines}
    (found,) = summary([panel], runs)
    base, other, fewer = (line["difference"]["s_bleu"] for line in found["lines"])
    assert base["interval"] == (0, 0) and fewer["values"] == [-20] and fewer["interval"] is None
    assert fewer["seeds"] == [1]
    assert other["values"] == [23, 2, -19] and other["mean"] == 2
    half = 4.3027 * 21 / 3**0.5  # of a standard deviation of 21
    assert other["interval"] == pytest.approx((2 - half, 2 + half), abs=1e-3)
    _, head, *rows, _, _, _ = table({"panels": [found], "systems": {"a": "A"}}).splitlines()
    assert cells(head)[-2:] == ["s-BLEU less base", "s-BLEU, over documents"]
    assert [cells(row)[-2:] for row in rows] == [
        ["+0.00 (+0.00 to +0.00)", "-"], ["+2.00 (-50.17 to +54.17)", "-"], ["-20.00", "-"]]  # fmt: skip


def test_scores_are_compared_with_the_baseline_at_the_same_value():
    values = {("a", 64): 10.0, ("a", 128): 20.0, ("b", 64): 50.0, ("b", 128): 90.0}
    runs = {f"{system}{x}": result(score, [1.0]) for (system, x), score in values.items()}
    lines = [{"system": system, "label": None, "runs": [f"{system}{x}"], "x": x} for system, x in values]
    panel = {"kind": "scores", "title": "T", "axis": "length", "baseline": "a", "lines": lines}
    (found,) = summary([panel], runs)
    assert [line["difference"]["d_bleu"]["mean"] for line in found["lines"]] == [0, 0, 40, 70]
    _, head, *rows, _, _, _ = table({"panels": [found], "systems": {"a": "A", "b": "B"}}).splitlines()
    assert len(cells(head)) == len(cells(rows[-1])) and cells(rows[-1])[-4:-2] == ["+70.00", "-"]


def test_differences_over_documents(tmp_path):
    """Of the seeds that both have; their counts are summed, as if their translations of a document were joined."""
    words, draw = "a cat sat on the mat and it was very warm there".split(), random.Random(3)
    reference = [[" ".join(draw.choices(words, k=9)) for _ in range(3)] for _ in range(7)]

    def noisy(errors):
        return [[" ".join(w if draw.random() > errors else "x" for w in s.split()) for s in d] for d in reference]

    def written(name, documents):
        text = "".join("\n".join(["<d>", *one, ""]) for one in documents)
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    texts = {"base0": noisy(0.3), "base1": noisy(0.3), "other1": noisy(0.1), "other0": noisy(0.2), "other2": noisy(1)}
    runs = {name: result(50.0, [1.0], seed=int(name[-1])) for name in texts}
    lines = [{"system": "a", "label": label, "runs": [run for run in runs if run[:-1] == label], "x": None}
             for label in ("base", "other")]  # fmt: skip
    panel = {"kind": "table", "title": "T", "axis": "row", "baseline": "base", "lines": lines}
    paths, right = {name: written(name, one) for name, one in texts.items()}, written("reference", reference)
    tests = Translations(partial(score_text, right))
    (found,) = summary(
        [panel], runs, lambda key, *names: tests.test(key, *([paths[name] for name in own] for own in names))
    )
    base, other = (line["difference"] for line in found["lines"])
    assert "documents" not in base["s_bleu"]
    both = {
        name: written(name, [one + two for one, two in zip(texts[f"{name}0"], texts[f"{name}1"], strict=True)])
        for name in ("base", "other")
    }
    joined = Translations(partial(score_text, written("twice", [one + one for one in reference])))
    assert other["s_bleu"]["documents"] == joined.test("s_bleu", [both["base"]], [both["other"]])
    assert other["d_bleu"]["documents"]["units"] == 7
    low, high = other["s_bleu"]["documents"]["interval"]
    assert f"{low:+.2f} to {high:+.2f}" in table({"panels": [found], "systems": {"a": "A"}})


# Contrastive accuracy


def choices(accuracy: float, near: float, seed: int = 0) -> dict:
    """Of a run: scores and choices."""
    groups = {"1": {"accuracy": near}, "2-3": {"accuracy": accuracy}}
    scores = {key: {"score": 50.0, "signature": "s"} for key in ("d_bleu", "s_bleu")}
    found = {"total": {"accuracy": accuracy}, "by_distance": groups}
    more = {"contrastive": found, "run": {"seed": seed}}
    return {"scores": scores, "curves": {}} | more


def shown(study, results: dict) -> dict:
    """A study's result over made-up results, two seeds of each system."""
    panels = []
    for panel in study.panels:
        lines = [
            {"system": line.system, "label": line.label, "x": line.x, "runs": [f"{line.system}{n}" for n in (0, 1)]}
            for line in panel.lines
        ]
        own = {key: getattr(panel, key) for key in ("kind", "title", "axis", "quantity", "by", "baseline")}
        panels.append(own | {"lines": lines})
    found = {"panels": json.loads(json.dumps(summary(panels, results))), "runs": results, "systems": study.systems}
    return found | {"description": "D", "miniature": True, "corpus": "demo"}


RESULTS = {"plain0": (50, 60), "plain1": (54, 70), "flat0": (60, 64), "flat1": (70, 66)}


def test_accuracies_their_differences_and_pictures(request, tmp_path: Path):
    """Means over seeds of differences seed by seed; a table, a picture of each panel."""
    study = request.getfixturevalue("table")
    study.panels = study.panels[1:]
    found = shown(study, {name: choices(*values, int(name[-1])) for name, values in RESULTS.items()})
    plain, flat = found["panels"][0]["lines"]
    assert flat["accuracy"]["mean"] == 65 and flat["by"]["1"]["values"] == [64, 66]
    assert flat["difference"]["1"]["values"] == [4, -4] and flat["difference"]["2-3"]["mean"] == 13
    assert plain["difference"]["1"]["mean"] == 0
    text = table(found)
    assert "system  all items" in text and "65.00 (64.00 to 66.00)" in text
    draw_study(found, tmp_path / "drawn.png")
    assert (tmp_path / "drawn.png").read_bytes().startswith(b"\x89PNG")
