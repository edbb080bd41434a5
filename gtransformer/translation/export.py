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
from gtransformer.errors import UserError, explain
from gtransformer.files import atomic_write, read_json, sha256, write_json
from gtransformer.models.from_sentence_model.marian import FIRST_WORD
from gtransformer.preprocess.chain import moses_rules, read_settings, text_files
from gtransformer.preprocess.manifest import check_noted
from gtransformer.preprocess.pieces import SENTENCEPIECE_FILE, TARGET_PIECES
from gtransformer.tasks.checkpoints import model_in, settings_of
from gtransformer.tasks.first_pass import check_sentence_model
from gtransformer.tasks.generation import needs_of_saved
from gtransformer.translation.engine import Engine
from gtransformer.translation.model_directory import (
    CHECKPOINT,
    FIRST_PASS,
    KIND,
    MANIFEST,
    VERSION,
    ModelDirectory,
    check_search,
    file_names,
)
from gtransformer.translation.options import SearchOptions

SETTINGS = ("langs", "max_instance_tokens", "max_sents", "normalise_punctuation")
PREFIXES = ("source_prefix", "target_prefix")
TOOLS = ("moses", "sentencepiece", "sentencepiece_target", "bpe_codes", "codes_within_dictionary", "bert")


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
    if not path.is_dir():
        raise UserError(f"{path}: no such directory; give that of a run or of a prepared corpus")
    if prepared is None:
        prepared = path if (path / MANIFEST).is_file() else path / "prepared"
        record = path / "train.json"
        if not prepared.is_dir() and record.is_file():
            prepared = next(
                (Path(word).parent for word in read_json(record)["command"] if word.endswith("/bin")), prepared
            )
    runs = [one.name for one in sorted(path.iterdir()) if (one / "checkpoints").is_dir()]
    if checkpoint is None and runs and not (path / "checkpoints").is_dir():
        raise UserError(f"{path}: has the runs {', '.join(runs)}; give the directory of one of them")
    if not (prepared / MANIFEST).is_file():
        raise UserError(f"{prepared}: no prepared corpus; name the one that the model was trained on with --prepared")
    checkpoint = checkpoint or model_in(path / "checkpoints")
    if not checkpoint.is_file():
        raise UserError(f"{checkpoint}: no such checkpoint; name one with --checkpoint")
    return Sources(prepared, checkpoint)


def export(
    sources: Sources,
    output: str | Path,
    search: SearchOptions,
    origin: dict[str, Any],
    first_pass: Path | None = None,
) -> dict[str, Any]:
    """Write the model directory ``output``, whole or not at all; returns its manifest.

    Args:
        search: default options of whoever translates with it; what began as a model of Marian's never writes <unk>.
        origin: command, commit, versions and date, for the manifest.
        first_pass: checkpoint of the sentence model that translates first, for a model of two passes.

    Raises UserError if ``output`` exists, a part is missing or damaged, the parts do not belong together, or the model
    cannot search like that.
    """
    output = Path(output)
    check_free(output)
    state = read_checkpoint(sources.checkpoint)
    settings = model_settings(sources, state, first_pass)
    check_search(settings, search)
    check_noted(sources.checkpoint, sources.prepared)
    if not search.unkpen and settings_of(state)["model"].get("first_output_word") == FIRST_WORD:
        search = replace(search, unkpen=NEVER)  # a model that began as one of Marian's
    pair = settings["source_lang"], settings["target_lang"]
    models = {CHECKPOINT: (state, sources.checkpoint)}
    if first_pass is not None:
        models[FIRST_PASS] = read_sentence_model(first_pass, pair), first_pass
    with new_directory(output) as work:
        copies = {name: sources.prepared / name for name in text_files(settings)}
        if settings.get("sentencepiece_target") and read_settings(sources.prepared)["source_lang"] != pair[0]:
            files = SENTENCEPIECE_FILE, TARGET_PIECES  # the corpus's target is the model's source
            copies |= {one: sources.prepared / other for one, other in zip(files, files[::-1], strict=True)}
        copies |= {f"dict.{lang}.txt": sources.prepared / "bin" / f"dict.{lang}.txt" for lang in pair}
        for name, source in copies.items():
            if not source.is_file():
                raise UserError(f"{source}: no such file; prepare the corpus again")
            shutil.copyfile(source, work / name)
        for name, (one, checkpoint) in models.items():
            for lang, side in zip(pair, ("encoder", "decoder"), strict=True):
                own = replace(sources, checkpoint=checkpoint)
                check_vocabulary(work / f"dict.{lang}.txt", side, settings["langs"], one, own)
            with atomic_write(work / name, "wb") as stream:
                torch.save(one, stream)
        return write_manifest(work, settings, search, sources.checkpoint, state["model"], origin)


def check_free(output: Path) -> None:
    """Raise UserError where there is something already, but for an empty folder that is neither a link nor ``.``."""
    empty = output.is_dir() and output.name not in ("", "..") and not any(output.iterdir())
    if output.is_symlink() or (output.exists() and not empty):
        raise UserError(f"{output}: exists already; remove it or give another name")


