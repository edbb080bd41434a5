"""Load a trained model and its task from a checkpoint."""

from __future__ import annotations

from pathlib import Path

from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq.dataclass.utils import overwrite_args_by_name
from fairseq.models import FairseqEncoderDecoderModel
from omegaconf import OmegaConf

from gtransformer.data.batching import NOTHING, SIZE
from gtransformer.data.instances import STORED
from gtransformer.errors import UserError, explain
from gtransformer.search.strategies import FULL
from gtransformer.tasks.checkpoints import load_lazily

# Options for translating given instances as they are, whatever instances the model was trained on.
AS_GIVEN = {
    "instances": STORED,
    "instance_tokens": None,
    "context_sentences": None,
    "target_context_sentences": None,
    "context_loss": "on",
    "batch_order": SIZE,
    "shuffled_context": NOTHING,
    "strategy": FULL,
    "window_tokens": None,
    "eval_bleu": False,
    "gen_output": None,
    "prepend_bos": False,
    "doc_constraint": False,  # --sentence-rule is set instead
}
# Options for measuring on unchanged text: no word dropout, and no added, omitted or permuted instances.
AS_IT_IS = {
    "doc_noise_mask": 0.0,
    "more_training_data": None,
    "training_weights": None,
    "max_pair_tokens": None,
    "shuffled_context": NOTHING,
}


def load_trained(checkpoint: str | Path, **overrides) -> tuple[FairseqEncoderDecoderModel, object]:
    """Load the model of a checkpoint or model directory, in evaluation mode, and its fairseq task.

    Args:
        overrides: values that replace the stored configuration's (``data="prepared/bin"``).

    Raises UserError if the file is missing or damaged, does not fit the dictionaries, or is no encoder-decoder model.
    """
    try:
        state = None
        if Path(checkpoint).is_dir():
            state = load_lazily(Path(checkpoint))
            state["cfg"] = OmegaConf.create(state["cfg"])
            overwrite_args_by_name(state["cfg"], overrides)
        (model,), _, task = load_model_ensemble_and_task([str(checkpoint)], overrides, state=state)
    except Exception as error:  # a damaged file, or another model's, makes the loader raise anything
        message = explain(error)
        reason = " ".join(str(error).split())[:300]
        raise UserError(message or f"checkpoint {checkpoint} cannot be loaded: {reason}") from error
    if not isinstance(model, FairseqEncoderDecoderModel):
        raise UserError(f"{checkpoint}: holds a {type(model).__name__}, not a translation model; give another one")
    return model.eval(), task


