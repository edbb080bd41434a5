"""Measure a GPU in at most eight minutes: one JSON line a result, the most valuable first.

    python .ci/gpu_benchmark.py [--rehearse] [--output FILE]

Decoding of one document and of 64. Updates of base size on 16,384 and 4,096 tokens in documents of
512: compiled, not compiled, and fairseq's Transformer with autocast and with --fp16. Then decoding
with drafts, a training by fairseq-train with and without --compile, and the tests that need a GPU.
``--rehearse`` runs everything in miniature on the CPU, in about a minute.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from argparse import Namespace
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.data import Dictionary, indexed_dataset
from fairseq.models.transformer import TransformerConfig, TransformerModelBase
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from fairseq.optim.fp16_optimizer import FP16Optimizer
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from gtransformer.data.sides import Sides
from gtransformer.installation import PACKAGE
from gtransformer.lab.benchmark.batches import (
    BASE,
    SIZES,
    documents,
    model,
    packed_batch,
    vocabulary,
)
from gtransformer.models.common import compiled
from gtransformer.models.common.compiled import compiled_loss
from gtransformer.modules.fused_loss import fused_cross_entropy
from gtransformer.modules.segments import SegmentPattern, Segments, segment_attention
from gtransformer.plugin import graphs
from gtransformer.plugin.graphs import GraphedLoss
from gtransformer.plugin.optimizers import FusedAdam
from gtransformer.search.beam import Scoring
from gtransformer.search.generator import DocumentGenerator

SECONDS = 480
SENTENCE = 30
ADAM = {"adam_betas": "(0.9, 0.98)", "lr": [1e-4]}


class Bench:
    """The device, the sizes, and where results go.

    Args:
        rehearse: small sizes on the CPU.
        output: a file for the lines; None: standard output alone.
    """

    def __init__(self, rehearse: bool, output: Path | None):
        self.rehearse, self.output, self.begin = rehearse, output, time.monotonic()
        self.device = "cpu" if rehearse else "cuda"
        self.sizes = (16, 16, 2, 2) if rehearse else BASE
        self.length = 60 if rehearse else 512
        self.words = vocabulary(100 if rehearse else 32000)
        self.options = {"dropout": 0.3, "autocast": "bfloat16"}

    def say(self, name: str, **values) -> None:
        """Write a result."""
        line = json.dumps({"name": name, "at_s": round(self.elapsed(), 1), **values})
        print(line, flush=True)
        if self.output:
            with self.output.open("a", encoding="utf-8") as stream:
                stream.write(line + "\n")

    def elapsed(self) -> float:
        """Return the seconds since the begin."""
        return time.monotonic() - self.begin

    def synchronise(self) -> None:
        """Wait for the device."""
        if not self.rehearse:
            torch.cuda.synchronize()

    def moved(self, batch):
        """Return a batch on the device."""
        if isinstance(batch, dict):
            return {key: self.moved(value) for key, value in batch.items()}
        return batch.to(self.device) if isinstance(batch, Tensor) else batch

    def timed(self, name: str, update: Callable[[], None], tokens: int) -> None:
        """Time an update, after two more, and say what it costs."""
        began = time.monotonic()
        for _ in range(2):
            update()
        self.synchronise()
        warm, rows = time.monotonic() - began, []
        if not self.rehearse:
            torch.cuda.reset_peak_memory_stats()
        for _ in range(5):
            began = time.perf_counter()
            for _ in range(1 if self.rehearse else 4):
                update()
            self.synchronise()
            rows.append((time.perf_counter() - began) / (1 if self.rehearse else 4))
        values = {"ms": round(1e3 * statistics.median(rows), 2), "least": round(1e3 * min(rows), 2)}
        values |= {"tokens_s": round(tokens / statistics.median(rows)), "warm_s": round(warm, 1)}
        self.say(name, **values, **({} if self.rehearse else self._kernels(update)))

    def _kernels(self, update: Callable[[], None]) -> dict:
        """Return how many kernels an update has, how long they take, and which take longest."""
        memory = torch.cuda.max_memory_reserved() / 1e9  # with the pools of graphs
        with profile(activities=[ProfilerActivity.CUDA]) as profiled:
            update()
            torch.cuda.synchronize()
        times, count = Counter(), 0
        for event in profiled.events():
            if event.device_type == torch.autograd.DeviceType.CUDA:
                times[event.name[:60]] += event.self_device_time_total / 1e3
                count += 1
        return {
            "kernels": count,
            "busy_ms": round(sum(times.values()), 2),
            "peak_GB": round(memory, 2),
            "longest": {name: round(ms, 2) for name, ms in times.most_common(12)},
        }


def attention(bench: Bench) -> None:
    """Compare attention within segments with its own CPU operator, a segment without keys too."""
    dtype = torch.float32 if bench.rehearse else torch.bfloat16
    sides = [torch.randn(96, 2, 64, dtype=dtype) for _ in range(4)]
    for name, query_ends, key_ends, causal in (
        ("causal", [0, 40, 90, 96, 96], [0, 40, 90, 96, 96], True),
        ("no keys", [0, 40, 90, 96, 96], [0, 0, 90, 96, 96], False),
    ):
        ends = [torch.tensor(one, dtype=torch.int32) for one in (query_ends, key_ends)]
        found = []
        for device in ("cpu", bench.device):
            q, k, v, upper = (one.detach().to(device).requires_grad_() for one in sides)
            queries, keys = (
                Segments(q, q, q, {"all": end.to(device)}, {"all": 96}) for end in ends
            )
            if device == "cpu":
                y = segment_attention(q, k, v, *ends, causal).flatten(1)
            else:
                y = SegmentPattern(queries, keys, "all", causal).attend(q, k, v, 0.0)
            found.append([y, *torch.autograd.grad(y, (q, k, v), upper.flatten(1))])
        errors = [
            float((own.float().cpu() - other.float()).abs().max())
            for other, own in zip(*found, strict=True)
        ]
        bench.say(f"attention, {name}", largest_errors=errors)


def ours(bench: Bench, number: int, kind: str) -> None:
    """Time an update of G-Transformer on so many documents: compiled, graphs or not compiled."""
    torch.manual_seed(1)
    torch._dynamo.reset()
    made = model(bench.words, bench.sizes, **bench.options).to(bench.device)
    optimizer = FusedAdam(FairseqAdamConfig(**ADAM), list(made.parameters()))
    tokens, turn = number * bench.length, [0]
    if kind == "not compiled":
        batches = [bench.moved(padded_batch(bench, number)) for _ in range(3)]
    else:
        batches = [
            bench.moved(packed_batch(number, bench.length, SENTENCE, bench.words)) for _ in range(3)
        ]
    loss_of = {"not compiled": ragged_loss, "graphs": GraphedLoss()}.get(kind, compiled_loss)

    def update() -> None:
        turn[0] += 1
        loss, _ = loss_of(made, batches[turn[0] % 3], 0.1)
        optimizer.zero_grad()
        optimizer.backward(loss)
        optimizer.multiply_grads(1.0 / tokens)
        optimizer.norm_before(optimizer.clip_grad_norm(0.0))
        optimizer.step()

    bench.timed(f"ours, {kind}, {tokens} tokens", update, tokens)


def padded_batch(bench: Bench, number: int) -> dict[str, Tensor]:
    """Return documents as fairseq pads them."""
    source, read = (
        torch.stack(documents(number, bench.length, SENTENCE, bench.words)) for _ in "st"
    )
    end = torch.full((number, 1), bench.words.index("[de]"))
    return {"source": source, "read": read, "target": torch.cat([read[:, 1:], end], dim=1)}


def ragged_loss(made, batch: dict[str, Tensor], smoothing: float) -> tuple[Tensor, Tensor]:
    """Return the loss as the criterion computes it without --compile."""
    states, extra = made(batch["source"], None, batch["read"], ragged=True)
    targets = extra["layout"].pack(batch["target"])
    with made.decoder.autocast():
        return fused_cross_entropy(*made.decoder.output_product(states, targets), smoothing)


def fairseqs(bench: Bench, number: int, precision: str) -> None:
    """Time an update of fairseq's Transformer, with autocast in bfloat16 or as by --fp16."""
    torch.manual_seed(1)
    words = Dictionary()
    for word in bench.words.symbols[4:]:
        words.add_symbol(word)
    task = Namespace(source_dictionary=words, target_dictionary=words)
    cfg = TransformerConfig(share_all_embeddings=True, dropout=0.3)
    for side, part in (("encoder", cfg.encoder), ("decoder", cfg.decoder)):
        for name, size in zip(SIZES, bench.sizes, strict=True):
            setattr(part, name, size)
        setattr(cfg, side, part)
    cfg.decoder.input_dim = cfg.decoder.output_dim = bench.sizes[0]
    cfg.max_source_positions = cfg.max_target_positions = bench.length + 2
    made = TransformerModelBase.build_model(cfg, task).to(bench.device).train()
    if precision == "--fp16":
        made = made.to(torch.bfloat16 if bench.rehearse else torch.float16)
    parameters = list(made.parameters())
    optimizer = (
        flat_master(parameters)
        if precision == "--fp16"
        else FairseqAdam(FairseqAdamConfig(**ADAM), parameters)
    )
    criterion = LabelSmoothedCrossEntropyCriterion(task, sentence_avg=False, label_smoothing=0.1)
    given, tokens = bench.moved(padded_batch(bench, number)), number * bench.length
    lengths = torch.full((number,), bench.length)
    inputs = {"src_tokens": given["source"], "src_lengths": lengths.to(bench.device)}
    inputs["prev_output_tokens"] = given["read"]
    batch = {"net_input": inputs, "target": given["target"], "ntokens": tokens}

    def update() -> None:
        with torch.autocast(bench.device, dtype=torch.bfloat16, enabled=precision != "--fp16"):
            loss, _, _ = criterion(made, batch)
        optimizer.zero_grad()
        optimizer.backward(loss)
        optimizer.multiply_grads(1.0 / tokens)
        float(optimizer.clip_grad_norm(0.0))  # the trainer reads it
        optimizer.step()

    bench.timed(f"fairseq, {precision}, {tokens} tokens", update, tokens)


