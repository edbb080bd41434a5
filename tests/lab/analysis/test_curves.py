"""Learning curves from a log written by hand, and their picture."""

from __future__ import annotations

import json

import pytest

from gtransformer.errors import UserError
from gtransformer.lab.analysis.curves import Curve, plot_learning_curves, read_curve


def entry(kind: str, **stats: object) -> str:
    """A line of fairseq's JSON log."""
    return f"2026-01-31 12:00:00 | INFO | {kind} | {json.dumps({key: str(value) for key, value in stats.items()})}\n"


@pytest.fixture
def log(tmp_path):
    """A function that writes a log."""

    def write(*lines: str):
        path = tmp_path / "train.log"
        path.write_text("".join(lines), encoding="utf-8")
        return path

    return write


def test_reads_training_and_validation(log) -> None:
    curve = read_curve(
        log(
            "2026-01-31 12:00:00 | INFO | fairseq_cli.train | task: translation_doc | {odd}\n",
            entry("train_inner", epoch=1, loss=9.1, ppl=310.5, num_updates=10, wall=4),
            entry("train_inner", epoch=1, loss=7.1, ppl=99.25, num_updates=20, train_wall=4, wall=9),
            entry("valid", epoch=1, valid_loss=6, valid_ppl=80.5, valid_num_updates=20, valid_wall=10),
            entry("train", epoch=1, train_ppl=200.0, train_num_updates=20, train_wall=11),
            entry("test", epoch=1, test_ppl=1.0, test_num_updates=20),
        )
    )
    assert curve.train == [(10, 310.5), (20, 99.25)]
    assert curve.valid == [(20, 80.5)]
    assert curve.last_valid == 80.5
    assert curve.seconds == 11


def test_the_best_model_is_the_last_of_the_lowest_losses(log) -> None:
    lines = [entry("valid", valid_loss=loss, valid_ppl=9, valid_num_updates=updates) for updates, loss in (
        (1, 2.0), (2, 1.5), (3, 1.5), (4, 1.75)
    )]  # fmt: skip
    assert read_curve(log(*lines)).best == 3 and read_curve(log(lines[0])).best == 1
    assert read_curve(log(entry("train_inner", loss=1.0, ppl=2, num_updates=4))).best is None


def test_validation_of_words_is_drawn_where_all_have_it(log, tmp_path, monkeypatch) -> None:
    lines = [
        entry("valid", valid_ppl=ppl, valid_word_nll_loss=bits, valid_num_updates=updates)
        for updates, ppl, bits in ((10, 8.0, 3.25), (20, 4.0, 2.5))
    ]
    curve = read_curve(log(*lines))
    assert (curve.valid, curve.words) == ([(10, 8.0), (20, 4.0)], [(10, 9.5137), (20, 5.6569)])
    figures = []
    monkeypatch.setattr("gtransformer.lab.analysis.curves.save_figure", lambda figure, path: figures.append(figure))
    older = Curve(valid=curve.valid)
    for curves in ({"one": curve}, {"one": curve, "other": older}):
        plot_learning_curves(curves, tmp_path / "curves.png", "title")
    panels = [figure.axes[0] for figure in figures]
    assert [panel.get_title() for panel in panels] == ["validation, words", "validation"]
    drawn = [{line.get_label(): list(line.get_ydata()) for line in panel.lines} for panel in panels]
    assert drawn == [{"one": [9.5137, 5.6569]}, {"one": [8.0, 4.0], "other": [8.0, 4.0]}]


def test_a_resumed_training_replaces_what_it_repeats_and_adds_its_time(log) -> None:
    curve = read_curve(
        log(
            *(
                entry("train_inner", ppl=float(p), num_updates=u, wall=w)
                for u, p, w in [(10, 9, 5), (20, 8, 10), (30, 7, 15)]
            ),
            *(entry("train_inner", ppl=float(p), num_updates=u, wall=w) for u, p, w in [(20, 6, 4), (30, 5, 8)]),
        )
    )
    assert curve.train == [(10, 9.0), (20, 6.0), (30, 5.0)]
    assert curve.seconds == 15 + 8
    slower = [entry("train_inner", ppl=9.0, num_updates=updates, wall=wall) for updates, wall in ((20, 5), (10, 6))]
    assert read_curve(log(*slower)).seconds == 5 + 6
    longer = [
        entry("train_inner", ppl=9.0, num_updates=updates, wall=wall) for updates, wall in ((10, 5), (20, 6), (30, 9))
    ]
    assert read_curve(log("$ python\n", longer[0], "$ python\n", *longer[1:])).seconds == 5 + 9


def test_other_forms_of_logs(log) -> None:
    """Another validation set; epochs where no updates were logged; without prefix, every entry several times."""
    path = log(entry("valid", valid_ppl=2.0, valid_num_updates=1), entry("dev2", dev2_ppl=3.0, dev2_num_updates=1))
    assert read_curve(path, valid="dev2").valid == [(1, 3.0)]
    assert read_curve(log(entry("train", train_ppl=20.0, train_num_updates=8))).train == [(8, 20.0)]
    bare = [
        entry("train_inner", ppl=9.5, num_updates=16, update=0.2, wall=7),
        entry("valid", valid_ppl=3.5, valid_num_updates=16),
    ]
    lines = [line.split(" | ")[-1] for line in bare]
    curve = read_curve(log(*(line for line in lines for _ in range(3))))
    assert (curve.train, curve.valid, curve.seconds) == ([(16, 9.5)], [(16, 3.5)], 7)


def test_an_entry_that_a_kill_cut_off_is_passed_over(log) -> None:
    good = entry("train_inner", ppl=5.0, num_updates=32)
    curve = read_curve(log(entry("train_inner", ppl=9.5, num_updates=16), good[:70] + good))
    assert curve.train == [(16, 9.5)]


def test_errors(log, tmp_path) -> None:
    with pytest.raises(UserError, match="no learning curve in it"):
        read_curve(log("nothing\n", "{}\n", "[1] {\n"))
    with pytest.raises(UserError, match="no such file"):
        read_curve(tmp_path / "no.log")


def test_picture_shows_every_curve(log, tmp_path, monkeypatch) -> None:
    """On logarithmic axes, in the systems' own colours, with another marker or line style each, six in a panel."""
    from matplotlib.figure import Figure

    drawn, original = [], Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (drawn.append(self), original(self, *a, **k))[1])
    points = [(1, 9.0), (2, 8.0), (3, 7.0)]
    curves = {
        "G-Transformer": Curve(train=[(1, 90.0), (2, 5.0)], valid=points),
        "Transformer": Curve(valid=[(1, 9.0), (2, 8.0), (3, 7.001)]),
        "other": Curve(valid=[(1, 9.0), (2, 8.1), (3, 7.0)]),
    }
    plot_learning_curves(curves, tmp_path / "curves.png", "Perplexity")
    training, validation = drawn[0].axes
    lines = {line.get_label(): line for line in validation.get_lines()}
    assert list(lines) == list(curves) and [line.get_label() for line in training.get_lines()] == ["G-Transformer"]
    assert validation.get_yscale() == "log" and list(map(tuple, lines["G-Transformer"].get_xydata())) == points
    assert [line.get_color() for line in lines.values()][:2] == ["#3461c9", "#c43f40"]
    assert len({(line.get_marker(), line.get_linestyle()) for line in lines.values()}) == 3
    plot_learning_curves({str(n): Curve(valid=points) for n in range(7)}, tmp_path / "curves.png", "Perplexity")
    assert [len(panel.get_lines()) for panel in drawn[1].axes] == [4, 3]
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".png"] == ["curves.png"]
