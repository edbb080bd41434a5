"""Measure training and decoding of systems in turn, by length of documents; fairseq's Transformer is one of them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import UserError, cli_main
from gtransformer.evaluation.provenance import device_name, provenance
from gtransformer.files import read_json, write_json
from gtransformer.lab.benchmark.flops import matrix_rate
from gtransformer.lab.benchmark.lengths import by_length, length_table
from gtransformer.lab.benchmark.machine import machine
from gtransformer.lab.benchmark.measure import alternate, say
from gtransformer.lab.benchmark.report import add_ratios, add_utilisation, plot, table
from gtransformer.lab.benchmark.systems import BATCHED, BESIDE, GTRANSFORMER, OTHERS, SYSTEMS, WINDOWS, Setting
from gtransformer.lab.benchmark.windows import WindowSetting, measure_windows, window_table
from gtransformer.lab.benchmark.worker import worker_threads
from gtransformer.models.common.architectures import SIZES

LENGTHS = (256, 512, 1024, 2048, 4096, 8192)
WINDOW_WORK = ((1, 16384), (32, 512))  # documents and their tokens, as many in all
WINDOW_SIZE = {"channels": 512, "heads": 8}


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = CommandParser(prog="scripts/benchmark.sh", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("exp_logs/benchmark"), help="directory (%(default)s)")
    parser.add_argument("--name", default="benchmark", help="name of the files in it (%(default)s)")
    parser.add_argument(
        "--draw", nargs="+", type=Path, metavar="JSON", help="measure nothing, draw the results of these files together"
    )
    parser.add_argument(
        "--what",
        default="train,decode",
        help="train, decode or both; or windows: blocks of window attention alone by length of documents (%(default)s)",
    )
    parser.add_argument("--arch", default="gtransformer_base", help="sizes (%(default)s)")
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)), help="tokens a document (%(default)s)")
    parser.add_argument("--sentences", default="30", help="tokens a sentence, <s> and </s> included (%(default)s)")
    parser.add_argument("--vocabularies", default="32000", help="entries of the dictionary (%(default)s)")
    parser.add_argument("--dropouts", default="0.3", help="dropout in training (%(default)s)")
    parser.add_argument("--systems", default="fairseq,dense,packed", help=f"of {', '.join(SYSTEMS)} (%(default)s)")
    parser.add_argument(
        "--context", default="0,2", help="top layers with combined attention, of G-Transformer (%(default)s)"
    )
    parser.add_argument("--windows", default="20", help=f"w, of {WINDOWS} (%(default)s)")
    parser.add_argument("--beside", default="2", help=f"previous source sentences, of {BESIDE} (%(default)s)")
    parser.add_argument("--local", default="3", help=f"previous sentences, of {', '.join(BATCHED)} (%(default)s)")
    parser.add_argument(
        "--uneven", action="store_true", help="source sentences are shorter and longer in turn, so that windows jump"
    )
    parser.add_argument("--precisions", default="float32", help="of float32, bfloat16, float16 (%(default)s)")
    parser.add_argument("--batch-tokens", type=int, default=8192, help="tokens a training batch (%(default)s)")
    parser.add_argument(
        "--documents",
        default="1,16",
        help="documents decoded at once; of systems with --local, consecutive sentences (%(default)s)",
    )
    parser.add_argument("--beam", type=int, default=5, help="(%(default)s)")
    parser.add_argument(
        "--runs",
        type=int,
        default=5,
        help="counted runs of each system; 0: one that is not timed, for memory (%(default)s)",
    )
    parser.add_argument("--checkpoint", action="store_true", help="recompute activations in dense and packed")
    parser.add_argument(
        "--fresh", action="store_true", help="one process at a time, a new one for each run: where memory is scarce"
    )
    parser.add_argument(
        "--together", action="store_true", help="take lengths, sentences, ... all in turn, not one after the other"
    )
    parser.add_argument("--seconds", type=float, default=600, help="longest time for one run (%(default)s)")
    parser.add_argument("--memory", type=float, default=0, help="GiB that a system may use (default: no limit)")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; results are written after every workload, so that an interrupted one keeps them."""
    options = build_parser().parse_args(argv)
    if options.draw:
        _draw(options, [row for path in options.draw for row in read_json(path)["rows"]])
        return 0
    systems = options.systems.split(",")
    unknown = set(systems) - set(SYSTEMS)
    if unknown:
        raise UserError(f"--systems: {', '.join(sorted(unknown))} unknown; choose of {', '.join(SYSTEMS)}")
    sizes = [f"gtransformer_{size}" for size in SIZES]
    if options.arch not in sizes and set(systems) & {*OTHERS, *BATCHED}:
        raise UserError(f"--arch {options.arch}: {OTHERS[0]} and others have the sizes of {', '.join(sizes)}")
    if not all(width.isdecimal() and int(width) for width in options.windows.split(",")):
        raise UserError(f"--windows {options.windows}: give widths of at least 1, as in 10,20")
    if not all(number.isdecimal() for number in options.beside.split(",")):
        raise UserError(f"--beside {options.beside}: give numbers of sentences, as in 1,2,3")
    if not all(number.isdecimal() for number in options.local.split(",")):
        raise UserError(f"--local {options.local}: give numbers of sentences, as in 1,3")
    single = [system for system in systems if system in (BESIDE, *BATCHED)]
    unlike = {*options.lengths.split(","), *options.sentences.split(",")}
    if single and len(unlike) > 1:
        raise UserError(
            f"{single[0]} translates single sentences: give --lengths and --sentences the same number, as in "
            "--lengths 30 --sentences 30"
        )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    memory = int(options.memory * 2**30) or None
    rates = {precision: matrix_rate(device, precision) for precision in options.precisions.split(",")}
    results: dict = {"device": device_name(), "machine": machine(worker_threads()), "matrix_rate": rates, "rows": []}
    say("".join(f"large matrix products in {name}: {rate / 1e9:.0f} GFLOP/s\n" for name, rate in rates.items()))
    results.update(provenance("gtransformer.lab.cli.benchmark", argv))
    if options.what == "windows":
        results["rows"] = _measure_windows(options.runs, device)
        print(window_table(results["rows"]))
        write_json(options.output / f"{options.name}.json", results)
        return 0
    workloads = _workloads(options, device)
    for settings in [sum(workloads, [])] if options.together else workloads:
        for rows in _measure(options, settings, memory):
            add_ratios(rows)
            add_utilisation(rows, rates)
            print(table(rows), flush=True)
            results["rows"].extend(rows)
            results["by_length"] = by_length(results["rows"])
            write_json(options.output / f"{options.name}.json", results)
    print(length_table(results["by_length"]), flush=True)
    if options.runs:
        _draw(options, results["rows"])
    return 0


