"""s-BLEU and d-BLEU of a corpus written by hand, against sacrebleu and BLEU's definition."""

from __future__ import annotations

from itertools import chain

import pytest
import sacrebleu

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.evaluation.references import REFERENCES
from gtransformer.evaluation.score import score_translations
from gtransformer.files import read_json
from tests.core.evaluation.support import PIECES, TEXT, jsonl_lines, write_jsonl, write_pieces
from tests.support import command

main = command("score")

PLAIN = [
    ["Das Haus ist neu.", "Er ist auch groß.", "Du kennst es gut."],
    ["Ich sehe den Hund.", "Er bellt nachts in der Nacht."],
]


def segments(documents: list[list[str]], kind: str) -> list[str]:
    """The segments of a score, made here without the product's functions."""
    if kind == "s_bleu":
        return list(chain(*documents))
    if kind == "d_bleu":
        return [" ".join(document) for document in documents]
    first, second = documents
    return [" ".join(first[:2]), first[2], " ".join(second)]


def test_equals_sacrebleu(prepared, hypotheses):
    scores = score_translations(prepared, "test", hypotheses).scores["raw"]
    target = TEXT["de"]
    assert scores.segments.text == PLAIN
    for kind in ("s_bleu", "d_bleu", "d_bleu_instance"):
        ours, cut = scores.values[kind], segments(PLAIN, kind)
        expected = sacrebleu.corpus_bleu(cut, [segments(target, kind)]).score
        assert 20 < expected < 90, "the case must be able to tell right from wrong"
        assert (ours.score, ours.segments) == (expected, len(cut))


def test_misaligned_instances(prepared, tmp_path):
    """Sentences cut otherwise than the source's: s-BLEU aligns them by order, d-BLEU sees the same
    words as before.
    """
    (a, b), (c,), (d, e) = (
        ["das Haus ist alt .", "es ist auch groß ."],
        ["du kennst es gut ."],
        PIECES[2],
    )
    cut = [[f"{a} {b}"], [c], [d, *e.split(" ", 1)]]
    path = write_jsonl(tmp_path / "cut.jsonl", jsonl_lines(cut))
    evaluation = score_translations(prepared, "test", path, ["release"])
    scores = evaluation.scores["release"]
    assert evaluation.counts["misaligned_instances"] == 2
    assert scores.values["d_bleu"].score == pytest.approx(100)
    assert scores.values["d_bleu_instance"].score == pytest.approx(100)
    (first, empty, third), last = scores.segments.text
    assert (
        first == "das Haus ist alt. es ist auch groß."
        and empty == ""
        and last[1] == "er bellt in der Nacht."
    )
    expected = sacrebleu.corpus_bleu(
        [first, empty, third, *last], [scores.segments.sentences.references]
    ).score
    assert scores.values["s_bleu"].score == expected < 95


def test_dropped_sentences_are_left_out_on_both_sides(prepared, tmp_path):
    places = [(0, 0, 1), (0, 2, 1), (1, 0, 2)]
    InstanceIndex("test", "en", "de", 2, places, [(0, 1)]).save(
        prepared / "bin" / "test.en-de.instances.json"
    )
    (a, _), (c,), (d, e) = PIECES
    write_pieces(prepared, [[a], [c], [d, e]])
    path = write_jsonl(tmp_path / "rest.jsonl", jsonl_lines([[a], [c], [d, e]], places))
    evaluation = score_translations(prepared, "test", path, list(REFERENCES))
    for scores in evaluation.scores.values():
        assert [
            scores.values[key].score for key in ("s_bleu", "d_bleu", "d_bleu_instance")
        ] == pytest.approx([100] * 3)
        assert scores.values["s_bleu"].segments == evaluation.counts["sentences"] == 4
    assert evaluation.counts["left_out_sentences"] == 1
    text = score_translations(prepared, "test", evaluation.write_text()).scores["raw"]
    assert text.values["d_bleu"].score == pytest.approx(100) and text.values["s_bleu"].segments == 4


def test_command_writes_json_text_and_table(prepared, hypotheses, tmp_path, capsys):
    output = tmp_path / "scores.json"
    arguments = [
        str(prepared),
        "--split",
        "test",
        "--hypotheses",
        str(hypotheses),
        "--reference",
        "both",
    ]
    assert main([*arguments, "--output", str(output)]) == 0
    result = read_json(output)
    assert result["counts"] == {
        "documents": 2, "instances": 3, "sentences": 5, "left_out_sentences": 0,
        "misaligned_instances": 0,
    }  # fmt: skip
    assert (result["split"], result["source_lang"], result["target_lang"]) == ("test", "en", "de")
    assert set(result["scores"]) == {"raw", "release"}
    assert {"commit", "command", "date", "hypotheses_sha256", "versions"} <= set(result)
    text = hypotheses.with_suffix(".txt").read_text(encoding="utf-8")
    assert text == "<d>\n" + "\n".join(PLAIN[0]) + "\n<d>\n" + "\n".join(PLAIN[1]) + "\n"
    printed = capsys.readouterr().out
    for scores in result["scores"].values():
        for score in scores.values():
            assert f"{score['score']:.2f}" in printed and score["signature"] in printed
