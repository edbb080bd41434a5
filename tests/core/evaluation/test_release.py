"""The release's scores, computed again with sacremoses and sacrebleu alone."""

from __future__ import annotations

import pytest
from sacrebleu.metrics import BLEU
from sacremoses import MosesDetokenizer

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.evaluation.score import score_translations
from tests.core.evaluation.support import INSTANCES, jsonl_lines, write_jsonl, write_pieces

# Three instances. The translation lacks a quotation mark in its first sentence, which turns those
# of the second.
REFERENCE = [
    ["sie sagte : „ ja “ .", "„ nein “ , sagte er ( heute ) ."],
    ["Haus@@ boote sind schön ."],
    ["das kostet $ 5 .", "es ist 10 % t@@ eurer &amp; geht 's gut !"],
]
TRANSLATION = [
    ["sie sagte : „ ja .", "„ nein “ , sagte er ( heute ) ."],
    ["Boote sind sch@@ ön ."],
    ["das kostet $ 6 .", "es wird 10 % t@@ eurer &amp; geht 's gut !"],
]


def detokenised(instances: list[list[str]], together: bool = True) -> list[list[str]]:
    """The release's text of instances, or that of sentences detokenised one by one."""
    detokenise = MosesDetokenizer("de").detokenize
    result = []
    for sentences in instances:
        lines = [" </s> ".join(sentences)] if together else sentences
        text = "</s>".join(detokenise(line.replace("@@ ", "").split()) for line in lines)
        result.append([part.strip() for part in text.split("</s>")])
    return result


def bleu(
    hypotheses: list[list[str]], references: list[list[str]], by_instance: bool
) -> tuple[float, str]:
    """sacrebleu's default BLEU by sentence or by instance."""
    sides = [
        [" ".join(sentences) for sentences in side]
        if by_instance
        else [line for part in side for line in part]
        for side in (hypotheses, references)
    ]
    metric = BLEU()
    score = metric.corpus_score(sides[0], [sides[1]]).score
    return score, str(metric.get_signature())


@pytest.fixture
def instances(prepared, tmp_path):
    """A function that scores a translation against a reference, both as instances of pieces."""

    def run(translation, reference, **options):
        write_pieces(prepared, reference, **options)
        path = write_jsonl(tmp_path / "out.jsonl", jsonl_lines(translation))
        return score_translations(prepared, "test", path, ["release"]).scores["release"]

    return run


def test_whole_instances_are_detokenised_and_then_cut(instances):
    scores = instances(TRANSLATION, REFERENCE)
    wanted, produced = detokenised(REFERENCE), detokenised(TRANSLATION)
    for key, by_instance in (("s_bleu", False), ("d_bleu_instance", True)):
        score, signature = bleu(produced, wanted, by_instance)
        assert scores.values[key].score == score and scores.values[key].signature == signature
        assert "tok:13a" in signature and "case:mixed" in signature
        one_by_one = bleu(
            detokenised(TRANSLATION, False), detokenised(REFERENCE, False), by_instance
        )[0]
        assert abs(score - one_by_one) > 1, "the case must tell the two orders apart"
    assert scores.segments.text == [[*produced[0], *produced[1]], produced[2]]
    assert scores.segments.sentences.references == [
        line for sentences in wanted for line in sentences
    ]
    assert (
        scores.segments.instances.references[2] == "das kostet $5. es ist 10% teurer & geht 's gut!"
    )
    # By hand: truecasing stays, BPE and escapes go, and the quotation mark that is missing shows in
    # the next sentence.
    assert [*produced[0], *produced[1], produced[2][0]] == [
        "sie sagte: „ja.", "„ nein “, sagte er (heute).", "Boote sind schön.", "das kostet $6.",
    ]  # fmt: skip
    assert wanted[0] == ["sie sagte: „ja“.", "„nein“, sagte er (heute)."]


def test_unknown_words_of_the_reference_match_nothing(instances):
    """As in fairseq-generate, which reads the reference from the binary data."""
    unknown = [
        [sentence.replace("schön", "<unk>") for sentence in sentences] for sentences in REFERENCE
    ]
    scores = instances(unknown, REFERENCE, unknown=("schön",))
    assert scores.segments.sentences.references[2] == "Hausboote sind <<unk>>."
    assert scores.segments.sentences.hypotheses[2] == "Hausboote sind <unk>."
    assert scores.values["s_bleu"].score < 99


def test_sentencepiece(prepared, tmp_path):
    """mBART: pieces are joined to words first; the language is de_DE, and there is no tokenised
    text.
    """
    for path in prepared.rglob("test.de"):
        path.rename(path.with_name("test.de_DE"))
    (prepared / "bin" / "test.en-de.instances.json").unlink()
    instance_index = InstanceIndex("test", "en", "de_DE", 2, INSTANCES)
    instance_index.save(prepared / "bin" / "test.en-de_DE.instances.json")
    pieces = [["▁Er ▁sagt ▁: ▁„ ▁Ja “ .", "▁Das ▁Haus boot"], ["▁x"], ["▁y", "▁z"]]
    write_pieces(prepared, pieces, "de_DE")
    (prepared / "sentencepiece.model").touch()
    path = write_jsonl(tmp_path / "out.jsonl", jsonl_lines(pieces))
    scores = score_translations(prepared, "test", path, ["release"]).scores["release"]
    words = "Er sagt : „ Ja“. </s> Das Hausboot </s>".split()
    expected = [part.strip() for part in MosesDetokenizer("de").detokenize(words).split("</s>")][:2]
    assert expected == ["Er sagt: „Ja“.", "Das Hausboot"]
    assert scores.segments.text[0][:2] == scores.segments.sentences.references[:2] == expected
