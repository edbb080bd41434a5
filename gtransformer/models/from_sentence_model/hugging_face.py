"""Folders of Hugging Face's form: Marian (OPUS-MT), M2M-100 and NLLB-200, mBART-50.

transformers reads the configuration, the parameters and most tokenisers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from gtransformer.data.dictionaries import UNUSED
from gtransformer.errors import UserError
from gtransformer.files import read_json
from gtransformer.models.from_sentence_model.marian import target_token
from gtransformer.models.from_sentence_model.sentence_model import (
    ModelVocabulary,
    PiecesOf,
    SentenceModel,
)

MARIAN, M2M, MBART = "marian", "m2m_100", "mbart"
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "swish": "swish",
    "silu": "swish",
    "gelu_new": "gelu_accurate",
}
# The first rows of M2M-100, NLLB-200 and mBART, in fairseq's order.
BEFORE = ("<s>", "<pad>", "</s>", "<unk>")
PIECES, FAST = "sentencepiece.bpe.model", "tokenizer.json"
# Classes that write '<language> words </s>' on either side.
TOKENISERS = ("M2M100Tokenizer", "NllbTokenizer", "MBart50Tokenizer")
# Added words that no text is split into.
SYMBOL = re.compile(r"</?s>|<pad>|<unk>|<mask>|__\w+__|[a-z]{2,3}_[A-Za-z]{2,4}|>>.+<<")


def read_hugging_face(
    folder: Path, source_lang: str, target_lang: str, pieces_of: PiecesOf
) -> SentenceModel:
    """Read a folder with config.json, parameters and tokeniser; arguments and errors as of
    ``read_sentence_model``.
    """
    import transformers  # an extra

    given = read_json(folder / "config.json")
    kind = given.get("model_type")
    if kind not in (MARIAN, M2M, MBART):
        raise UserError(
            f"{folder}: a model of type '{kind}'; models of types marian, m2m_100 (M2M-100, "
            "NLLB-200) and mbart (mBART-50) can be read"
        )
    # transformers reads it only where peft is installed.
    if (folder / "adapter_config.json").is_file():
        raise UserError(
            f"{folder}: holds an adapter; merge it into its model (peft's merge_and_unload), save "
            "that in a folder, and give it"
        )
    read_vocabularies = _marian_vocabularies if kind == MARIAN else _many_languages
    try:
        config = transformers.AutoConfig.from_pretrained(folder)
        source, target = read_vocabularies(folder, config, (source_lang, target_lang), pieces_of)
        model = _load(folder)
    except UserError:
        raise
    except Exception as error:  # the library raises what its parsers raise
        raise UserError(
            f"{folder}: cannot be read ({str(error).splitlines()[0]}); give a folder with "
            "parameters (model.safetensors or pytorch_model.bin) and all files of the tokeniser, "
            "the files themselves (git lfs pull fetches them), not quantised"
        ) from None
    # The word that transformers begins every translation with.
    forced = (_if_there(folder / "generation_config.json") | given).get("forced_bos_token_id")
    if target.prefix and forced and target.words[forced : forced + 1] != [target.prefix]:
        raise UserError(
            f"{folder}: made for another target language (forced_bos_token_id {forced}); give that "
            "with -t, or remove the entry from config.json and generation_config.json"
        )
    embeddings = model.get_encoder().embed_tokens, model.get_decoder().embed_tokens, model.lm_head
    encoder, decoder, output = (module.weight.detach() for module in embeddings)
    # Folders may hold a shared table several times.
    decoder = encoder if torch.equal(encoder, decoder) else decoder
    output = None if torch.equal(output, decoder) else output
    for side, table in ((source, encoder), (target, decoder)):
        if len(side.words) > len(table):
            raise UserError(
                f"{folder}: {len(side.words)} words, {len(table)} embeddings; give the model's own "
                "tokeniser"
            )
        side.words += map(UNUSED.format, range(len(side.words), len(table)))
    bias = getattr(model, "final_logits_bias", torch.zeros(1)).reshape(-1)
    bias = bias if bias.any() else None
    # Sinusoids are computed, learned positions are parameters.
    computed = "shared|embed_tokens" if kind == MBART else "shared|embed_tokens|embed_positions"
    parameters = model.model.state_dict().items()
    return SentenceModel(
        f"Hugging Face {kind}",
        read_structure(folder, config, kind),
        {name: value for name, value in parameters if not re.search(computed, name)},
        source,
        target,
        (encoder, decoder, output),
        bias,
        int(kind == MARIAN),  # it never predicts what its decoder begins with
        "config.json",
    )


def _load(folder: Path) -> Any:
    """Return transformers' model in float32, with all parameters from the folder."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    model, report = transformers.AutoModelForSeq2SeqLM.from_pretrained(
        folder, output_loading_info=True
    )
    # transformers only warns of these, and draws what is missing at random.
    different = {name for names in report.values() for name in names}
    if different:
        raise UserError(
            f"{folder}: its parameters are not those of its config.json: "
            f"{', '.join(sorted(different))}"
        )
    return model.float()


