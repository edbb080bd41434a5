"""The benchmark as a table and two pictures."""

from __future__ import annotations

from pathlib import Path


def table(rows: list[dict], reference: str) -> str:
    """Rows of one document length and method, with the ratio of every system to ``reference`` (its name)."""
    heads = f"{'tokens':>6} {'system':<28} {'s/run':>8} {'tokens/s':>9} {'kB/token':>9} {'packed is faster':>17} runs"
    lines = [heads]
    for row in rows:
        tokens = row["setting"]["tokens"]
        if "seconds" not in row:
            lines.append(f"{tokens:>6} {row['name']:<28} {row.get('failed', 'not run')}")
            continue
        ratio = f"{row['ratio']:.2f} x" if "ratio" in row else reference
        lines.append(
            f"{tokens:>6} {row['name']:<28} {row['seconds']:>8.2f} {row['tokens_per_second']:>9.1f} "
            f"{row['peak_bytes_per_token'] / 1000:>9.1f} {ratio:>17} {len(row['runs'])}"
        )
    return "\n".join(lines)


def add_ratios(rows: list[dict], reference: str) -> None:
    """How many times as long as ``reference`` each other system takes for a token, at the same document length."""
    for row in rows:
        for other in rows:
            same = other["setting"]["tokens"] == row["setting"]["tokens"] and other["name"] == reference
            if same and "seconds" in row and "seconds" in other and other is not row:
                row["ratio"] = round(other["tokens_per_second"] / row["tokens_per_second"], 3)


def plot(rows: list[dict], quantity: str, label: str, path: Path) -> None:
    """One curve a system over document length, both axes logarithmic; ``quantity`` maps a row to a number."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    for name in dict.fromkeys(row["name"] for row in rows):
        points = [(row["setting"]["tokens"], value(row, quantity)) for row in rows if row["name"] == name]
        points = sorted(point for point in points if point[1] is not None)
        if points:
            axes.plot(*zip(*points, strict=True), marker="o", label=name)
    axes.set(xscale="log", yscale="log", xlabel="tokens in a document", ylabel=label)
    lengths = sorted({row["setting"]["tokens"] for row in rows})
    axes.set_xticks(lengths, [str(length) for length in lengths])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def value(row: dict, quantity: str) -> float | None:
    """``milliseconds`` or ``kilobytes`` a token; None where the system failed."""
    if "seconds" not in row:
        return None
    if quantity == "milliseconds":
        return 1000.0 / row["tokens_per_second"]
    return row["peak_bytes_per_token"] / 1000.0
