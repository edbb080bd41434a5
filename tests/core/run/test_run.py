"""The driver's decisions: paths, stages, devices, notes, errors. Real ones: tests/core/end_to_end/test_run.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from gtransformer.cli.run import main
from gtransformer.errors import UserError
from gtransformer.files import read_json, sha256, write_json
from gtransformer.run import run as module
from gtransformer.run.commands import device_options
from gtransformer.run.paths import RUNS
from gtransformer.run.recipe import load_recipe, recipe_names
from gtransformer.run.run import STAGES, stages_of
from tests.core.run.locations import made, parse, prepare, write_raw

pytestmark = pytest.mark.slow


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


@pytest.fixture
def borrower(tmp_path: Path) -> Path:
    """A recipe that prepares a corpus of its own with the vocabulary of another recipe's."""
    path = tmp_path / "borrower.yaml"
    path.write_text("based-on: base\nvocabulary-from: base\nprepare: {max-sents: 2}\n")
    return path


def test_runs_lie_where_the_user_is_or_wants_them(corpus, runs, tmp_path, monkeypatch):
    assert made("base", corpus, "train").directory == runs / "base" / "tiny"
    monkeypatch.delenv(RUNS)
    monkeypatch.chdir(tmp_path)
    run = made("base", corpus, "train")
    assert run.directory == tmp_path / "runs" / "base" / "tiny" and run.prepared == run.directory / "prepared"
    assert run.checkpoint == run.directory / "checkpoints" / "checkpoint_best.pt"


def test_recipes_share_a_prepared_corpus_or_its_dictionary(corpus, borrower, runs):
    for name in ("doc_base", "sent_base"):
        run = made(name, corpus, "train")
        assert (run.prepared, run.vocabulary) == (runs / "base" / "tiny" / "prepared", None)
    assert made("window/base", corpus, "train").prepared == runs / "concatenation/sentences" / "tiny" / "prepared"
    own = made(borrower, corpus, "train")
    assert own.prepared == runs / "borrower" / "tiny" / "prepared"
    assert own.vocabulary == runs / "base" / "tiny" / "prepared"
    with pytest.raises(UserError, match=r"first run: gtransformer run base .*tiny prepare"):
        own.execute("prepare")


def test_model_of_another_corpus(corpus, runs):
    args = ("doc_base", corpus, "all", "--model-of", "techdocs")
    run = made(*args)
    assert run.checkpoint == runs / "doc_base" / "techdocs" / "checkpoints" / "checkpoint_best.pt"
    assert run.vocabulary == runs / "base" / "techdocs" / "prepared"
    assert run.prepared == runs / "doc_base" / "tiny" / "prepared"
    assert stages_of(parse(*args)) == ("prepare", "generate", "score")


def test_fine_tuning_starts_from_the_run_of_another_recipe(corpus, runs, stages):
    run = made("doc_base_finetune", corpus, "train")
    prepare(run.prepared)
    assert run.pretrained == runs / "sent_base" / "tiny" / "checkpoints" / "checkpoint_best.pt"
    own = made("doc_base_finetune", corpus, "train", "--set", "train.finetune-from-model=x.pt")
    assert own.pretrained is None
    with pytest.raises(UserError, match=r"checkpoint_best.pt: does not exist yet.*run sent_base .*tiny train"):
        run.train()
    touch(run.pretrained)
    run.train()
    assert stages.given("--finetune-from-model") == str(run.pretrained)


def test_training_from_a_model_of_another_vocabulary_is_refused(corpus, stages, tmp_path):
    """So is translating with one. The vocabulary may be borrowed."""
    prepare(tmp_path / "out" / "prepared")
    run = made("base", corpus, "train", "--output", tmp_path / "out")
    run.train()
    touch(run.checkpoint)
    run.generate()
    more = ["--output", tmp_path / "more", "--checkpoint", run.checkpoint]
    more += ["--set", f"train.finetune-from-model={run.checkpoint}", "--prepared"]
    other = made("base", corpus, "train", *more, prepare(tmp_path / "borrowed", borrowed="out", train="2"))
    other.train(), other.generate()
    other = made("base", corpus, "train", *more, prepare(tmp_path / "other", dictionary="2"))
    for stage in (other.train, other.generate):
        with pytest.raises(UserError, match="checkpoint_best.pt: trained with another vocabulary than that of .*other"):
            stage()