def flat_master(parameters: list) -> FP16Optimizer:
    """Return fairseq's optimizer of --fp16: one flat copy of all parameters in float32."""
    optimizer = FP16Optimizer.__new__(FP16Optimizer)
    flat = FP16Optimizer.build_fp32_params(Namespace(), parameters)
    optimizer.fp16_params, optimizer.fp32_params, optimizer.scaler = parameters, flat, None
    optimizer._needs_sync, optimizer._multiply_factor = True, 1.0
    optimizer.fp32_optimizer = FairseqAdam(FairseqAdamConfig(**ADAM), list(flat.values()))
    return optimizer


def trainings(bench: Bench) -> None:
    """Train by fairseq-train with each --compile on one corpus; compare the losses."""
    updates = 6 if bench.rehearse else 300
    words = vocabulary(60 if bench.rehearse else 2000)
    with tempfile.TemporaryDirectory() as folder:
        write_corpus(Path(folder), words, 40 if bench.rehearse else 3000)
        curves = {}
        for choice in ("off", "on") if bench.rehearse else ("off", "on", "graphs"):
            began = time.monotonic()
            curves[choice] = train(bench, Path(folder), choice, updates)
            seconds = round(time.monotonic() - began, 1)
            differences = [
                abs(loss - curves["off"].get(update, 1e9))
                for update, loss in curves[choice].items()
            ]
            values = {"losses": curves[choice], "largest_difference": max(differences)}
            bench.say(f"training, --compile {choice}", seconds=seconds, **values)


