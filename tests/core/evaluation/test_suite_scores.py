"""The contrastive command's scores equal one plain forward pass per candidate."""

from __future__ import annotations

import pytest
from fairseq.checkpoint_utils import load_model_ensemble_and_task

from gtransformer.files import read_json, write_json
from gtransformer.preprocess.chain import open_text
from tests.core.evaluation.support import score_by_hand
from tests.support import command, write_lines

main = command("contrastive")


pytestmark = pytest.mark.slow

# Two documents: lines of context and the sentences in question, which are the third and the second.
DOCUMENTS = {
    "a/1": (
        ["The old dog sleeps.", "A river?", "The dog finds a tree.", "And Mary sleeps."],
        ["Der alte Hund schläft.", "Ein Fluss?", "Er findet einen Baum.", "Und Maria schläft."],
    ),
    "b/2": (["The red book.", "It sleeps under trees."], ["Das Buch.", "Es schläft unter Bäumen."]),
}


def entry(
    document: str, segment: int, wrong: list[str], distance: int, intrasegmental: bool | None
) -> dict:
    source, right = (side[segment - 1] for side in DOCUMENTS[document])
    errors = [{"contrastive": text, "type": "pronominal coreference"} for text in wrong]
    known = {
        "src segment": source,
        "ref segment": right,
        "src pronoun": "It",
        "ref pronoun": right.split()[0],
    }
    place = {"document id": document, "segment id": segment, "ante distance": distance}
    return known | place | {"errors": errors, "intrasegmental": intrasegmental}


CONTRAPRO = [
    entry("a/1", 3, ["Es findet einen Baum.", "Sie findet einen Baum."], 2, False),
    entry("b/2", 2, ["Er schläft unter Bäumen."], 5, None),
    entry("a/1", 4, ["Und Maria findet.", "Rotes Buch?", "Der Fluss."], 0, True),
]


def test_contrapro_by_one_pass_a_candidate(saved_model, tmp_path, capsys):
    for identity, sides in DOCUMENTS.items():
        for lang, lines in zip(("en", "de"), sides, strict=True):
            write_lines(tmp_path / "subtitles" / f"{identity}.{lang}", lines)
    write_json(tmp_path / "items.json", CONTRAPRO)
    prepared, checkpoint = saved_model.parent / "prepared", saved_model.parent / "checkpoint.pt"
    files = [
        f"--items={tmp_path / 'items.json'}",
        f"--output={tmp_path / 'o.json'}",
        f"--path={checkpoint}",
    ]
    context = ["--context=2", f"--documents={tmp_path / 'subtitles'}"]
    assert main([str(prepared), *files, *context, "--cpu", "--max-tokens=60"]) == 0
    result = read_json(tmp_path / "o.json")

    (model,), _, task = load_model_ensemble_and_task([str(checkpoint)])
    solved = 0
    for item, found in zip(CONTRAPRO, result["items"], strict=True):
        last = item["segment id"] - 1
        english, german = (
            list(side[max(0, last - 2) : last]) for side in DOCUMENTS[item["document id"]]
        )
        expected = []
        for text in [item["ref segment"], *(error["contrastive"] for error in item["errors"])]:
            source = open_text(prepared, "en").encode([*english, item["src segment"]])
            target = open_text(prepared, "de").encode([*german, text])
            sides = [
                [[dictionary.index(word) for word in sentence.split()] for sentence in sentences]
                for dictionary, sentences in (
                    (task.source_dictionary, source),
                    (task.target_dictionary, target),
                )
            ]
            expected.append(
                score_by_hand(model.eval(), task.target_dictionary, *sides, len(german))
            )
        assert found["scores"] == pytest.approx(expected, abs=5e-5)
        assert min(abs(expected[0] - other) for other in expected[1:]) > 1e-3, (
            "candidates must differ"
        )
        assert found["solved"] == (expected[0] == max(expected))
        solved += found["solved"]
    assert result["total"]["solved"] == solved and result["total"]["items"] == 3
    assert list(result["by_phenomenon"]) == ["it:er", "it:es", "it:und"]
    assert list(result["by_distance"]) == ["0", "2", "4-6"]
    assert result["mean_context_sentences"] == pytest.approx((2 + 1 + 2) / 3)
    assert f"{solved}/3" in capsys.readouterr().out
