"""Make a model directory from a run, or from a prepared corpus and a checkpoint."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import gtransformer.plugin.task  # noqa: F401  (so that fairseq knows the checkpoint's task)
from gtransformer.data.dictionaries import NEVER
from gtransformer.data.instances import InstanceScheme
from gtransformer.errors import UserError
from gtransformer.files import read_record
from gtransformer.models.common.model import needs_of
from gtransformer.plugin.checkpoints import AS_GIVEN, load_trained, read_settings
from gtransformer.preprocess.chain import text_files
from gtransformer.preprocess.manifest import check_vocabulary
from gtransformer.translation.model_directory import (
    MANIFEST,
    check_search,
    model_settings,
    new_directory,
    write_model,
)
from gtransformer.translation.options import SearchOptions


def find_prepared(run: Path) -> Path:
    """Return the prepared corpus of a run's directory; a prepared corpus is its own.

    It is what the run's training was given (``train.json``). Raises UserError if there is none.
    """
    command = read_record(run / "train.json").get("command", [])
    given = [Path(word).parent for word in command if word.endswith("/bin")]
    for prepared in (run, run / "prepared", *given):
        if (prepared / MANIFEST).is_file():
            return prepared
    raise UserError(
        f"{run}: no prepared corpus; name the one that the model was trained on with --prepared"
    )


def usual_search(checkpoint: Path) -> SearchOptions:
    """Return the default options: what began as a converted model never writes <unk>, as that."""
    model = read_settings(checkpoint)["model"]
    return SearchOptions(unkpen=0.0 if model.get("first_output_word") is None else NEVER)


def export(
    run: Path,
    output: Path,
    search: SearchOptions,
    origin: dict[str, Any],
    checkpoint: Path,
    prepared: Path | None = None,
) -> dict[str, Any]:
    """Write the model directory ``output``, whole or not at all; returns its manifest.

    Args:
        run: directory of a run, or a prepared corpus.
        search: default options of whoever translates with it.
        origin: command, commit, versions and date, for the manifest.
        checkpoint: the model.
        prepared: its prepared corpus, if not the run's.

    Raises UserError if ``output`` exists, the parts do not belong together, or the model cannot
    search like that.
    """
    prepared = prepared or find_prepared(run)
    saved = read_settings(checkpoint)
    settings = model_settings(prepared, checkpoint, saved["task"])
    check_search(settings, search)
    check_vocabulary(checkpoint, prepared)
    model, _ = load_trained(checkpoint, data=str(prepared / "bin"), **AS_GIVEN)
    needs, scheme = needs_of(model), InstanceScheme.stored_in(saved["task"])
    if needs.batch or needs.last_sentence_only or scheme.is_unequal:
        raise UserError(
            f"{checkpoint}: reads other sentences than those that it translates; translate a "
            "prepared corpus with fairseq-generate or the stage generate instead"
        )
    pair = settings["source_lang"], settings["target_lang"]
    # All that a translation needs: pieces or codes, truecasers, dictionaries, the model.
    with new_directory(output) as work:
        dictionaries = (prepared / "bin" / f"dict.{lang}.txt" for lang in pair)
        for path in [*text_files(prepared), *dictionaries]:
            shutil.copyfile(path, work / path.name)
        return write_model(work, model, settings, search, {"checkpoint": checkpoint.name, **origin})
