"""German inflection, as far as the demo grammar needs it: articles, adjective endings, third-person pronouns."""

from __future__ import annotations

GENDERS = ("m", "f", "n")

PRONOUNS = {"m": ("er", "ihn"), "f": ("sie", "sie"), "n": ("es", "es")}
"""Nominative and accusative of the pronoun that stands for a noun of each gender."""

_EIN = {
    "nom": {"m": "ein", "f": "eine", "n": "ein"},
    "acc": {"m": "einen", "f": "eine", "n": "ein"},
    "dat": {"m": "einem", "f": "einer", "n": "einem"},
}
_DER = {
    "nom": {"m": "der", "f": "die", "n": "das"},
    "acc": {"m": "den", "f": "die", "n": "das"},
    "dat": {"m": "dem", "f": "der", "n": "dem"},
}
# Endings of an adjective after "ein".
_MIXED = {
    "nom": {"m": "er", "f": "e", "n": "es"},
    "acc": {"m": "en", "f": "e", "n": "es"},
    "dat": {"m": "en", "f": "en", "n": "en"},
}


def ein(case: str, gender: str) -> str:
    """The indefinite article."""
    return _EIN[case][gender]


def der(case: str, gender: str) -> str:
    """The definite article."""
    return _DER[case][gender]


def mixed(stem: str, case: str, gender: str) -> str:
    """An adjective after the indefinite article."""
    return stem + _MIXED[case][gender]
