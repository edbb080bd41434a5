"""The start of G-Transformer + BERT from a checkpoint of Hugging Face transformers."""

from __future__ import annotations

import logging
from pathlib import Path

import torch
from torch import Tensor, nn

from gtransformer.data.dictionaries import Vocabulary
from gtransformer.errors import UserError
from gtransformer.models.gtransformer.bert import LAYER_NORM_EPS, GTransformerBertModel
from gtransformer.optional import read_wordpiece_tokeniser

logger = logging.getLogger(__name__)

SPECIAL = {
    "<s>": "cls_token",
    "<pad>": "pad_token",
    "</s>": "sep_token",
    "<unk>": "unk_token",
    "<mask>": "mask_token",
}
# Our name of a layer's part -> Hugging Face's.
LAYER = {
    "self_attn_local.q_proj": "attention.self.query",
    "self_attn_local.k_proj": "attention.self.key",
    "self_attn_local.v_proj": "attention.self.value",
    "self_attn_local.out_proj": "attention.output.dense",
    "self_attn_layer_norm": "attention.output.LayerNorm",
    "fc1": "intermediate.dense",
    "fc2": "output.dense",
    "final_layer_norm": "output.LayerNorm",
}


def load_bert(model: GTransformerBertModel, folder: str | Path) -> None:
    """Initialise the encoder from a BERT checkpoint; global attention, gates and language symbols
    keep their values.

    Raises UserError if transformers is not installed, the folder holds no BERT, or names, sizes or
    words do not fit.
    """
    encoder = model.encoder
    bert, words = read_bert(Path(folder))
    for option, ours, theirs in (
        ("--encoder-embed-dim", encoder.cfg.encoder_embed_dim, bert.config.hidden_size),
        (
            "--encoder-ffn-embed-dim",
            encoder.cfg.encoder_ffn_embed_dim,
            bert.config.intermediate_size,
        ),
        ("--encoder-layers", encoder.cfg.encoder_layers, bert.config.num_hidden_layers),
        (
            "--encoder-attention-heads",
            encoder.cfg.encoder_attention_heads,
            bert.config.num_attention_heads,
        ),
    ):
        if ours != theirs:
            raise UserError(f"this BERT wants {option} {theirs}, not {ours}")
    own, given = encoder.state_dict(), _by_our_names(bert)
    offset = encoder.padding + 1
    with torch.no_grad():
        rows, numbers = _rows_of_words(encoder.dictionary, words)
        encoder.embed_tokens.weight[rows] = bert.embeddings.word_embeddings.weight[numbers]
        positions = own["embed_positions.weight"]
        positions[offset:] = given.pop("embed_positions.weight")[: len(positions) - offset]
        for name, value in given.items():
            own[name].copy_(value)
    logger.info("encoder initialised from %s: %d parameters", folder, len(given) + 2)


def _rows_of_words(dictionary: Vocabulary, words: dict[str, int]) -> tuple[list[int], list[int]]:
    """Return the entries that are BERT's words, whatever their order, and BERT's numbers of
    them.
    """
    foreign = _foreign_symbols(dictionary)
    rows = [row for row in range(len(dictionary)) if row not in foreign]
    missing = [dictionary[row] for row in rows if dictionary[row] not in words]
    if missing:
        raise UserError(
            f"the source dictionary has {len(missing)} words that BERT's vocabulary lacks "
            f"({', '.join(missing[:5])}"
            f"{', ...' if len(missing) > 5 else ''}): prepare the data with --bert and this BERT's "
            "folder"
        )
    return rows, [words[dictionary[row]] for row in rows]


def read_bert(folder: Path):
    """Read (BertModel, index by word) from a folder; special tokens have fairseq's names.

    Raises UserError if the folder holds another model than BERT, or lacks parameters.
    """
    from transformers import AutoConfig, BertModel  # an extra

    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    expected = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "layer_norm_eps": LAYER_NORM_EPS,
        "is_decoder": False,
    }
    for key, value in expected.items():
        if getattr(config, key, None) != value:
            raise UserError(
                f"{folder / 'config.json'}: {key} is {getattr(config, key, None)}, not {value} as "
                "in BERT"
            )
    bert, report = BertModel.from_pretrained(
        folder, local_files_only=True, output_loading_info=True
    )
    missing = sorted(name for name in report["missing_keys"] if not name.startswith("pooler."))
    unexpected = sorted(
        name for name in report["unexpected_keys"] if not name.startswith(("cls.", "pooler."))
    )
    if missing or unexpected:
        raise UserError(
            f"{folder}: not the parameters of a BERT; missing: {', '.join(missing) or 'none'}; "
            f"unexpected: {', '.join(unexpected) or 'none'}"
        )
    tokenizer = read_wordpiece_tokeniser(folder)
    words = dict(tokenizer.get_vocab())
    special = {ours: words.pop(getattr(tokenizer, theirs)) for ours, theirs in SPECIAL.items()}
    return bert.float().eval(), words | special


def _foreign_symbols(dictionary: Vocabulary) -> set[int]:
    """Return symbols that BERT lacks: padding, and the language symbols ``[xx]`` at the
    dictionary's end (before ``<mask>``).
    """
    symbols = {dictionary.pad()}
    for index in range(len(dictionary) - 1, -1, -1):
        symbol = dictionary[index]
        if symbol == "<mask>":
            continue
        if not (symbol.startswith("[") and symbol.endswith("]")):
            break
        symbols.add(index)
    return symbols


def _by_our_names(bert: nn.Module) -> dict[str, Tensor]:
    """Return BERT's parameters with the names of our encoder, without word embeddings."""
    theirs = bert.state_dict()
    segment = theirs["embeddings.token_type_embeddings.weight"][0]
    given = {"embed_positions.weight": theirs["embeddings.position_embeddings.weight"] + segment}
    for end in ("weight", "bias"):
        given[f"layernorm_embedding.{end}"] = theirs[f"embeddings.LayerNorm.{end}"]
        for layer in range(bert.config.num_hidden_layers):
            for ours, name in LAYER.items():
                given[f"layers.{layer}.{ours}.{end}"] = theirs[
                    f"encoder.layer.{layer}.{name}.{end}"
                ]
    return given
