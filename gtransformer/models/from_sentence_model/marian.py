"""Marian's own files: ``.npz`` and the binary format, float32 and int8; Transformers with attention
or SSRU decoders.

Names and formulas are those of Marian 1.9 to 1.12 (github.com/marian-nmt/marian-dev:
models/transformer.h, rnn/cells.h, common/binary.cpp).
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from torch import Tensor

from gtransformer.errors import UserError
from gtransformer.models.from_sentence_model.sentence_model import (
    ZERO,
    ModelVocabulary,
    PiecesOf,
    SentenceModel,
)

CONFIG = "special:model.yml"
FLOAT32, INTGEMM8 = 0x404, 0x4101  # types in the binary format
ZIP, BINARY = b"PK\3\4", b"\1" + bytes(7)  # what files begin with
EOS, UNK = "</s>", "<unk>"
FIRST_WORD = 2  # that is predicted, of a dictionary: Marian has neither <s> nor <pad>
EPSILON = 1e-6  # of Marian's layer norms
LAYOUTS = {
    ("", "dan", ""): False,
    ("n", "da", "n"): True,
}  # preprocess, postprocess, postprocess-top: norms first?
# Values that these may have, the first where nothing is said. Others change what a model computes.
CHOICES = {
    "type": ("transformer",),
    "transformer-postprocess-emb": ("", "d"),
    "transformer-ffn-activation": ("swish", "relu"),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (2,),
    "right-left": (False,),
    "input-types": ([],),
    "transformer-depth-scaling-output": (False,),
}
NUMBERED = (".yml", ".yaml", ".json")  # vocabularies that number their words
# Signs that YAML does not allow, or takes for ends of lines; Marian's vocabularies have them.
SIGNS = *range(9), *range(14, 32), *range(127, 160), 0x2028, 0x2029
HIDDEN = {sign: 0xF0000 + sign for sign in SIGNS}


# Names of Marian's, and parts of them, in the order in which they are replaced by ours.
RENAMED = {
    r"_top_ln": ".layer_norm_ln",
    r"\.rnn_W$": ".self_attn.input_proj.weight",
    r"\.rnn_([Wb])f$": r".self_attn.forget_proj.\1",
    r"\.rnn(_ffn)?_ln": ".self_attn_layer_norm_ln",
    r"\.ffn_ffn_ln": ".final_layer_norm_ln",
    r"\.ffn_([Wb])(\d)$": r".fc\2.\1",
    r"\.context_": ".encoder_attn_",
    r"\.self_(?!attn)": ".self_attn_",
    r"_attn_Wo_ln": "_attn_layer_norm_ln",
    r"_attn_([Wb])o$": r"_attn.out_proj.\1",
    r"_attn_([Wb])([qkv])$": r"_attn.\2_proj.\1",
    r"\.W$|_ln_scale(_pre)?$": ".weight",
    r"\.b$|_ln_bias(_pre)?$": ".bias",
}


def find_marian(path: Path) -> Path:
    """Return the model's file: the one that is given, or the only one in a folder.

    Raises UserError if there is none, or several.
    """
    if path.is_file():
        return path
    files = [*path.glob("*.npz"), *path.glob("*model*.bin")]
    models = [file for file in files if not file.name.endswith(".optimizer.npz")]
    if len(models) == 1:
        return models[0]
    names = ", ".join(sorted(file.name for file in models))
    raise UserError(
        f"{path}: holds neither config.json, as a model of Hugging Face does (adapters must be "
        "merged into it; a Trainer saves it in checkpoint-...), nor one unpacked model of Marian "
        f"(.npz, .bin); give one of these in it: {names or 'none'}"
    )


def read_marian(
    path: Path,
    target_lang: str,
    pieces_of: PiecesOf,
    vocabulary: Sequence[Path] = (),
) -> SentenceModel:
    """Read a model file and its vocabulary; arguments and errors as of ``read_sentence_model``."""
    parameters, config = read_file(path)
    structure = read_structure(path, config)

    tables = {
        name: torch.from_numpy(parameters.pop(name))
        for name in [*parameters]
        if name.endswith("Wemb") or name.startswith("decoder_ff_logit_out")
    }
    encoder = tables["Wemb" if "Wemb" in tables else "encoder_Wemb"]
    decoder = tables.get("decoder_Wemb", encoder)
    output, bias = (tables.get(f"decoder_ff_logit_out_{part}") for part in ("Wt", "b"))
    if "decoder_ff_logit_out_W" in tables:
        output = tables["decoder_ff_logit_out_W"].t()
    layers = layers_of(parameters, bool(config.get("transformer-no-bias")))
    sides = read_vocabularies(
        path, pieces_of, vocabulary, (len(encoder), len(decoder)), target_lang
    )
    if decoder is encoder and sides[0].words != sides[1].words:
        raise UserError(
            f"{path}: shares its embeddings, but its two vocabularies differ; give one with --vocab"
        )
    bias = None if bias is None else bias[0]
    return SentenceModel(
        "Marian", structure, layers, *sides, (encoder, decoder, output), bias, FIRST_WORD, path.name
    )


def read_file(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the parameters, float32, and the configuration of a model file, told apart by
    content. Raises UserError for other files.
    """
    with open(path, "rb") as stream:
        begin = stream.read(len(BINARY))
    arrays: Mapping[str, np.ndarray] = {}
    if begin.startswith(ZIP):
        arrays = np.load(path, allow_pickle=False)
    elif begin == BINARY:
        arrays = _read_binary(path)
    if CONFIG not in arrays:
        raise UserError(
            f"{path}: no model of Marian, which has a configuration in it; give a model's .npz or "
            ".bin file, unpacked, the file itself (git lfs pull fetches it); a checkpoint of "
            "fairseq is not converted: docs/train.md"
        )
    config = yaml.safe_load(arrays[CONFIG].tobytes().rstrip(b"\0").decode())
    names = [name for name in arrays if not name.startswith("special:")]
    return {name: arrays[name].astype(np.float32) for name in names}, config


