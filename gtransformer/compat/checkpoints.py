"""fairseq's checkpoints with PyTorch's safe loader: which classes they may hold, and errors that name the file."""

from __future__ import annotations

import argparse
from functools import wraps


def mend() -> None:
    """Allow-list the harmless types that fairseq stores in checkpoints, for ``torch.load(weights_only=True)``.

    PyTorch refuses unknown types since 2.6. Only plain data holders are listed: argument namespaces, OmegaConf
    containers, numpy scalars, and what stands for a tensor in a checkpoint that the first of several processes hands to
    the others; the loader stays safe.
    """
    name_files()
    import typing
    from collections import OrderedDict, defaultdict

    import numpy
    import omegaconf
    import torch
    from fairseq.distributed.utils import _TensorPlaceholder
    from fairseq.logging import meters
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
            # Until fairseq 0.9 checkpoints held meters.
            *(
                (kind, f"fairseq.meters.{kind.__name__}")
                for kind in (meters.AverageMeter, meters.TimeMeter, meters.StopwatchMeter)
            ),
            *(type(numpy.dtype(kind)) for kind in ("float64", "float32", "int64", "int32", "bool")),
        ]
    )


def name_files() -> None:
    """Let errors of reading and writing a checkpoint name it. fairseq's, and PyTorch's, have no path."""
    from fairseq import checkpoint_utils

    from gtransformer import errors

    read, write = checkpoint_utils.load_checkpoint_to_cpu, checkpoint_utils.torch_persistent_save
    if hasattr(read, "__wrapped__"):  # done before
        return

    @wraps(read)
    def load_checkpoint_to_cpu(path, *arguments, **options):
        errors.last_checkpoint = path
        try:
            return read(path, *arguments, **options)
        except Exception as error:
            if message := errors.unreadable_checkpoint(error):
                raise errors.UserError(message) from error
            raise

    @wraps(write)
    def torch_persistent_save(value, filename, *arguments, **options):
        try:
            write(value, filename, *arguments, **options)
        except Exception as error:
            if isinstance(filename, str) and (full := errors.no_room(error)):
                full.filename = full.filename or filename
            raise

    checkpoint_utils.load_checkpoint_to_cpu = load_checkpoint_to_cpu
    checkpoint_utils.torch_persistent_save = torch_persistent_save
