"""Which words of a sentence pair count as an ambiguous pronoun or as formal or informal address, English to German.

Appendix A.1 of Herold and Ney (2023) gives the rules but not the word lists, which are fixed here:

* Gendered pronouns are the personal pronouns that show one gender: er, ihn; sie, ihr; es. ``ihm`` is male and neuter
  alike and is left out, as are possessives (sein, ihr Haus), which the tagger calls determiners. On the correct
  references of ContraPro these lists find, without a tagger, 4,703 male, 4,007 female and 4,820 neuter pronouns;
  with one the paper's Table 8 has 4,688, 4,001 and 4,565.
* Address includes the possessives: the paper counts "you" in all its forms, and "your" is just as ambiguous. ``ihr`` as
  informal plural is left out, as it cannot be told from "her" and "their".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Token(NamedTuple):
    """A word and its universal part of speech (``PRON``, ``DET``, ``VERB``, ...)."""

    text: str
    pos: str


Counts = Counter[str]
Rule = Callable[[Sequence[Token], Sequence[Token]], Counts]

NEUTER = frozenset({"it", "its", "itself"})
FEMALE = frozenset({"she", "her", "hers", "herself"})
SECOND = frozenset({"you", "your", "yours", "yourself", "yourselves"})
THIRD_PLURAL = frozenset({"they", "them", "their", "theirs", "themselves"})

GENDERS = {"er": "male", "ihn": "male", "sie": "female", "ihr": "female", "es": "neuter"}
# Formal address is written with a capital; Ihr as a pronoun at the start of a sentence is the informal plural.
FORMAL = {
    "PRON": frozenset({"Sie", "Ihnen"}),
    "DET": frozenset({"Ihr", "Ihre", "Ihrem", "Ihren", "Ihrer", "Ihres"}),
}
INFORMAL = frozenset(
    {"du", "dich", "dir", "euch", "euer", "eure", "eurem", "euren", "eurer", "eures"}
    | {f"dein{ending}" for ending in ("", "e", "em", "en", "er", "es")}
)

CLASSES = {"pronoun": ("male", "female", "neuter"), "formality": ("formal", "informal")}


def has_pronoun(tokens: Sequence[Token], forms: frozenset[str]) -> bool:
    """Whether an English sentence holds one of ``forms``, tagged as a pronoun."""
    return any(token.pos == "PRON" and token.text.lower() in forms for token in tokens)


def pronoun_counts(source: Sequence[Token], target: Sequence[Token]) -> Counts:
    """CP(F, E, x) for x male, female, neuter: gendered German pronouns that "it" may have become.

    A pair is valid only if the source has a neuter third-person pronoun. Where it also has one of the second person or
    of the third person plural, German "sie" may translate that, so female forms are not counted.
    """
    if not has_pronoun(source, NEUTER):
        return Counter()
    counts: Counts = Counter(
        GENDERS[token.text.lower()] for token in target if token.pos == "PRON" and token.text.lower() in GENDERS
    )
    if has_pronoun(source, SECOND | THIRD_PLURAL):
        del counts["female"]
    return counts


def formality_counts(source: Sequence[Token], target: Sequence[Token]) -> Counts:
    """CP(F, E, x) for x formal, informal: German words of address that "you" may have become.

    A pair is valid only if the source has a second-person pronoun. Where it also has a female or neuter one of the
    third person, or one of the third person plural, "Sie" may translate that, so formal ones are not counted.
    """
    if not has_pronoun(source, SECOND):
        return Counter()
    counts: Counts = Counter()
    ambiguous = has_pronoun(source, FEMALE | NEUTER | THIRD_PLURAL)
    for token in target:
        if token.text in FORMAL.get(token.pos, ()) and not ambiguous:
            counts["formal"] += 1
        elif token.pos in ("PRON", "DET") and token.text.lower() in INFORMAL:
            counts["informal"] += 1
    return counts


RULES: dict[str, Rule] = {"pronoun": pronoun_counts, "formality": formality_counts}
