"""What a result file says about the machine."""

import json

from gtransformer.lab.benchmark.machine import machine
from gtransformer.lab.benchmark.worker import worker_threads

CPUINFO = """processor\t: 0
vendor_id\t: AuthenticAMD
model name\t: AMD EPYC 9R14
flags\t\t: fpu avx avx2 avx512f avx512_bf16 avx512_vnni sse2

processor\t: 1
model name\t: another
"""


def test_processor_instructions_and_settings(tmp_path, monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "8589934592")
    monkeypatch.setenv("UNRELATED", "1")
    (tmp_path / "cpuinfo").write_text(CPUINFO)
    found = machine(3, tmp_path / "cpuinfo")
    assert (found["processor"], found["vendor"], found["threads"]) == ("AMD EPYC 9R14", "AuthenticAMD", 3)
    assert found["instructions"] == ["avx2", "avx512f", "avx512_vnni", "avx512_bf16"]
    assert found["environment"]["MALLOC_TRIM_THRESHOLD_"] == "8589934592" and "UNRELATED" not in found["environment"]
    assert any("MKL-DNN" in line for line in found["libraries"])
    json.dumps(found)


def test_where_linux_says_nothing(tmp_path):
    found = machine(1, tmp_path / "missing")
    assert found["processor"] and found["instructions"] == []


def test_threads(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5,1")
    assert worker_threads() == 5
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert worker_threads() >= 1