def test_what_translates_first(corpus, runs, stages, tmp_path):
    """By the recipe's 'pretrained-from', or as named; a file of translations is passed on as it is."""
    first = ["--set", "generate.first-pass=start"]

    def given(*options: str, recipe: str = "docflat/c") -> str:
        run = made(recipe, corpus, "generate", *options)
        prepare(run.prepared)
        touch(run.checkpoint)
        run.generate()
        return stages.given("--first-pass")

    with pytest.raises(UserError, match="checkpoint_best.pt: the model that training starts from is not there, but"):
        given(*first)
    theirs = runs / "docflat" / "sentences"
    models = (theirs / name / "checkpoints" / "checkpoint_best.pt" for name in ("tiny", "other"))
    start, of_other = map(touch, models)
    assert given(*first) == str(start)
    assert given(*first, "--model-of", "other") == str(of_other)
    own = touch(tmp_path / "other.pt")
    assert given(*first, "--set", f"train.finetune-from-model={own}") == str(own)
    assert given("--set", "generate.first-pass=x.jsonl") == "x.jsonl"
    with pytest.raises(UserError, match="cpu_tiny: the model that training starts from is not there"):
        given(*first, recipe="cpu_tiny")


def test_benchmark_corpora_lie_in_data(tmp_path, monkeypatch):
    monkeypatch.setenv("DATA", str(tmp_path))
    with pytest.raises(UserError, match="gtransformer corpus get ted"):
        made("base", "ted", "prepare")
    (tmp_path / "ted").mkdir()
    assert made("base", "ted", "prepare").raw == tmp_path / "ted"


def test_stages(corpus):
    assert stages_of(parse("base", corpus, "all")) == STAGES and stages_of(parse("base", corpus, "score")) == ("score",)
    with pytest.raises(UserError, match="trian"):
        stages_of(parse("base", corpus, "trian"))
    with pytest.raises(UserError, match="--set train.OPTION=VALUE"):
        stages_of(parse("base", corpus, "all", "--", "--lr", 1))


def test_what_a_stage_needs(tmp_path):
    (tmp_path / "empty").mkdir()
    run = made("cpu_tiny", tmp_path / "empty", "all", "--output", tmp_path / "out")
    with pytest.raises(UserError, match="concatenated_en2de_train_en.txt"):
        run.check_files(["prepare"])
    with pytest.raises(UserError, match="first run stage prepare"):
        run.execute("train")
    test = prepare(run.prepared) / "bin" / "test.en-de.en.idx"
    test.unlink()
    with pytest.raises(UserError, match="no test set; it has train .choose one with --split."):
        run.execute("generate")
    test.touch()
    with pytest.raises(UserError, match="no such checkpoint; train first"):
        run.execute("generate")
    with pytest.raises(UserError, match="no translations to score; first run stage generate"):
        run.execute("score")


def test_a_split_or_language_pair_that_is_missing_is_said_first(tmp_path, runs, capsys):
    """Where the corpus is only prepared, later stages may do without."""
    raw = write_raw(tmp_path / "data", splits=("train",))
    assert main(["base", str(raw), "all"]) == 1
    assert "concatenated_en2de_dev_en.txt" in capsys.readouterr().err
    made("from_sentence_model_small", raw, "prepare").check_files(("prepare",))
    first, second = capsys.readouterr().err.splitlines()
    assert "concatenated_en2de_dev_en.txt" in first and "concatenated_en2de_test_en.txt" in second
    assert main(["base", str(write_raw(tmp_path / "french", pair=("en", "fr"))), "prepare"]) == 1
    assert "for en-fr give --langs en,fr" in capsys.readouterr().err and not runs.exists()
    nllb = ["--set", "task.source-lang=eng_Latn", "--set", "task.target-lang=deu_Latn"]
    assert main(["base", str(write_raw(tmp_path / "nllb", pair=("eng", "deu"))), "prepare", *nllb]) == 1
    assert "it has eng-deu; name its files as en2de" in capsys.readouterr().err


def fail(*_) -> None:
    """In place of a stage."""
    raise UserError("out of memory")


def finished(corpus: Path, output: Path, *options: object):
    """A run with all that its stages read."""
    run = made("cpu_tiny", corpus, "all", "--output", output, *options)
    prepare(run.prepared)
    touch(run.checkpoint)
    touch(output / "test.jsonl")
    return run


