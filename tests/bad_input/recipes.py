"""Recipes, --set, and what goes with them on the command lines of run, compare, study and arena."""

from __future__ import annotations

from pathlib import Path

from tests.bad_input.row import Row


def raw(place: Path) -> None:
    """A directory that is a corpus by its names."""
    (place / "raw").mkdir()
    for split in ("train", "dev", "test"):
        for lang in ("en", "de"):
            (place / "raw" / f"concatenated_en2de_{split}_{lang}.txt").write_text("<d>\na\n")


def recipe(text: str | bytes):
    def make(place: Path) -> None:
        raw(place)
        (place / "bad.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())

    return make


def run(options: str, recipe: str = "cpu_tiny", stage: str = "all") -> str:
    return f"run {recipe} {{place}}/raw {stage} --output {{out}} {options}"


BAD = [
    ("a list for options", "train:\n  - lr\n", "bad.yaml, line 1: train is ['lr']; give lines of the form"),
    ("no YAML", "train: {lr: 1\n", "bad.yaml, line 2: not valid YAML"),
    ("an unknown section", "trian:\n  lr: 1\n", "unknown key 'trian'; known are"),
    ("options of options", "train:\n  lr:\n    start: 1\n", "train.lr holds further keys"),
    ("rows that are none", "rows: Table 2\n", "bad.yaml, line 1: rows is 'Table 2'; give lines of the form"),
    ("devices that are none", "devices: many\n", "bad.yaml, line 1: devices is 'many'; give a whole number of at"),
    ("an option twice", "train:\n  lr: 1\n  lr: 2\n", "bad.yaml, line 3: 'lr' occurs twice"),
    ("an option twice, spelt differently", "train: {max_update: 1, max-update: 2}\n", "occurs twice"),
    ("two recipes below", "based-on: base\nbased_on: big\n", "bad.yaml, line 2: 'based_on' occurs twice"),
    ("what stands for something", "train:\n  save-dir: ${HOME}/x\n", "bad.yaml, line 2: '${HOME}/x' is a placeholder"),
    ("based on itself", "based-on: bad\n", "based on itself"),
    ("based on nothing", "based-on: nothing\n", "unknown recipe 'nothing': similar ones are "),
    ("empty", "", "bad.yaml: is empty; give lines of the form 'key: value'"),
    ("a recipe that is not UTF-8", b"description: \xff\n", "bad.yaml"),
    ("a recipe that makes objects", "train: !!python/object/apply:os.system [touch harm]\n", "bad.yaml, line 1: "),
]
CHANGES = [
    ("a change of nothing", "lr=1", "write SECTION.OPTION=VALUE"),
    ("a change to nothing", "train.lr", "write SECTION.OPTION=VALUE"),
    ("a change of an unknown section", "trian.lr=1", "write SECTION.OPTION=VALUE"),
    ("a change of no option", "train.=1", "write SECTION.OPTION=VALUE"),
    ("devices", "devices=many", "--set devices=many: devices is 'many'; give a whole number of at least 1"),
    ("no devices", "devices=", "--set devices=: devices is None; give a whole number"),
    ("a variable", "train.save-dir=${HOME}", "'${HOME}' is a placeholder"),
    ("an unknown option", "train.nonsense=1", "recipe 'cpu_tiny', stage train: unrecognized"),
    ("an unknown option of preparing", "prepare.foo=1", "stage prepare: unrecognized arguments: --foo"),
    ("a beam that is no number", "generate.beam=x", "stage generate: argument --beam: invalid int"),
    ("a rate that is no number", "train.lr=abc", "--lr: cannot be read: 'abc'; give a number, or several"),
    ("an unknown architecture", "train.arch=gtransformer_bsae", "'gtransformer_bsae'; "),
    ("negative updates", "train.max-update=-4", "--max-update -4: give more than 0"),
    ("negative epochs", "train.max-epoch=-1", "--max-epoch -1: give more than 0"),
    ("dropout above all", "train.dropout=2", "--dropout 2.0: give a number from 0 to 1"),
    ("windows of no size", "generate.strategy=sliding", "needs --window-tokens"),
]
COMPARE = "compare {place}/raw {out} --minutes 1 --recipes cpu_small"
STUDY = "study figure7 demo {out} --miniature"
ROWS = [
    *(Row(name, run("", "{place}/bad.yaml"), says, recipe(text)) for name, text, says in BAD),
    *(Row(f"--set: {name}", run(f"--set '{change}'"), says, raw) for name, change, says in CHANGES),
    Row("a change that contradicts another", run("--set task.instances=sliding --set task.context-sentences=0"),
        "give 1 or more", raw),
    Row("heads that do not divide", run("--set train.encoder-embed-dim=128 --set train.encoder-attention-heads=7"),
        "heads 7: does not divide ", raw),
    Row("a rule given and taken", run("--set task.doc-constraint=true --set generate.sentence-rule=off"),
        "--sentence-rule off", raw),
    Row("context without context", run("--set task.instances=sliding --set task.context-sentences=0", stage="generate"),
        "stage generate: ", raw),
    Row("no loss of context",
        run("--set task.instances=greedy --set task.instance-tokens=64 --set task.context-loss=off"), "has context",
        raw),
    Row("an unknown recipe", run("", "bsae"), "unknown recipe 'bsae'", raw),
    Row("a recipe that is not there", run("", "{place}/none.yaml"), "none.yaml", raw),
    Row("an unknown stage", run("", stage="al"), "unknown stage 'al'", raw),
    Row("a corpus that is not there", run(""), "no such corpus"),
    Row("a path with a colon", run("--prepared {place}/a:b"), "a:b: fairseq takes a path with a colon for several",
        raw),
    Row("the model of no corpus", run("--model-of {place}/none"), "--model-of {place}/none: no such directory", raw),
    Row("a checkpoint for training", run("--checkpoint x", stage="train"), "--checkpoint is for generate", raw),
    Row("a directory that is no corpus", "run cpu_tiny {place} all --output {out}",
        "{place}: no files for the language pair"),
    Row("an option for no stage", run("-- --foo", stage="score"), "stage score: unrecognized arguments: --foo", raw),
    Row("nothing prepared", run("", stage="train"), "no prepared corpus; first run stage prepare", raw),
    Row("a pretrained model that is not there", run("", "mbart"), "dict.txt: missing, but recipe 'mbart' needs it",
        raw),
    Row("no BERT", run("", "bert", "train"), "give its path with --set train.bert-checkpoint=PATH", raw),
    Row("an output through a file", "run cpu_tiny {place}/raw prepare --output {text}/x", "{text}/x",
        raw),
    Row("compare: minutes that are no number", COMPARE.replace("--minutes 1", "--minutes nan"), "--minutes nan", raw),
    Row("compare: minutes without end", COMPARE.replace("--minutes 1", "--minutes inf"), "--minutes inf", raw),
    Row("compare: scores", f"{COMPARE} --set score.metrics=ter", "score.metrics cannot be changed here", raw),
    Row("arena: patience", "arena demo {out} --set train.patience=3", "train.patience cannot be changed here"),
    Row("demo: two budgets", "demo --output {out} --max-update 5 --set train.max-update=7", "comes from --max-update"),
    Row("study: an unknown figure", STUDY.replace("figure7", "figure99"), "figure99"),
    Row("study: a seed", f"{STUDY} --set train.seed=4", "a study trains with several seeds; list them in its file"),
    Row("study: a log that is not read", f"{STUDY} --set train.log_format=simple",
        "--set train.log_format=simple: a study reads its curves from the log"),
    Row("study: epochs", f"{STUDY} --set train.max-epoch=3 --set train.validate-interval=1000000",
        "train.max-epoch is 3, but training validates by updates here"),
    Row("study: a list and jobs", f"{STUDY} --list --jobs 2", "--list only looks; leave --jobs out"),
    Row("study: nothing to do at a time", f"{STUDY} --only-finished --jobs 2", "--only-finished runs nothing"),
    Row("study: no jobs", f"{STUDY} --jobs 0", "--jobs 0: give at least 1"),
]  # fmt: skip
