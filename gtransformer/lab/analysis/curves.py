"""Learning curves: perplexity over updates, read from fairseq's JSON log and drawn to a PNG.

fairseq writes such entries with ``--log-format json``. On the console they are ``... | INFO | train_inner | {"ppl":
"3.41", "num_updates": "100", ...}``; in a ``--log-file`` they are plain and repeated. Both are read. Keys of validation
entries start with the set's name: ``valid_ppl``. A resumed training appends to the log.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import pairwise
from operator import itemgetter
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.files import NO_JSON, read_lines
from gtransformer.lab.analysis.colours import SYSTEMS_PER_PANEL, system_looks
from gtransformer.lab.analysis.figures import legend_below, new_figure, save_figure

STARTED = "$ "  # begins the line with a command in a log


@dataclass
class Curve:
    """Perplexity of one training run: lists of (updates, perplexity), ascending in updates.

    ``words`` is validation without ``<s>`` and the language symbol, which is comparable between models on sentences and
    on documents. It is empty in logs of other criterions and of earlier versions. ``best`` is the update of the lowest
    validation loss (the last of equals), as fairseq's best checkpoint; None without validation.
    """

    train: list[tuple[int, float]] = field(default_factory=list)
    valid: list[tuple[int, float]] = field(default_factory=list)
    words: list[tuple[int, float]] = field(default_factory=list)
    best: int | None = None
    seconds: float | None = None
    updates: int = 0  # at the last entry

    @property
    def last_valid(self) -> float | None:
        """Final validation perplexity; None if there was no validation."""
        return self.valid[-1][1] if self.valid else None


def read_curve(path: str | Path, valid: str = "valid") -> Curve:
    """Return the learning curve in a log of fairseq; ``valid`` is the validation set's name.

    Perplexity is fairseq's: 2 to the negative log likelihood (base 2) per token, without label smoothing. If a resumed
    training repeats updates, the later numbers count. ``seconds`` is the time of training and validation over all
    resumptions. Truncated entries are skipped. Raises UserError if the file is missing or has no curve.
    """
    curve, epochs, losses, walls = Curve(), [], [], []
    kinds = {"": curve.train, "train_": epochs, f"{valid}_": curve.valid}
    for prefix, updates, values in _entries(path):
        if prefix == STARTED:
            walls.append((-1.0, 0))
        if prefix not in kinds:
            continue
        curve.updates = updates
        if "ppl" in values:
            _append(kinds[prefix], updates, values["ppl"])
        if "word_nll_loss" in values:
            _append(curve.words, updates, round(2 ** values["word_nll_loss"], 4))
        if prefix == f"{valid}_" and "loss" in values:
            _append(losses, updates, values["loss"])
        if "wall" in values:
            walls.append((values["wall"], updates))
    curve.train = curve.train or epochs
    curve.best = min(reversed(losses), key=itemgetter(1), default=(None,))[0]
    if not curve.train and not curve.valid:
        raise UserError(f"{path}: no learning curve in it; train with --log-format json and keep the output")
    if any(wall >= 0 for wall, _ in walls):
        # The clock restarts at 0 in every resumed training, which may also repeat updates.
        last = pairwise([*walls, (-1.0, 0)])
        curve.seconds = sum(wall for (wall, made), (later, more) in last if later < wall or more < made)
    return curve


def read_series(path: str | Path, names: Sequence[str]) -> dict[str, list[tuple[int, float]]]:
    """Return series from a log of fairseq by name: (updates, value), ascending.

    ``names`` are keys of its entries, or patterns such as ``valid_entropy_*``; missing ones are left out. If a resumed
    training repeats updates, the later values count. Raises UserError if the file is missing.
    """
    series: dict[str, list[tuple[int, float]]] = {}
    for prefix, updates, values in _entries(path):
        for key in (f"{prefix}{bare}" for bare in values):
            if any(fnmatchcase(key, name) for name in names):
                _append(series.setdefault(key, []), updates, values[key.removeprefix(prefix)])
    return series


def _entries(path: str | Path) -> Iterator[tuple[str, int, dict[str, float]]]:
    """Yield for every entry the prefix of its keys (``valid_``), its updates, and its numbers by key without prefix.

    Keys without the prefix of the updates' key (``train_wall`` next to ``num_updates``) are kept as they are. The line
    with the command of a training that starts or resumes has the prefix ``STARTED``.
    """
    for line in read_lines(path):
        if line.startswith(STARTED):
            yield STARTED, 0, {}
            continue
        try:
            entry = json.loads(line[line.index("{") :])
            counter = next(key for key in entry if key.endswith("num_updates"))
            prefix, updates = counter.removesuffix("num_updates"), int(entry[counter])
        except (*NO_JSON, TypeError, OverflowError, StopIteration):
            continue  # another or a truncated line
        values = {}
        for key, value in entry.items():
            with suppress(TypeError, ValueError, OverflowError):  # not all entries are numbers
                values[key.removeprefix(prefix)] = float(value)
        yield prefix, updates, values


def _append(points: list[tuple[int, float]], updates: int, perplexity: float) -> None:
    while points and points[-1][0] >= updates:
        points.pop()
    points.append((updates, perplexity))


def plot_learning_curves(curves: Mapping[str, Curve], path: str | Path, title: str) -> None:
    """Draw the curves of several systems in one figure, with a panel for training and one for validation.

    Validation is over words if all systems have it. More than ``SYSTEMS_PER_PANEL`` systems have several rows of
    panels. The perplexity axis is logarithmic. The PNG appears under ``path`` only when it is complete.
    """
    by_words = all(curve.words for curve in curves.values() if curve.valid)
    validated = {name: curve.words if by_words else curve.valid for name, curve in curves.items()}
    kinds = {"training": {name: curve.train for name, curve in curves.items()}}
    kinds[f"validation{', words' if by_words else ''}"] = validated
    kinds = {kind: found for kind, found in kinds.items() if any(found.values())}
    names, looks = list(curves), system_looks(curves)
    rows = -(-len(names) // SYSTEMS_PER_PANEL)
    size = -(-len(names) // rows)
    figure = new_figure(5 * len(kinds) + 1, 3.8 * rows + 1.2)
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    grid = figure.subplots(rows, len(kinds), squeeze=False, sharey="row", sharex=True)
    for number, line in enumerate(grid):
        for axes, (kind, found) in zip(line, kinds.items(), strict=True):
            for name in names[number * size : (number + 1) * size]:
                if found[name]:
                    updates, perplexities = zip(*found[name], strict=True)
                    look = {"markersize": 5, "markevery": max(1, len(updates) // 12), "linewidth": 1.3}
                    axes.plot(updates, perplexities, label=name, **looks[name], **look)
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.yaxis.set_minor_formatter(NullFormatter())
            axes.tick_params(labelsize=8, labelbottom=True)
            axes.set_xlabel("training updates", fontsize=9)
            axes.set_title(kind, fontsize=10)
            axes.grid(alpha=0.3)
            legend_below(axes)
        line[0].set_ylabel("perplexity (logarithmic axis)", fontsize=9)
    figure.suptitle(title, fontsize=12)
    figure.supxlabel("One seed; no error bars. Markers are at some of the updates.", fontsize=9)
    save_figure(figure, path)
