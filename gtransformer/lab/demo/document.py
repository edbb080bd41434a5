"""Write one document: a letter of scenes, each about one thing or one ambiguous noun.

A scene starts with the only sentence that names its thing. Until the next scene "it" means that
thing, so "it" is always the thing introduced last. Sentences about people, weather and time come
between.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from gtransformer.lab.demo.sentences import (
    AMBIGUOUS,
    AS_OBJECT,
    AS_SUBJECT,
    CLOSINGS,
    FAMILIAR,
    FILLERS,
    INTRODUCTIONS,
    POLITE,
    REGISTERS,
    TO_THE_READER,
    USES,
    WITH_YOU,
    Slots,
    Template,
    count_tokens,
)
from gtransformer.lab.demo.words import (
    COLOURS_AND_SIZES,
    GENDERS,
    MEN,
    MY_KIN,
    NAMES,
    NOUNS,
    SLOTS,
    SURNAMES,
    WOMEN,
    Noun,
    Sense,
    Word,
    described,
)

INSTANCE_LIMIT = 512
"""The sum over a document's sentences of the longer side's tokens + 2 stays below this: one
document, one instance."""
MARGIN = 8
SENTENCES = (55, 70)
ABOUT_IT = AS_SUBJECT + AS_OBJECT + WITH_YOU
TRIES = 40  # attempts to fill a template's slots, before another template is used

Choice = TypeVar("Choice")


class Dice:
    """Random choices drawn only from ``random.Random.random()``.

    Python guarantees the sequence of ``random()`` for an integer seed, but not of ``choice`` or
    ``shuffle``. Hashes of strings change from run to run. So the key is hashed with SHA-256 and the
    choices are implemented here.
    """

    def __init__(self, *key: object) -> None:
        digest = hashlib.sha256(":".join(str(part) for part in key).encode("utf-8")).digest()
        self._random = random.Random(int.from_bytes(digest[:8], "big"))

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self._random.random() < probability

    def between(self, low: int, high: int) -> int:
        """Return an integer from ``low`` to ``high``, both included."""
        return low + int(self._random.random() * (high - low + 1))

    def choice(self, items: Sequence[Choice]) -> Choice:
        """Return one of the items."""
        return items[self.between(0, len(items) - 1)]

    def shuffled(self, items: Sequence[Choice]) -> list[Choice]:
        """Return the items in random order (Fisher and Yates), as a new list."""
        result = list(items)
        for last in range(len(result) - 1, 0, -1):
            other = self.between(0, last)
            result[last], result[other] = result[other], result[last]
        return result


def greeting(dice: Dice, register: str) -> tuple[Template, Word]:
    """Return a greeting and the greeted person: by first name for "du", by title and surname for
    "Sie".

    The person's accusative slot has the whole salutation of a letter, as its German agrees with the
    person's sex.
    """
    woman = dice.chance(0.5)
    if register == "du":
        name = dice.choice(WOMEN if woman else MEN)
        return dice.choice(FAMILIAR), Word(name, name, f"{'Liebe' if woman else 'Lieber'} {name}")
    surname = dice.choice(SURNAMES)
    title_en, title_de, dear = (
        ("Mrs", "Frau", "Sehr geehrte") if woman else ("Mr", "Herr", "Sehr geehrter")
    )
    return dice.choice(POLITE), Word(
        f"{title_en} {surname}", f"{title_de} {surname}", f"{dear} {title_de} {surname}"
    )


@dataclass(frozen=True)
class SentencePair:
    """One sentence pair and the properties that its German depends on.

    ``cues`` maps each phenomenon of the sentence ("pronoun", "address", "ambiguity") to the index
    of the sentence that determines it.
    """

    template: Template
    slots: Slots
    gender: str
    cues: Mapping[str, int]
    en: str
    de: str

    @property
    def cost(self) -> int:
        """The sentence's length in an instance: tokens of the longer side + 2."""
        return max(count_tokens(self.en), count_tokens(self.de)) + 2


