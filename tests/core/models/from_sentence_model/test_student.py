"""A real student (``tests/student.py``): as the NumPy reference has it, word by word."""

from __future__ import annotations

import numpy as np
import pytest
from sentencepiece import SentencePieceProcessor

from tests.core import marian_numpy as marian
from tests.core.models.from_sentence_model.marian_models import Converted, Saved, words_of
from tests.student import student

pytestmark = pytest.mark.slow

ENGLISH = [
    "You can change the color of the selected cells in the spreadsheet.",
    "Choose a file name, and then click Save.",
    "The formula returns an error if the range contains text.",
    "It was old.",
    "To remove a page break, place the cursor at the beginning of the page and press Backspace.",
    "My aunt lost her bat yesterday; the neighbours have not seen it since.",
    "Opens a dialog where you can edit the properties of the chart.",
    "Is this table sorted by the first column or by the second one?",
    "Thanks!",
    "If you enable this option, numbers with more than 15 digits are rounded.",
]


@pytest.fixture(scope="module")
def given():
    folder = student("enpt")
    (path,), (pieces,) = folder.glob("model.*.bin"), folder.glob("vocab.*.spm")
    words = words_of(pieces)
    return Saved(path, marian.MarianReference(*marian.read_binary(path)), words, words)


@pytest.fixture(scope="module")
def converted(given, tmp_path_factory) -> Converted:
    return Converted(given, tmp_path_factory.mktemp("student") / "model", ("en", "pt"))


def rows_of(given: Saved) -> list[list[int]]:
    (pieces,) = given.path.parent.glob("vocab.*.spm")
    return SentencePieceProcessor(model_file=str(pieces)).encode(ENGLISH)


def test_greedy_translations(given, converted):
    """Of a document of ten sentences; and these words cost what they cost there."""
    expected, rows = [], rows_of(given)
    for one in rows:
        expected.append(
            given.reference.beam_search([*one, marian.EOS], 1, int(1.2 * len(one) + 10))[0]
        )
    ((found, _),) = converted.search([rows], max_len_a=1.2, max_len_b=10)
    assert found == expected
    (scores,) = converted.scores(
        [[(one, other[:-1]) for one, other in zip(rows, expected, strict=True)]]
    )
    for one, target, own in zip(rows, expected, scores, strict=True):
        logits = given.reference.logits([*one, marian.EOS], target)
        wanted = marian.log_softmax(logits)[range(len(target)), target]
        assert np.abs(np.array(own) - wanted).max() < 1e-8
        assert (
            wanted.mean() > -1.5
        )  # it is sure of its translations: the reference has read the file as it is meant


def test_beam_search(given, converted):
    """Of single sentences, as fairseq does it."""
    rows = rows_of(given)[:4]
    expected = [
        given.reference.beam_search([*one, marian.EOS], 4, int(1.2 * len(one) + 10))[0]
        for one in rows
    ]
    found = converted.search([[one] for one in rows], beam=4, max_len_a=1.2, max_len_b=10)
    assert [one for one, _ in found] == [[one] for one in expected]
