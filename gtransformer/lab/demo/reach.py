"""Documents that test context by distance: one fact, disclosed once, and a later sentence that
needs it.

Documents are in groups that differ only in the fact: the same letter about a lamp, a table and a
book, to a friend and to Mr Weber, about either kind of bat. The source sides of a group differ only
in the disclosing sentence; the target sides differ in it and in the sentences that need the fact.
So the sentences between cannot disclose it. A system that sees neither solves the item in exactly
one document of a group, or in none if two candidates are equally probable. Exception: positions
through the document are visible, and documents of a group may differ in length.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from gtransformer.lab.demo.document import Dice, Letter, SentencePair, Writer
from gtransformer.lab.demo.sentences import (
    AMBIGUOUS,
    AS_OBJECT,
    AS_SUBJECT,
    CLOSINGS,
    FILLERS,
    INTRODUCTIONS,
    REGISTERS,
    TO_THE_READER,
    USES,
    Slots,
    Template,
)
from gtransformer.lab.demo.words import COLOURS_AND_SIZES, GENDERS, NOUNS, Sense, described

DISTANCES = ((1, 1), (2, 2), (3, 3), (4, 6), (7, 12), (13, 24), (25, 36))
"""First and last distance, in sentences, of the rows of the set; the last row is called 25+."""
SECOND_ITEM_DISTANCE = 13
"""From this row on, a second sentence that needs the fact follows. Its source distance is the same
or larger; its target is disclosed nearby, by the first one's translation."""
NEARBY = ((1, 1), (2, 2), (3, 3), (4, 6))
VERSIONS = {"pronoun": len(GENDERS), "address": len(REGISTERS), "ambiguity": 2}
"""Documents of a group, one for each possible answer, by phenomenon."""


def _plain(templates: Sequence[Template], unaddressed: bool = True) -> tuple[Template, ...]:
    """Return templates without impersonal "it" or "es" and, if ``unaddressed``, without address."""
    return tuple(
        template
        for template in templates
        if not re.search(r"\b([Ii]t|[Ee]s)\b", f"{template.en} {template.de}")
        and not (unaddressed and "[" in template.de)
    )


_FILLERS = _plain(FILLERS)
_ASIDES = _plain(TO_THE_READER, unaddressed=False)
_USES = _plain(USES)
_ABOUT_IT = AS_SUBJECT + AS_OBJECT


def distance_in(row: tuple[int, int], number: int) -> int:
    """Return the distance of item ``number``, alternating over the distances of a row."""
    first, last = row
    return first + number % (last - first + 1)


def write_group(
    phenomenon: str, row: tuple[int, int], number: int, *key: object, unseen: bool = False
) -> list[Letter]:
    """Return the documents of group ``number`` of a row of ``DISTANCES``, one for each answer, in
    random order.

    Args:
        phenomenon: "pronoun", "address" or "ambiguity".
        number: of the group in its row; distances alternate by it.
        key: seed of the random choices, with the other arguments; equal arguments give equal
            documents.
        unseen: use sentences that are held out from training (``Writer``).

    In each document one sentence discloses the fact, and one needs it, ``distance_in(row, number)``
    sentences later; from ``SECOND_ITEM_DISTANCE`` on another follows. Their ``cues`` name the
    disclosing sentence.
    """
    dice = Dice("reach", *key, phenomenon, *row, number)
    gaps = [distance_in(row, number)]
    if row[0] >= SECOND_ITEM_DISTANCE:
        # Combines every distance with every nearby one.
        turn = number + number // (row[1] - row[0] + 1)
        gaps.append(distance_in(NEARBY[turn % len(NEARBY)], number // len(NEARBY)))
    if phenomenon == "address":
        versions = _about_reader(Writer(dice, unseen), gaps)
    elif phenomenon == "pronoun":
        versions = _about_thing(Writer(dice, unseen), gaps)
    else:
        versions = _about_sense(Writer(dice, unseen), gaps)
    return dice.shuffled(versions)


def _about_reader(writer: Writer, gaps: Sequence[int]) -> list[Letter]:
    first = writer.document
    other = next(register for register in REGISTERS if register != first.register)
    template, reader = writer.greeting(other)
    # The people of both greetings are not mentioned otherwise.
    writer.cast = [name for name in writer.cast if name.en != reader.en]
    for gap in gaps:
        _fill(writer, gap - 1, asides=False)
        writer.draw(_ASIDES)
    writer.draw(CLOSINGS)
    return [first, _rewrite(first, 0, template, {"X": reader}, register=other)]


def _about_thing(writer: Writer, gaps: Sequence[int]) -> list[Letter]:
    dice = writer.dice
    _fill(writer, dice.between(0, 3))
    gender = GENDERS[0]
    cue = writer.draw(
        INTRODUCTIONS, described(dice.choice(NOUNS[gender]), dice.choice(COLOURS_AND_SIZES))
    )
    line = writer.document.lines[cue]
    phrases = [(gender, line.slots["X"])]
    for other in GENDERS[1:]:
        phrase = None
        while phrase is None or not writer.allows(line.template, {**line.slots, "X": phrase}):
            phrase = described(dice.choice(NOUNS[other]), dice.choice(COLOURS_AND_SIZES))
        phrases.append((other, phrase))
    for gap in gaps:
        _fill(writer, gap - 1)
        writer.draw(_ABOUT_IT, gender=gender, cues={"pronoun": cue})
    writer.draw(CLOSINGS)
    return [
        _rewrite(writer.document, cue, line.template, {**line.slots, "X": phrase}, gender=gender)
        for gender, phrase in phrases
    ]


def _about_sense(writer: Writer, gaps: Sequence[int]) -> list[Letter]:
    dice = writer.dice
    _fill(writer, dice.between(0, 3))
    one, other = dice.shuffled(AMBIGUOUS[dice.choice(list(AMBIGUOUS))])
    cue = writer.draw(one.settings)
    for gap in gaps:
        _fill(writer, gap - 1)
        writer.draw(_USES, one.sense, cues={"ambiguity": cue})
    writer.draw(CLOSINGS)
    template, slots = other.settings[0], None
    while slots is None or not writer.allows(template, slots):
        template = dice.choice(other.settings)
        slots = writer.fill(template)
    return [writer.document, _rewrite(writer.document, cue, template, slots, sense=other.sense)]


def _fill(writer: Writer, count: int, asides: bool = True) -> None:
    """Add sentences that disclose nothing; ``asides``: some address the reader, whose register is
    known."""
    for _ in range(count):
        writer.draw(_ASIDES if asides and writer.dice.chance(0.1) else _FILLERS)


def _rewrite(
    letter: Letter,
    cue: int,
    template: Template,
    slots: Slots,
    register: str = "",
    gender: str = "",
    sense: Sense | None = None,
) -> Letter:
    """Return the letter with another disclosing sentence, and with another register, gender or
    sense everywhere."""
    result = Letter(register or letter.register)
    for number, line in enumerate(letter.lines):
        if number == cue:
            line = replace(line, template=template, slots=slots)
        elif sense and "ambiguity" in line.cues:
            line = replace(line, slots={**line.slots, "X": sense})
        elif gender and "pronoun" in line.cues:
            line = replace(line, gender=gender)
        result.lines.append(_written(line, result.register))
    return result


def _written(line: SentencePair, register: str) -> SentencePair:
    """Return the line with rewritten texts."""
    german = line.template.german(line.slots, register, line.gender)
    return replace(line, en=line.template.english(line.slots), de=german)
