"""Search by the Document Transformer."""

from __future__ import annotations

import pytest
import torch

from tests.core.models.test_numpy import SYSTEMS, pairs
from tests.core.search.conftest import Translator
from tests.full_passes import use_caches

pytestmark = pytest.mark.slow


@torch.no_grad()
@pytest.mark.parametrize(
    "name", ["context", "context, encoder", "context, prenorm residual decoder"]
)
def test_search_finds_one_sentence_with_caches_and_without(dictionary, name):
    """Beams change places, finished sentences leave; the context is encoded once for all."""
    model = SYSTEMS[name][0](dictionary)
    sources = [source for source, _ in pairs(dictionary)]
    encoded = []
    model.encoder.context_encoder.layers[0].register_forward_hook(lambda *given: encoded.append(1))
    options = {"beam": 3, "max_len_a": 1, "max_len_b": 2, "nbest": 3}
    found = []
    for caches in (True, False):
        use_caches(model, caches)
        translate = Translator(dictionary, [model], **options)
        found.append(translate(sources))
        assert len(encoded) == len(found)
    found.append([one for source in sources for one in translate([source])])  # each by itself
    for source, ours, *others in zip(sources, *found, strict=True):
        words = (
            len(source) - 2 - max(i for i, token in enumerate(source) if token == dictionary.bos())
        )
        for one in ours:
            (sentence,) = translate.sentences(one)
            assert len(sentence) <= words + 2
        for other in others:
            assert [one["tokens"].tolist() for one in ours] == [
                one["tokens"].tolist() for one in other
            ]
            scores = [
                torch.stack([one["score"] for one in side]).double() for side in (ours, other)
            ]
            assert torch.allclose(*scores, atol=1e-6)