@dataclass
class Letter:
    """A letter; ``register`` is "du" or "Sie"."""

    register: str
    lines: list[SentencePair] = field(default_factory=list)

    @property
    def cost(self) -> int:
        """Length of the document as an instance."""
        return sum(line.cost for line in self.lines)


class _Deck:
    """Templates in random order; all are used once before any is used again."""

    def __init__(self, dice: Dice, templates: Sequence[Template]) -> None:
        self._dice, self._templates = dice, templates
        self._order: list[Template] = []

    def candidates(self) -> list[Template]:
        """Return the unused templates, then all templates again."""
        return self._order + self._dice.shuffled(self._templates)

    def use(self, template: Template) -> None:
        """Mark a template as used."""
        if template not in self._order:
            self._order = self._dice.shuffled(self._templates)
        self._order.remove(template)


def is_held_out(english: str) -> bool:
    """Return whether an English sentence from a template with slots is excluded from training
    documents.

    A quarter of all sentences is held out, by hash. Every template and every word occurs in
    training, but these combinations do not.
    """
    return hashlib.sha256(english.encode("utf-8")).digest()[0] % 4 == 0


class Writer:
    """Writer of a document that never adds a sentence twice, nor two contradictory sentences about
    one thing.

    With ``unseen`` it adds only held-out sentences; sentences without slots, which have one form
    only, are a last resort. Without ``unseen`` it adds the others.
    """

    def __init__(self, dice: Dice, unseen: bool = False) -> None:
        self.dice, self.unseen = dice, unseen
        self.document = Letter(dice.choice(REGISTERS))
        self.decks: dict[tuple[Template, ...], _Deck] = {}
        self.seen: set[str] = set()
        self.said: set[str] = set()  # groups of the used sentences about the scene's thing
        template, reader = self.greeting(self.document.register)
        self.cast = [name for name in dice.shuffled(NAMES) if name.en != reader.en][:6]
        self.add(template, {"X": reader})

    def greeting(self, register: str) -> tuple[Template, Word]:
        """Return a greeting that this document allows, and the greeted person."""
        while True:
            template, reader = greeting(self.dice, register)
            if self.allows(template, {"X": reader}):
                return template, reader

    def allows(self, template: Template, slots: Slots) -> bool:
        """Return whether a sentence is allowed in this document, which is a training or a held-out
        one."""
        return not template.slots or is_held_out(template.english(slots)) == self.unseen

    def add(
        self,
        template: Template,
        slots: Slots,
        gender: str = "",
        cues: Mapping[str, int] | None = None,
    ) -> int:
        """Append a sentence and return its index."""
        english = template.english(slots)
        german = template.german(slots, self.document.register, gender)
        cues = dict(cues or {})
        if any(template.german(slots, register, gender) != german for register in REGISTERS):
            cues["address"] = 0
        self.seen.add(english)
        self.document.lines.append(SentencePair(template, slots, gender, cues, english, german))
        return len(self.document.lines) - 1

    def draw(
        self,
        templates: tuple[Template, ...],
        topic: Word | Sense | None = None,
        gender: str = "",
        cues: Mapping[str, int] | None = None,
    ) -> int:
        """Append a sentence from a template, about the topic if it has a slot ``X``; return its
        index."""
        deck = self.decks.setdefault(templates, _Deck(self.dice, templates))
        candidates = deck.candidates()
        if self.unseen:  # templates without slots come last, as they are in training
            candidates.sort(key=lambda template: not template.slots)
        # Few words fit some templates, and all or none may be held out.
        for strict in (
            True,
            False,
        ):
            for template in candidates:
                if template.group and template.group in self.said:
                    continue
                for _ in range(TRIES if template.slots else 1):
                    slots = self.fill(template, topic)
                    groups = {
                        word.group
                        for word in slots.values()
                        if isinstance(word, Word) and word.group
                    }
                    new = template.english(slots) not in self.seen and not groups & self.said
                    if new and (self.allows(template, slots) or (self.unseen and not strict)):
                        deck.use(template)
                        self.said |= groups | ({template.group} if template.group else set())
                        return self.add(template, slots, gender, cues)
        raise AssertionError("the grammar has run out of sentences for this document")

    def fill(
        self, template: Template, topic: Word | Sense | None = None
    ) -> dict[str, Word | Sense]:
        """Return random words for the slots of a template; ``topic`` is the word of slot ``X``."""
        slots: dict[str, Word | Sense] = {}
        for name in template.slots:
            if name == "X":
                assert topic is not None
                slots[name] = topic
            elif name in "PQH":
                people = MY_KIN if name != "H" and self.dice.chance(0.15) else self.cast
                slots[name] = self.dice.choice(
                    [person for person in people if person not in slots.values()]
                )
            else:
                slots[name] = self.dice.choice(SLOTS[name])
        return slots

    def about_thing(self, noun: Noun, kinds: Sequence[str]) -> None:
        """Add a scene about a thing, referred to as "it"."""
        self.said = set()
        cue = self.draw(INTRODUCTIONS, described(noun, self.dice.choice(COLOURS_AND_SIZES)))
        for kind in kinds:
            if kind == "context":
                self.draw(ABOUT_IT, gender=noun.gender, cues={"pronoun": cue})
            else:
                self.aside(kind)

    def about_sense(self, word: str, kinds: Sequence[str]) -> None:
        """Add a scene that determines the sense of an ambiguous noun and then uses it."""
        self.said = set()
        settled = self.dice.choice(AMBIGUOUS[word])
        cue = self.draw(settled.settings)
        for kind in kinds:
            if kind == "context":
                self.draw(USES, settled.sense, cues={"ambiguity": cue})
            else:
                self.aside(kind)

    def aside(self, kind: str) -> None:
        """Add a sentence that addresses the reader, or is about people, weather or time."""
        self.draw(TO_THE_READER if kind == "reader" else FILLERS)