def write_corpus(folder: Path, words, number: int) -> None:
    """Write binaries whose target repeats the source."""
    for lang in ("en", "de"):
        words.save(folder / f"dict.{lang}.txt")
    torch.manual_seed(3)
    rows = [documents(1, 90, 18, words)[0].int() for _ in range(number)]
    for lang in ("en", "de"):
        prefix = str(folder / f"train.en-de.{lang}")
        builder = indexed_dataset.make_builder(prefix + ".bin", "mmap", vocab_size=len(words))
        for row in rows:
            builder.add_item(row)
        builder.finalize(prefix + ".idx")


def train(bench: Bench, folder: Path, choice: str, updates: int) -> dict[int, float]:
    """Return the losses of a training by update."""
    options = (
        f"--user-dir {PACKAGE} --task translation_doc --source-lang en --target-lang de "
        "--langs en,de --arch gtransformer_mini --share-all-embeddings --dropout 0 "
        "--criterion fused_label_smoothed_cross_entropy --label-smoothing 0.1 "
        "--optimizer fused_adam --lr 0.001 --lr-scheduler inverse_sqrt --warmup-updates 50 "
        "--clip-norm 1.0 --disable-validation --no-save --no-progress-bar --log-format simple "
        f"--num-workers 2 --seed 1 --max-update {updates} --compile {choice} "
    )
    if bench.rehearse:
        options += "--cpu --max-tokens 400 --log-interval 2"
    else:
        options += "--autocast bfloat16 --max-tokens 4096 --log-interval 50"
    program = (
        "import runpy, gtransformer; gtransformer.register(); "
        "from gtransformer.models.common import compiled; "
        f"compiled.BACKEND = '{compiled.BACKEND}'; "
        "runpy.run_module('fairseq_cli.train', run_name='__main__')"
    )
    command = [sys.executable, "-c", program, str(folder), *options.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170)
    log = done.stdout + done.stderr
    found = re.findall(r"train_inner.*?\bloss=([\d.]+).*?num_updates=(\d+)", log)
    if not found:
        raise RuntimeError(log[-1500:])
    return {int(update): float(loss) for loss, update in found}


