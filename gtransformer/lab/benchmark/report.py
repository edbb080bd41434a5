"""Tables of the benchmark: time and memory per token, and their ratios between systems."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from gtransformer.evaluation.text_table import align
from gtransformer.lab.benchmark.names import BATCHED, DOC_TRANSFORMER, DOCUMENT_TRANSFORMER, PSEUDO
from gtransformer.lab.benchmark.systems import Setting

# Keys of a row that are compared over lengths, and the names of their ratios.
BY_LENGTH = {"seconds": "time", "cpu_seconds": "cpu", "kept_bytes": "kept", "peak_bytes": "peak"}


def add_ratios(rows: list[dict]) -> None:
    """Add the ratios of each system's time and memory per token to those of others with the same workload.

    A row's ``ratios``, ``cpu_ratios`` (processor seconds) and ``memory_ratios`` map the name of a packed system to a
    number. document_transformer is compared with the sentence Transformer, and systems that read a document's
    consecutive sentences with the pseudo-document and the sentence Transformer. Documents, vocabulary, dropout and
    precision are the same.
    """
    timed = [row for row in rows if "seconds" in row]
    for row in timed:
        row["ratios"], row["cpu_ratios"], row["memory_ratios"] = {}, {}, {}
        for other in timed:
            if other is row or other["setting"]["system"] not in _compared_with(row) or _work(other) != _work(row):
                continue
            cpu, their_cpu = (one["cpu_seconds"] / one["tokens"] for one in (row, other))
            row["ratios"][other["name"]] = round(other["tokens_per_second"] / row["tokens_per_second"], 3)
            row["cpu_ratios"][other["name"]] = round(cpu / max(their_cpu, 1e-9), 3)
            row["memory_ratios"][other["name"]] = round(row["peak_bytes"] / max(1, other["peak_bytes"]), 3)


def _compared_with(row: dict) -> tuple[str, ...]:
    system = row["setting"]["system"]
    if system in BATCHED:
        return PSEUDO, DOC_TRANSFORMER
    return (DOC_TRANSFORMER if system == DOCUMENT_TRANSFORMER else "packed",)


def _work(row: dict) -> str:
    return Setting(**row["setting"]).workload


def table(rows: list[dict]) -> str:
    """Format rows of one method by workload; the last columns are the speed-ups of the compared systems."""
    wanted = {name for row in rows for name in _compared_with(row)}
    others = list(dict.fromkeys(row["name"] for row in rows if row["setting"]["system"] in wanted))
    head, blocks = ["system", "tokens", "s/run", "tokens/s", "kB/token", "runs", *(f"/ {name}" for name in others)], []
    for workload, group in groupby(rows, _work):
        lines = [[*head, ""]]
        for row in group:
            cells, failed = ["" for _ in head[2:]], row.get("failed", "")
            if "seconds" in row:
                kilobytes = f"{row['peak_bytes_per_token'] / 1000:.1f}"
                cells = [f"{row['seconds']:.2f}", f"{row['tokens_per_second']:.1f}", kilobytes, str(len(row["runs"]))]
                cells += [f"{row['ratios'][name]:.2f} x" if name in row["ratios"] else "" for name in others]
            else:
                failed = failed or "not timed"
            lines.append([row["name"], str(row["setting"]["tokens"]), *cells, failed])
        blocks.append(f"{workload}\n{align(lines)}")
    return "\n".join(blocks)


def by_length(rows: list[dict]) -> list[dict]:
    """Group training rows that differ only in the length of documents (and batches).

    Returns:
        one dictionary per system: ``name``, ``system``, ``window`` (None for a system without windows) and ``lengths``,
        shortest first. Each has ``tokens`` of a document, ``documents`` of a batch, the keys of BY_LENGTH (``seconds``
        and ``cpu_seconds`` of a step, ``kept_bytes``, ``peak_bytes``) and ``ratios``: the cost per token relative to
        the shortest length. Failed rows are left out, and seconds without counted runs.
    """
    alike: dict[Setting, list[dict]] = {}
    for row in rows:
        if row["method"] == "train_step" and "kept_bytes" in row:
            alike.setdefault(replace(Setting(**row["setting"]), tokens=0, batch_tokens=0), []).append(row)
    found = []
    for setting, group in alike.items():
        first, *_ = group = sorted(group, key=lambda row: row["setting"]["tokens"])
        lengths = []
        for row in group:
            there = [key for key in BY_LENGTH if key in row]
            size = row["tokens"] / first["tokens"]  # of the batches
            shared = [key for key in there if key in first]
            ratios = {BY_LENGTH[key]: round(row[key] / max(first[key], 1e-9) / size, 3) for key in shared}
            numbers = {"tokens": row["setting"]["tokens"], "documents": Setting(**row["setting"]).documents}
            lengths.append(numbers | {key: row[key] for key in there} | {"ratios": ratios})
        window = setting.window if setting.has_windows else None
        found.append({"name": setting.name, "system": setting.system, "window": window, "lengths": lengths})
    return found


def length_table(systems: list[dict]) -> str:
    """Format the result of ``by_length``, a line per length; ratios are costs per token relative to the shortest."""
    rows = [["training by length", "documents", "s", "CPU s", "MiB kept", "MiB peak", *BY_LENGTH.values()]]
    for system in systems:
        for one in system["lengths"]:
            row = [system["name"], f"{one['documents']} x {one['tokens']}"]
            row += [f"{one[key]:.2f}" if key in one else "" for key in ("seconds", "cpu_seconds")]
            row += [f"{one[key] / 2**20:.0f}" for key in ("kept_bytes", "peak_bytes")]
            ratios = (one["ratios"].get(name) for name in BY_LENGTH.values())
            rows.append([*row, *("" if ratio is None else f"{ratio:.2f}" for ratio in ratios)])
    return align(rows)
