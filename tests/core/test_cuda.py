"""What runs on a GPU against the CPU, with the same weights: training and search of every system,
and the commands.

GTRANSFORMER_TEST_DEVICE=cpu rehearses without a GPU: then nothing differs but what a GPU alone can
do.
"""

from __future__ import annotations

import copy
import os
import random
import re
from argparse import Namespace
from contextlib import nullcontext
from itertools import chain, product

import pytest
import torch
from fairseq.utils import apply_to_sample

from gtransformer.plugin.criterion import FusedLabelSmoothedCrossEntropy
from gtransformer.plugin.optimizers import FUSED as NAME
from gtransformer.search.sequential import SequentialGenerator
from gtransformer.search.strategies import SEQUENTIAL, SLIDING, Strategy
from gtransformer.translation.api import GTransformer
from tests import commands
from tests.commands import GENERATION, SMALL, TRAINING, binarise, losses, write_copy_corpus
from tests.core.models import test_docflat as docflat
from tests.core.models import test_numpy
from tests.core.models.batch_documents import document
from tests.core.models.test_numpy import pairs as document_pairs
from tests.core.search import test_second_pass as second_pass
from tests.core.search.conftest import Translator
from tests.core.search.systems import SYSTEMS
from tests.full_passes import use_caches
from tests.support import pad_batch, random_document, tiny_model

DEVICE = os.environ.get("GTRANSFORMER_TEST_DEVICE", "cuda")
GPU = DEVICE == "cuda"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(GPU and not torch.cuda.is_available(), reason="needs a CUDA device"),
]

CONVERTED = {
    "positions": "sentence",
    "sentence_marks": "end",
    "sinusoids": "marian",
    "output_bias": True,
}
UNTIED = {"share_all_embeddings": False, "share_decoder_input_output_embed": True}
OPTIONS = {
    "global alone": {"context_attention": "global"},
    "all global": {"no_language_locality": True, "no_translation_locality": True},
    "converted": {**CONVERTED, **UNTIED},
    "converted with SSRU": {**CONVERTED, "decoder_unit": "ssru"},
    "learned positions": {
        "encoder_learned_pos": True,
        "decoder_learned_pos": True,
        "encoder_normalize_before": True,
    },
}
DOCUMENTS = SYSTEMS | {
    name: (lambda dictionary, own=own: tiny_model(dictionary, **own))
    for name, own in OPTIONS.items()
}
BESIDE = {
    name: test_numpy.SYSTEMS[name][0]
    for name in ("context", "context, prenorm residual decoder", "flat")
}
BATCHES = {name: (lambda d, name=name: docflat.system(d, name)) for name in docflat.SYSTEMS}
SHAPES_OF = [
    [3, 1, 4, 2, 5],
    [2],
    [1, 6, 2],
    [4, 0, 3, 3],
]  # words of each sentence of each document
SEARCH = {"max_len_a": 1.2, "max_len_b": 2}


def on_device(model, device: str = DEVICE):
    """A copy in float32 there."""
    return copy.deepcopy(model).float().to(device)


def in_precision(model, precision: str):
    """The model converted to float16 as a whole, or with --autocast bfloat16."""
    if precision == "float16":
        return model.half()
    for part in model.modules():
        if hasattr(part, "cfg"):
            part.cfg.autocast = precision
    return model


def batch_for(dictionary, name: str) -> dict:
    """A training batch as the system reads it."""
    draw, pad, language = random.Random(1), dictionary.pad(), dictionary.index("[de]")
    if name in BATCHES:
        inputs = document(dictionary, begin=3).inputs()
    else:
        sources, targets = (
            [random_document(draw, dictionary, shape) for shape in SHAPES_OF] for _ in range(2)
        )
        if name in BESIDE:
            sources, targets = zip(*document_pairs(dictionary), strict=True)
        source, read = pad_batch(sources, pad, left=True), pad_batch(targets, pad, left=False)
        inputs = {
            "src_tokens": source,
            "src_lengths": source.ne(pad).sum(dim=1),
            "prev_output_tokens": read,
        }
    read = inputs["prev_output_tokens"]
    rows = [[*row[row.ne(pad)].tolist()[1:], language] for row in read]
    target = pad_batch(rows, pad, left=False, extra=read.shape[1] - max(map(len, rows)))
    return {"net_input": inputs, "target": target, "ntokens": int(target.ne(pad).sum())}