def test_which_reference_is_scored(corpus, stages, tmp_path):
    """Both where there are both, or the one that is asked for; a score names its own, so that nothing was changed."""
    run = finished(corpus, tmp_path)
    run.score()
    assert stages.given("--reference") == "both"
    (run.prepared / "instances" / "test.de").unlink()
    run.score()
    assert stages.given("--reference") == "raw"
    for name in ("raw", "release"):
        finished(corpus, tmp_path, "--set", f"score.reference={name}").score()
        assert stages.given("--reference") == name
        assert read_json(tmp_path / "test.scores.json")["changes"] == []


def test_scores_say_what_was_changed(corpus, stages, tmp_path):
    """Each stage run with changes of its own; those of sections that a stage does not read are nothing to it."""
    scores = tmp_path / "test.scores.json"
    run = finished(corpus, tmp_path)
    for stage in STAGES:
        run.execute(stage)
    assert read_json(scores) == {"scores": {}, "recipe": "cpu_tiny", "changes": []} and stages.did == list(STAGES)
    changes = {"prepare": "prepare.bpe-merges=5", "train": "train.patience=1", "generate": "generate.beam=1"}
    for stage, change in (changes | {"score": "devices=3"}).items():
        finished(corpus, tmp_path, "--set", change).execute(stage)
    assert read_json(scores)["changes"] == list(changes.values())
    run = finished(corpus, tmp_path, "--", "--max-update", 3)
    run.execute("train"), run.execute("generate")
    said = ["prepare.bpe-merges=5", "train -- --max-update 3", "generate -- --max-update 3"]
    assert read_json(tmp_path / "generate.test.json")["changes"] == said
    tuned = finished(corpus, tmp_path / "tuned")  # from a model that was changed
    tuned.pretrained = run.checkpoint
    tuned.execute("train"), tuned.execute("score")
    assert read_json(tmp_path / "tuned" / "test.scores.json")["changes"] == said[:2]


def test_a_model_that_was_trained_with_other_options(corpus, stages, tmp_path, monkeypatch):
    """It is not taken for one trained with these; how long to train, and on which machine, may change."""
    run = finished(corpus, tmp_path)
    run.checkpoint.unlink()
    run.train()
    for changes in (
        ["--set", "train.max-update=9", "--set", "train.patience=2"],
        ["--", "--max-epoch", 3, "--log-interval=5"],
    ):
        finished(corpus, tmp_path, *changes).train()
    before = sorted(path.read_bytes() for path in tmp_path.rglob("*.json"))
    for changes in (["--set", "train.dropout=0.5"], ["--", "--dropout", 0.5], ["--", "--dropout=0.5"]):
        with pytest.raises(UserError, match=r"trained with other options \(dropout 0.1, not 0.5\).*--output.*--again"):
            finished(corpus, tmp_path, *changes).train()
    assert sorted(path.read_bytes() for path in tmp_path.rglob("*.json")) == before
    for refused in (["devices=8"], ["train.update-freq=3"]):
        with pytest.raises(UserError, match=r"other options \(update-freq 1, not \d\)"):
            finished(corpus, tmp_path, "--set", *refused).train()
    finished(corpus, tmp_path, "--set", "train.finetune-from-model=moved.pt").train()
    finished(corpus, tmp_path, "--", "--cpu").train()
    finished(corpus, tmp_path, "--set", "train.dropout=0.5", "--again").train()
    with pytest.raises(UserError, match=r"\(dropout 0.5, not 0.1\)"):
        finished(corpus, tmp_path).train()
    noted = tmp_path / "checkpoints" / "corpus.json"
    monkeypatch.setattr(module, "run_stage", fail)
    with pytest.raises(UserError, match="out of memory"):
        finished(corpus, tmp_path, "--set", "train.dropout=0.7", "--again").train()
    assert read_json(noted)["options"]["dropout"] == "0.5", "nothing was trained with the others"
    monkeypatch.setattr(module, "run_stage", stages)
    write_json(noted, {name: value for name, value in read_json(noted).items() if name != "options"})
    finished(corpus, tmp_path, "--set", "train.dropout=0.7").train()
    assert "options" not in read_json(noted), "those of a model of an earlier version are not known"


