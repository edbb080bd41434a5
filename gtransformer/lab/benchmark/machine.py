"""What a measurement depends on besides the code: processor, libraries, threads, how memory is kept."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import torch

from gtransformer.modules.linear import onednn_is_faster
from gtransformer.modules.processor import CPUINFO, processor_fields

# What decides how fast matrices are multiplied, of the many flags that a processor has.
INSTRUCTIONS = (
    *("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_fp16", "amx_int8"),
    *("asimd", "bf16", "i8mm", "sve"),
)
SETTINGS = ("GTRANSFORMER_ONEDNN", "OMP_", "KMP_", "MKL_", "ONEDNN_", "DNNL_", "MALLOC_", "GLIBC_TUNABLES")


def machine(threads: int, cpuinfo: Path = CPUINFO) -> dict:
    """The machine as a result file records it.

    Args:
        threads: that the measured processes compute with.
        cpuinfo: what Linux says of the processor; elsewhere there is no such file, and less is known.

    Returns:
        ``processor`` (its name), ``instructions`` (those of INSTRUCTIONS that it has), ``cores`` (that this process may
        use); ``threads``; ``libraries`` (lines of PyTorch's build: BLAS, oneDNN, instructions used) and
        ``float32_products`` (the library that linear layers use); ``environment``, the variables that change any of
        this.
    """
    fields = processor_fields(cpuinfo)
    flags = set((fields.get("flags") or fields.get("Features") or "").split())
    build = [line.strip(" -\n") for line in torch.__config__.show().splitlines()]
    return {
        "processor": fields.get("model name") or platform.processor() or platform.machine(),
        "vendor": fields.get("vendor_id"),
        "instructions": [name for name in INSTRUCTIONS if name in flags],
        "cores": len(os.sched_getaffinity(0)),
        "threads": threads,
        "libraries": [line for line in build if "Library" in line or "MKL-DNN" in line or "capability" in line],
        "float32_products": "oneDNN" if onednn_is_faster() else "PyTorch's BLAS",
        "environment": {name: value for name, value in sorted(os.environ.items()) if name.startswith(SETTINGS)},
    }
