"""A real student (``tests/student.py``): as the NumPy reference has it, word by word."""

from __future__ import annotations

import numpy as np
import pytest
from sentencepiece import SentencePieceProcessor

from tests.core import marian_numpy as marian
from tests.core.models.from_sentence_model.marian_models import Converted, Saved, words_of
from tests.core.models.from_sentence_model.test_marian import largest_error
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


def test_greedy_translations(given, converted):
    """Of a document of ten sentences; and these words cost what they cost there."""
    (pieces,) = given.path.parent.glob("vocab.*.spm")
    rows = SentencePieceProcessor(model_file=str(pieces)).encode(ENGLISH)
    expected = [
        given.reference.greedy([*one, marian.EOS], int(1.2 * len(one) + 10)) for one in rows
    ]
    ((found, _),) = converted.search([rows], max_len_a=1.2, max_len_b=10)
    assert found == expected
    documents = [[(one, other[:-1]) for one, other in zip(rows, expected, strict=True)]]
    scores = converted.scores(documents)
    assert largest_error(scores, given, documents) < 1e-8
    # It is sure of its translations: the reference has read the file as it is meant.
    assert all(np.mean(own) > -1.5 for own in scores[0])
