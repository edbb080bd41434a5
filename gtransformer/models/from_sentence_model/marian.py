"""Marian's own files: ``.npz`` and the binary format, float32 and int8; Transformers with attention
or SSRU decoders.

Names and formulas are those of Marian 1.9 to 1.12 (github.com/marian-nmt/marian-dev:
models/transformer.h, rnn/cells.h, common/binary.cpp).
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
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
    SentenceModel,
)

CONFIG = "special:model.yml"
FLOAT32, INTGEMM8 = 0x404, 0x4101  # types in the binary format
VERSION = 1
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
# Attention blocks by their names here, and in Marian.
ATTENTION = {"self_attn_local": "self", "encoder_attn_local": "context"}


def find_marian(path: Path) -> Path:
    """Return the model's file: the one that is given, or the only one in a folder.

    Raises UserError if there is none, or several.
    """
    found = [path] if path.is_file() else sorted([*path.glob("*.npz"), *path.glob("model*.bin")])
    if len(found) != 1:
        raise UserError(
            f"{path}: holds neither config.json, as a model of Hugging Face does, nor one model of "
            "Marian (*.npz, "
            f"model*.bin), but {len(found)}; give the folder or file of a sentence model"
        )
    return found[0]


def read_marian(
    path: Path,
    target_lang: str,
    pieces_of: Callable[[Path], list[str]],
    vocabulary: Sequence[Path] = (),
) -> SentenceModel:
    """Read a model file and its vocabulary; arguments and errors as of ``read_sentence_model``."""
    parameters, config = read_file(path)
    structure = read_structure(path, config)
    names = Names(parameters, biases=not config.get("transformer-no-bias"))
    layers = names.layers(structure)
    shared, both_inputs = config.get("tied-embeddings-all"), config.get("tied-embeddings-src")
    encoder = names.take("Wemb" if "Wemb" in parameters else "encoder_Wemb")
    decoder = encoder if "Wemb" in parameters else names.take("decoder_Wemb")
    output = None
    if not (shared or config.get("tied-embeddings")):
        straight = "decoder_ff_logit_out_Wt"
        output = (
            names.take(straight)
            if straight in parameters
            else names.take("decoder_ff_logit_out_W").t()
        )
    bias = None if config.get("output-omit-bias") else names.take("decoder_ff_logit_out_b")[0]
    if names.left:
        raise UserError(
            f"{path}: has a parameter {min(names.left)} that no layer of this package has"
        )
    structure |= {
        "share_all_embeddings": bool(shared),
        "share_decoder_input_output_embed": bool(not shared and output is None),
        "output_bias": bias is not None,
    }
    sides = read_vocabularies(
        path, pieces_of, vocabulary, (len(encoder), len(decoder)), target_lang
    )
    if (shared or both_inputs) and sides[0].words != sides[1].words:
        raise UserError(
            f"{path}: shares its embeddings, but its two vocabularies differ; give one with --vocab"
        )
    return SentenceModel(
        "Marian", structure, layers, *sides, (encoder, decoder, output), bias, FIRST_WORD, path.name
    )


def read_file(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the parameters, float32, and the configuration of a model file, told apart by
    content.
    """
    with open(path, "rb") as stream:
        begin = stream.read(4)
    parameters, text = _read_npz(path) if begin == b"PK\x03\x04" else _read_binary(path)
    return parameters, yaml.safe_load(text.rstrip(b"\0").decode())


def _read_npz(path: Path) -> tuple[dict[str, np.ndarray], bytes]:
    with np.load(path, allow_pickle=False) as arrays:
        text = arrays[CONFIG].tobytes()
        found = {
            name: arrays[name].astype(np.float32)
            for name in arrays.files
            if not name.startswith("special:")
        }
    return found, text


