"""A model trained in float32 translates in bfloat16 by fairseq's commands, too (``--model-overrides``)."""

from __future__ import annotations

import json

import pytest

from gtransformer.modules.processor import has_bfloat16
from tests.commands import GENERATION, run


@pytest.mark.skipif(not has_bfloat16(), reason="the processor has no instructions for bfloat16")
def test_generate_in_bfloat16(copier, tmp_path):
    """It copies as it does in float32, each instance at nearly the same score."""
    scores = {}
    for autocast in ("none", "bfloat16"):
        run(
            "generate", copier.corpus / "bin", *GENERATION, f"--path={copier.checkpoint}", "--max-len-a=1.2",
            "--max-len-b=3", f"--gen-output={tmp_path / autocast}", f"--model-overrides={{'autocast': '{autocast}'}}",
        )  # fmt: skip
        lines = (tmp_path / f"{autocast}.jsonl").read_text(encoding="utf-8").splitlines()
        best = [json.loads(line)["hypotheses"][0] for line in lines]
        assert [hypothesis["sentences"] for hypothesis in best] == copier.sentences()
        scores[autocast] = [hypothesis["score"] for hypothesis in best]
    assert scores["bfloat16"] != scores["none"]
    assert scores["bfloat16"] == pytest.approx(scores["none"], abs=0.02)
