"""Make a model directory from a run, or from a prepared corpus and a checkpoint."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gtransformer.plugin.task  # noqa: F401  (so that fairseq knows the checkpoint's task)
from gtransformer.data.dictionaries import NEVER
from gtransformer.data.instances import STORED, InstanceScheme
from gtransformer.errors import UserError
from gtransformer.files import read_json
from gtransformer.models.common.model import needs_of
from gtransformer.plugin.checkpoints import AS_GIVEN, load_trained, model_in
from gtransformer.plugin.checkpoints import read_settings as read_settings_of
from gtransformer.preprocess.chain import (
    SENTENCEPIECE_FILE,
    TARGET_PIECES,
    read_settings,
    text_files,
)
from gtransformer.preprocess.manifest import check_noted
from gtransformer.search.strategies import AUTO
from gtransformer.translation.model_directory import (
    MANIFEST,
    check_search,
    new_directory,
    write_model,
)
from gtransformer.translation.options import SearchOptions

SETTINGS = ("langs", "max_instance_tokens", "max_sents", "normalise_punctuation")
BESIDE = (
    "reads other sentences beside those that it translates, which a model directory does not "
    "provide; translate a "
    "prepared corpus with fairseq-generate or the stage generate instead"
)


@dataclass(frozen=True)
class Sources:
    """Where a model's parts lie."""

    prepared: Path
    checkpoint: Path


def find_sources(
    path: Path, prepared: Path | None = None, checkpoint: Path | None = None
) -> Sources:
    """Return the prepared corpus and the checkpoint of ``path``, a run's directory or a prepared
    corpus.

    A run's corpus is what its training was given (``train.json``), its checkpoint the mean of its
    last ones, if that was made, or ``checkpoint_best.pt``, unless named. Raises UserError if one of
    them is missing.
    """
    if prepared is None:
        prepared = path if (path / MANIFEST).is_file() else path / "prepared"
        record = path / "train.json"
        if not prepared.is_dir() and record.is_file():
            words = read_json(record)["command"]
            prepared = next(
                (Path(word).parent for word in words if word.endswith("/bin")), prepared
            )
    if not (prepared / MANIFEST).is_file():
        raise UserError(
            f"{prepared}: no prepared corpus; name the one that the model was trained on with "
            "--prepared"
        )
    checkpoint = checkpoint or model_in(path / "checkpoints")
    if not checkpoint.is_file():
        raise UserError(f"{checkpoint}: no such checkpoint; name one with --checkpoint")
    return Sources(prepared, checkpoint)


def usual_search(sources: Sources) -> SearchOptions:
    """Return the default options: what began as a converted model never writes <unk>, as that."""
    model = read_settings_of(sources.checkpoint)["model"]
    return SearchOptions(unkpen=0.0 if model.get("first_output_word") is None else NEVER)


def export(
    sources: Sources, output: str | Path, search: SearchOptions, origin: dict[str, Any]
) -> dict[str, Any]:
    """Write the model directory ``output``, whole or not at all; returns its manifest.

    Args:
        search: default options of whoever translates with it.
        origin: command, commit, versions and date, for the manifest.

    Raises UserError if ``output`` exists, the parts do not belong together, or the model cannot
    search like that.
    """
    saved = read_settings_of(sources.checkpoint)
    settings = model_settings(sources, saved)
    check_search(settings, search)
    check_noted(sources.checkpoint, sources.prepared)
    try:
        model, _ = load_trained(sources.checkpoint, data=str(sources.prepared / "bin"), **AS_GIVEN)
    except UserError as error:
        raise UserError(
            f"{error}; if its sizes are not those of {sources.prepared}, name the corpus that it "
            "was trained on with "
            "--prepared"
        ) from None
    if needs_of(model).batch or needs_of(model).last_sentence_only:
        raise UserError(f"{sources.checkpoint}: {BESIDE}")
    pair = settings["source_lang"], settings["target_lang"]
    with new_directory(Path(output)) as work:
        copies = {path.name: path for path in text_files(sources.prepared)}
        if TARGET_PIECES in copies and read_settings(sources.prepared)["source_lang"] != pair[0]:
            files = SENTENCEPIECE_FILE, TARGET_PIECES  # the corpus's target is the model's source
            copies |= {
                one: sources.prepared / other for one, other in zip(files, files[::-1], strict=True)
            }
        copies |= {
            f"dict.{lang}.txt": sources.prepared / "bin" / f"dict.{lang}.txt" for lang in pair
        }
        for name, source in copies.items():
            shutil.copyfile(source, work / name)
        return write_model(
            work, model, settings, search, {"checkpoint": sources.checkpoint.name, **origin}
        )


def model_settings(sources: Sources, saved: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the text steps, with the direction that the model was trained for.

    Raises UserError for a checkpoint of another task, and for a corpus of other languages.
    """
    settings = read_settings(sources.prepared)
    pair = settings["source_lang"], settings["target_lang"]
    task = saved["task"]
    name = task.get("_name") or task.get("task")
    if name != "translation_doc":
        raise UserError(
            f"{sources.checkpoint}: a model of the task {name}; only those of translation_doc can "
            "be exported"
        )
    limits = instance_limits(InstanceScheme.stored_in(task), sources.checkpoint)
    direction = task.get("source_lang") or pair[0], task.get("target_lang") or pair[1]
    if set(direction) != set(pair):
        raise UserError(
            f"{sources.checkpoint}: translates {'-'.join(direction)}, but {sources.prepared} holds "
            f"{'-'.join(pair)}; "
            "name the corpus that the model was trained on with --prepared"
        )
    prefixes = settings.get("source_prefix"), settings.get("target_prefix")
    source_prefix, target_prefix = prefixes if direction == pair else prefixes[::-1]
    return {
        "source_lang": direction[0],
        "target_lang": direction[1],
        **{name: settings.get(name) for name in SETTINGS},
        "source_prefix": source_prefix,
        "target_prefix": target_prefix,
        "sentence_rule": str(task.get("sentence_rule") or AUTO),
        **limits,
    }


def instance_limits(scheme: InstanceScheme, checkpoint: Path) -> dict[str, int | bool | None]:
    """Return the limits of a model's instances, where those of the corpus were regrouped for its
    training.

    Text is translated in disjoint instances of as many tokens or sentences as those of training
    have, or in parts of documents where these were trained on. Raises UserError for a model that
    reads sentences beside those it translates.
    """
    if scheme.is_unequal:
        raise UserError(f"{checkpoint}: {BESIDE}")
    if scheme.kind == STORED:
        return {}
    limits = {"max_instance_tokens": scheme.tokens, "max_sents": scheme.max_sentences}
    return limits | ({"parts": True} if scheme.kind == "parts" else {})
