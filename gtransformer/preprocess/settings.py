"""Settings of a prepared corpus, and checks of a given or borrowed vocabulary."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from gtransformer.data.dictionaries import control_symbols, dictionary_words
from gtransformer.errors import UserError
from gtransformer.files import read_json
from gtransformer.optional import read_wordpiece_tokeniser
from gtransformer.preprocess.bpe import codes_fit, read_codes
from gtransformer.preprocess.chain import read_settings
from gtransformer.preprocess.pieces import SENTENCEPIECE_FILE, TARGET_PIECES, WORDPIECE_FILE, SentencePieces

MODEL_KIND = "gtransformer model"  # in the manifest of a model directory
# Files of a BERT's tokeniser.
BERT_TOKENISER = ("vocab.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


def option(name: str) -> str:
    """Return a setting's name on the command line."""
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True)
class Settings:
    """Settings that determine a prepared corpus, besides the raw files. ``workers`` changes only the speed.

    Attributes:
        sentencepiece: a pretrained model's SentencePiece model, which splits both sides.
        sentencepiece_target: another SentencePiece model for the target side.
        source_prefix, target_prefix: a word at the beginning of every sentence of the side.
        bpe_codes: BPE codes of a fairseq model, which split both sides.
        dictionary: the dictionary of such a model, or a folder with one for each side.
        bert: a folder with a BERT, whose wordpieces split the source side; the source has its own dictionary.
        sentence_pairs: sentences of raw files that do not begin with ``<d>`` belong to no document.
        moses_rules: tokenise and truecase by Moses' rules only; otherwise reversibly (``spacing``, ``truecase``).
        vocabulary: a prepared corpus, whose truecasers, BPE codes and dictionary are used.
    """

    source_lang: str = "en"
    target_lang: str = "de"
    langs: tuple[str, ...] = ()
    bpe_merges: int = 30_000
    max_instance_tokens: int = 512
    max_sentence_tokens: int = 1024
    max_sents: int | None = None
    sentence_pairs: bool = False
    normalise_punctuation: bool = False
    moses_rules: bool = False
    vocabulary: str | None = None
    workers: int = 1
    sentencepiece: str | None = None
    sentencepiece_target: str | None = None
    source_prefix: str | None = None
    target_prefix: str | None = None
    bpe_codes: str | None = None
    dictionary: str | None = None
    bert: str | None = None

    def check(self) -> None:
        """Raise UserError, naming the options of the command, for values that do not go together."""
        if self.source_lang == self.target_lang:
            raise UserError(f"source and target language are both {self.source_lang}; give two with -s and -t")
        if self.langs and not set(self.pair()) <= set(self.langs):
            given = ",".join(self.langs)
            raise UserError(f"--langs {given}: name {self.source_lang} and {self.target_lang}, too")
        if bool(self.sentencepiece or self.bpe_codes) != bool(self.dictionary):
            raise UserError("--dictionary belongs to --sentencepiece or --bpe-codes; give both, from the same model")
        for name in ("bpe_merges", "max_instance_tokens", "max_sentence_tokens", "max_sents"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"{option(name)} {value}: give at least 1")
        cutters = [option(name) for name in ("sentencepiece", "bpe_codes", "bert", "vocabulary") if getattr(self, name)]
        if len(cutters) > 1:
            raise UserError(f"{' and '.join(cutters)} each define subwords; give one of them")

    def pair(self) -> tuple[str, str]:
        """Return (source, target) language."""
        return self.source_lang, self.target_lang

    def order(self) -> tuple[str, ...]:
        """Return the languages in the order of their symbols in the dictionary."""
        return self.langs or self.pair()

    def plain(self) -> tuple[str, ...]:
        """Return the languages that are tokenised, truecased and split by our own BPE."""
        if self.sentencepiece:
            return ()
        return (self.target_lang,) if self.bert else self.pair()

    def needs_training_set(self) -> bool:
        """Return whether truecasers, BPE and dictionary are learnt."""
        return bool(self.plain()) and not self.bpe_codes and not self.vocabulary

    def given_dictionaries(self) -> list[Path]:
        """Return the given dictionary files, if any: one, or source's and target's if they differ."""
        if not self.dictionary:
            return []
        given = Path(self.dictionary)
        files = [given / f"dict.{lang}.txt" for lang in self.pair()] if given.is_dir() else [given]
        same = all(file.is_file() for file in files) and len({file.read_bytes() for file in files}) == 1
        return files[:1] if same else files

    def given_files(self) -> list[Path]:
        """Return the files of a given or borrowed vocabulary."""
        if self.vocabulary:
            lender = Path(self.vocabulary)
            truecasers = [lender / f"truecase.{lang}" for lang in self.plain()]
            return [*truecasers, lender / "bpe.codes", lender / "bin" / f"dict.{self.source_lang}.txt"]
        if self.bert:
            return [path for name in BERT_TOKENISER if (path := Path(self.bert) / name).is_file()]
        given = filter(None, (self.sentencepiece, self.sentencepiece_target, self.bpe_codes))
        return [*map(Path, given), *self.given_dictionaries()]

    def piece_file(self) -> str | None:
        """Return the file name, in a prepared directory, of the subword model of the other languages."""
        if self.sentencepiece:
            return SENTENCEPIECE_FILE
        return WORDPIECE_FILE if self.bert else None