def _attempt(dice: Dice, unseen: bool) -> Letter:
    writer = Writer(dice, unseen)
    length = dice.between(55, 67)
    things, senses = (6, 1) if dice.chance(0.3) else (5, 2)
    scenes: list[tuple[str, str | Noun, list[str]]] = []
    nouns: list[Noun] = []
    for gender in dice.shuffled(GENDERS * 2)[:things]:
        nouns.append(dice.choice([noun for noun in NOUNS[gender] if noun not in nouns]))
        scenes.append(("thing", nouns[-1], ["context"] * dice.between(2, 4)))
    for word in dice.shuffled(list(AMBIGUOUS))[:senses]:
        scenes.append(("sense", word, ["context"] * dice.between(2, 4)))
    scenes = dice.shuffled(scenes)

    opening = dice.shuffled(["reader", "filler"])[: dice.between(1, 2)]
    asides = ["reader"] * dice.between(4, 6)
    used = 2 + len(opening) + len(asides) + sum(1 + len(kinds) for _, _, kinds in scenes)
    asides += ["filler"] * (length - used)
    for kind in asides:
        dice.choice(scenes)[2].append(kind)

    for kind in opening:
        writer.aside(kind)
    for sort, subject, kinds in scenes:
        order = dice.shuffled(kinds)
        if sort == "thing":
            writer.about_thing(subject, order)
        else:
            writer.about_sense(subject, order)
    writer.draw(CLOSINGS)
    return writer.document


def write_document(*key: object, unseen: bool = False) -> Letter:
    """Return the document of ``key`` (any values with a stable ``str``); equal keys give equal
    documents.

    It has 55 to 70 sentences and fits into one instance. With ``unseen`` its sentences are held out
    from training (``Writer``).
    """
    attempt = 0
    while True:
        document = _attempt(Dice(*key, attempt), unseen)
        low, high = SENTENCES
        if low <= len(document.lines) <= high and document.cost < INSTANCE_LIMIT - MARGIN:
            return document
        attempt += 1
