"""Marian's models, converted, compute what a plain NumPy reference of Marian does, in float64."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
import torch

from gtransformer.models.gtransformer import GTransformerConfig, GTransformerModel
from gtransformer.plugin.checkpoints import read_state
from gtransformer.plugin.sentence_start import start_from_sentence_model
from gtransformer.search.strategies import Strategy
from tests.core import marian_numpy as marian
from tests.core.models.from_sentence_model.marian_models import SEARCH, Converted, random_rows, save
from tests.full_passes import use_caches

pytestmark = pytest.mark.slow

TIED = ("all", "target", "old")  # or an output layer whose matrix is stored like the others
DECODERS, NORMS = ("self-attention", "ssru"), ("post", "pre")
EMBEDDINGS, ACTIVATIONS = ("all", "target", "inputs", "none", "old"), ("relu", "swish")
# Every decoder with every place of norms and every sharing; activations, biases and YAML
# vocabularies in turn.
KINDS = [
    {
        "decoder": decoder, "norm": norm, "embeddings": embeddings,
        "activation": ACTIVATIONS[number % 2],
        "output_bias": number // 2 % 2 == 0, "numbered": number // 3 % 2 == 0, "layers": (2,
        1 + number % 2),
    }
    for number, (decoder, norm, embeddings) in enumerate(itertools.product(DECODERS, NORMS,
    EMBEDDINGS))
]  # fmt: skip


# Of random models that end some sentences at once, some late and some never.
SEEDS = {
    ("self-attention", "post"): 30, ("self-attention", "pre"): 18, ("ssru", "post"): 17, ("ssru",
     "pre"): 14,
}  # fmt: skip


def name_of(kind: dict) -> str:
    bias = "bias" if kind["output_bias"] else "no bias"
    return f"{kind['decoder']}, {kind['norm']}, {kind['embeddings']}, {kind['activation']}, {bias}"


def random_documents(saved, shape) -> list[list[tuple[list[int], list[int]]]]:
    """Documents of so many sentence pairs, without ``</s>``."""
    draw = random.Random(1)
    sides = len(saved.source), len(saved.target)
    return [
        [tuple(random_rows(draw, side) for side in sides) for _ in range(count)] for count in shape
    ]


def reference_scores(reference, pair) -> np.ndarray:
    """What the reference gives each word of a translation."""
    source, target = ([*side, marian.EOS] for side in pair)
    return marian.log_softmax(reference.logits(source, target))[range(len(target)), target]


def largest_error(found, saved, documents) -> float:
    """Largest difference between scores of documents and those of the reference, sentence by
    sentence.
    """
    errors = [
        np.abs(np.array(scores) - reference_scores(saved.reference, pair)).max()
        for sentences, document in zip(found, documents, strict=True)
        for scores, pair in zip(sentences, document, strict=True)
    ]
    return max(errors)


# All kinds in one form, some in the others; int8 without those that are refused
# (test_marian_files.py).
IN_FORMS = [(kind, "npz") for kind in KINDS] + [(kind, "bin") for kind in KINDS[::7]]
IN_FORMS += [(kind, "int8") for kind in [kind for kind in KINDS if kind["embeddings"] in TIED][::4]]


@pytest.mark.parametrize(
    ("kind", "form"), IN_FORMS, ids=lambda one: one if isinstance(one, str) else name_of(one)
)
def test_log_probabilities(tmp_path, kind, form):
    saved = save(tmp_path, form, **kind)
    converted, documents = Converted(saved), random_documents(saved, (3, 1))
    assert largest_error(converted.scores(documents), saved, documents) < 1e-8


def save_searchable(tmp_path, decoder: str, norm: str, form: str = "npz"):
    return save(
        tmp_path, form, decoder=decoder, norm=norm, layers=(1, 2), seed=SEEDS[decoder, norm]
    )


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("norm", NORMS)
def test_greedy_search_is_the_references(tmp_path, decoder, norm):
    """Documents of 1 to 6 sentences, which end at different steps: all at once, one by one."""
    saved = save_searchable(tmp_path, decoder, norm)
    converted = Converted(saved)
    documents = [[source for source, _ in one] for one in random_documents(saved, range(1, 7))]
    most = SEARCH["max_len_b"]
    expected = [
        [saved.reference.greedy([*one, marian.EOS], most) for one in document]
        for document in documents
    ]
    lengths = {len(sentence) for document in expected for sentence in document}
    assert (
        len(lengths) > 3 and 1 in lengths and most + 1 in lengths
    )  # empty, long, and between: the search has a choice
    assert [found for found, _ in converted.search(documents)] == expected
    assert [converted.search([document])[0][0] for document in documents] == expected
    use_caches(converted.model, False)
    assert [found for found, _ in converted.search(documents)] == expected


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_document_is_translated_as_each_of_its_sentences(tmp_path, decoder):
    """Each has a beam of its own; a line stays a line."""
    converted, draw = Converted(save_searchable(tmp_path, decoder, "post")), random.Random(1)
    text = [
        " ".join(draw.choices(["abc", "fed", "gg", "b"], k=draw.randint(1, 6))) for _ in range(20)
    ]
    text[3:3] = ["", "abc " * 300, "<s>", "[de] <mask>", " "]
    found = converted.translator.translate(text, beam=4)
    assert found == [converted.translator.translate([line], beam=4)[0] for line in text]
    assert len(found) == len(text) and found[3] == found[7] == ""


def document_model(converted: Converted, **options) -> GTransformerModel:
    """What training with ``--sentence-model`` begins with, in float64."""
    cfg = GTransformerConfig(
        sentence_model=str(converted.folder), doc_mode="partial", dropout=0.0,
        encoder_ctxlayers=1, decoder_ctxlayers=2, cross_ctxlayers=1, **options,
    )  # fmt: skip
    cfg.max_source_positions = cfg.max_target_positions = 1_000_000
    task = converted.task
    start_from_sentence_model(cfg, None, task)
    torch.manual_seed(3)
    model = (
        GTransformerModel.build(cfg, task.source_dictionary, task.target_dictionary).double().eval()
    )
    model.load_state_dict(read_state(converted.folder)["model"])
    return model


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("decoder", DECODERS)
def test_a_document_model_starts_exactly_there(tmp_path, decoder, norm):
    """Behind translations that are there, it translates as without them."""
    saved = save_searchable(tmp_path, decoder, norm, "int8")
    converted, documents = Converted(saved), random_documents(saved, (4, 1, 6))
    model = document_model(converted)
    assert largest_error(converted.scores(documents, model), saved, documents) < 1e-5
    sources = [[source for source, _ in one] for one in documents]
    greedy = [found for found, _ in converted.search(sources)]
    behind = converted.search(sources, model, Strategy("sequential", None, 2))
    assert [found for found, _ in behind] == greedy
