"""The authors' released model, tensor by tensor (tests/parity, see its README)."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary

from gtransformer.files import read_json
from gtransformer.models.gtransformer import GTransformerConfig, GTransformerModel
from tests.support import PARITY, encoded, relative_error, with_engine

CASES = ("group_only", "partial_2_2_2", "partial_1_2_0", "full", "prenorm")
TOLERANCE = 1e-5  # largest error over largest magnitude, float32


class Case:
    """Weights, inputs and what the release computed from them."""

    def __init__(self, name: str, engine: str):
        self.arrays = np.load(PARITY / f"{name}.npz")
        options = read_json(PARITY / f"{name}.json")
        known = {key: value for key, value in options.items() if hasattr(GTransformerConfig, key)}
        cfg = GTransformerConfig(**known)
        self.dictionary = Dictionary.load(str(PARITY / "dict.txt"))
        self.model = with_engine(
            GTransformerModel.build(cfg, self.dictionary, self.dictionary).eval(), engine
        )
        state = {
            key.removeprefix("state/"): self[key]
            for key in self.arrays.files
            if key.startswith("state/")
        }
        self.model.load_state_dict(state, strict=True)
        self.source, self.previous, self.target = (
            self["src_tokens"],
            self["prev_output_tokens"],
            self["target"],
        )
        self.real_source = self.source.ne(self.dictionary.pad())
        self.real_target = self.target.ne(self.dictionary.pad())

    def __getitem__(self, name: str) -> torch.Tensor:
        return torch.from_numpy(self.arrays[name])


@pytest.fixture(params=[f"{name}-{engine}" for name in CASES for engine in ("dense", "packed")])
def case(request) -> Case:
    return Case(*request.param.split("-"))


@pytest.mark.parametrize("name", CASES)
def test_group_tags_and_names_of_parameters(name):
    case = Case(name, "packed")
    assert torch.equal(case.model.encoder.tags(case.source), case["encoder_tags"])
    saved = {key.removeprefix("state/") for key in case.arrays.files if key.startswith("state/")}
    assert set(case.model.state_dict()) == saved


def test_forward_loss_and_gradient(case):
    model, real = case.model, case.real_target
    states = encoded(model, case.source)
    assert (
        relative_error(states[case.real_source], case["encoder_out"][case.real_source]) < TOLERANCE
    )

    logits, _ = model(case.source, None, case.previous)
    assert relative_error(logits[real], case["logits"][real]) < TOLERANCE

    loss = torch.nn.functional.cross_entropy(logits[real], case.target[real], reduction="sum")
    assert loss.item() == pytest.approx(float(case.arrays["nll_sum"]), rel=TOLERANCE)
    loss.backward()
    name = "encoder.embed_tokens.weight"
    assert relative_error(model.get_parameter(name).grad, case[f"grad/{name}"]) < TOLERANCE
