"""One colour a system: the same in any company, different ones for different systems, visible on either background."""

from __future__ import annotations

import re

import pytest

from gtransformer.colours import OTHERS, SYSTEMS, system_colours
from gtransformer.experiments.arena.plan import system_names
from gtransformer.report.pages.page import TEMPLATES

PAPERS = re.findall(r"--paper: (#\w{6})", (TEMPLATES / "page.css").read_text(encoding="utf-8"))


def luminance(colour: str) -> float:
    """WCAG 2.2, relative luminance."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_a_system_keeps_its_colour_in_any_company():
    names = [*SYSTEMS, "mine", "my second", "yours"]
    together = system_colours(names)
    assert len(set(together.values())) == len(names) and together | SYSTEMS == together
    for name in names:
        assert system_colours([name, "gtransformer"])[name] == together[name]
    assert system_colours(["G-Transformer", "Transformer"]) == {
        "G-Transformer": SYSTEMS["gtransformer"],
        "Transformer": SYSTEMS["documents"],
    }


def test_all_of_a_picture_differ():
    many = [f"run {number}" for number in range(len(SYSTEMS) + len(OTHERS))]
    assert len(set(system_colours(many).values())) == len(many)
    assert len(system_colours([*many, "one more"])) == len(many) + 1
    both = system_colours(["transformer", "documents"])  # two names of one system
    assert both["transformer"] == SYSTEMS["documents"] != both["documents"]


def test_the_arenas_systems_have_colours_of_their_own():
    assert set(system_names()) <= SYSTEMS.keys()


@pytest.mark.parametrize("paper", sorted(set(PAPERS)))
def test_colours_can_be_told_from_the_background(paper):
    assert len(set(PAPERS)) == 2  # light and dark
    for colour in (*SYSTEMS.values(), *OTHERS):
        low, high = sorted((luminance(colour), luminance(paper)))
        assert (high + 0.05) / (low + 0.05) >= 3, colour
