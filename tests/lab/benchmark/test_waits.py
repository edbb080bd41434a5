"""How often a training step waits for the device: counted on the CPU, by operations that would wait on a GPU.

All but those of libraries that know by the device that there is nothing to wait for; those are to be seen on a GPU
(``torch.cuda.set_sync_debug_mode``).
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

import gtransformer
from gtransformer.lab.benchmark.names import BATCHED, DOCUMENT_TRANSFORMER
from gtransformer.lab.benchmark.systems import Setting, System

PACKAGE = Path(gtransformer.__file__).parent
READS = {"item", "tolist", "cpu", "__bool__", "__int__", "__float__", "__index__"}
SIZES = {"nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "_unique2"}
INDEXING = {"__getitem__", "__setitem__", "index_put", "index_put_"}


class WouldWait(TorchFunctionMode):
    """Count operations that would wait for a GPU, by the file of the package that asks for them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if waits(getattr(func, "__name__", ""), args, kwargs or {}) and (place := asking()):
            self.found[place] += 1
        return func(*args, **(kwargs or {}))


def waits(name: str, args: tuple, kwargs: dict) -> bool:
    """Whether a function of PyTorch would wait: for a value, for the size of a result, or for a copy."""
    if name in READS or name in SIZES or (name == "where" and len(args) == 1):
        return True
    if name in INDEXING:
        index = args[1] if isinstance(args[1], tuple | list) else [args[1]]
        return any(isinstance(one, Tensor) and one.dtype in (torch.bool, torch.uint8) for one in index)
    if name == "repeat_interleave":
        return kwargs.get("output_size") is None and isinstance(kwargs.get("repeats", args[-1]), Tensor)
    named = kwargs.get("device") is not None
    copies = name in ("tensor", "as_tensor") and named
    copies |= name == "to" and (named or any(isinstance(one, str | torch.device) for one in args))
    # fairseq's and PyTorch's own copies are to the device that the tensor is on; from pinned memory none waits.
    caller = Path(sys._getframe(2).f_code.co_filename)
    return copies and not kwargs.get("non_blocking") and caller.is_relative_to(PACKAGE)


def asking() -> str | None:
    """The file at work, of this package (but for what measures), else of fairseq."""
    frame, last = sys._getframe(2), None
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(PACKAGE / "lab"):
            break
        if path.is_relative_to(PACKAGE):
            return str(path.relative_to(PACKAGE))
        last = last or (path.name if "fairseq" in path.parts else None)
        frame = frame.f_back
    return last


X = torch.arange(4.0)
MASK, INDEX = X > 1, torch.tensor([0, 2])
WAITING = [
    lambda: X[0].item(), lambda: X.tolist(), lambda: X.cpu(), lambda: bool(X[0] > 1), lambda: float(X[1]),
    lambda: [1, 2][INDEX[0]], lambda: X.nonzero(), lambda: torch.where(MASK), lambda: X[MASK], lambda: X[..., MASK],
    lambda: torch.masked_select(X, MASK), lambda: torch.repeat_interleave(X, torch.ones(4, dtype=torch.int64)),
]  # fmt: skip
RUNNING = [
    lambda: X + 1, lambda: X[0], lambda: X[INDEX], lambda: X[None, 1:], lambda: X.to(torch.float64),
    lambda: torch.where(MASK, X, 0), lambda: X.repeat_interleave(2), lambda: X.to("cpu", non_blocking=True),
    lambda: torch.repeat_interleave(X, torch.ones(4, dtype=torch.int64), output_size=4),
]  # fmt: skip


def test_what_waits(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "asking", lambda: "here")
    for operations, times in ((WAITING, 1), (RUNNING, 0)):
        for number, operation in enumerate(operations):
            with WouldWait() as counter:
                operation()
            assert counter.found["here"] == times, number


# Each layout is read once; of the Document Transformer every batch of context is cut to its longest row.
LAYOUTS = {"packed": 2, "doc_transformer": 2, "lst_transformer": 2, "window_transformer": 2, DOCUMENT_TRANSFORMER: 3,
           "pseudo_documents": 2, "docflat": 4, "abd": 3, "mbe": 4}  # fmt: skip
FURTHER_WAITS = {DOCUMENT_TRANSFORMER: {"data/group_tags.py": 3}}


@pytest.mark.slow
@pytest.mark.parametrize("system", LAYOUTS)
def test_a_step_waits_for_its_layouts_and_little_else(system):
    tokens = 12 if system in (DOCUMENT_TRANSFORMER, *BATCHED) else 48
    sizes = {"arch": "gtransformer_mini", "vocabulary": 60, "sentence": 12, "dropout": 0.1}
    step = System(Setting(system, tokens, 8 * tokens, 2, **sizes)).train_step
    step()  # makes batch and optimizer
    with WouldWait() as counter:
        step()
    assert counter.found == {"modules/ragged.py": LAYOUTS[system], **FURTHER_WAITS.get(system, {})}


@pytest.mark.parametrize("system", ["packed", "doc_transformer", "lst_transformer", "window_transformer"])
def test_a_decoding_step_waits_once(system):
    """Documents of the same sentences, twice as long: the difference is that of the steps."""
    waited = []
    for sentence in (12, 24):
        sizes = {"arch": "gtransformer_mini", "vocabulary": 60, "sentence": sentence}
        with WouldWait() as counter:
            System(Setting(system, 4 * sentence, 4 * sentence, 2, **sizes)).decode(1, 2)
        waited.append(counter.found)
    more = waited[1] - waited[0]
    assert more == {"search/beam.py": 4 * 12}
