"""A trained model of the authors' release and its search: the same translations, at the same
scores.
"""

from __future__ import annotations

import math
import random
from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary

from gtransformer.files import read_json
from gtransformer.models.gtransformer import GTransformerConfig, GTransformerModel
from tests.core.search.conftest import Translator
from tests.support import PARITY, random_document, tiny_model, tiny_task

pytestmark = pytest.mark.slow

HERE = PARITY / "search"
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def release():
    """Dictionary, task and model of the release, the latter as its checkpoint says."""
    import numpy as np

    dictionary = Dictionary.load(str(HERE / "dict.txt"))
    options = read_json(HERE / "args.json")
    known = {key: value for key, value in options.items() if hasattr(GTransformerConfig, key)}
    task = tiny_task(dictionary)
    model = GTransformerModel.build(GTransformerConfig(**known), dictionary, dictionary).eval()
    with np.load(HERE / "state.npz") as state:
        model.load_state_dict(
            {name: torch.from_numpy(state[name]) for name in state.files}, strict=True
        )
    return SimpleNamespace(dictionary=dictionary, task=task, model=model)


@pytest.fixture(scope="module")
def expected():
    return read_json(HERE / "nbest.json")


def search(release, lines: list[str]) -> list[list[dict]]:
    """n-best lists of ``<s> a b </s> <s> c </s>`` lines in one batch, in their order."""
    tokens = [release.dictionary.encode_line(line, add_if_not_exist=False).long() for line in lines]
    dataset = release.task.build_dataset_for_inference(tokens, [len(one) for one in tokens])
    wanted = Namespace(**{"beam": 5, "nbest": 5, "max_len_a": 1.2, "max_len_b": 10})
    generator = release.task.build_generator([release.model], wanted)
    sample = dataset.collater([dataset[number] for number in range(len(tokens))])
    found = release.task.inference_step(generator, [release.model], sample)
    by_number = dict(zip(sample["id"].tolist(), found, strict=True))
    return [by_number[number] for number in range(len(lines))]


def test_nbest_lists_are_the_releases(release, expected):
    lines = (HERE / "test.en").read_text().splitlines()
    assert len(lines) == len(expected) == 6
    for found, entry in zip(search(release, lines), expected, strict=True):
        assert len(found) == len(entry["nbest"]) == 5
        for ours, theirs in zip(found, entry["nbest"], strict=True):
            *words, language = (release.dictionary[token] for token in ours["tokens"].tolist())
            assert (words, language) == (theirs["tokens"], "[de]")
            assert float(ours["score"]) / math.log(2) == pytest.approx(
                theirs["score_bits_per_token"], rel=TOLERANCE
            )
            bits = [score / math.log(2) for score in ours["positional_scores"].tolist()]
            assert bits == pytest.approx(theirs["positional_scores_bits"], abs=1e-4)


def test_sinusoidal_positions_do_not_shorten_translations(release, dictionary):
    """The release's checkpoints say --max-target-positions 1024; documents may come out longer all
    the same.
    """
    assert release.model.decoder.max_positions() == 1024
    model = tiny_model(dictionary, max_source_positions=20, max_target_positions=20)
    translate = Translator(dictionary, [model], beam=1, max_len_a=0, max_len_b=3, min_len=3)
    ((best, *_),) = translate([random_document(random.Random(1), dictionary, [2] * 12)])
    assert [len(words) for words in translate.sentences(best)] == [3] * 12
