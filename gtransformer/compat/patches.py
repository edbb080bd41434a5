"""Patches of fairseq, each with the defect that it corrects; ``patch`` applies all of them."""

from __future__ import annotations

import argparse
import atexit
import logging
import os
import queue
import socket
import time
import typing
import warnings
from collections import OrderedDict, defaultdict
from contextlib import nullcontext, suppress
from difflib import get_close_matches
from functools import partial, wraps
from weakref import WeakSet

import numpy
import omegaconf
import torch
from fairseq import options
from fairseq import utils as fairseq_utils
from fairseq.data import iterators
from fairseq.distributed import utils as distributed
from fairseq.distributed.utils import _TensorPlaceholder
from fairseq.logging import meters
from fairseq.models import distributed_fairseq_model
from fairseq.optim import AMPOptimizer
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode, BooleanNode, FloatNode, IntegerNode, StringNode
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from gtransformer import errors, quick_import

try:
    from numpy._core.multiarray import _reconstruct, scalar
except ImportError:  # numpy 1.x
    from numpy.core.multiarray import _reconstruct, scalar


def patch() -> None:
    """Apply all patches; a second call changes nothing."""
    allow_what_checkpoints_hold()
    quiet_hydra()
    # fairseq logs a traceback if a checkpoint cannot be written, and also raises the error.
    logging.getLogger("fairseq.checkpoint_utils").addFilter(_is_no_traceback)
    AMPOptimizer.clip_grad_norm = _clip_unscaled
    meters.StopwatchMeter.load_state_dict = _restore_running
    distributed_fairseq_model.DistributedDataParallel = _distributed_data_parallel
    _wrap(options, "add_model_args", _add_checked_architecture)
    _wrap(distributed, "call_main", _call_main)
    _wrap(fairseq_utils, "clip_grad_norm_", _clip_where_gradients_are)
    _wrap(iterators.GroupedIterator, "__init__", _group_what_is_left)
    _wrap(iterators.BufferedIterator, "_create_consumer", _create_stoppable)
    if not quick_import.left_out:  # else nothing is trained
        from fairseq import trainer
        from fairseq.trainer import Trainer

        # After gradients that are not finite: its hooks want outputs that are tensors, and raise StopIteration.
        trainer.NanDetector = nullcontext
        _wrap(Trainer, "get_train_iterator", _keep_train_iterator)
        _wrap(Trainer, "train_step", _train_step)


def _wrap(owner, name: str, ours) -> None:
    """Replace ``owner.name`` by ``ours``, which receives fairseq's function as its first argument."""
    theirs = getattr(owner, name)
    if hasattr(theirs, "patched"):  # not __wrapped__: fairseq decorates functions, too, Trainer.train_step among them
        return
    patched = wraps(theirs)(lambda *arguments, **more: ours(theirs, *arguments, **more))
    patched.patched = True
    setattr(owner, name, patched)


# --- Checkpoints


def allow_what_checkpoints_hold() -> None:
    """Allow-list the harmless types that fairseq stores in checkpoints, for ``torch.load(weights_only=True)``.

    PyTorch refuses unknown types since 2.6. Only plain data types are listed, so the loader stays safe: argument
    namespaces, OmegaConf containers, numpy scalars, the placeholder of a tensor in a checkpoint that is broadcast
    between processes, and the meters of fairseq up to 0.9.
    """
    old_meters = (meters.AverageMeter, meters.TimeMeter, meters.StopwatchMeter)
    torch.serialization.add_safe_globals(
        [argparse.Namespace, _TensorPlaceholder, OrderedDict, defaultdict, dict, int, float, list, typing.Any]
        + [omegaconf.DictConfig, omegaconf.ListConfig, ContainerMetadata, Metadata]
        + [AnyNode, BooleanNode, FloatNode, IntegerNode, StringNode]
        + [numpy.dtype, numpy.ndarray, _reconstruct, scalar]
        + [(one, f"numpy.core.multiarray.{one.__name__}") for one in (scalar, _reconstruct)]
        + [(kind, f"fairseq.meters.{kind.__name__}") for kind in old_meters]
        + [type(numpy.dtype(kind)) for kind in ("float64", "float32", "int64", "int32", "bool")]
    )


