"""What fairseq sees: the task, its data, the systems, the criterion, the optimizers, and patches of
fairseq.
"""

from __future__ import annotations

import importlib.metadata

FAIRSEQ = "fairseq-fixed==0.12.3.1"
MINIMUM_TORCH = (2, 6)


def check_platform() -> None:
    """Raise ImportError with the command that helps for an old PyTorch and for PyPI's own
    fairseq.
    """
    import torch

    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version < MINIMUM_TORCH:
        raise ImportError(
            f"gtransformer needs PyTorch 2.6 or newer, found {torch.__version__}: pip install -U "
            "torch"
        )
    if _is_installed("fairseq"):
        raise ImportError(
            "the package 'fairseq' of PyPI cannot be used on this Python and overwrites "
            "fairseq-fixed: "
            f"pip uninstall -y fairseq fairseq-fixed && pip install --no-build-isolation {FAIRSEQ}"
        )


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def patch_fairseq() -> None:
    """Import fairseq and apply the patches."""
    import fairseq.models  # noqa: F401

    from gtransformer.plugin.patches import patch

    patch()


check_platform()
patch_fairseq()
