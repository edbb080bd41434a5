"""Parameters of a Transformer, made those of a system of this package (of G-Transformer: appendix
C.1).

Its attention becomes the first attention of each block; what it has not (global attention, gates,
tables of relative positions, context attention and encoder, segment embeddings, what reads a batch)
starts at random. Where heads look at several scopes side by side, the output projection goes on
with the first and has zeros for the others, so that the system starts with what the Transformer
computes at the first scope. Sentence Transformers come from fairseq's own ``transformer`` or from
this package; BART and mBART have the names of the former.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional

from gtransformer.errors import UserError

logger = logging.getLogger(__name__)

# What a Transformer has, under this package's names; each block's first attention is ``local``.
TRANSFORMER = re.compile(
    r"(encoder|decoder)\.(version|embed_tokens\.weight|embed_positions\..*|layer_norm\..*|layernorm_embedding\..*"
    r"|output_projection\..*|layers\.\d+\.((self|encoder)_attn(_local)?\.[qkv]_proj\..*"
    r"|self_attn(_local)?\.(forget|input)_proj\..*|(self|encoder)_attn(_local)?\.out_proj\..*|(self_attn|encoder_attn|final)_layer_norm\..*|fc[12]\..*))"
)
GATE_WEIGHT = re.compile(r"(.*_attn)_gate\.0\.weight")
PLAIN_ATTENTION = re.compile(r"\.(self_attn|encoder_attn)\.")
# fairseq stores these as parameters; they say nothing, and which of them there are depends on
# fairseq's version.
BOOKKEEPING = re.compile(r"\.(version|embed_positions\.(_float_tensor|weights))\Z")
# What older fairseq, which saved its published WMT models, calls the parts of a layer and of the
# output layer.
OLD_NAMES = (
    (re.compile(r"\.layer_norms\.0\."), ".self_attn_layer_norm."),
    (re.compile(r"\A(decoder\..*)\.layer_norms\.1\."), r"\1.encoder_attn_layer_norm."),
    (re.compile(r"\.layer_norms\.[12]\."), ".final_layer_norm."),
    (re.compile(r"\Adecoder\.embed_out\Z"), "decoder.output_projection.weight"),
)
JOINED = re.compile(r"(.*_attn)\.in_proj_(weight|bias)\Z")  # queries, keys and values in one
OUTPUT = "decoder.output_projection"
TABLES = (
    "encoder.embed_tokens.weight",
    "decoder.embed_tokens.weight",
    f"{OUTPUT}.weight",
    f"{OUTPUT}.bias",
)


def is_transformers(name: str) -> bool:
    """Return whether a parameter is what any Transformer has, not of further attention, gates or
    modules of a system's own.
    """
    return TRANSFORMER.fullmatch(name) is not None


def is_copied(name: str) -> bool:
    """Return whether a parameter of global attention has a counterpart in group attention, which it
    may be a copy of.
    """
    return "_attn_global." in name and "_numbers." not in name


def from_transformer(
    state: dict[str, Tensor], model: nn.Module, global_from_local: bool = False
) -> dict[str, Tensor]:
    """Return a complete state of ``model`` with the parameters of a Transformer (or of its own
    kind, unchanged).

    Args:
        state: parameters by name; ``self_attn`` and ``encoder_attn`` become each block's first
            attention.
        model: its new modules, where ``state`` lacks them, keep the values that they have.
        global_from_local: global attention is a copy of group attention instead; gates stay fresh.

    What is missing in ``state`` stays missing in the result, so that strict loading refuses it: a
    layer must not silently start at random.

    Raises UserError for a table that is untied although the model ties it.
    """
    ours, theirs = model.state_dict(), {}
    for name, value in upgraded(state).items():
        name = PLAIN_ATTENTION.sub(r".\1_local.", name)
        if name in ours or not BOOKKEEPING.search(name):
            theirs[name] = value
    # Language symbols that the task appends to the dictionary; the pretrained table ends before
    # them.
    added = len(ours[f"{OUTPUT}.weight"]) - model.decoder.predictable[1]
    tied = _tied_names(model)
    _check_ties(theirs, tied)
    for name in TABLES:
        if name in theirs and name in ours and name not in tied:
            theirs[name] = _with_own_symbols(theirs[name], ours[name], added)
    # A shared table has grown once, for all its names. Older fairseq stores it under one of them.
    theirs |= {name: theirs[first] for name, first in tied.items() if first in theirs}
    for name in theirs.keys() & ours.keys():
        # Heads of several scopes are concatenated, so the projection is as many times as wide.
        if name.endswith(".out_proj.weight"):
            theirs[name] = _widen_output(theirs[name], ours[name])
    new = [name for name in ours if name not in theirs and not model.is_pretrained(name)]
    for name in new:
        # Of an SSRU, which has other projections, nothing can be copied.
        local = name.replace("_global.", "_local.")
        copied = global_from_local and is_copied(name) and local in theirs
        theirs[name] = theirs[local] if copied else ours[name]
    if new:
        logger.info("initialised from a Transformer: %d new parameters", len(new))
    bookkeeping = {name: value for name, value in ours.items() if BOOKKEEPING.search(name)}
    return bookkeeping | theirs


def make_neutral(state: dict[str, Tensor], fresh: Iterable[str], bias: float) -> None:
    """Make gates neutral, so that they change nothing at first, however open they are.

    ``fresh``: the parameters of the state that begin at random.

    H = H_L * g + H_G * (1 - g) (Bao et al. 2021, Eq. 10) is what a Transformer's attention gives
    where g is the same everywhere, H_G is zero and H_L is that attention divided by g (our choice).
    All have gradients; what is behind a projection of zeros has them from the second update on.
    """
    share = torch.sigmoid(torch.tensor(bias)).item()  # g
    for block in [match[1] for name in fresh if (match := GATE_WEIGHT.fullmatch(name))]:
        for part in ("weight", "bias"):
            # An SSRU's output is linear in what its input projection gives; that has no bias.
            local = f"{block}_local.input_proj.{part}"
            if f"{block}_local.input_proj.weight" not in state:
                local = f"{block}_local.out_proj.{part}"
            if local in state:
                state[local] = state[local] / share
            zero = f"{block}_global.out_proj.{part}"
            state[zero] = torch.zeros_like(state[zero])
        # A gate that does not depend on its input, sigmoid(bias) for every token and channel.
        weight, biases = f"{block}_gate.0.weight", f"{block}_gate.0.bias"
        state[weight] = torch.zeros_like(state[weight])
        state[biases] = torch.full_like(state[biases], bias)


def upgraded(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return parameters of a Transformer as fairseq names and cuts them since version 0.9."""
    result: dict[str, Tensor] = {}
    for name, value in state.items():
        for old, new in OLD_NAMES:
            name = old.sub(new, name)
        match = JOINED.match(name)
        if match is None:
            result[name] = value
        else:
            # Before 0.9 fairseq stored the three projections as one matrix.
            parts = zip("qkv", value.chunk(3), strict=True)
            result |= {f"{match[1]}.{key}_proj.{match[2]}": part for key, part in parts}
    return result


