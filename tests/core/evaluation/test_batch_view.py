"""What of its batch a model reads beside an item, and how many items that discloses."""

from __future__ import annotations

import pytest

from gtransformer.cli.contrastive_table import table
from gtransformer.data.places import Place
from gtransformer.evaluation.batch_scores import BatchScorer
from gtransformer.evaluation.contrastive import Item, report, score_items
from tests.core.models.batch_documents import CONTEXT, document, made
from tests.core.models.test_docflat import ABD, DOCFLAT, MBE

TOGETHER, SENTENCES = 3, 8
# Kinds, options, and how many sentences back the batch is read: the current ones of two others, or all of theirs.
SYSTEMS = {
    "C both": (DOCFLAT, {}, (2, 2)),
    "C encoder": (DOCFLAT, {"batch_attention_in": "encoder"}, (2, 0)),
    "C decoder": (DOCFLAT, {"batch_attention_in": "decoder"}, (0, 2)),
    "ABD": (ABD, {}, (2 + CONTEXT, 0)),
    "ABD both": (ABD, {"batch_attention_in": "both"}, (2 + CONTEXT, 2 + CONTEXT)),
    "MBE": (MBE, {}, (2 + CONTEXT, 0)),
}


def score(scorer: BatchScorer, sides: list[list[list[int]]], local: int, back: tuple[int, int] = (1, 1)):
    """The last sentence of a document as an item, decided so many sentences back, behind ``local`` others."""
    places = [Place(0, max(0, i - local), min(local, i) + 1, (i, 1)) for i in range(SENTENCES)]
    text = " ".join(map(str, sides[1][-1]))
    item = Item(0, "p", "d", 0, SENTENCES - 1, min(back), text, ("5",), *back)

    def read(number: int):
        return tuple(side[max(0, number - local) : number + 1] for side in sides)

    (found,) = score_items(
        scorer, [item], places, read, lambda texts: [[int(word) for word in one.split()] for one in texts]
    )
    return found


@pytest.fixture(params=SYSTEMS)
def system(dictionary, request):
    kinds, options, reach = SYSTEMS[request.param]
    batch = document(dictionary, sentences=SENTENCES)
    sides = [[tokens[1:-1] or [6] for tokens in side] for side in (batch.source, batch.target)]
    return BatchScorer(made(dictionary, *kinds, **options), dictionary, dictionary, TOGETHER), sides, reach


def test_it_reads_so_far_and_no_farther(system):
    """Another word in a sentence that is read is another score, in one that is not it is the same."""
    scorer, sides, reach = system
    usual = score(scorer, sides, CONTEXT)
    for side, farthest in enumerate(reach):
        for back in range(1, SENTENCES):
            changed = [list(one) for one in sides]
            old = changed[side][-1 - back]
            changed[side][-1 - back] = [7 if old[0] != 7 else 8, *old[1:]]
            same = score(scorer, changed, CONTEXT).wrong == usual.wrong
            assert same == (back > max(farthest, CONTEXT)), (side, back)


def test_what_discloses_is_the_instance_or_the_batch_or_nothing(system):
    """Behind one sentence of context: the two others of the batch reach one farther with theirs than without."""
    scorer, sides, reach = system
    reach = tuple(min(one, 3) for one in reach)  # with one sentence of context instead of two
    far = SENTENCES
    for side in (0, 1):
        for back in range(1, SENTENCES):
            found = score(scorer, sides, 1, (back, far) if side == 0 else (far, back))
            assert (found.context_in_view, found.in_batch) == (back <= 1, 1 < back <= reach[side])


def test_a_report_counts_them(system):
    scorer, sides, reach = system
    back = [(number, SENTENCES) for number in (1, 2, 3, 4)]
    result = report([score(scorer, sides, 1, one) for one in back])
    batch = max(0, min(reach[0], 3) - 1)
    view = {name: part["items"] for name, part in result["by_phenomenon_and_view"]["p"].items()}
    assert view == {
        name: count for name, count in (("in view", 1), ("in batch", batch), ("out of view", 3 - batch)) if count
    }
    assert (result.get("context_in_batch", 0), result["context_out_of_view"]) == (batch, 3 - batch)
    printed = table(result).splitlines()
    assert f"note: of {3 - batch} items nothing that the model reads tells the answer" in printed
    told = f"note: of {batch} items only the other sentences of the batch tell the answer"
    assert (told in printed) == bool(batch)
