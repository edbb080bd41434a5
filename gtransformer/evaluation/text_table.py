"""Tables of plain text."""

from __future__ import annotations

from collections.abc import Sequence


def align(rows: Sequence[Sequence[str]], right: range | None = None) -> str:
    """Rows of cells as lines with columns two spaces apart.

    Args:
        right: columns that are aligned to the right; None: all but the first.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = range(1, len(widths)) if right is None else right
    lines = []
    for row in rows:
        cells = [c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
