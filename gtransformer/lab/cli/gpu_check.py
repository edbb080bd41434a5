"""Run all GPU checks: the tests that need a GPU, the benchmark, and a short training in each precision.

``pack FOLDER`` collects the wheels for a machine without network that has Python and PyTorch.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from gtransformer.errors import UserError, cli_main
from gtransformer.evaluation.provenance import current_commit, device_name, provenance
from gtransformer.files import read_json, write_json

ROOT = Path(__file__).resolve().parents[3]
RECORD = "gpu_check.json"
PACKED = "pack.json"  # in a folder of wheels; empty until it has all
PRECISIONS = {"float32": [], "amp": ["train.amp=true"], "fp16": ["train.fp16=true"]}
SPEED = ("num_updates", "loss", "wps", "ups", "gb_free", "loss_scale")
CLOSE = 0.05  # largest relative difference of the last loss in half precision from float32's
TESTS_NEED = ("pytest", "pytest-timeout")
# Packages that the machine has with PyTorch.
THERE = ("torch", "torchaudio", "triton", "numpy", "setuptools", "wheel", "pip", "cython", "sympy", "networkx",
         "fsspec", "filelock", "jinja2", "markupsafe", "mpmath", "typing-extensions")  # fmt: skip
PLATFORMS = [f"manylinux{kind}_x86_64" for kind in ("_2_28", "_2_27", "_2_17", "2014", "1")]


def make_parts(work: Path, prepared: Path | None, rehearse: bool) -> dict[str, tuple[int, list[list[str]]]]:
    """Return the parts by name: time limit in seconds, and commands; ``rehearse``: at miniature size."""
    corpus, data = work / "corpus", prepared or work / "prepared"
    benchmark = python("lab.cli.benchmark", "--output", work, "--systems", "fairseq,packed", "--context", "2")
    benchmark += ["--arch", "gtransformer_mini", "--vocabularies", "60", "--sentences", "12"] if rehearse else []
    benchmark += ["--precisions", "float32" if rehearse else "bfloat16"]
    lengths, decoded, documents = ("24", "24", "2") if rehearse else ("512,2048,8192", "512", "1,64")
    found = sorted((ROOT / "tests").rglob("test_*.py"))
    marked = [str(path) for path in found if "mark.gpu" in path.read_text(encoding="utf-8")]
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib"]
    training = {
        name: [
            python(
                "cli.run", "demo", corpus, "train", "--prepared", data, "--output", work / name,
                *(word for change in (
                    *changes, "train.log-format=json", f"train.max-update={5 if rehearse else 300}",
                    f"train.log-interval={1 if rehearse else 50}",
                    *([] if rehearse else ["train.arch=gtransformer_base", "train.lr=5e-4"]),
                ) for word in ("--set", change)),
            )
        ]
        for name, changes in PRECISIONS.items() if not rehearse or name == "float32"
    }  # fmt: skip
    return {
        "tests": (400, [[*tests, "-m", "gpu", *marked]]),
        "benchmark": (300, [
            [*benchmark, "--name", "train", "--what", "train", "--lengths", lengths, "--runs", "3",
             "--batch-tokens", "48" if rehearse else "16384"],
            [*benchmark, "--name", "decode", "--what", "decode", "--lengths", decoded, "--documents", documents,
             "--runs", "1"],
        ]),
        "prepare": (100, [] if prepared else [
            python("lab.cli.demo_corpus", "--output", corpus, "--documents", 30 if rehearse else 500),
            python("cli.prepare", corpus, data, "--bpe-merges", "4000"),
        ]),
        **{f"train_{name}": (150, commands) for name, commands in training.items()},
    }  # fmt: skip


def python(module: str, *arguments: object) -> list[str]:
    """Return the command line of a module of this package."""
    return [sys.executable, "-m", f"gtransformer.{module}", *map(str, arguments)]


def figures(part: str, work: Path, output: str, records: dict[str, dict]) -> dict:
    """Return the numbers of a part from its output. Raises UserError if the loss in half precision differs."""
    if part == "tests":
        counts = re.findall(r"(\d+) (passed|failed|skipped|deselected|error)", output)
        return {kind: int(number) for number, kind in counts}
    if part == "benchmark":
        keys = ("name", "method", "documents", "seconds", "tokens_per_second", "peak_bytes", "ratios", "failed")
        rows = [row for name in ("train", "decode") for row in read_json(work / f"{name}.json")["rows"]]
        return {
            "rows": [
                {"tokens": row["setting"]["tokens"], **{key: row[key] for key in keys if key in row}} for row in rows
            ]
        }
    if not part.startswith("train"):
        return {}
    logged = [json.loads(line) for line in re.findall(r"\| train_inner \| (\{.*\})", output)]
    if not logged:
        raise UserError("no update is in the log")
    found = {key: float(logged[-1][key]) for key in SPEED if key in logged[-1]}
    found["first loss"] = float(logged[0]["loss"])
    exact = records.get("train_float32", {}).get("figures", {}).get("loss")
    if exact is not None and not abs(found["loss"] - exact) <= CLOSE * exact:  # also a loss that is not a number
        raise UserError(f"loss {found['loss']} after {found['num_updates']:.0f} updates, in float32 {exact}")
    return found


def run_part(part: str, limit: int, commands: list[list[str]], work: Path, records: dict[str, dict]) -> dict:
    """Run the commands of a part until one fails, within ``limit`` seconds in all; return its record."""
    began, error, output = time.monotonic(), None, ""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    for command in commands:
        left = max(1.0, limit - (time.monotonic() - began))
        done = subprocess.run(  # timeout also ends child processes
            ["timeout", "--kill-after=5", f"{left:.0f}", *command], env=os.environ | {"PYTHONPATH": path}, cwd=ROOT,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
        output += done.stdout
        if done.returncode:
            lines = [line for line in done.stdout.splitlines() if line.strip()] or [f"status {done.returncode}"]
            said = next((line for line in reversed(lines) if "error" in line.lower()), lines[-1])
            error = f"more than {limit} s" if done.returncode == 124 else said[:1000]
            break
    (work / f"{part}.log").write_text(output, encoding="utf-8")
    try:
        found = figures(part, work, output, records)
    except (UserError, LookupError, ValueError) as problem:  # incomplete output, or out of bounds
        found, error = {}, error or str(problem)
    return {"error": error, "seconds": round(time.monotonic() - began, 1), "figures": found,
            "output_tail": output[-4000:] if error else ""}  # fmt: skip


def check(options: argparse.Namespace, argv: list[str]) -> int:
    """Run the unfinished parts; return 1 if one fails."""
    import torch

    from gtransformer.lab.benchmark.measure import machine

    if not options.rehearse and not torch.cuda.is_available():
        raise UserError("no GPU that PyTorch can use; --rehearse shows on the processor that the parts run")
    if options.prepared and not (options.prepared / "manifest.json").is_file():
        raise UserError(f"{options.prepared}: no prepared corpus; give a directory of gtransformer prepare")
    work = options.output.resolve() / "work"
    path, prepared = options.output / RECORD, options.prepared and options.prepared.resolve()
    before = read_json(path) if path.is_file() else {}
    about = {"rehearsal": options.rehearse, "device": device_name(), "machine": machine(), "prepared": str(prepared)}
    about |= provenance("lab gpu-check", argv)
    same = all(before.get(key) == about[key] for key in ("rehearsal", "device", "commit", "prepared"))
    records = before.get("parts", {}) if same else {}
    if before and not same:
        shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True, exist_ok=True)
    if torch.cuda.is_available():
        card = torch.cuda.get_device_properties(0)
        about["gpu"] = {"name": card.name, "bytes": card.total_memory, "cuda": torch.version.cuda}
    parts = make_parts(work, prepared, options.rehearse)
    for name, (limit, commands) in parts.items():
        if records.get(name, {"error": "not run"})["error"] is None:
            print(f"{name}: done before", flush=True)
            continue
        limit *= 4 if options.rehearse else 1
        print(f"{name}: at most {limit} s", flush=True)
        records[name] = run_part(name, limit, commands, work, records)
        write_json(path, {**about, "parts": records})
        print(f"{name}: {records[name]['error'] or 'done'}", flush=True)
    return int(any(records[name]["error"] for name in parts))


def closure(roots: Iterable[str], there: Iterable[str]) -> dict[str, str]:
    """Return versions of requirements and their dependencies by name, as installed here, without ``there``."""
    found, left, known = {}, list(roots), {_plain(name) for name in there}
    while left:
        name = _plain(re.match(r"[\w.-]+", left.pop())[0])
        if name in found or name in known or name.startswith("nvidia"):
            continue
        try:
            package = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # for other systems, or for an extra
        found[name] = package.version
        left += [one for one in package.requires or [] if "extra ==" not in one]
    return found


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pack(folder: Path, version: str) -> None:
    """Fill ``folder/wheels`` for Linux on x86-64; pure Python source distributions are built."""
    wheels, record, needed = folder / "wheels", folder / PACKED, ROOT / "requirements" / "runtime.txt"
    if not needed.is_file():
        raise UserError(f"{needed}: no such file; pack needs a checkout of the repository")
    if folder.exists() and not record.is_file() and any(folder.iterdir()):
        raise UserError(f"{folder}: has other files; give a new folder, or one that pack has filled")
    write_json(record, {})  # whose folder it is, if this is interrupted
    shutil.rmtree(wheels, ignore_errors=True)
    wheels.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    target = ["--python-version", version, *(word for name in PLATFORMS for word in ("--platform", name))]
    lines = needed.read_text(encoding="utf-8").splitlines()
    runtime = [line for line in lines if line[:1].isalpha()]
    for name, number in closure([*runtime, *TESTS_NEED], THERE).items():
        wanted = f"{name}=={number}"
        command = [*pip, "download", "-q", "--no-deps", "--only-binary=:all:", *target, "-d", str(wheels), wanted]
        if subprocess.run(command, capture_output=True).returncode == 0:
            continue
        built = subprocess.run([*pip, "wheel", "-q", "--no-deps", "-w", str(wheels), wanted], capture_output=True)
        if built.returncode or not list(wheels.glob(f"{name.replace('-', '_')}-*-none-any.whl")):
            raise UserError(f"{wanted}: no wheel for Python {version} on Linux x86-64 (is there network?)")
    write_json(record, {"commit": current_commit(), "python": version})
    print(f"{folder}: {len(list(wheels.iterdir()))} wheels")


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = argparse.ArgumentParser(prog="gtransformer lab gpu-check", description=" ".join(__doc__.split()))
    parser.add_argument("pack", nargs="*", metavar="pack FOLDER", help="collect wheels instead of running the check")
    parser.add_argument(
        "--output", type=Path, default=Path("runs/gpu_check"), help="directory of the record (%(default)s)"
    )
    parser.add_argument("--prepared", type=Path, help="a prepared corpus to train on (default: the demonstration's)")
    parser.add_argument("--rehearse", action="store_true", help="at miniature size, also without a GPU")
    parser.add_argument("--python", default="3.12", help="pack: Python of the machine (%(default)s)")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> int:
    """Check, or pack."""
    given = sys.argv[1:] if argv is None else argv
    parser = build_parser()
    options = parser.parse_args(given)
    other = ("output", "prepared", "rehearse") if options.pack else ("python",)
    for name in other:
        if getattr(options, name) != parser.get_default(name):
            raise UserError(f"--{name}: not {'with' if options.pack else 'without'} pack; leave it out")
    if options.pack:
        if len(options.pack) != 2 or options.pack[0] != "pack":
            raise UserError(f"{' '.join(options.pack)}: write pack FOLDER, or only options")
        return pack(Path(options.pack[1]), options.python)
    return check(options, given)


if __name__ == "__main__":
    raise SystemExit(main())
