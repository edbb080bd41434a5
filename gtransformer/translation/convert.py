"""Make a model directory of a sentence model that another toolkit has trained (``gtransformer model
convert``).

The model in it is a G-Transformer with group attention alone: of a document it computes sentence by
sentence what the sentence model does. Fine-tuning adds global attention behind gates that change
nothing at first.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from gtransformer.data.dictionaries import NEVER, Vocabulary, control_symbols
from gtransformer.data.sides import Sides
from gtransformer.models.common.config import OFF, SENTENCE
from gtransformer.models.common.model import DocumentModel
from gtransformer.models.from_sentence_model import SentenceModel, read_sentence_model
from gtransformer.models.from_sentence_model.sentence_model import SPECIAL, ModelVocabulary
from gtransformer.models.gtransformer import GTransformerConfig, GTransformerModel
from gtransformer.preprocess.chain import (
    SENTENCEPIECE_FILE,
    TARGET_PIECES,
    TOKENIZER_FILE,
    Text,
)
from gtransformer.preprocess.tokenisers import SentencePieces
from gtransformer.translation.model_directory import check_search, new_directory, write_model
from gtransformer.translation.options import SearchOptions

INSTANCE_TOKENS = 1024  # of documents cut by --strategy; an instance is one sentence
SIGNS = "‘’‚“”„‹›«»–—…"  # that Moses' normaliser replaces, and small vocabularies lack


def convert(
    path: str | Path,
    output: str | Path,
    source_lang: str,
    target_lang: str,
    search: Mapping[str, Any],
    origin: dict[str, Any],
    vocabulary: Sequence[Path] = (),
    normalise: bool | None = None,
) -> dict[str, Any]:
    """Write the model directory ``output``, whole or not at all, and return its manifest.

    Args:
        path, source_lang, target_lang, vocabulary: as of ``read_sentence_model``.
        search: default options of search (``SearchOptions``); None, or left out: beam 5, and no
            <unk>.
        origin: command, commit, versions and date, for the manifest.
        normalise: whether Moses' rules normalise punctuation; None: of the source, if that makes
            signs known which the source vocabulary lacks, and of the target, if its vocabulary
            lacks the same. The manifest names them (``unknown_signs``).

    Raises UserError if ``output`` exists, for what ``read_sentence_model`` refuses, and if the
    model cannot search like that.
    """
    pair = source_lang, target_lang
    model = read_sentence_model(
        Path(path), *pair, lambda file: SentencePieces(file).words(), vocabulary
    )
    options = SearchOptions(unkpen=NEVER).given(search)  # Marian itself never writes <unk>
    # A sign that the vocabulary lacks would be read as <unk>.
    signs = unknown_signs(model.source, source_lang)
    keeps = normalise is None and not {*signs} <= {*unknown_signs(model.target, target_lang)}
    settings = {
        "source_lang": source_lang,
        "target_lang": target_lang,
        "langs": list(pair),
        "max_instance_tokens": INSTANCE_TOKENS,
        "max_sents": 1,  # each with a beam of its own, as the sentence model searches
        "normalise_punctuation": bool(signs) if normalise is None else normalise,
        "kept_punctuation": target_lang if keeps else None,
        "source_prefix": model.source.prefix,
        "target_prefix": model.target.prefix,
    }
    check_search(settings, options)
    built = document_model(model, pair)
    with new_directory(Path(output)) as folder:
        for lang, side in zip(pair, (built.encoder, built.decoder), strict=True):
            side.dictionary.save(folder / f"dict.{lang}.txt")
        name = TOKENIZER_FILE if model.source.pieces.suffix == ".json" else SENTENCEPIECE_FILE
        shutil.copyfile(model.source.pieces, folder / name)
        # OPUS-MT's models have a SentencePiece model for each side, NLLB and mBART one for both.
        if model.source.pieces.read_bytes() != model.target.pieces.read_bytes():
            shutil.copyfile(model.target.pieces, folder / TARGET_PIECES)
        facts = {
            "converted_from": model.kind,
            "checkpoint": model.file,
            "dropout": model.structure["dropout"],
            "unknown_signs": signs,
        }
        return write_model(folder, built, settings, options, facts | origin)


def unknown_signs(side: ModelVocabulary, lang: str) -> str:
    """Return the signs that a side does not know but for Moses' normaliser."""
    known, pieces = {*side.words}, SentencePieces(side.pieces)
    plain, normal = Text(pieces, lang), Text(pieces, lang, normalise=True)

    def knows(text: Text, sign: str) -> bool:
        return known.issuperset(text.encode([sign])[0].split())

    return "".join(sign for sign in SIGNS if knows(normal, sign) and not knows(plain, sign))


def document_model(model: SentenceModel, pair: tuple[str, str]) -> DocumentModel:
    """Return a model of this package with the parameters that were read.

    Raises UserError where parameters do not fit the structure.
    """
    words = (side.entries(control_symbols(pair)) for side in (model.source, model.target))
    sides = Sides(*map(Vocabulary, words), pair, pair)
    cfg = GTransformerConfig(
        encoder_ctxlayers=0,
        decoder_ctxlayers=0,
        cross_ctxlayers=0,
        # Counted anew in every sentence, as the sentence model does.
        positions=SENTENCE,
        marks_loss=OFF,
        first_output_word=model.first_output,
        # The symbols behind them are no words that it could write.
        output_words=len(SPECIAL) + len(model.target.entries([])),
        target_prefix=model.target.prefix,
        **model.structure,
    )
    with torch.random.fork_rng(
        devices=[]
    ):  # what no file has, the rows of symbols, is the same each time
        torch.manual_seed(1)
        built = GTransformerModel.build(cfg, sides.source, sides.target)
    built.load_state_dict(built.from_transformer(model.state()))
    return built
