"""Options of window attention."""

from dataclasses import dataclass
from typing import Optional

from fairseq.dataclass import ChoiceEnum

from gtransformer.models.common.config import DocumentModelConfig, option
from gtransformer.models.window.attention import ALIGNMENTS, LINEAR, SENTENCE

POSITIONS = ("absolute", "relative")


# The annotations below must be types, not strings, because fairseq builds its command line from them.
@dataclass
class WindowTransformerConfig(DocumentModelConfig):
    """A Transformer whose attention is a window; defaults are the paper's best (its section 4.3, Table 4)."""

    window: int = option(20, "w: every query sees the keys at most so many positions from the middle of its window")
    window_positions: ChoiceEnum(POSITIONS) = option(
        "relative",
        "absolute: position embeddings at the input; relative: in place of them vectors in self-attention for each "
        "distance up to the window's (Shaw et al. 2018)",
    )
    train_alignment: ChoiceEnum(ALIGNMENTS) = option(
        LINEAR,
        "middle of cross-attention's windows while whole target documents are known (training, scoring). linear: both "
        "documents stretched to one length; sentence: from the first token of the sentence's source on; one-to-one: "
        "the same place",
    )
    decode_alignment: ChoiceEnum(ALIGNMENTS) = option(
        SENTENCE, "the same in decoding, where linear stretches by --length-ratio; --model-overrides changes it"
    )
    length_ratio: Optional[float] = option(  # noqa: UP045
        None,
        "source tokens for each target token, mean over documents; training takes it from its data and saves it with "
        "the model",
    )
