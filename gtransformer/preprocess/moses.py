"""Moses' rules by sacremoses, tokenisation and truecasing, then BPE; and the way back."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from gtransformer.data.languages import two_letters
from gtransformer.preprocess.bpe import apply_bpe, read_bpe, remove_bpe_lines
from gtransformer.preprocess.pieces import as_tokens

_LIKE_BPE = re.compile(
    r"@@+(?!\S)"
)  # a token that ends like a BPE subword would be joined with the next word


class Moses:
    """Moses' rules for one language.

    Args:
        truecaser: a model of Moses' truecaser; None: text is not truecased.
        codes: BPE codes; None: words stay whole.
        known: the words of a dictionary, for the codes of a given model (``read_bpe``).
        escaped: tokenise as fairseq's examples and published models, with ``&quot;`` and split
            dashes (``@-@``).
    """

    def __init__(
        self,
        lang: str,
        truecaser: Path | None = None,
        codes: Path | None = None,
        known: Iterable[str] | None = None,
        escaped: bool = False,
    ):
        # The library takes a second to read its tables of characters.
        from sacremoses import MosesDetokenizer, MosesDetruecaser, MosesTokenizer, MosesTruecaser

        self.escaped = escaped
        self._tokenizer = MosesTokenizer(two_letters(lang))
        self._detokenizer = MosesDetokenizer(two_letters(lang))
        self._truecaser = MosesTruecaser(str(truecaser)) if truecaser else None
        self._detruecaser = MosesDetruecaser() if truecaser else None
        self._bpe = read_bpe(codes, known) if codes else None

    def split(self, lines: Sequence[str]) -> list[str]:
        """Tokenise, truecase and split plain lines."""
        return self.subwords(self.truecase(self.tokenise(lines)))

    def tokenise(self, lines: Sequence[str]) -> list[str]:
        """Tokenise plain lines; tokens are separated by single spaces."""
        form = {"escape": self.escaped, "aggressive_dash_splits": self.escaped}
        tokenised = [as_tokens(self._tokenizer.tokenize(line, **form), line) for line in lines]
        return [_LIKE_BPE.sub(lambda signs: " ".join(signs[0]), line) for line in tokenised]

    def truecase(self, lines: Sequence[str]) -> list[str]:
        """Truecase tokenised lines, as Moses does: words in a casing seen in training keep it
        within a sentence.
        """
        if self._truecaser is None:
            return list(lines)
        return [self._truecaser.truecase(line, return_str=True, use_known=True) for line in lines]

    def subwords(self, lines: Sequence[str]) -> list[str]:
        """Split tokenised, truecased lines by BPE."""
        return list(lines) if self._bpe is None else apply_bpe(self._bpe, lines)

    def join(self, lines: Sequence[str]) -> list[str]:
        """Return subwords as plain lines."""
        lines = remove_bpe_lines(lines)
        if self._detruecaser:
            lines = [self._detruecaser.detruecase(line, return_str=True) for line in lines]
        return [self._detokenizer.detokenize(line.split(), unescape=self.escaped) for line in lines]


def learn_truecaser(lines: Iterable[str], model: Path) -> None:
    """Learn Moses' truecaser from tokenised lines and write its model."""
    from sacremoses import MosesTruecaser

    truecaser, casing = MosesTruecaser(), defaultdict(Counter)
    for line in lines:  # the library's own loop holds all words of the corpus in memory
        for lower, word, weight in truecaser.learn_truecase_weights(line.split()):
            casing[lower][word] += weight
    truecaser.model = {"casing": casing}
    truecaser.save_model(str(model))
