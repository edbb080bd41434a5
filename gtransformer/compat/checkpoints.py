"""fairseq's checkpoints with PyTorch's safe loader: which classes they may hold."""

from __future__ import annotations

import argparse


def mend() -> None:
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
