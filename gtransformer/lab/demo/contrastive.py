"""Contrastive items: a sentence's right German and variants that are wrong only in its context.

A wrong variant is the same template with another gender, register or sense, so it is equally
grammatical.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gtransformer.lab.demo.document import Dice, Letter, SentencePair
from gtransformer.lab.demo.sentences import AMBIGUOUS, REGISTERS
from gtransformer.lab.demo.words import GENDERS, PRONOUNS, Sense, Word

PHENOMENA = ("pronoun", "address", "ambiguity")


def variants(line: SentencePair, phenomenon: str, register: str) -> tuple[str, list[str]]:
    """Return the detail of the phenomenon (``"it -> ihn"``) and the wrong German sentences, each
    once.

    ``register`` is the document's. Raises KeyError if the line does not have the phenomenon.
    """
    if phenomenon == "pronoun":
        detail = f"it -> {PRONOUNS[line.gender][0 if line.template.pronoun == 'er' else 1]}"
    elif phenomenon == "address":
        detail = f"you -> {register}"
    else:
        sense = line.slots["X"]
        detail = f"{_word(sense)} -> {sense.de}"
    return detail, _written(line, register, _mistakes(line, phenomenon, register))[1:]


def _mistakes(line: SentencePair, phenomenon: str, register: str) -> list[dict[str, Any]]:
    """Return the changed arguments of ``Template.german`` for each wrong value of a phenomenon of
    the line."""
    line.cues[phenomenon]
    if phenomenon == "pronoun":
        return [{"gender": gender} for gender in GENDERS if gender != line.gender]
    if phenomenon == "address":
        return [{"register": other} for other in REGISTERS if other != register]
    sense = line.slots["X"]
    senses = [settled.sense for settled in AMBIGUOUS[_word(sense)] if settled.sense != sense]
    return [{"slots": {**line.slots, "X": other}} for other in senses]


def _word(sense: Word | Sense) -> str:
    """Return the English noun of a sense."""
    assert isinstance(sense, Sense)
    return sense.en.removeprefix("the ")


def _written(line: SentencePair, register: str, wrong: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the German, and with each of the changed arguments ``wrong``, each sentence once."""
    given = {"slots": line.slots, "register": register, "gender": line.gender}
    return list(dict.fromkeys(line.template.german(**{**given, **other}) for other in ({}, *wrong)))


def _items(documents: Sequence[Letter], phenomenon: str, dice: Dice) -> Iterator[dict[str, Any]]:
    """Yield every item of a phenomenon by document, the least frequent detail first."""
    waiting: list[list[dict[str, Any]]] = []
    for number, document in enumerate(documents):
        items = []
        for index, line in enumerate(document.lines):
            if phenomenon in line.cues:
                detail, wrong = variants(line, phenomenon, document.register)
                items.append(
                    {
                        "phenomenon": phenomenon,
                        "detail": detail,
                        "document": number,
                        "sentence": index,
                        "distance": index - line.cues[phenomenon],
                        "correct": line.de,
                        "wrong": wrong,
                    }
                )
        waiting.append(dice.shuffled(items))
    chosen: Counter[str] = Counter()
    while any(waiting):
        for items in waiting:
            if items:
                item = min(items, key=lambda item: chosen[item["detail"]])
                items.remove(item)
                chosen[item["detail"]] += 1
                yield item


def contrastive_set(
    documents: Sequence[Letter], count: int, seed: int, split: str = "test"
) -> dict[str, Any]:
    """Return the content of ``contrastive.json``: up to ``count`` items, evenly over phenomena and
    documents.

    If a phenomenon has too few sentences, the others get its share. Items are in document order.
    ``distance`` is the number of sentences back to the antecedent's introduction, the greeting, or
    the sentence that determines the sense.
    """
    sources = {
        phenomenon: _items(documents, phenomenon, Dice(seed, "contrastive", phenomenon))
        for phenomenon in PHENOMENA
    }
    chosen: list[dict[str, Any]] = []
    while sources and len(chosen) < count:
        for phenomenon in list(sources):
            item = next(sources[phenomenon], None)
            if item is None:
                del sources[phenomenon]
            elif len(chosen) < count:
                chosen.append(item)
    chosen.sort(
        key=lambda item: (item["document"], item["sentence"], PHENOMENA.index(item["phenomenon"]))
    )
    return contrastive_file(chosen, split)


def contrastive_file(items: Iterable[dict[str, Any]], split: str = "test") -> dict[str, Any]:
    """Return the content of a file of items over a split, with consecutive ids."""
    return {
        "version": 1,
        "source_lang": "en",
        "target_lang": "de",
        "split": split,
        "items": [{"id": number, **item} for number, item in enumerate(items)],
    }
