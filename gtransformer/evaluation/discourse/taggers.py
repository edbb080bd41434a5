"""Part-of-speech tags by spaCy, an optional extra; its models are installed apart from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gtransformer.errors import UserError
from gtransformer.evaluation.discourse.rules import Token

# The paper's taggers (appendix A.1).
MODELS = {"en": "en_core_web_sm", "de": "de_core_news_sm"}


class Tagger:
    """Tags sentences with a spaCy model.

    Raises UserError, saying what to install, where spaCy or the model is not there or the model does not tag.
    """

    def __init__(self, model: str):
        try:
            import spacy
        except ImportError as error:
            raise UserError(
                f"spaCy is not installed ({error}); install it with: pip install '.[discourse]', then the model with: "
                f"python -m spacy download {model}"
            ) from None
        try:
            # Neither parses nor names are needed; without them tagging is several times faster.
            self._nlp = spacy.load(model, exclude=["parser", "ner", "lemmatizer", "senter"])
        except (OSError, ImportError):
            raise UserError(
                f"the spaCy model {model} is not installed; get it with: python -m spacy download {model}, or give the "
                "name or directory of another with --source-model, --target-model"
            ) from None
        self.name = f"{model}|version:{self._nlp.meta.get('version', 'unknown')}|spacy:{spacy.__version__}"

    def __call__(self, sentences: Sequence[str]) -> Iterator[list[Token]]:
        """The tokens of every sentence."""
        for text, document in zip(sentences, self._nlp.pipe(sentences), strict=True):
            tokens = [Token(token.text, token.pos_) for token in document]
            if text.strip() and not any(token.pos for token in tokens):
                raise UserError(f"the spaCy model {self.name.split('|')[0]} gives no parts of speech; choose another")
            yield tokens
