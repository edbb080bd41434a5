"""G-Transformer for document-level machine translation: a fairseq plugin (``--user-dir gtransformer``)."""

from gtransformer import compat  # isort: skip  (checks versions before anything of fairseq is used)

compat.check()

from gtransformer import criterions, models, optim, tasks  # noqa: E402, F401  (registers with fairseq)
from gtransformer.errors import install_excepthook  # noqa: E402
from gtransformer.preprocess.chain import read_encoded  # noqa: E402
from gtransformer.tasks import first_pass  # noqa: E402

first_pass.read_plain_text = read_encoded
install_excepthook()

__version__ = "0.1.0"


def __getattr__(name: str):
    """``gtransformer.GTransformer``, imported when it is asked for: fairseq's commands have no use for it."""
    if name == "GTransformer":
        from gtransformer.translation.api import GTransformer

        return GTransformer
    raise AttributeError(f"module 'gtransformer' has no attribute '{name}'")
