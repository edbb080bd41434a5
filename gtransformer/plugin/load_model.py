"""Load a trained model for scoring translations, and encode text for it as its corpus was
prepared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import nn

from gtransformer.data.dictionaries import Vocabulary
from gtransformer.errors import UserError
from gtransformer.evaluation.sentence_scores import SentenceScorer, TokenLists
from gtransformer.plugin.checkpoints import load_trained
from gtransformer.plugin.options import wants_document
from gtransformer.plugin.task import TranslationDocTask
from gtransformer.preprocess.chain import open_text, read_settings
from gtransformer.preprocess.tokenisers import Moses


def load_model(prepared: Path, checkpoint: Path, cpu: bool) -> tuple[nn.Module, object]:
    """Return a checkpoint's model, for text of the prepared corpus, and its task; ``cpu``: do not
    use a GPU.
    """
    model, task = load_trained(checkpoint, data=str(prepared / "bin"))
    if isinstance(task, TranslationDocTask):
        check_prefix(model, prepared)
    return model.cuda() if torch.cuda.is_available() and not cpu else model, task


def load_scorer(
    prepared: Path, checkpoint: Path, max_tokens: int, cpu: bool
) -> tuple[SentenceScorer, TranslationDocTask]:
    """Return a scorer with a checkpoint's model, for translations of the prepared corpus, and the
    model's task.

    Raises UserError for a model of another task than ``translation_doc``, and for one that reads
    the other instances of its batch, whose scores would depend on them.
    """
    model, task = load_model(prepared, checkpoint, cpu)
    if wants_document(model):
        raise UserError(
            f"{checkpoint}: the model reads the other sentences of its batch, which no text has "
            "here"
        )
    if not isinstance(task, TranslationDocTask):
        raise UserError(
            f"{checkpoint}: not trained with --task translation_doc, so it may not read <s> and "
            "</s>"
        )
    return SentenceScorer(model, task.source_dictionary, task.target_dictionary, max_tokens), task


def check_prefix(model: nn.Module, prepared: Path) -> None:
    """Raise UserError for a corpus whose target sentences do not begin with the word that the model
    is given there.
    """
    word = getattr(model.cfg, "target_prefix", None)
    if word is not None and read_settings(prepared).get("target_prefix") != word:
        raise UserError(
            f"{prepared}: its sentences do not begin with {word}, as the model's do; prepare the "
            "corpus with "
            "--vocabulary and the directory of the converted model"
        )


def sentence_encoder(
    prepared: Path, lang: str, dictionary: Vocabulary, tokenised: bool = False
) -> Callable[[Sequence[str]], TokenLists]:
    """Return a function from plain sentences to token indices, by the same steps that prepared the
    corpus.

    ``tokenised``: the sentences are tokenised by Moses' rules; they are detokenised first.
    """
    text = open_text(prepared, lang)
    detokeniser = Moses(lang) if tokenised else None

    def encode(texts: Sequence[str]) -> TokenLists:
        plain = detokeniser.join(texts) if detokeniser else texts
        return [[dictionary.index(word) for word in line.split()] for line in text.encode(plain)]

    return encode
