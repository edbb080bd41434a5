"""Properties of this machine's processor that decide which operations are fast, as Linux reports
them.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import torch

CPUINFO = Path("/proc/cpuinfo")


def processor_fields(cpuinfo: Path = CPUINFO) -> dict[str, str]:
    """Return the first processor's fields by name: ``model name``, ``vendor_id``, ``flags``; empty
    without the file.
    """
    # One block of lines for each core; they are alike.
    try:
        first = cpuinfo.read_text(encoding="utf-8", errors="replace").split("\n\n")[0]
    except OSError:
        return {}
    fields = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in fields}


@cache
def onednn_is_faster(packed: bool = False) -> bool:
    """Return whether oneDNN should compute float32 products on this machine;
    ``GTRANSFORMER_ONEDNN=0`` or ``1`` overrides.

    ``packed``: with weights in its own layout, as in decoding. This pays on AMD processors without
    AVX-512, too.
    """
    wish = os.environ.get("GTRANSFORMER_ONEDNN", "")
    if wish == "0" or not torch.backends.mkldnn.is_available():
        return False
    capability = torch.backends.cpu.get_cpu_capability()
    # On Intel's processors MKL uses AVX-512 as well.
    pays = capability.startswith("AVX512") or (packed and capability == "AVX2")
    return wish == "1" or (pays and processor_fields().get("vendor_id") == "AuthenticAMD")


@cache
def has_bfloat16() -> bool:
    """Return whether the processor multiplies matrices in bfloat16 by own instructions (AVX512-BF16
    or AMX).
    """
    return _has_flag("avx512_bf16") or _has_flag("amx_bf16")


@cache
def has_int8() -> bool:
    """Return whether products of 8-bit integers are faster than those of float32: by FBGEMM, which
    needs AVX2.
    """
    capability = torch.backends.cpu.get_cpu_capability()
    return capability.startswith("AVX") and "fbgemm" in torch.backends.quantized.supported_engines


@cache
def has_vnni() -> bool:
    """Return whether the processor adds up products of 8-bit integers in 32 bits (AVX512-VNNI)."""
    return _has_flag("avx512_vnni")


def _has_flag(name: str) -> bool:
    return name in processor_fields().get("flags", "").split()
