"""Plain text to what the model reads and back, just as the model's corpus was prepared."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gtransformer.preprocess.bpe import Encoder, remove_bpe
from gtransformer.preprocess.moses import moses_directory
from gtransformer.preprocess.tokenise import Detokeniser, Tokeniser
from gtransformer.preprocess.truecase import Truecaser, detruecase
from gtransformer.translation.model_directory import CODES, ModelDirectory


class TextChain:
    """Tokenise, truecase and BPE for the source; the way back for the target.

    Moses' scripts are used where the corpus was prepared with them (``moses`` or the variable MOSES names them; if
    neither does, sacremoses stands in, with a warning) or where ``moses`` asks for them.
    """

    def __init__(self, model: ModelDirectory, moses: str | None = None):
        tool = moses_directory(moses) if model.moses else moses
        if model.moses and tool is None:
            print(
                f"warning: {model.path} was prepared with Moses' scripts; sacremoses stands in for them (--moses DIR "
                "or the variable MOSES names a checkout)",
                file=sys.stderr,
            )
        self._tool = tool
        self._tokenise = Tokeniser(model.source_lang, tool, model.normalise_punctuation)
        self._truecase = Truecaser(model.file(f"truecase.{model.source_lang}"), tool)
        self._bpe = Encoder(model.file(CODES))
        self._target = (
            Tokeniser(model.target_lang, tool, model.normalise_punctuation),
            Truecaser(model.file(f"truecase.{model.target_lang}"), tool),
        )
        self._detokenise = Detokeniser(model.target_lang, tool)

    def encode(self, sentences: Sequence[str]) -> list[list[str]]:
        """Plain source sentences to BPE tokens; as many come back as went in."""
        return [line.split() for line in self._bpe(self._truecase(self._tokenise(sentences)))]

    def encode_target(self, sentences: Sequence[str]) -> list[list[str]]:
        """The same for plain sentences of the target language."""
        tokenise, truecase = self._target
        return [line.split() for line in self._bpe(truecase(tokenise(sentences)))]

    def decode(self, sentences: Sequence[str]) -> list[str]:
        """BPE sentences of the target language to plain text, each on one line."""
        plain = self._detokenise(detruecase([remove_bpe(line) for line in sentences], self._tool))
        # A tab would be taken for the end of a column, a line break for the end of a sentence.
        return [" ".join(line.split()) for line in plain]