def _read_binary(path: Path) -> dict[str, np.ndarray]:
    """Read the binary format: a head for each item, all names, all shapes, then all data
    (common/binary.cpp).

    int8 matrices are dequantised: value = q / multiplier. They are stored transposed, but for
    embeddings.
    """
    arrays = {}
    with open(path, "rb") as stream:

        def numbers(count: int, kind: str = "<u8") -> list[int]:
            return np.frombuffer(stream.read(count * np.dtype(kind).itemsize), kind).tolist()

        _, count = numbers(2)
        heads = [numbers(4) for _ in range(count)]
        names = [stream.read(length).rstrip(b"\0").decode() for length, *_ in heads]
        shapes = [numbers(rank, "<i4") for _, _, rank, _ in heads]
        stream.seek(*numbers(1), os.SEEK_CUR)  # padding
        for name, shape, (_, kind, _, size) in zip(names, shapes, heads, strict=True):
            item, length = stream.read(size), math.prod(shape)
            if name == CONFIG:
                arrays[name] = np.frombuffer(item, np.int8)
            elif name.startswith("special:") or name.endswith("QuantMultA"):
                continue  # said by the parameters themselves, or of the activations
            elif kind == FLOAT32:
                arrays[name] = np.frombuffer(item, np.float32, length).reshape(shape)
            elif kind == INTGEMM8 and not name.endswith("_Wt"):
                multiplier = np.frombuffer(item, np.float32, 1, length)
                values = np.frombuffer(item, np.int8, length) / multiplier
                transposed = not name.endswith("Wemb")
                arrays[name] = (
                    values.reshape(shape[::-1]).T if transposed else values.reshape(shape)
                )
            else:  # such as an output layer of its own in int8, whose layout we have not seen
                raise UserError(
                    f"{path}: parameter {name} is of type {kind:#x}, which cannot be read; give "
                    "another model"
                )
    return arrays


