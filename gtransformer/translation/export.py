"""Make a model directory from a run, or from a prepared corpus and a checkpoint."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from gtransformer.data.dictionaries import NEVER, RESERVED, control_symbols, dictionary_words
from gtransformer.data.instances import STORED, InstanceScheme
from gtransformer.errors import UserError
from gtransformer.files import read_json, write_json
from gtransformer.models.from_sentence_model.marian import FIRST_WORD
from gtransformer.preprocess.chain import SENTENCEPIECE_FILE, TARGET_PIECES, read_settings, text_files
from gtransformer.preprocess.manifest import check_noted
from gtransformer.preprocess.settings import MODEL_KIND
from gtransformer.tasks.checkpoints import model_in, settings_of
from gtransformer.tasks.generation import needs_of_saved
from gtransformer.translation.model_directory import CHECKPOINT, MANIFEST, check_search
from gtransformer.translation.options import SearchOptions

SETTINGS = ("langs", "max_instance_tokens", "max_sents", "normalise_punctuation")


@dataclass(frozen=True)
class Sources:
    """Where a model's parts lie."""

    prepared: Path
    checkpoint: Path


def find_sources(path: Path, prepared: Path | None = None, checkpoint: Path | None = None) -> Sources:
    """Return the prepared corpus and the checkpoint of ``path``, a run's directory or a prepared corpus.

    A run's corpus is what its training was given (``train.json``), its checkpoint the mean of its last ones, if that
    was made, or ``checkpoint_best.pt``, unless named. Raises UserError if one of them is missing.
    """
    if prepared is None:
        prepared = path if (path / MANIFEST).is_file() else path / "prepared"
        record = path / "train.json"
        if not prepared.is_dir() and record.is_file():
            words = read_json(record)["command"]
            prepared = next((Path(word).parent for word in words if word.endswith("/bin")), prepared)
    if not (prepared / MANIFEST).is_file():
        raise UserError(f"{prepared}: no prepared corpus; name the one that the model was trained on with --prepared")
    checkpoint = checkpoint or model_in(path / "checkpoints")
    if not checkpoint.is_file():
        raise UserError(f"{checkpoint}: no such checkpoint; name one with --checkpoint")
    return Sources(prepared, checkpoint)


def export(sources: Sources, output: str | Path, search: SearchOptions, origin: dict[str, Any]) -> dict[str, Any]:
    """Write the model directory ``output``, whole or not at all; returns its manifest.

    Args:
        search: default options of whoever translates with it; what began as a model of Marian's never writes <unk>.
        origin: command, commit, versions and date, for the manifest.

    Raises UserError if ``output`` exists, the parts do not belong together, or the model cannot search like that.
    """
    state = read_checkpoint(sources.checkpoint)
    settings = model_settings(sources, state)
    check_search(settings, search)
    check_noted(sources.checkpoint, sources.prepared)
    if not search.unkpen and settings_of(state)["model"].get("first_output_word") == FIRST_WORD:
        search = replace(search, unkpen=NEVER)
    pair = settings["source_lang"], settings["target_lang"]
    with new_directory(Path(output)) as work:
        copies = {path.name: path for path in text_files(sources.prepared)}
        if TARGET_PIECES in copies and read_settings(sources.prepared)["source_lang"] != pair[0]:
            files = SENTENCEPIECE_FILE, TARGET_PIECES  # the corpus's target is the model's source
            copies |= {one: sources.prepared / other for one, other in zip(files, files[::-1], strict=True)}
        copies |= {f"dict.{lang}.txt": sources.prepared / "bin" / f"dict.{lang}.txt" for lang in pair}
        for name, source in copies.items():
            shutil.copyfile(source, work / name)
        for lang, side in zip(pair, ("encoder", "decoder"), strict=True):
            check_vocabulary(work / f"dict.{lang}.txt", side, settings["langs"], state, sources)
        torch.save(state, work / CHECKPOINT)
        return write_manifest(work, settings, search, sources.checkpoint, state["model"], origin)


