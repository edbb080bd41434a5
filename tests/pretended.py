"""Pipelines whose stages are not run, and what their commands are given."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from gtransformer.lab.pipeline import Pipeline, Stage


def pretend(pipeline: Pipeline) -> list[str]:
    """Run a pipeline whose stages only leave what they are to leave; returns those that were done, in their order."""
    did = []

    def leave(stage: Stage) -> None:
        did.append(stage.name)
        for path in stage.outputs:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.is_dir():  # of a file that has been left
                path.write_text("{}")

    stages = pipeline.stages
    stages.update({name: replace(stage, work=partial(leave, stage)) for name, stage in stages.items()})
    pipeline.run("pretended")
    return did


def changes(stage: Stage) -> list[str]:
    """What ``--set`` gives a stage's program."""
    command = stage.work.command
    return [value for flag, value in zip(command, command[1:], strict=False) if flag == "--set"]
