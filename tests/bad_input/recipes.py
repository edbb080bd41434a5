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
    ("no YAML", "train: {lr: 1\n", "bad.yaml: not valid YAML"),
    ("an unknown section", "trian:\n  lr: 1\n", "trian"),
    ("based on nothing", "based-on: nothing\n", "unknown recipe 'nothing': similar ones are "),
    ("a recipe that makes objects", "train: !!python/object/apply:os.system [touch harm]\n", "not valid YAML"),
]
CHANGES = [("a change of an unknown section", "trian.lr=1", "write SECTION.OPTION=VALUE")]
COMPARE = "compare {place}/raw {out} --minutes 1 --recipes cpu_small"
STUDY = "study figure7 demo {out} --miniature"
ROWS = [
    *(Row(name, run("", "{place}/bad.yaml"), says, recipe(text)) for name, text, says in BAD),
    *(Row(f"--set: {name}", run(f"--set '{change}'"), says, raw) for name, change, says in CHANGES),
    Row("an unknown recipe", run("", "bsae"), "unknown recipe 'bsae'", raw),
    Row("a recipe that is not there", run("", "{place}/none.yaml"), "none.yaml", raw),
    Row("an unknown stage", run("", stage="al"), "unknown stage 'al'", raw),
    Row("a corpus that is not there", run(""), "no such corpus"),
    Row("a directory that is no corpus", "run cpu_tiny {place} all --output {out}",
        "{place}: no files for the language pair"),
    Row("nothing prepared", run("", stage="train"), "no prepared corpus; first run stage prepare", raw),
    Row("a pretrained model that is not there", run("", "mbart"), "dict.txt: missing, but recipe 'mbart' needs it",
        raw),
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
]  # fmt: skip
