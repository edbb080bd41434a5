"""Measure training and decoding of systems, including fairseq's Transformer, by length of documents."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import UserError, cli_main
from gtransformer.evaluation.text_table import align
from gtransformer.files import write_json
from gtransformer.lab.benchmark.names import (
    BATCHED,
    CTRANSLATE2,
    DOCUMENT_TRANSFORMER,
    FAIRSEQ,
    GTRANSFORMER,
    INT8,
    OTHERS,
    SYSTEMS,
    WINDOWS,
)
from gtransformer.lab.cli.demo_corpus import at_least
from gtransformer.provenance import device_name, provenance
from gtransformer.search.strategies import FULL, PARALLEL

if TYPE_CHECKING:
    from gtransformer.lab.benchmark.systems import Setting


def numbers(kind: type = int, least: float = 0):
    """Return the type of an option: numbers with commas between them."""

    def read(text: str) -> list:
        values = [kind(part) for part in text.split(",")]
        if min(values) < least:
            raise ValueError
        return values

    read.__name__ = f"numbers of at least {least:g}, with commas:"  # what argparse calls it
    return read


def names(known: tuple[str, ...]):
    """Return the type of an option: names of ``known`` with commas between them."""

    def read(text: str) -> list[str]:
        unknown = set(found := text.split(",")) - set(known)
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))} unknown; choose of {', '.join(known)}")
        return found

    return read


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(prog="gtransformer lab benchmark", description=__doc__)

    def add(name: str, default, **options) -> None:
        options["help"] = f"{options.get('help', '')} (%(default)s)".lstrip()
        parser.add_argument(name, default=default, **options)

    add("--output", "exp_logs/benchmark", type=Path, help="directory")
    add("--name", "benchmark", help="name of its file")
    add(
        "--what", "train,decode", type=names(("train", "decode", "profile")),
        help="of train, decode, profile; profile: what a step of decoding costs on a CPU, of G-Transformer",
    )  # fmt: skip
    add("--arch", "gtransformer_base", help="sizes")
    add("--lengths", "256,512,1024,2048,4096,8192", type=numbers(least=1), help="tokens per document")
    add("--sentences", "30", type=numbers(least=3), help="tokens per sentence, including <s> and </s>")
    add("--vocabularies", "32000", type=numbers(least=10), help="entries of the dictionary")
    add("--dropouts", "0.3", type=numbers(float), help="dropout in training")
    add("--systems", "fairseq,dense,packed", type=names(SYSTEMS), help=f"of {', '.join(SYSTEMS)}")
    add("--context", "0,2", type=numbers(), help="top layers with combined attention, of G-Transformer")
    add("--windows", "20", type=numbers(least=1), help=f"w, of {WINDOWS}")
    add("--context-sentences", "2", type=numbers(), help=f"previous source sentences, of {DOCUMENT_TRANSFORMER}")
    former = {"dest": "context_sentences", "default": argparse.SUPPRESS, "help": argparse.SUPPRESS}
    parser.add_argument("--beside", type=numbers(), **former)  # the name in earlier versions
    add("--local", "3", type=numbers(), help=f"previous sentences, of {', '.join(BATCHED)}")
    parser.add_argument(
        "--uneven",
        action="store_true",
        help="source sentences are alternately shorter and longer, so that windows jump",
    )
    precisions = "float32", "bfloat16", "float16", INT8
    add("--precisions", "float32", type=names(precisions), help=f"of {', '.join(precisions)} (for decoding)")
    strategies = FULL, PARALLEL
    add("--strategies", FULL, type=names(strategies), help=f"of {', '.join(strategies)}: how G-Transformer decodes")
    add("--batch-tokens", 8192, type=int, help="tokens per training batch")
    add("--documents", "1,16", type=numbers(least=1), help="documents (with --local, sentences) decoded at once")
    add("--beam", 5, type=at_least(1))
    add("--runs", 5, type=at_least(0), help="timed runs of each system; 0: one run without timing, for memory")
    parser.add_argument("--checkpoint", action="store_true", help="recompute activations in dense and packed")
    parser.add_argument(
        "--fresh", action="store_true", help="one process at a time, a new one for each run, to save memory"
    )
    parser.add_argument(
        "--together",
        action="store_true",
        help="alternate runs over lengths, sentences, ..., instead of one after the other",
    )
    add("--seconds", 600, type=float, help="time limit of one run")
    parser.add_argument("--memory", type=float, default=0, help="GiB that a system may use (default: no limit)")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Run the benchmark. Results are written after every workload, so an interrupted run keeps them."""
    options = build_parser().parse_args(argv)

    import torch
    from fairseq.models import ARCH_MODEL_REGISTRY

    from gtransformer.lab.benchmark.measure import alternate, machine, print_status
    from gtransformer.lab.benchmark.report import add_ratios, by_length, length_table, table
    from gtransformer.lab.benchmark.step_costs import cost_table
    from gtransformer.plugin.models import SIZES

    sizes = [f"gtransformer_{size}" for size in SIZES]
    if options.arch not in ARCH_MODEL_REGISTRY:
        raise UserError(f"--arch {options.arch}: no such architecture; give one of {', '.join(sizes)}")
    if options.arch not in sizes and set(options.systems) & {*OTHERS, *BATCHED}:
        raise UserError(f"--arch {options.arch}: {OTHERS[0]} and others have the sizes of {', '.join(sizes)}")
    if options.uneven and set(options.systems) & {*BATCHED}:
        raise UserError(f"--uneven: the batches of {', '.join(BATCHED)} are always the same; leave it or them out")
    for dropout in options.dropouts:
        if not 0 <= dropout < 1:
            raise UserError(f"--dropouts {dropout:g}: give rates from 0 to less than 1")
    if INT8 in options.precisions and ({*options.what} != {"decode"} or FAIRSEQ in options.systems):
        raise UserError(f"--precisions {INT8} is for decoding with our systems: give --what decode, no {FAIRSEQ}")
    if CTRANSLATE2 in options.systems:
        possible = {*options.what} == {"decode"} and {*options.precisions} <= {"float32", INT8}
        if not possible or torch.cuda.is_available():
            wanted = f"--what decode and of --precisions float32,{INT8}"
            raise UserError(f"--systems {CTRANSLATE2} decodes on CPUs: give {wanted}, or leave it out")
        if find_spec(CTRANSLATE2) is None:
            raise UserError(f"--systems {CTRANSLATE2} is not installed: run pip install {CTRANSLATE2}, or leave it out")
    single = [system for system in options.systems if system in (DOCUMENT_TRANSFORMER, *BATCHED)]
    if single and len({*options.lengths, *options.sentences}) > 1:
        raise UserError(f"{single[0]} translates single sentences: give --lengths and --sentences the same number")
    if "profile" in options.what and (torch.cuda.is_available() or not set(options.systems) <= set(GTRANSFORMER)):
        raise UserError(f"--what profile is for CPUs and for --systems {','.join(GTRANSFORMER)}; leave others out")
    results = {"device": device_name(), "machine": machine(), "rows": []}
    results |= provenance("lab benchmark", argv)
    limits = {"seconds": options.seconds, "memory": int(options.memory * 2**30) or None, "fresh": options.fresh}
    passes = [("train_step", {})] if "train" in options.what else []
    for what in ("decode", "profile"):
        if what in options.what:
            passes += [(what, {"documents": count, "beam": options.beam}) for count in options.documents]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    workloads = make_workloads(options, device)
    for settings in [sum(workloads, [])] if options.together else workloads:
        for method, arguments in passes:
            rows = alternate(settings, method, options.runs, **limits, **arguments)
            add_ratios(rows)
            print(table(rows), flush=True)
            results["rows"].extend(rows)
            results["by_length"] = by_length(results["rows"])
            write_json(options.output / f"{options.name}.json", results)
    print(length_table(results["by_length"]), flush=True)
    profiles = [row for row in results["rows"] if "profile" in row]
    if profiles:
        print(align(cost_table(profiles)), flush=True)
    print_status(f"written to {options.output}")


