"""What the host plans of a decoding step, and the kernels of a step on a GPU.

The host decides what hypotheses see, by integers and flags. They reach the device by one copy. On a
GPU a step has many small kernels, which the host would start more slowly than they run. So sizes
are powers of two there, and whatever a step reads has a fixed place in memory. Steps of the same
sizes then have the same kernels, and a CUDA graph starts all of them at once.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Hashable
from functools import cache

import numpy as np
import torch
from torch import Tensor

from gtransformer.modules.ragged import on_device

logger = logging.getLogger(__name__)

# Tokens that the smallest cache has room for, and of a block that is not read if nothing sees it.
LEAST = 64
CAPTURING = ("cuda",)  # devices on which steps are captured
PLAN_BYTES = 1 << 26  # of the largest plan of a step that is captured
MOST_CAPTURED = 256  # steps; more would fill the memory of a service that runs for long
ALIGNED = 8  # bytes of the widest number
ONE_CAPTURE = threading.Lock()  # PyTorch allows one at a time in a process


class Plan:
    """The arrays of a step, and the memory and the captured steps of one decoder.

    On the CPU sizes are exact, and tensors share the memory of their arrays.

    Args:
        device: of the decoder.
        fixed: whether, on a GPU, sizes are powers of two, in memory that stays. Only one search at
            a time may use a decoder then.
    """

    def __init__(self, device: torch.device, fixed: bool):
        self.device, self.fixed = device, fixed and device.type in CAPTURING
        self.memory: dict[Hashable, Tensor] = {}
        self.captured: dict[tuple, tuple[Callable, Tensor] | None] = {}
        self.captures, self.pool = True, None  # the pool of memory that captured steps share
        # By place in the plan, shape and type: the array on the host, the tensor on the device.
        self.places: dict[tuple, tuple[np.ndarray, Tensor]] = {}
        if self.fixed:  # the bytes of plans on the host and on the device
            host = torch.empty(PLAN_BYTES, dtype=torch.uint8, pin_memory=device.type == "cuda")
            self.buffers = host, torch.empty_like(host, device=device)
        self.begin()

    def begin(self) -> None:
        """Begin the plan of the next step."""
        self.key: list[Hashable] = []
        self.bytes, self.fits = 0, True

    def size(self, number: int, least: int = 1) -> int:
        """Return how much room to make for so many."""
        return max(least, 1 << (number - 1).bit_length()) if self.fixed and number else number

    def depends_on(self, *values: Hashable) -> None:
        """Note what decides which kernels a step has: it is captured once for each value.

        Every number of the host that a step uses must be here, or in the shape of what is ``put``,
        or constant for the decoder.
        """
        self.key += values

    def put(self, array: np.ndarray) -> Tensor:
        """Return the tensor that has the values of an array after ``send``."""
        begin, end = self.bytes, self.bytes + array.nbytes
        self.fits &= end <= PLAN_BYTES  # without fixed places a step is not captured
        if not (self.fixed and self.fits):
            return on_device(array, self.device)
        place = begin, array.shape, array.dtype
        if place not in self.places:
            dtype = torch.from_numpy(array).dtype
            host, device = (one[begin:end].view(dtype).view(array.shape) for one in self.buffers)
            self.places[place] = host.numpy(), device
        host, device = self.places[place]
        np.copyto(host, array)
        self.depends_on(place)
        self.bytes = -(-end // ALIGNED) * ALIGNED
        return device

    def send(self) -> None:
        """Copy all arrays to the device, at once. The search reads the result of every step that
        was sent, so this copy has ended before the next plan is written.
        """
        if self.bytes:
            host, device = (one[: self.bytes] for one in self.buffers)
            device.copy_(host, non_blocking=True)

    def tensor(self, owner: Hashable, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Return memory of undefined content; with fixed sizes always the same for an owner.

        What is masked is read, too, and must be a finite number.
        """
        if not self.fixed:
            return torch.empty(0, device=self.device).new_empty(shape, dtype=dtype)
        number = math.prod(shape)
        if owner not in self.memory or len(self.memory[owner]) < number:
            # These graphs read the old memory. A pool that no graph uses cannot be used again.
            self.captured, self.pool = {}, None
            self.memory[owner] = torch.zeros(number, dtype=dtype, device=self.device)
        return self.memory[owner][:number].view(shape)

    def run(self, compute: Callable[[], Tensor]) -> Tensor:
        """Return what ``compute`` returns; from the second step of these sizes on it is captured.

        It may read what ``put`` and ``tensor`` have returned, and the decoder's weights.
        """
        if not (self.fixed and self.captures and self.fits):
            return compute()
        key = tuple(self.key)
        if key not in self.captured:
            # CUDA's libraries set themselves up in their first call, which cannot be captured. So
            # the first step runs as usual; without a backward pass that may be on this stream.
            if len(self.captured) >= MOST_CAPTURED:
                self.captured, self.pool = {}, None
            self.captured[key] = None
            return compute()
        if self.captured[key] is None:
            try:
                replay, result, self.pool = capture(compute, self.pool, self.device)
            except RuntimeError as error:  # PyTorch's, before anything is computed
                cause = error.__context__ or error  # PyTorch's own says only that it failed
                logger.warning("decoding steps are not captured: %s", cause)
                self.captures, self.captured, self.pool = False, {}, None
                return compute()
            self.captured[key] = replay, result
        replay, result = self.captured[key]
        replay()
        return result


def capture(
    compute: Callable[[], Tensor], pool, device: torch.device
) -> tuple[Callable, Tensor, tuple]:
    """Return what computes again, where the result then is, and the pool of memory.

    Captured steps share a pool: they run one after the other, and the host reads a result before
    the next step. A capture computes nothing. Other threads, as a data loader's, may go on.

    Raises RuntimeError if ``compute`` cannot be captured.
    """
    with ONE_CAPTURE, torch.cuda.device(device):
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        options = {"stream": capture_stream(device), "capture_error_mode": "thread_local"}
        try:
            with torch.cuda.graph(graph, pool, **options):
                result = compute()
        finally:
            torch.cuda.set_stream(stream)  # PyTorch leaves another one if a capture fails
        return graph.replay, result, graph.pool()


@cache
def capture_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the stream of a device's captures. PyTorch's own is of the first device that captures,
    and on another one records nothing.
    """
    return torch.cuda.Stream(device)
