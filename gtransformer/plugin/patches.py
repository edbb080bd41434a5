"""Patches of fairseq, each with the defect that it corrects; ``patch`` applies all of them."""

from __future__ import annotations

import argparse
import atexit
import logging
import os
import queue
import random
import time
import typing
import warnings
from collections import OrderedDict, defaultdict
from contextlib import nullcontext, suppress
from functools import wraps
from pathlib import Path
from weakref import WeakSet

import numpy
import omegaconf
import torch
from fairseq import checkpoint_utils, options, trainer
from fairseq import utils as fairseq_utils
from fairseq.data import iterators
from fairseq.dataclass.utils import overwrite_args_by_name
from fairseq.distributed import utils as distributed
from fairseq.distributed.utils import _TensorPlaceholder
from fairseq.logging import meters
from fairseq.models import distributed_fairseq_model
from fairseq.optim import AMPOptimizer
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode, BooleanNode, FloatNode, IntegerNode, StringNode
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from gtransformer.plugin.optimizers import FusedAdam

try:
    from numpy._core.multiarray import _reconstruct, scalar
except ImportError:  # numpy 1.x
    from numpy.core.multiarray import _reconstruct, scalar


def patch() -> None:
    """Apply all patches; a second call changes nothing."""
    allow_what_checkpoints_hold()
    quiet_hydra()
    distributed_fairseq_model.DistributedDataParallel = _distributed_data_parallel
    _wrap(checkpoint_utils, "load_checkpoint_to_cpu", _load_checkpoint)
    _wrap(options, "parse_args_and_arch", _parse_arguments)
    _wrap(distributed, "call_main", _call_main)
    _wrap(AMPOptimizer, "clip_grad_norm", _clip_unscaled)
    _wrap(fairseq_utils, "clip_grad_norm_", _clip_foreach)
    _wrap(trainer.Trainer, "clip_grad_norm", _look_back)
    _wrap(trainer.Trainer, "_reduce_and_log_stats", _log_unread)
    _wrap(iterators.BufferedIterator, "_create_consumer", _create_stoppable)
    # After gradients that are not finite: its hooks want outputs that are tensors, and raise
    # StopIteration.
    trainer.NanDetector = nullcontext


def _wrap(owner, name: str, ours) -> None:
    """Replace ``owner.name`` by ``ours``, which receives fairseq's function as its first
    argument.
    """
    theirs = getattr(owner, name)
    if hasattr(theirs, "patched"):  # not __wrapped__: fairseq decorates functions, too
        return
    patched = wraps(theirs)(lambda *arguments, **more: ours(theirs, *arguments, **more))
    patched.patched = True
    setattr(owner, name, patched)


# --- Checkpoints


def allow_what_checkpoints_hold() -> None:
    """Allow-list the harmless types that fairseq stores in checkpoints, for
    ``torch.load(weights_only=True)``.

    PyTorch refuses unknown types since 2.6. Only plain data types are listed, so the loader stays
    safe: argument namespaces, OmegaConf containers, numpy scalars, the placeholder of a tensor in a
    checkpoint that is broadcast between processes, and the meters of fairseq up to 0.9.
    """
    old_meters = (meters.AverageMeter, meters.TimeMeter, meters.StopwatchMeter)
    torch.serialization.add_safe_globals(
        [
            argparse.Namespace,
            _TensorPlaceholder,
            OrderedDict,
            defaultdict,
            dict,
            int,
            float,
            list,
            typing.Any,
        ]
        + [omegaconf.DictConfig, omegaconf.ListConfig, ContainerMetadata, Metadata]
        + [AnyNode, BooleanNode, FloatNode, IntegerNode, StringNode]
        + [numpy.dtype, numpy.ndarray, _reconstruct, scalar]
        + [(one, f"numpy.core.multiarray.{one.__name__}") for one in (scalar, _reconstruct)]
        + [(kind, f"fairseq.meters.{kind.__name__}") for kind in old_meters]
        + [type(numpy.dtype(kind)) for kind in ("float64", "float32", "int64", "int32", "bool")]
    )


def _load_checkpoint(load, path, arg_overrides=None, **more):
    """Load a model directory, too (``--path DIR``)."""
    if not os.path.isdir(path):
        return load(path, arg_overrides, **more)
    from gtransformer.plugin.checkpoints import checkpoint_of

    state = checkpoint_of(Path(path))
    overwrite_args_by_name(state["cfg"], arg_overrides or {})
    return state


def _parse_arguments(parse, parser, *arguments, **more):
    """Let fairseq-validate, whose parser has no task by default and ends in a KeyError, have this
    package's.
    """
    if parser.get_default("task") is None:
        parser.set_defaults(task="translation_doc")
    return parse(parser, *arguments, **more)


def quiet_hydra() -> None:
    """Suppress hydra's warnings about fairseq's use of it, which no user can act on."""
    logging.getLogger("hydra").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", category=UserWarning, module=r"hydra\.")
    begins = r"\s*('config' is validated|The strict flag in the compose|The version_base)"
    warnings.filterwarnings("ignore", message=begins, category=UserWarning)


# --- Training