@contextmanager
def new_directory(output: Path) -> Iterator[Path]:
    """Give the folder to write a model directory in; it becomes ``output`` at the end, and is removed on an error.

    Raises UserError if there is something at ``output`` already, but for an empty folder.
    """
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        raise UserError(f"{output}: exists already; remove it or give another name")
    work = output.with_name(f"{output.name}.{os.getpid()}.tmp")
    work.mkdir(parents=True)
    try:
        yield work
        os.replace(work, output)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def write_manifest(
    work: Path,
    settings: dict[str, Any],
    search: SearchOptions,
    checkpoint: Path,
    parameters: Mapping[str, torch.Tensor],
    origin: dict[str, Any],
) -> dict[str, Any]:
    """Write the manifest of a model directory and return it; ``checkpoint``: what the model was made of."""
    manifest = {
        "kind": MODEL_KIND,
        "settings": settings,
        "search": search.recorded(),
        "checkpoint": checkpoint.name,
        "parameters": sum({value.data_ptr(): value.numel() for value in parameters.values()}.values()),  # tied: once
        **origin,
    }
    write_json(work / MANIFEST, manifest)
    return manifest


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a fairseq checkpoint without what only training needs."""
    from fairseq.checkpoint_utils import load_checkpoint_to_cpu

    state = load_checkpoint_to_cpu(str(path))
    state["last_optimizer_state"] = None
    state["criterion"] = None
    if state.get("cfg") is not None:
        state["cfg"] = OmegaConf.to_container(state["cfg"])  # as fairseq stores it: plain data for the safe loader
    return state


def model_settings(sources: Sources, state: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the text steps, with the direction that the model was trained for.

    Raises UserError for a checkpoint of another task, and for a corpus of other languages.
    """
    settings = read_settings(sources.prepared)
    pair = settings["source_lang"], settings["target_lang"]
    saved = settings_of(state)
    task = saved["task"]
    name = task.get("_name") or task.get("task")
    if name != "translation_doc":
        raise UserError(
            f"{sources.checkpoint}: a model of the task {name}; only those of translation_doc can be exported"
        )
    limits = instance_limits(InstanceScheme.stored_in(task), saved["model"], sources.checkpoint)
    direction = task.get("source_lang") or pair[0], task.get("target_lang") or pair[1]
    if set(direction) != set(pair):
        raise UserError(
            f"{sources.checkpoint}: translates {'-'.join(direction)}, but {sources.prepared} holds {'-'.join(pair)}; "
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
        **limits,
    }


def instance_limits(scheme: InstanceScheme, model: dict[str, Any], checkpoint: Path) -> dict[str, int | bool | None]:
    """Return the limits of a model's instances, where those of the corpus were regrouped for its training.

    Text is translated in disjoint instances of as many tokens or sentences as those of training have, or in parts of
    documents where these were trained on. Raises UserError for a model that reads sentences beside those it translates.
    """
    needs = needs_of_saved(model)
    if needs.batch or needs.last_sentence_only or scheme.is_unequal:
        raise UserError(
            f"{checkpoint}: reads other sentences beside those that it translates, which a model directory does not "
            "provide; translate a prepared corpus with fairseq-generate or the stage generate instead"
        )
    if scheme.kind == STORED:
        return {}
    limits = {"max_instance_tokens": scheme.tokens, "max_sents": scheme.max_sentences}
    return limits | ({"parts": True} if scheme.kind == "parts" else {})


def check_vocabulary(dictionary: Path, side: str, langs: list[str], state: dict[str, Any], sources: Sources) -> None:
    """Raise UserError unless the model's ``side`` (encoder, decoder) has an embedding for each entry of the dictionary.

    The symbols that the task adds where the file lacks them count, too.
    """
    words = dictionary_words(dictionary)
    entries = len(RESERVED) + len({*words, *control_symbols(langs)})
    table = state["model"].get(f"{side}.embed_tokens.weight")
    if table is None or len(table) != entries:
        found = "no embeddings" if table is None else f"{len(table)} embeddings"
        raise UserError(
            f"{sources.checkpoint}: has {found}, but {dictionary.name} of {sources.prepared} has {entries} entries; "
            "name the corpus that the model was trained on with --prepared"
        )
