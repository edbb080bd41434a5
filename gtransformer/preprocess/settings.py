"""Settings of a prepared corpus, and checks of a given vocabulary."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from gtransformer.data.dictionaries import dictionary_words
from gtransformer.errors import UserError
from gtransformer.optional import read_wordpiece_tokeniser
from gtransformer.preprocess.bpe import codes_fit, read_codes
from gtransformer.preprocess.chain import dictionary_of, read_settings, text_files
from gtransformer.preprocess.pieces import SentencePieces

MODEL_KIND = "gtransformer model"  # in the manifest of a model directory
SENTENCEPIECE, MOSES = TOKENISERS = ("sentencepiece", "moses")
# Files of a BERT's tokeniser.
BERT_TOKENISER = ("vocab.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


@dataclass(frozen=True)
class Settings:
    """Settings that determine a prepared corpus, besides the raw files. ``workers`` changes only
    the speed.

    Attributes:
        tokeniser: SentencePiece, or Moses' rules with BPE.
        vocabulary_size: pieces of SentencePiece, or merge operations of BPE.
        sentence_pairs: sentences of raw files that do not begin with ``<d>`` belong to no document.
        vocabulary: a prepared corpus or model directory, which gives all that splits text, and the
            dictionaries.
        sentencepiece: a pretrained model's SentencePiece model, which splits both sides.
        sentencepiece_target: another one, which splits the target side.
        bpe_codes: BPE codes of a fairseq model, which split both sides.
        dictionary: the dictionary of such a model, or a folder with one for each side.
        bert: a folder with a BERT, whose wordpieces split the source side; the source has its own
            dictionary.
        source_prefix, target_prefix: a word at the beginning of every sentence of the side, as in
            ``vocabulary``.
    """

    source_lang: str = "en"
    target_lang: str = "de"
    langs: tuple[str, ...] = ()
    tokeniser: str = SENTENCEPIECE
    vocabulary_size: int = 30_000
    max_instance_tokens: int = 512
    max_sentence_tokens: int = 1024
    max_sents: int | None = None
    sentence_pairs: bool = False
    normalise_punctuation: bool = False
    vocabulary: str | None = None
    workers: int = 1
    sentencepiece: str | None = None
    sentencepiece_target: str | None = None
    bpe_codes: str | None = None
    dictionary: str | None = None
    bert: str | None = None
    source_prefix: str | None = None
    target_prefix: str | None = None

    def check(self) -> None:
        """Raise UserError for values that do not go together."""
        if self.source_lang == self.target_lang:
            raise UserError(
                f"source and target language are both {self.source_lang}; give two with -s and -t"
            )
        if self.langs and not set(self.pair()) <= set(self.langs):
            given = ",".join(self.langs)
            raise UserError(f"--langs {given}: name {self.source_lang} and {self.target_lang}, too")
        if bool(self.sentencepiece or self.bpe_codes) != bool(self.dictionary):
            raise UserError(
                "--dictionary belongs to --sentencepiece or --bpe-codes; give both, of one model"
            )
        names = ("sentencepiece", "bpe_codes", "bert", "vocabulary")
        given = [f"--{name.replace('_', '-')}" for name in names if getattr(self, name)]
        if len(given) > 1:
            raise UserError(f"{' and '.join(given)} each define subwords; give one of them")

    def pair(self) -> tuple[str, str]:
        """Return (source, target) language."""
        return self.source_lang, self.target_lang

    def order(self) -> tuple[str, ...]:
        """Return the languages in the order of their symbols in the dictionary."""
        return self.langs or self.pair()

    def learnt(self) -> tuple[str, ...]:
        """Return the languages whose subwords are learnt."""
        if self.vocabulary or self.sentencepiece or self.bpe_codes:
            return ()
        return (self.target_lang,) if self.bert else self.pair()

    def dictionaries(self) -> list[Path]:
        """Return the given dictionary file of each side, if any."""
        if self.vocabulary:
            return [dictionary_of(Path(self.vocabulary), lang) for lang in self.pair()]
        if not self.dictionary:
            return []
        given = Path(self.dictionary)
        return [given / f"dict.{lang}.txt" if given.is_dir() else given for lang in self.pair()]

    def given_files(self) -> list[Path]:
        """Return the files of a given vocabulary."""
        if self.bert:
            return [path for name in BERT_TOKENISER if (path := Path(self.bert) / name).is_file()]
        models = self.sentencepiece, self.sentencepiece_target, self.bpe_codes
        models = [Path(model) for model in models if model]
        if self.vocabulary:
            models = text_files(Path(self.vocabulary))
        return [*models, *self.dictionaries()]


def with_vocabulary(settings: Settings) -> Settings:
    """Return the settings with those of the corpus or model that ``vocabulary`` names, if any.

    Raises UserError if it is of other languages.
    """
    if not settings.vocabulary:
        return settings
    lender = read_settings(settings.vocabulary)
    pair = lender["source_lang"], lender["target_lang"]
    if pair != settings.pair():
        raise UserError(
            f"{settings.vocabulary}: of {'-'.join(pair)}; give these languages with -s and -t"
        )
    names = ("normalise_punctuation", "source_prefix", "target_prefix")
    return replace(
        settings, langs=tuple(lender["langs"]), **{name: lender.get(name) for name in names}
    )


def check_given(settings: Settings) -> None:
    """Raise UserError for a pretrained model's codes, pieces and dictionaries that are invalid or
    do not match.
    """
    if settings.bert:
        read_wordpiece_tokeniser(settings.bert)
    dictionaries = settings.dictionaries()
    words = frozenset(word for path in dictionaries for word in dictionary_words(path))
    if settings.bpe_codes:
        fits = codes_fit(read_codes(settings.bpe_codes), words)
    elif settings.sentencepiece:
        fits = not words.isdisjoint(SentencePieces(settings.sentencepiece).words())
    else:
        return
    if not fits:
        model = settings.bpe_codes or settings.sentencepiece
        what = f"has none of the pieces that {model} makes; give the dictionary that belongs to it"
        raise UserError(f"{dictionaries[0]}: {what}")