def decoding(bench: Bench, number: int, parallel: bool) -> None:
    """Time the translation of so many documents, sentence for sentence as long as the source."""
    torch.manual_seed(1)
    made = model(bench.words, bench.sizes, autocast="bfloat16").to(bench.device).eval()
    made.decoder.hold_weights()
    sides = Sides(bench.words, bench.words, ("en", "de"), ["en", "de"])
    scoring = Scoring(5, bench.words.unk())
    most = {"min_len": SENTENCE - 2, "max_len_b": SENTENCE - 2}
    search = DocumentGenerator([made], sides, scoring, True, parallel=parallel, **most)
    source = torch.stack(documents(number, bench.length, SENTENCE, bench.words)).to(bench.device)
    batch = {"net_input": {"src_tokens": source, "src_lengths": None}}
    times, written = [], 0
    for _ in range(3):  # the first two capture steps
        began = time.perf_counter()
        found = search.generate([made], batch)
        bench.synchronise()
        times.append(time.perf_counter() - began)
        written = sum(len(hypotheses[0]["tokens"]) for hypotheses in found)
    name = f"decoding, {'parallel' if parallel else 'full'}, {number} documents"
    steps = {} if parallel else {"ms_a_step": round(1e3 * min(times) / bench.length, 3)}
    bench.say(name, seconds=round(min(times), 3), tokens_s=round(written / min(times)), **steps)


def tests(bench: Bench) -> None:
    """Run the tests that need a GPU, in what is left of the time."""
    left = max(20, int(SECONDS - bench.elapsed() - 10))
    files = ["tests/core/test_cuda.py", "tests/core/modules/test_varlen.py"]
    files += ["tests/core/plugin/test_graphs.py"]
    command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", *files]
    command += ["--collect-only"] if bench.rehearse else ["-n", "8"]  # the host takes most of it
    try:
        done = subprocess.run(
            command, cwd=PACKAGE.parent, capture_output=True, text=True, timeout=left
        )
        bench.say("tests", rc=done.returncode, end=done.stdout[-1500:])
    except subprocess.TimeoutExpired as end:
        text = (end.stdout or b"").decode(errors="replace")
        bench.say("tests", timeout_s=left, end=text[-1500:])


def plan(bench: Bench) -> list[tuple[int, Callable, tuple]]:
    """Return what to measure, in this order: the seconds that it may need, function, arguments."""
    large, small = (3, 2) if bench.rehearse else (32, 8)
    return [
        (10, attention, ()),
        (20, decoding, (1, False)),
        (20, decoding, (2 if bench.rehearse else 64, False)),
        (120, ours, (large, "compiled")),
        (10, ours, (large, "not compiled")),
        (10, fairseqs, (large, "autocast")),
        (10, fairseqs, (large, "--fp16")),
        (60, ours, (small, "graphs")),
        (15, ours, (large, "graphs")),
        (80, ours, (small, "compiled")),
        (10, ours, (small, "not compiled")),
        (10, fairseqs, (small, "autocast")),
        (10, fairseqs, (small, "--fp16")),
        (10, decoding, (1, True)),
        (10, decoding, (2 if bench.rehearse else 64, True)),
        (150, trainings, ()),
        (20, tests, ()),
    ]


def main() -> None:
    """Measure everything that there is time for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rehearse", action="store_true", help="in miniature, on the CPU")
    parser.add_argument("--output", type=Path, help="a file that the lines are added to")
    arguments = parser.parse_args()
    bench = Bench(arguments.rehearse, arguments.output)
    if bench.rehearse:  # fairseq's optimizer of --fp16 asks for a GPU; generating code takes long
        torch.cuda.current_device = lambda: "cpu"
        compiled.BACKEND = "aot_eager"
        graphs.capture = lambda compute, pool, device: (lambda: None, compute(), pool)
    name = "CPU" if bench.rehearse else torch.cuda.get_device_name()
    bench.say("device", device=name, torch=torch.__version__)
    for seconds, measure, given in plan(bench):
        if bench.elapsed() + seconds > SECONDS:
            bench.say(measure.__name__, arguments=given, skipped="no time left")
            continue
        try:
            measure(bench, *given)
        except Exception as error:
            traceback.print_exc()
            bench.say(measure.__name__, arguments=given, error=f"{type(error).__name__}: {error}")
        if not bench.rehearse:
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
