"""Results of an arena: collect those of its runs, write them and show them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gtransformer.evaluation.score import score_translations
from gtransformer.files import atomic_write, read_json, write_json
from gtransformer.lab.analysis.curves import Curve, plot_learning_curves, read_curve, read_series
from gtransformer.lab.analysis.figures import draw_reach
from gtransformer.lab.arena.arena import BASELINE, Arena
from gtransformer.lab.arena.budget import PER_UPDATE, budget_words
from gtransformer.lab.arena.statistics import DISTANCE_BOTH, accuracies, contexts_of, error_of, scores_of, spread
from gtransformer.lab.arena.table import arena_text
from gtransformer.lab.comparison.comparison import count_parameters
from gtransformer.lab.records import REFERENCE, Translations, pack, with_interval
from gtransformer.provenance import provenance
from gtransformer.search.strategies import FULL
from gtransformer.tasks.translation_doc import GPU_PEAK

# Time of decoding and of a first pass, as logged by their programs.
DECODED = re.compile(r"Translated [\d,]+ sentences .* in ([\d.]+)s ")
FIRST_PASS = re.compile(r"first pass: .* in ([\d.]+)s$", re.MULTILINE)
MADE = re.compile(r"first pass: \d+ sentences by ")  # not read from a file
ALIGNED_TEXT = "test.aligned.txt"  # a run's translation, with as many sentences as the reference
# Records of the programs in a run's folder.
RECORDS = ("train", "generate.test", "test.scores", "test.aligned", "contrastive", "generative", "cxmi")


def finish(arena: Arena, argv: list[str] | None) -> None:
    """Write the results, their table and the figure, and print the table."""
    result = collect(arena)
    shown = arena_text(result)
    with atomic_write(arena.results["txt"]) as stream:
        stream.write(shown + "\n")
    if arena.shows_reach:
        draw_arena(result, arena.results["png"])
    else:
        draw_curves(arena, result)
    texts = {f"{one.name}.txt": one / ALIGNED_TEXT for name in arena.systems for one in arena.folders(name)}
    if arena.shows_reach:  # a user's corpus may not be passed on
        texts[REFERENCE] = arena.reference()
    pack(texts, arena.results["tar.xz"])
    write_json(arena.results["json"], result | provenance("lab arena", argv))
    print(f"\n{shown}\n")
    for path in arena.results.values():
        print(f"written: {path}", flush=True)


def draw_arena(result: dict[str, Any], path: Path) -> None:
    """Draw the figure of accuracy by distance, only from the arena's result."""
    seeds = len(result["seeds"])
    terms = f"{_terms(result)}, {seeds} seed{'s' * (seeds > 1)}"
    draw_reach(result, path, terms, DISTANCE_BOTH, error_of)


def draw_curves(arena: Arena, result: dict[str, Any]) -> None:
    """Draw validation perplexity during training of the first seed, if there is no accuracy by distance."""
    seed = arena.seeds[0]
    logs = {name: arena.folder(name, seed) / "train.log" for name in arena.systems}
    curves = {name: Curve(valid=read_curve(log).valid) for name, log in logs.items()}
    title = f"{result['corpus']['name']}: validation perplexity, {_terms(result)}, seed {seed}"
    plot_learning_curves(curves, arena.results["png"], title)


def _terms(result: dict[str, Any]) -> str:
    return f"{budget_words(result)} from {'one sentence model' if result['start'] else 'random weights'}"


def collect(arena: Arena) -> dict[str, Any]:
    """Return the results of all systems, as in ``arena.json``."""
    folders = {name: arena.folders(name) for name in arena.systems}
    systems = {name: _system(arena, name, folders[name]) for name in folders}
    texts = Translations(partial(score_translations, arena.prepared, "test"))
    for name in folders:
        if name != BASELINE:
            systems[name]["difference"] = _difference(
                texts, *((systems[one], folders[one]) for one in (BASELINE, name))
            )
    if arena.shows_reach:
        for what, read in (("accuracy", _choices), ("generative", _written)):
            found = {name: list(map(read, folders[name])) for name in folders}
            for name, runs in found.items():
                systems[name][what] = accuracies(runs, None if name == BASELINE else found[BASELINE])
    every = [folder for found in folders.values() for folder in found]
    every += [] if arena.from_scratch else [arena.folder(arena.start)]
    # A later version of the code may resume an arena.
    records = [path for folder in every for name in RECORDS if (path := folder / f"{name}.json").is_file()]
    commits = sorted({commit for path in records if (commit := read_json(path).get("commit"))})
    settings = arena.common() | arena.speed_settings()
    return {"version": 1, **settings, "files": arena.files(), "systems": systems, "commits": commits}


