"""What the host has planned, on its way to the device."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def on_device(planned: np.ndarray, device: torch.device | str) -> Tensor:
    """An array as a tensor on a device; on the CPU the two share their memory.

    Copying ordinary memory to a GPU, the host waits until the GPU has done all that it was told before; a copy of
    pinned memory is one more thing that it is told.
    """
    tensor, device = torch.from_numpy(planned), torch.device(device)
    if device.type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)