def trained(dictionary, model, name: str, device: str, precision: str = "float32"):
    """Loss and gradients of the batch, in float64 on the CPU; a scaled loss in float16, as
    fairseq's.
    """
    model, scale = on_device(model, device).train(), 1.0
    if precision == "fp16":
        model, scale = model.half(), 16.0
    elif precision == "bfloat16":
        in_precision(model, precision)
    criterion = FusedLabelSmoothedCrossEntropy(Namespace(target_dictionary=dictionary), False, 0.1)
    with torch.autocast(device, torch.float16) if precision == "amp" else nullcontext():
        loss, size, _ = criterion(
            model, apply_to_sample(lambda one: one.to(device), batch_for(dictionary, name))
        )
    (loss * (scale / size)).backward()
    found = {
        key: one.grad.cpu().double() / scale
        for key, one in model.named_parameters()
        if one.grad is not None
    }
    return loss.item() / size, found


@pytest.mark.parametrize("name", [*DOCUMENTS, *BESIDE, *BATCHES])
def test_loss_and_gradients(dictionary, name):
    """In float32 of every parameter; in half precision of all together, each way that fairseq
    trains.
    """
    model = (DOCUMENTS | BESIDE | BATCHES)[name](dictionary)
    loss, gradients = trained(dictionary, model, name, "cpu")
    found_loss, found = trained(dictionary, model, name, DEVICE)
    assert found_loss == pytest.approx(loss, rel=1e-5) and found.keys() == gradients.keys()
    scale = max(one.abs().max() for one in gradients.values())
    for key, one in gradients.items():
        assert (found[key] - one).abs().max() <= 1e-4 * max(one.abs().max(), 0.01 * scale), key
    with torch.no_grad():  # of narrower weights, else rounding changes too much
        for parameter in model.parameters():
            parameter.mul_(0.5 if parameter.dim() == 2 else 1)
    loss, gradients = trained(dictionary, model, name, "cpu")
    whole, errors = torch.cat([one.flatten() for one in gradients.values()]), {}
    for precision in ("bfloat16", "amp", "fp16"):
        found_loss, found = trained(dictionary, model, name, DEVICE, precision)
        assert found_loss == pytest.approx(loss, rel=3e-2), precision
        other = torch.cat([found[key].flatten() for key in gradients])
        errors[precision] = float((other - whole).norm() / whole.norm())
    assert max(errors.values()) < 4e-2, errors  # on the CPU at most 2.5e-2


def whole(dictionary, model, sources, beam, **task):
    return Translator(dictionary, [model], task, **SEARCH, beam=beam)(sources)


def uncached(dictionary, model, sources, **more):
    use_caches(model, False)
    return whole(dictionary, model, sources, **more)


def by_strategy(*strategy, **more):
    def find(dictionary, model, sources, beam):
        translate = Translator(dictionary, [model], {"sentence_rule": "on"}, **SEARCH, beam=beam)
        translate.generator = SequentialGenerator(translate.generator, Strategy(*strategy, **more))
        return translate(sources)

    return find


WAYS = {
    "whole": whole,
    "without the rule": lambda *given, **more: whole(*given, **more, sentence_rule="off"),
    "uncached": uncached,
    "sequential": by_strategy(SEQUENTIAL, context=2),
    "sliding": by_strategy(SLIDING, tokens=15),
}


def check_search(model, find):
    """``find(model, beam=beam)`` on both devices; in half precision what is found has scores."""
    for beam in (1, 3):
        expected, found = (find(on_device(model, device), beam=beam) for device in ("cpu", DEVICE))
        for ours, theirs in zip(found, expected, strict=True):
            assert [one["tokens"].tolist() for one in ours] == [
                one["tokens"].tolist() for one in theirs
            ]
            for one, other in zip(ours, theirs, strict=True):
                assert float(one["score"]) == pytest.approx(float(other["score"]), abs=1e-3)
    for precision in ("float16", "bfloat16"):
        found = find(in_precision(on_device(model), precision), beam=3)
        assert all(one["score"].isfinite() for nbest in found for one in nbest) and all(found)


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "way"),
    [*product(DOCUMENTS, WAYS), *product(BESIDE, ["whole", "uncached"])],
)
def test_search(dictionary, name, way):
    draw = random.Random(31)
    sources = [random_document(draw, dictionary, shape) for shape in SHAPES_OF]
    if name in BESIDE:
        sources = [source for source, _ in document_pairs(dictionary)]
    model = (DOCUMENTS | BESIDE)[name](dictionary)
    check_search(model, lambda model, beam: WAYS[way](dictionary, model, sources, beam=beam))


