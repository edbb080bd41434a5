"""Translations of instances that were grouped when the corpus was loaded: put back, scored, or
refused.
"""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.data.instances import InstanceScheme, build_instances
from gtransformer.data.translations import read_documents
from gtransformer.evaluation.score import score_translations
from tests.core.evaluation.support import HYPOTHESES, INSTANCES, PIECES, write_jsonl, write_pieces
from tests.raw_corpus import write_moses_files

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
TILES = {"single", "documents", "pairs"}


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


@pytest.fixture
def direct(tmp_path, prepared):
    """make(lines): the same corpus prepared with these instances, and the translations as they were
    before.
    """

    def make(lines):
        folder = tmp_path / "direct"
        shutil.copytree(prepared / "text", folder / "text")
        write_moses_files(folder)
        pieces = dict(
            zip(
                PLACES,
                [sentence for instance in PIECES for sentence in instance],
                strict=True,
            )
        )
        places = [(line["document"], line["first_sentence"], line["sentences"]) for line in lines]
        write_pieces(
            folder, [[pieces[d, first + i] for i in range(count)] for d, first, count in places]
        )
        InstanceIndex("test", "en", "de", 2, places).save(
            folder / "bin" / "test.en-de.instances.json"
        )
        plain = [{key: value for key, value in line.items() if key != "current"} for line in lines]
        write_jsonl(tmp_path / "direct.jsonl", plain)
        return folder

    return make


@pytest.mark.parametrize("kind", sorted(TILES))
def test_scores_are_those_of_a_corpus_prepared_like_that(
    kind, tmp_path, prepared, regrouped, direct
):
    lines = regrouped(kind)
    found = score_translations(
        prepared, "test", write_jsonl(tmp_path / "r.jsonl", lines), REFERENCES
    )
    expected = score_translations(direct(lines), "test", tmp_path / "direct.jsonl", REFERENCES)
    for name in REFERENCES:
        assert found.scores[name].to_json() == expected.scores[name].to_json()
        assert "d_bleu_instance" in found.scores[name].values
    assert found.counts == expected.counts and found.counts["instances"] == len(lines)


@pytest.mark.parametrize("kind", sorted(SCHEMES.keys() - TILES))
def test_each_sentence_is_taken_where_it_is_current(
    kind, tmp_path, prepared, hypotheses, regrouped
):
    lines = regrouped(kind)
    assert any("not this" in line["hypotheses"][0]["sentences"] for line in lines)
    path = write_jsonl(tmp_path / "r.jsonl", lines)
    sentences = [sentence for instance in HYPOTHESES for sentence in instance]
    documents = read_documents(path, InstanceIndex("test", "en", "de", 2, INSTANCES))
    assert documents == [sentences[first:last] for first, last in RUNS]
    found = score_translations(prepared, "test", path, REFERENCES)
    expected = score_translations(prepared, "test", hypotheses, REFERENCES)
    assert found.scores["raw"].segments.text == expected.scores["raw"].segments.text
    wanted = {
        key: value
        for key, value in expected.scores["raw"].to_json().items()
        if key != "d_bleu_instance"
    }
    assert found.scores["raw"].to_json() == wanted
    assert found.scores["release"].values.keys() == found.scores["raw"].values.keys()
    assert found.counts == expected.counts | {"instances": 5, "misaligned_instances": 0}
