"""The picture of a study: what is drawn where seeds agree, and where some lack a curve."""

from __future__ import annotations

import statistics

import pytest

from gtransformer.lab.analysis.study_figures import draw_study
from gtransformer.lab.report.pages.colours import SYSTEMS, shades, system_colours


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
        line = {"system": "s", "x": 64, "d_bleu": numbers | {"mean": mean}}
        axes = draw({"kind": "scores", "axis": "length", "lines": [line]})
        assert axes.get_legend_handles_labels()[1] == ["System"]


def test_label_and_flat_line_come_from_the_first_seed_that_has_the_curve(draw):
    curves = {"entropy": [[1, 5.0], [2, 4.0]], "entropy_flat": [[1, 6.0], [2, 6.0]]}
    runs = {"seed1": {"curves": {}}, "seed2": {"curves": curves}, "seed3": {"curves": curves}}
    line = {"system": "s", "curve": "entropy", "label": "local", "flat": True, "runs": list(runs)}
    axes = draw({"kind": "curves", "axis": "entropy (bits)", "lines": [line]}, runs)
    assert axes.get_legend_handles_labels()[1] == ["local", "local, if flat"]
    assert [one.get_linestyle() for one in axes.get_lines()] == ["-", "-", ":"]


def test_a_system_has_one_colour_in_all_panels_and_its_lines_shades_of_it(draw):
    """Also where a system that comes first in the study, and wants the same colour, is not in the panel."""
    wanted = {}
    for name in (f"run {number}" for number in range(60)):
        wanted.setdefault(system_colours([name])[name], []).append(name)
    one, two = next(names for names in wanted.values() if len(names) > 1)[:2]
    systems = {one: "One", two: "Two", "gtransformer": "G"}
    numbers = {"values": [1.0], "mean": 1.0, "min": 1.0, "max": 1.0}
    scores = draw(
        {"kind": "scores", "axis": "length", "lines": [{"system": two, "x": 1, "d_bleu": numbers}]}, {}, systems
    )
    runs = {"seed": {"curves": {"entropy": [[1, 5.0], [2, 4.0]], "loss": [[1, 3.0], [2, 2.0]]}}}
    lines = [
        {"system": system, "curve": curve, "label": curve, "flat": False, "runs": ["seed"]}
        for system, curve in ((two, "loss"), ("gtransformer", "loss"), ("gtransformer", "entropy"))
    ]
    curves = draw({"kind": "curves", "axis": "bits", "lines": lines}, runs, systems)
    drawn = [line.get_color() for line in curves.get_lines()]
    assert drawn == [scores.get_lines()[0].get_color(), *shades(SYSTEMS["gtransformer"], 2)]
    assert drawn[0] == system_colours(systems)[two] != system_colours([two])[two]