def _read_binary(path: Path) -> tuple[dict[str, np.ndarray], bytes]:
    """Read the binary format: a head for each item, all names, all shapes, then all data
    (common/binary.cpp).

    int8 matrices are dequantised: value = q / multiplier. They are stored transposed, but for
    embeddings.
    """
    data = memoryview(path.read_bytes())
    at = 0

    def part(length: int) -> memoryview:
        nonlocal at
        at += length
        return data[at - length : at]

    def take(form: str) -> tuple:
        return struct.unpack(form, part(struct.calcsize(form)))

    version, count = take("<QQ")
    if version != VERSION:
        raise UserError(f"{path}: no model of Marian; give its .npz or .bin file")
    heads = [take("<4Q") for _ in range(count)]
    names = [bytes(part(length)).rstrip(b"\0").decode() for length, *_ in heads]
    shapes = [take(f"<{rank}i") for _, _, rank, _ in heads]
    part(*take("<Q"))  # padding
    found, text = {}, b""
    for name, shape, (_, kind, _, size) in zip(names, shapes, heads, strict=True):
        item, length = part(size), math.prod(shape)
        if name == CONFIG:
            text = bytes(item)
        elif name.startswith("special:") or name.endswith("QuantMultA"):
            continue
        elif kind == FLOAT32:
            found[name] = np.frombuffer(item, np.float32, length).reshape(shape).copy()
        elif kind == INTGEMM8 and not name.endswith("_Wt"):
            (multiplier,) = struct.unpack_from("<f", item, length)
            values = np.frombuffer(item, np.int8, length).astype(np.float32) / np.float32(
                multiplier
            )
            found[name] = (
                values.reshape(shape) if name.endswith("Wemb") else values.reshape(shape[::-1]).T
            )
        else:  # such as an output layer of its own in int8, whose layout we have not seen
            raise UserError(
                f"{path}: parameter {name} is of type {kind:#x}, which cannot be read; give "
                "another model"
            )
    return found, text


