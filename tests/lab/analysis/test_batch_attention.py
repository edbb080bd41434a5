"""Attention across a batch by sentence, and its gates, against NumPy; a document of a prepared corpus looked at."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

from gtransformer.errors import UserError
from gtransformer.lab.analysis.attention import Inspection, recording
from gtransformer.lab.analysis.attention_shown import gate_table, to_json
from gtransformer.lab.analysis.batch_attention import look_across
from gtransformer.lab.cli.inspect_document import main
from tests.core.models.batch_documents import document
from tests.core.models.batch_oracle import BatchOracle, sigmoid, softmax
from tests.core.models.test_docflat import system
from tests.core.tasks.loaded import LEN48

pytestmark = pytest.mark.slow

SIZES = [
    option
    for side in ("encoder", "decoder")
    for key, size in (("embed-dim", 16), ("ffn-embed-dim", 24), ("layers", 1), ("attention-heads", 2))
    for option in (f"--{side}-{key}", str(size))
]


def looked_at(model, batch) -> Inspection:
    found = Inspection()
    with torch.no_grad(), recording(model, found):
        model(**batch.inputs(extra=2))
    return found


def by_hand(model, batch, side: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Eq. 12 over the current sentences, averaged over heads; and the gates of Eq. 8 or 9, means by sentence."""
    oracle, name = BatchOracle(model), f"{side}.batch_front.across"
    own = batch.source if side == "encoder" else batch.target
    lengths = [len(sentence) for sentence in own]
    x = oracle.embeddings(side, batch.rows(own), batch.first)
    x = np.concatenate([row[-length:] for row, length in zip(x, lengths, strict=True)])
    q, k = (oracle.linear(f"{name}.attention.{one}_proj", x) for one in "qk")
    weights = np.zeros((len(x), len(x)))
    for head in (slice(0, 8), slice(8, 16)):
        scores = q[:, head] @ k[:, head].T / math.sqrt(8)
        weights += softmax(np.where(np.tri(len(x), dtype=bool), scores, -np.inf) if side == "decoder" else scores) / 2
    bounds = np.cumsum([0, *lengths])
    patches = [slice(*pair) for pair in zip(bounds, bounds[1:], strict=False)]
    mean = np.array([[weights[one, other].mean() for other in patches] for one in patches])
    if f"{name}.gate.weight" not in oracle.p:
        return mean, None
    found = oracle.attention(f"{name}.attention", side, x, x, side == "decoder")
    gate = sigmoid(oracle.linear(f"{name}.gate", found))
    if model.cfg.context_gate == "discrete":
        gate = (gate >= model.cfg.gate_threshold).astype(float)
    return mean, np.array([gate[one].mean() for one in patches])


@pytest.mark.parametrize("name", ["C", "C dense", "D", "D decoder", "C encoder", "I prenorm"])
def test_attention_by_sentence_and_gates_by_hand(dictionary, name):
    """Padding changes nothing; what is within the pseudo-documents is left out."""
    model, batch = system(dictionary, name), document(dictionary, begin=2)
    found = looked_at(model, batch)
    sides = [side for side in ("encoder", "decoder") if str(model.cfg.batch_attention_in) in (side, "both")]
    assert [one.part for one in found.maps] == [f"{side}_batch" for side in sides]
    gates = {one.part: one for one in found.gates}
    for one, side in zip(found.maps, sides, strict=True):
        mean, gate = by_hand(model, batch, side)
        assert (one.reach, one.layer) == ("global", 1) and np.allclose(one.mean, mean, rtol=0, atol=1e-12)
        assert np.allclose(one.mass.sum(axis=1), 1)
        assert (gate is None) == (one.part not in gates)
        if gate is not None:
            assert np.allclose(gates[one.part].sentences, gate, rtol=0, atol=1e-12)
    numbers = to_json(found)
    assert len(numbers["maps"]) == len(sides) and "drew_on" not in numbers
    assert ("attention across the batch" in gate_table(found)) == bool(gates)


def test_datapoints_are_looked_at_as_such(dictionary):
    """The means of instances attend to each other: a row and a column each, no gate."""
    found = looked_at(system(dictionary, "ABD"), document(dictionary))
    assert [(one.part, one.mean.shape) for one in found.maps] == [("encoder_batch", (6, 6))] and not found.gates
    assert np.allclose(found.maps[0].mean.sum(axis=1), 1)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A function that saves a tiny untrained model of an architecture over a prepared corpus."""
    folder = tmp_path_factory.mktemp("models")

    def save(arch: str, *more: str) -> Path:
        path = folder / f"{arch}{len(more)}.pt"
        line = [str(LEN48 / "bin"), "--task", "translation_doc", "--source-lang", "en", "--target-lang", "de"]
        line += ["--arch", arch, *SIZES, "--instances", "sliding", "--context-sentences", "2", "--context-loss", "off"]
        line += ["--langs", "en,de", "--batch-order", "document", "--doc-noise-mask", "0.5", *more]
        cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), line))
        torch.manual_seed(1)
        model = tasks.setup_task(cfg.task).build_model(cfg.model)
        history = [{"criterion_name": "X", "optimizer_name": "Adam", "lr_scheduler_state": {}, "num_updates": 1}]
        state = {"args": None, "cfg": OmegaConf.to_container(cfg), "model": model.state_dict(), "task_state": {}}
        state |= {"optimizer_history": history, "extra_state": {"train_iterator": {"epoch": 1}}}
        torch.save(state, path)
        return path

    return save


def test_a_document_of_a_prepared_corpus(checkpoint, tmp_path: Path, capsys):
    """A map with all its sentences, numbers in a file; the reference is read without word dropout."""
    path = checkpoint("docflat_mini", "--shuffled-context", "global")
    found = look_across(LEN48, path, "test", 2)
    again = look_across(LEN48, path, "test", 2)
    assert all(np.array_equal(one.mean, other.mean) for one, other in zip(found.maps, again.maps, strict=True))
    line = ["--model", str(path), str(LEN48), "--output", str(tmp_path), "--document", "2"]
    assert main(line) == 0
    (numbers,) = json.loads((tmp_path / "inspection.json").read_text())["instances"]
    sentences = len(found.maps[0].mean)
    assert sentences > 2 and np.shape(numbers["maps"][1]["mean"]) == (sentences, sentences)
    assert np.allclose(np.triu(numbers["maps"][1]["mean"], 1), 0), "the decoder sees no later sentence"
    assert len(numbers["gates"][0]["sentences"]) == sentences
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in ("attention.png", "gates.png"))
    assert "len48, test, document 2" in capsys.readouterr().out


def test_what_cannot_be_looked_at(checkpoint, tmp_path: Path):
    path = checkpoint("docflat_mini")
    for given, message in (
        ((LEN48, tmp_path / "no.pt", "test", 1), "no.pt: no such file"),
        ((tmp_path, path, "test", 1), "not a prepared corpus"),
        ((LEN48, path, "test", 99), "split 'test' has . documents, there is no document 99"),
        ((LEN48, checkpoint("doc_transformer_mini"), "test", 1), "does not attend across its batch"),
        ((LEN48, checkpoint("docflat_mini", "--batch-attention-in", "none"), "test", 1), "does not attend across"),
    ):
        with pytest.raises(UserError, match=message):
            look_across(*given)
