"""Runs belong to a corpus by content: folders of one name may hold different corpora, languages, or a moved one."""

from __future__ import annotations

from pathlib import Path

import pytest

from gtransformer.cli.run import main
from gtransformer.errors import UserError
from gtransformer.files import write_json
from gtransformer.run.dependencies import missing_first
from gtransformer.run.paths import Corpus, run_directory
from gtransformer.run.recipe import language_changes
from gtransformer.run.stage import search_of_run
from tests.core.run.locations import PAIR, made, parse, write_raw


def test_another_corpus_of_the_same_name_has_a_run_of_its_own(tmp_path: Path, runs: Path):
    one, other = write_raw(tmp_path / "one" / "data"), write_raw(tmp_path / "other" / "data", "B.")
    Corpus.find(str(one), PAIR).note(runs / "base" / "data")
    first, second = (made("base", raw, "all").directory for raw in (one, other))
    assert first == runs / "base" / "data" and second.parent == first.parent and second != first
    Corpus.find(str(other), PAIR).note(second)
    assert made("base", other, "all").directory == second, "found again"
    moved = one.rename(tmp_path / "data")
    assert made("base", moved, "all").directory == first, "the same content at another path"


def test_a_corrected_test_set_is_no_other_corpus_and_another_training_set_is(tmp_path: Path, runs: Path):
    raw = write_raw(tmp_path / "data")
    Corpus.find(str(raw), PAIR).note(runs / "base" / "data")
    write_raw(raw, "Corrected.", splits=["test"])
    assert made("base", raw, "all").directory == runs / "base" / "data"
    write_raw(raw, "More.", splits=["train"])
    assert made("base", raw, "all").directory != runs / "base" / "data"


def test_two_language_pairs_of_one_folder_are_two_corpora(tmp_path: Path, runs: Path):
    raw = write_raw(write_raw(tmp_path / "data"), pair=("en", "fr"))
    Corpus.find(str(raw), PAIR).note(runs / "base" / "data")
    changes = [word for change in language_changes("base", "en,fr") for word in ("--set", change)]
    french = made("base", raw, "all", *changes)
    assert french.directory != runs / "base" / "data" == made("base", raw, "all").directory
    assert french.recipe.preparing()["langs"] == "en,fr"


def test_two_directions_of_one_corpus_are_two_runs(tmp_path: Path, runs: Path):
    raw = write_raw(tmp_path / "data")
    there, back = (Corpus.find(str(raw), pair) for pair in (PAIR, PAIR[::-1]))
    directory = run_directory("base", there)
    there.note(directory)
    assert run_directory("base", there) == directory != run_directory("base", back)


def test_runs_of_recipes_that_share_a_corpus_are_told_apart_by_what_they_trained_on(tmp_path: Path, runs: Path):
    raw, other = write_raw(tmp_path / "data"), write_raw(tmp_path / "other" / "data", "B.")
    for recipe, stage in (("base", "prepared/manifest"), ("sent_base", "train")):
        Corpus.find(str(raw), PAIR).note(runs / recipe / "data")
        write_json(runs / recipe / "data" / f"{stage}.json", {})
    assert run_directory("sent_base", Corpus.find(str(raw), PAIR)) == runs / "sent_base" / "data"
    assert run_directory("sent_base", Corpus.find(str(other), PAIR)) != runs / "sent_base" / "data"
    assert missing_first(parse("from_sentence_model", raw, "all")) == []
    lacking = [["base", str(other), "prepare"], ["sent_base", str(other), "train"]]
    assert missing_first(parse("from_sentence_model", other, "all")) == lacking


def test_languages_and_ways_to_prepare_hold_for_the_recipes_before(tmp_path: Path, runs: Path):
    raw = write_raw(tmp_path / "data")
    passed = ["--set", "prepare.bpe-merges=32000"]
    found = missing_first(parse("window/base", raw, "all", *passed, "--set", "train.dropout=0.1"))
    assert found == [["concatenation/sentences", str(raw), "prepare", *passed]]
    found = missing_first(parse("from_sentence_model", raw, "all", "--set", "train.finetune-from-model=x.pt"))
    assert found == [["base", str(raw), "prepare"]]


def test_a_shared_corpus_keeps_the_options_that_it_was_prepared_with(tmp_path: Path, runs: Path, capsys):
    """A recipe that is run on it, with nothing said of preparing, neither refuses nor replaces it."""
    raw = write_raw(tmp_path / "data")
    settings = {"bpe_merges": 32000, "max_instance_tokens": 512, "max_sents": None}
    write_json(runs / "concatenation/sentences" / "data" / "prepared" / "manifest.json", {"settings": settings})
    for options, merges in (((), 32000), (("--set", "prepare.bpe-merges=7"), 7)):
        made("window/base", raw, "prepare", "--dry-run", *options).execute("prepare")
        assert f"--bpe-merges {merges} " in capsys.readouterr().out


