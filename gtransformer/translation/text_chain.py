"""Plain text to what the model reads and back, just as the model's corpus was prepared."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cached_property

from gtransformer.preprocess.bpe import remove_bpe
from gtransformer.preprocess.chain import PieceJoiner, TextEncoder, never_truecased
from gtransformer.preprocess.tokenise import Detokeniser, moses_as_prepared
from gtransformer.preprocess.truecase import detruecase
from gtransformer.translation.model_directory import ModelDirectory


class TextChain:
    """Tokenise, truecase and BPE for the source, or a pretrained model's own pieces; the way back for the target.

    Moses' scripts are used where the corpus was prepared with them (``moses`` or the variable MOSES names them; if
    neither does, sacremoses stands in, with a warning) or where ``moses`` asks for them.
    """

    def __init__(self, model: ModelDirectory, moses: str | None = None):
        self._model, self._tool = model, moses_as_prepared(model.moses, moses)
        if model.moses and self._tool is None:
            print(
                f"warning: {model.path} was prepared with Moses' scripts; sacremoses stands in for them (--moses DIR "
                "or the variable MOSES names a checkout)",
                file=sys.stderr,
            )
        self._source = TextEncoder(model.path, model.source_lang, self._tool)
        self._pieces = PieceJoiner(model.path) if model.sentencepiece else None
        self._untruecased = never_truecased(model.path, model.target_lang)
        self._exact = not model.moses_rules
        self._detokenise = Detokeniser(model.target_lang, self._tool, self._untruecased, self._exact)

    @cached_property
    def _target(self) -> TextEncoder:
        return TextEncoder(self._model.path, self._model.target_lang, self._tool)

    def encode(self, sentences: Sequence[str]) -> list[list[str]]:
        """Plain source sentences to subwords; as many come back as went in."""
        return [line.split() for line in self._source(sentences)]

    def encode_target(self, sentences: Sequence[str]) -> list[list[str]]:
        """The same for plain sentences of the target language."""
        return [line.split() for line in self._target(sentences)]

    def decode(self, sentences: Sequence[str]) -> list[str]:
        """Sentences of subwords of the target language to plain text, each on one line."""
        if self._pieces:
            plain = self._pieces.plain_lines(sentences)
        else:
            words = [remove_bpe(line) for line in sentences]
            plain = self._detokenise(words if self._untruecased else detruecase(words, self._tool, self._exact))
        # A tab would be taken for the end of a column, a line break for the end of a sentence.
        return [" ".join(line.split()) for line in plain]
