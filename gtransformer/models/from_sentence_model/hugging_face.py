"""Folders of Hugging Face's form: Marian (OPUS-MT), M2M-100 and NLLB-200, mBART-50.

Only files are read, so transformers itself is not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from gtransformer.data.dictionaries import UNUSED
from gtransformer.errors import UserError
from gtransformer.files import read_json
from gtransformer.models.from_sentence_model.marian import target_token
from gtransformer.models.from_sentence_model.sentence_model import ModelVocabulary, SentenceModel

MARIAN, M2M, MBART = "marian", "m2m_100", "mbart"
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish", "gelu_new": "gelu_accurate"}
BEFORE = ("<s>", "<pad>", "</s>", "<unk>")  # the first rows of M2M-100, NLLB-200 and mBART, in fairseq's order
PIECES, TOKENISER = "sentencepiece.bpe.model", "tokenizer_config.json"
# Classes that write '<language> words </s>' on either side, and are read here.
TOKENISERS = ("M2M100Tokenizer", "NllbTokenizer", "NllbTokenizerFast", "MBart50Tokenizer", "MBart50TokenizerFast")
MOVED = {".self_attn.": ".self_attn_local.", ".encoder_attn.": ".encoder_attn_local."}
TABLES = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
SHARED, OUTPUT, BIAS = "model.shared.weight", "lm_head.weight", "final_logits_bias"


def read_hugging_face(
    folder: Path, source_lang: str, target_lang: str, pieces_of: Callable[[Path], list[str]]
) -> SentenceModel:
    """Read a folder with config.json, parameters and tokeniser; arguments and errors as of ``read_sentence_model``."""
    config = read_json(folder / "config.json")
    kind = config.get("model_type")
    if kind not in (MARIAN, M2M, MBART):
        raise UserError(
            f"{folder}: a model of type '{kind}'; models of types marian, m2m_100 (M2M-100, NLLB-200) and mbart "
            "(mBART-50) can be read"
        )
    structure = read_structure(folder, config, kind)
    make = _marian_vocabularies if kind == MARIAN else _many_languages
    source, target = make(folder, config, source_lang, target_lang, pieces_of)
    state, files = read_parameters(folder)
    encoder, decoder, output, bias = read_tables(config, state)
    for side, table in ((source, encoder), (target, decoder)):
        if len(side.words) > len(table):
            raise UserError(f"{folder}: {len(side.words)} words, {len(table)} embeddings; give the model's tokeniser")
        side.words += map(UNUSED.format, range(len(side.words), len(table)))
    one_table = torch.equal(encoder, decoder) and output is None and source.words == target.words
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
    files = [folder / "config.json", *files, *{source.pieces, target.pieces}]
    tables, first = (encoder, decoder, output), 1 if kind == MARIAN else 0
    return SentenceModel(f"Hugging Face {kind}", structure, layers, source, target, tables, bias, first, files)


def _if_there(path: Path) -> dict[str, Any]:
    """Return an object of a JSON file; empty if there is no such file."""
    return read_json(path) if path.is_file() else {}


def read_parameters(folder: Path) -> tuple[dict[str, Tensor], list[Path]]:
    """Return the parameters by Hugging Face's names, and their files: safetensors, or PyTorch's by its safe loader."""
    for single, load in (("model.safetensors", load_file), ("pytorch_model.bin", _load_torch)):
        index = folder / f"{single}.index.json"
        if (folder / single).is_file():
            files = [folder / single]
        elif index.is_file():
            files = sorted({folder / name for name in read_json(index)["weight_map"].values()})
        else:
            continue
        state: dict[str, Tensor] = {}
        for file in files:
            state |= load(file)
        return state, files
    raise UserError(f"{folder}: holds neither model.safetensors nor pytorch_model.bin; fetch the model again")


def read_tables(
    config: Mapping[str, Any], state: dict[str, Tensor]
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Take the embeddings of encoder and decoder, the output layer and its bias out of the parameters.

    Both embeddings are (words, channels), the output layer too, None where it is the decoder's table; the bias is
    (words,), None if it is zero. What is tied may be stored by any of its names.
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
    bias = None if bias is None or not bool(bias.any()) else bias.reshape(-1)
    return encoder, decoder, None if output is not None and torch.equal(output, decoder) else output, bias


def _load_torch(file: Path) -> dict[str, Tensor]:
    return torch.load(file, map_location="cpu", weights_only=True)


def read_structure(folder: Path, config: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the structure as options of this package. Raises UserError for what no layer here computes."""
    activation = config.get("activation_function", "relu" if kind == M2M else "gelu")  # without it as transformers
    if activation not in ACTIVATIONS:
        raise UserError(f"{folder}: activation {activation}, which no layer of this package has; give another model")
    start = config.get("decoder_start_token_id")
    if kind != MARIAN and start != config.get("eos_token_id"):
        raise UserError(
            f"{folder}: its decoder begins with token {start}, not with </s> as those of M2M-100, NLLB-200 and "
            "mBART-50 do; give one of these"
        )
    learned = kind == MBART
    sides = "encoder", "decoder"
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
        "dropout": config.get("dropout", 0.1),
        "no_scale_embedding": not config.get("scale_embedding", kind == M2M),
        "layernorm_embedding": kind == MBART,
        "sinusoids": "huggingface" if kind == MARIAN else "fairseq",
        "sentence_marks": "start" if kind == MARIAN else "end",
    }


