"""The platform: is it usable; may fairseq's checkpoints be read with PyTorch's safe loader; what of it is mended."""

from __future__ import annotations

import argparse
import copy
import functools
import importlib.metadata
import inspect
import logging
import os
import random
import sys
import warnings
from difflib import get_close_matches
from functools import partial, wraps

from gtransformer.errors import UserError

FAIRSEQ = "fairseq-fixed==0.12.3.1"
MINIMUM_TORCH = (2, 6)


def check() -> None:
    """Raise ImportError, in one line that says what to install, if Python, PyTorch or fairseq cannot be used."""
    if not (3, 11) <= sys.version_info[:2]:
        found = ".".join(map(str, sys.version_info[:2]))
        raise ImportError(f"gtransformer needs Python 3.11 or newer, this is {found}: run 'bash scripts/setup.sh'")
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"gtransformer needs PyTorch ({error}): pip install 'torch>=2.6'") from None
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version < MINIMUM_TORCH:
        raise ImportError(f"gtransformer needs PyTorch 2.6 or newer, found {torch.__version__}: pip install -U torch")
    _check_fairseq()
    allow_fairseq_checkpoints()
    unscale_once()
    go_on_timing()
    launch_anywhere()
    quiet_hydra()
    compose_quickly()
    say_unknown_architectures()


def quiet_hydra() -> None:
    """Leave out what hydra says of how fairseq uses it, at the head of every log, and nobody can act on."""
    logging.getLogger("hydra").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", category=UserWarning, module=r"hydra\.")
    for begin in (
        "'config' is validated against ConfigStore",
        "The strict flag in the compose API",
        "The version_base",
    ):
        warnings.filterwarnings("ignore", message=rf"\s*{begin}", category=UserWarning)


def compose_quickly() -> None:
    """Leave out most of the half a second that hydra takes to compose fairseq's configuration at every start.

    It parses 300 settings, nearly all at their defaults, by a grammar; copies all configurations that it knows although
    it makes those that it changes anew; and looks for the source lines of every caller of its caller. What comes out is
    the same (a test compares).
    """
    from hydra._internal import config_repository, utils
    from hydra.core.override_parser.overrides_parser import OverridesParser

    if isinstance(utils.inspect, _Inspect):
        return  # done
    parse = functools.lru_cache(maxsize=4096)(functools.partial(OverridesParser.parse_rule, OverridesParser.create()))
    OverridesParser.parse_rule = lambda self, text, rule: copy.copy(parse(text, rule))
    config_repository.CachingConfigRepository.__init__ = _keep_in_memory
    utils.inspect = _Inspect()


def _keep_in_memory(self, delegate) -> None:
    """hydra's ``CachingConfigRepository`` with a copy of the repository, not of all that its sources hold."""
    self.delegate, self.cache = copy.copy(delegate), {}


class _Inspect:
    """Python's ``inspect``, but for lines of source in the frames of ``stack``, which hydra does not use."""

    def __getattr__(self, name: str):
        return getattr(inspect, name)

    def stack(self) -> list[inspect.FrameInfo]:
        return inspect.stack(context=0)[1:]


def _check_fairseq() -> None:
    # fairseq's speech task asks for tensorboardX at every import; tensorboard, which serves as well, is installed.
    logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)
    installed = {name for name in ("fairseq", "fairseq-fixed") if _is_installed(name)}
    if "fairseq" in installed:
        raise ImportError(
            "the package 'fairseq' of PyPI cannot be used on this Python and overwrites fairseq-fixed: "
            f"pip uninstall -y fairseq fairseq-fixed && pip install --no-build-isolation {FAIRSEQ}"
        )
    try:
        import fairseq.models  # noqa: F401
    except ImportError as error:
        raise ImportError(f"gtransformer needs fairseq ({error}): pip install --no-build-isolation {FAIRSEQ}") from None


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def allow_fairseq_checkpoints() -> None:
    """Allow-list the harmless types that fairseq stores in checkpoints, for ``torch.load(weights_only=True)``.

    PyTorch refuses unknown types since 2.6. Only plain data holders are listed: argument namespaces, OmegaConf
    containers, numpy scalars, and what stands for a tensor in a checkpoint that the first of several processes hands to
    the others; the loader stays safe.
    """
    import typing
    from collections import OrderedDict, defaultdict

    import numpy
    import omegaconf
    import torch
    from fairseq.distributed.utils import _TensorPlaceholder
    from omegaconf.base import ContainerMetadata, Metadata
    from omegaconf.nodes import AnyNode, BooleanNode, FloatNode, IntegerNode, StringNode

    try:
        from numpy._core.multiarray import _reconstruct, scalar
    except ImportError:  # numpy 1.x
        from numpy.core.multiarray import _reconstruct, scalar

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
            omegaconf.DictConfig,
            omegaconf.ListConfig,
            ContainerMetadata,
            Metadata,
            AnyNode,
            BooleanNode,
            FloatNode,
            IntegerNode,
            StringNode,
            numpy.dtype,
            numpy.ndarray,
            _reconstruct,
            scalar,
            (scalar, "numpy.core.multiarray.scalar"),
            (_reconstruct, "numpy.core.multiarray._reconstruct"),
            *(type(numpy.dtype(kind)) for kind in ("float64", "float32", "int64", "int32", "bool")),
        ]
    )


