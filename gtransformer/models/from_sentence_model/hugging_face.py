"""Folders of Hugging Face's form: Marian (OPUS-MT), M2M-100 and NLLB-200, mBART-50.

Only files are read, so transformers itself is not needed; ``safetensors`` is, for files of that format.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gtransformer.data.dictionaries import UNUSED
from gtransformer.errors import UserError
from gtransformer.models.from_sentence_model.marian import target_token
from gtransformer.models.from_sentence_model.sentence_model import SentenceModel, Vocabulary

MARIAN, M2M, MBART = "marian", "m2m_100", "mbart"
M2M_TOKENISER = "M2M100Tokenizer"
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish", "gelu_new": "gelu_accurate"}
BEFORE = ("<s>", "<pad>", "</s>", "<unk>")  # the first rows of M2M-100, NLLB-200 and mBART, in fairseq's order
PIECES, TOKENISER = "sentencepiece.bpe.model", "tokenizer_config.json"
# Classes that write '<language> words </s>' on either side, and are read here.
TOKENISERS = (M2M_TOKENISER, "NllbTokenizer", "NllbTokenizerFast", "MBart50Tokenizer", "MBart50TokenizerFast")
# M2M-100's languages in the order of their rows, for a tokeniser that transformers 5 saved: it names none of them.
M2M_100 = (
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy "
    "id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru "
    "sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
).split()
MOVED = {".self_attn.": ".self_attn_local.", ".encoder_attn.": ".encoder_attn_local."}
TABLES = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
SHARED, OUTPUT, BIAS = "model.shared.weight", "lm_head.weight", "final_logits_bias"


def read_hugging_face(
    folder: Path, source_lang: str, target_lang: str, pieces_of: Callable[[Path], list[str]]
) -> SentenceModel:
    """Read a folder with config.json, parameters and tokeniser; arguments and errors as of ``read_sentence_model``."""
    config = read_json_file(folder / "config.json")
    kind = config.get("model_type")
    if kind not in (MARIAN, M2M, MBART):
        raise UserError(
            f"{folder}: a model of type '{kind}'; models of types marian, m2m_100 (M2M-100, NLLB-200) and mbart "
            "(mBART-50) can be read"
        )
    structure = read_structure(folder, config, kind)
    make = _marian_vocabularies if kind == MARIAN else _many_languages
    sides = make(folder, config, source_lang, target_lang, pieces_of)
    state, files = read_parameters(folder)
    encoder, decoder, output, bias = read_tables(folder, config, state)
    tables = encoder, decoder
    one_table = torch.equal(encoder, decoder) and output is None and sides[0].words == sides[1].words
    for side, table in zip(sides, tables, strict=True):
        if len(side.words) > len(table):
            raise UserError(f"{folder}: {len(side.words)} words, {len(table)} embeddings; give the model's tokeniser")
        side.words += map(UNUSED.format, range(len(side.words), len(table)))
        if side.special["start"] not in range(len(table)):
            raise UserError(
                f"{folder / 'config.json'}: decoder_start_token_id {side.special['start']}, but there are {len(table)} "
                "embeddings; fetch the model again"
            )
    structure |= {
        "share_all_embeddings": one_table,
        "share_decoder_input_output_embed": output is None and not one_table,
        "output_bias": bias is not None,
    }
    layers = {}
    for name, value in state.items():
        name = name.removeprefix("model.")
        if "embed_positions" in name and not structure[f"{name.split('.')[0]}_learned_pos"]:
            continue  # sinusoidal ones are computed
        for theirs, ours in MOVED.items():
            name = name.replace(theirs, ours)
        layers[name] = value.float()
    files = [folder / "config.json", *files, *{side.pieces for side in sides}]
    first = 1 if kind == MARIAN else 0
    return SentenceModel(f"Hugging Face {kind}", structure, layers, *sides, (*tables, output), bias, first, files)


def read_json_file(path: Path) -> dict[str, Any]:
    """Return an object of a JSON file. Raises UserError if it is not there, or is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; fetch the model again, with all its files") from None
    except (ValueError, UnicodeDecodeError):
        found = None
    if not isinstance(found, dict):
        raise UserError(f"{path}: holds no JSON object; fetch the model again")
    return found


