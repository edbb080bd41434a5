"""Folders of Hugging Face's form: Marian (OPUS-MT), M2M-100 and NLLB-200, mBART-50.

transformers reads the configuration and the parameters; of the tokenisers the files are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from gtransformer.data.dictionaries import UNUSED
from gtransformer.errors import UserError
from gtransformer.files import read_json
from gtransformer.models.from_sentence_model.marian import target_token
from gtransformer.models.from_sentence_model.sentence_model import ModelVocabulary, SentenceModel
from gtransformer.optional import import_transformers

MARIAN, M2M, MBART = "marian", "m2m_100", "mbart"
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "swish": "swish",
    "silu": "swish",
    "gelu_new": "gelu_accurate",
}
BEFORE = (
    "<s>",
    "<pad>",
    "</s>",
    "<unk>",
)  # the first rows of M2M-100, NLLB-200 and mBART, in fairseq's order
PIECES, TOKENISER = "sentencepiece.bpe.model", "tokenizer_config.json"
# Classes that write '<language> words </s>' on either side, and are read here.
TOKENISERS = (
    "M2M100Tokenizer",
    "NllbTokenizer",
    "NllbTokenizerFast",
    "MBart50Tokenizer",
    "MBart50TokenizerFast",
)
MOVED = {".self_attn.": ".self_attn_local.", ".encoder_attn.": ".encoder_attn_local."}


def read_hugging_face(
    folder: Path, source_lang: str, target_lang: str, pieces_of: Callable[[Path], list[str]]
) -> SentenceModel:
    """Read a folder with config.json, parameters and tokeniser; arguments and errors as of
    ``read_sentence_model``.
    """
    transformers = import_transformers()
    given = read_json(folder / "config.json")
    if "quantization_config" in given:
        raise UserError(
            f"{folder}: its weights are quantised (bitsandbytes); give the model in float32 or "
            "float16"
        )
    kind = given.get("model_type")
    if kind not in (MARIAN, M2M, MBART):
        raise UserError(
            f"{folder}: a model of type '{kind}'; models of types marian, m2m_100 (M2M-100, "
            "NLLB-200) and mbart "
            "(mBART-50) can be read"
        )
    transformers.utils.logging.disable_progress_bar()
    config = transformers.AutoConfig.from_pretrained(folder)
    structure = read_structure(folder, config, kind)
    make = _marian_vocabularies if kind == MARIAN else _many_languages
    source, target = make(folder, config, source_lang, target_lang, pieces_of)
    model, report = transformers.AutoModelForSeq2SeqLM.from_pretrained(
        folder, output_loading_info=True
    )
    different = {name for found in report.values() for name in found}
    if different:  # transformers only warns, and draws what is missing at random
        raise UserError(
            f"{folder}: its parameters are not those of its config.json: "
            f"{', '.join(sorted(different))}"
        )
    model.float()
    own = model.model
    encoder, decoder, output = (
        module.weight.detach()
        for module in (own.encoder.embed_tokens, own.decoder.embed_tokens, model.lm_head)
    )
    decoder = encoder if torch.equal(encoder, decoder) else decoder
    output = None if torch.equal(output, decoder) else output
    bias = getattr(model, "final_logits_bias", torch.zeros(1)).reshape(-1)
    bias = bias if bias.any() else None
    for side, table in ((source, encoder), (target, decoder)):
        if len(side.words) > len(table):
            raise UserError(
                f"{folder}: {len(side.words)} words, {len(table)} embeddings; give the model's "
                "tokeniser"
            )
        side.words += map(UNUSED.format, range(len(side.words), len(table)))
    one_table = decoder is encoder and output is None and source.words == target.words
    structure |= {
        "share_all_embeddings": one_table,
        "share_decoder_input_output_embed": output is None and not one_table,
        "output_bias": bias is not None,
    }
    layers = {}
    for name, value in own.state_dict().items():
        computed = "embed_positions" in name and kind != MBART
        if not computed and "embed_tokens" not in name and not name.startswith("shared."):
            for theirs, ours in MOVED.items():
                name = name.replace(theirs, ours)
            layers[name] = value
    tables, first = (encoder, decoder, output), 1 if kind == MARIAN else 0
    named = f"Hugging Face {kind}"
    return SentenceModel(
        named, structure, layers, source, target, tables, bias, first, "config.json"
    )


def _if_there(path: Path) -> dict[str, Any]:
    """Return an object of a JSON file; empty if there is no such file."""
    return read_json(path) if path.is_file() else {}


def read_structure(folder: Path, config: Any, kind: str) -> dict[str, Any]:
    """Return the structure as options of this package. Raises UserError for what no layer here
    computes.
    """
    activation = config.activation_function
    if activation not in ACTIVATIONS:
        raise UserError(
            f"{folder}: activation {activation}, which no layer of this package has; give another "
            "model"
        )
    if kind != MARIAN and config.decoder_start_token_id != config.eos_token_id:
        raise UserError(
            f"{folder}: its decoder begins with token {config.decoder_start_token_id}, not with "
            "</s> as those of "
            "M2M-100, NLLB-200 and mBART-50 do; give one of these"
        )
    found: dict[str, Any] = {}
    for side in ("encoder", "decoder"):
        own = {
            "embed_dim": config.d_model,
            "ffn_embed_dim": getattr(config, f"{side}_ffn_dim"),
            "layers": getattr(config, f"{side}_layers"),
            "attention_heads": getattr(config, f"{side}_attention_heads"),
            "normalize_before": kind != MARIAN,
            "learned_pos": kind == MBART,
        }
        found |= {f"{side}_{name}": value for name, value in own.items()}
    if kind == MBART:
        found |= dict.fromkeys(
            ("max_source_positions", "max_target_positions"), config.max_position_embeddings
        )
    return found | {
        "activation_fn": ACTIVATIONS[activation],
        "dropout": config.dropout,
        "no_scale_embedding": not config.scale_embedding,
        "layernorm_embedding": kind == MBART,
        "sinusoids": "huggingface" if kind == MARIAN else "fairseq",
        "sentence_marks": "start" if kind == MARIAN else "end",
    }


def _marian_vocabularies(
    folder: Path, config: Any, source_lang: str, target_lang: str, pieces_of: Callable
) -> tuple[ModelVocabulary, ModelVocabulary]:
    """Return the vocabularies: ``vocab.json``, a target file if the sides differ, and two ``.spm``
    models.
    """
    settings = _if_there(folder / TOKENISER)
    if (settings.get("source_lang"), settings.get("target_lang")) == (target_lang, source_lang):
        raise UserError(f"{folder}: translates from {target_lang} to {source_lang}; swap -s and -t")
    names = (
        "vocab.json",
        "target_vocab.json" if (folder / "target_vocab.json").is_file() else "vocab.json",
    )
    sides = []
    for name, pieces in zip(names, ("source.spm", "target.spm"), strict=True):
        words = _numbered(folder / name)
        pieces_of(folder / pieces)
        rows = {"start": config.decoder_start_token_id}
        rows |= {
            key: words.index(word)
            for key, word in (("pad", "<pad>"), ("eos", "</s>"), ("unk", "<unk>"))
        }
        if not sides and names[0] != names[1]:
            rows["start"] = rows[
                "pad"
            ]  # theirs is a number of the target's, and no source has such a token
        sides.append(ModelVocabulary(words, rows, folder / pieces))
    sides[0].prefix = target_token(folder, sides[0].words, target_lang)
    return sides[0], sides[1]


def _many_languages(
    folder: Path, config: Any, source_lang: str, target_lang: str, pieces_of: Callable
) -> tuple[ModelVocabulary, ModelVocabulary]:
    """Return the words of M2M-100 (vocab.json), NLLB-200 and mBART-50 (pieces, one number on), then
    languages.
    """
    settings = _if_there(folder / TOKENISER)
    made_by = settings.get("tokenizer_class")
    if made_by not in (None, *TOKENISERS) or settings.get("legacy_behaviour"):
        raise UserError(
            f"{folder}: its tokeniser is {made_by}, perhaps with legacy_behaviour; only "
            f"{', '.join(TOKENISERS)} can be "
            "read, with the language first"
        )
    pieces = folder / PIECES
    words = [
        *BEFORE,
        *pieces_of(pieces)[3:],
    ]  # the pieces begin with <unk>, <s> and </s>, the words with four
    if (folder / "vocab.json").is_file():
        words = _numbered(folder / "vocab.json")
    added = _added(folder, len(words), settings)
    for row, word in sorted(added.items()):
        if row >= len(words):
            words += map(UNUSED.format, range(len(words), row))
            words.append(word)
    tokens = {word.strip("_"): word for word in added.values() if word[:1] != "<"}
    found = []
    for option, lang in (("--source-lang", source_lang), ("--target-lang", target_lang)):
        if lang not in tokens:
            known = ", ".join(sorted(tokens)[:10])
            raise UserError(f"{option} {lang}: {folder} does not know it; give one of {known}, ...")
        found.append(ModelVocabulary([], dict(start=0, pad=1, eos=2, unk=3), pieces, tokens[lang]))
    others = {
        word for lang, word in tokens.items() if lang not in (source_lang, target_lang)
    }  # no text has them
    for side in found:
        side.words = [
            UNUSED.format(row) if word in others else word for row, word in enumerate(words)
        ]
    return found[0], found[1]


def _added(folder: Path, behind: int, settings: Mapping[str, Any]) -> dict[int, str]:
    """Return a tokeniser's additional symbols by row; symbols that are listed without a row follow
    the words.
    """
    found = {
        int(row): entry["content"]
        for row, entry in (settings.get("added_tokens_decoder") or {}).items()
    }
    found |= {int(row): word for word, row in _if_there(folder / "added_tokens.json").items()}
    found |= {
        entry["id"]: entry["content"]
        for entry in _if_there(folder / "tokenizer.json").get("added_tokens", [])
    }
    listed = _if_there(folder / "special_tokens_map.json").get("additional_special_tokens", [])
    words = [word if isinstance(word, str) else word["content"] for word in listed]
    return {
        behind + number: word for number, word in enumerate(words) if word not in found.values()
    } | found


def _numbered(path: Path) -> list[str]:
    """Return the words of a file ``{word: number}`` in the order of the numbers, which leave no
    gap.
    """
    by_number = {number: word for word, number in read_json(path).items()}
    return [by_number[number] for number in range(len(by_number))]