@pytest.mark.parametrize("options", [[], ["--langs", "fr,no"]])
def test_a_recipe_of_other_languages_is_run_with_them_before(tmp_path: Path, runs: Path, capsys, options):
    """Also if they are asked for once more, and though YAML reads the code of Norwegian as false."""
    raw, mine = write_raw(tmp_path / "data", pair=("fr", "no")), tmp_path / "mine.yaml"
    task = '{source-lang: fr, target-lang: "no", langs: "fr,no"}'
    mine.write_text(f"based-on: from_sentence_model_small\ntask: {task}\n")
    assert main([str(mine), str(raw), "all", "--dry-run", *options]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[5:8:2] for line in said if line.startswith("# [all]")] == [
        ["cpu_small", "prepare"],
        ["cpu_small_sent", "train"],
    ]
    programs = [line for line in said if line.startswith(("gtransformer prepare", "fairseq-"))]
    assert len(programs) == 5 and all(" --source-lang fr --target-lang no " in line for line in programs)


def test_a_recipe_s_own_way_to_prepare_holds_for_the_corpus_that_it_shares(tmp_path: Path, runs: Path, capsys):
    """The one who lends it prepares it so; one that was prepared otherwise is not taken in silence."""
    raw, mine = write_raw(tmp_path / "data"), tmp_path / "mine.yaml"
    mine.write_text("based-on: from_sentence_model\nprepare: {bpe-merges: 50, moses-rules: null}\n")
    passed = ["--set", "prepare.bpe-merges=50", "--set", "prepare.moses-rules=null"]
    first = [["base", str(raw), "prepare", *passed], ["sent_base", str(raw), "train", *passed]]
    assert missing_first(parse(mine, raw, "all")) == first
    later = ["--set", "prepare.bpe-merges=7"]
    assert missing_first(parse(mine, raw, "all", *later))[0] == [*first[0], *later]
    settings = {"bpe_merges": 30000, "max_instance_tokens": 99, "moses_rules": True}
    write_json(runs / "base" / "data" / "prepared" / "manifest.json", {"settings": settings})
    made(mine, raw, "prepare", "--dry-run").execute("prepare")
    said = capsys.readouterr().out
    assert "--bpe-merges 50 --max-instance-tokens 99 " in said and "--moses-rules" not in said
    made("from_sentence_model", raw, "prepare", "--dry-run").execute("prepare")
    said = capsys.readouterr().out
    assert "--bpe-merges 30000 " in said and " --moses-rules" in said


def test_all_commands_can_be_seen_before_anything_is_done(tmp_path: Path, capsys):
    """Those of other recipes, too; nothing is written, and every line is one for a shell."""
    raw = write_raw(tmp_path / "data")
    assert main(["from_sentence_model_small", str(raw), "all", "--dry-run"]) == 0
    said = capsys.readouterr()
    lines = [line for line in said.out.splitlines() if not line.startswith("#")]
    words = [" ".join(line.split()[: 1 + line.startswith("gtransformer")]) for line in lines]
    sentences, documents = ["gtransformer prepare", "fairseq-train"], ["fairseq-generate", "gtransformer score"]
    assert words == [*sentences, *sentences, *documents]
    start = tmp_path / "runs" / "cpu_small_sent" / "data" / "checkpoints" / "checkpoint_best.pt"
    assert f"--finetune-from-model {start}" in lines[3] and "--user-dir gtransformer " in lines[3]
    assert sorted(tmp_path.iterdir()) == [raw]


@pytest.mark.parametrize(
    ("recipe", "pair", "changes"),
    [
        ("base", "en,de", []),
        ("base", "en,fr", ["task.target-lang=fr", "task.langs=en,fr"]),
        ("base", "de,en", ["task.source-lang=de", "task.target-lang=en", "task.langs=de,en"]),
    ],
)
def test_a_language_pair_is_one_option(recipe, pair, changes):
    assert language_changes(recipe, pair) == changes


@pytest.mark.parametrize(
    ("recipe", "pair"), [("base", "en"), ("base", "en,en"), ("base", "en,d e"), ("mbart", "en,fr")]
)
def test_a_language_pair_that_cannot_be(recipe, pair):
    with pytest.raises(UserError, match="--langs"):
        language_changes(recipe, pair)


@pytest.mark.parametrize("by_file", [False, True])
def test_a_model_that_is_not_there_is_said_before_a_corpus_is_prepared(tmp_path: Path, capsys, by_file):
    """With a directory of its own nothing is done for other recipes; what is to be typed has the languages."""
    raw = write_raw(tmp_path / "data", pair=("en", "fr"))
    mine = tmp_path / "mine.yaml"
    mine.write_text('based-on: from_sentence_model\ntask: {target-lang: fr, langs: "en,fr"}\n')
    recipe, options = (mine, []) if by_file else ("from_sentence_model", ["--langs", "en,fr"])
    assert main([str(recipe), str(raw), "all", *options, "--output", str(tmp_path / "own")]) == 1
    said = capsys.readouterr().err
    assert "does not exist yet" in said and f"gtransformer run sent_base {raw} train --langs en,fr" in said
    assert not (tmp_path / "own").exists()


def test_a_training_that_is_not_over_has_its_recipes_search(tmp_path: Path):
    raw = write_raw(tmp_path / "data")
    run = made("from_sentence_model", raw, "train", "--set", "generate.beam=7")
    run.corpus.note(run.directory, generate=run.recipe.options("generate"))
    found = search_of_run(run.directory)
    assert (found["beam"], found["strategy"]) == (7, "sequential")
    write_json(run.directory / "train.json", {"generate": {"beam": 3}})
    assert search_of_run(run.directory) == {"beam": 3}
