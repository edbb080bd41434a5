"""Whether this machine's processor trains small models faster in bfloat16."""

from __future__ import annotations

from gtransformer.modules.processor import processor_fields


def trains_faster_in_bfloat16() -> bool:
    """Return whether small models train faster in bfloat16: with AMX, or with AMD's AVX512-BF16;
    Intel's is not enough.

    On an Intel machine without AMX a step took 1.4 to 1.5 times as long as in float32
    (docs/performance.md).
    """
    fields = processor_fields()
    flags, is_amd = fields.get("flags", "").split(), fields.get("vendor_id") == "AuthenticAMD"
    return "amx_bf16" in flags or ("avx512_bf16" in flags and is_amd)