@torch.no_grad()
@pytest.mark.parametrize("name", ["C", "I prenorm", "D", "none", "MBE", "ABD"])
def test_second_pass(dictionary, name):
    batch = document(dictionary)
    check_search(
        docflat.system(dictionary, name),
        lambda model, beam: second_pass.translated(dictionary, [model], batch, beam=beam),
    )


TEXT = (
    "The old dog sleeps.\nMary finds her book under two trees.\nThe river sleeps near a house.\n"
    * 2
)


@pytest.mark.parametrize("precision", ["float32", *(["float16", "bfloat16"] if GPU else [])])
def test_scores_from_python(saved_model, precision):
    """The device is chosen, and n-best lists are the CPU's."""
    documents = [TEXT.splitlines()[:2], TEXT.splitlines()[2:]]
    expected = GTransformer.from_pretrained(saved_model, device="cpu").nbest(documents)
    model = GTransformer.from_pretrained(saved_model, precision=precision)
    assert model.engine.device.type == DEVICE
    exact = precision == "float32"
    pairs = zip(chain(*model.nbest(documents)), chain(*expected), strict=True)
    same = [(ours, theirs) for ours, theirs in pairs if ours[0].text == theirs[0].text]
    # In half precision another one may be the best of random weights.
    assert len(same) == len(TEXT.splitlines()) if exact else same
    for ours, theirs in same:
        assert not exact or [one.text for one in ours] == [one.text for one in theirs]
        assert ours[0].score == pytest.approx(theirs[0].score, abs=1e-3 if exact else 0.3)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("copy")
    write_copy_corpus(folder, words=16, train=200, valid=5, test=5)
    binarise(folder)
    return folder


def run(command: str, *arguments) -> str:
    """fairseq's command in this process, where CUDA has begun, without --cpu."""
    words = [word for word in map(str, arguments) if word != "--cpu"]
    return commands.run(command, *words, *([] if GPU else ["--cpu"]))


PRECISIONS = {
    "float32": [],
    "bfloat16": ["--autocast=bfloat16"],
    "fp16": ["--fp16"],
    "amp": ["--amp"],
}
PRECISIONS["fp16, memory"] = ["--memory-efficient-fp16"]


@pytest.mark.parametrize("optimiser", ["adam", NAME])
@pytest.mark.parametrize("precision", PRECISIONS if GPU else ["float32", "bfloat16"])
def test_training_resumed_then_generating(corpus, tmp_path, precision, optimiser):
    """Losses fall, validation measures all it can, a resumed run goes on, and its checkpoint
    translates; in half precision compiled.
    """
    half = (
        ["--fp16-init-scale=128"]
        if {"--fp16", "--amp", "--memory-efficient-fp16"} & {*PRECISIONS[precision]}
        else []
    )
    training = [
        corpus / "bin", *TRAINING, *SMALL, *PRECISIONS[precision], *half,
        f"--optimizer={optimiser}",
        "--criterion=fused_label_smoothed_cross_entropy", "--label-smoothing=0.1", "--dropout=0.1",
        "--clip-norm=1",
        "--attention-dropout=0.1" if precision == "float32" or not GPU else "--compile=on",
        "--max-tokens=500", "--lr=0.002", "--warmup-updates=5",
        "--no-epoch-checkpoints",
        "--eval-bleu", '--eval-bleu-args={"beam": 2, "max_len_b": '
                       '3}', f"--save-dir={tmp_path}",
    ]  # fmt: skip
    first = losses(run("train", *training, "--max-update=6"))
    said = run("train", *training, "--max-update=12")
    second = losses(said)
    assert list(first) == [*range(1, 7)] and list(second) == [*range(7, 13)]
    assert second[12] < first[1] and re.search(r"\bbleu [\d.]+", said)
    generated = run(
        "generate", corpus / "bin", *GENERATION, f"--path={tmp_path / 'checkpoint_last.pt'}",
        "--max-len-b=5",
        *(["--fp16"] if precision.startswith("fp16") else []),
    )  # fmt: skip
    scores = [float(score) for score in re.findall(r"^H-\d+\t(\S+)", generated, re.MULTILINE)]
    assert len(scores) == 5 and all(-100 < score <= 0 for score in scores)
