"""Few documents, through fairseq's commands: lengths drawn, words masked, lower layers frozen; resumed."""

from __future__ import annotations

import pytest
import torch

from tests.commands import run
from tests.core.end_to_end.test_systems import PREPARED, SMALL, TASK, sentence_model  # noqa: F401

pytestmark = pytest.mark.slow
WARM = [
    *TASK, "--arch=gtransformer_mini", *SMALL, "--encoder-ctxlayers=1", "--decoder-ctxlayers=1", "--cross-ctxlayers=1",
    "--positions=sentence", "--gate-bias=5", "--load-partial", "--trained-parameters=top", "--coword-dropout=0.3",
    "--instances=greedy", "--instance-tokens=60", "--instance-lengths=drawn", "--num-workers=1",
]  # fmt: skip


def test_resumed_in_the_middle_of_an_epoch_it_is_the_same(sentence_model, tmp_path):  # noqa: F811
    """To the bit; and what lies outside of the top layers is the sentence model's."""

    def trained(name, *arguments):
        save = tmp_path / name
        start = [f"--finetune-from-model={sentence_model}", f"--save-dir={save}"]
        return run("train", PREPARED / "bin", *WARM, *start, *arguments), save / "checkpoint_last.pt"

    log, whole = trained("whole", "--max-epoch=3")
    assert "loading train data for epoch 3" in log and "--trained-parameters top: " in log
    trained("parts", "--max-update=7")
    stopped = torch.load(tmp_path / "parts" / "checkpoint_last.pt")["extra_state"]["train_iterator"]
    assert stopped["iterations_in_epoch"] > 0
    _, resumed = trained("parts", "--max-epoch=3")
    before, one, other = (torch.load(path)["model"] for path in (sentence_model, whole, resumed))
    assert all(torch.equal(one[name], other[name]) for name in one) and one.keys() == other.keys()
    for name, value in before.items():
        local = name.replace("self_attn.", "self_attn_local.").replace("encoder_attn.", "encoder_attn_local.")
        assert torch.equal(value, one[local]) == (".layers.0." not in name), name
