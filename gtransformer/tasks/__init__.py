"""The task translation_doc; importing it registers all that the package adds to fairseq."""

from gtransformer import compat  # isort: skip  # noqa: F401  (before anything of fairseq)

from gtransformer import criterions, optim  # noqa: F401
from gtransformer.plugin import models  # noqa: F401
from gtransformer.tasks import translation_doc  # noqa: F401
