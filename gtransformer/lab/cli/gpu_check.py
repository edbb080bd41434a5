"""Run all GPU checks: the tests that need a GPU, the benchmark, and a short training in each precision."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from gtransformer.errors import UserError, cli_main
from gtransformer.files import read_json, write_json
from gtransformer.provenance import device_name, provenance

ROOT = Path(__file__).resolve().parents[3]
PRECISIONS = {"float32": [], "amp": ["train.amp=true"], "fp16": ["train.fp16=true"]}
SPEED = ("num_updates", "loss", "wps", "ups", "gb_free", "loss_scale")
BENCHMARK = ("name", "method", "documents", "seconds", "tokens_per_second", "peak_bytes", "ratios", "failed")


def python(module: str, *arguments: object) -> list[str]:
    """Return the command line of a module of this package."""
    return [sys.executable, "-m", f"gtransformer.{module}", *map(str, arguments)]


def make_parts(work: Path, rehearse: bool) -> dict[str, tuple[int, list[list[str]]]]:
    """Return the parts by name: time limit in seconds, and commands; ``rehearse``: at miniature size, on a CPU."""
    found = sorted((ROOT / "tests").rglob("test_*.py"))
    marked = [str(path) for path in found if "mark.gpu" in path.read_text(encoding="utf-8")]
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib"]
    benchmark = python("lab.cli.benchmark", "--output", work, "--systems", "fairseq,packed", "--context", "2")
    lengths, decoded, documents, tokens = "512,2048,8192", "512", "1,64", "16384"
    if rehearse:
        benchmark += ["--arch", "gtransformer_mini", "--vocabularies", "60", "--sentences", "12"]
        lengths, decoded, documents, tokens = "24", "24", "2", "48"
    benchmark += ["--precisions", "float32" if rehearse else "bfloat16"]
    train = ["--name", "train", "--what", "train", "--lengths", lengths, "--runs", "3", "--batch-tokens", tokens]
    decode = ["--name", "decode", "--what", "decode", "--lengths", decoded, "--documents", documents, "--runs", "1"]
    corpus, data = work / "corpus", work / "prepared"
    size = ["train.max-update=5", "train.log-interval=1"]
    if not rehearse:
        size = ["train.max-update=300", "train.log-interval=50", "train.arch=gtransformer_base", "train.lr=5e-4"]
    parts = {
        "tests": (400, [[*tests, "-m", "gpu", *marked]]),
        "benchmark": (300, [[*benchmark, *train], [*benchmark, *decode]]),
        "prepare": (100, [
            python("lab.cli.demo_corpus", "--output", corpus, "--documents", 30 if rehearse else 500),
            python("cli.prepare", corpus, data, "--vocabulary-size", "2000"),
        ]),
    }  # fmt: skip
    for name, changes in PRECISIONS.items():
        if name == "float32" or not rehearse:
            sets = [word for one in (*changes, "train.log-format=json", *size) for word in ("--set", one)]
            line = python("cli.run", "demo", corpus, "train", "--prepared", data, "--output", work / name, *sets)
            parts[f"train_{name}"] = 150, [line]
    return parts


def figures(part: str, work: Path, output: str) -> dict:
    """Return the numbers of a part from its output."""
    if part == "tests":
        return {kind: int(number) for number, kind in re.findall(r"(\d+) (passed|failed|skipped|error)", output)}
    if part == "benchmark":
        rows = [row for name in ("train", "decode") for row in read_json(work / f"{name}.json")["rows"]]
        kept = [{key: row[key] for key in BENCHMARK if key in row} for row in rows]
        return {"rows": [{"tokens": row["setting"]["tokens"], **one} for row, one in zip(rows, kept, strict=True)]}
    logged = [json.loads(line) for line in re.findall(r"\| train_inner \| (\{.*\})", output)]
    return {key: float(logged[-1][key]) for key in SPEED if key in logged[-1]} if logged else {}


def run_part(part: str, limit: int, commands: list[list[str]], work: Path) -> dict:
    """Run the commands of a part until one fails, within ``limit`` seconds in all; return its record."""
    began, failed, output = time.monotonic(), False, ""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    for command in commands:
        left = max(1.0, limit - (time.monotonic() - began))
        done = subprocess.run(  # timeout also ends child processes
            ["timeout", "--kill-after=5", f"{left:.0f}", *command], env=environment, cwd=ROOT,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
        output += done.stdout
        failed = failed or done.returncode != 0
        if failed:
            break
    (work / f"{part}.log").write_text(output, encoding="utf-8")
    record = {"failed": failed, "seconds": round(time.monotonic() - began, 1)}
    return record | ({"output_tail": output[-4000:]} if failed else {"figures": figures(part, work, output)})


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = argparse.ArgumentParser(prog="gtransformer lab gpu-check", description=__doc__)
    parser.add_argument(
        "--output", type=Path, default=Path("runs/gpu_check"), help="directory of gpu_check.json (%(default)s)"
    )
    parser.add_argument("--rehearse", action="store_true", help="at miniature size, also without a GPU")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> int:
    """Run all parts, each record written as it comes; return 1 if one fails."""
    options = build_parser().parse_args(argv)

    import torch

    from gtransformer.lab.benchmark.measure import machine

    if not options.rehearse and not torch.cuda.is_available():
        raise UserError("no GPU that PyTorch can use; --rehearse shows on the processor that the parts run")
    work = options.output.resolve() / "work"
    work.mkdir(parents=True, exist_ok=True)
    about = {"rehearsal": options.rehearse, "device": device_name(), "machine": machine()}
    about |= provenance("lab gpu-check", argv)
    records = {}
    for name, (limit, commands) in make_parts(work, options.rehearse).items():
        print(f"{name}: at most {limit} s", flush=True)
        records[name] = run_part(name, limit * (4 if options.rehearse else 1), commands, work)
        write_json(options.output / "gpu_check.json", {**about, "parts": records})
        print(f"{name}: {'failed' if records[name]['failed'] else 'done'}", flush=True)
    return int(any(record["failed"] for record in records.values()))


if __name__ == "__main__":
    raise SystemExit(main())