def read_structure(folder: Path, config: Any, kind: str) -> dict[str, Any]:
    """Return the structure as options of this package. Raises UserError for another start of the
    decoder, and for an activation that no layer here has.
    """
    if config.activation_function not in ACTIVATIONS:
        raise UserError(
            f"{folder}: activation {config.activation_function}; give a model with one of "
            f"{', '.join(ACTIVATIONS)}"
        )
    if kind != MARIAN and config.decoder_start_token_id != config.eos_token_id:
        raise UserError(
            f"{folder}: its decoder begins with token {config.decoder_start_token_id}, not with "
            "</s> as those of M2M-100, NLLB-200 and mBART-50 do; give one of these"
        )
    structure: dict[str, Any] = {}
    for side in ("encoder", "decoder"):
        structure |= {
            f"{side}_embed_dim": config.d_model,
            f"{side}_ffn_embed_dim": getattr(config, f"{side}_ffn_dim"),
            f"{side}_layers": getattr(config, f"{side}_layers"),
            f"{side}_attention_heads": getattr(config, f"{side}_attention_heads"),
            f"{side}_normalize_before": kind != MARIAN,
            f"{side}_learned_pos": kind == MBART,
        }
    if kind == MBART:
        structure["max_source_positions"] = config.max_position_embeddings
        structure["max_target_positions"] = config.max_position_embeddings
    return structure | {
        "activation_fn": ACTIVATIONS[config.activation_function],
        "dropout": config.dropout,
        "no_scale_embedding": not config.scale_embedding,
        "layernorm_embedding": kind == MBART,
        "sinusoids": "huggingface" if kind == MARIAN else "fairseq",
        "sentence_marks": "start" if kind == MARIAN else "end",
    }


def _marian_vocabularies(
    folder: Path, config: Any, pair: tuple[str, str], pieces_of: PiecesOf
) -> tuple[ModelVocabulary, ModelVocabulary]:
    """Return the vocabularies of ``MarianTokenizer``: one, or one a side, and two ``.spm``
    models.
    """
    from transformers import MarianTokenizer

    tokeniser = MarianTokenizer.from_pretrained(folder)
    if (tokeniser.source_lang, tokeniser.target_lang) == pair[::-1]:
        raise UserError(f"{folder}: translates from {pair[1]} to {pair[0]}; swap -s and -t")
    added = tokeniser.get_added_vocab()
    target_rows = {word: row for row, word in tokeniser.decoder.items()}
    sides = []
    for rows, name in ((tokeniser.encoder, "source.spm"), (target_rows, "target.spm")):
        rows = added | rows
        special = {"pad": rows["<pad>"], "eos": rows["</s>"], "unk": rows["<unk>"]}
        special["start"] = config.decoder_start_token_id
        sides.append(ModelVocabulary(_in_order(rows), special, folder / name))
    source, target = sides
    if source.words != target.words:  # the start is a row of the target's; no source has it
        source.special["start"] = source.special["pad"]
    source.prefix = target_token(folder, source.words, pair[1])
    _check_added(folder, added, ())
    return source, target


