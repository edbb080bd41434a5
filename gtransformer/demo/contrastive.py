"""Contrastive items: the right German of a sentence beside German that only its context proves wrong.

A wrong variant is the same template written out for another gender, register or sense, so it is as grammatical as the
right one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gtransformer.demo.ambiguity import AMBIGUOUS
from gtransformer.demo.dice import Dice
from gtransformer.demo.document import Letter, SentencePair
from gtransformer.demo.german import GENDERS, PRONOUNS
from gtransformer.demo.lexicon import Sense
from gtransformer.demo.template import REGISTERS

PHENOMENA = ("pronoun", "address", "ambiguity")


def variants(line: SentencePair, phenomenon: str, register: str) -> tuple[str, list[str]]:
    """What the phenomenon turns on (``"it -> ihn"``) and the wrong German sentences, each once.

    ``register`` is that of the document. Raises KeyError if the line does not show the phenomenon.
    """
    line.cues[phenomenon]
    template, slots = line.template, line.slots
    if phenomenon == "pronoun":
        form = PRONOUNS[line.gender][0 if template.pronoun == "er" else 1]
        detail = f"it -> {form}"
        wrong = [template.german(slots, register, gender) for gender in GENDERS if gender != line.gender]
    elif phenomenon == "address":
        detail = f"you -> {register}"
        wrong = [template.german(slots, other, line.gender) for other in REGISTERS if other != register]
    else:
        sense = slots["X"]
        assert isinstance(sense, Sense)
        word = sense.en.removeprefix("the ")
        detail = f"{word} -> {sense.de}"
        others = [settled.sense for settled in AMBIGUOUS[word] if settled.sense != sense]
        wrong = [template.german({**slots, "X": other}, register, line.gender) for other in others]
    return detail, [text for text in dict.fromkeys(wrong) if text != line.de]


def _items(documents: Sequence[Letter], phenomenon: str, dice: Dice) -> Iterator[dict[str, Any]]:
    """Every item of a phenomenon, going round the documents and in each taking what has come least often so far."""
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
    taken: Counter[str] = Counter()
    while any(waiting):
        for items in waiting:
            if items:
                item = min(items, key=lambda item: taken[item["detail"]])
                items.remove(item)
                taken[item["detail"]] += 1
                yield item


def contrastive_set(documents: Sequence[Letter], count: int, seed: int, split: str = "test") -> dict[str, Any]:
    """The content of ``contrastive.json``: up to ``count`` items, shared out evenly over phenomena and documents.

    A phenomenon that runs out of sentences leaves its share to the others. Items stand in document order;
    ``distance`` counts the sentences back to the one that introduces the antecedent, greets, or settles the sense.
    """
    sources = {
        phenomenon: _items(documents, phenomenon, Dice(seed, "contrastive", phenomenon)) for phenomenon in PHENOMENA
    }
    chosen: list[dict[str, Any]] = []
    while sources and len(chosen) < count:
        for phenomenon in list(sources):
            item = next(sources[phenomenon], None)
            if item is None:
                del sources[phenomenon]
            elif len(chosen) < count:
                chosen.append(item)
    chosen.sort(key=lambda item: (item["document"], item["sentence"], PHENOMENA.index(item["phenomenon"])))
    return contrastive_file(chosen, split)


def contrastive_file(items: Iterable[dict[str, Any]], split: str = "test") -> dict[str, Any]:
    """The content of a file of items over a split, numbered through."""
    return {
        "version": 1,
        "source_lang": "en",
        "target_lang": "de",
        "split": split,
        "items": [{"id": number, **item} for number, item in enumerate(items)],
    }
