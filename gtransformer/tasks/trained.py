"""A trained model and its task from a checkpoint."""

from __future__ import annotations

from pathlib import Path

from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq.models import FairseqEncoderDecoderModel

from gtransformer.errors import UserError, explain


def load_trained(checkpoint: str | Path, **overrides) -> tuple[FairseqEncoderDecoderModel, object]:
    """The model of a checkpoint, ready to be used, and the fairseq task that it was trained for.

    Args:
        overrides: values that take the place of the stored configuration's (``data="prepared/bin"``).

    Raises UserError, in one sentence, if the file is missing or damaged, does not fit the dictionaries, or holds
    another kind of model than an encoder with a decoder.
    """
    try:
        (model,), _, task = load_model_ensemble_and_task([str(checkpoint)], overrides)
    except Exception as error:
        message = explain(error)
        if message is None:
            raise
        raise UserError(message) from None
    if not isinstance(model, FairseqEncoderDecoderModel):
        raise UserError(f"{checkpoint}: holds a {type(model).__name__}, not a translation model; give another one")
    return model.eval(), task
