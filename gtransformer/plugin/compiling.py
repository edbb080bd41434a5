"""``--compile``: whether a training can be compiled, and its packed batches."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import astuple

import numpy as np
import torch
from fairseq.data import ConcatDataset
from omegaconf import DictConfig
from torch import Tensor, nn

from gtransformer.data.packing import Capacity, Packer, Symbols, capacity_of
from gtransformer.errors import UserError
from gtransformer.models.common.compiled import compiler_fault, why_not_compiled
from gtransformer.models.common.config import BOTH_MARKS, COMPILE
from gtransformer.models.common.model import DocumentModel
from gtransformer.modules import varlen
from gtransformer.modules.attention import MultiheadAttention
from gtransformer.plugin.config import FUSED_LOSS
from gtransformer.plugin.document_dataset import DocumentPairDataset
from gtransformer.plugin.graphs import GraphedLoss
from gtransformer.settings import HALF_PRECISION, dashed

logger = logging.getLogger(__name__)

AUTO, ON, GRAPHS, OFF = COMPILE
LEAST_FULL = 60  # per cent of packed batches that is no padding


class Compiling:
    """Whether a training is compiled.

    Args:
        wish: the value of ``--compile``.
        model: the model that is trained.
        whole: all options of the training.

    Raises UserError if ``--compile on`` or ``graphs`` is not possible.
    """

    def __init__(self, wish: str, model: nn.Module, whole: DictConfig):
        self.wish, self.model = wish, model
        self.capacity: Capacity | None = None  # of all shards so far, for as few graphs as possible
        on_gpu = torch.cuda.is_available() and not whole.common.cpu
        self.active = wish in (ON, GRAPHS) or (wish == AUTO and on_gpu)
        if self.active:
            self._require(why_not_compiled(model) or _unfit_options(whole, model, on_gpu))
        self.graphs = None
        if wish == GRAPHS:
            self._require(_why_no_graphs(whole, model, on_gpu))
            self.graphs = GraphedLoss()

    def loss(self, model: nn.Module, batch: dict, smoothing: float) -> tuple[Tensor, Tensor]:
        """Return summed loss and negative log likelihood of a packed batch."""
        if self.graphs is None:
            return model(packed=batch, smoothing=smoothing)
        return self.graphs(model, batch, smoothing)

    def _require(self, obstacle: str | None) -> None:
        """Give up, in words, if something is in the way."""
        if obstacle is None:
            return
        if self.wish != AUTO:
            raise UserError(
                f"--compile {self.wish}: this training cannot be compiled, because {obstacle}"
            )
        self.active = False
        logger.info("--compile auto: this training is not compiled, because %s", obstacle)

    def packer(
        self, dataset: DocumentPairDataset, batches: Sequence[np.ndarray], max_tokens: int | None
    ) -> Packer | None:
        """Return what packs these batches of training; None if it is not compiled.

        Unless it is ``auto``, raises UserError for a batch that is larger than ``max_tokens``.
        """
        sizes = dataset.src_sizes, dataset.tgt_sizes
        largest = max((int(side[batch].sum()) for batch in batches for side in sizes), default=0)
        if self.active and max_tokens is not None and largest > max_tokens:
            self._require(
                f"an instance has {largest} tokens, more than --max-tokens {max_tokens}: give a "
                "larger number, or shorter instances"
            )
        if not self.active or not largest:
            return None
        capacity = self.capacity = self._capacity(dataset, batches)
        tokens = sum(int(side[batch].sum()) for batch in batches for side in sizes)
        full = 100 * tokens / (2 * len(batches) * capacity.tokens)
        logger.info("packed batches of a compiled training: %s, %.0f %% full", capacity, full)
        if self.wish == AUTO and full < LEAST_FULL:
            self._require(
                f"its batches would be {full:.0f} % full on average: limit them by --max-tokens, "
                "not by --batch-size"
            )
            return None
        encoder, decoder = self.model.encoder, self.model.decoder
        return Packer(
            capacity,
            Symbols(encoder.bos, encoder.padding, encoder.marks != BOTH_MARKS, encoder.restarts),
            Symbols(decoder.bos, decoder.padding, False, decoder.restarts),
        )

    def _capacity(self, dataset: DocumentPairDataset, batches: Sequence[np.ndarray]) -> Capacity:
        """Return what the batches of all shards so far need.

        Raises UserError for a sentence that is longer than a table of learned positions.
        """
        counts, longest = [], []
        models = self.model.encoder, self.model.decoder
        for side, model in zip((dataset.src, dataset.tgt), models, strict=True):
            parts = side.datasets if isinstance(side, ConcatDataset) else [side]
            counts.append(np.concatenate([np.diff(one.ranges)[:, 0] for one in parts]))
            longest.append(max(int(one.sentences.lengths.max(initial=1)) for one in parts))
            # The graph does not check it; fairseq leaves out long documents, not sentences.
            if model.restarts and longest[-1] > model.sentence_positions():
                model.embed_positions.grow(longest[-1])
        sizes = dataset.src_sizes, dataset.tgt_sizes
        own = capacity_of(batches, sizes, np.maximum(*counts), max(longest))
        return Capacity(*map(max, astuple(self.capacity or own), astuple(own)))


def _unfit_options(whole: DictConfig, model: nn.Module, on_gpu: bool) -> str | None:
    """Return in words which options a compiled training does not have; None if there is none."""
    if not varlen.HAS_WINDOW:
        return "it needs PyTorch 2.11"
    if type(model).forward is not DocumentModel.forward:
        return "its model computes in a way of its own"
    if whole.dataset.train_subset in whole.dataset.valid_subset.split(","):
        return "--valid-subset has the training set, whose batches are packed"
    criterion = whole.criterion
    if criterion._name != FUSED_LOSS or criterion.report_accuracy or criterion.ignore_prefix_size:
        return f"the loss is not that of --criterion {FUSED_LOSS} alone"
    if whole.dataset.update_epoch_batch_itr:
        return "--update-epoch-batch-itr makes batches of other shapes in every epoch"
    if not model.decoder.output_is_product:
        return "the output layer is not one matrix product"
    if not on_gpu:
        return None
    if not _half_precision(whole) and str(model.cfg.autocast) == "none":
        return "attention of fixed shapes needs half precision on a GPU (--autocast bfloat16)"
    dims = {one.dim for one in model.modules() if isinstance(one, MultiheadAttention)}
    queries = [torch.zeros(1, 1, dim, dtype=torch.bfloat16, device="cuda") for dim in dims]
    if not all(varlen.is_usable(one, 0.0) for one in queries):
        return (
            "variable-length attention needs a GPU of the Ampere generation, and heads whose size "
            "is divisible by 8 and at most 256"
        )
    return compiler_fault("cuda")


def _half_precision(whole: DictConfig) -> bool:
    return any(value and dashed(name) in HALF_PRECISION for name, value in whole.common.items())


def _why_no_graphs(whole: DictConfig, model: nn.Module, on_gpu: bool) -> str | None:
    """Return in words why a training has no CUDA graphs; None if it has."""
    if not on_gpu or whole.distributed_training.distributed_world_size > 1:
        return "it is not one of a single GPU"
    if _half_precision(whole):
        return "its half precision may need a loss scale (--autocast bfloat16 needs none)"
    if any(one._backward_hooks for one in model.parameters()):
        return "its parameters have hooks, which would be called twice"
    return None