def test_a_model_that_started_from_another_one(corpus, stages, tmp_path):
    """Its start may be moved, but not be another one: the training would not be repeated."""
    start, moved = tmp_path / "start.pt", tmp_path / "moved.pt"
    start.write_bytes(b"1"), moved.write_bytes(b"1")
    output, option = tmp_path / "run", "train.finetune-from-model="
    run = finished(corpus, output, "--set", option + str(start))
    run.checkpoint.unlink()
    run.train()
    finished(corpus, output, "--set", option + str(moved)).train()
    start.write_bytes(b"2")
    with pytest.raises(
        UserError, match=r"started from another model \(finetune-from-model\) than .*start.pt; .*--output"
    ):
        finished(corpus, output, "--set", option + str(start), "--again").train()
    with pytest.raises(UserError, match="than this training, which has none; "):
        finished(corpus, output).train()
    start.unlink()
    finished(corpus, output, "--set", option + str(start)).train()
    assert read_json(output / "checkpoints" / "corpus.json")["starts"] == {"finetune-from-model": sha256(moved)}


def test_a_corpus_prepared_from_another_text(corpus, stages, tmp_path):
    run, record = finished(corpus, tmp_path), tmp_path / "prepared" / "manifest.json"
    inputs = {path.name: sha256(path) for path in sorted(corpus.glob("concatenated_*"))}
    write_json(record, read_json(record) | {"inputs": inputs})
    run.train(), run.generate()
    other = next(corpus.glob("concatenated_*_test_*"))
    other.write_bytes(other.read_bytes() + b"one more\n")
    run = made("cpu_tiny", corpus, "all", "--output", tmp_path)
    with pytest.raises(UserError, match=f"was made from another text than {other} is now; run stage prepare first"):
        run.generate()
    made("cpu_tiny", corpus, "generate", "--output", tmp_path, "--prepared", run.prepared).generate()


def test_options_after_the_dashes_have_long_names(corpus, stages, tmp_path):
    with pytest.raises(UserError, match="-s: options after -- have long names"):
        finished(corpus, tmp_path, "--", "-s", "en").train()


def test_a_failed_translation_leaves_none_of_another_model(corpus, stages, tmp_path, monkeypatch):
    run = finished(corpus, tmp_path)
    run.generate()
    assert run.translations.is_file()

    monkeypatch.setattr(module, "run_stage", fail)
    with pytest.raises(UserError, match="out of memory"):
        run.generate()
    assert not run.translations.exists()


def test_translations_of_another_test_set_are_not_scored(corpus, stages, tmp_path):
    run = finished(corpus, tmp_path)
    run.generate(), run.score()
    prepare(run.prepared, target="2")  # a corrected reference
    run.score()
    prepare(run.prepared, source="2")
    with pytest.raises(UserError, match="test.jsonl: translations of another text than the test set .* generate again"):
        run.score()
    run.generate(), run.score()


@pytest.mark.parametrize(
    ("wanted", "present", "own", "expected"),
    [
        (4, 0, {}, {"update-freq": 4}),
        (4, 3, {}, {"update-freq": 2, "distributed-world-size": 2}),
        (4, 3, {"update-freq": "3,2"}, {"update-freq": "6,4", "distributed-world-size": 2}),
        (4, 1, {"update-freq": [1, 2]}, {"update-freq": "4,8"}),
    ],
)
def test_devices_are_used_so_that_updates_stay_as_large(wanted, present, own, expected):
    assert device_options(own, wanted, present) == expected


def test_an_update_has_as_many_batches_on_any_number_of_devices():
    for wanted, own, present in ((a, b, c) for a in range(1, 9) for b in (1, 2, 3) for c in range(11)):
        options = device_options({"update-freq": own}, wanted, present)
        devices = options.get("distributed-world-size", 1)
        assert devices <= max(1, min(wanted, present))
        assert devices * options["update-freq"] == wanted * own, (wanted, own, present)


@pytest.mark.parametrize("value", ["often", 0, 1.5, [], "1,,2"])
def test_a_wrong_update_freq_is_named(value):
    with pytest.raises(UserError, match="train.update-freq"):
        device_options({"update-freq": value}, 4, 2)


@pytest.mark.parametrize("arguments", [[], ["bsae", "CORPUS", "all"], ["--help"]])
def test_all_recipes_are_listed(arguments: list[str], capsys):
    """Without a recipe, with an unknown one, and on request; only the last is no error."""
    if arguments == ["--help"]:
        with pytest.raises(SystemExit, match="0"):
            main(arguments)
    else:
        assert main(arguments) > 0
    output = capsys.readouterr().out
    assert all(f"  {name} " in output and load_recipe(name).description in output for name in recipe_names())