def read_structure(path: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the structure as options of this package. Raises UserError for what no layer here
    computes.
    """
    values = {name: config.get(name) or allowed[0] for name, allowed in CHOICES.items()}
    found = {name: value for name, value in values.items() if value not in CHOICES[name]}
    layout = tuple(
        config.get(f"transformer-{name}") or ""
        for name in ("preprocess", "postprocess", "postprocess-top")
    )
    if layout not in LAYOUTS:
        found["preprocess, postprocess, postprocess-top"] = layout
    unit = config.get("transformer-decoder-autoreg") or "self-attention"
    if unit != "self-attention" and (unit, config.get("dec-cell")) != ("rnn", "ssru"):
        found["decoder"] = unit, config.get("dec-cell")
    if found:
        listed = ", ".join(f"{name} {value}" for name, value in found.items())
        raise UserError(f"{path}: {listed}: no layer of this package has this; give another model")
    ffn = config["transformer-dim-ffn"]
    sizes = {
        "embed_dim": config["dim-emb"],
        "attention_heads": config["transformer-heads"],
        "normalize_before": LAYOUTS[layout],
    }
    return {
        **{
            f"{side}_{name}": value
            for side in ("encoder", "decoder")
            for name, value in sizes.items()
        },
        "encoder_layers": config["enc-depth"],
        "decoder_layers": config["dec-depth"],
        "encoder_ffn_embed_dim": ffn,
        "decoder_ffn_embed_dim": config.get("transformer-decoder-dim-ffn") or ffn,
        "activation_fn": values["transformer-ffn-activation"],
        "decoder_unit": "ssru" if unit == "rnn" else "attention",
        "layer_norm_eps": EPSILON,
        "sinusoids": "marian",
        # small models are distilled without, and fail with it; what another one had, no file says
        "dropout": 0.0,
        "sentence_marks": "start",
    }


class Names:
    """Parameters by Marian's names, each taken once. What multiplies from the right there is
    transposed here.

    ``biases``: layers have them; of a model without (transformer-no-bias), those that are not there
    are zero.
    """

    def __init__(self, parameters: Mapping[str, np.ndarray], biases: bool = True):
        self.left, self.biases = dict(parameters), biases

    def take(self, name: str) -> Tensor:
        """Return a parameter as it is."""
        return torch.from_numpy(np.ascontiguousarray(self.left.pop(name)))

    def linear(self, ours: str, weight: str, bias: str | None) -> dict[str, Tensor]:
        """Return a linear layer."""
        found = {f"{ours}.weight": self.take(weight).t().contiguous()}
        if bias is not None:
            found[f"{ours}.bias"] = self._bias(bias, len(found[f"{ours}.weight"]))
        return found

    def _bias(self, name: str, size: int) -> Tensor:
        return self.take(name)[0] if self.biases or name in self.left else torch.zeros(size)

    def norm(self, ours: str, theirs: str, before: bool = False) -> dict[str, Tensor]:
        """Return a layer norm; that of a block's input has another name."""
        end = "_pre" if before else ""
        scale = self.take(f"{theirs}_ln_scale{end}")[0]
        return {
            f"{ours}.weight": scale,
            f"{ours}.bias": self._bias(f"{theirs}_ln_bias{end}", len(scale)),
        }

    def layers(self, structure: Mapping[str, Any]) -> dict[str, Tensor]:
        """Return the parameters of all layers by this package's names."""
        found: dict[str, Tensor] = {}
        before = structure["encoder_normalize_before"]
        for side in ("encoder", "decoder"):
            for number in range(structure[f"{side}_layers"]):
                ours, theirs = f"{side}.layers.{number}", f"{side}_l{number + 1}"
                for name, block in ATTENTION.items():
                    if block == "context" and side == "encoder":
                        continue
                    norm = f"{ours}.{name.removesuffix('_local')}_layer_norm"
                    if (
                        block == "self"
                        and side == "decoder"
                        and structure["decoder_unit"] == "ssru"
                    ):
                        unit = f"{theirs}_rnn"
                        found |= self.linear(f"{ours}.{name}.input_proj", f"{unit}_W", None)
                        found |= self.linear(
                            f"{ours}.{name}.forget_proj", f"{unit}_Wf", f"{unit}_bf"
                        )
                        found |= self.norm(norm, unit if before else f"{unit}_ffn", before)
                        continue
                    unit = f"{theirs}_{block}"
                    for part, letter in zip(
                        ("q_proj", "k_proj", "v_proj", "out_proj"), "qkvo", strict=True
                    ):
                        found |= self.linear(
                            f"{ours}.{name}.{part}", f"{unit}_W{letter}", f"{unit}_b{letter}"
                        )
                    found |= self.norm(norm, f"{unit}_Wo", before)
                for part in "12":
                    found |= self.linear(
                        f"{ours}.fc{part}", f"{theirs}_ffn_W{part}", f"{theirs}_ffn_b{part}"
                    )
                found |= self.norm(f"{ours}.final_layer_norm", f"{theirs}_ffn_ffn", before)
            if before:
                found |= self.norm(f"{side}.layer_norm", f"{side}_top")
        return found


def read_vocabularies(
    path: Path,
    pieces_of: Callable[[Path], list[str]],
    given: Sequence[Path],
    rows: tuple[int, int],
    target_lang: str,
) -> tuple[ModelVocabulary, ModelVocabulary]:
    """Return the vocabularies of both sides, from given files or from the model's folder.

    A ``.spm`` file numbers its pieces itself. A ``.yml`` file numbers words; ``source.spm`` and
    ``target.spm`` split text.
    """
    files = [Path(one) for one in given] or _find_vocabularies(path)
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
            words = _read_yaml_words(file)
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
    known = ", ".join(one[2:-2] for one in tokens[:20]) + (", ..." if len(tokens) > 20 else "")
    raise UserError(
        f"{path}: does not translate into '{target_lang}'; give one of {known} with --target-lang"
    )


def _find_vocabularies(path: Path) -> list[Path]:
    """Return the vocabularies beside a model, source first.

    Raises UserError where their names do not tell source from target.
    """
    found = sorted(path.parent.glob("*vocab*.yml")) or sorted(path.parent.glob("*vocab*.spm"))
    names = " ".join(file.name for file in found)  # in the alphabet src precedes trg and tgt
    if len(found) == 2 and not re.search(r"(src|source).* .*(trg|tgt|target)", names):
        raise UserError(
            f"{path.parent}: which of {names} is the source's? Name both: --vocab SOURCE TARGET"
        )
    return found


def _read_yaml_words(file: Path) -> list[str]:
    """Return the words of a YAML vocabulary, ``word: number`` a line, in the order of the
    numbers.
    """
    # As texts, since words may look like numbers or dates. It is also faster.
    content = yaml.load(
        file.read_text(encoding="utf-8"), Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    )
    words = {int(number): word for word, number in content.items()}
    return [words[number] for number in range(len(words))]
