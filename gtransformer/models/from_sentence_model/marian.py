"""Marian's own files: ``.npz`` and the binary format, float32 and int8; Transformers with attention or SSRU decoders.

Names and formulas are those of Marian 1.9 to 1.12 (github.com/marian-nmt/marian-dev: models/transformer.h, rnn/cells.h,
common/binary.cpp).
"""

from __future__ import annotations

import math
import re
import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from torch import Tensor

from gtransformer.data.dictionaries import NEVER
from gtransformer.errors import UserError
from gtransformer.models.from_sentence_model.sentence_model import ZERO, SentenceModel, Vocabulary

CONFIG = "special:model.yml"
LONGEST_CONFIGURATION = 2**20  # bytes; a longer file of YAML is a vocabulary
FLOAT32, INTGEMM8 = 0x404, 0x4101  # types in the binary format
VERSION = 1
EOS, UNK = "</s>", "<unk>"
FIRST_WORD = 2  # that is predicted, of a dictionary: Marian has neither <s> nor <pad>
EPSILON = 1e-6  # of Marian's layer norms
ACTIVATIONS = ("relu", "swish", "gelu")
EXACT_GELU = (1, 12)  # since this version; CTranslate2's converter still takes the approximation by a sigmoid
LAYOUTS = {("", "dan", ""): False, ("n", "da", "n"): True}  # preprocess, postprocess, postprocess-top: norms first?
# Switches of the configuration that change what a model computes, and that no layer of this package has.
OTHERWISE = (
    "transformer-train-position-embeddings", "transformer-no-projection", "transformer-pool", "transformer-tied-layers",
    "lemma-dim-emb", "layer-normalization", "right-left", "input-types", "ulr", "transformer-rnn-projection",
    "transformer-depth-scaling-output",
)  # fmt: skip
# What the configuration must say: the sizes.
SIZES = ("dim-emb", "transformer-heads", "transformer-dim-ffn", "enc-depth", "dec-depth")
# Exceptions of reading a truncated file, or a file of another kind; AttributeError: an archive without arrays.
DAMAGED = (
    ValueError, KeyError, OSError, EOFError, AttributeError, NotImplementedError, OverflowError, struct.error,
    zipfile.BadZipFile,
)  # fmt: skip
# Attention blocks by their names here, and in Marian.
ATTENTION = {"self_attn_local": "self", "encoder_attn_local": "context"}


def find_marian(path: Path) -> Path:
    """Return the model's file: the one that is given, or the only one in a folder.

    Raises UserError if there is none, or several.
    """
    if path.is_file():
        return path
    found = sorted(one for one in (*path.glob("*.npz"), *path.glob("*.bin")) if _is_model(one))
    if not found:
        raise UserError(
            f"{path}: holds neither config.json, as a model of Hugging Face's form does, nor a model of Marian (.npz, "
            ".bin); give the folder of a sentence model"
        )
    if len(found) > 1:
        raise UserError(f"{path}: holds several models ({', '.join(one.name for one in found)}); give one of the files")
    return found[0]


def _is_model(path: Path) -> bool:
    """Return whether a file begins like a model, not like a lexical shortlist (``lex.*.bin``)."""
    with open(path, "rb") as stream:
        begin = stream.read(8)
    return begin[:4] == b"PK\x03\x04" or begin == struct.pack("<Q", VERSION)


