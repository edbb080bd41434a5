"""``python -m gtransformer.lab.benchmark.gpu.measure WHAT FOLDER``: one measurement, written to FOLDER/WHAT.json."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gtransformer.errors import UserError, cli_main
from gtransformer.files import write_json
from gtransformer.lab.benchmark import syncs
from gtransformer.lab.benchmark.gpu import kernels, precision


def varlen(folder: Path, device: str, small: bool) -> list[dict]:
    """See ``kernels``."""
    return kernels.compare(device, small)


def waits(folder: Path, device: str, small: bool) -> list[dict]:
    """See ``syncs``; in half precision on a GPU."""
    return [syncs.count(one) for one in syncs.settings(device, small, "bfloat16" if device == "cuda" else "float32")]


def amp(folder: Path, device: str, small: bool) -> dict:
    """See ``precision``."""
    return precision.compare(folder / "amp", device, small, folder / "amp.json")


WHAT = {"varlen": varlen, "waits": waits, "amp": amp}


@cli_main
def main(argv: list[str] | None = None) -> int:
    """Measure, write the result, and fail where something is not within its bounds."""
    parser = argparse.ArgumentParser(prog="python -m gtransformer.lab.benchmark.gpu.measure", description=__doc__)
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args(argv)
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / f"{options.what}.json"
    path.unlink(missing_ok=True)  # of an earlier time: who is ended on the way has not measured that
    found = WHAT[options.what](options.folder, options.device, options.small)
    write_json(path, found)
    rows = list(found.values()) if isinstance(found, dict) else found
    wrong = [row for row in rows if not row.get("within", True)]
    if wrong:
        raise UserError(f"{len(wrong)} of {len(rows)} are not within their bounds; see {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