def _if_there(path: Path) -> dict[str, Any]:
    """Return an object of a JSON file as ``read_json_file``; empty if there is no such file."""
    return read_json_file(path) if path.is_file() else {}


def read_parameters(folder: Path) -> tuple[dict[str, Tensor], list[Path]]:
    """Return the parameters by Hugging Face's names, and their files: safetensors, or PyTorch's by its safe loader."""
    for single, load in (("model.safetensors", _load_safetensors), ("pytorch_model.bin", _load_torch)):
        index = folder / f"{single}.index.json"
        if (folder / single).is_file():
            files = [folder / single]
        elif index.is_file():
            parts = read_json_file(index).get("weight_map")
            if not isinstance(parts, dict) or not all(isinstance(name, str) for name in parts.values()):
                raise UserError(f"{index}: names no files of parameters; fetch it again")
            files = sorted({folder / name for name in parts.values()})
        else:
            continue
        state: dict[str, Tensor] = {}
        for file in files:
            if not file.is_file():
                raise UserError(f"{file}: no such file; fetch the model again, with all its parts")
            state |= load(file)
        return state, files
    raise UserError(f"{folder}: holds neither model.safetensors nor pytorch_model.bin; fetch the model again")


def read_tables(
    folder: Path, config: Mapping[str, Any], state: dict[str, Tensor]
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Take the embeddings of encoder and decoder, the output layer and its bias out of the parameters.

    Both embeddings are (words, channels), the output layer too, None where it is the decoder's table; the bias is
    (words,), None if it is zero. What is tied may be stored by any of its names. Raises UserError for sizes that do not
    fit.
    """
    shared = state.pop(SHARED, None)
    encoder, decoder = (state.pop(name, shared) for name in TABLES)
    output, bias = state.pop(OUTPUT, None), state.pop(BIAS, None)
    if config.get("tie_word_embeddings", True):
        decoder = output if decoder is None else decoder
        if config.get("share_encoder_decoder_embeddings", True):
            encoder = decoder if encoder is None else encoder
            decoder = encoder if decoder is None else decoder
        output = None
    if encoder is None or decoder is None:
        raise UserError(f"{folder}: holds no embeddings of encoder and decoder; fetch the model again")
    bias = None if bias is None or not bool(bias.any()) else bias.reshape(-1)
    if any(table is not None and table.shape[1:] != (config["d_model"],) for table in (encoder, decoder, output)):
        raise UserError(f"{folder}: embeddings of another size than d_model in config.json; fetch the model again")
    if any(one is not None and len(one) != len(decoder) for one in (output, bias)):
        raise UserError(f"{folder}: embeddings and output layer differ in size; fetch the model again")
    return encoder, decoder, None if output is not None and torch.equal(output, decoder) else output, bias


def _load_safetensors(file: Path) -> dict[str, Tensor]:
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError:
        raise UserError(f"{file}: needs the package safetensors, an optional extra: pip install -e '.[hf]'") from None
    try:
        return load_file(str(file))
    except (SafetensorError, OSError) as error:
        raise UserError(f"{file}: damaged ({str(error).splitlines()[0]}); fetch it again") from None


def _load_torch(file: Path) -> dict[str, Tensor]:
    try:
        found = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file makes the loader raise anything
        raise UserError(f"{file}: damaged, or no file of parameters ({type(error).__name__}); fetch it again") from None
    if not isinstance(found, dict):
        raise UserError(f"{file}: no file of parameters by name; fetch it again")
    return {name: value for name, value in found.items() if isinstance(value, Tensor)}


def read_structure(folder: Path, config: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the structure as options of this package. Raises UserError for what no layer here computes."""
    activation = config.get("activation_function", "relu" if kind == M2M else "gelu")  # without it as transformers
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise UserError(f"{folder}: activation {activation}, which no layer of this package has; give another model")
    start, end = config.get("decoder_start_token_id"), config.get("eos_token_id")
    if kind != MARIAN and start != end:
        raise UserError(
            f"{folder}: its decoder begins with token {start}, not with </s> as those of M2M-100, NLLB-200 and "
            "mBART-50 do; give one of these"
        )
    learned = kind == MBART
    sides = "encoder", "decoder"
    sizes = [f"{side}_{name}" for side in sides for name in ("ffn_dim", "layers", "attention_heads")]
    for name in ("d_model", *sizes, *(["max_position_embeddings"] if learned else [])):
        if type(config.get(name)) is not int or config[name] < 1:
            raise UserError(f"{folder / 'config.json'}: {name} is no size; fetch the model again")
        if "heads" in name and config["d_model"] % config[name]:
            raise UserError(f"{folder / 'config.json'}: {name} does not divide d_model; fetch the model again")
    dropout = config.get("dropout", 0.1)
    if type(dropout) not in (int, float) or not 0 <= dropout <= 1:
        raise UserError(f"{folder / 'config.json'}: dropout {dropout} is no probability; fetch the model again")
    own = {
        "embed_dim": [config["d_model"]] * 2,
        "ffn_embed_dim": [config[f"{side}_ffn_dim"] for side in sides],
        "layers": [config[f"{side}_layers"] for side in sides],
        "attention_heads": [config[f"{side}_attention_heads"] for side in sides],
        "normalize_before": [kind != MARIAN] * 2,
        "learned_pos": [learned] * 2,
    }
    found = {f"{side}_{name}": both[at] for at, side in enumerate(sides) for name, both in own.items()}
    if learned:
        found |= dict.fromkeys(("max_source_positions", "max_target_positions"), config["max_position_embeddings"])
    return found | {
        "activation_fn": ACTIVATIONS[activation],
        "dropout": float(dropout),
        "no_scale_embedding": not config.get("scale_embedding", kind == M2M),
        "layernorm_embedding": kind == MBART,
        "sinusoids": "huggingface" if kind == MARIAN else "fairseq",
        "sentence_marks": "start" if kind == MARIAN else "end",
    }


def _marian_vocabularies(
    folder: Path, config: Mapping[str, Any], source_lang: str, target_lang: str, pieces_of: Callable
) -> tuple[Vocabulary, Vocabulary]:
    """Return the vocabularies: ``vocab.json``, a target file if the sides differ, and two ``.spm`` models."""
    settings = _if_there(folder / TOKENISER)
    if (settings.get("source_lang"), settings.get("target_lang")) == (target_lang, source_lang):
        raise UserError(f"{folder}: translates from {target_lang} to {source_lang}; swap -s and -t")
    names = "vocab.json", "target_vocab.json" if (folder / "target_vocab.json").is_file() else "vocab.json"
    sides = []
    for name, pieces in zip(names, ("source.spm", "target.spm"), strict=True):
        words = _numbered(folder / name, read_json_file(folder / name))
        if not (folder / pieces).is_file():
            raise UserError(f"{folder / pieces}: no such file, so text cannot be cut; fetch the whole tokeniser")
        pieces_of(folder / pieces)
        rows = {"start": config.get("decoder_start_token_id", config.get("pad_token_id"))}
        for key, word in (("pad", "<pad>"), ("eos", "</s>"), ("unk", "<unk>")):
            if word not in words:
                raise UserError(f"{folder / name}: has no {word}; fetch the tokeniser that belongs to the model")
            rows[key] = words.index(word)
        if not sides and names[0] != names[1]:
            rows["start"] = rows["pad"]  # theirs is a number of the target's, and no source has such a token
        sides.append(Vocabulary(words, rows, folder / pieces))
    sides[0].prefix = target_token(folder, sides[0].words, target_lang)
    return sides[0], sides[1]


def _many_languages(
    folder: Path, config: Mapping[str, Any], source_lang: str, target_lang: str, pieces_of: Callable
) -> tuple[Vocabulary, Vocabulary]:
    """Return the words of M2M-100 (vocab.json), NLLB-200 and mBART-50 (pieces, one number on), then languages."""
    settings = _if_there(folder / TOKENISER)
    if (made_by := settings.get("tokenizer_class")) not in (None, *TOKENISERS):
        raise UserError(f"{folder}: its tokeniser is {made_by}; only {', '.join(TOKENISERS)} can be read")
    if settings.get("legacy_behaviour"):
        raise UserError(f"{folder / TOKENISER}: legacy_behaviour puts the source language last; give another model")
    pieces = folder / PIECES
    if not pieces.is_file():
        raise UserError(f"{pieces}: no such file, so text cannot be cut; fetch the whole tokeniser")
    cut = pieces_of(pieces)
    words = [*BEFORE, *cut[3:]]  # the pieces begin with <unk>, <s> and </s>, the words with four
    if (folder / "vocab.json").is_file():
        words = _numbered(folder / "vocab.json", read_json_file(folder / "vocab.json"))
    if tuple(words[:4]) != BEFORE:
        raise UserError(f"{folder}: its words begin with {' '.join(words[:4])}, not {' '.join(BEFORE)}; fetch it again")
    for row, word in sorted(_added(folder, len(words), settings).items()):
        if row >= len(words):
            words += map(UNUSED.format, range(len(words), row))
            words.append(word)
    text = {*cut}  # some pieces look like languages
    tokens = {word.strip("_"): word for word in words[4:] if word not in text and _is_language(word)}
    if not tokens:
        raise UserError(f"{folder}: no symbols of languages, as in special_tokens_map.json; fetch the whole tokeniser")
    found = []
    for option, lang in (("--source-lang", source_lang), ("--target-lang", target_lang)):
        if lang not in tokens:
            known = ", ".join(sorted(tokens)[:10])
            raise UserError(f"{option} {lang}: {folder} does not know it; give one of {known}, ...")
        found.append(Vocabulary([], dict(start=0, pad=1, eos=2, unk=3), pieces, tokens[lang]))
    others = {word for lang, word in tokens.items() if lang not in (source_lang, target_lang)}  # no text has them
    for side in found:
        side.words = [UNUSED.format(row) if word in others else word for row, word in enumerate(words)]
    return found[0], found[1]


def _is_language(word: str) -> bool:
    """Return whether a symbol is a language's: ``__en__``, ``en_XX``, ``eng_Latn``."""
    bare = word.removeprefix("__").removesuffix("__")
    if word != bare:
        return bare.isalpha()
    first, _, second = word.partition("_")
    return first.isalpha() and first.islower() and second[:1].isupper() and second.isalpha() and word.isascii()


def _added(folder: Path, behind: int, settings: Mapping[str, Any]) -> dict[int, str]:
    """Return a tokeniser's additional symbols by row; symbols that are listed without a row follow the words."""
    name = TOKENISER
    try:
        found = {int(row): entry["content"] for row, entry in (settings.get("added_tokens_decoder") or {}).items()}
        name = "added_tokens.json"
        found |= {int(row): word for word, row in _if_there(folder / name).items()}
        name = "tokenizer.json"
        found |= {int(entry["id"]): entry["content"] for entry in _if_there(folder / name).get("added_tokens") or []}
        if any(_is_language(word) for word in found.values()):
            return found
        name = "special_tokens_map.json"
        listed = _if_there(folder / name).get("additional_special_tokens") or []
        words = [word if isinstance(word, str) else word["content"] for word in listed]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UserError(f"{folder / name}: no symbols of a tokeniser; fetch it again") from None
    usual = "m2m100" if settings.get("tokenizer_class") == M2M_TOKENISER else None  # as transformers
    if not words and settings.get("language_codes", usual) == "m2m100":
        words = [f"__{lang}__" for lang in M2M_100]
    return {behind + number: word for number, word in enumerate(words)}


def _numbered(path: Path, content: Mapping[str, Any]) -> list[str]:
    """Return the words of ``{word: number}`` in the order of the numbers. Raises UserError where these leave gaps."""
    by_number = {number: word for word, number in content.items() if isinstance(number, int)}
    if sorted(by_number) != list(range(len(content))):
        raise UserError(f"{path}: its numbers are not those from 0 to {len(content) - 1}; fetch it again")
    return [by_number[number] for number in range(len(content))]