def unscale_once() -> None:
    """Let gradients of a training with ``--amp`` be divided by the loss scale once.

    fairseq's ``AMPOptimizer`` tells the scaler to unscale PyTorch's optimizer, so that gradients can be clipped, but to
    step fairseq's around it: another one to the scaler, which divides once more. What is left lies far below Adam's eps
    as soon as the scale has grown, and next to nothing is learned.
    """
    from fairseq.optim import AMPOptimizer

    AMPOptimizer.clip_grad_norm = _clip_unscaled


def _clip_unscaled(self, max_norm, aggregate_norm_fn=None):
    """fairseq's ``AMPOptimizer.clip_grad_norm``, but for the optimizer whose gradients are said to be unscaled."""
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


def go_on_timing() -> None:
    """Let the time in the log of a training (``wall``) go on from 0 when it is resumed in the middle of an epoch.

    fairseq restores the stopwatch from the checkpoint as one that stands, and every later line says 0.
    """
    from fairseq.logging.meters import StopwatchMeter

    StopwatchMeter.load_state_dict = _restore_running


def _restore_running(self, state_dict) -> None:
    """fairseq's ``StopwatchMeter.load_state_dict``, but that it runs."""
    self.sum, self.n, self.round = state_dict["sum"], state_dict["n"], state_dict.get("round")
    self.start()


def say_unknown_architectures() -> None:
    """Let ``--arch`` with a name that is none be said in one sentence, instead of behind a list of all names."""
    from fairseq import options

    def with_checked_architecture(parser, add=options.add_model_args):
        group = add(parser)
        (action,) = (one for one in group._group_actions if one.dest == "arch")
        known, action.choices = list(action.choices), None
        action.type = partial(_known_architecture, known=known)
        return group

    if not hasattr(options.add_model_args, "__wrapped__"):
        options.add_model_args = wraps(options.add_model_args)(with_checked_architecture)


def _known_architecture(name: str, known: list[str]) -> str:
    if name not in known:
        like = get_close_matches(name, known) or ["gtransformer_base", "doc_transformer_base"]
        raise UserError(
            f"--arch: there is no architecture '{name}'; {len(known)} are known, {', '.join(like)} and others"
        )
    return name


def launch_anywhere() -> None:
    """Let a training in several processes run on CPUs as on GPUs, whoever starts them.

    fairseq asks how many GPUs there are at every turn: torchrun fails where there is none, and where a machine has one,
    each process trains by itself, since fairseq takes part in nothing of world size 1; its own launcher starts no
    process on a CPU; its PyTorch wrapper wants the number of a GPU.
    """
    from fairseq.distributed import utils
    from fairseq.models import distributed_fairseq_model
    from torch.nn.parallel import DistributedDataParallel

    if utils.call_main is not _call_main:
        _call_main.fairseqs, utils.call_main = utils.call_main, _call_main

    def wrapped(module, device_ids, output_device, **options):
        if next(module.parameters()).device.type == "cpu":
            device_ids = output_device = None
        return DistributedDataParallel(module, device_ids=device_ids, output_device=output_device, **options)

    distributed_fairseq_model.DistributedDataParallel = wrapped


def _call_main(cfg, main, **options):
    """fairseq's ``call_main``, but that processes of torchrun find each other, and those on CPUs are started."""
    import torch

    group, on_cpu = cfg.distributed_training, cfg.common.cpu or not torch.cuda.is_available()
    if group.distributed_init_method is None and _by_torchrun():
        group.distributed_init_method = "env://"
        group.distributed_world_size, group.distributed_rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
        group.device_id = int(os.environ.get("LOCAL_RANK", group.distributed_rank)) % max(1, torch.cuda.device_count())
        group.distributed_no_spawn = True
    if on_cpu and group.distributed_world_size > 1:
        group.distributed_backend = "gloo"
        slurm = int(os.environ.get("SLURM_NTASKS", 1)) > 1  # which has started them; fairseq asks it where they meet
        if group.distributed_init_method is None and not group.distributed_no_spawn and not slurm:
            port = group.distributed_port if group.distributed_port > 0 else random.randint(10_000, 60_000)
            group.distributed_init_method = f"tcp://localhost:{port}"
            torch.multiprocessing.spawn(_one_of_several, (cfg, main, options), nprocs=group.distributed_world_size)
            return
        group.distributed_no_spawn = True  # who names the meeting point starts each process
    _call_main.fairseqs(cfg, main, **options)


def _by_torchrun() -> bool:
    """Whether this is one of several processes that torchrun, or a program that sets what it sets, has started."""
    wanted = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")
    return all(name in os.environ for name in wanted) and os.environ["WORLD_SIZE"] != "1"


def _one_of_several(number: int, cfg, main, options: dict) -> None:
    """One process of those that ``_call_main`` starts on a CPU."""
    group = cfg.distributed_training
    group.distributed_rank, group.distributed_no_spawn = number, True
    _call_main.fairseqs(cfg, main, **options)
