"""Twenty updates of the authors' release (tests/parity/training), by this package's loss and
optimizers.
"""

from __future__ import annotations

from argparse import Namespace

import numpy as np
import pytest
import torch
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig

from gtransformer.plugin.criterion import FusedLabelSmoothedCrossEntropy
from gtransformer.plugin.optimizers import FusedAdam
from tests.core.models.test_parity import Case
from tests.support import PARITY

LOSS, STATE = 2e-6, 2e-5  # relative; absolute, a fiftieth of what an update changes


@pytest.mark.parametrize("optimizer", [FairseqAdam, FusedAdam])
@pytest.mark.parametrize("name", ["partial_2_2_2", "group_only", "full"])
def test_training_goes_the_releases_way(name, optimizer):
    """From its weights, on its batch, without dropout: every loss, and in the end every
    parameter.
    """
    case, expected = Case(name, "packed"), np.load(PARITY / "training" / f"{name}.npz")
    model = case.model.train()
    options = FairseqAdamConfig(
        adam_betas="(0.9, 0.98)", adam_eps=1e-8, weight_decay=0.0, lr=[1e-3]
    )
    optimizer = optimizer(options, list(model.parameters()))
    task = Namespace(target_dictionary=case.dictionary)
    criterion = FusedLabelSmoothedCrossEntropy(task, sentence_avg=False, label_smoothing=0.0)
    batch = {
        "net_input": {
            "src_tokens": case.source,
            "src_lengths": case["src_lengths"],
            "prev_output_tokens": case.previous,
        },
        "target": case.target,
        "ntokens": int(case.real_target.sum()),
    }
    losses = []
    for _ in expected["loss"]:
        loss, sample_size, _ = criterion(model, batch)
        losses.append(loss.item())
        optimizer.zero_grad()
        optimizer.backward(loss)
        optimizer.multiply_grads(1 / sample_size)
        optimizer.step()
    assert sample_size == expected["sample_size"]
    assert losses == pytest.approx(expected["loss"].tolist(), rel=LOSS)
    for key, value in model.named_parameters():
        # The gradient of keys' biases is zero but for rounding, which Adam makes steps of full
        # size.
        if not key.endswith("k_proj.bias"):
            assert (value - torch.from_numpy(expected[f"state/{key}"])).abs().max() < STATE, key