def read_marian(
    path: Path, target_lang: str, pieces_of: Callable[[Path], list[str]], vocabulary: Sequence[Path] = ()
) -> SentenceModel:
    """Read a model file and its vocabulary; arguments and errors as of ``read_sentence_model``."""
    parameters, config = read_file(path)
    structure = read_structure(path, config)
    names = Names(path, parameters, biases=not config.get("transformer-no-bias"))
    layers = names.layers(structure)
    shared, both_inputs = config.get("tied-embeddings-all"), config.get("tied-embeddings-src")
    encoder = names.take("Wemb" if "Wemb" in parameters else "encoder_Wemb")
    decoder = encoder if "Wemb" in parameters else names.take("decoder_Wemb")
    output = None
    if not (shared or config.get("tied-embeddings")):
        straight = "decoder_ff_logit_out_Wt"
        output = names.take(straight) if straight in parameters else names.take("decoder_ff_logit_out_W").t()
    bias = None if config.get("output-omit-bias") else names.take("decoder_ff_logit_out_b")[0]
    names.check_all_taken()
    tables = [encoder, decoder, *([] if output is None else [output])]
    widths, rows = {table.shape[1] for table in tables}, [len(one) for one in (output, bias) if one is not None]
    if widths != {config["dim-emb"]} or any(one != len(decoder) for one in rows):
        raise UserError(f"{path}: its embeddings and its output layer are not of the same size; fetch the model again")
    structure |= {
        "share_all_embeddings": bool(shared),
        "share_decoder_input_output_embed": bool(not shared and output is None),
        "output_bias": bias is not None,
    }
    sides = read_vocabularies(path, pieces_of, vocabulary, (len(encoder), len(decoder)), target_lang)
    if (shared or both_inputs) and sides[0].words != sides[1].words:
        raise UserError(f"{path}: shares its embeddings, but its two vocabularies differ; give one with --vocab")
    files = [path, *{side.pieces for side in sides}]
    return SentenceModel(
        "Marian", structure, layers, *sides, (encoder, decoder, output), bias, FIRST_WORD, files, {"unkpen": NEVER}
    )


