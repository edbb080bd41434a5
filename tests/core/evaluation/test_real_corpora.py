"""Scores of hypotheses of real corpora equal those of sacrebleu's own command."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path

import pytest

from gtransformer.evaluation.score import score_text
from gtransformer.preprocess.characters import one_form
from gtransformer.preprocess.plain_text import read_plain, write_documents
from tests.support import SHARED

DATA = SHARED / "data"
# Nine German sides, and an English one.
REFERENCES = [*sorted(DATA.glob("*/*_de.txt.xz")), DATA / "newstest2019" / "concatenated_en2de_test_en.txt.xz"]
REFERENCES = [path for path in REFERENCES if "_train_" not in path.name]
SENTENCES = 150


def worsened(sentence: str, draw: random.Random) -> str:
    """A sentence with words left out, exchanged and in lower case; sometimes nothing is left."""
    words = [word.lower() if draw.random() < 0.05 else word for word in sentence.split() if draw.random() < 0.93]
    if len(words) > 2 and draw.random() < 0.5:
        at = draw.randrange(len(words) - 1)
        words[at : at + 2] = words[at : at + 2][::-1]
    return " ".join(words) if draw.random() < 0.98 else ""


def whole_documents(path: Path) -> list[list[str]]:
    """The first documents, of about ``SENTENCES`` sentences."""
    documents, count = [], 0
    for document in read_plain(path)[0]:
        if count > SENTENCES:
            break
        documents.append([one_form(sentence) for sentence in islice(document, SENTENCES)])
        count += len(document)
    return documents


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the corpora are not part of the repository")
@pytest.mark.parametrize("path", REFERENCES, ids=lambda path: f"{path.parent.name}-{path.name[18:-7]}")
def test_equal_to_sacrebleus_command(path, tmp_path, helpers):
    reference, draw = whole_documents(path), random.Random(path.name)
    hypothesis = [[worsened(sentence, draw) for sentence in document] for document in reference]
    for name, documents in (("out", hypothesis), ("like", reference)):
        write_documents(tmp_path / name, documents)
    found = score_text(tmp_path / "like", tmp_path / "out").scores["raw"].values
    sentences = [[sentence for document in side for sentence in document] for side in (hypothesis, reference)]
    whole = [[" ".join(filter(None, document)) for document in side] for side in (hypothesis, reference)]
    expected = helpers.sacrebleu_command(*sentences, tmp_path, "--metrics", "bleu", "chrf", "ter")
    expected.append(helpers.sacrebleu_command(*whole, tmp_path, "--metrics", "bleu"))
    for key, one in zip(("s_bleu", "chrf", "ter", "d_bleu"), expected, strict=True):
        assert round(found[key].score, 14) == pytest.approx(one["score"], abs=1e-12)
        assert found[key].signature == one["signature"] and 3 < one["score"] < 97
