"""One colour a system: the same in any company, different ones for different systems, visible on either background."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from gtransformer.lab.arena.plan import system_names
from gtransformer.lab.report.pages.colours import NAMES, OTHERS, SYSTEMS, shades, system_colours
from gtransformer.lab.report.pages.page import TEMPLATES

STUDIES = Path(__file__).parents[2] / "configs" / "studies"
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


def test_a_name_that_is_not_listed_moves_only_before_an_earlier_one_that_wants_its_colour():
    alone: dict[str, list[str]] = {}
    for name in (f"run {number}" for number in range(60)):
        alone.setdefault(system_colours([name])[name], []).append(name)
    place = next(at for at in range(len(OTHERS)) if len(alone.get(OTHERS[at - 1], [])) > 1 and OTHERS[at] in alone)
    (first, second, *_), third = alone[OTHERS[place - 1]], alone[OTHERS[place]][0]
    together = system_colours([first, second, third])
    assert (together[first], together[third]) == (OTHERS[place - 1], OTHERS[place])
    assert together[second] == OTHERS[(place + 1) % len(OTHERS)]


def test_what_studies_call_their_systems():
    """All are listed, but for two that are no systems of their own.

    They are the Document Transformer trained in one step, and the sentence model that others start from.
    """
    found = set()
    for path in sorted(STUDIES.glob("*.yaml")):
        for part in yaml.safe_load(path.read_text(encoding="utf-8")).values():
            found |= set(part.get("systems", ())) if isinstance(part, dict) else set()
    assert {name for name in found if NAMES.get(name, name) not in SYSTEMS} == {"alone", "start"} and len(found) > 10
    assert system_colours(["c", "DOCFLAT_C"])["c"] == SYSTEMS["docflat"] == system_colours(["DOCFLAT_C"])["DOCFLAT_C"]


def test_shades_begin_with_the_colour():
    assert shades("#8040c0", 1) == ["#8040c0"]
    assert shades("#8040c0", 4) == ["#8040c0", "#603090", "#402060", "#201030"]


def test_the_arenas_systems_have_colours_of_their_own():
    assert set(system_names()) <= SYSTEMS.keys()


@pytest.mark.parametrize("paper", sorted(set(PAPERS)))
def test_colours_can_be_told_from_the_background(paper):
    assert len(set(PAPERS)) == 2  # light and dark
    for colour in (*SYSTEMS.values(), *OTHERS):
        low, high = sorted((luminance(colour), luminance(paper)))
        assert (high + 0.05) / (low + 0.05) >= 3, colour
