"""Make a model directory of a sentence model that another toolkit has trained (``gtransformer model convert``).

The model in it is a G-Transformer with group attention alone: of a document it computes sentence by sentence what the
sentence model does. Fine-tuning adds global attention behind gates that change nothing at first.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.dataclass.configs import FairseqConfig
from omegaconf import OmegaConf

from gtransformer.data.dictionaries import control_symbols
from gtransformer.models.common.config import OFF, SENTENCE
from gtransformer.models.from_sentence_model import SentenceModel, read_sentence_model
from gtransformer.models.from_sentence_model.sentence_model import SPECIAL
from gtransformer.models.gtransformer import GTransformerConfig, GTransformerModel
from gtransformer.preprocess.chain import SENTENCEPIECE_FILE, TARGET_PIECES
from gtransformer.preprocess.pieces import SentencePieces
from gtransformer.tasks.config import TranslationDocConfig
from gtransformer.tasks.translation_doc import TranslationDocTask
from gtransformer.translation.export import new_directory, write_manifest
from gtransformer.translation.model_directory import CHECKPOINT, check_search
from gtransformer.translation.options import SearchOptions

INSTANCE_TOKENS = 1024  # of documents cut by --strategy; an instance is one sentence


def convert(
    path: str | Path,
    output: str | Path,
    source_lang: str,
    target_lang: str,
    search: Mapping[str, Any],
    origin: dict[str, Any],
    vocabulary: Sequence[Path] = (),
) -> dict[str, Any]:
    """Write the model directory ``output``, whole or not at all, and return its manifest.

    Args:
        path, source_lang, target_lang, vocabulary: as of ``read_sentence_model``.
        search: default options of search (``SearchOptions``); None, or left out: the model's, or beam 5.
        origin: command, commit, versions and date, for the manifest.

    Raises UserError if ``output`` exists, for what ``read_sentence_model`` refuses, and if the model cannot search like
    that.
    """
    path = Path(path)
    model = read_sentence_model(
        path, source_lang, target_lang, lambda file: SentencePieces(file).words(), list(map(Path, vocabulary))
    )
    options = SearchOptions(**model.search).given(search)
    settings = text_settings(model, (source_lang, target_lang))
    check_search(settings, options)
    with new_directory(Path(output)) as folder:
        write_text_files(model, folder, (source_lang, target_lang))
        state = checkpoint(model, folder, (source_lang, target_lang))
        torch.save(state, folder / CHECKPOINT)
        origin = {"converted_from": model.kind, "dropout": model.structure["dropout"], **origin}
        return write_manifest(folder, settings, options, model.files[0], state["model"], origin)


def has_two_pieces(model: SentenceModel) -> bool:
    """Return whether the sides have different SentencePiece models."""
    return model.source.pieces.read_bytes() != model.target.pieces.read_bytes()


def write_text_files(model: SentenceModel, folder: Path, pair: tuple[str, str]) -> None:
    """Write dictionaries and SentencePiece models."""
    sides = model.source, model.target
    for lang, side in zip(pair, sides, strict=True):
        symbols = control_symbols(pair)
        lines = [f"{word} 1\n" for word in [*side.entries(symbols), *symbols]]
        (folder / f"dict.{lang}.txt").write_text("".join(lines), encoding="utf-8", newline="\n")
    shutil.copyfile(model.source.pieces, folder / SENTENCEPIECE_FILE)
    if has_two_pieces(model):
        shutil.copyfile(model.target.pieces, folder / TARGET_PIECES)


def text_settings(model: SentenceModel, pair: tuple[str, str]) -> dict[str, Any]:
    """Return the settings of the text steps."""
    return {
        "source_lang": pair[0],
        "target_lang": pair[1],
        "langs": list(pair),
        "max_instance_tokens": INSTANCE_TOKENS,
        "max_sents": 1,  # each with a beam of its own, as the sentence model searches
        "normalise_punctuation": False,
        "source_prefix": model.source.prefix,
        "target_prefix": model.target.prefix,
    }


def checkpoint(model: SentenceModel, folder: Path, pair: tuple[str, str]) -> dict[str, Any]:
    """Return what a checkpoint of fairseq holds, of a model of this package with the parameters that were read.

    ``folder`` has the dictionaries. Raises UserError where parameters do not fit the structure.
    """
    task_cfg = TranslationDocConfig(
        data=str(folder),
        source_lang=pair[0],
        target_lang=pair[1],
        langs=",".join(pair),
        instances="disjoint",
        context_sentences=0,
    )
    dictionaries = [Dictionary.load(str(folder / f"dict.{lang}.txt")) for lang in pair]
    task = TranslationDocTask(task_cfg, *dictionaries)
    cfg = GTransformerConfig(
        **{
            "max_source_positions": task_cfg.max_source_positions,
            "max_target_positions": task_cfg.max_target_positions,
            "doc_mode": "partial",
            **dict.fromkeys(("encoder_ctxlayers", "decoder_ctxlayers", "cross_ctxlayers"), 0),
            "positions": SENTENCE,
            "marks_loss": OFF,
            "first_output_word": model.first_output,
            "output_words": len(SPECIAL) + len(model.target.entries([])),
            "target_prefix": model.target.prefix,
            **model.structure,
        }
    )
    with torch.random.fork_rng(devices=[]):  # what no file has, the rows of symbols, is the same each time
        torch.manual_seed(1)
        built = GTransformerModel.build_model(cfg, task)
    state = built.from_transformer(model.state())
    whole = OmegaConf.to_container(OmegaConf.structured(FairseqConfig()))
    whole["task"] = {**asdict(task_cfg), "_name": "translation_doc", "data": None}
    whole["model"] = {**asdict(cfg), "_name": "gtransformer"}
    built.load_state_dict(state)
    return {
        "args": None,
        "cfg": plain(whole),
        "model": built.state_dict(),
        "criterion": None,
        "optimizer_history": [{"optimizer_name": "none", "lr_scheduler_state": {}, "num_updates": 0}],
        "task_state": {},
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
        "last_optimizer_state": None,
    }


def plain(value: Any) -> Any:
    """Return a configuration of plain data, for the safe loader: choices as their names."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value.value if hasattr(value, "value") else value