def read_structure(path: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the structure as options of this package. Raises UserError for what no layer here
    computes.
    """
    refused = {
        name: config[name]
        for name, allowed in CHOICES.items()
        if (config.get(name) or allowed[0]) not in allowed
    }
    # d dropout, a add, n norm: before the block, after it, and at the top of the stack.
    layout = tuple(
        config.get(f"transformer-{name}") or ""
        for name in ("preprocess", "postprocess", "postprocess-top")
    )
    if layout not in LAYOUTS:
        refused["preprocess, postprocess, postprocess-top"] = layout
    unit = config.get("transformer-decoder-autoreg") or "self-attention"
    if unit != "self-attention" and (unit, config.get("dec-cell")) != ("rnn", "ssru"):
        refused["decoder"] = unit, config.get("dec-cell")
    if refused:
        listed = ", ".join(f"{name} {value}" for name, value in refused.items())
        raise UserError(f"{path}: {listed}: no layer of this package has this; give another model")
    structure: dict[str, Any] = {}
    for side in ("encoder", "decoder"):
        structure |= {
            f"{side}_embed_dim": config["dim-emb"],
            f"{side}_attention_heads": config["transformer-heads"],
            f"{side}_normalize_before": LAYOUTS[layout],
            f"{side}_layers": config[f"{side[:3]}-depth"],
            f"{side}_ffn_embed_dim": config["transformer-dim-ffn"],
        }
    if config.get("transformer-decoder-dim-ffn"):
        structure["decoder_ffn_embed_dim"] = config["transformer-decoder-dim-ffn"]
    return structure | {
        "activation_fn": config.get("transformer-ffn-activation") or "swish",
        "decoder_unit": "ssru" if unit == "rnn" else "attention",
        "layer_norm_eps": EPSILON,
        "sinusoids": "marian",
        # Small models are distilled without, and fail with it; what another one had, no file says.
        "dropout": 0.0,
        "sentence_marks": "start",
    }


def layers_of(parameters: Mapping[str, np.ndarray], no_bias: bool) -> dict[str, Tensor]:
    """Return the parameters of layers by this package's names.

    ``no_bias`` (transformer-no-bias): biases that are not there are zero.
    """
    layers: dict[str, Tensor] = {}
    for theirs, values in parameters.items():
        name = re.sub(r"_l(\d+)_", lambda number: f".layers.{int(number[1]) - 1}.", theirs)
        for pattern, ours in RENAMED.items():
            name = re.sub(pattern, ours, name)
        # What multiplies from the right there is transposed here; vectors are rows there.
        value = values.T if re.search(r"_W[a-z\d]?$", theirs) else values[0]
        layers[name] = torch.from_numpy(np.ascontiguousarray(value))
        # The input projection of an SSRU never has a bias.
        bias = name.replace(".weight", ".bias")
        if no_bias and ".input_proj." not in name:
            layers.setdefault(bias, torch.zeros(len(layers[name])))
    return layers


def read_vocabularies(
    path: Path,
    pieces_of: PiecesOf,
    given: Sequence[Path],
    rows: tuple[int, int],
    target_lang: str,
) -> tuple[ModelVocabulary, ModelVocabulary]:
    """Return the vocabularies of both sides, from given files or from the model's folder.

    A ``.spm`` file numbers its pieces itself. Other files number words; ``source.spm`` and
    ``target.spm`` split text.
    """
    files = [*map(Path, given)] or _find_vocabularies(path)
    if not 1 <= len(files) <= 2:
        raise UserError(
            f"{path.parent}: {len(files)} vocabularies; name that of both sides, or of each, with "
            "--vocab"
        )
    sides = []
    for number, (side, file) in enumerate(zip(("source", "target"), (files * 2)[:2], strict=True)):
        if file.suffix == ".spm":
            words, pieces = pieces_of(file), file
        else:
            pieces = file.parent / f"{side}.spm"
            words = _read_words(file)
        if len(words) != rows[number]:
            raise UserError(
                f"{file}: {len(words)} words, but the model has {rows[number]}; give the "
                "vocabulary that belongs to it"
            )
        special = {"start": ZERO, "pad": ZERO, "eos": words.index(EOS), "unk": words.index(UNK)}
        sides.append(ModelVocabulary(words, special, pieces))
    source, target = sides
    source.prefix = target_token(path, source.words, target_lang)
    return source, target


def target_token(path: Path, words: Sequence[str], target_lang: str) -> str | None:
    """Return ``>>LANG<<``, which a model for several target languages reads before the source; None
    for one language.

    Raises UserError for a language that the model does not know.
    """
    tokens = sorted(word for word in words if word.startswith(">>") and word.endswith("<<"))
    token = f">>{target_lang}<<"
    if not tokens or token in tokens:
        return token if tokens else None
    known = ", ".join(word[2:-2] for word in tokens)
    raise UserError(
        f"{path}: does not translate into '{target_lang}'; give one of {known} with --target-lang"
    )


def _find_vocabularies(path: Path) -> list[Path]:
    """Return the vocabularies beside a model, source first.

    Raises UserError where their names do not tell source from target.
    """
    files = sorted(path.parent.glob("*vocab*"))
    for suffixes in (NUMBERED, (".spm",), (".vocab",)):
        vocabularies = [file for file in files if file.suffix in suffixes]
        if vocabularies:
            break
    names = " ".join(file.name for file in vocabularies)  # in the alphabet src precedes trg and tgt
    if len(vocabularies) == 2 and not re.search(r"(src|source).* .*(trg|tgt|target)", names):
        raise UserError(
            f"{path.parent}: which of {names} is the source's? Name both: --vocab SOURCE TARGET"
        )
    return vocabularies


def _read_words(file: Path) -> list[str]:
    """Return the words of a vocabulary in YAML or JSON, ``word: number``, or with a word a line."""
    text = file.read_text(encoding="utf-8")
    if file.suffix not in NUMBERED:
        return [line.split("\t")[0] for line in text.removesuffix("\n").split("\n")]
    # As texts, since words may look like numbers or dates. It is also faster.
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    rows = yaml.load(text.translate(HIDDEN), Loader=loader)
    shown = {hidden: sign for sign, hidden in HIDDEN.items()}
    return [word.translate(shown) for word in sorted(rows, key=lambda word: int(rows[word]))]
