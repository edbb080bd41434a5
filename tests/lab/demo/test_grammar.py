"""The grammar itself: inflected phrases and templates written out."""

from __future__ import annotations

import pytest

from gtransformer.lab.demo.sentences import (
    AMBIGUOUS,
    AS_OBJECT,
    AS_SUBJECT,
    FILLERS,
    INTRODUCTIONS,
    TO_THE_READER,
    USES,
    WITH_YOU,
    Template,
    templates,
)
from gtransformer.lab.demo.words import COLOURS_AND_SIZES, MY_KIN, NOUNS, YOUR_KIN, Noun, Sense, described


@pytest.mark.parametrize(
    "noun, nominative, accusative, dative",
    [
        (NOUNS["m"][0], "ein neuer Tisch", "einen neuen Tisch", "einem neuen Tisch"),
        (NOUNS["f"][0], "eine neue Lampe", "eine neue Lampe", "einer neuen Lampe"),
        (NOUNS["n"][0], "ein neues Buch", "ein neues Buch", "einem neuen Buch"),
    ],
)
def test_adjective_endings(noun: Noun, nominative, accusative, dative):
    phrase = described(noun, COLOURS_AND_SIZES[0])
    assert (str(phrase), phrase.acc, phrase.dat) == (nominative, accusative, dative)


def test_articles_and_weak_nouns():
    letter = Sense("the letter", "Buchstabe", "m", "Buchstaben")
    assert (str(letter), letter.acc, letter.dat, letter.von) == (
        "der Buchstabe",
        "den Buchstaben",
        "dem Buchstaben",
        "vom Buchstaben",
    )
    assert Sense("the seal", "Robbe", "f").von == "von der Robbe"
    assert described(NOUNS["f"][2], COLOURS_AND_SIZES[1]).en == "an old clock"


def test_relatives():
    assert [MY_KIN[0].de, MY_KIN[0].acc, MY_KIN[0].dat] == ["mein Bruder", "meinen Bruder", "meinem Bruder"]
    question = Template("How is {Y}?", "Wie geht es {Y.dat}?")
    sister = {"Y": YOUR_KIN[1]}
    assert question.english(sister) == "How is your sister?"
    assert question.german(sister, "du") == "Wie geht es deiner Schwester?"
    assert question.german(sister, "Sie") == "Wie geht es Ihrer Schwester?"


@pytest.mark.parametrize(
    "register, gender, expected",
    [
        ("du", "m", "Hast du ihn gesehen?"),
        ("du", "f", "Hast du sie gesehen?"),
        ("Sie", "f", "Haben Sie sie gesehen?"),
        ("Sie", "n", "Haben Sie es gesehen?"),
    ],
)
def test_register_and_gender_in_one_sentence(register, gender, expected):
    (template,) = [template for template in WITH_YOU if template.en == "Have you seen it?"]
    assert template.german({}, register, gender) == expected


def test_pronoun_at_the_start_is_capitalised():
    template = Template("It is new.", "{Er} ist neu.")
    assert [template.german({}, "du", gender) for gender in "mfn"] == ["Er ist neu.", "Sie ist neu.", "Es ist neu."]


def test_templates_are_many_and_well_formed():
    uses = {
        "introductions": INTRODUCTIONS,
        "pronouns": AS_SUBJECT + AS_OBJECT + WITH_YOU,
        "reader": TO_THE_READER,
        "uses": USES,
        "fillers": FILLERS,
        "settings": tuple(
            template for senses in AMBIGUOUS.values() for settled in senses for template in settled.settings
        ),
    }
    assert sum(map(len, uses.values())) >= 150
    english = [template.en for pool in uses.values() for template in pool]
    assert len(set(english)) == len(english)
    for name, pool in uses.items():
        for template in pool:
            assert bool(template.pronoun) == (name == "pronouns"), template
            assert ("X" in template.slots) == (name in ("introductions", "uses")), template
            if name in ("fillers", "settings", "introductions"):
                assert "[" not in template.de, template
            if name == "reader":
                assert "[" in template.de or "Y" in template.slots, template


def test_fillers_and_settings_name_no_thing():
    things = {noun.en for nouns in NOUNS.values() for noun in nouns}
    pools = [FILLERS, TO_THE_READER, *(settled.settings for senses in AMBIGUOUS.values() for settled in senses)]
    for pool in pools:
        for template in pool:
            assert not things & set(template.en.replace(".", "").replace("?", "").split()), template


def test_reading_templates():
    assert templates("\n  A {P}.    B {P}.   g\n\n  C.  D.\n") == (
        Template("A {P}.", "B {P}.", "g"),
        Template("C.", "D."),
    )
