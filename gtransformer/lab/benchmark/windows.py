"""What window attention costs by length: many short documents against a single one of as many tokens.

Attention blocks alone, forward and backward: projections, self-attention and cross-attention within windows. Both
workloads are run in turn in one process, so that whatever else the machine does meets both.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from statistics import median

import torch

from gtransformer.lab.benchmark.kept import Kept
from gtransformer.lab.benchmark.measure import say
from gtransformer.modules.alignment import by_sentence, one_to_one
from gtransformer.modules.attention import MultiheadAttention, make_pattern
from gtransformer.modules.ragged import Ragged
from gtransformer.modules.reach import by_window


@dataclass(frozen=True)
class WindowSetting:
    """Two blocks of window attention at a workload.

    ``documents`` of ``tokens`` each, in sentences of ``sentence``; ``width``: w, on either side of the centre, which
    is the own position in self-attention and goes by sentence in cross-attention; there source sentences are a quarter
    shorter and longer in turn, so that centres jump. ``relative``: with relative positions in self-attention.
    """

    documents: int
    tokens: int
    width: int = 20
    channels: int = 512
    heads: int = 8
    dropout: float = 0.0
    relative: bool = False
    sentence: int = 30
    device: str = "cpu"

    @property
    def name(self) -> str:
        """As it stands in tables."""
        return f"{self.documents} x {self.tokens} tokens{', relative positions' if self.relative else ''}"


class WindowBlocks:
    """Causal self-attention and cross-attention of a decoder layer, and a batch for them."""

    def __init__(self, setting: WindowSetting):
        torch.manual_seed(1)
        self.setting = setting
        size = setting.channels, setting.heads, setting.dropout
        self.own = MultiheadAttention(*size, relative=setting.width if setting.relative else None).to(setting.device)
        self.cross = MultiheadAttention(*size).to(setting.device)
        self.target = _documents(setting, [1.0])
        self.source = _documents(setting, [0.75, 1.25])
        self.x, self.memory = (
            torch.randn(side.total, setting.channels, device=setting.device, requires_grad=True)
            for side in (self.target, self.source)
        )

    def step(self) -> dict:
        """One pass forward and backward, patterns included.

        Returns:
            ``seconds``, those of the processor, ``kept_bytes`` (what the forward pass keeps for the backward one,
            parameters and inputs included) and ``tokens``.
        """
        setting = self.setting
        for leaf in (*self.own.parameters(), *self.cross.parameters(), self.x, self.memory):
            leaf.grad = None
        self._wait()
        began, processor = time.perf_counter(), time.process_time()
        own = one_to_one(self.target, self.target)
        to_source = by_sentence(self.target, self.source)
        patterns = [
            make_pattern("packed", by_window(self.target, self.target, own, setting.width, causal=True)),
            make_pattern("packed", by_window(self.target, self.source, to_source, setting.width)),
        ]
        with Kept() as kept:
            x = self.x + self.own(self.x, self.x, patterns[0])
            x = x + self.cross(x, self.memory, patterns[1])
        x.sum().backward()
        self._wait()
        return {
            "seconds": time.perf_counter() - began,
            "cpu_seconds": time.process_time() - processor,
            "kept_bytes": kept.bytes,
            "tokens": self.target.total,
        }

    def _wait(self) -> None:
        if self.setting.device == "cuda":
            torch.cuda.synchronize()


def _documents(setting: WindowSetting, lengths: list[float]) -> Ragged:
    """Documents of exactly so many tokens; their sentences take turns in length, as multiples of ``sentence``."""
    tags: list[int] = []
    while len(tags) < setting.tokens:
        number = tags[-1] if tags else 0
        tags += [number + 1] * round(setting.sentence * lengths[number % len(lengths)])
    row = torch.tensor(tags[: setting.tokens], device=setting.device)
    return Ragged(
        torch.ones_like(row, dtype=torch.bool).expand(setting.documents, -1), row.repeat(setting.documents, 1)
    )


def measure_windows(settings: list[WindowSetting], runs: int) -> list[dict]:
    """All settings in turn, ``runs`` times after a round of warm-up; ratios are to the first setting.

    Returns:
        one dictionary a setting: ``runs`` and ``cpu_runs`` in seconds with their medians, ``seconds_a_token`` and
        ``kept_bytes_a_token``; ``time_ratio`` (median over rounds of the processor's seconds a token, over the first
        setting's in the same round) and ``memory_ratio``.
    """
    blocks = [WindowBlocks(setting) for setting in settings]
    rows = [{"setting": asdict(one), "name": one.name, "runs": [], "cpu_runs": []} for one in settings]
    for turn in range(runs + 1):
        for row, one in zip(rows, blocks, strict=True):
            result = one.step()
            if turn:
                row["runs"].append(round(result["seconds"], 4))
                row["cpu_runs"].append(round(result["cpu_seconds"], 4))
            row["tokens"], row["kept_bytes"] = result["tokens"], result["kept_bytes"]
            say(f"  {row['name']}, run {turn}: {result['seconds']:.2f} s")
    first = rows[0]
    for row in rows:
        size = row["tokens"] / first["tokens"]
        row["seconds"], row["cpu_seconds"] = median(row["runs"]), median(row["cpu_runs"])
        rounds = zip(row["cpu_runs"], first["cpu_runs"], strict=True)
        row["time_ratio"] = round(median(own / other for own, other in rounds) / size, 3)
        row["memory_ratio"] = round(row["kept_bytes"] / first["kept_bytes"] / size, 3)
    return rows


def window_table(rows: list[dict]) -> str:
    """The rows as text."""
    header = f"{'windows':<40} {'s':>7} {'MiB kept':>9} {'time':>6} {'memory':>7}  (ratios to the first)"
    lines = [
        f"{row['name']:<40} {row['seconds']:>7.2f} {row['kept_bytes'] / 2**20:>9.0f} "
        f"{row['time_ratio']:>6.2f} {row['memory_ratio']:>7.2f}"
        for row in rows
    ]
    return "\n".join([header, *lines])
