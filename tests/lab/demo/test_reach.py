"""The set that shows reach, checked against the words of its documents, not against what the
grammar noted down."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from types import SimpleNamespace

import pytest

from gtransformer.files import read_json
from gtransformer.lab.cli.reach_corpus import main
from gtransformer.lab.demo.corpus import PASSAGE
from tests.lab.demo.conftest import read_documents

ROWS = ((1, 1), (2, 2), (3, 3), (4, 6), (7, 12), (13, 24), (25, 10**6))
ANSWERS = {"pronoun": {"m", "f", "n"}, "address": {"du", "Sie"}, "ambiguity": {"one", "other"}}

# What discloses, written down by hand. English and German nouns by gender:
THINGS = {
    "m": "table chair cupboard carpet coat hat suitcase umbrella ring mirror computer basket",
    "f": "lamp bag clock guitar vase jacket camera necklace blanket cup doll trumpet",
    "n": "book picture bed sofa dress shirt piano bicycle radio shelf telephone knife",
}
DINGE = {
    "m": "Tisch Stuhl Schrank Teppich Mantel Hut Koffer Regenschirm Ring Spiegel Computer Korb",
    "f": "Lampe Tasche Uhr Gitarre Vase Jacke Kamera Kette Decke Tasse Puppe Trompete",
    "n": "Buch Bild Bett Sofa Kleid Hemd Klavier Fahrrad Radio Regal Telefon Messer",
}
# "Sie" at the beginning of a sentence is "she" only with a verb of the singular.
PRONOUNS = {
    "m": r"\b([Ee]r|ihn|ihm)\b",
    "f": r"\bsie\b|^Sie (ist|war|sieht|hat|gehört|kommt|gefällt|erinnert)\b",
    "n": r"\b[Ee]s\b",
}
READER_EN = {"du": r"^(Hi|Hey|Dear (?!Mr|Mrs))", "Sie": r"^Good |\b(Mr|Mrs)\b"}
READER_DE = {
    "du": r"^(Hallo|Hey|Liebe|Lieber) |\b([Dd]u|[Dd]ich|[Dd]ir|[Dd]ein\w*)\b"
    r"|^(Bitte (schreib|komm)|Vergiss) (?!Sie)",
    "Sie": r"\b(Frau|Herr|Ihnen|Ihr|Ihre[rnm]?)\b|^Guten |(?<!^)\bSie\b"
    r"|^Sie (kennen|hatten|sind|wollten)\b",
}
SENSES_EN = {  # a word of the setting that settles the sense
    "bat": ("cave|flying", "ball|game"),
    "seal": ("sea|beach", "document|king"),
    "letter": ("postman|stamp", "missing|board"),
    "bank": ("money|[Rr]obbers", "boat|river"),
}
SENSES_DE = {
    "bat": ("Fledermaus", "Schläger"),
    "seal": ("Robbe", "Siegel"),
    "letter": ("Brief", "Buchstaben?"),
    "bank": ("Bank", "Ufer"),
}


def answers(patterns: dict[str, str], sentence: str) -> set[str]:
    """The answers that a sentence discloses."""
    return {answer for answer, pattern in patterns.items() if re.search(pattern, sentence)}


def disclosed(phenomenon: str, word: str, side: str, sentence: str) -> set[str]:
    """The answers that a sentence of a side discloses, read from its words."""
    if phenomenon == "pronoun":
        names = {
            gender: rf"\b({text.replace(' ', '|')})\b"
            for gender, text in (THINGS if side == "en" else DINGE).items()
        }
        return answers(names, sentence) | (answers(PRONOUNS, sentence) if side == "de" else set())
    if phenomenon == "address":
        return answers(READER_EN if side == "en" else READER_DE, sentence)
    if side == "en" and not re.search(rf"\b[Aa] (\w+ )?{word}\b", sentence):
        return set()
    both = (SENSES_EN if side == "en" else SENSES_DE)[word]
    return answers(
        {name: rf"\b({text})\b" for name, text in zip(("one", "other"), both, strict=True)},
        sentence,
    )


def nearest(
    phenomenon: str, word: str, side: str, document: list[str], here: int
) -> tuple[int, set[str]]:
    """Sentences back to the nearest that discloses, and what it does."""
    for back in range(1, here + 1):
        found = disclosed(phenomenon, word, side, document[here - back])
        if found:
            return back, found
    raise AssertionError(f"nothing discloses {document[here]!r}")


def row_of(distance: int) -> tuple[int, int]:
    return next((first, last) for first, last in ROWS if first <= distance <= last)


def digests(folder) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*.*")
    }


ITEMS = 24  # of each phenomenon and distance
SIZES = ["--documents", "8", "--dev-documents", "2", "--test-documents", "2"]


@pytest.fixture(scope="module")
def reach(tmp_path_factory) -> SimpleNamespace:
    """A small set beside a small corpus."""
    folder = tmp_path_factory.mktemp("reach") / "corpus"
    assert main(["--output", str(folder), *SIZES, "--items", str(ITEMS)]) == 0
    texts = {
        lang: read_documents(folder / "set" / f"concatenated_en2de_test_{lang}.txt")
        for lang in ("en", "de")
    }
    suite, summary = (
        read_json(folder / "set" / "contrastive_reach.json"),
        read_json(folder / "corpus.json"),
    )
    return SimpleNamespace(
        folder=folder, **texts, suite=suite, items=suite["items"], summary=summary
    )


def test_every_cell_has_its_items(reach):
    assert (reach.suite["split"], reach.suite["source_lang"], reach.suite["target_lang"]) == (
        "test",
        "en",
        "de",
    )
    assert [item["id"] for item in reach.items] == list(range(len(reach.items)))
    for side in ("source", "target"):
        cells = Counter(
            (item["phenomenon"], row_of(item[f"distance_{side}"])) for item in reach.items
        )
        assert cells.keys() == {(phenomenon, row) for phenomenon in ANSWERS for row in ROWS}
        assert min(cells.values()) >= ITEMS
        named = reach.summary["items"][f"by_distance_{side}"]
        for phenomenon in ANSWERS:
            assert list(named[phenomenon].values()) == [cells[phenomenon, row] for row in ROWS]
    for item in reach.items:
        assert item["distance"] == min(item["distance_source"], item["distance_target"])
    # All distances of a row, not only its first.
    assert set(range(1, 13)) <= {
        item["distance"] for item in reach.items if item["phenomenon"] == "pronoun"
    }


def test_the_nearest_sentence_that_discloses(reach):
    """On each side it is as far back as said, discloses the right answer, and no other answer."""
    apart = Counter()
    for item in reach.items:
        en, de, here = reach.en[item["document"]], reach.de[item["document"]], item["sentence"]
        phenomenon, word = item["phenomenon"], item["detail"].split(" -> ")[0]
        back_en, by_en = nearest(phenomenon, word, "en", en, here)
        back_de, by_de = nearest(phenomenon, word, "de", de, here)
        assert (back_en, back_de) == (item["distance_source"], item["distance_target"]), (
            item,
            en,
            de,
        )
        right = disclosed(phenomenon, word, "de", item["correct"])
        assert by_en == by_de == right and len(right) == 1, item
        assert not disclosed(phenomenon, word, "en", en[here])
        # The wrong ones have the other answers; the source behind the item has none.
        assert [len(disclosed(phenomenon, word, "de", wrong)) for wrong in item["wrong"]] == [
            1
        ] * len(item["wrong"])
        others = set().union(*(disclosed(phenomenon, word, "de", wrong) for wrong in item["wrong"]))
        assert others == ANSWERS[phenomenon] - right
        assert not any(disclosed(phenomenon, word, "en", sentence) for sentence in en[here + 1 :])
        apart[phenomenon] += back_de < back_en
    assert min(apart[phenomenon] for phenomenon in ANSWERS) >= 2 * ITEMS


def test_a_planted_disclosure_is_found():
    """The check sees what would spoil an item."""
    document = ["Hi Anna!", "Paul bought a new lamp.", "Tom laughed.", "It is very old."]
    assert nearest("pronoun", "it", "en", document, 3) == (2, {"f"})
    document[2] = "Tom found a red hat in Berlin."
    assert nearest("pronoun", "it", "en", document, 3) == (1, {"m"})
    german = [
        "Hallo Anna!",
        "Paul hat eine neue Lampe gekauft.",
        "Sie ist kaputt.",
        "Sie kennen Paul.",
        "Es ist alt.",
    ]
    assert nearest("pronoun", "it", "de", german, 3) == (1, {"f"})
    assert nearest("address", "you", "de", german, 4) == (1, {"Sie"})
    assert nearest("address", "you", "de", german, 3) == (3, {"du"})
    seal = [
        "A seal was swimming in the sea.",
        "There was a seal on the document.",
        "Tom drew the seal.",
    ]
    assert nearest("ambiguity", "seal", "en", seal, 2) == (1, {"other"})


def test_documents_of_a_group_differ_in_the_answer_alone(reach):
    """So what is between, before and behind cannot disclose it, whatever it says."""
    groups = defaultdict(lambda: defaultdict(list))
    for item in reach.items:
        groups[item["group"]][item["document"]].append(item)
    assert list(groups) == list(range(len(groups)))
    for group in groups.values():
        (phenomenon,) = {item["phenomenon"] for items in group.values() for item in items}
        places = {
            tuple((item["sentence"], item["distance_source"]) for item in items)
            for items in group.values()
        }
        (places,) = places  # the same in all
        needing, cues = {here for here, _ in places}, {here - back for here, back in places}
        assert len(cues) == 1
        assert len(group) == len(ANSWERS[phenomenon])
        for sides, may_differ in ((reach.en, cues), (reach.de, cues | needing)):
            for index, versions in enumerate(
                zip(*(sides[number] for number in group), strict=True)
            ):
                assert len(set(versions)) == (len(group) if index in may_differ else 1), versions
        for number in range(len(places)):
            candidates = [
                {items[number]["correct"], *items[number]["wrong"]} for items in group.values()
            ]
            assert all(texts == candidates[0] for texts in candidates)
            assert candidates[0] == {items[number]["correct"] for items in group.values()}


def test_who_sees_no_disclosure_solves_as_many_as_by_chance(reach):
    """Scores that depend on what lies behind the disclosing sentences alone: one in each group, at
    every distance."""
    solved, total = Counter(), Counter()
    for item in reach.items:
        en, de, here = reach.en[item["document"]], reach.de[item["document"]], item["sentence"]
        seen = (
            en[here + 1 - item["distance_source"] :] + de[here + 1 - item["distance_target"] : here]
        )

        def score(text, seen=tuple(seen)):
            return hashlib.sha256(f"{seen}{text}".encode()).hexdigest()

        cell = item["phenomenon"], row_of(item["distance_source"]), row_of(item["distance_target"])
        solved[cell] += all(score(item["correct"]) > score(wrong) for wrong in item["wrong"])
        total[cell] += 1
    for cell, count in total.items():
        assert solved[cell] * len(ANSWERS[cell[0]]) == count, cell


def test_items_stand_in_their_documents_and_fit_an_instance(reach):
    for item in reach.items:
        assert reach.de[item["document"]][item["sentence"]] == item["correct"] not in item["wrong"]
    for en, de in zip(reach.en, reach.de, strict=True):
        assert len(en) == len(de) == len(set(en))
        words = [
            max(len(re.findall(r"\w+|[^\w\s]", text)) for text in pair)
            for pair in zip(en, de, strict=True)
        ]
        assert sum(words) + 2 * len(words) < 512


def test_no_passage_of_the_set_is_trained_on(reach):
    def passages(documents):
        return {
            tuple(en[start : start + PASSAGE])
            for en in documents
            for start in range(len(en) - PASSAGE + 1)
        }

    known = passages(reach.en)
    for split, letters in (("train", 8), ("dev", 2), ("test", 2)):
        documents = read_documents(reach.folder / f"concatenated_en2de_{split}_en.txt")
        assert len(documents) == 4 * letters
        assert sum(len(document) >= 55 for document in documents) == letters
        found = passages(documents)
        assert found.isdisjoint(known)
        known |= found


def test_same_seed_same_bytes_and_another_seed_another_set(tmp_path):
    for name, more in (("a", []), ("again", []), ("b", ["--seed", "2"])):
        assert main(["--output", str(tmp_path / name), *SIZES, "--items", "6", *more]) == 0
    first = digests(tmp_path / "a")
    assert digests(tmp_path / "again") == first
    assert not set(first.values()) & set(digests(tmp_path / "b").values())
    assert read_json(tmp_path / "a" / "corpus.json")["sha256"] == {
        name: value for name, value in first.items() if name != "corpus.json"
    }
