"""What a token costs in training as documents grow: time and memory of each system over the length of documents."""

from __future__ import annotations

from dataclasses import replace

from gtransformer.lab.benchmark.systems import Setting

# What is compared, of a row, and the name of its ratio.
RATIOS = {"seconds": "time", "cpu_seconds": "cpu", "kept_bytes": "kept", "peak_bytes": "peak"}


def by_length(rows: list[dict]) -> list[dict]:
    """Training rows that differ in nothing but the length of documents (and of batches), put together.

    Returns:
        one dictionary a system: ``name``, ``system``, ``window`` (w, None of a system without windows) and ``lengths``,
        shortest first, each with ``tokens`` of a document, ``documents`` of a batch, ``seconds`` and ``cpu_seconds`` of
        a step, ``kept_bytes`` (activations: what the forward pass keeps for the backward one, parameters left out),
        ``peak_bytes`` (the most there was: on a GPU what PyTorch allocated, else of the process since before the model
        was built; parameters, their gradients and the optimizer's state included), and ``ratios``: how many times what
        a token costs at the shortest length it costs here, by ``time``, ``cpu``, ``kept`` and ``peak``. A row that
        failed is left out, seconds where none were counted.
    """
    groups: dict[Setting, list[dict]] = {}
    for row in rows:
        if row["method"] == "train_step" and "kept_bytes" in row:
            alike = replace(Setting(**row["setting"]), tokens=0, batch_tokens=0)
            groups.setdefault(alike, []).append(row)
    return [
        {
            "name": setting.name,
            "system": setting.system,
            "window": setting.window if setting.has_windows else None,
            "lengths": _lengths(sorted(found, key=lambda row: row["setting"]["tokens"])),
        }
        for setting, found in groups.items()
    ]


def _lengths(rows: list[dict]) -> list[dict]:
    first, lengths = rows[0], []
    for row in rows:
        entry = {"tokens": row["setting"]["tokens"], "documents": Setting(**row["setting"]).documents}
        entry |= {quantity: row[quantity] for quantity in RATIOS if quantity in row}
        size = row["tokens"] / first["tokens"]  # of the batches
        entry["ratios"] = {
            name: round(row[quantity] / max(first[quantity], 1e-9) / size, 3)
            for quantity, name in RATIOS.items()
            if quantity in row and quantity in first
        }
        lengths.append(entry)
    return lengths


def length_table(systems: list[dict]) -> str:
    """What ``by_length`` found, a line for each length; ratios are of costs a token, to those of the shortest."""
    lines = [
        f"{'training by length':<32} {'documents':>12} {'s':>8} {'CPU s':>8} {'MiB kept':>9} {'MiB peak':>9} "
        + " ".join(f"{name:>6}" for name in RATIOS.values())
        + "  (ratios a token)"
    ]
    for system in systems:
        for one in system["lengths"]:
            kept, peak = (f"{one[quantity] / 2**20:>9.0f}" for quantity in ("kept_bytes", "peak_bytes"))
            lines.append(
                f"{system['name']:<32} {one['documents']:>4} x {one['tokens']:>5} {_two(one.get('seconds')):>8} "
                f"{_two(one.get('cpu_seconds')):>8} {kept} {peak} "
                + " ".join(f"{_two(one['ratios'].get(name)):>6}" for name in RATIOS.values())
            )
    return "\n".join(lines)


def _two(number: float | None) -> str:
    return "" if number is None else f"{number:.2f}"
