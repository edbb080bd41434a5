"""The text that the authors' release scores: whole instances, put together and detokenised, then cut into sentences.

The release generates with ``--tokenizer moses --remove-bpe --sacrebleu``: subwords are joined, the string of a whole
instance, its separators among the words, goes through sacremoses' detokeniser as fairseq calls it
(``MosesDetokenizer(lang).detokenize(x.split())``), translation and reference alike, and only then is it cut at the
separators. Truecasing is not undone. Detokenising is not the same before and after the cut: quotation marks are counted
through the whole instance, so that one that is missing turns those of all later sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gtransformer.preprocess.bpe import remove_bpe_lines
from gtransformer.preprocess.encode import is_exact
from gtransformer.preprocess.instances import END
from gtransformer.preprocess.pieces import SENTENCEPIECE_FILE
from gtransformer.preprocess.tokenise import sacremoses
from gtransformer.preprocess.truecase import without_marks


def cut_when_detokenised(sentences: Sequence[str], detokenise: Callable[[list[str]], str]) -> list[str]:
    """The sentences of one instance, detokenised together: as many come back as went in.

    Args:
        sentences: words separated by spaces, without ``<s>`` and ``</s>``.
        detokenise: a list of words to a text.

    ``</s>`` stands behind every sentence as a word of its own, an ordinary one to the detokeniser, and the text is cut
    there; blanks at the cuts go. Where a sentence holds that text itself, another mark of its kind is taken.
    """
    number, mark = 0, END
    while True:
        words = [word for sentence in sentences for word in (*sentence.split(), mark)]
        *parts, _ = detokenise(words).split(mark)
        if len(parts) == len(sentences):
            return [part.strip() for part in parts]
        number += 1
        mark = f"{END[:-1]}{number}{END[-1]}"


def fairseq_join(sentences: Sequence[str]) -> list[str]:
    """Join SentencePiece's pieces as fairseq's ``--remove-bpe sentencepiece`` does; bytes stay as they are written."""
    from fairseq.data import data_utils  # here, since it loads PyTorch

    return [data_utils.post_process(sentence, "sentencepiece") for sentence in sentences]


class ReleaseText:
    """Turns the pieces of instances of a prepared corpus into the release's text.

    Always sacremoses', whatever MOSES says: that is what the release calls. ``lang`` is the target language as the
    corpus has it; mBART's ``de_DE`` is ``de``.

    What other rules than Moses' have put into a corpus's tokens goes first; its scores are near the release's only.
    """

    detokeniser = "sacremoses"

    def __init__(self, prepared: str | Path, lang: str):
        pieces = (Path(prepared) / SENTENCEPIECE_FILE).is_file()
        self._join = fairseq_join if pieces else remove_bpe_lines
        self._exact = not pieces and is_exact(prepared)
        self._detokenise = sacremoses().MosesDetokenizer(lang.partition("_")[0]).detokenize

    def instance(self, sentences: Sequence[str]) -> list[str]:
        """The sentences of one instance, subwords as the model writes them, as many as went in."""
        joined = self._join(sentences)
        return cut_when_detokenised(
            [without_marks(line) for line in joined] if self._exact else joined, self._detokenise
        )