def _draw(options: argparse.Namespace, rows: list[dict]) -> None:
    """Time and memory over document length, a picture each for training and for each number of decoded documents."""
    options.output.mkdir(parents=True, exist_ok=True)
    kinds = {(row["method"], row.get("documents")) for row in rows}
    for method, documents in sorted(kinds, key=str):
        chosen = [row for row in rows if (row["method"], row.get("documents")) == (method, documents)]
        stem = f"{options.name}_{method}{documents or ''}"
        plot(chosen, "milliseconds", "milliseconds a token", options.output / f"{stem}_time.png")
        plot(chosen, "kilobytes", "peak kilobytes a token", options.output / f"{stem}_memory.png")
    say(f"written to {options.output}")


def _workloads(options: argparse.Namespace, device: str) -> list[list[Setting]]:
    """What is run in turn, for every length of documents and sentences, vocabulary and dropout."""
    return [
        _settings(options, device, tokens=int(tokens), sentence=int(sentence), vocabulary=int(words), dropout=float(p))
        for words in options.vocabularies.split(",")
        for p in options.dropouts.split(",")
        for sentence in options.sentences.split(",")
        for tokens in options.lengths.split(",")
    ]


def _settings(options: argparse.Namespace, device: str, tokens: int, **work) -> list[Setting]:
    """What is run in turn at one workload."""
    settings = []
    for precision in options.precisions.split(","):
        for system in options.systems.split(","):
            for kind in _kinds(options, system):
                setting = Setting(
                    system,
                    tokens,
                    max(options.batch_tokens, tokens),
                    precision=precision,
                    arch=options.arch,
                    checkpoint=options.checkpoint and system != "fairseq",
                    device=device,
                    uneven=options.uneven,
                    **kind,
                    **work,
                )
                settings.append(setting)
    return settings


def _kinds(options: argparse.Namespace, system: str) -> list[dict[str, int]]:
    """What a system is measured with, one after the other, as keys of Setting."""
    if system in GTRANSFORMER:
        return [{"context": int(layers)} for layers in options.context.split(",")]
    if system == BESIDE:
        return [{"beside": int(sentences)} for sentences in options.beside.split(",")]
    if system in BATCHED:
        return [{"local": int(sentences)} for sentences in options.local.split(",")]
    return [{"window": int(width)} for width in options.windows.split(",")] if system == WINDOWS else [{}]


def _measure_windows(runs: int, device: str) -> list[dict]:
    """Short documents against a single one of as many tokens, without and with relative positions."""
    torch.set_num_threads(worker_threads())
    rows = []
    for relative in (False, True):
        settings = [WindowSetting(*shape, relative=relative, device=device, **WINDOW_SIZE) for shape in WINDOW_WORK]
        rows += measure_windows(settings, runs)
    return rows


def _measure(options: argparse.Namespace, settings: list[Setting], memory: int | None):
    if "train" in options.what:
        yield alternate(settings, "train_step", options.runs, options.seconds, memory, options.fresh)
    if "decode" in options.what:
        for documents in map(int, options.documents.split(",")):
            limits = options.seconds, memory, options.fresh
            yield alternate(settings, "decode", options.runs, *limits, documents=documents, beam=options.beam)


if __name__ == "__main__":
    sys.exit(main())
