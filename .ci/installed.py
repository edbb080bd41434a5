"""What .ci/check_package.sh tries in an environment that has the wheel: ``python -I
.ci/installed.py``.

No test module: it runs in the environment's own Python, without pytest, in an empty folder, and
nothing of the checkout is imported.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODEL = HERE.parent / "tests" / "small_model" / "model"
PROGRAMS = Path(sys.executable).parent
TRAINED = ("--max-update", "6")


def say(text: str) -> None:
    """A line with the time that has passed."""
    print(f"  {time.monotonic() - STARTED:6.0f} s  {text}", flush=True)


def run(*command: object, status: int = 0) -> str:
    """Run an installed program; its output, or the end of this check with it if it ends with
    another status.
    """
    name, *options = map(str, command)
    done = subprocess.run([str(PROGRAMS / name), *options], capture_output=True, text=True)
    output, line = done.stdout + done.stderr, shlex.join([name, *options])
    need(
        done.returncode == status,
        f"{line}: exit status {done.returncode}, not {status}\n{output[-3000:]}",
    )
    say(line[:110])
    return output


def need(condition: object, text: str) -> None:
    """End this check where a condition does not hold."""
    if not condition:
        raise SystemExit(f"check failed: {text}")


def check_names() -> None:
    """Every command is there and calls itself by its own name."""
    from gtransformer.cli.commands import COMMANDS

    for name in COMMANDS:
        text = run("gtransformer", *name.split(), "--help")
        need(text.startswith(f"usage: gtransformer {name} "), f"{name} calls itself {text[:80]}")
        need("scripts/" not in text, f"the help of {name} names scripts: {text}")


def check_a_saved_model() -> None:
    """A model of the checkout's tests translates as many lines as it is given, the same from
    Python.
    """
    lines = ["Dear Mrs Miller,", "the bank near the river was closed."]
    from gtransformer import GTransformer

    found = GTransformer.from_pretrained(MODEL, device="cpu").translate([lines], beam=5)[0]
    Path("known.en").write_text("".join(f"{line}\n" for line in lines))
    run(
        "gtransformer",
        "translate",
        "--model",
        MODEL,
        "known.en",
        "-o",
        "known.de",
        "--beam",
        5,
        "--cpu",
    )
    text = Path("known.de").read_text(encoding="utf-8")
    need(text.splitlines() == found, f"known.de holds {text}, not {found}")


def check_from_corpus_to_translation() -> None:
    """The demonstration with few documents and hardly any training: all stages, an export,
    translation, pages.
    """
    run("gtransformer", "demo", "--documents", 40, "--test-documents", 2, *TRAINED)
    run("gtransformer", "export", "runs/demonstration/gtransformer", "model")
    source = Path("runs/demonstration/prepared/text/test.en")
    run("gtransformer", "translate", "--model", "model", source, "-o", "test.de")
    lines = [
        len(path.read_text(encoding="utf-8").splitlines()) for path in (source, Path("test.de"))
    ]
    need(lines[0] == lines[1] > 50, f"{lines[0]} lines were translated to {lines[1]}")
    translations = "runs/demonstration/gtransformer/test.jsonl"
    prepared, model = (
        "runs/demonstration/prepared",
        "runs/demonstration/gtransformer/checkpoints/checkpoint_best.pt",
    )
    run("gtransformer", "lab", "attention", prepared, "--path", model, "--picture", "attention.png")
    output = run("gtransformer", "score", prepared, "--hypotheses", translations)
    need("d-BLEU" in output and "version:" in output, f"no scores: {output}")


def check_recipes() -> None:
    """A recipe over a corpus, and fairseq's own commands with the package's name as --user-dir."""
    sizes = ("--documents", 30, "--dev-documents", 2, "--test-documents", 2)
    run("gtransformer", "lab", "demo-corpus", "--output", "corpus", *sizes)
    run("gtransformer", "run", "cpu_tiny", "corpus", "all", "--set", "train.max-update=4")
    records = {path.name for path in Path("runs/cpu_tiny/corpus").iterdir()}
    need(
        {"prepare.json", "train.json", "generate.test.json"} <= records,
        f"stages are missing: {sorted(records)}",
    )
    run(
        "fairseq-generate", "runs/cpu_tiny/corpus/prepared/bin", "--user-dir", "gtransformer",
        "--langs", "en,de",
        "--task", "translation_doc", "--path",
        "runs/cpu_tiny/corpus/checkpoints/checkpoint_best.pt", "--beam", 1,
        "--max-len-a", 0, "--max-len-b", 3, "--gen-output", "by_name", "--cpu",
    )  # fmt: skip
    need(Path("by_name.jsonl").is_file(), "fairseq-generate wrote no by_name.jsonl")


def main() -> None:
    """All of it."""
    found = dict(
        line.split(maxsplit=1) for line in run("gtransformer", "info").splitlines() if "  " in line
    )
    print("\n".join(f"  {name}: {value}" for name, value in found.items()))
    package, configs = Path(found["user-dir"]), Path(found["configs"])
    need(
        Path(sys.prefix).resolve() in package.parents,
        f"{package} is not the package of this environment",
    )
    recipes = {
        path.relative_to(HERE.parent / "configs") for path in (HERE.parent / "configs").rglob("*.*")
    }
    need(all((configs / path).is_file() for path in recipes), f"recipes are missing in {configs}")
    check_names()
    message = run("gtransformer", "translate", "--model", "nowhere", __file__, status=1)
    need("make one with gtransformer export" in message, message)
    check_a_saved_model()
    check_from_corpus_to_translation()
    check_recipes()


STARTED = time.monotonic()
if __name__ == "__main__":
    assert not any(os.scandir()), "give an empty folder"
    main()
