"""G-Transformer for document-level machine translation: a fairseq plugin (``--user-dir
gtransformer``).
"""

import logging
import sys

from gtransformer.errors import install_excepthook

__version__ = "0.1.0"

install_excepthook()
# fairseq's speech task logs at every import that tensorboardX is missing; tensorboard is installed
# and suffices.
logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)


def register() -> None:
    """Register the task, the models, the criteria and the optimizers with fairseq; a second call
    changes nothing.

    It need not be called if fairseq was imported before, as in its commands. Importing the package
    is fast and imports neither PyTorch nor fairseq.

    Raises:
        ImportError: PyTorch or fairseq cannot be used; the message names what to install.
    """
    import gtransformer.plugin.task  # noqa: F401


if "fairseq" in sys.modules:
    register()


def __getattr__(name: str):
    """Import ``gtransformer.GTransformer`` when it is first used."""
    if name == "GTransformer":
        from gtransformer.translation.api import GTransformer

        return GTransformer
    raise AttributeError(f"module 'gtransformer' has no attribute '{name}'")
