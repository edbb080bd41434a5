"""What Linux says of the processor."""

from __future__ import annotations

from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")


def processor_fields(cpuinfo: Path = CPUINFO) -> dict[str, str]:
    """Of the first processor, by name: ``model name``, ``vendor_id``, ``flags``; empty where there is no such file."""
    try:
        first = cpuinfo.read_text(encoding="utf-8", errors="replace").split("\n\n")[0]
    except OSError:
        return {}
    fields = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in fields}
