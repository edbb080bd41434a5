"""All that has to be seen on a GPU, in parts, each recorded by itself; or what such a machine lacks, in a folder."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import torch

from gtransformer.errors import UserError, cli_main
from gtransformer.evaluation.provenance import current_commit, device_name, provenance
from gtransformer.files import read_json
from gtransformer.lab.benchmark.gpu.pack import pack, read_names
from gtransformer.lab.benchmark.gpu.parts import PARTS, Check
from gtransformer.lab.benchmark.gpu.run import choose, read_records, run_parts, state_of
from gtransformer.lab.benchmark.machine import machine
from gtransformer.lab.benchmark.worker import worker_threads

PACK = "pack"


def build_parser() -> argparse.ArgumentParser:
    """The options of a check."""
    names = ", ".join(f"{part.name} ({part.seconds} s)" for part in PARTS)
    parser = argparse.ArgumentParser(
        prog="scripts/gpu_check.sh",
        description=__doc__,
        epilog=f"parts, and for how long at most: {names}. scripts/gpu_check.sh pack --help: the folder.",
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="which (default: all)")
    parser.add_argument("--output", type=Path, default=Path("runs/gpu_check"), help="where records go (%(default)s)")
    parser.add_argument("--work", type=Path, help="where data, models and logs go (OUTPUT/work)")
    parser.add_argument("--corpus", type=Path, help="a folder in the raw corpus format, for what is trained")
    parser.add_argument("--prepared", type=Path, help="the same prepared, a folder or the .tar.xz of pack")
    parser.add_argument("--list", action="store_true", help="say the parts and their state, and run nothing")
    parser.add_argument("--seconds", type=float, help="begin no part that may take longer than what is left of so many")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="cpu: a rehearsal (%(default)s)")
    parser.add_argument("--small", action="store_true", help="a rehearsal at miniature size, on a corpus that is made")
    return parser


def build_packer() -> argparse.ArgumentParser:
    """The options of ``pack``."""
    parser = argparse.ArgumentParser(
        prog=f"scripts/gpu_check.sh {PACK}",
        description="Fill a folder with what a machine with its own Python and PyTorch and without network lacks, "
        "below 64 MiB: wheels for Linux on x86-64, and a corpus.",
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--corpus", type=Path, help="a folder in the raw corpus format, compressed by xz")
    parser.add_argument("--prepared", type=Path, help="a prepared corpus, so that the machine need not prepare it")
    parser.add_argument("--there", type=Path, metavar="FILE", help="what pip list wrote there: it is left out")
    parser.add_argument("--python", default="3.12", help="its Python (%(default)s)")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> int:
    """Run, list or pack; status 1 where a part is not done."""
    given = sys.argv[1:] if argv is None else argv
    if given[:1] == [PACK]:
        options = build_packer().parse_args(given[1:])
        there = read_names(options.there) if options.there else []
        corpora = options.corpus, options.prepared
        about = pack(options.folder, there, options.python, current_commit(), *corpora)
        print(f"{options.folder}: {len(about['packages'])} wheels, {about['bytes'] / 2**20:.0f} MiB in all")
        return 0
    options = build_parser().parse_args(given)
    work = (options.work or options.output / "work").resolve()
    given_data = [path and path.resolve() for path in (options.corpus, options.prepared)]
    for path in filter(None, given_data):
        if not path.exists():
            raise UserError(f"{path}: no such corpus")
    check = Check(work, options.device, options.small, *given_data)
    parts = choose(options.parts)
    if options.list:
        records = read_records(options.output)
        for part in parts:
            record = records.get(part.name)
            state = state_of(record, check)
            error = f": {record['error']}" if state not in ("not run", "done") and record["error"] else ""
            print(f"{part.name:<28} {check.limit(part):>5} s  {state}{error}")
        return 0
    if options.device == "cuda" and not torch.cuda.is_available():
        raise UserError("no GPU that PyTorch can use; for a rehearsal on the processor give --device cpu --small")
    options.output.mkdir(parents=True, exist_ok=True)
    left = run_parts(parts, check, options.output, _about(given, options), options.seconds)
    print(f"records: {options.output}" + (f"; not done: {', '.join(left)}" if left else ""))
    return bool(left)


def _about(given: list[str], options: argparse.Namespace) -> dict:
    """What stands in every record: command, commit, versions, machine."""
    about = provenance("gtransformer.lab.cli.gpu_check", given)
    for path in filter(None, (options.corpus, options.prepared)):
        if (
            about["commit"] is None and (path.parent / "pack.json").is_file()
        ):  # a copy without git, which the pack knows
            about["commit"] = read_json(path.parent / "pack.json")["commit"]
    about["device"] = device_name() if options.device == "cuda" else "CPU"
    about["machine"] = machine(worker_threads())
    if options.device == "cuda":
        about["gpu"] = _gpu()
    return about


def _gpu() -> dict:
    """The card as PyTorch and the driver say it."""
    card = torch.cuda.get_device_properties(0)
    try:
        asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        driver = subprocess.run(asked, capture_output=True, text=True, timeout=30).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        driver = ""
    return {
        "name": card.name,
        "bytes": card.total_memory,
        "capability": f"{card.major}.{card.minor}",
        "cuda": torch.version.cuda,
        "driver": driver or None,
    }


if __name__ == "__main__":
    sys.exit(main())
