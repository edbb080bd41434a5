"""The base of all document models, encoder and decoder over whole documents, and the table of the
systems.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gtransformer.data.dictionaries import Vocabulary
from gtransformer.errors import UserError
from gtransformer.models.common.blocks import AttentionBlock
from gtransformer.models.common.compiled import compiled_loss
from gtransformer.models.common.config import OFF, DocumentModelConfig
from gtransformer.models.common.decoder import DocumentDecoder
from gtransformer.models.common.encoder import DocumentEncoder
from gtransformer.models.common.pretrained import from_transformer, is_transformers


@dataclass(frozen=True)
class Needs:
    """A model's requirements for batches, and the inputs that an instance's result depends on.

    Attributes:
        last_sentence_only: it translates only the last sentence of its source; those before it are
            context.
        batch: the result of an instance depends on the others of its batch. So these must be
            consecutive sentences of a document.
        targets: it depends on the others' targets.
        future: it depends on parts that do not exist yet while they are translated.
        numbers: its encoder takes the numbers that sentences have in their document
            (``data.batch_fields``).
    """

    last_sentence_only: bool = False
    batch: bool = False
    targets: bool = False
    future: bool = False
    numbers: bool = False


def needs_of(model: nn.Module) -> Needs:
    """Return any model's requirements for batches; models without ``needs`` have none."""
    return getattr(model, "needs", Needs())


def prefix_of(model: nn.Module, dictionary: Vocabulary) -> int | None:
    """Return the index of the word that a model's target sentences begin with; None if there is
    none.
    """
    word = getattr(getattr(model, "cfg", None), "target_prefix", None)
    return None if word is None else dictionary.index(word)


