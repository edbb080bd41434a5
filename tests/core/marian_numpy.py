"""Marian's Transformer and its two file formats in plain NumPy and float64, for comparison: slow,
and of one sentence.

It shares no code with the package. Names of Marian's files and functions
(github.com/marian-nmt/marian-dev) say where a formula is from; they are named from memory, and the
formulas were then confirmed with Marian's own binary, 1.12.42 (on PyPI as pymarian), over random
models of all kinds here: scores of words agree to 1e-5, all that it prints, and so does greedy
search. One exception: with pre-norm self-attention, Marian's decoder normalises keys and
values at the first word only. Its loss in training, CTranslate2 and this file do so at every word.
The binary int8 format is as an int8 student of Bergamot has it (Marian v1.9.56); where int8 files
keep an output matrix that is not tied was not seen.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np
import yaml

EOS, UNK = (
    0,
    1,
)  # of a vocabulary that Marian made, YAML or SentencePiece (data/vocab_base.h: Word::DEFAULT_...)
CONFIG = "special:model.yml"
FLOAT32, INT8, INTGEMM8 = 0x404, 0x101, 0x4101  # common/types.h: class plus bytes of a value
ALIGNMENT = (
    256  # bytes; where the data begin, and of each parameter's memory, which is written whole
)
EPSILON = 1e-6  # of layer norms, whose variance is biased


# --- Files ---


def yaml_text(config: dict) -> str:
    """Return a configuration as Marian's YAML: sorted, lists indented, ``""`` where empty, no
    quotes around ``n``.
    """
    lines = []
    for name, value in sorted(config.items()):
        if isinstance(value, list) and value:
            lines += [f"{name}:", *(f"  - {one}" for one in value)]
        elif isinstance(value, bool):
            lines.append(f"{name}: {str(value).lower()}")
        else:
            lines.append(f"{name}: " + ('""' if value == "" else str(value)))
    return "\n".join(lines)


def write_npz(path: str | Path, parameters: dict[str, np.ndarray], config: dict) -> None:
    """Write a model as Marian's ``.npz``: float32 arrays, and the configuration as int8 with a NUL
    behind.
    """
    text = np.frombuffer(yaml_text(config).encode() + b"\0", np.int8)
    arrays = {name: parameters[name].astype(np.float32) for name in sorted(parameters)}
    with open(path, "wb") as file:
        np.savez(file, **arrays, **{CONFIG: text})


def read_npz(path: str | Path) -> tuple[dict[str, np.ndarray], dict]:
    """Return (parameters, configuration) of a Marian ``.npz``."""
    with np.load(path) as arrays:
        parameters = {name: arrays[name] for name in arrays.files if name != CONFIG}
        return parameters, yaml.safe_load(arrays[CONFIG].tobytes().rstrip(b"\0"))


def _is_matrix(name: str) -> bool:
    """Return whether an int8 file has this parameter as int8: ``..._W``, ``..._W?`` and
    embeddings.
    """
    return name.endswith("Wemb") or name[-2:] == "_W" or name[-3:-1] == "_W"


def _int8_item(values: np.ndarray, multiplier: float) -> bytes:
    """Return int8 values with the multiplier behind them; what fills the memory is not zero, as in
    real files.
    """
    data = np.rint(values * np.float32(multiplier)).clip(-127, 127).astype(np.int8).tobytes()
    data += struct.pack("<f", multiplier)
    return data + b"\x5a" * (-len(data) % ALIGNMENT)


def write_binary(
    path: str | Path, parameters: dict[str, np.ndarray], config: dict, int8: bool = False
) -> None:
    """Write a model in Marian's binary format (common/binary.cpp), float32 or int8 (intgemm).

    Each int8 matrix has a multiplier of 127 / max |value|, is stored transposed (its shape is that
    before) unless it is of embeddings, and comes with ``*_QuantMultA``, for its input; that of
    embeddings is int8 itself, as in real files.
    """
    items: list[tuple[str, int, tuple[int, ...], bytes]] = []
    for name in sorted(parameters):
        values = parameters[name].astype(np.float32)
        if int8 and _is_matrix(name):
            embeddings = name.endswith("Wemb")
            multiplier = float(np.float32(127 / np.abs(values).max()))
            items.append(
                (
                    name,
                    INTGEMM8,
                    values.shape,
                    _int8_item(values if embeddings else values.T, multiplier),
                )
            )
            data = (
                _int8_item(np.full((1, 1), -0.5), 14.5) if embeddings else struct.pack("<f", 14.5)
            )
            kind = INTGEMM8 if embeddings else FLOAT32
            items.append(
                (f"{name}_QuantMultA", kind, (1, 1), data + b"\0" * (-len(data) % ALIGNMENT))
            )
        else:
            data = values.tobytes()
            items.append((name, FLOAT32, values.shape, data + b"\0" * (-len(data) % ALIGNMENT)))
    if int8:
        items.append(
            ("none_QuantMultA", FLOAT32, (1, 1), struct.pack("<f", 8.5) + b"\0" * (ALIGNMENT - 4))
        )
    text = yaml_text(config).encode() + b"\0"
    items.append((CONFIG, INT8, (len(text),), text))

    start = struct.pack("<QQ", 1, len(items))
    for name, kind, shape, data in items:
        start += struct.pack("<4Q", len(name) + 1, kind, len(shape), len(data))
    start += b"".join(name.encode() + b"\0" for name, *_ in items)
    start += b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, _, shape, _ in items)
    padding = -(len(start) + 8) % ALIGNMENT
    Path(path).write_bytes(
        start + struct.pack("<Q", padding) + b"\0" * padding + b"".join(data for *_, data in items)
    )


def read_binary(path: str | Path) -> tuple[dict[str, np.ndarray], dict]:
    """Return (parameters as float32, int8 dequantised; configuration) of a file in Marian's binary
    format.
    """
    data = Path(path).read_bytes()
    position = 0

    def take(form: str) -> tuple:
        nonlocal position
        values = struct.unpack_from(form, data, position)
        position += struct.calcsize(form)
        return values

    version, count = take("<QQ")
    assert version == 1, version
    headers = [take("<4Q") for _ in range(count)]
    names = [take(f"<{length}s")[0].rstrip(b"\0").decode() for length, *_ in headers]
    shapes = [take(f"<{rank}i") for _, _, rank, _ in headers]
    (padding,) = take("<Q")
    position += padding
    parameters, config = {}, {}
    for name, shape, (_, kind, _, size) in zip(names, shapes, headers, strict=True):
        item, length = data[position : position + size], math.prod(shape)
        position += size
        if name == CONFIG:
            config = yaml.safe_load(item.rstrip(b"\0"))
        elif name.endswith("QuantMultA"):
            continue
        elif kind == INTGEMM8:
            transposed = not name.endswith("Wemb")
            values = np.frombuffer(item, np.int8, length).reshape(
                shape[::-1] if transposed else shape
            )
            multiplier = np.frombuffer(item, np.float32, 1, length)
            parameters[name] = (values.T if transposed else values).astype(np.float32) / multiplier
        else:
            assert kind == FLOAT32, (name, hex(kind))
            parameters[name] = np.frombuffer(item, np.float32, length).reshape(shape)
    assert position == len(data)
    return parameters, config


# --- Random models ---

# What is the same in each: of the student's special:model.yml.
SETTINGS = """{dec-cell-base-depth: 2, dec-cell-high-depth: 1, dim-rnn: 1024, enc-cell: gru,
enc-cell-depth: 1,
enc-type: bidirectional, input-types: [], layer-normalization: false, lemma-dim-emb: 0,
right-left: false, skip: false,
transformer-guided-alignment-layer: last, transformer-no-projection: false, transformer-pool: false,
transformer-postprocess-emb: d, transformer-tied-layers: [],
transformer-train-position-embeddings: false,
type: transformer, ulr: false, version: v1.9.56 94aeaa46 2021-04-28 00:28:35 +0100}"""


def random_model(
    decoder: str = "self-attention",
    norm: str = "post",
    embeddings: str = "all",
    activation: str = "relu",
    output_bias: bool = True,
    seed: int = 0,
    layers: tuple[int, int] = (2, 2),
    *,
    vocabularies: tuple[int, int],
) -> tuple[dict[str, np.ndarray], dict]:
    """Return (parameters as float32, configuration) of a small random Transformer under Marian's
    names.

    Args:
        decoder: ``self-attention`` or ``ssru``.
        norm: ``post`` (preprocess '', postprocess 'dan') or ``pre`` (preprocess 'n', postprocess
            'da', top 'n').
        embeddings: which matrices are one: ``all`` (``Wemb``), ``target`` (input and output of the
            decoder, ``decoder_Wemb``), ``inputs`` (both inputs, ``Wemb``; the output is
            ``decoder_ff_logit_out_Wt``), ``none`` (the same output), or ``old`` (none; the output
            is not transposed, ``decoder_ff_logit_out_W``).
        activation: ``relu`` or ``swish``, in the feed-forward blocks.
        output_bias: Whether there is ``decoder_ff_logit_out_b``.
        layers: How many the encoder has, and the decoder.
        vocabularies: Sizes of the source's and the target's; the same where they share a matrix.
    """
    random, size, ffn = np.random.default_rng(seed), 16, 24
    parameters: dict[str, np.ndarray] = {}

    def add(name: str, rows: int, columns: int, scale: float, mean: float = 0.0) -> None:
        parameters[name] = (mean + scale * random.standard_normal((rows, columns))).astype(
            np.float32
        )

    def layer_norm(name: str, suffix: str = "") -> None:
        add(f"{name}_ln_scale{suffix}", 1, size, 0.2, 1.0)
        # Of either sign: else the residual makes a decoder with tied embeddings repeat the word
        # before, always.
        parameters[f"{name}_ln_scale{suffix}"] *= random.choice(np.float32([-1, 1]), size)
        add(f"{name}_ln_bias{suffix}", 1, size, 0.2)

    def block_norm(name: str) -> None:
        layer_norm(name, "_pre" if norm == "pre" else "")

    for side, depth in zip(("encoder", "decoder"), layers, strict=True):
        for number in range(1, depth + 1):
            prefix = f"{side}_l{number}"
            for block in ("self",) if side == "encoder" else ("self", "context"):
                if side == "decoder" and block == "self" and decoder == "ssru":
                    add(f"{prefix}_rnn_W", size, size, size**-0.5)
                    add(f"{prefix}_rnn_Wf", size, size, size**-0.5)
                    add(f"{prefix}_rnn_bf", 1, size, 0.5)
                    layer_norm(f"{prefix}_rnn", "_pre") if norm == "pre" else layer_norm(
                        f"{prefix}_rnn_ffn"
                    )
                    continue
                for letter in "qkvo":
                    add(f"{prefix}_{block}_W{letter}", size, size, 1.5 * size**-0.5)
                    add(f"{prefix}_{block}_b{letter}", 1, size, 0.2)
                block_norm(f"{prefix}_{block}_Wo")
            for index, (rows, columns) in enumerate(((size, ffn), (ffn, size)), 1):
                add(f"{prefix}_ffn_W{index}", rows, columns, 1.5 * rows**-0.5)
                add(f"{prefix}_ffn_b{index}", 1, columns, 0.2)
            block_norm(f"{prefix}_ffn_ffn")
        if norm == "pre":
            layer_norm(f"{side}_top")
    if embeddings in ("all", "inputs"):
        add("Wemb", vocabularies[0], size, 2 * size**-0.5)
    else:
        add("encoder_Wemb", vocabularies[0], size, 2 * size**-0.5)
        add("decoder_Wemb", vocabularies[1], size, 2 * size**-0.5)
    if embeddings in ("inputs", "none"):
        add("decoder_ff_logit_out_Wt", vocabularies[1], size, size**-0.5)
    elif embeddings == "old":
        add("decoder_ff_logit_out_W", size, vocabularies[1], size**-0.5)
    if output_bias:
        add("decoder_ff_logit_out_b", 1, vocabularies[1], 0.5)
        parameters["decoder_ff_logit_out_b"][0, EOS] += (
            1.5  # some sentences end before the greatest length
        )

    config = yaml.safe_load(SETTINGS) | {
        "dec-cell": "ssru" if decoder == "ssru" else "gru",
        "dec-depth": layers[1],
        "dim-emb": size,
        "dim-vocabs": list(vocabularies),
        "enc-depth": layers[0],
        "output-omit-bias": not output_bias,
        "tied-embeddings": embeddings == "target",
        "tied-embeddings-all": embeddings == "all",
        "tied-embeddings-src": embeddings == "inputs",
        "transformer-decoder-autoreg": "rnn" if decoder == "ssru" else "self-attention",
        "transformer-dim-ffn": ffn,
        "transformer-ffn-activation": activation,
        "transformer-ffn-depth": 2,
        "transformer-heads": 4,
        "transformer-postprocess": "da" if norm == "pre" else "dan",
        "transformer-postprocess-top": "n" if norm == "pre" else "",
        "transformer-preprocess": "n" if norm == "pre" else "",
    }
    return parameters, config


# --- The model ---


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0.0, -x))


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0.0),
    "swish": lambda x: x * _sigmoid(x),
}


def log_softmax(x: np.ndarray) -> np.ndarray:
    """Return log probabilities over the last axis, of the shape of ``x``."""
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


class MarianReference:
    """A Marian Transformer, as models/transformer.h has it without dropout, of one sentence at a
    time, in float64.

    Args:
        parameters: Under Marian's names; biases and layer norms are 1 x size.
        config: Of ``special:model.yml``.
    """

    def __init__(self, parameters, config):
        self.parameters = {
            name: np.asarray(values, np.float64) for name, values in parameters.items()
        }
        self.config = config
        assert config["type"] == "transformer" and not config["layer-normalization"]
        assert config["transformer-decoder-autoreg"] != "rnn" or config["dec-cell"] == "ssru"
        assert not any(
            config.get(f"transformer-{name}") for name in ("tied-layers", "no-projection", "pool")
        )
        assert not config.get("transformer-train-position-embeddings")

    def _norm(self, x: np.ndarray, name: str, suffix: str = "") -> np.ndarray:
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + EPSILON)
        return (
            x * self.parameters[f"{name}_ln_scale{suffix}"][0]
            + self.parameters[f"{name}_ln_bias{suffix}"][0]
        )

    def _before(self, x: np.ndarray, name: str, operations: str) -> np.ndarray:
        """Return a block's input: preProcess of transformer.h, the letters in turn; d is
        dropout.
        """
        assert set(operations) <= set("dn")
        for letter in operations:
            x = self._norm(x, name, "_pre") if letter == "n" else x
        return x

    def _after(self, x: np.ndarray, residual: np.ndarray, name: str, operations: str) -> np.ndarray:
        """Return what follows a block: postProcess of transformer.h; 'dan' adds what came in, then
        normalises.
        """
        assert set(operations) <= set("dan")
        for letter in operations:
            if letter == "a":
                x = x + residual
            elif letter == "n":
                x = self._norm(x, name)
        return x

    def _block(self, x: np.ndarray, name: str, function) -> np.ndarray:
        before = (
            name.removesuffix("_ffn") if name.endswith("_rnn_ffn") else name
        )  # DecoderLayerRNN has two names
        inner = function(self._before(x, before, self.config["transformer-preprocess"]))
        return self._after(inner, x, name, self.config["transformer-postprocess"])

    def _linear(self, x: np.ndarray, prefix: str, letter: str) -> np.ndarray:
        return (
            x @ self.parameters[f"{prefix}_W{letter}"] + self.parameters[f"{prefix}_b{letter}"][0]
        )

    def _attention(self, x: np.ndarray, keys: np.ndarray, prefix: str, causal: bool) -> np.ndarray:
        query, key, value = (
            self._linear(y, prefix, c) for y, c in ((x, "q"), (keys, "k"), (keys, "v"))
        )
        heads, size = self.config["transformer-heads"], query.shape[1]
        parts = []
        for head in range(heads):
            part = slice(head * size // heads, (head + 1) * size // heads)
            scores = query[:, part] @ key[:, part].T / math.sqrt(size // heads)
            if causal:
                scores[np.triu_indices(len(scores), 1)] = -np.inf
            parts.append(np.exp(log_softmax(scores)) @ value[:, part])
        return self._linear(np.concatenate(parts, -1), prefix, "o")

    def _ssru(self, x: np.ndarray, prefix: str) -> np.ndarray:
        """Return h (n x size) of class SSRU in rnn/cells.h, which begins with a cell of zeros.

        f_t = sigmoid(x_t W_f + b_f), c_t = f_t c_{t-1} + (1 - f_t) x_t W, h_t = ReLU(c_t). The
        residual and the norm are any block's (DecoderLayerRNN: ``_rnn_ffn_ln_...`` after,
        ``_rnn_ln_..._pre`` before); no matrix after.
        """
        forget = _sigmoid(self._linear(x, prefix, "f"))
        new = x @ self.parameters[f"{prefix}_W"]
        cell, states = np.zeros(x.shape[1]), []
        for f, y in zip(forget, new, strict=True):
            cell = f * cell + (1 - f) * y
            states.append(np.maximum(cell, 0.0))
        return np.array(states)

    def _feed_forward(self, x: np.ndarray, prefix: str) -> np.ndarray:
        assert self.config["transformer-ffn-depth"] == 2
        x = ACTIVATIONS[self.config["transformer-ffn-activation"]](self._linear(x, prefix, "1"))
        return self._linear(x, prefix, "2")

    def _embedded(self, ids: list[int], side: str) -> np.ndarray:
        """Return sqrt(d) times embeddings (n x d) plus positions 0, 1, ...
        (sinusoidalPositionEmbeddings of graph/node_initializers.cpp); a word of -1 is the zero
        vector.
        """
        table = self.parameters["Wemb" if "Wemb" in self.parameters else f"{side}_Wemb"]
        size = table.shape[1]
        words = np.array([np.zeros(size) if word < 0 else table[word] for word in ids]) * math.sqrt(
            size
        )
        half = size // 2
        rates = np.exp(-math.log(10000) * np.arange(half) / (half - 1))
        angles = np.arange(len(ids))[:, None] * rates
        assert self.config["transformer-postprocess-emb"] == "d"  # dropout
        return words + np.concatenate([np.sin(angles), np.cos(angles)], 1)

    def encode(self, ids: list[int]) -> np.ndarray:
        """Return the encoder's output (n x d) for a sentence's words with EOS, which Marian gives
        the encoder too.
        """
        x = self._embedded(ids, "encoder")
        for number in range(1, self.config["enc-depth"] + 1):
            prefix = f"encoder_l{number}"
            name = f"{prefix}_self"
            x = self._block(
                x, f"{name}_Wo", lambda y, name=name: self._attention(y, y, name, False)
            )
            x = self._block(
                x, f"{prefix}_ffn_ffn", lambda y, name=f"{prefix}_ffn": self._feed_forward(y, name)
            )
        return self._after(x, x, "encoder_top", self.config["transformer-postprocess-top"])

    def _decode(self, memory: np.ndarray, before: list[int]) -> np.ndarray:
        """Return the decoder's output (n x d) for inputs -1 (no word), then words."""
        x = self._embedded(before, "decoder")
        for number in range(1, self.config["dec-depth"] + 1):
            prefix = f"decoder_l{number}"
            if self.config["transformer-decoder-autoreg"] == "rnn":
                name = f"{prefix}_rnn"
                x = self._block(x, f"{name}_ffn", lambda y, name=name: self._ssru(y, name))
            else:
                name = f"{prefix}_self"
                x = self._block(
                    x, f"{name}_Wo", lambda y, name=name: self._attention(y, y, name, True)
                )
            name = f"{prefix}_context"
            x = self._block(
                x, f"{name}_Wo", lambda y, name=name: self._attention(y, memory, name, False)
            )
            x = self._block(
                x, f"{prefix}_ffn_ffn", lambda y, name=f"{prefix}_ffn": self._feed_forward(y, name)
            )
        return self._after(x, x, "decoder_top", self.config["transformer-postprocess-top"])

    def _project(self, x: np.ndarray) -> np.ndarray:
        """Return logits (n x vocabulary): layers/output.cpp, whose matrix is the embeddings' where
        those are tied.
        """
        if self.config["tied-embeddings-all"] or self.config["tied-embeddings"]:
            whole = self.config["tied-embeddings-all"] or self.config["tied-embeddings-src"]
            logits = x @ self.parameters["Wemb" if whole else "decoder_Wemb"].T
        elif "decoder_ff_logit_out_W" in self.parameters:
            logits = x @ self.parameters["decoder_ff_logit_out_W"]
        else:
            logits = x @ self.parameters["decoder_ff_logit_out_Wt"].T
        return (
            logits
            if self.config.get("output-omit-bias")
            else logits + self.parameters["decoder_ff_logit_out_b"][0]
        )

    def logits(self, source_ids: list[int], target_ids: list[int]) -> np.ndarray:
        """Return logits (n x vocabulary) of the n target words, each given those before it; EOS is
        a word as others.
        """
        return self._project(self._decode(self.encode(source_ids), [-1, *target_ids[:-1]]))

    def greedy(self, source_ids: list[int], most: int) -> list[int]:
        """Return the words of greedy search, with EOS, which is forced behind ``most`` words. UNK
        is never written, as in Marian without ``--allow-unk``.
        """
        memory, words = self.encode(source_ids), []
        while len(words) < most and EOS not in words:
            logits = self._project(self._decode(memory, [-1, *words])[-1])
            logits[UNK] = -np.inf
            words.append(int(logits.argmax()))
        return words if EOS in words else [*words, EOS]
