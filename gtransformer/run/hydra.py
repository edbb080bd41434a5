"""A recipe's training as a configuration of fairseq-hydra-train: ``python -m gtransformer.run.hydra RECIPE``.

configs/hydra/base.yaml is what this prints for the recipe base.
"""

from __future__ import annotations

import argparse
from dataclasses import fields, is_dataclass
from typing import Any

import yaml
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models import MODEL_DATACLASS_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY

from gtransformer.errors import UserError, cli_main
from gtransformer.run.recipe import Recipe, load_recipe

# Groups of which a name decides what they hold: the options that give it, and what fairseq knows by these names.
NAMED = {
    "task": ("task", TASK_DATACLASS_REGISTRY),
    "model": ("arch", MODEL_DATACLASS_REGISTRY),
    **{name: (name.replace("_", "-"), REGISTRIES[name]["dataclass_registry"]) for name in ("criterion", "optimizer")},
    "lr_scheduler": ("lr-scheduler", REGISTRIES["lr_scheduler"]["dataclass_registry"]),
}
HEADER = """\
# Made by: python -m gtransformer.run.hydra {name}
# The training of configs/{name}.yaml (see there for the numbers' sources) for fairseq-hydra-train, {devices} device(s):
# with fewer, raise optimization.update_freq. On the CPU: common.fp16=false common.cpu=true
#
#   fairseq-hydra-train --config-dir configs/hydra --config-name {name} \\
#       task.data=$PWD/PREPARED/bin common.user_dir=$PWD/gtransformer checkpoint.save_dir=$PWD/runs/hydra
#
# Hydra changes into a directory of its own (outputs/), so paths have to be absolute.
"""


def hydra_config(recipe: Recipe) -> dict[str, dict[str, Any]]:
    """The options of a recipe's sections task and train by fairseq's groups. Raises UserError for one of no group."""
    options = recipe.training()
    config: dict[str, dict[str, Any]] = {"common": {"user_dir": "???"}, "task": {"data": "???"}}
    groups = {part.name: part.type for part in fields(FairseqConfig) if is_dataclass(part.type)}
    for group, (option, known) in NAMED.items():
        name = options.pop(option)
        config.setdefault(group, {})["_name"] = name
        groups[group] = known[name]
    # Only what is written down can be overridden by GROUP.KEY=VALUE: the sizes that go with the name, too.
    sizes = groups["model"].__annotations__
    config["model"] |= {
        part.name: part.default
        for part in fields(groups["model"])
        if part.name in sizes and isinstance(part.default, int)
    }
    types = {group: {part.name: str(part.type) for part in fields(made)} for group, made in groups.items()}
    for option, value in options.items():
        key = option.replace("-", "_")
        group = next((group for group, known in types.items() if key in known), None)
        if group is None:
            raise UserError(f"recipe '{recipe.name}': fairseq-hydra-train has no option '{option}'; take it out")
        config.setdefault(group, {})[key] = _value(value, "List" in types[group][key])
    return config


def _value(value: Any, several: bool) -> Any:
    """A number that YAML takes for a text (5e-4) as a number; a list where fairseq wants one."""
    if several:
        return [_value(one, False) for one in (value if isinstance(value, list) else str(value).split(","))]
    for number in (int, float) if isinstance(value, str) else ():
        try:
            return number(value)
        except ValueError:
            continue
    return value


def hydra_text(recipe: Recipe) -> str:
    """The configuration as YAML."""
    lines = HEADER.format(name=recipe.name, devices=recipe.devices)
    return lines + yaml.safe_dump(hydra_config(recipe), sort_keys=False)


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Print the configuration of one recipe."""
    parser = argparse.ArgumentParser(prog="python -m gtransformer.run.hydra", description=__doc__)
    parser.add_argument("recipe", help="a name in configs/, or the path of a YAML file")
    print(hydra_text(load_recipe(parser.parse_args(argv).recipe)), end="")


if __name__ == "__main__":
    raise SystemExit(main())
