"""Check of the platform, and patches of fairseq (``patches``)."""

from __future__ import annotations

import importlib.metadata
import sys

FAIRSEQ = "fairseq-fixed==0.12.3.1"
MINIMUM_TORCH = (2, 6)


def check() -> None:
    """Raise ImportError with the command that helps if Python, PyTorch or fairseq cannot be used."""
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):  # on 3.14 fairseq cannot read its own options: str | None
        found = ".".join(map(str, sys.version_info[:2]))
        raise ImportError(f"gtransformer needs Python 3.11 to 3.13, this is {found}: run 'bash scripts/setup.sh'")
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"gtransformer needs PyTorch ({error}): pip install 'torch>=2.6'") from None
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version < MINIMUM_TORCH:
        raise ImportError(f"gtransformer needs PyTorch 2.6 or newer, found {torch.__version__}: pip install -U torch")
    if _is_installed("fairseq"):
        raise ImportError(
            "the package 'fairseq' of PyPI cannot be used on this Python and overwrites fairseq-fixed: "
            f"pip uninstall -y fairseq fairseq-fixed && pip install --no-build-isolation {FAIRSEQ}"
        )
    try:
        import fairseq.models  # noqa: F401
    except ImportError as error:
        raise ImportError(f"gtransformer needs fairseq ({error}): pip install --no-build-isolation {FAIRSEQ}") from None
    from gtransformer.compat.patches import patch

    patch()


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


check()
