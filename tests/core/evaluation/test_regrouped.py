"""Translations of instances that were grouped when the corpus was loaded: put back, scored, or
refused.
"""

from __future__ import annotations

import numpy as np
import pytest

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.data.instances import InstanceScheme, build_instances
from gtransformer.data.translations import read_documents
from gtransformer.evaluation.score import score_translations
from tests.core.evaluation.support import HYPOTHESES, INSTANCES, write_jsonl

REFERENCES = ("raw", "release")
PLACES = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]  # (document, sentence)
RUNS = [(0, 3), (3, 5)]
SCHEMES = {
    "single": InstanceScheme("disjoint", context=0),
    "documents": InstanceScheme("greedy", tokens=1000),
    "pairs": InstanceScheme("disjoint", context=1),
    "sliding": InstanceScheme("sliding", context=2),
    "current": InstanceScheme("current", context=2, target_context=1),
}
AS = {"single": "s_bleu", "documents": "d_bleu"}  # what BLEU by instance is


@pytest.fixture
def regrouped(tmp_path):
    """make(scheme): the file's lines with the same sentences in other instances; what is not
    current is rubbish.
    """
    sentences = [sentence for instance in HYPOTHESES for sentence in instance]
    lengths = np.array([len(sentence.split()) + 2 for sentence in sentences])

    def make(kind):
        made = build_instances(SCHEMES[kind], lengths, lengths, RUNS)
        lines = []
        for number, ((first, last), (begin, end)) in enumerate(
            zip(made.target.tolist(), made.current.tolist(), strict=True)
        ):
            text = [sentences[i] if begin <= i < end else "not this" for i in range(first, last)]
            lines.append(
                {
                    "id": number, "document": PLACES[first][0], "first_sentence": PLACES[first][1],
                    "sentences": last - first, "current": [PLACES[begin][1], end - begin],
                    "hypotheses": [{"score": -0.5, "sentences": text}],
                }
            )  # fmt: skip
        return lines

    return make


@pytest.mark.parametrize("kind", SCHEMES)
def test_each_sentence_is_taken_where_it_is_current(
    kind, tmp_path, prepared, hypotheses, regrouped
):
    """Scores are those of the stored instances; by instance, those of sentences or documents."""
    lines = regrouped(kind)
    path = write_jsonl(tmp_path / "r.jsonl", lines)
    sentences = [sentence for instance in HYPOTHESES for sentence in instance]
    documents = read_documents(path, InstanceIndex("test", "en", "de", 2, INSTANCES))
    assert documents == [sentences[first:last] for first, last in RUNS]
    found = score_translations(prepared, "test", path, REFERENCES)
    expected = score_translations(prepared, "test", hypotheses, REFERENCES)
    assert found.counts == expected.counts | {"instances": len(lines)}
    for name in REFERENCES:
        scores, others = (one.scores[name].values for one in (found, expected))
        by_instance = scores.pop("d_bleu_instance", None)
        assert (by_instance is None) == (kind in ("sliding", "current"))
        if kind in AS:
            assert by_instance.score == scores[AS[kind]].score
        del others["d_bleu_instance"]
        assert scores == others
        assert found.scores[name].segments.text == expected.scores[name].segments.text
