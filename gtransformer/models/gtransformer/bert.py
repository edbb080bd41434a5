"""G-Transformer + BERT: the encoder is BERT's, initialised from a checkpoint of Hugging Face transformers (Table 2).

BERT's encoder (Devlin et al. 2019) is a Transformer with layer norm after each block, learned positions, a layer norm
on the embeddings and no embedding scale. Its segment embedding is constant here and is added to the positions; its
pooler has no counterpart. Each sentence of a document is ``[CLS] words [SEP]`` for BERT and ``<s> words </s>`` here.
The decoder is the usual one.
"""

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor, nn

from gtransformer.data.dictionaries import Vocabulary
from gtransformer.errors import UserError
from gtransformer.models.common.config import option
from gtransformer.models.common.model import register
from gtransformer.models.gtransformer.model import GTransformerConfig, GTransformerModel
from gtransformer.optional import import_transformers, read_wordpiece_tokeniser

logger = logging.getLogger(__name__)

BERT_POSITIONS = 512  # of BERT; the limit of --max-source-positions
LAYER_NORM_EPS = 1e-12  # of all published BERT models
STRUCTURE = {
    "activation_fn": "gelu",
    "encoder_normalize_before": False,
    "encoder_learned_pos": True,
    "layernorm_embedding": True,
    "no_scale_embedding": True,
    "no_token_positional_embeddings": False,
    "layer_norm_eps": LAYER_NORM_EPS,
}
SPECIAL = {"<s>": "cls_token", "<pad>": "pad_token", "</s>": "sep_token", "<unk>": "unk_token", "<mask>": "mask_token"}
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


@dataclass
class GTransformerBertConfig(GTransformerConfig):
    """The encoder is BERT base; the decoder as wide, with the six layers of the base model."""

    encoder_embed_dim: int = option(768, "encoder model dimension, BERT's")
    encoder_ffn_embed_dim: int = option(3072, "encoder feed-forward dimension, BERT's")
    encoder_layers: int = option(12, "encoder layers, BERT's")
    encoder_attention_heads: int = option(12, "encoder attention heads, BERT's")
    decoder_embed_dim: int = option(768, "decoder model dimension")
    decoder_ffn_embed_dim: int = option(3072, "decoder feed-forward dimension")
    decoder_attention_heads: int = option(12, "decoder attention heads")
    bert_checkpoint: str | None = option(
        None, "folder with a BERT of Hugging Face transformers (config.json, weights, tokeniser) to start training from"
    )


@register("gtransformer_bert", GTransformerBertConfig)
class GTransformerBertModel(GTransformerModel):
    """A G-Transformer whose encoder has the structure of BERT."""

    has_sizes = False

    @classmethod
    def build(cls, cfg: GTransformerBertConfig, source: Vocabulary, target: Vocabulary) -> GTransformerModel:
        """Build; raise UserError for a dictionary shared by both sides, or for more positions than BERT has."""
        if cfg.share_all_embeddings:
            raise UserError("--share-all-embeddings: BERT's wordpieces are the source's alone; leave it out")
        if cfg.max_source_positions > BERT_POSITIONS:
            raise UserError(
                f"--arch gtransformer_bert needs --max-source-positions {BERT_POSITIONS} or less, as BERT has"
            )
        return super().build(cfg, source, target)

    @classmethod
    def encoder_config(cls, cfg: GTransformerBertConfig) -> GTransformerBertConfig:
        """Return BERT's structure; the decoder keeps the given options."""
        return replace(cfg, **STRUCTURE)

    def is_pretrained(self, name: str) -> bool:
        """Return True for the encoder's parameters except global attention and gates; the decoder starts from random
        values.
        """
        return name.startswith("encoder.") and super().is_pretrained(name)

    def load_bert(self, folder: str | Path) -> None:
        """Initialise the encoder from a BERT checkpoint; global attention, gates and language symbols keep their
        values.

        Raises UserError if transformers is not installed, the folder holds no BERT, or names, sizes or words do not
        fit.
        """
        transformers = import_transformers()
        bert, words = read_bert(transformers, Path(folder))
        self._check_sizes(bert.config)
        own, given = self.encoder.state_dict(), _by_our_names(bert)
        offset = self.encoder.padding + 1
        with torch.no_grad():
            self._load_words(bert.embeddings.word_embeddings.weight, words, self.encoder.dictionary)
            positions = own["embed_positions.weight"]
            positions[offset:] = given.pop("embed_positions.weight")[: len(positions) - offset]
            for name, value in given.items():
                own[name].copy_(value)
        logger.info("encoder initialised from %s: %d parameters", folder, len(given) + 2)

    def _check_sizes(self, config) -> None:
        cfg = self.encoder.cfg
        for option_name, ours, theirs in (
            ("--encoder-embed-dim", cfg.encoder_embed_dim, config.hidden_size),
            ("--encoder-ffn-embed-dim", cfg.encoder_ffn_embed_dim, config.intermediate_size),
            ("--encoder-layers", cfg.encoder_layers, config.num_hidden_layers),
            ("--encoder-attention-heads", cfg.encoder_attention_heads, config.num_attention_heads),
        ):
            if ours != theirs:
                raise UserError(f"this BERT wants {option_name} {theirs}, not {ours}")

    def _load_words(self, weight: Tensor, words: dict[str, int], dictionary: Vocabulary) -> None:
        """Copy the vectors of the dictionary's words, whatever their order; padding stays zero."""
        foreign = _foreign_symbols(dictionary)
        rows = [row for row in range(len(dictionary)) if row not in foreign]
        missing = [dictionary[row] for row in rows if dictionary[row] not in words]
        if missing:
            raise UserError(
                f"the source dictionary has {len(missing)} words that BERT's vocabulary lacks ({', '.join(missing[:5])}"
                f"{', ...' if len(missing) > 5 else ''}): prepare the data with --bert and this BERT's folder"
            )
        self.encoder.embed_tokens.weight[rows] = weight[[words[dictionary[row]] for row in rows]]


def read_bert(transformers: ModuleType, folder: Path):
    """Read (BertModel, index by word) from a folder; special tokens have fairseq's names.

    Raises UserError if the folder holds another model than BERT, or lacks parameters.
    """
    config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
    expected = {"model_type": "bert", "hidden_act": "gelu", "layer_norm_eps": LAYER_NORM_EPS, "is_decoder": False}
    for key, value in expected.items():
        if getattr(config, key, None) != value:
            raise UserError(f"{folder / 'config.json'}: {key} is {getattr(config, key, None)}, not {value} as in BERT")
    bert, report = transformers.BertModel.from_pretrained(folder, local_files_only=True, output_loading_info=True)
    missing = sorted(name for name in report["missing_keys"] if not name.startswith("pooler."))
    unexpected = sorted(name for name in report["unexpected_keys"] if not name.startswith(("cls.", "pooler.")))
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
    """Return symbols that BERT lacks: padding, and the language symbols ``[xx]`` at the dictionary's end (before
    ``<mask>``).
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
                given[f"layers.{layer}.{ours}.{end}"] = theirs[f"encoder.layer.{layer}.{name}.{end}"]
    return given