def _is_no_traceback(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("Traceback ")


# --- The command line


def quiet_hydra() -> None:
    """Suppress hydra's warnings about fairseq's use of it, which no user can act on."""
    logging.getLogger("hydra").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", category=UserWarning, module=r"hydra\.")
    for begin in ("'config' is validated against ConfigStore", "The strict flag in the compose", "The version_base"):
        warnings.filterwarnings("ignore", message=rf"\s*{begin}", category=UserWarning)


def _add_checked_architecture(add, parser):
    """Report an unknown ``--arch`` in one sentence; argparse's message follows a list of all names."""
    group = add(parser)
    (action,) = (one for one in group._group_actions if one.dest == "arch")
    action.type, action.choices = partial(_known_architecture, known=list(action.choices)), None
    action.required = True  # fairseq's own error for a missing one is unclear
    return group


def _known_architecture(name: str, known: list[str]) -> str:
    if name not in known:
        like = get_close_matches(name, known) or ["gtransformer_base", "doc_transformer_base"]
        raise errors.UserError(
            f"--arch: there is no architecture '{name}'; {len(known)} are known, among them {', '.join(like)}"
        )
    return name


# --- Training


def _clip_unscaled(self, max_norm, aggregate_norm_fn=None):
    """Divide the gradients of a training with ``--amp`` by the loss scale only once.

    fairseq's ``AMPOptimizer`` lets the scaler unscale PyTorch's optimizer, for clipping, but step its own wrapper. The
    scaler takes the wrapper for another optimizer and divides again. The gradients become far smaller than Adam's eps,
    and almost nothing is learned. This is fairseq's method except for the optimizer that is unscaled.
    """
    self.scaler.unscale_(self.fp32_optimizer)
    grad_norm = self.fp32_optimizer.clip_grad_norm(max_norm, aggregate_norm_fn)
    if not grad_norm.isfinite().all():
        if self.next_loss_scale <= self.min_loss_scale:
            raise FloatingPointError(
                f"AMP: Minimum loss scale reached ({self.min_loss_scale}). Your loss is probably exploding. "
                f"Try restarting training or use fp32. {self.next_loss_scale}"
            )
        logging.getLogger("fairseq.optim.amp_optimizer").info(
            "AMP: overflow detected, setting scale to %s", self.next_loss_scale
        )
    return grad_norm


def _clip_where_gradients_are(clip, params, max_norm, aggregate_norm_fn=None) -> Tensor:
    """Clip gradients on the CPU where they are, also on a machine with a GPU (``--cpu``).

    fairseq moves the norm to the GPU as soon as there is one, and multiplying gradients on the CPU by it fails.
    """
    if not torch.cuda.is_available():
        return clip(params, max_norm, aggregate_norm_fn)
    params = [params] if isinstance(params, Tensor) else list(params)
    grads = [p.grad.detach() for p in params if p.grad is not None]
    if not grads or grads[0].device.type != "cpu":
        return clip(params, max_norm, aggregate_norm_fn)
    norm = torch.nn.utils.get_total_norm(grads).to(torch.float32)
    norm = norm if aggregate_norm_fn is None else aggregate_norm_fn(norm)
    if max_norm > 0:
        torch._foreach_mul_(grads, (float(max_norm) / (norm + 1e-6)).clamp_(max=1))
    return norm


def _restore_running(self, state_dict) -> None:
    """Restart the time in the log (``wall``) from 0 when a training resumes in the middle of an epoch.

    fairseq restores the stopwatch from the checkpoint without starting it, so that every later line shows 0.
    """
    self.sum, self.n, self.round = state_dict["sum"], state_dict["n"], state_dict.get("round")
    self.start()


def _keep_train_iterator(get, self, *arguments, **more):
    self.train_iterator = get(self, *arguments, **more)
    return self.train_iterator


def _train_step(step, self, *arguments, **more):
    """Call the task's method ``after_update(trainer, epoch_iterator)``, if it has one, after every update.

    fairseq has no such call, and saves after a number of updates, never after minutes. So a killed training with large
    updates would lose hours. The method is not called after a skipped update (an overflow), nor if batches do not come
    from the trainer's iterator.
    """
    log = step(self, *arguments, **more)
    after_update, iterator = getattr(self.task, "after_update", None), getattr(self, "train_iterator", None)
    if None not in (log, after_update, iterator):
        after_update(self, iterator)
    return log


def _group_what_is_left(group, self, iterable, chunk_size, skip_remainder_batch=False):
    """Group the batches that a resumed epoch has left.

    fairseq counts groups from the epoch's beginning. If the number of batches read before is no multiple of
    ``--update-freq``, which may have changed, it drops the last group and trains on the whole epoch again.
    """
    read, batches = getattr(iterable, "n", 0), len(iterable)
    if not read % chunk_size:
        return group(self, iterable, chunk_size, skip_remainder_batch)
    whole, rest = divmod(batches - read, chunk_size)
    if skip_remainder_batch:
        iterable.take(batches - rest)
    group(self, iterable, chunk_size)
    self.total = self.n + whole + (rest > 0 and not skip_remainder_batch)


_readers: WeakSet[iterators.BackgroundConsumer] = WeakSet()  # threads that read batches ahead
READER_SECONDS = 10.0  # how long their end is waited for


def _create_stoppable(create, self) -> None:
    """Note the thread that reads batches ahead, so that ``_end_readers`` ends it.

    Upstream leaves it running when a training ends. Python then ends it within an operation of PyTorch, and the whole
    process aborts (status 134) after the model has been saved.
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
    """Support training in several processes on CPUs, started by torchrun, Slurm or fairseq.

    fairseq counts GPUs instead of processes. With torchrun it fails without a GPU; with one GPU each process trains
    alone, since the world size is taken to be 1. Its own launcher starts no process on a CPU, and its PyTorch wrapper
    needs the number of a GPU.
    """
    group, on_cpu = cfg.distributed_training, cfg.common.cpu or not torch.cuda.is_available()
    if group.distributed_init_method is None and _by_torchrun():
        group.distributed_init_method = "env://"
        group.distributed_world_size, group.distributed_rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
        group.device_id = int(os.environ.get("LOCAL_RANK", group.distributed_rank)) % max(1, torch.cuda.device_count())
        group.distributed_no_spawn = True
    if on_cpu and group.distributed_world_size > 1:
        group.distributed_backend = "gloo"
        slurm = int(os.environ.get("SLURM_NTASKS", 1)) > 1  # processes are running; fairseq gets the address from Slurm
        if group.distributed_init_method is None and not group.distributed_no_spawn and not slurm:
            port = group.distributed_port if group.distributed_port > 0 else free_port()
            group.distributed_init_method = f"tcp://localhost:{port}"
            torch.multiprocessing.spawn(_one_of_several, (cfg, main, more), nprocs=group.distributed_world_size)
            return
        group.distributed_no_spawn = True  # with a given address, the user starts each process
    call(cfg, main, **more)


def free_port() -> int:
    """Return a port that no program uses; a random one may be taken, which would end the training."""
    with socket.socket() as one:
        one.bind(("", 0))
        return one.getsockname()[1]


def _by_torchrun() -> bool:
    """Return whether torchrun, or a program that sets the same variables, has started several processes."""
    wanted = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")
    return all(name in os.environ for name in wanted) and os.environ["WORLD_SIZE"] != "1"


def _one_of_several(number: int, cfg, main, more: dict) -> None:
    """Run one of the processes that ``_call_main`` starts on a CPU. Raise UserError for what a user can correct."""
    cfg.distributed_training.distributed_rank, cfg.distributed_training.distributed_no_spawn = number, True
    try:
        distributed.call_main.__wrapped__(cfg, main, **more)
    except Exception as error:
        message = errors.explain(error)
        if message is None:
            raise
        raise errors.UserError(message) from error


def _distributed_data_parallel(module, device_ids, output_device, **more):
    if next(module.parameters()).device.type == "cpu":
        device_ids = output_device = None
    return DistributedDataParallel(module, device_ids=device_ids, output_device=output_device, **more)
