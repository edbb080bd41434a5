"""The benchmark as a table and two pictures."""

from __future__ import annotations

import logging
from pathlib import Path
from statistics import mean

from gtransformer.lab.benchmark.flops import training_operations
from gtransformer.lab.benchmark.systems import BATCHED, BESIDE, PSEUDO, SENTENCES, Setting


def add_ratios(rows: list[dict]) -> None:
    """How much more time and memory a token costs each system than the packed ones at the same work.

    A row's ``ratios``, ``cpu_ratios`` (of seconds of the processor) and ``memory_ratios`` map the name of a packed
    system to a number; of document_transformer, the sentence Transformer's; of systems over a stretch of a document,
    the pseudo-document Transformer's and the sentence Transformer's, which have the same current sentences. Like is
    compared with like: documents, vocabulary, dropout and precision are the same.
    """
    for row in rows:
        others = [other for other in rows if other["setting"]["system"] in _compared_with(row) and other is not row]
        if "seconds" not in row:
            continue
        row["ratios"], row["cpu_ratios"], row["memory_ratios"] = {}, {}, {}
        for other in others:
            if "seconds" in other and _workload(other) == _workload(row):
                faster = other["tokens_per_second"] / row["tokens_per_second"]
                row["ratios"][other["name"]] = round(faster, 3)
                work = (one["cpu_seconds"] / one["tokens"] for one in (row, other))
                row["cpu_ratios"][other["name"]] = round(next(work) / max(next(work), 1e-9), 3)
                row["memory_ratios"][other["name"]] = round(row["peak_bytes"] / max(1, other["peak_bytes"]), 3)


def _compared_with(row: dict) -> tuple[str, ...]:
    system = row["setting"]["system"]
    if system in BATCHED:
        return PSEUDO, SENTENCES
    return (SENTENCES if system == BESIDE else "packed",)


def _workload(row: dict) -> str:
    return Setting(**row["setting"]).workload


def add_utilisation(rows: list[dict], rates: dict[str, float]) -> None:
    """Of training rows, the operations that the model needs a second over the machine's rate in large products.

    Those of systems over a stretch of a document are not counted.
    """
    for row in rows:
        if row["method"] == "train_step" and "seconds" in row and row["setting"]["system"] not in BATCHED:
            setting = Setting(**row["setting"])
            row["operations"] = training_operations(setting)
            row["utilisation"] = round(row["operations"] / row["seconds"] / rates[setting.precision], 4)


def table(rows: list[dict]) -> str:
    """Rows of one method by workload; the last columns say how many times faster those compared with are."""
    wanted = {name for row in rows for name in _compared_with(row)}
    packed = list(dict.fromkeys(row["name"] for row in rows if row["setting"]["system"] in wanted))
    heads = f"{'tokens':>6} {'system':<30} {'s/run':>8} {'tokens/s':>9} {'kB/token':>9} {'of peak':>8} runs"
    lines = ["".join([heads, *(f"  {'/ ' + name:>28}" for name in packed)])]
    workload = None
    for row in rows:
        if _workload(row) != workload:
            workload = _workload(row)
            lines.append(workload)
        tokens = row["setting"]["tokens"]
        if "seconds" not in row:
            lines.append(f"{tokens:>6} {row['name']:<30} {row.get('failed', 'not timed')}")
            continue
        ratios = [row["ratios"].get(name) for name in packed]
        lines.append(
            f"{tokens:>6} {row['name']:<30} {row['seconds']:>8.2f} {row['tokens_per_second']:>9.1f} "
            f"{row['peak_bytes_per_token'] / 1000:>9.1f} {_percent(row.get('utilisation')):>8} {len(row['runs']):>4}"
            + "".join(f"  {'' if ratio is None else f'{ratio:.2f} x':>28}" for ratio in ratios)
            + (f"  then {row['failed']}" if "failed" in row else "")
        )
    return "\n".join(lines)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"


def plot(rows: list[dict], quantity: str, label: str, path: Path) -> None:
    """One curve a system over document length, both axes logarithmic; ``quantity`` maps a row to a number."""
    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # fairseq lets everything through
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    for name in dict.fromkeys(map(curve, rows)):
        points = [(row["setting"]["tokens"], value(row, quantity)) for row in rows if curve(row) == name]
        measured = {}
        for tokens, amount in points:  # measured in several runs of the benchmark: the mean
            measured.setdefault(tokens, []).extend([] if amount is None else [amount])
        points = sorted((tokens, mean(amounts)) for tokens, amounts in measured.items() if amounts)
        if points:
            axes.plot(*zip(*points, strict=True), marker="o", label=name)
    axes.set(xscale="log", yscale="log", xlabel="tokens in a document", ylabel=label)
    lengths = sorted({row["setting"]["tokens"] for row in rows})
    axes.set_xticks(lengths, [str(length) for length in lengths])
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def curve(row: dict) -> str:
    """Label of the curve that a row is a point of: the system, and its workload as far as it is not the usual one."""
    usual, setting = Setting("", 0, 0), row["setting"]
    parts = {
        "sentence": f"sentences of {setting['sentence']}",
        "vocabulary": f"{setting['vocabulary']} words",
        "dropout": f"dropout {setting['dropout']}",
    }
    return ", ".join([row["name"], *(text for key, text in parts.items() if setting[key] != getattr(usual, key))])


def value(row: dict, quantity: str) -> float | None:
    """``milliseconds`` or ``kilobytes`` a token; None where the system failed."""
    if "seconds" not in row:
        return None
    if quantity == "milliseconds":
        return 1000.0 / row["tokens_per_second"]
    return row["peak_bytes"] / row["tokens"] / 1000.0
