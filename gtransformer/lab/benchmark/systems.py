"""The compared systems: fairseq's own Transformer, G-Transformer (dense and packed), the other systems."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from fairseq.models.transformer import TransformerConfig, TransformerModelBase
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor, nn

from gtransformer.criterions.fused_label_smoothed_cross_entropy import FusedLabelSmoothedCrossEntropy
from gtransformer.lab.analysis.dense import DensePattern
from gtransformer.lab.benchmark.ctranslate import SentenceTranslator
from gtransformer.lab.benchmark.documents import make_batch, make_dictionary, make_stretch
from gtransformer.lab.benchmark.names import (
    BATCHED,
    CTRANSLATE2,
    DENSE,
    DOC_TRANSFORMER,
    DOCUMENT_TRANSFORMER,
    FAIRSEQ,
    GTRANSFORMER,
    INT8,
    OTHERS,
    PSEUDO,
    WINDOWS,
)
from gtransformer.lab.benchmark.step_costs import StepCosts, measure_machine
from gtransformer.models.window import SENTENCE
from gtransformer.modules.kernels import quantise
from gtransformer.optim.fused_adam import FusedAdam
from gtransformer.plugin.models import ARCHITECTURES
from gtransformer.search.generator import as_read
from gtransformer.search.sequential import SecondPass
from gtransformer.search.strategies import FULL, PARALLEL
from gtransformer.tasks.config import TranslationDocConfig
from gtransformer.tasks.finetuning import freeze_pretrained
from gtransformer.tasks.generation import task_generator
from gtransformer.tasks.translation_doc import TranslationDocTask

UNLIMITED = 1 << 20


@dataclass(frozen=True)
class Setting:
    """One row of the benchmark.

    ``system``: fairseq; ctranslate2 decodes with fairseq's model, sentence by sentence; G-Transformer as dense or
    packed, with ``context`` top layers of combined attention; or another system of this package. doc_transformer_dense
    keeps all attention scores, length x length, as plain products do. window_transformer has windows of ``window`` on
    each side, by sentence, and relative positions. document_transformer reads ``beside`` previous source sentences. It
    is trained as in its second step, with the sentence model frozen, and its documents are single sentences, the same
    as the others'. So are those of pseudo_documents, docflat, abd and mbe, each with ``local`` previous ones on both
    sides. ``strategy`` is G-Transformer's in decoding; ``parallel`` has positions by sentence. ``precision``: float32,
    bfloat16, float16 (fairseq: autocast) or int8 (decoding on CPUs); ``tokens`` of a document; ``sentence``: tokens of
    a sentence with ``<s>`` and ``</s>``; ``uneven``: source sentences are alternately shorter and longer, so that
    windows jump. ``arch``: a size of G-Transformer, which every system has.
    """

    system: str
    tokens: int
    batch_tokens: int
    context: int = 0
    precision: str = "float32"
    arch: str = "gtransformer_base"
    vocabulary: int = 32000
    sentence: int = 30
    dropout: float = 0.3
    checkpoint: bool = False
    device: str = "cpu"
    window: int = 20
    uneven: bool = False
    beside: int = 2  # name in result files
    local: int = 3
    strategy: str = FULL

    @property
    def name(self) -> str:
        """The name in tables and result files."""
        detail = f"{self.context} global" if self.system in GTRANSFORMER else ""
        detail = f"{self.beside} beside" if self.system == DOCUMENT_TRANSFORMER else detail
        detail = f"{self.local} local" if self.system in BATCHED else detail
        strategy = "" if self.strategy == FULL else self.strategy
        parts = [self.system, f"w={self.window}" if self.has_windows else detail, self.precision, strategy]
        return " ".join(part for part in [*parts, "checkpointed" if self.checkpoint else ""] if part)

    @property
    def has_windows(self) -> bool:
        """Whether the system uses ``window``."""
        return self.system == WINDOWS

    @property
    def architecture(self) -> str:
        """The model's name for fairseq; fairseq's Transformer has G-Transformer's sizes."""
        own = self.system.removesuffix(DENSE) if self.system in (*OTHERS, *BATCHED) else "gtransformer"
        own = DOC_TRANSFORMER if self.system == PSEUDO else own
        return self.arch.replace("gtransformer", own, 1)

    @property
    def documents(self) -> int:
        """Number of documents in a training batch."""
        return max(1, self.batch_tokens // self.tokens)

    @property
    def workload(self) -> str:
        """The common settings of compared systems: precision, size and data."""
        return (
            f"{self.precision}, {self.arch}, documents of {self.tokens} tokens, sentences of {self.sentence}"
            f"{' (uneven)' if self.uneven else ''}, {self.vocabulary} words, dropout {self.dropout}"
        )


class System:
    """A model with its optimizer and the batch on which it is timed."""

    def __init__(self, setting: Setting):
        torch.manual_seed(1)
        self.setting = setting
        self.dictionary = make_dictionary(setting.vocabulary)
        self.task = Namespace(source_dictionary=self.dictionary, target_dictionary=self.dictionary)
        self.model = self._fairseq() if setting.system in (FAIRSEQ, CTRANSLATE2) else self._ours()
        self.model.to(setting.device)
        self.optimizer, self.holds_weights = None, False
        self.kept_bytes: int | None = None
        if setting.system == CTRANSLATE2:
            heads = ARCHITECTURES[setting.arch]["encoder_attention_heads"]
            self.translator = SentenceTranslator(self.model, self.dictionary, heads, setting.precision)

    def _ours(self) -> nn.Module:
        setting, name = self.setting, self.setting.architecture
        cfg = MODEL_DATACLASS_REGISTRY[name](share_all_embeddings=True, dropout=setting.dropout)
        cfg.doc_mode = "partial"
        cfg.max_source_positions = cfg.max_target_positions = UNLIMITED
        cfg.checkpoint_activations = setting.checkpoint
        cfg.autocast = "none" if setting.precision in ("float32", INT8) else setting.precision
        if setting.has_windows:
            cfg.window, cfg.train_alignment, cfg.decode_alignment = setting.window, SENTENCE, SENTENCE
        if setting.system in GTRANSFORMER:
            cfg.encoder_ctxlayers = cfg.decoder_ctxlayers = cfg.cross_ctxlayers = setting.context
            if setting.strategy == PARALLEL:
                cfg.positions = SENTENCE
        model = MODEL_REGISTRY[name].build_model(cfg, self.task)
        if setting.system.endswith("dense"):
            model.encoder.engine = model.decoder.engine = DensePattern
        if setting.system == DOCUMENT_TRANSFORMER:
            freeze_pretrained(model, None)
        if setting.precision == INT8:
            quantise(model)
        return model

    def _fairseq(self) -> TransformerModelBase:
        sizes = ARCHITECTURES[self.setting.arch]
        cfg = TransformerConfig()
        for side in ("encoder", "decoder"):
            part = getattr(cfg, side)
            part.embed_dim, part.ffn_embed_dim = sizes[f"{side}_embed_dim"], sizes[f"{side}_ffn_embed_dim"]
            part.layers, part.attention_heads = sizes[f"{side}_layers"], sizes[f"{side}_attention_heads"]
        cfg.decoder.input_dim = cfg.decoder.output_dim = cfg.decoder.embed_dim
        cfg.share_all_embeddings, cfg.dropout = True, self.setting.dropout
        # fairseq allocates tables of all positions; for a million they would be most of its memory.
        cfg.max_source_positions = cfg.max_target_positions = self.setting.tokens + 2
        cfg.checkpoint_activations = self.setting.checkpoint
        return TransformerModelBase.build_model(cfg, self.task)

    def _batch(self, documents: int) -> dict:
        setting = self.setting
        if setting.system in BATCHED:
            batch = make_stretch(documents, setting.sentence, setting.local, self.dictionary)
            return to_device(as_read(batch, self.model), setting.device)
        before = setting.beside if setting.system == DOCUMENT_TRANSFORMER else 0
        batch = make_batch(documents, setting.tokens, setting.sentence, self.dictionary, setting.uneven, before)
        return to_device(batch, setting.device)

    def _precision(self) -> AbstractContextManager:
        """Return autocast for fairseq's Transformer; the others have an option for it."""
        setting = self.setting
        if setting.precision == "float32" or setting.system != FAIRSEQ:
            return nullcontext()
        return torch.autocast(setting.device, dtype=getattr(torch, setting.precision))

    def train_step(self) -> dict:
        """Run an update as fairseq's trainer does, with the recipes' optimizer (fairseq's Transformer: fairseq's Adam).

        Returns seconds, target tokens and ``kept_bytes``, the activations counted in the first step.
        """
        if self.optimizer is None:
            kind = LabelSmoothedCrossEntropyCriterion
            if self.setting.system != FAIRSEQ:
                kind = FusedLabelSmoothedCrossEntropy
            self.criterion = kind(self.task, sentence_avg=False, label_smoothing=0.1)
            kind = FairseqAdam if self.setting.system == FAIRSEQ else FusedAdam
            trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
            self.optimizer = kind(FairseqAdamConfig(adam_betas="(0.9, 0.98)", lr=[1e-4]), trained)
            self.batch = self._batch(self.setting.documents)
            self.model.train()
        began = now(self.setting.device)
        with self._precision(), nullcontext() if self.kept_bytes else Kept(self.model.parameters()) as kept:
            loss, sample_size, _ = self.criterion(self.model, self.batch)
        self.kept_bytes = self.kept_bytes or kept.bytes
        self.optimizer.zero_grad()
        self.optimizer.backward(loss)
        self.optimizer.multiply_grads(1.0 / sample_size)
        self.optimizer.clip_grad_norm(0.0)  # as for the logs
        self.optimizer.step()
        seconds = now(self.setting.device) - began
        return {"seconds": seconds, "tokens": self.batch["ntokens"], "kept_bytes": self.kept_bytes}

    def decode(self, documents: int, beam: int) -> dict:
        """Translate ``documents`` documents into as many tokens each; return seconds and tokens.

        For systems that read consecutive sentences, ``documents`` sentences are one batch. This is the second of two
        passes, with given translations of each sentence's context.
        """
        setting = self.setting
        batch = self._batch(documents)
        if setting.system == CTRANSLATE2:
            return self._decode_sentences(batch["net_input"]["src_tokens"], beam)
        self.model.eval()
        if setting.system != FAIRSEQ and not self.holds_weights:
            self.model.decoder.hold_weights()  # once, as translate does
            self.holds_weights = True
        generator = self._generator(beam)
        began = now(setting.device)
        with self._precision():
            hypotheses = generator.generate([self.model], batch)
        seconds = now(setting.device) - began
        tokens = sum(len(found[0]["tokens"]) for found in hypotheses)
        return {"seconds": seconds, "tokens": tokens}

    def _decode_sentences(self, documents: Tensor, beam: int) -> dict:
        """Translate the sentences of ``documents`` (documents, tokens) with CTranslate2, all at once.

        The given ``<s>`` counts as one of the tokens, as in other systems' results.
        """
        ends = documents.flatten().eq(self.dictionary.eos()).nonzero().flatten() + 1
        parts = documents.flatten().split(ends.diff(prepend=ends.new_zeros(1)).tolist())
        texts = [[self.dictionary[index] for index in one[1:-1].tolist()] for one in parts]
        began = now(self.setting.device)
        found = self.translator.translate(texts, beam, self.setting.sentence - 1)
        return {"seconds": now(self.setting.device) - began, "tokens": sum(1 + len(one) for one in found)}

    def profile(self, documents: int, beam: int) -> dict:
        """Translate as ``decode``, with one thread, and count what a step costs; it is for systems with caches."""
        torch.set_num_threads(1)
        self.decode(1, beam)  # oneDNN compiles
        with StepCosts(len(self.dictionary)).counted() as costs:
            result = self.decode(documents, beam)
        return result | {"profile": costs.per_step(*measure_machine())}

    def _generator(self, beam: int):
        # Every sentence (fairseq's Transformer: the document) becomes as long as its source.
        if self.setting.system == FAIRSEQ:
            length = self.setting.tokens - 1
            return SequenceGenerator(
                [self.model], self.dictionary, beam_size=beam, max_len_a=0, max_len_b=length, min_len=length
            )
        cfg = TranslationDocConfig()
        cfg.source_lang, cfg.target_lang, cfg.strategy = "en", "de", self.setting.strategy
        task = TranslationDocTask(cfg, self.dictionary, self.dictionary)
        options = Namespace(beam=beam, max_len_a=1.0, max_len_b=0, min_len=UNLIMITED)
        if self.setting.system in BATCHED:
            return SecondPass(task_generator(task, [self.model], options), self._contexts)
        return task.build_generator([self.model], options)

    def _contexts(self, batch: dict) -> Tensor:
        """Return the forced prefix of each translation of a batch of consecutive sentences: all but the current
        sentence.
        """
        return batch["net_input"]["prev_output_tokens"][:, : self.setting.local * self.setting.sentence]


class Kept(torch.autograd.graph.saved_tensors_hooks):
    """Context manager that counts exactly the activations kept for the backward pass, on any device.

    Within ``with Kept() as kept:`` the tensors that autograd saves are recorded; ``kept.bytes`` is the size of their
    storages, each counted once. Recomputed activations and temporary memory of the backward pass are not included.

    Args:
        excluded: tensors that do not count, for instance parameters.
    """

    def __init__(self, excluded: Iterable[Tensor] = ()):
        self._excluded = {tensor.untyped_storage().data_ptr() for tensor in excluded}
        self._sizes: dict[int, int] = {}
        super().__init__(self._note, lambda tensor: tensor)

    def __enter__(self) -> Kept:
        super().__enter__()
        return self

    @property
    def bytes(self) -> int:
        """Bytes so far."""
        return sum(self._sizes.values())

    def _note(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._excluded:
            self._sizes[storage.data_ptr()] = storage.nbytes()
        return tensor


def now(device: str) -> float:
    """Return the time in seconds, after the device has finished its work."""
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def to_device(sample, device: str):
    """Return a nested dictionary of tensors on ``device``."""
    if isinstance(sample, dict):
        return {key: to_device(value, device) for key, value in sample.items()}
    return sample.to(device) if isinstance(sample, Tensor) else sample
