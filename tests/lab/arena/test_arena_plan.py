"""Arenas: which systems, on what terms, in which order. Real runs: tests/lab/end_to_end/test_arena.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from gtransformer.errors import UserError
from gtransformer.lab.arena.arena import Arena
from gtransformer.lab.arena.plan import Terms, check_terms, system_names
from gtransformer.lab.cli import arena as command
from gtransformer.lab.cli.arena import build_parser
from gtransformer.run.recipe import load_recipe
from tests.pretended import changes, pretend

pytestmark = pytest.mark.slow

SYSTEMS = ["sentences", "concatenation", "documents", "gtransformer", "lst", "window", "window_absolute"]
BESIDE = ["document_transformer", "flat_transformer"]  # a sentence, and two of the source before it
# A sentence and three before it on both sides, in batches that are a document each.
BATCHED = ["pseudo_documents", "docflat", "docflat_d", "docflat_i", "mbe", "abd"]


def terms(*options: object, output: Path = Path("out")) -> Terms:
    return check_terms(build_parser().parse_args(["demo", str(output), *map(str, options)]))


def arena(output: Path, *options: object) -> Arena:
    args = build_parser().parse_args(["demo", str(output), *map(str, options)])
    return Arena(args, check_terms(args))


def test_the_systems_that_come_with_the_package():
    assert {*SYSTEMS, *BESIDE, *BATCHED} <= set(system_names()) and system_names()[0] == "sentences"
    assert not {"start", "document_alone"} & set(system_names()), "they start from nothing"
    for name in system_names():
        recipe = load_recipe(f"arena/{name}")
        assert recipe.pretrained_from == recipe.prepared_from == "start" and recipe.sections["train"]["load-partial"]
    whole = [load_recipe(f"arena/{name}").sections["task"] for name in SYSTEMS[2:]]
    assert all((task["instances"], task["instance-tokens"]) == ("parts", 1000) for task in whole)
    single = [load_recipe(f"arena/{name}") for name in BESIDE]
    assert all(recipe.sections["task"]["instances"] == "current" for recipe in single)
    assert [recipe.sections["train"].get("freeze-sentence-parameters") for recipe in single] == [True, None]
    tasks = [load_recipe(f"arena/{name}").sections["task"] for name in BATCHED]
    assert all(task == tasks[0] and task["batch-order"] == "document" for task in tasks)


def test_all_systems_have_the_same_terms():
    """But for what they are: architecture, instances, strategy."""
    own = {"arch", "window", "window-positions", "train-alignment", "decode-alignment"}
    own |= {"encoder-ctxlayers", "decoder-ctxlayers", "cross-ctxlayers", "freeze-sentence-parameters", "current-layers"}
    own |= {"context-gate", "batch-attention-in"}
    trainings = {name: load_recipe(f"arena/{name}").options("train") for name in system_names()}
    for name in BESIDE:  # of three source sentences one is translated: the same number of these in an update
        trainings[name]["max-tokens"] /= 3
    for name in BATCHED:  # three sentences in four are context
        assert trainings[name].pop("join-documents") is True
        assert trainings[name]["max-tokens"] == 3800
        trainings[name]["max-tokens"] = 1500
    shared = [{key: value for key, value in options.items() if key not in own} for options in trainings.values()]
    assert all(options == shared[0] for options in shared)


def test_a_strategy_that_a_system_cannot_have_is_said_before_anything_is_trained():
    with pytest.raises(UserError, match="recipe 'sentences', stage generate: --strategy sequential"):
        terms("--set", "generate.strategy=sequential")


def test_the_baseline_is_added_and_everything_starts_from_one_model(tmp_path: Path):
    found = terms("--systems", "lst", "--seeds", 3)
    assert found.systems == ("sentences", "lst") and found.start == "start"
    stages = arena(tmp_path, "--systems", "lst", "--seeds", 3, 4, "--updates", 9).pipeline.stages
    for name in ("sentences-3", "lst-3", "sentences-4", "lst-4"):
        assert stages[f"train-{name}"].after == ["train-start"]
        given = changes(stages[f"train-{name}"])
        assert {f"train.seed={name[-1]}", "train.max-update=9", "train.total-num-update=9"} <= set(given)
        assert f"train.finetune-from-model={tmp_path}/runs/start/checkpoints/checkpoint_best.pt" in given
        assert stages[f"contrastive-{name}"].after == [f"train-{name}", "prepare-set"]
    assert not any("seed" in one or "max-update" in one for one in changes(stages["train-start"]))
    trained = [name for name in stages if name.startswith("train-")]
    assert trained == ["train-start", *(f"train-{one}" for one in ("sentences-3", "lst-3", "sentences-4", "lst-4"))]
    assert f"prepare.vocabulary={tmp_path}/prepared" in changes(stages["prepare-set"])
    stages = arena(tmp_path, "--start-updates", 7).pipeline.stages
    assert {"train.max-update=7", "train.total-num-update=7"} <= set(changes(stages["train-start"]))


def test_a_budget_is_not_shortened_by_a_recipe(tmp_path: Path):
    path = tmp_path / "short.yaml"
    path.write_text("description: x\nbased-on: arena/lst\ntrain: {max-epoch: 1, stop-time-hours: 0.01, patience: 1}\n")
    for budget, hours in (("--updates", None), ("--minutes", 0.5)):
        stages = arena(tmp_path / budget, "--systems", path, budget, 30).pipeline.stages
        options = load_recipe(str(path), changes(stages["train-short-1"])).options("train")
        assert options.get("stop-time-hours") == hours and not {"max-epoch", "patience"} & options.keys()


def test_what_was_done_is_kept_and_more_is_added(tmp_path: Path):
    done = pretend(arena(tmp_path, "--systems", "lst", "--seeds", 1).pipeline)
    assert len(done) == 1 + 2 + 1 + 1 + 2 * (7 + 1)
    assert pretend(arena(tmp_path, "--systems", "lst", "--seeds", 1).pipeline) == []
    more = pretend(arena(tmp_path, "--systems", "lst", "window", "--seeds", 1, 2).pipeline)
    assert {name.partition("-")[2] for name in more} == {"window", "window-1", "sentences-2", "lst-2", "window-2"}
    moved = tmp_path.with_name("moved")
    tmp_path.rename(moved)
    assert pretend(arena(moved, "--systems", "lst", "--seeds", 1).pipeline) == [], (
        "a result does not depend on where it lies"
    )


def test_stages_of_earlier_versions_stay_done(tmp_path: Path):
    """Metrics of what was translated are added to what was done without them; nothing is done again for them."""
    stages = arena(tmp_path, "--systems", "lst", "--seeds", 1).pipeline
    pretend(stages)
    later = ("context-items", "align-", "generative-", "cxmi-", "epoch-")
    for path in (tmp_path / "stages").glob("*.json"):
        if path.name.startswith(later):
            path.unlink()
    done = pretend(arena(tmp_path, "--systems", "lst", "--seeds", 1).pipeline)
    assert len(done) == 1 + 2 * (3 + 1) and all(name.startswith(later) for name in done)
    earlier = [stage for name, stage in stages.stages.items() if not name.startswith(later)]
    assert not [one for stage in earlier for one in (*stage.after, *stage.waits_for) if one.startswith(later)]


def test_other_terms_do_not_overwrite_a_model(tmp_path: Path):
    before = arena(tmp_path, "--systems", "lst", "--seeds", 1)
    pretend(before.pipeline)
    with pytest.raises(UserError, match="start: was trained with other settings.*choose another output directory"):
        arena(tmp_path, "--systems", "lst", "--seeds", 1, "--set", "train.dropout=0.2").pipeline.check()
    with pytest.raises(UserError, match="sentences-1: was trained with other settings"):
        arena(tmp_path, "--systems", "lst", "--seeds", 1, "--updates", 301).pipeline.check()
    with pytest.raises(UserError, match="start: was trained .*on another corpus"):
        arena(tmp_path, "--systems", "lst", "--seeds", 1, "--items", 7).pipeline.check()


def test_a_file_of_ones_own(tmp_path: Path):
    """A further system needs no change to the arena."""
    path = tmp_path / "near.yaml"
    path.write_text("description: Near\nbased-on: arena/window\ntrain: {window: 3}\n")
    found = terms("--systems", path, "window")
    assert found.systems == ("sentences", "near", "window")
    assert found.recipe("near").sections["train"]["window"] == 3
    assert str(path) in arena(tmp_path / "out", "--systems", path).pipeline.stages["train-near-1"].work.command


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--updates", 0], "--updates 0: give at least 1"),
        (["--start-updates", 0], "--start-updates 0: give at least 1"),
        (["--jobs", 0], "--jobs 0: give at least 1"),
        (["--seeds", 1, 1], "--seeds 1 1: give different numbers"),
        (["--seeds", -1], "--seeds -1: give different numbers, none below 0"),
        (["--systems", "lst", "lst"], "--systems lst lst: name every system once"),
        (["--systems", "nobody"], "--systems nobody: no system of an arena"),
        (["--systems", "start"], "recipe 'start' starts from no other model, .* all start from 'start'"),
        (["--systems", "cpu_small_finetune"], "'cpu_small_finetune' starts from cpu_small_sent, .* all start from"),
        (["--set", "train.seed=3"], "--set train.seed=3: an arena sets train.seed itself; it comes from --seeds"),
        (
            ["--set", "train.max_update=3"],
            "an arena sets train.max-update itself; it comes from --updates and --start-updates",
        ),
        (
            ["--set", "train.max-epoch=2"],
            "an arena sets train.max-epoch itself; it comes from --updates, --minutes and",
        ),
        (["--set", "train.window=x", "--systems", "window"], "recipe 'start', stage train"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(UserError, match=message):
        terms(*options)


def test_a_corpus_of_its_own_is_refused(tmp_path: Path):
    path = tmp_path / "other.yaml"
    path.write_text("description: x\nbased-on: arena/lst\nprepared-from: base\n")
    with pytest.raises(UserError, match="'other' has a corpus of its own.*write 'prepared-from: start' into it"):
        terms("--systems", path)


def test_one_sentence_and_no_traceback(capsys, tmp_path: Path):
    assert command.main([str(tmp_path / "nowhere"), str(tmp_path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "nowhere: no such corpus; give a directory in the raw corpus format, or one of ted, news, europarl" in line
