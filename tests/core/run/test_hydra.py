"""What fairseq-hydra-train is given for a recipe is what fairseq-train makes of its options."""

from __future__ import annotations

from pathlib import Path

import pytest
from fairseq import options as fairseq_options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from gtransformer.errors import UserError
from gtransformer.run.commands import to_arguments
from gtransformer.run.hydra import hydra_config, hydra_text
from gtransformer.run.recipe import load_recipe

EXAMPLE = Path(__file__).resolve().parents[3] / "configs" / "hydra" / "base.yaml"


def test_the_example_is_made_from_the_recipe():
    assert EXAMPLE.read_text(encoding="utf-8") == hydra_text(load_recipe("base"))


@pytest.mark.parametrize("name", ["base", "cpu_small_finetune", "bert"])
def test_as_on_the_command_line(name: str):
    recipe = load_recipe(name)
    arguments = ["DATA", *to_arguments(recipe.options("task", "train"))]
    parsed = fairseq_options.parse_args_and_arch(fairseq_options.get_training_parser(), arguments)
    wanted, config = convert_namespace_to_omegaconf(parsed), hydra_config(recipe)
    del config["task"]["data"], config["common"]["user_dir"]
    for group, options in config.items():
        assert options == {key: wanted[group][key] for key in options}, group
    given = {option.replace("-", "_") for option in recipe.options("task", "train")}
    assert given - {key for group in config.values() for key in group} == {
        "task", "arch", "criterion", "optimizer", "lr_scheduler"
    }  # fmt: skip


def test_an_option_that_it_does_not_have():
    with pytest.raises(UserError, match="'base': fairseq-hydra-train has no option 'no-such-thing'; take it out"):
        hydra_config(load_recipe("base", ["train.no-such-thing=1"]))