def _many_languages(
    folder: Path, config: Any, pair: tuple[str, str], pieces_of: PiecesOf
) -> tuple[ModelVocabulary, ModelVocabulary]:
    """Return the vocabularies of M2M-100, NLLB-200 and mBART-50: pieces, then languages."""
    settings = _if_there(folder / "tokenizer_config.json")
    made_by = (settings.get("tokenizer_class") or "").removesuffix("Fast")
    if made_by not in ("", *TOKENISERS) or settings.get("legacy_behaviour"):
        raise UserError(
            f"{folder}: its tokeniser is {made_by}, perhaps with legacy_behaviour; only "
            f"{', '.join(TOKENISERS)} can be read, with the language first"
        )
    rows, added, pieces = _tokeniser(folder, config, settings, pieces_of)
    words = _in_order(rows)
    tokens = {word.strip("_"): word for word in added if SYMBOL.fullmatch(word) and word[0] != "<"}
    tokens |= {lang: lang for lang in pair if lang in added}
    for option, lang in zip(("--source-lang", "--target-lang"), pair, strict=True):
        if lang not in tokens:
            known = ", ".join(sorted(tokens, key=lambda code: (code[:2] != lang[:2], code))[:10])
            raise UserError(f"{option} {lang}: {folder} does not know it; give one of {known}, ...")
    _check_added(folder, added, tokens.values())
    other_languages = {word for lang, word in tokens.items() if lang not in pair}
    for row, word in enumerate(words):
        if word in other_languages:  # no text has them
            words[row] = UNUSED.format(row)
    special = {"start": 0, "pad": 1, "eos": 2, "unk": 3}
    source, target = (ModelVocabulary([*words], special, pieces, tokens[lang]) for lang in pair)
    return source, target


def _tokeniser(
    folder: Path, config: Any, settings: Mapping[str, Any], pieces_of: PiecesOf
) -> tuple[dict[str, int], set[str], Path]:
    """Return the row of each word, the words that were added to the pieces, and the file that
    splits text.
    """
    pieces = folder / PIECES
    if (folder / FAST).is_file():
        from tokenizers import Tokenizer  # an extra

        tokeniser = Tokenizer.from_file(str(folder / FAST))
        rows = tokeniser.get_vocab()
        added = {token.content for token in tokeniser.get_added_tokens_decoder().values()}
        # A tokeniser with another vocabulary is saved beside SentencePiece's old model.
        same = pieces.is_file() and {*rows} - added == {*pieces_of(pieces)[3:]}
        return rows, added, pieces if same else folder / FAST
    is_nllb = config.model_type == M2M and not (folder / "vocab.json").is_file()
    if not is_nllb or "added_tokens_decoder" in settings:
        from transformers import AutoTokenizer

        tokeniser = AutoTokenizer.from_pretrained(folder)
        languages = getattr(tokeniser, "lang_token_to_id", {})  # of M2M-100
        return (
            tokeniser.get_vocab() | languages,
            {*tokeniser.get_added_vocab(), *languages},
            pieces,
        )
    # Until 4.33 NLLB's languages had no rows in files, and later versions give them other rows.
    from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES

    words = [*BEFORE, *pieces_of(pieces)[3:]]  # the pieces begin with <unk>, <s> and </s>
    with_rows = _if_there(folder / "added_tokens.json")
    listed = _if_there(folder / "special_tokens_map.json").get("additional_special_tokens", [])
    known = {*FAIRSEQ_LANGUAGE_CODES, *with_rows}
    languages = [*FAIRSEQ_LANGUAGE_CODES, *(word for word in listed if word not in known)]
    rows = {word: row for row, word in enumerate([*words, *languages, "<mask>"])} | with_rows
    return rows, {*languages, *with_rows}, pieces


def _in_order(rows: Mapping[str, int]) -> list[str]:
    """Return words by row; rows without a word are named."""
    words = {row: word for word, row in rows.items()}
    return [words.get(row, UNUSED.format(row)) for row in range(max(words) + 1)]


def _check_added(folder: Path, added: Iterable[str], languages: Iterable[str]) -> None:
    """Raise UserError if text would have to be split into words that are no pieces."""
    strange = [word for word in {*added} - {*languages} if not SYMBOL.fullmatch(word)]
    if strange:
        raise UserError(
            f"{folder}: words were added to its tokeniser ({', '.join(sorted(strange)[:5])}), into "
            "which text is not split here; give a model without"
        )


def _if_there(path: Path) -> dict[str, Any]:
    """Return an object of a JSON file; empty if there is no such file."""
    return read_json(path) if path.is_file() else {}