@contextmanager
def new_directory(output: Path) -> Iterator[Path]:
    """Give the folder to write a model directory in; it becomes ``output`` at the end, and is removed on an error."""
    work = output.with_name(f"{output.name}.{os.getpid()}.tmp")
    try:
        work.mkdir(parents=True)
    except OSError as error:
        raise UserError(f"{output}: cannot be written ({error.strerror})") from None
    try:
        yield work
        if output.is_dir():
            output.rmdir()
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
    """Write the manifest of a model directory whose files are there, and return it.

    ``checkpoint``: what the model was made of. Raises UserError for a window of more tokens than the model takes.
    """
    manifest = {
        "kind": KIND,
        "version": VERSION,
        "settings": settings,
        "search": search.recorded(),
        "checkpoint": checkpoint.name,
        "checkpoint_sha256": sha256(checkpoint),
        "parameters": sum({value.data_ptr(): value.numel() for value in parameters.values()}.values()),  # tied: once
        "files": {name: sha256(work / name) for name in file_names(settings)},
        **origin,
    }
    write_json(work / MANIFEST, manifest)
    if search.window_tokens is not None:  # only the model itself knows how many tokens it takes
        check_search(settings, search, Engine(ModelDirectory.open(work), "cpu", "float32").longest)
    return manifest


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a fairseq checkpoint without what only training needs. Raises UserError if it is damaged or none."""
    from fairseq.checkpoint_utils import load_checkpoint_to_cpu

    try:
        state = load_checkpoint_to_cpu(str(path))
    except Exception as error:
        raise UserError(explain(error) or f"{path}: no checkpoint of fairseq ({type(error).__name__})") from None
    if not isinstance(state.get("model"), dict):
        raise UserError(f"{path}: no checkpoint of fairseq, it holds no model")
    state["last_optimizer_state"] = None
    state["criterion"] = None
    if state.get("cfg") is not None:
        state["cfg"] = OmegaConf.to_container(state["cfg"])  # as fairseq stores it: plain data for the safe loader
    return state


def read_sentence_model(path: Path, pair: tuple[str, str]) -> dict[str, Any]:
    """Return ``read_checkpoint`` of the first pass. UserError for no sentence model of the pair, too."""
    if not path.is_file():
        raise UserError(f"--first-pass {path}: no such checkpoint; give that of a sentence model")
    state = read_checkpoint(path)
    check_sentence_model(settings_of(state)["task"], f"--first-pass {path}", pair)
    return state


def model_settings(sources: Sources, state: dict[str, Any], first_pass: Path | None) -> dict[str, Any]:
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
    limits = instance_limits(InstanceScheme.stored_in(task), saved["model"], sources.checkpoint, first_pass)
    direction = task.get("source_lang") or pair[0], task.get("target_lang") or pair[1]
    if set(direction) != set(pair):
        raise UserError(
            f"{sources.checkpoint}: translates {'-'.join(direction)}, but {sources.prepared} holds {'-'.join(pair)}; "
            "name the corpus that the model was trained on with --prepared"
        )
    return {
        "source_lang": direction[0],
        "target_lang": direction[1],
        **{name: settings.get(name) for name in SETTINGS},
        **dict(zip(PREFIXES, map(settings.get, PREFIXES[:: 1 if direction == pair else -1]), strict=True)),
        "moses_rules": moses_rules(settings),
        **limits,
        # Paths of the machine that prepared the corpus mean nothing elsewhere.
        **{name: bool(settings.get(name)) for name in TOOLS},
    }


def instance_limits(
    scheme: InstanceScheme, model: dict[str, Any], checkpoint: Path, first_pass: Path | None
) -> dict[str, int | bool | None]:
    """Return the limits of a model's instances, where those of the corpus were regrouped for its training.

    Text is translated in disjoint instances: of as many tokens or sentences as those of training have, in parts of
    documents where these were trained on; or, by a model that needs it, sentence by sentence beside previous ones, or
    by two passes. Raises UserError for a first pass that nothing would stand behind, and for a model whose instances
    have more sentences on one side than on the other.
    """
    needs, context = needs_of_saved(model), scheme.context or 0
    if first_pass is not None and scheme.kind != "sliding":
        raise UserError(
            f"--first-pass {first_pass}: {checkpoint} was not trained on sentences behind previous ones (--instances "
            "sliding), so nothing reads first translations; leave it out"
        )
    if first_pass is not None or needs.batch:
        limits = {"max_instance_tokens": None, "max_sents": context + 1, "sentences_before": context}
        return {**limits, "first_pass": first_pass is not None}
    if needs.last_sentence_only:
        return {"max_instance_tokens": None, "max_sents": 1, "sentences_beside": context}
    if scheme.is_unequal:
        raise UserError(
            f"{checkpoint}: trained with {context} previous sentences of the source and "
            f"{scheme.target_context or 0} of the target (--instances current), but a model directory translates as "
            "many sentences as it reads; translate with fairseq-generate instead"
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