def make_workloads(options: argparse.Namespace, device: str) -> list[list[Setting]]:
    """Return the settings that are run in turn, for every vocabulary, dropout, sentence length and document length."""
    from gtransformer.lab.benchmark.systems import Setting

    combinations = product(options.vocabularies, options.dropouts, options.sentences, options.lengths)
    shared = {"arch": options.arch, "device": device, "uneven": options.uneven}
    return [
        [
            Setting(
                system, tokens, max(options.batch_tokens, tokens), precision=precision, vocabulary=words,
                dropout=dropout, sentence=sentence, checkpoint=options.checkpoint and system != "fairseq",
                **shared, **kind,
            )
            for precision in options.precisions
            for system in options.systems
            for kind in variants(options, system)
        ]
        for words, dropout, sentence, tokens in combinations
    ]  # fmt: skip


def variants(options: argparse.Namespace, system: str) -> list[dict]:
    """Return the variants of a system to measure, as keys of Setting."""
    if system in GTRANSFORMER:
        return [{"context": layers, "strategy": one} for layers in options.context for one in options.strategies]
    if system == DOCUMENT_TRANSFORMER:
        return [{"beside": sentences} for sentences in options.context_sentences]
    if system in BATCHED:
        return [{"local": sentences} for sentences in options.local]
    return [{"window": width} for width in options.windows] if system == WINDOWS else [{}]


if __name__ == "__main__":
    raise SystemExit(main())
