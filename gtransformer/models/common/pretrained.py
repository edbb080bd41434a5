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
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

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

    Raises UserError naming what is missing, unexpected, of another shape, or untied although the
    model ties it.
    """
    own, state = model.state_dict(), upgraded(state)
    given = {PLAIN_ATTENTION.sub(r".\1_local.", name): value for name, value in state.items()}
    given = {
        name: value for name, value in given.items() if name in own or not BOOKKEEPING.search(name)
    }
    tied = _tied_names(model)
    for name, first in tied.items():
        # Older fairseq stores a shared output layer only once.
        if name not in given and first in given:
            given[name] = given[first]
    # Language symbols that the task appends to the dictionary; the pretrained table ends before
    # them.
    added = len(own[f"{OUTPUT}.weight"]) - model.decoder.predictable[1]
    grown: dict[tuple[int, int], Tensor] = {}  # a table that is shared grows once
    for name in TABLES:
        if name in given and name in own:
            table, ours = given[name], own[name]
            key = id(table), ours.data_ptr()
            if key not in grown:
                grown[key] = _with_own_symbols(table, ours, added)
            given[name] = grown[key]
    for name in given.keys() & own.keys():
        # Heads of several scopes are concatenated, so the projection is as many times as wide.
        if name.endswith(".out_proj.weight"):
            given[name] = _widen_output(given[name], own[name])
    # Before anything is filled up: a missing layer must not silently start at random.
    _check_structure(given, own, model.is_pretrained)
    _check_ties(given, tied)
    fresh = sorted(own.keys() - given.keys())
    for name in fresh:
        # Of an SSRU, which has other projections, nothing can be copied.
        local = name.replace("_global.", "_local.")
        copied = global_from_local and is_copied(name) and local in given
        given[name] = given[local] if copied else own[name]
    new = sum(not model.is_pretrained(name) for name in fresh)
    if new:
        logger.info("initialised from a Transformer: %d new parameters", new)
    return given


def make_neutral(state: dict[str, Tensor], fresh: Iterable[str], bias: float) -> None:
    """Make gates neutral, so that they change nothing at first, however open they are.

    ``fresh``: the parameters of the state that begin at random.

    H = H_L * g + H_G * (1 - g) (Bao et al. 2021, Eq. 10) is what a Transformer's attention gives
    where g is the same everywhere, H_G is zero and H_L is that attention divided by g (our choice).
    All have gradients; what is behind a projection of zeros has them from the second update on.
    """
    share = torch.sigmoid(torch.tensor(bias)).item()
    for block in [match[1] for name in fresh if (match := GATE_WEIGHT.fullmatch(name))]:
        gate, ours, other = (
            f"{block}_{part}" for part in ("gate.0", "local.out_proj", "global.out_proj")
        )
        # An SSRU's output is linear in what its input projection gives.
        if f"{block}_local.input_proj.weight" in state:
            ours = f"{block}_local.input_proj"
        for part in ("weight", "bias"):
            if f"{ours}.{part}" in state:
                state[f"{ours}.{part}"] = state[f"{ours}.{part}"] / share
            state[f"{other}.{part}"] = torch.zeros_like(state[f"{other}.{part}"])
        # A gate that does not depend on its input, sigmoid(bias) for every token and channel.
        state[f"{gate}.weight"] = torch.zeros_like(state[f"{gate}.weight"])
        state[f"{gate}.bias"] = torch.full_like(state[f"{gate}.bias"], bias)


def upgraded(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return parameters of a Transformer as fairseq names and cuts them since version 0.9."""
    found: dict[str, Tensor] = {}
    for name, value in state.items():
        for old, new in OLD_NAMES:
            name = old.sub(new, name)
        match = JOINED.match(name)
        if match is None:
            found[name] = value
        else:
            # Before 0.9 fairseq stored the three projections as one matrix.
            parts = zip("qkv", value.chunk(3), strict=True)
            found |= {f"{match[1]}.{key}_proj.{match[2]}": part for key, part in parts}
    return found


def _with_own_symbols(table: Tensor, own: Tensor, added: int) -> Tensor:
    """Return a table (words, channels) with the model's own rows for the ``added`` symbols that it
    lacks, if it does.
    """
    rows = len(own) - added
    return torch.cat([table, own[rows:].to(table)]) if added and len(table) == rows else table


def _widen_output(weight: Tensor, own: Tensor) -> Tensor:
    """Return an output projection (channels, channels) for several scopes, zeros for all but the
    first.
    """
    scopes, rest = divmod(own.shape[1], weight.shape[1])
    if rest or scopes < 2 or own.shape[0] != weight.shape[0]:
        return weight
    return torch.cat(
        [weight, weight.new_zeros(own.shape[0], own.shape[1] - weight.shape[1])], dim=1
    )


def _tied_names(model: nn.Module) -> dict[str, str]:
    """Return, for each further name of a shared parameter, its first name."""
    first: dict[int, str] = {}
    return {
        name: first[id(parameter)]
        for name, parameter in model.named_parameters(remove_duplicate=False)
        if first.setdefault(id(parameter), name) != name
    }


def _check_structure(
    given: dict[str, Tensor], own: dict[str, Tensor], is_pretrained: Callable[[str], bool]
) -> None:
    """Raise UserError, which names the first difference, unless the checkpoint has the model's
    structure and sizes.
    """
    reasons = [
        f"it lacks {name}"
        for name in own
        if name not in given and is_pretrained(name) and not BOOKKEEPING.search(name)
    ]
    for name in given:
        shapes = [tuple(one[name].shape) if name in one else None for one in (given, own)]
        if shapes[0] != shapes[1]:
            reasons.append(f"its {name} is {shapes[0]}, this model's {shapes[1]}")
    if reasons:
        raise UserError(
            f"the pretrained checkpoint is of another structure: {reasons[0]} (differences: "
            f"{len(reasons)}). Layers, layer norms, kinds of positions and dictionaries (prepare "
            "the data with the model's) must be the same"
        )


def _check_ties(given: dict[str, Tensor], tied: dict[str, str]) -> None:
    for name, first in tied.items():
        if name in given and first in given and not given[name].equal(given[first]):
            raise UserError(
                f"the pretrained checkpoint has a {name} of its own, but this model shares it "
                f"with {first}: train with the options for sharing embeddings that it was trained "
                "with"
            )
