"""The picture of a study: what is drawn where seeds agree, and where some lack a curve."""

from __future__ import annotations

import statistics

import pytest

from gtransformer.lab.analysis.study_figures import draw_study


@pytest.fixture
def draw(tmp_path, monkeypatch):
    """A function that draws a study of one panel and returns its axes."""
    from matplotlib.figure import Figure

    figures = []
    original = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (figures.append(self), original(self, *a, **k))[1])

    def drawer(panel: dict, runs: dict | None = None, systems: dict | None = None):
        result = {"panels": [panel | {"title": "t"}], "systems": systems or {"s": "System"}, "runs": runs or {}}
        draw_study(result | {"miniature": True, "description": "d", "corpus": "demo"}, tmp_path / "figure.png")
        return figures[-1].axes[0]

    return drawer


def test_seeds_that_score_alike(draw):
    """The mean of equal numbers may be another number, a rounding above or below: no error bar is negative."""
    value = next(i / 100 for i in range(1, 10000) if statistics.fmean([i / 100] * 5) != i / 100)
    numbers = {"values": [value] * 5, "mean": statistics.fmean([value] * 5), "min": value, "max": value}
    for mean in (numbers["mean"], 2 * value - numbers["mean"]):
        line = {"system": "s", "x": 64, "runs": ["a"], "d_bleu": numbers | {"mean": mean}}
        axes = draw({"kind": "scores", "axis": "length", "lines": [line]})
        assert axes.get_legend_handles_labels()[1] == ["System"]


def test_label_and_flat_line_come_from_the_first_seed_that_has_the_curve(draw):
    curves = {"entropy": [[1, 5.0], [2, 4.0]], "entropy_flat": [[1, 6.0], [2, 6.0]]}
    runs = {"seed1": {"curves": {}}, "seed2": {"curves": curves}, "seed3": {"curves": curves}}
    line = {"system": "s", "curve": "entropy", "label": "local", "flat": True, "runs": list(runs)}
    axes = draw({"kind": "curves", "axis": "entropy (bits)", "lines": [line]}, runs)
    assert axes.get_legend_handles_labels()[1] == ["local", "local, if flat"]
    first, second, flat = [one.get_linestyle() for one in axes.get_lines()]
    assert first == second != flat == ":"