class DocumentModel(nn.Module):
    """Encoder-decoder over whole documents; a system declares the blocks of its layers, lowest
    first.

    Attributes:
        system, config_class: its name and its dataclass of options, set by ``register``.
        has_sizes: whether it has the sizes of all systems (mini to large) on fairseq's command
            line.
        needs: its requirements for batches.
    """

    system: str
    config_class: type[DocumentModelConfig]
    has_sizes = True
    needs = Needs()
    encoder_class = DocumentEncoder
    decoder_class = DocumentDecoder

    def __init__(
        self, cfg: DocumentModelConfig, encoder: DocumentEncoder, decoder: DocumentDecoder
    ):
        nn.Module.__init__(self)  # in fairseq it has a second base class
        self.encoder, self.decoder, self.cfg = encoder, decoder, cfg

    @classmethod
    def build(
        cls, cfg: DocumentModelConfig, source: Vocabulary, target: Vocabulary
    ) -> DocumentModel:
        """Build from a configuration and the vocabularies of both sides; UserError on a bad
        combination.
        """
        cls.check(cfg)
        if cfg.share_all_embeddings and source != target:
            raise UserError(
                "--share-all-embeddings needs one joined dictionary for both languages, but those "
                "of the data differ; prepare the data with one, or leave the option out"
            )
        # fairseq's own initialisation, in its order, so that a random start is the release's.
        words = target_words = make_embedding(source, cfg.encoder_embed_dim)
        if not cfg.share_all_embeddings:
            target_words = make_embedding(target, cfg.decoder_embed_dim)
        # BERT's encoder has another structure than the decoder.
        encoder_cfg = cls.encoder_config(cfg)
        blocks = cls.encoder_blocks(encoder_cfg)
        encoder = cls.encoder_class(encoder_cfg, source, words, blocks)
        decoder = cls.decoder_class(cfg, target, target_words, cls.decoder_blocks(cfg))
        return cls(cfg, encoder, decoder)

    @classmethod
    def check(cls, cfg: DocumentModelConfig) -> None:
        """Raise UserError for options that contradict each other."""

    @classmethod
    def encoder_config(cls, cfg: DocumentModelConfig) -> DocumentModelConfig:
        """Return the configuration that the encoder is built with."""
        return cfg

    @classmethod
    def encoder_blocks(cls, cfg: DocumentModelConfig) -> list[tuple[AttentionBlock, ...]]:
        """Return the attention of each encoder layer."""
        raise NotImplementedError

    @classmethod
    def decoder_blocks(cls, cfg: DocumentModelConfig) -> list[tuple[AttentionBlock, ...]]:
        """Return the attention of each decoder layer; a block that reads the source has the memory
        ``source``.

        The encoder may provide further memories.
        """
        raise NotImplementedError

    def forward(
        self,
        src_tokens: Tensor | None = None,
        src_lengths: Tensor | None = None,
        prev_output_tokens: Tensor | None = None,
        ragged: bool = False,
        packed: dict | None = None,
        smoothing: float = 0.0,
        **more,
    ) -> tuple[Tensor, dict | Tensor]:
        """Compute logits (batch, target length, vocabulary) for documents; see encoder and decoder
        for the arguments.

        ``more``: further batch fields for the encoder.

        With ``ragged``, return the top states (tokens, channels) of the real target tokens instead,
        for losses that compute logits themselves. The extras then have ``layout``.

        Of a ``packed`` batch instead, return its summed loss with label ``smoothing`` and its
        summed negative log likelihood, from a compiled graph.
        """
        if packed is not None:
            return compiled_loss(self, packed, smoothing)
        # The layout is read from the device. After the encoder the host would wait for its result.
        layout = self.decoder.layout(prev_output_tokens)
        encoder_out = self.encoder(src_tokens, **more)
        return self.decoder(
            prev_output_tokens, encoder_out=encoder_out, ragged=ragged, layout=layout
        )

    @property
    def leaves_unpredicted_out(self) -> bool:
        """Whether it does not predict ``<s>`` and language symbols, so that as targets they must
        not count.
        """
        return self.decoder.predicts_some or self.cfg.marks_loss == OFF

    def is_pretrained(self, name: str) -> bool:
        """Return whether a pretrained model has this parameter; others start from random values and
        learn as new.

        By default these are the parameters of any Transformer; a system with another pretrained
        model overrides this.
        """
        return is_transformers(name)

    def learns_as_new(self, name: str) -> bool:
        """Return whether this parameter learns at ``--lr`` with ``--doc-double-lr``, as it has no
        pretrained value.
        """
        return not self.is_pretrained(name)

    def from_transformer(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return a complete state of this model with a Transformer's parameters."""
        return from_transformer(state, self)

    def load_state_dict(self, state_dict: dict[str, Tensor], strict: bool = True, **more):
        """Load as PyTorch (in fairseq, as fairseq) does; with ``--load-partial``, also parameters
        of a Transformer.

        Raises UserError, which names the first difference, for a model of another structure.
        """
        # Only G-Transformer has the second option.
        if self.cfg.load_partial or getattr(self.cfg, "load_partial_global_from_local", False):
            state_dict = self.from_transformer(state_dict)
        try:
            return super().load_state_dict(state_dict, strict, **more)
        except RuntimeError as error:
            differences = " ".join(str(error).split())
            raise UserError(
                "layers, layer norms, kinds of positions and dictionaries (prepare the data with "
                f"the model's) must be those of the checkpoint: {differences[:400]}"
            ) from None

    def get_normalized_probs(
        self, net_output: tuple[Tensor, dict], log_probs: bool, sample=None
    ) -> Tensor:
        """Return (log) probabilities in float32 (float64 stays), whatever the model's precision."""
        # log_softmax over 30,000 words in half precision would round small probabilities away.
        logits = net_output[0]
        dtype = torch.float64 if logits.dtype == torch.float64 else torch.float32
        normalise = torch.log_softmax if log_probs else torch.softmax
        return normalise(logits, dim=-1, dtype=dtype)


# Filled by the modules of the systems when they are imported, and by a user's own folder.
SYSTEMS: dict[str, type[DocumentModel]] = {}
# Called with every further system.
on_registration: list[Callable[[type[DocumentModel]], None]] = []


def register(
    name: str, config: type[DocumentModelConfig]
) -> Callable[[type[DocumentModel]], type[DocumentModel]]:
    """Add a class to ``SYSTEMS`` (a decorator); ``config`` is the dataclass of its options."""

    def add(model: type[DocumentModel]) -> type[DocumentModel]:
        model.system, model.config_class = name, config
        SYSTEMS[name] = model
        for call in on_registration:
            call(model)
        return model

    return add


def make_embedding(dictionary: Vocabulary, channels: int) -> nn.Embedding:
    """Make a (vocabulary, channels) normal embedding of variance 1 / channels, zero at padding."""
    embedding = nn.Embedding(len(dictionary), channels, dictionary.pad())
    nn.init.normal_(embedding.weight, std=channels**-0.5)
    nn.init.zeros_(embedding.weight[dictionary.pad()])
    return embedding
