"""The looks of systems in pictures."""

from __future__ import annotations

from gtransformer.lab.analysis.colours import FAMILIES, OTHERS, SYSTEMS, SYSTEMS_PER_PANEL, families, system_looks


def test_every_system_has_a_look_of_its_own_that_can_be_told_without_colour():
    looks = system_looks([*SYSTEMS, *(f"other {number}" for number in range(len(OTHERS) - 1))])
    assert len({look["marker"] for look in looks.values()}) == len(looks)
    for family in FAMILIES.values():
        assert len({str(looks[name]["linestyle"]) for name in family}) == len(family)
    assert system_looks(["G-Transformer"])["G-Transformer"] == looks["gtransformer"]


def test_families_hold_every_system_once_and_few_together():
    names = [*SYSTEMS, *(f"other {number}" for number in range(8))]
    found = families(names)
    assert sorted(name for some in found.values() for name in some) == sorted(names)
    assert max(map(len, found.values())) <= SYSTEMS_PER_PANEL
    assert list(families(["lst"])) == ["Whole documents"]
