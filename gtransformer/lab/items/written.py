"""Accuracy of what a system writes for contrastive items.

The wrong translations of an item differ from the right one in the forms that context decides: a pronoun, the words of
address, an ambiguous noun with its article. These forms are counted in the system's translation. It is right if the
counts are those of the right translation, wrong if they are those of a wrong one, else neither (a form is missing, or
forms are mixed). The rest of the sentence does not matter.

Context may decide something else in the same sentence. If a word can belong to either (*sie*, the thing, and polite
*Sie*), the forms of both are counted together, and the value of the other does not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import Any

import regex

from gtransformer.errors import UserError
from gtransformer.evaluation.accuracy import report as accuracy_report
from gtransformer.evaluation.accuracy import standard_error
from gtransformer.lab.items.items import SIDES, Item, check_right_translation, kinds_of
from gtransformer.preprocess.plain_text import Documents

RIGHT, WRONG, NEITHER = OUTCOMES = ("right", "wrong", "neither")


def outcome(output: str, correct: str, wrong: Sequence[str], others: Sequence[Sequence[str]] = ()) -> str:
    """Return one of ``OUTCOMES``. Case is ignored, as a form may start the sentence.

    ``others``: rows of right and wrong texts that differ in something else (``Item.others``). Raises UserError if a
    right and a wrong text have the same words.
    """
    rows = [[_words(text) for text in row] for row in ((correct, *wrong), *others)]
    for right, text in product((row[0] for row in rows), (text for row in rows for text in row[1:])):
        if right == text:
            raise UserError(f"{correct!r}: a right and a wrong translation have the same words; leave this item out")
    deciding = {word for row in rows for text in row[1:] for word in _differing(row[0], text)}
    of_others = {word for row in rows[1:] for word in _differing(row[0], rows[0][0])}
    if deciding & of_others:
        deciding |= of_others
    else:  # no word belongs to both, so this item can be judged alone
        rows = rows[:1]
    words = _words(output)

    def agrees(text: Counter[str]) -> bool:
        return all(words[word] == text[word] for word in deciding)

    if any(agrees(row[0]) for row in rows):
        return RIGHT
    return WRONG if any(agrees(text) for row in rows for text in row[1:]) else NEITHER


def _words(text: str) -> Counter[str]:
    return Counter(regex.findall(r"\w+", text.lower()))  # with the signs on letters, which re leaves out


def _differing(one: Counter[str], other: Counter[str]) -> set[str]:
    return {word for word in {*one, *other} if one[word] != other[word]}


def judge(items: Sequence[Item], texts: Documents, references: Documents) -> list[str]:
    """Return the outcomes of all items in a translation, given as documents of sentences, with its reference.

    Raises UserError for an item whose right translation is not the reference of its sentence.
    """
    outcomes = []
    for item in items:
        check_right_translation(item, references[item.document][item.sentence])
        outcomes.append(outcome(texts[item.document][item.sentence], item.correct, item.wrong, item.others))
    return outcomes


def written_report(items: Sequence[Item], outcomes: Sequence[str]) -> dict[str, Any]:
    """Return accuracy in total, by phenomenon and by distance, alone and within the phenomenon; and all outcomes."""

    def accuracy(judged: Sequence[tuple[Item, str]]) -> dict[str, Any]:
        counts = Counter(found for _, found in judged)
        right = [found == RIGHT for _, found in judged]
        return {
            "accuracy": 100.0 * counts[RIGHT] / len(judged),
            "standard_error": standard_error(right, [item.dependent for item, _ in judged]),
            **{name: counts[name] for name in OUTCOMES},
            "solved": counts[RIGHT],
            "items": len(judged),
        }

    kinds = {name: lambda pair, key=key: key(pair[0]) for name, key in kinds_of(items).items()}
    pairs = list(zip(items, outcomes, strict=True))
    found = accuracy_report(pairs, kinds, accuracy)
    shown = [
        {"phenomenon": item.phenomenon, "distance": item.distance, "group": item.dependent}
        | {side: getattr(item, side) for side in SIDES if getattr(item, side) is not None}
        | {"outcome": result, "solved": result == RIGHT}
        for item, result in pairs
    ]
    return found | {"items": shown}