def _system(arena: Arena, name: str, folders: Sequence[Path]) -> dict[str, Any]:
    """Return all results of one system except those by distance."""
    recipe = arena.recipe(name)
    files = ("test.scores.json", "test.aligned.json", "cxmi.json")
    scores, aligned, cxmi = ([read_json(folder / file) for folder in folders] for file in files)
    curves = [read_curve(folder / "train.log") for folder in folders]
    seconds = [seconds_of(arena, folder, curve) for folder, curve in zip(folders, curves, strict=True)]
    updates = [curve.updates for curve in curves]
    sentences = [run["counts"]["sentences"] for run in scores]
    trained = [done / max(one["training"], 0.1) for done, one in zip(updates, seconds, strict=True)]
    translated = [count / one["translation"] for count, one in zip(sentences, seconds, strict=True)]
    found = {
        "description": recipe.description,
        "strategy": recipe.options("task", "generate").get("strategy", FULL),
        "parameters": count_parameters(folders[0] / "train.log"),
        "scores": scores_of(scores),
        "aligned": scores_of(aligned),
        "cxmi": contexts_of(cxmi),
        "validation_perplexity": [curve.last_valid for curve in curves],
        "updates": updates,
        "seconds": seconds,
        "speed": {
            "updates_per_second": spread(trained),
            "sentences_per_second": spread(translated),
            "decoded_per_second": decoded_per_second(sentences[0], folders),
        },
        "peak_bytes": peaks_of(folders),
    }
    if arena.has_epoch(name):
        epoch = read_json(arena.epoch(name))
        found |= {"epoch": epoch, PER_UPDATE: round(epoch["target_tokens"] / epoch["updates"], 1)}
    return found


def _difference(texts: Translations, *sides: tuple[dict[str, Any], Sequence[Path]]) -> dict[str, Any]:
    """Return the differences of realigned scores from the baseline's by seed, and tested over documents.

    ``sides``: the result and the folders of the baseline, then of the system.
    """
    found = {}
    for key in ("s_bleu", "d_bleu"):
        base, own = (result["aligned"][key]["by_seed"] for result, _ in sides)
        paths = [[folder / ALIGNED_TEXT for folder in folders] for _, folders in sides]
        by_seed = with_interval([one - other for one, other in zip(own, base, strict=True)])
        found[key] = by_seed | {"documents": texts.test(key, *paths)}
    return found


def seconds_of(arena: Arena, folder: Path, curve: Curve) -> dict[str, float]:
    """Return the seconds of a run's training, translation and contrastive choices; ``curve``: of its training."""
    found = {"training": curve.seconds, "translation": read_json(folder / "generate.test.json")["seconds"]}
    if arena.shows_reach:
        found["contrastive"] = read_json(folder / "contrastive.json")["seconds"]
    return found


def decoded_per_second(sentences: int, folders: Sequence[Path]) -> dict[str, Any] | None:
    """Return decoded sentences per second over seeds, without the program's start-up time.

    Args:
        sentences: number of translated sentences; a first pass adds its time only.

    None if a log lacks the time of decoding or first pass (earlier versions).
    """
    found = []
    for folder in folders:
        log = (folder / "generate.test.log").read_text(encoding="utf-8", errors="replace").rpartition("\n$ ")[2]
        times = [DECODED.search(log), *([FIRST_PASS.search(log)] if MADE.search(log) else [])]
        if None in times:
            return None
        found.append(sentences / max(0.1, sum(float(one[1]) for one in times)))
    return spread(found)


def peaks_of(folders: Sequence[Path]) -> dict[str, Any]:
    """Return peak memory over seeds: of training and translation programs, and of the GPU in training.

    None if it was not recorded (earlier versions, or no GPU).
    """
    values = {
        "training": [read_json(folder / "train.json").get("peak_bytes") for folder in folders],
        "translation": [read_json(folder / "generate.test.json").get("peak_bytes") for folder in folders],
        "training_gpu": [_gpu_peak(folder / "train.log") for folder in folders],
    }
    return {name: None if None in found else spread(found) for name, found in values.items()}


def _gpu_peak(log: Path) -> int | None:
    """Return the peak GPU memory from fairseq's log, over all resumptions."""
    found = read_series(log, [GPU_PEAK]).get(GPU_PEAK, [])
    return round(max(value for _, value in found) * 2**30) if found else None


def _choices(folder: Path) -> list[dict[str, Any]]:
    return read_json(folder / "contrastive.json")["items"]


def _written(folder: Path) -> list[dict[str, Any]]:
    return read_json(folder / "generative.json")["items"]
