"""Where a training step would wait for a GPU: which operations count, and how few are in a step of each system."""

from __future__ import annotations

import warnings

import pytest
import torch

from gtransformer.lab.benchmark import syncs
from gtransformer.lab.benchmark.syncs import COUNTED, WouldWait, count, settings

X = torch.arange(4.0)
MASK, INDEX = X > 1, torch.tensor([0, 2])
WAITS = [
    ("read", lambda: X[0].item()), ("read", lambda: X.tolist()), ("read", lambda: X.cpu()),
    ("read", lambda: bool(X[0] > 1)), ("read", lambda: int(X[1])), ("read", lambda: float(X[1])),
    ("read", lambda: [1, 2][INDEX[0]]), ("read", lambda: 1 if X.sum() else 2),
    ("size", lambda: X.nonzero()), ("size", lambda: torch.where(MASK)), ("size", lambda: X[MASK]),
    ("size", lambda: torch.masked_select(X, MASK)), ("size", lambda: X.unique()), ("size", lambda: X[..., MASK]),
    ("size", lambda: torch.repeat_interleave(X, torch.ones(4, dtype=torch.int64))),
]  # fmt: skip
DOES_NOT = [
    lambda: X + 1, lambda: X[0], lambda: X[INDEX], lambda: X[None, 1:], lambda: X.to(torch.float64),
    lambda: torch.where(MASK, X, 0), lambda: X.masked_fill(MASK, 0), lambda: X.repeat_interleave(2),
    lambda: torch.repeat_interleave(X, torch.ones(4, dtype=torch.int64), output_size=4),
    lambda: X.index_select(0, INDEX),
    lambda: torch.full((), 3.0, device=X.device), lambda: X.to("cpu", non_blocking=True),
]  # fmt: skip


def counted(monkeypatch, operation) -> dict:
    monkeypatch.setattr(syncs, "place", lambda: "here")
    with WouldWait() as counter:
        operation()
    return dict(counter.found)


@pytest.mark.parametrize("number", range(len(WAITS)))
def test_what_waits(monkeypatch, number):
    kind, operation = WAITS[number]
    assert counted(monkeypatch, operation) == {(kind, "here"): 1}


@pytest.mark.parametrize("number", range(len(DOES_NOT)))
def test_what_does_not(monkeypatch, number):
    assert counted(monkeypatch, DOES_NOT[number]) == {}


def test_copies_count_where_this_package_asks_for_them():
    """Those of fairseq and PyTorch are to where the tensor is."""
    device = torch.device("cpu")
    for name, args, named in (
        ("to", (X, device), {}),
        ("to", (X, "cpu"), {}),
        ("as_tensor", (3.0,), {"device": device}),
    ):
        assert syncs.kind_of(name, args, named) == "copy"
    with WouldWait() as counter:
        X.to(device)
    assert not counter.found


def test_warnings_of_the_device_are_counted_by_place(monkeypatch):
    """As PyTorch gives them on a GPU; others are not counted."""
    modes = []
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    monkeypatch.setattr(syncs, "place", lambda: "here")
    with syncs.waits_of_the_device() as found:
        for message in ("called a synchronizing CUDA operation", "something else") * 2:
            warnings.warn(message, stacklevel=1)
    assert dict(found) == {("wait", "here"): 2} and modes == ["warn", "default"]


# Each layout is read once; models that read their batch count the rows that matter, of the Document Transformer every
# batch of context is cut to its longest row.
LAYOUTS = {"packed": 2, "doc_transformer": 2, "lst_transformer": 2, "window_transformer": 2, "document_transformer": 3,
           "pseudo_documents": 2, "docflat": 4, "abd": 3, "mbe": 4}  # fmt: skip
BESIDES = {"document_transformer": {"data/group_tags.py": 3}} | {
    name: {"data/loss_mask.py": 1} for name in ("pseudo_documents", "docflat", "abd", "mbe")
}


@pytest.mark.slow
@pytest.mark.parametrize("system", COUNTED)
def test_a_step_waits_for_its_layouts_and_little_else(system):
    (setting,) = [one for one in settings("cpu", small=True) if one.system == system]
    found = count(setting)
    files = {}
    for one in found["places"]:
        name = one["place"].split(":")[0]
        files[name] = files.get(name, 0) + one["times"]
    assert files == {"modules/ragged.py": LAYOUTS[system], **BESIDES.get(system, {})}
    assert found["waits"] == sum(files.values())
