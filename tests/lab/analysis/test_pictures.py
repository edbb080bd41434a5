"""What pictures promise: whole ticks, one scale for what is compared, differences that show, and marked coincidence."""

from __future__ import annotations

import numpy as np
import pytest

from gtransformer.lab.analysis.attention import AttentionMap, GateValues, Inspection
from gtransformer.lab.analysis.attention_pictures import draw_attention, draw_gates
from gtransformer.lab.analysis.curves import Curve, plot_learning_curves
from gtransformer.lab.analysis.figures import Curves


@pytest.fixture
def figures(monkeypatch):
    """The figures that are written."""
    from matplotlib.figure import Figure

    found, original = [], Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (found.append(self), original(self, *a, **k))[1])
    return found


def panels(figure) -> list:
    return [axes for axes in figure.axes if axes.get_images() and axes.get_xlabel()]


def test_flat_attention_does_not_look_like_group_attention(figures, tmp_path):
    """Group attention of 0.2 beside flat global attention of 0.003, four sentences each."""
    group, flat = np.diag([0.2, 0.18, 0.16, 0.2]), np.full((4, 4), 0.003)
    maps = [AttentionMap("encoder", reach, 1, mean, mean) for reach, mean in (("group", group), ("global", flat))]
    draw_attention(Inspection(maps), tmp_path / "attention.png", "t")
    images = [axes.get_images()[0] for axes in panels(figures[0])]
    assert [image.norm.vmin for image in images] == [0, 0] and [image.norm.vmax for image in images] == [0.2, 0.2]
    own, whole = (image.to_rgba(image.get_array())[0, 0, :3] for image in images)
    assert np.abs(own - whole).max() > 0.5  # not one bright colour in both
    assert len(figures[0].axes) == 4  # and a bar for each row
    for axes in panels(figures[0]):
        for ticks in (axes.get_xticks(), axes.get_yticks()):
            assert len(ticks) >= 4 and all(float(tick).is_integer() for tick in ticks)


@pytest.mark.parametrize(
    ("values", "ends"), [([0.48, 0.52, 0.5], (0.45, 0.55)), ([0.5, 0.5, 0.5], (0.5, 0.55)), ([0, 1, 0.3], (0, 1))]
)
def test_gates_that_are_much_alike_differ_in_colour(figures, tmp_path, values, ends):
    gate = GateValues("encoder", 1, np.array(values), np.array(values))
    draw_gates(Inspection([], [gate]), tmp_path / "gates.png", "t")
    (axes,) = panels(figures[0])
    assert axes.get_images()[0].get_clim() == pytest.approx(ends)
    assert all(float(tick).is_integer() for tick in axes.get_xticks())


def test_curves_that_coincide_are_marked(figures, tmp_path):
    drawn = Curves()
    assert drawn.add("one", [(1, 5.0), (2, 4.0), (3, 3.0)]) == ("one", {})
    assert drawn.add("two", [(1, 5.0), (2, 4.1), (3, 3.0)]) == ("two", {})
    assert drawn.add("three", [(1, 5.0), (2, 4.0)]) == ("three", {})  # a part of the first
    label, look = drawn.add("four", [(1, 5.001), (2, 4.0), (3, 3.0)])
    assert label == "four (on one's line)" and look["linestyle"] != "-"
    assert drawn.add("score", [(0, 30.0)]) == ("score", {})
    assert drawn.add("another", [(0, 30.02)]) == ("another", {})  # no line, and another score
    same = Curve(valid=[(1, 9.0), (2, 8.0), (3, 7.0)])
    plot_learning_curves({"A": same, "B": same}, tmp_path / "curves.png", "t")
    lines = {line.get_label(): line for line in figures[0].axes[0].get_lines()}
    assert list(lines) == ["A, validation", "B, validation (on A, validation's line)"]
    assert lines["B, validation (on A, validation's line)"].is_dashed()
