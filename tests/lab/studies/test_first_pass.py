"""Recipes whose training's start translates first, in arenas."""

from __future__ import annotations

from pathlib import Path

from gtransformer.lab.arena.arena import Arena
from gtransformer.lab.cli.arena import build_parser as arena_parser
from tests.pretended import changes


def test_in_an_arena_it_is_the_shared_start(tmp_path: Path):
    for asked in (True, False):
        (tmp_path / "mine.yaml").write_text("based-on: arena/sentences\n" + "generate: {first-pass: start}\n" * asked)
        args = arena_parser().parse_args(["demo", str(tmp_path / "out"), "--systems", str(tmp_path / "mine.yaml")])
        stages = Arena(args).pipeline.stages
        start = f"train.finetune-from-model={tmp_path / 'out'}/runs/start/checkpoints/checkpoint_best.pt"
        assert (start in changes(stages["translate-mine-1"])) == asked