def _clip_unscaled(clip, self, max_norm, aggregate_norm_fn=None) -> Tensor:
    """Divide the gradients of a training with ``--amp`` by the loss scale only once.

    fairseq's ``AMPOptimizer`` lets the scaler unscale PyTorch's optimizer, for clipping, but step
    its own wrapper. The scaler takes the wrapper for another optimizer and divides again. The
    gradients become far smaller than Adam's eps, and almost nothing is learned. This is fairseq's
    method except for the optimizer that is unscaled.
    """
    self.scaler.unscale_(self.fp32_optimizer)
    grad_norm = self.fp32_optimizer.clip_grad_norm(max_norm, aggregate_norm_fn)
    if not grad_norm.isfinite().all():
        if self.next_loss_scale <= self.min_loss_scale:
            raise FloatingPointError(
                f"AMP: Minimum loss scale reached ({self.min_loss_scale}). Your loss is probably "
                "exploding. Try restarting training or use fp32. "
                f"{self.next_loss_scale}"
            )
        logging.getLogger("fairseq.optim.amp_optimizer").info(
            "AMP: overflow detected, setting scale to %s", self.next_loss_scale
        )
    return grad_norm


def _clip_foreach(clip, params, max_norm, aggregate_norm_fn=None) -> Tensor:
    """Compute the norm of gradients by PyTorch's foreach functions, where the gradients are.

    fairseq computes it one parameter at a time on a GPU, and moves it to the GPU as soon as there
    is one, also from gradients on the CPU (``--cpu``), which it then cannot multiply.
    """
    params = [params] if isinstance(params, Tensor) else list(params)
    grads = [p.grad.detach() for p in params if p.grad is not None]
    if not grads:
        return clip(params, max_norm, aggregate_norm_fn)
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float32)))
    norm = norm if aggregate_norm_fn is None else aggregate_norm_fn(norm)
    if max_norm > 0:
        torch._foreach_mul_(grads, (float(max_norm) / (norm + 1e-6)).clamp_(max=1))
    return norm


def _look_back(clip, self, max_norm) -> Tensor:
    """Let the trainer, which reads the norm at every update, read that of the update before.

    Its reading of the last norm makes the host wait for the GPU. Mixed precision with a loss scale
    needs the norm at once.
    """
    norm = clip(self, max_norm)
    if not norm.is_cuda or not isinstance(self.optimizer, FusedAdam):
        return norm
    before = self.optimizer.norm_before(norm)
    if not before.isfinite():  # fairseq stops
        logging.getLogger("fairseq.trainer").error(
            "not finite: the gradients of the update before, or of this one if it is the first"
        )
    return before


def _log_unread(log, self, *arguments) -> dict:
    """Log an update without reading the values, which nobody looks at before they are printed.

    fairseq reads all of them at every update, except on TPUs; on a GPU the host waits for each.
    """
    on_tpu, self.tpu = self.tpu, True
    try:
        return log(self, *arguments)
    finally:
        self.tpu = on_tpu


_readers: WeakSet[iterators.BackgroundConsumer] = WeakSet()  # threads that read batches ahead
READER_SECONDS = 10.0  # how long their end is waited for


def _create_stoppable(create, self) -> None:
    """Note the thread that reads batches ahead, so that ``_end_readers`` ends it.

    Upstream leaves it running when a training ends. Python then ends it within an operation of
    PyTorch, and the whole process aborts (status 134) after the model has been saved.
    """
    create(self)
    _readers.add(self._consumer)


@atexit.register
def _end_readers() -> None:
    """End the threads that read batches ahead, at the latest after ``READER_SECONDS``."""
    until = time.monotonic() + READER_SECONDS
    for reader in list(_readers):
        reader._max_len = 0  # no item after the one at hand
        while reader.is_alive() and time.monotonic() < until:
            with suppress(queue.Empty):
                reader._queue.get_nowait()  # a full queue would block it
            reader.join(0.01)


# --- Several processes


def _call_main(call, cfg, main, **more):
    """Start several processes on CPUs, and take torchrun's number of processes.

    fairseq counts GPUs instead of processes: on CPUs it starts none, and under torchrun with one
    GPU a machine each process would train alone.
    """
    group, on_cpu = cfg.distributed_training, cfg.common.cpu or not torch.cuda.is_available()
    if "TORCHELASTIC_RUN_ID" in os.environ:
        if on_cpu:
            raise RuntimeError(
                "torchrun is for GPUs; on CPUs --distributed-world-size N starts N processes"
            )
        group.distributed_world_size = int(os.environ["WORLD_SIZE"])
    if not on_cpu or group.distributed_world_size == 1 or group.distributed_init_method is not None:
        call(cfg, main, **more)
        return
    group.distributed_backend = "gloo"
    group.distributed_rank = None  # each process gets its rank from its number
    group.distributed_init_method = f"tcp://localhost:{random.randint(10000, 20000)}"
    torch.multiprocessing.spawn(
        distributed.distributed_main, (main, cfg, more), nprocs=group.distributed_world_size
    )


def _distributed_data_parallel(module, device_ids, output_device, **more):
    """Wrap a model on the CPU, too; fairseq passes the number of a GPU in any case."""
    if next(module.parameters()).device.type == "cpu":
        device_ids = output_device = None
    return DistributedDataParallel(
        module, device_ids=device_ids, output_device=output_device, **more
    )
