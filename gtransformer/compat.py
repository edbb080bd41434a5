"""The platform: is it usable; may fairseq's checkpoints be read with PyTorch's safe loader; what of it is mended."""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import sys
import warnings

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
    quiet_hydra()
    quiet_saving()


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


def quiet_saving() -> None:
    """Leave the traceback out that fairseq logs where a checkpoint cannot be written: the error itself is said."""
    logging.getLogger("fairseq.checkpoint_utils").addFilter(_is_no_traceback)


def _is_no_traceback(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("Traceback ")


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