def _marian_vocabularies(
    folder: Path, config: Mapping[str, Any], source_lang: str, target_lang: str, pieces_of: Callable
) -> tuple[ModelVocabulary, ModelVocabulary]:
    """Return the vocabularies: ``vocab.json``, a target file if the sides differ, and two ``.spm`` models."""
    settings = _if_there(folder / TOKENISER)
    if (settings.get("source_lang"), settings.get("target_lang")) == (target_lang, source_lang):
        raise UserError(f"{folder}: translates from {target_lang} to {source_lang}; swap -s and -t")
    names = "vocab.json", "target_vocab.json" if (folder / "target_vocab.json").is_file() else "vocab.json"
    sides = []
    for name, pieces in zip(names, ("source.spm", "target.spm"), strict=True):
        words = _numbered(folder / name)
        pieces_of(folder / pieces)
        rows = {"start": config.get("decoder_start_token_id", config.get("pad_token_id"))}
        rows |= {key: words.index(word) for key, word in (("pad", "<pad>"), ("eos", "</s>"), ("unk", "<unk>"))}
        if not sides and names[0] != names[1]:
            rows["start"] = rows["pad"]  # theirs is a number of the target's, and no source has such a token
        sides.append(ModelVocabulary(words, rows, folder / pieces))
    sides[0].prefix = target_token(folder, sides[0].words, target_lang)
    return sides[0], sides[1]


def _many_languages(
    folder: Path, config: Mapping[str, Any], source_lang: str, target_lang: str, pieces_of: Callable
) -> tuple[ModelVocabulary, ModelVocabulary]:
    """Return the words of M2M-100 (vocab.json), NLLB-200 and mBART-50 (pieces, one number on), then languages."""
    settings = _if_there(folder / TOKENISER)
    made_by = settings.get("tokenizer_class")
    if made_by not in (None, *TOKENISERS) or settings.get("legacy_behaviour"):
        raise UserError(
            f"{folder}: its tokeniser is {made_by}, perhaps with legacy_behaviour; only {', '.join(TOKENISERS)} can be "
            "read, with the language first"
        )
    pieces = folder / PIECES
    cut = pieces_of(pieces)
    words = [*BEFORE, *cut[3:]]  # the pieces begin with <unk>, <s> and </s>, the words with four
    if (folder / "vocab.json").is_file():
        words = _numbered(folder / "vocab.json")
    for row, word in sorted(_added(folder, len(words), settings).items()):
        if row >= len(words):
            words += map(UNUSED.format, range(len(words), row))
            words.append(word)
    text = {*cut}  # some pieces look like languages
    tokens = {word.strip("_"): word for word in words[4:] if word not in text and _is_language(word)}
    found = []
    for option, lang in (("--source-lang", source_lang), ("--target-lang", target_lang)):
        if lang not in tokens:
            known = ", ".join(sorted(tokens)[:10])
            raise UserError(f"{option} {lang}: {folder} does not know it; give one of {known}, ...")
        found.append(ModelVocabulary([], dict(start=0, pad=1, eos=2, unk=3), pieces, tokens[lang]))
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
    found = {int(row): entry["content"] for row, entry in (settings.get("added_tokens_decoder") or {}).items()}
    found |= {int(row): word for word, row in _if_there(folder / "added_tokens.json").items()}
    found |= {entry["id"]: entry["content"] for entry in _if_there(folder / "tokenizer.json").get("added_tokens", [])}
    if any(_is_language(word) for word in found.values()):
        return found
    listed = _if_there(folder / "special_tokens_map.json").get("additional_special_tokens", [])
    words = [word if isinstance(word, str) else word["content"] for word in listed]
    return {behind + number: word for number, word in enumerate(words)}


def _numbered(path: Path) -> list[str]:
    """Return the words of a file ``{word: number}`` in the order of the numbers, which leave no gap."""
    by_number = {number: word for word, number in read_json(path).items()}
    return [by_number[number] for number in range(len(by_number))]
