"""A trained model made ready to score translations, and text made ready for it by the steps of its corpus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from fairseq.data import Dictionary

from gtransformer.errors import UserError
from gtransformer.evaluation.layouts import Layout, Sentences, joined_layout, marked_layout
from gtransformer.evaluation.sentence_scores import SentenceScorer
from gtransformer.files import read_json
from gtransformer.preprocess.bpe import Encoder
from gtransformer.preprocess.moses import moses_directory
from gtransformer.preprocess.tokenise import Tokeniser
from gtransformer.preprocess.truecase import Truecaser


def load_scorer(
    prepared: Path, checkpoint: Path, target_lang: str, max_tokens: int, cpu: bool, separator: str | None = None
) -> SentenceScorer:
    """The model of a checkpoint, ready to score translations of the prepared corpus; UserError if there is none.

    Models of the task ``translation_doc`` and of fairseq's ``translation`` serve. The latter read sentences joined by
    ``separator`` or, without one, as the prepared corpus holds them (``layouts``).
    """
    import torch
    from fairseq.checkpoint_utils import load_model_ensemble_and_task

    if not checkpoint.is_file():
        raise UserError(f"{checkpoint}: no such file; train the model first")
    data = str(prepared / "bin")
    (model,), _, task = load_model_ensemble_and_task([str(checkpoint)], arg_overrides={"data": data})
    if torch.cuda.is_available() and not cpu:
        model = model.cuda()
    source, target = task.source_dictionary, task.target_dictionary
    layouts = choose_layouts(task, source, target, separator)
    return SentenceScorer(model, source, target, target_lang, max_tokens, layouts)


def choose_layouts(task, source: Dictionary, target: Dictionary, separator: str | None) -> tuple[Layout, Layout] | None:
    """How the models of a task write documents; None for this package's. UserError for a needless separator."""
    from gtransformer.tasks.translation_doc import TranslationDocTask

    if isinstance(task, TranslationDocTask):
        if separator is not None:
            raise UserError("--separator is for models of fairseq's translation task; this one marks sentences by <s>")
        return None
    if separator is None:
        return marked_layout(source), marked_layout(target)
    return joined_layout(source, separator), joined_layout(target, separator)


def read_settings(prepared: Path) -> dict:
    """The settings that a corpus was prepared with; UserError if it is not a prepared corpus."""
    try:
        return read_json(prepared / "manifest.json")["settings"]
    except (KeyError, TypeError):
        raise UserError(f"{prepared / 'manifest.json'}: no manifest of a prepared corpus; prepare it again") from None


def sentence_encoder(
    prepared: Path, lang: str, dictionary: Dictionary, moses: str | None = None, tokenised: bool = False
) -> Callable[[Sequence[str]], Sentences]:
    """A function from plain sentences to token indices, by the same steps that prepared the corpus.

    ``tokenised``: the sentences are so already; they are only truecased and cut by BPE.
    """
    settings = read_settings(prepared)
    tool = moses_directory(moses or settings["moses"]) if settings["moses"] else None
    tokeniser = Tokeniser(lang, tool, settings["normalise_punctuation"])
    truecaser = Truecaser(prepared / f"truecase.{lang}", tool)
    bpe = Encoder(prepared / "bpe.codes")

    def encode(texts: Sequence[str]) -> Sentences:
        words = texts if tokenised else tokeniser(texts)
        return [[dictionary.index(word) for word in line.split()] for line in bpe(truecaser(words))]

    return encode
