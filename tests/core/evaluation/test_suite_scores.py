"""The contrastive command's scores equal one plain forward pass per candidate, for every kind of model."""

from __future__ import annotations

import json

import pytest

from gtransformer.cli.contrastive import main
from tests.core.evaluation.spelled import brute_force, save_model, write_prepared

pytestmark = pytest.mark.slow

# Two documents: lines of context and the sentences in question, which are the third and the second.
DOCUMENTS = {
    "a/1": (["the dog .", "see ?", "it barks .", "no ."], ["der hund .", "ja ?", "er bellt .", "nein ."]),
    "b/2": (["a house", "it is old !"], ["ein haus", "es ist alt !"]),
}


def entry(document: str, segment: int, source: str, right: str, wrong: list[str], **more) -> dict:
    errors = [{"contrastive": text, "type": "pronominal coreference"} for text in wrong]
    known = {"src segment": source, "ref segment": right, "src pronoun": "It", "ref pronoun": right.split()[0]}
    return {**known, "errors": errors, "document id": document, "segment id": segment, **more}


CONTRAPRO = [
    entry("a/1", 3, "it barks .", "er bellt .", ["es bellt .", "sie bellt ."],
          **{"ante distance": 2, "intrasegmental": False}),
    entry("b/2", 2, "it is old !", "es ist alt !", ["er ist alt !"], **{"ante distance": 5, "intrasegmental": None}),
    entry("a/1", 4, "no .", "nein .", ["er bellt .", "ja ?", "der hund ."],
          **{"ante distance": 0, "intrasegmental": True}),
]  # fmt: skip
VOITA = [
    {"src": "go away . _eos why ? _eos you know . _eos no !", "true_ind": 1, "ctx_dist": 3,
     "dst": ["иди . _eos что ? _eos ты знаешь . _eos нет !", "идите . _eos что ? _eos вы знаете . _eos нет !"]},
    {"src": "a _eos b _eos c _eos d", "true_ind": 0, "ctx_dist": 1,
     "dst": ["а _eos б _eos в _eos г", "а _eos б _eos в _eos д", "а _eos б _eos д _eos г"]},
]  # fmt: skip


def write_documents(folder, form: str = "{id}.{lang}"):
    for identity, sides in DOCUMENTS.items():
        for lang, lines in zip(("en", "de"), sides, strict=True):
            path = folder / form.format(id=identity, lang=lang)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def run(tmp_path, name: str, pair: tuple[str, str], items, *options: str) -> tuple[dict, object, object]:
    """The command's result, and the model and dictionary it used."""
    prepared = write_prepared(tmp_path / "prepared", *pair)
    model, dictionary = save_model(name, prepared, tmp_path / "model.pt", pair)
    path = tmp_path / "deixis_dev.json"
    path.write_text(json.dumps(items), encoding="utf-8")
    line = [str(prepared), f"--path={tmp_path / 'model.pt'}", "--items", str(path), f"--output={tmp_path / 'o.json'}"]
    assert main([*line, "--cpu", "--max-tokens=60", *options]) == 0
    return json.loads((tmp_path / "o.json").read_text(encoding="utf-8")), model, dictionary


@pytest.mark.parametrize("name", ["partial", "full", "transformer"])
def test_contrapro_by_brute_force(name, tmp_path, capsys):
    write_documents(tmp_path / "subtitles")
    options = ["--context=2", f"--documents={tmp_path / 'subtitles'}"]
    result, model, dictionary = run(tmp_path, name, ("en", "de"), CONTRAPRO, *options)
    solved = 0
    for item, found in zip(CONTRAPRO, result["items"], strict=True):
        sides = DOCUMENTS[item["document id"]]
        last = item["segment id"] - 1
        english, german = ([*side[max(0, last - 2) : last]] for side in sides)
        expected = []
        for text in [item["ref segment"], *(error["contrastive"] for error in item["errors"])]:
            source, target = [*english, item["src segment"]], [*german, text]
            expected.append(brute_force(model, dictionary, source, target)[-1])
        assert found["scores"] == pytest.approx(expected, abs=2e-5)
        assert min(abs(expected[0] - other) for other in expected[1:]) > 1e-3, "candidates must differ"
        assert found["solved"] == (max(range(len(expected)), key=expected.__getitem__) == 0)
        solved += found["solved"]
    assert result["total"]["solved"] == solved and result["total"]["items"] == 3
    assert list(result["by_phenomenon"]) == ["it:er", "it:es", "it:nein"]
    assert list(result["by_distance"]) == ["0", "2", "4-6"]
    assert result["mean_context_sentences"] == pytest.approx((2 + 1 + 2) / 3)
    shown = capsys.readouterr().out
    assert f"{solved}/3" in shown and "1.67 sentences of context on average" in shown


@pytest.mark.parametrize("name", ["partial", "transformer"])
def test_voita_by_brute_force(name, tmp_path):
    """The loss is that of all four sentences, also where candidates differ before the last one."""
    result, model, dictionary = run(tmp_path, name, ("en", "ru"), VOITA)
    for item, found in zip(VOITA, result["items"], strict=True):
        source = item["src"].split(" _eos ")
        expected = [sum(brute_force(model, dictionary, source, text.split(" _eos "))) for text in item["dst"]]
        assert found["scores"] == pytest.approx(expected, abs=5e-5)
        best = max(range(len(expected)), key=expected.__getitem__)
        assert found["solved"] == (best == item["true_ind"])
    assert list(result["by_phenomenon"]) == ["deixis_dev"]
    assert {key: part["items"] for key, part in result["by_distance"].items()} == {"1": 1, "3": 1}


@pytest.mark.parametrize(
    ("items", "name", "said"),
    [
        (VOITA, "partial", "but Voita et al. 2019 is en-ru"),
        ([{"expected": "er", "rule": "x"}], "partial", "no wrong translations"),
        (CONTRAPRO, "fairseq's task", "--task translation_doc"),
    ],
)
def test_wrong_use(tmp_path, capsys, items, name, said):
    prepared = write_prepared(tmp_path / "prepared", "en", "de")
    save_model(name, prepared, tmp_path / "model.pt", ("en", "de"))
    (tmp_path / "items").write_text(json.dumps(items), encoding="utf-8")
    line = [str(prepared), f"--path={tmp_path / 'model.pt'}", "--items", str(tmp_path / "items"), "--context=0"]
    assert main([*line, f"--output={tmp_path / 'o.json'}", "--cpu"]) == 1
    assert said in capsys.readouterr().err and not (tmp_path / "o.json").exists()
