"""Where a training step waits for the device: what is read from it, and what is copied to it and waited for.

On a GPU PyTorch says it of itself. Without one, operations that would wait are counted on the CPU: all but those of
libraries that know by the device that there is nothing to wait for.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from gtransformer.lab.benchmark.systems import BATCHED, BESIDE, LST, SENTENCES, WINDOWS, Setting, System

PACKAGE = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve()
OURS = PACKAGE / "lab" / "benchmark"  # what measures is no part of a step
READS = {"item", "tolist", "cpu", "__bool__", "__int__", "__float__", "__index__"}
SIZES = {"nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "_unique2"}
INDEXING = {"__getitem__", "__setitem__", "index_put", "index_put_"}
MAKING = {"tensor", "as_tensor"}
COUNTED = ("packed", SENTENCES, LST, WINDOWS, BESIDE, *BATCHED)
WARNING = "synchronizing CUDA operation"


class WouldWait(TorchFunctionMode):
    """Counts, by kind and place, operations that would wait for a GPU; see ``kind_of``."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[tuple[str, str]] = Counter()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        kind = kind_of(getattr(func, "__name__", ""), args, kwargs)
        if kind == "copy" and not Path(sys._getframe(1).f_code.co_filename).is_relative_to(PACKAGE):
            kind = None  # fairseq's and PyTorch's own are to the device that the tensor is on
        where = kind and place()
        if where:
            self.found[kind, where] += 1
        return func(*args, **kwargs)


def kind_of(name: str, args: tuple, kwargs: dict) -> str | None:
    """How a function of PyTorch would wait for a GPU, None if it would not.

    ``read``: a value is wanted on the host; ``size``: as many results as the values say, by boolean masks, too;
    ``copy``: to or from a device, and not from pinned memory.
    """
    if name in READS:
        return "read"
    if name in SIZES or (name == "where" and len(args) == 1):
        return "size"
    if name in INDEXING and any(_is_mask(one) for one in _flat(args[1])):
        return "size"
    if name == "repeat_interleave" and kwargs.get("output_size") is None:
        return "size" if isinstance(kwargs.get("repeats", args[-1]), Tensor) else None
    if kwargs.get("non_blocking"):
        return None
    named = kwargs.get("device") is not None
    if name in MAKING and named or name == "to" and (named or any(isinstance(one, str | torch.device) for one in args)):
        return "copy"
    return None


def _flat(index) -> list:
    return [part for one in index for part in _flat(one)] if isinstance(index, tuple | list) else [index]


def _is_mask(index) -> bool:
    return isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8)


def place() -> str | None:
    """The line at work, ``file:line function``: of this package, else of fairseq; None for the measurement's own."""
    frame, last = sys._getframe(1), None
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(OURS) and path != HERE:
            break
        where = f"{frame.f_lineno} {frame.f_code.co_name}"
        if path.is_relative_to(PACKAGE) and path != HERE:
            return f"{path.relative_to(PACKAGE)}:{where}"
        if last is None and "fairseq" in path.parts:
            last = f"fairseq/{path.name}:{where}"
        frame = frame.f_back
    return last


@contextmanager
def waits_of_the_device() -> Iterator[Counter[tuple[str, str]]]:
    """Counts what PyTorch says of a GPU that waits."""
    found: Counter[tuple[str, str]] = Counter()

    def note(message, *_more, **_named) -> None:
        where = WARNING in str(message) and place()
        if where:
            found["wait", where] += 1

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = note
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield found
        finally:
            torch.cuda.set_sync_debug_mode("default")


def settings(device: str, small: bool, precision: str = "float32") -> list[Setting]:
    """What is counted: a step of each system; ``small``: of a size for tests."""
    made = []
    for system in COUNTED:
        sentence = 12 if small else 30
        tokens = sentence if system in (BESIDE, *BATCHED) else 4 * sentence
        size = {"arch": "gtransformer_mini", "vocabulary": 60} if small else {}
        batch = 8 * tokens if small else 4096
        made.append(Setting(system, tokens, batch, 2, precision, sentence=sentence, dropout=0.1, device=device, **size))
    return made


def count(setting: Setting) -> dict:
    """A training step, behind two others: ``name``, ``waits`` in all, and ``places``, the most frequent first."""
    system = System(setting)
    for _ in range(2):
        system.train_step()
    with waits_of_the_device() if setting.device == "cuda" else WouldWait() as counted:
        system.train_step()
    found = counted if isinstance(counted, Counter) else counted.found
    places = [{"kind": kind, "place": where, "times": times} for (kind, where), times in found.most_common()]
    return {"name": setting.name, "waits": sum(found.values()), "places": places}
