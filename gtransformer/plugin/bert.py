"""The start of G-Transformer + BERT from a checkpoint of Hugging Face transformers."""

from __future__ import annotations

import logging
from pathlib import Path

import torch
from torch import Tensor, nn

from gtransformer.errors import UserError
from gtransformer.models.gtransformer.bert import GTransformerBertModel
from gtransformer.optional import read_wordpiece_tokeniser

logger = logging.getLogger(__name__)

SPECIAL = {
    "<s>": "cls_token",
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

    Raises UserError if transformers is not installed, or the folder holds no BERT or one of other
    words.
    """
    encoder, dictionary = model.encoder, model.encoder.dictionary
    bert, words = read_bert(Path(folder))
    # Sizes show in the parameters, these do not.
    cfg, given = encoder.cfg, bert.config
    ours = cfg.encoder_layers, cfg.encoder_attention_heads, cfg.activation_fn, cfg.layer_norm_eps
    theirs = given.num_hidden_layers, given.num_attention_heads
    theirs += given.hidden_act, given.layer_norm_eps
    if ours != theirs:
        raise UserError(
            f"{folder}: layers, heads, activation and layer_norm_eps are {theirs}, here {ours}; "
            "give its --encoder-layers and --encoder-attention-heads, or a BERT with the others"
        )
    # BERT lacks padding, which stays zero, and language symbols.
    rows = [row for row, word in enumerate(dictionary.symbols) if word in words]
    missing = {word for word in dictionary.symbols if not word.startswith("[")}
    missing -= {*words, dictionary[dictionary.pad()]}
    if missing:
        raise UserError(
            f"the source dictionary has {len(missing)} words that BERT's vocabulary lacks "
            f"({', '.join(sorted(missing)[:5])}): prepare the data with --bert and this BERT's "
            "folder"
        )
    parameters, values = encoder.state_dict(), _by_our_names(bert)
    offset = encoder.padding + 1
    with torch.no_grad():
        numbers = [words[dictionary[row]] for row in rows]
        encoder.embed_tokens.weight[rows] = bert.embeddings.word_embeddings.weight[numbers]
        positions = parameters["embed_positions.weight"]
        positions[offset:] = values.pop("embed_positions.weight")[: len(positions) - offset]
        for name, value in values.items():
            parameters[name].copy_(value)
    logger.info("encoder initialised from %s: %d parameters", folder, len(values) + 2)


def read_bert(folder: Path):
    """Read (BertModel, index by word) from a folder; special tokens have fairseq's names.

    Raises UserError if the folder holds another model than BERT, or lacks parameters.
    """
    from transformers import BertModel  # an extra

    bert, report = BertModel.from_pretrained(
        folder, local_files_only=True, output_loading_info=True
    )
    missing = [name for name in report["missing_keys"] if not name.startswith("pooler.")]
    if missing:
        raise UserError(f"{folder}: no BERT, it lacks {', '.join(sorted(missing))}")
    tokenizer = read_wordpiece_tokeniser(folder)
    words = dict(tokenizer.get_vocab())
    special = {ours: words.pop(getattr(tokenizer, theirs)) for ours, theirs in SPECIAL.items()}
    return bert.float().eval(), words | special


def _by_our_names(bert: nn.Module) -> dict[str, Tensor]:
    """Return BERT's parameters with the names of our encoder, without word embeddings."""
    state = bert.state_dict()
    # BERT adds the vector of the first segment to every token of a single text.
    segment = state["embeddings.token_type_embeddings.weight"][0]
    values = {"embed_positions.weight": state["embeddings.position_embeddings.weight"] + segment}
    for end in ("weight", "bias"):
        values[f"layernorm_embedding.{end}"] = state[f"embeddings.LayerNorm.{end}"]
        for layer in range(bert.config.num_hidden_layers):
            for ours, name in LAYER.items():
                value = state[f"encoder.layer.{layer}.{name}.{end}"]
                values[f"layers.{layer}.{ours}.{end}"] = value
    return values
