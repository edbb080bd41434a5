"""Options of every document model of this package; names are fairseq's and the authors'
release's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import torch
from torch.nn import functional

from gtransformer.modules.positions import FAIRSEQ, SINUSOIDS

AUTOCAST = ("none", "bfloat16", "float16")
DOCUMENT, SENTENCE = POSITION_KINDS = ("document", "sentence")
BOTH_MARKS, END_MARK, START_MARK = SENTENCE_MARKS = ("both", "end", "start")
# By fairseq's names.
ACTIVATIONS = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    # fairseq's name for the approximation by tanh; its "gelu" is exact.
    "gelu_accurate": partial(functional.gelu, approximate="tanh"),
    "tanh": torch.tanh,
    "swish": functional.silu,
}
ON, OFF = SWITCH = ("on", "off")
COMPILE = ("auto", ON, "graphs", OFF)
# The task's default limit on tokens; sinusoidal positions extend as needed.
UNLIMITED_POSITIONS = 1_000_000


def option(default, help: str, choices=None):
    """Return a dataclass field with the help text and the choices that fairseq's command line
    shows.
    """
    return field(default=default, metadata={"help": help, "choices": choices})


@dataclass
class DocumentModelConfig:
    """The structure of a Transformer; sizes default to the base model of Bao et al. (2021), section
    2.
    """

    activation_fn: str = option("relu", "activation in the feed-forward blocks", tuple(ACTIVATIONS))
    dropout: float = option(0.1, "dropout probability")
    attention_dropout: float = option(0.0, "dropout probability for attention weights")
    activation_dropout: float = option(
        0.0, "dropout probability after the activation in feed-forward blocks"
    )
    encoder_embed_dim: int = option(512, "encoder model dimension")
    encoder_ffn_embed_dim: int = option(2048, "encoder feed-forward dimension")
    encoder_layers: int = option(6, "encoder layers")
    encoder_attention_heads: int = option(8, "encoder attention heads")
    encoder_normalize_before: bool = option(False, "layer norm before each encoder block")
    encoder_learned_pos: bool = option(False, "learned position embeddings in the encoder")
    decoder_embed_dim: int = option(512, "decoder model dimension")
    decoder_ffn_embed_dim: int = option(2048, "decoder feed-forward dimension")
    decoder_layers: int = option(6, "decoder layers")
    decoder_attention_heads: int = option(8, "decoder attention heads")
    decoder_normalize_before: bool = option(False, "layer norm before each decoder block")
    decoder_learned_pos: bool = option(False, "learned position embeddings in the decoder")
    share_decoder_input_output_embed: bool = option(
        False, "share decoder input and output embeddings"
    )
    share_all_embeddings: bool = option(False, "share all embeddings (needs a joined dictionary)")
    no_token_positional_embeddings: bool = option(False, "no position embeddings")
    no_scale_embedding: bool = option(
        False, "do not scale token embeddings by the root of the model dimension"
    )
    layernorm_embedding: bool = option(False, "layer norm on the embeddings")
    layer_norm_eps: float = option(1e-5, "epsilon of the layer norms; Marian's is 1e-6")
    sinusoids: str = option(
        FAIRSEQ, "sinusoidal positions as in fairseq, Marian, or Hugging Face's Marian", SINUSOIDS
    )
    output_bias: bool = option(False, "the output layer has a bias, as Marian's has")
    checkpoint_activations: bool = option(
        False, "recompute activations in the backward pass to save memory"
    )
    autocast: str = option(
        "none",
        "compute matrix products in this precision; parameters and residual states stay in "
        "float32; float16 is for translation only: training in it needs the loss scaling of "
        "fairseq's --fp16",
        AUTOCAST,
    )
    load_partial: bool = option(
        False,
        "the checkpoint of --finetune-from-model (or --restore-file) may be a Transformer's: its "
        "attention becomes the first of this model, such as group attention; what it lacks starts "
        "from random values",
    )
    marks_loss: str = option(
        ON,
        "off: <s> between sentences and the language symbol do not count in the loss: a sentence "
        "model has never predicted them, and learning this would dominate the first updates (set "
        "by --sentence-model)",
        SWITCH,
    )
    # In fairseq these are options of the task.
    doc_mode: str = "partial"
    max_source_positions: int = UNLIMITED_POSITIONS
    max_target_positions: int = UNLIMITED_POSITIONS