def read_file(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the parameters, float32, and the configuration of a model file, told apart by content.

    Raises UserError for a file that is neither, or damaged.
    """
    with open(path, "rb") as stream:
        begin = stream.read(4)
    try:
        parameters, text = _read_npz(path) if begin == b"PK\x03\x04" else _read_binary(path)
        config = yaml.safe_load(text.rstrip(b"\0").decode())
    except (*DAMAGED, yaml.YAMLError) as error:
        reason = f"no configuration {CONFIG}" if isinstance(error, KeyError) else f"{error}".partition("\n")[0]
        raise UserError(f"{path}: no model of Marian, or a damaged one ({reason[:100]}); fetch it again") from None
    if not isinstance(config, dict):
        raise UserError(f"{path}: {CONFIG} holds no configuration; fetch the model again")
    return parameters, config


def _read_npz(path: Path) -> tuple[dict[str, np.ndarray], bytes]:
    with np.load(path, allow_pickle=False) as arrays:
        text = arrays[CONFIG].tobytes()
        found = {name: arrays[name].astype(np.float32) for name in arrays.files if not name.startswith("special:")}
    return found, text


def _read_binary(path: Path) -> tuple[dict[str, np.ndarray], bytes]:
    """Read the binary format: a head for each item, all names, all shapes, then all data (common/binary.cpp).

    int8 matrices are dequantised: value = q / multiplier. They are stored transposed, but for embeddings.
    """
    data = memoryview(path.read_bytes())
    at = 0

    def part(length: int) -> memoryview:
        nonlocal at
        if at + length > len(data):
            raise ValueError(f"ends at byte {len(data)}, in the middle of the data")
        at += length
        return data[at - length : at]

    def take(form: str) -> tuple:
        return struct.unpack(form, part(struct.calcsize(form)))

    version, count = take("<QQ")
    if version != VERSION:
        raise ValueError(f"version {version} of the format is unknown")
    heads = [take("<4Q") for _ in range(count)]
    names = [bytes(part(length)).rstrip(b"\0").decode() for length, *_ in heads]
    shapes = [take(f"<{rank}i") for _, _, rank, _ in heads]
    part(*take("<Q"))  # padding
    found, text = {}, None
    for name, shape, (_, kind, _, size) in zip(names, shapes, heads, strict=True):
        item, length = part(size), math.prod(shape)
        if name == CONFIG:
            text = bytes(item)
        elif kind == INTGEMM8 and name.endswith("_Wt"):
            raise ValueError(f"{name} is in int8; an output layer of its own can be read in float32 only")
        elif kind == INTGEMM8 and not name.endswith("QuantMultA"):
            (multiplier,) = struct.unpack_from("<f", item, length)
            with np.errstate(all="ignore"):  # of a damaged multiplier: see SentenceModel.check_finite
                values = np.frombuffer(item, np.int8, length).astype(np.float32) / np.float32(multiplier)
            found[name] = values.reshape(shape) if name.endswith("Wemb") else values.reshape(shape[::-1]).T
        elif kind == FLOAT32 and not name.endswith("QuantMultA"):
            found[name] = np.frombuffer(item, np.float32, length).reshape(shape).copy()
        elif not name.endswith("QuantMultA") and not name.startswith("special:"):
            raise ValueError(f"parameter {name} is of type {kind:#x}; only float32 and int8 for intgemm can be read")
    if text is None:
        raise KeyError(CONFIG)
    return found, text


def read_structure(path: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the structure as options of this package. Raises UserError for what no layer here computes."""

    def refuse(what: str) -> UserError:
        return UserError(f"{path}: {what}, which no layer of this package has; give another model")

    if config.get("type") != "transformer":
        raise refuse(f"a model of type {config.get('type')}")
    for name in SIZES:
        if not isinstance(config.get(name), int):
            raise UserError(f"{path}: its {CONFIG} has no {name}, a whole number; fetch the model again")
    for name in OTHERWISE:
        if config.get(name):
            raise refuse(f"{name} {config[name]}")
    layout = tuple(config.get(f"transformer-{name}") or "" for name in ("preprocess", "postprocess", "postprocess-top"))
    if layout not in LAYOUTS:
        raise refuse(f"preprocess '{layout[0]}', postprocess '{layout[1]}', at the top '{layout[2]}'")
    if "n" in (config.get("transformer-postprocess-emb") or ""):
        raise refuse("a norm on its embeddings")
    activation = config.get("transformer-ffn-activation") or "swish"
    if activation not in ACTIVATIONS:
        raise refuse(f"activation {activation}")
    release = re.match(r"v?(\d+)\.(\d+)", str(config.get("version")))
    if activation == "gelu" and release and tuple(map(int, release.groups())) < EXACT_GELU:
        raise refuse(f"the approximate gelu of Marian {release[0]}")
    depths = (config.get(name) or 2 for name in ("transformer-ffn-depth", "transformer-decoder-ffn-depth"))
    if set(depths) != {2}:
        raise refuse("more than two matrices in a feed-forward block")
    unit = config.get("transformer-decoder-autoreg") or "self-attention"
    if unit != "self-attention" and (unit, config.get("dec-cell")) != ("rnn", "ssru"):
        raise refuse(f"a decoder with {unit} {config.get('dec-cell')}")
    ffn = config["transformer-dim-ffn"]
    sizes = {
        "embed_dim": config["dim-emb"],
        "attention_heads": config["transformer-heads"],
        "normalize_before": LAYOUTS[layout],
    }
    return {
        **{f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in sizes.items()},
        "encoder_layers": config["enc-depth"],
        "decoder_layers": config["dec-depth"],
        "encoder_ffn_embed_dim": ffn,
        "decoder_ffn_embed_dim": config.get("transformer-decoder-dim-ffn") or ffn,
        "activation_fn": activation,
        "decoder_unit": "ssru" if unit == "rnn" else "attention",
        "layer_norm_eps": EPSILON,
        "sinusoids": "marian",
        "dropout": 0.0,  # small models are distilled without, and fail with it; what another one had, no file says
        "sentence_marks": "start",
    }


class Names:
    """Parameters by Marian's names, each taken once. What multiplies from the right there is transposed here.

    ``biases``: layers have them; of a model without (transformer-no-bias), those that are not there are zero.
    """

    def __init__(self, path: Path, parameters: Mapping[str, np.ndarray], biases: bool = True):
        self.path, self.left, self.biases = path, dict(parameters), biases

    def take(self, name: str) -> Tensor:
        """Return a parameter as it is. Raises UserError if it is not there."""
        if name not in self.left:
            raise UserError(f"{self.path}: lacks the parameter {name}; fetch the model again")
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
        return {f"{ours}.weight": scale, f"{ours}.bias": self._bias(f"{theirs}_ln_bias{end}", len(scale))}

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
                    if block == "self" and side == "decoder" and structure["decoder_unit"] == "ssru":
                        unit = f"{theirs}_rnn"
                        found |= self.linear(f"{ours}.{name}.input_proj", f"{unit}_W", None)
                        found |= self.linear(f"{ours}.{name}.forget_proj", f"{unit}_Wf", f"{unit}_bf")
                        found |= self.norm(norm, unit if before else f"{unit}_ffn", before)
                        continue
                    unit = f"{theirs}_{block}"
                    for part, letter in zip(("q_proj", "k_proj", "v_proj", "out_proj"), "qkvo", strict=True):
                        found |= self.linear(f"{ours}.{name}.{part}", f"{unit}_W{letter}", f"{unit}_b{letter}")
                    found |= self.norm(norm, f"{unit}_Wo", before)
                for part in "12":
                    found |= self.linear(f"{ours}.fc{part}", f"{theirs}_ffn_W{part}", f"{theirs}_ffn_b{part}")
                found |= self.norm(f"{ours}.final_layer_norm", f"{theirs}_ffn_ffn", before)
            if before:
                found |= self.norm(f"{side}.layer_norm", f"{side}_top")
        return found

    def check_all_taken(self) -> None:
        """Raise UserError where the file holds more than the layers that its configuration says."""
        if self.left:
            raise UserError(f"{self.path}: has a parameter {min(self.left)} that no layer of this package has")


def read_vocabularies(
    path: Path,
    pieces_of: Callable[[Path], list[str]],
    given: Sequence[Path],
    rows: tuple[int, int],
    target_lang: str,
) -> tuple[Vocabulary, Vocabulary]:
    """Return the vocabularies of both sides, from given files or from the model's folder.

    A ``.spm`` file numbers its pieces itself. A ``.yml`` file numbers words; ``source.spm`` and ``target.spm`` split
    text.
    """
    files = [Path(one) for one in given] or _find_vocabularies(path)
    if not 1 <= len(files) <= 2:
        raise UserError(f"{path.parent}: {len(files)} vocabularies; name that of both sides, or of each, with --vocab")
    sides = []
    for number, (side, file) in enumerate(zip(("source", "target"), (files * 2)[:2], strict=True)):
        if not file.is_file():
            raise UserError(f"{file}: no such vocabulary; give the model's with --vocab")
        if file.suffix == ".spm":
            words, pieces = pieces_of(file), file
        else:
            pieces = file.parent / f"{side}.spm"
            if not pieces.is_file():
                raise UserError(f"{pieces}: not there, but {file.name} alone cuts no text; put it there")
            words = _read_yaml_words(file)
        if len(words) != rows[number]:
            raise UserError(
                f"{file}: {len(words)} words, but the model has {rows[number]}; give the vocabulary that belongs to it"
            )
        special = {"start": ZERO, "pad": ZERO, "eos": _row(words, EOS, file), "unk": _row(words, UNK, file)}
        sides.append(Vocabulary(words, special, pieces))
    source, target = sides
    source.prefix = target_token(path, source.words, target_lang)
    return source, target


def target_token(path: Path, words: Sequence[str], target_lang: str) -> str | None:
    """Return ``>>LANG<<``, which a model for several target languages reads before the source; None for one language.

    Raises UserError for a language that the model does not know.
    """
    tokens = sorted(word for word in words if word.startswith(">>") and word.endswith("<<"))
    token = f">>{target_lang}<<"
    if not tokens or token in tokens:
        return token if tokens else None
    known = ", ".join(one[2:-2] for one in tokens[:20]) + (", ..." if len(tokens) > 20 else "")
    raise UserError(f"{path}: does not translate into '{target_lang}'; give one of {known} with --target-lang")


def _row(words: Sequence[str], word: str, file: Path) -> int:
    if word not in words:
        raise UserError(f"{file}: has no {word}, which every vocabulary of Marian has; give the model's own")
    return words.index(word)


def _find_vocabularies(path: Path) -> list[Path]:
    """Return the vocabularies of a model, source first: those that its configuration names, else by file name.

    Raises UserError where they could be another model's, or where the names do not tell source from target.
    """
    folder = path.parent
    named = _named_vocabularies(path)
    if named:
        return named
    found = sorted(folder.glob("*vocab*.yml")) or sorted(folder.glob("*vocab*.spm"))
    if len(found) == 1 and found[0].suffix == ".spm":
        found = sorted(folder.glob("*.spm"))
    if len(found) != 2:
        return found
    sides = [[file for file in found if re.search(side, file.name)] for side in ("src|source", "trg|tgt|target")]
    if len(sides[0]) != 1 and len(sides[1]) != 1:
        names = " and ".join(file.name for file in found)
        raise UserError(f"{folder}: which of {names} is the source's? Name both: --vocab SOURCE TARGET")
    source = sides[0][0] if len(sides[0]) == 1 else next(file for file in found if file not in sides[1])
    return sorted(found, key=lambda file: file != source)


def _named_vocabularies(path: Path) -> list[Path]:
    """Return the vocabularies that the configurations beside a model name for it; none if they name none.

    Marian writes ``MODEL.npz.decoder.yml`` and ``MODEL.npz.yml``. Else those of the configurations that name a model of
    the same training, or of those that name no model that is there. Raises UserError if several of equal rank differ.
    """
    folder, ranks = path.parent, {f"{path.name}.decoder.yml": 0, f"{path.name}.yml": 1}
    found: dict[int, list[list[Path]]] = {}
    for file in (*folder.glob("*.yml"), *folder.glob("*.yaml")):
        try:
            content = _load_texts(file) if file.stat().st_size < LONGEST_CONFIGURATION else None
        except (yaml.YAMLError, UnicodeDecodeError):
            continue
        if not isinstance(content, dict) or not isinstance(content.get("vocabs"), list):
            continue
        # As they are named, or, of files that were moved, beside the model.
        named = [(folder / one.name, folder / one) for one in map(Path, map(str, content["vocabs"]))]
        vocabularies = [next((one for one in places if one.is_file()), None) for places in named]
        models = content.get("models") or content.get("model")
        models = [Path(str(one)).name for one in (models if isinstance(models, list) else [models])]
        rank = ranks.get(file.name, 2 if _base(path.name) in map(_base, models) else 3)
        others = rank == 3 and any((folder / one).is_file() for one in models)
        if vocabularies and None not in vocabularies and not others:
            found.setdefault(rank, []).append(vocabularies)
    best = found[min(found)] if found else []
    if any(one != best[0] for one in best):
        raise UserError(f"{folder}: its configurations name different vocabularies; name the model's with --vocab")
    return [] if not best else best[0][:1] if len(set(best[0])) == 1 else best[0]


def _base(name: str) -> str:
    """Return the common part of names in one training: ``m`` of ``m.npz``, ``m.iter9.npz`` and ``m.npz.orig.npz``."""
    return re.sub(r"(\.iter\d+)?\.(npz|bin)(\..*)?$", "", name)


def _load_texts(file: Path) -> Any:
    """Read YAML whose values all are texts: words may look like numbers or dates. It is also faster."""
    return yaml.load(file.read_text(encoding="utf-8"), Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))


def _read_yaml_words(file: Path) -> list[str]:
    """Return the words of a YAML vocabulary, ``word: number`` a line, in the order of the numbers."""
    try:
        content = _load_texts(file)
        numbers = {int(number): word for word, number in content.items()}
    except (yaml.YAMLError, AttributeError, TypeError, ValueError):
        raise UserError(f"{file}: no vocabulary of Marian, which has 'word: number' on each line") from None
    if sorted(numbers) != list(range(len(numbers))):
        raise UserError(f"{file}: its numbers leave gaps; give the vocabulary that came with the model")
    return [numbers[number] for number in range(len(numbers))]