def _with_own_symbols(table: Tensor, ours: Tensor, added: int) -> Tensor:
    """Return a table (words, channels) with the model's own rows, from ``ours``, for the ``added``
    symbols that it lacks, if it does.
    """
    rows = len(ours) - added
    lacks = added and len(table) == rows
    return torch.cat([table, ours[rows:].to(table)]) if lacks else table


def _widen_output(weight: Tensor, ours: Tensor) -> Tensor:
    """Return an output projection (channels, channels) for several scopes, (channels, scopes *
    channels): zeros for all but the first.
    """
    missing = ours.shape[1] - weight.shape[1]
    # Another width is that of another model, and is refused.
    if missing <= 0 or missing % weight.shape[1]:
        return weight
    return functional.pad(weight, (0, missing))


def _tied_names(model: nn.Module) -> dict[str, str]:
    """Return, for each further name of a shared parameter, its first name."""
    first: dict[int, str] = {}
    return {
        name: first[id(parameter)]
        for name, parameter in model.named_parameters(remove_duplicate=False)
        if first.setdefault(id(parameter), name) != name
    }


def _check_ties(theirs: dict[str, Tensor], tied: dict[str, str]) -> None:
    for name, first in tied.items():
        if name in theirs and first in theirs and not theirs[name].equal(theirs[first]):
            raise UserError(
                f"the pretrained checkpoint has a {name} of its own, but this model shares it "
                f"with {first}: train with the options for sharing embeddings that it was trained "
                "with"
            )