def with_vocabulary(settings: Settings) -> Settings:
    """Return the settings with what ``vocabulary`` and ``bpe_codes`` determine.

    A model directory or corpus with SentencePiece gives its pieces and dictionary. Another prepared corpus gives its
    rules of tokenisation, languages and number of merges. Given BPE codes need text by Moses' rules.

    Raises UserError for a vocabulary of other languages, and for options that contradict it.
    """
    if settings.bpe_codes:
        return replace(settings, moses_rules=True)
    if not settings.vocabulary:
        return settings
    folder = Path(settings.vocabulary)
    lent = read_settings(folder)
    if lent.get("sentencepiece"):
        return _with_pieces(settings, folder, lent)
    if "bpe_merges" not in lent:
        raise UserError(f"{folder}: an exported model; name the corpus that it was trained on")
    for name in ("moses_rules", "normalise_punctuation"):
        if getattr(settings, name) and not lent[name]:
            raise UserError(f"{option(name)}: {folder} was prepared without it; leave it out")
    rules = {name: lent[name] for name in ("bpe_merges", "moses_rules", "normalise_punctuation")}
    found = replace(settings, langs=settings.langs or tuple(lent["langs"]), **rules)
    dictionary = found.given_files()[-1]
    symbols, words = control_symbols(found.langs), dictionary_words(dictionary)
    if words[-len(symbols) :] != symbols or not set(found.pair()) <= set(found.langs):
        raise UserError(
            f"{dictionary}: ends in {' '.join(words[-len(symbols) :])} and not in {' '.join(symbols)}; give the "
            "languages as they were given there"
        )
    return found


def _with_pieces(settings: Settings, folder: Path, lent: dict) -> Settings:
    """Return the settings with the SentencePiece models and dictionaries of a folder whose settings are ``lent``."""
    pair = lent["source_lang"], lent["target_lang"]
    if pair != settings.pair():
        raise UserError(f"{folder}: translates {'-'.join(pair)}; give these languages with -s and -t")
    of_model = read_json(folder / "manifest.json").get("kind") == MODEL_KIND
    return replace(
        settings,
        vocabulary=None,
        langs=settings.langs or tuple(lent["langs"]),
        sentencepiece=str(folder / SENTENCEPIECE_FILE),
        sentencepiece_target=str(folder / TARGET_PIECES) if lent.get("sentencepiece_target") else None,
        source_prefix=lent.get("source_prefix"),
        target_prefix=lent.get("target_prefix"),
        dictionary=str(folder if of_model else folder / "bin"),
    )


def check_given(settings: Settings) -> None:
    """Raise UserError for a pretrained model's codes, pieces and dictionaries that are invalid or do not match."""
    if settings.bert:
        read_wordpiece_tokeniser(settings.bert)
    dictionaries = settings.given_dictionaries()
    words = frozenset(word for path in dictionaries for word in dictionary_words(path))
    if settings.bpe_codes:
        fits = codes_fit(read_codes(settings.bpe_codes), words)
    elif settings.sentencepiece:
        fits = not words.isdisjoint(SentencePieces(settings.sentencepiece).words())
    else:
        return
    if not fits:
        cutter = settings.bpe_codes or settings.sentencepiece
        what = f"has none of the pieces that {cutter} makes; give the dictionary that belongs to it"
        raise UserError(f"{dictionaries[0]}: {what}")
