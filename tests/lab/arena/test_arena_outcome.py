"""Means, standard errors and differences of an arena, against values worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from matplotlib.image import imread

from gtransformer.errors import UserError
from gtransformer.lab.analysis.curves import read_curve
from gtransformer.lab.arena.arena import Arena
from gtransformer.lab.arena.outcome import decoded_per_second, draw_curves, peaks_of, seconds_of
from gtransformer.lab.arena.statistics import (
    accuracies,
    cell,
    error_of,
    joint_error,
    mean_cell,
    scores_of,
    spread,
)
from gtransformer.lab.arena.table import arena_text
from gtransformer.lab.cli.arena import build_parser
from tests.support import ROOT

# Two seeds of a system and of the baseline on four items: solved.
SYSTEM = ([1, 1, 0, 1], [1, 0, 0, 1])
BASELINE = ([0, 0, 1, 0], [0, 0, 1, 0])


def items(solved: list[int], groups: list[int | None] = (None, None, None, None), **keys: list) -> list[dict]:
    """Entries of a contrastive result file."""
    return [
        {
            "id": number,
            "phenomenon": "pronoun",
            "distance_source": 1,
            "distance_target": 1,
            "group": groups[number],
            "wrong": [-2.0, -3.0],
            "solved": bool(outcome),
            **{key: values[number] for key, values in keys.items()},
        }
        for number, outcome in enumerate(solved)
    ]


def runs(outcomes, *args, **keys) -> list[list[dict]]:
    return [items(solved, *args, **keys) for solved in outcomes]


def test_items_that_depend_on_nothing():
    """Shares 1, 1/2, 0, 1: mean 0.625, squares of residuals 0.6875, times 4/3, root over 4. Differences 1, 1/2, -1, 1:
    mean 0.375, squares 2.6875."""
    found = cell(runs(SYSTEM), runs(BASELINE), range(4))
    assert found == {
        "items": 4,
        "chance": pytest.approx(100 / 3),
        "accuracy": 62.5,
        "standard_error": pytest.approx(23.93568),
        "by_seed": [75.0, 50.0],
        "difference": 37.5,
        "difference_standard_error": pytest.approx(47.32424),
        "difference_by_seed": [50.0, 25.0],
    }


def test_errors_are_of_items_and_of_seeds():
    """Seeds 75 and 50: standard deviation 17.678, over the root of 2 12.5; squares of both errors add up."""
    found = cell(runs(SYSTEM), runs(BASELINE), range(4))
    assert error_of(found) == pytest.approx((23.93568**2 + 12.5**2) ** 0.5)
    assert error_of(found, "difference_") == pytest.approx((47.32424**2 + 12.5**2) ** 0.5)
    one = cell(runs(SYSTEM[:1]), runs(BASELINE[:1]), range(4))
    assert (error_of(one), error_of(one, "difference_")) == (one["standard_error"], one["difference_standard_error"])
    assert error_of(cell(runs(SYSTEM, [7, 7, 7, 7]), None, range(4))) is None


def test_items_of_a_group_count_together():
    """Residuals of the groups (1, 1/2) and (0, 1): 0.25 and -0.25, squares 0.125, times 2, root over 4."""
    found = cell(runs(SYSTEM, [7, 7, 9, 9]), None, range(4))
    assert found["standard_error"] == pytest.approx(12.5) and "difference" not in found
    assert cell(runs(SYSTEM, [7, 7, 7, 7]), None, range(4))["standard_error"] is None


def test_phenomena_that_share_documents():
    """Residuals of two groups, 0.5 and -0.5 for each item: what rises together counts together, else it cancels out."""
    one, other = ([1.0, 0.0], [0, 1]), ([1.0, 1.0, 0.0, 0.0], [0, 0, 1, 1])
    # (0.5 / (2 * 2) + 1 / (2 * 4))^2, twice, times 2 / 1: 0.25 squared.
    assert joint_error([one, other]) == pytest.approx(100 * (2 * 2 * 0.25**2) ** 0.5)
    assert joint_error([one, ([0.0, 0.0, 1.0, 1.0], [0, 0, 1, 1])]) == pytest.approx(0.0)
    assert joint_error([([1.0], [5]), ([0.0], [5])]) is None


def test_the_mean_of_phenomena():
    cells = [
        {"items": 3, "chance": 50.0, "accuracy": 80.0, "standard_error": 3.0, "by_seed": [80.0]},
        {"items": 5, "chance": 30.0, "accuracy": 60.0, "standard_error": 4.0, "by_seed": [60.0]},
    ]
    mean = {"items": 8, "chance": 40.0, "accuracy": 70.0, "standard_error": 2.5, "by_seed": [70.0]}
    assert mean_cell(cells) == mean
    assert mean_cell([cells[0], {**cells[1], "standard_error": None}])["standard_error"] is None


def test_sides_are_apart_and_a_mean_is_of_all_phenomena():
    keys = {
        "phenomenon": ["address", "pronoun", "pronoun", "address"],
        "distance_source": [1, 1, 14, 30],
        "distance_target": [1, 1, 2, 5],
    }
    found = accuracies(runs(SYSTEM, **keys), runs(BASELINE, **keys))
    assert {kind: one["accuracy"] for kind, one in found["by_phenomenon"].items()} == {
        "address": 100.0, "pronoun": 25.0, "mean": 62.5
    }  # fmt: skip
    rows = {side: {row: list(cells) for row, cells in found[f"by_distance_{side}"].items()} for side in SIDES}
    assert rows == {
        "source": {"1": ["address", "pronoun", "mean"], "13-24": ["pronoun"], "25+": ["address"]},
        "target": {"1": ["address", "pronoun", "mean"], "2": ["pronoun"], "4-6": ["address"]},
    }
    assert list(found["by_distance_both"]) == ["1"]
    assert [one["items"] for one in found["by_distance_both"]["1"].values()] == [1, 1, 2], "as far on both sides"
    assert found["by_distance_target"]["2"]["pronoun"]["difference"] == -100.0


SIDES = ("source", "target")


def test_other_items_are_refused():
    with pytest.raises(UserError, match="different items; start in another directory"):
        accuracies(runs(SYSTEM), runs(BASELINE, [1, 1, 2, 2]))
    with pytest.raises(UserError, match="different items"):
        accuracies([items(SYSTEM[0]), items(SYSTEM[1])[:3]], None)


def score_file(s_bleu: float, d_bleu: float, misaligned: int = 0) -> dict:
    values = {"s_bleu": s_bleu, "d_bleu": d_bleu, "ter": 20.0}
    return {
        "counts": {"misaligned_instances": misaligned},
        "scores": {"raw": {key: {"score": one, "signature": "sig", "segments": 7} for key, one in values.items()}},
    }


def test_scores_over_seeds():
    found = scores_of([score_file(80, 90), score_file(84, 90)])
    assert found["s_bleu"]["mean"] == 82 and found["s_bleu"]["standard_error"] == pytest.approx(2)
    assert found["d_bleu"]["standard_error"] == 0 and found["d_bleu"]["signature"] == "sig"
    unaligned = scores_of([score_file(80, 90), score_file(84, 90, 1)])
    assert unaligned["s_bleu"] is None and unaligned["ter"] is None and unaligned["d_bleu"]["mean"] == 90


def result() -> dict:
    """Of two systems, as ``arena.json`` has it."""
    keys = {"distance_source": [1, 1, 2, 2], "distance_target": [1, 1, 2, 2]}
    systems = {}
    for name, found in (("sentences", BASELINE), ("ours", SYSTEM)):
        systems[name] = {
            "description": name.title(),
            "parameters": 1234,
            "scores": scores_of([score_file(80, 90), score_file(84, 90)]),
            "accuracy": accuracies(runs(found, **keys), None if name == "sentences" else runs(BASELINE, **keys)),
            "validation_perplexity": [1.5, None],
            "seconds": [{"training": 10.0, "translation": 3.0}] * 2,
        }
    return {
        "systems": systems,
        "seeds": [1, 2],
        "updates": 5,
        "baseline": "sentences",
        "start": {"recipe": "start", "updates": 7},
    }


def test_text_of_recorded_results():
    recorded = ROOT / "exp_logs" / "arena"
    text = arena_text(json.loads((recorded / "arena.json").read_text(encoding="utf-8")))
    assert text + "\n" == (recorded / "arena.txt").read_text(encoding="utf-8")


def test_text_of_a_corpus_without_a_set():
    """Scores alone; updates where they differ, memory where it is known."""
    found = result() | {"updates": None, "tokens": 12345, "start": None, "corpus": {"name": "letters"}}
    for name, system in found["systems"].items():
        system |= {
            "updates": [7, 9] if name == "ours" else [5, 5],
            "peak_bytes": {"training": spread([2.0**30, 2.0**31])},
        }
        if name == "ours":  # the other is of an earlier version
            system["target_tokens_per_update"] = 1075.4
        del system["accuracy"]
    text = arena_text(found)
    assert (
        "distance" not in text and "in brackets" not in text and "corpus letters: it has no contrastive items" in text
    )
    assert "all: 12,345 tokens from random weights" in text
    head, *rows = text.splitlines()
    assert head.split("  ")[-1].strip() == "training MiB" and "updates" in head and "GPU" not in head
    (row,) = (line.split() for line in rows if line.startswith("ours"))
    assert row[-5:] == ["8", "1,075", "10", "3", "1,536"]
    (row,) = (line.split() for line in rows if line.startswith("sentences"))
    assert row[-5:] == ["5", "-", "10", "3", "1,536"] and "tokens/update: target tokens" in text


def test_sentences_a_second_of_decoding(tmp_path):
    """Of the last run alone, with a first pass's time; not where an earlier version did not say that."""
    line = "INFO:fairseq_cli.generate:Translated 40 sentences (1,234 tokens) in {}s (9.99 sentences/s, 9 tokens/s)\n"
    log = tmp_path / "generate.test.log"
    log.write_text("$ first\n" + line.format("1.0") + "$ second\n" + line.format("8.0"))
    assert decoded_per_second(40, [tmp_path]) == spread([5.0])
    log.write_text("$ one\nINFO:first pass: 40 sentences by x in 2.0s\n" + line.format("8.0"))
    assert decoded_per_second(40, [tmp_path])["mean"] == 4.0
    log.write_text("$ one\nINFO:first pass: 40 sentences by x\n" + line.format("8.0"))
    assert decoded_per_second(40, [tmp_path]) is None


