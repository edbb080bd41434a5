"""Command lines of stages: what of a recipe changes with the devices at hand."""

from __future__ import annotations

import pytest

from gtransformer.errors import UserError
from gtransformer.run.commands import device_options


@pytest.mark.parametrize(
    ("wanted", "present", "own", "expected"),
    [
        (4, 0, {}, {"update-freq": 4}),
        (4, 1, {}, {"update-freq": 4}),
        (4, 2, {"update-freq": 3}, {"update-freq": 6, "distributed-world-size": 2}),
        (4, 4, {}, {"update-freq": 1, "distributed-world-size": 4}),
        (4, 8, {}, {"update-freq": 1, "distributed-world-size": 4}),
        (4, 3, {}, {"update-freq": 2, "distributed-world-size": 2}),
        (4, 3, {"update-freq": 3}, {"update-freq": 4, "distributed-world-size": 3}),
        (8, 6, {}, {"update-freq": 2, "distributed-world-size": 4}),
        (5, 4, {}, {"update-freq": 5, "distributed-world-size": 1}),
        (4, 3, {"update-freq": "3,2"}, {"update-freq": "6,4", "distributed-world-size": 2}),
        (4, 1, {"update-freq": [1, 2]}, {"update-freq": "4,8"}),
        (1, 0, {}, {"update-freq": 1}),
        (1, 2, {}, {"update-freq": 1, "distributed-world-size": 1}),
    ],
)
def test_devices_are_used_so_that_updates_stay_as_large(wanted, present, own, expected):
    assert device_options(own, wanted, present) == expected


def test_an_update_has_as_many_batches_on_any_number_of_devices():
    for wanted in range(1, 9):
        for own in (1, 2, 3):
            for present in range(11):
                options = device_options({"update-freq": own}, wanted, present)
                devices = options.get("distributed-world-size", 1)
                assert devices <= max(1, min(wanted, present))
                assert devices * options["update-freq"] == wanted * own, (wanted, own, present)


def test_idle_devices_are_named(capsys):
    device_options({}, 4, 3)
    said = "[train] the recipe is for 4 device(s), 2 of 3 in use: every update sums 2 batch(es) on each\n"
    assert capsys.readouterr().err == said
    device_options({}, 4, 4)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("value", ["often", 0, 1.5, [], "1,,2"])
def test_a_wrong_update_freq_is_named(value):
    with pytest.raises(UserError, match="train.update-freq is .*; give a whole number of at least 1"):
        device_options({"update-freq": value}, 4, 2)