def arena(output: Path, *options: str, corpus: object = "demo") -> Arena:
    return Arena(build_parser().parse_args([str(corpus), str(output), "--seeds", "1", "--systems", "lst", *options]))


def test_seconds_are_a_systems_own(tmp_path: Path):
    """Of its own training, over all resumptions; not of the model that it starts from."""
    one = arena(tmp_path)
    folder = one.folder("lst", 1)
    folder.mkdir(parents=True)
    entry = '{{"valid_ppl": "4.0", "valid_num_updates": "{}", "valid_wall": "{}"}}\n'
    (folder / "train.log").write_text(f"$ train\n{entry.format(3, 40)}$ train\n{entry.format(6, 20)}")
    for name in ("generate.test", "contrastive"):
        (folder / f"{name}.json").write_text('{"seconds": 3.0}')
    found = seconds_of(one, folder, read_curve(folder / "train.log"))
    assert found == {"training": 60, "translation": 3.0, "contrastive": 3.0}


def test_picture_of_a_corpus_without_a_set(tmp_path: Path):
    one = arena(tmp_path / "out")
    for name in ("sentences", "lst"):
        log = one.folder(name, 1) / "train.log"
        log.parent.mkdir(parents=True)
        log.write_text('{"valid_ppl": "4.0", "valid_num_updates": "3"}\n{"valid_ppl": "2.0", "valid_num_updates": "6"}')
    draw_curves(one, one.common())
    assert imread(one.results["png"]).ndim == 3


def test_peaks_over_seeds(tmp_path: Path):
    folders = [tmp_path / name for name in ("a", "b")]
    for folder, peak in zip(folders, (2**20, 3 * 2**20), strict=True):
        folder.mkdir()
        (folder / "train.json").write_text(json.dumps({"peak_bytes": peak}))
        (folder / "generate.test.json").write_text("{}")  # of an earlier version
        entries = [{"gpu_peak_gib": peak / 2**20 - less, "num_updates": 5 + less} for less in (0, 1)]
        (folder / "train.log").write_text("\n".join(map(json.dumps, entries)))
    found = peaks_of(folders)
    assert found["training"]["mean"] == 2 * 2**20 and found["translation"] is None
    assert found["training_gpu"]["by_seed"] == [2**30, 3 * 2**30], "the most of all, not the last"
    (folders[1] / "train.log").write_text("{}")
    assert peaks_of(folders)["training_gpu"] is None
