"""Settings of a prepared corpus, and checks of a given or borrowed vocabulary."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from gtransformer.data.dictionaries import control_symbols, dictionary_words
from gtransformer.errors import UserError
from gtransformer.files import read_json
from gtransformer.optional import read_wordpiece_tokeniser
from gtransformer.preprocess.bpe import codes_fit, read_codes
from gtransformer.preprocess.chain import moses_rules
from gtransformer.preprocess.clean import WHOLE
from gtransformer.preprocess.corpus import fault
from gtransformer.preprocess.pieces import SENTENCEPIECE_FILE, TARGET_PIECES, WORDPIECE_FILE, SentencePieces

MODEL_KIND = "gtransformer model"  # in the manifest of a model directory
# Files of a BERT's tokeniser.
BERT_TOKENISER = ("vocab.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
TARGET = "pieces-target"  # the step that takes over the target side's own pieces
GIVEN_DICTIONARIES = ("dictionary-given", "dictionary-target")  # the steps that read them
LENT = ("sentencepiece_target", "source_prefix", "target_prefix")  # no options of the command
LEAST = {"bpe_merges": 1, "max_instance_tokens": 3, "max_sentence_tokens": 1, "max_sents": 1, "workers": 1}


def option(name: str) -> str:
    """Return a setting's name on the command line, or in words where ``--vocabulary`` alone sets it."""
    if name in LENT:
        return f"{name.replace('_', ' ')} of --vocabulary"
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
        moses_rules: tokenise and truecase by Moses' rules only; False: reversibly (``spacing``, ``truecase``). None: as
            the existing corpus, or the one that lends its vocabulary (``manifest.with_rules``).
        shard: "I/N", every N-th document of the training set, from the I-th on; the first shard has the other splits.
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
    moses_rules: bool | None = None
    vocabulary: str | None = None
    workers: int = 1
    sentencepiece: str | None = None
    sentencepiece_target: str | None = None
    source_prefix: str | None = None
    target_prefix: str | None = None
    bpe_codes: str | None = None
    dictionary: str | None = None
    bert: str | None = None
    shard: str | None = None

    def check(self) -> None:
        """Raise UserError, naming the options of the command, for values that make no sense."""
        for name, least in LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise UserError(f"{option(name)} {value}: give at least {least}")
        shard_numbers(self.shard)
        if self.source_lang == self.target_lang:
            raise UserError(f"source and target language are both {self.source_lang}; give two with -s and -t")
        langs = set(self.langs)
        if langs and (not set(self.pair()) <= langs or len(langs) < len(self.langs)):
            given = ",".join(self.langs)
            raise UserError(f"--langs {given}: name {self.source_lang}, {self.target_lang} and any others once each")
        if bool(self.sentencepiece or self.bpe_codes) != bool(self.dictionary):
            raise UserError("--dictionary belongs to --sentencepiece or --bpe-codes; give both, from the same model")
        cutters = [option(name) for name in ("sentencepiece", "bpe_codes", "bert", "vocabulary") if getattr(self, name)]
        if len(cutters) > 1:
            raise UserError(f"{' and '.join(cutters)} each define subwords; give one of them")
        for name in ("moses_rules", "normalise_punctuation") if self.sentencepiece else ():
            if getattr(self, name):
                raise UserError(f"{option(name)}: text is not tokenised with --sentencepiece; leave it out")
        if self.shard and self.bert:  # every shard would learn other target words, and they could not be merged
            raise UserError(f"--shard {self.shard}: not with --bert; prepare the corpus whole")
        for path in filter(None, (self.bpe_codes, *self.given_dictionaries())):
            if not Path(path).is_file():
                raise UserError(f"{path}: no such file; give what came with the model")

    def pair(self) -> tuple[str, str]:
        """Return (source, target) language."""
        return self.source_lang, self.target_lang

    def order(self) -> tuple[str, ...]:
        """Return the languages in the order of their symbols in the dictionary."""
        return self.langs or self.pair()

    @property
    def exact(self) -> bool:
        """Whether text is tokenised and truecased reversibly."""
        return self.moses_rules is False

    def plain(self) -> tuple[str, ...]:
        """Return the languages that are tokenised, truecased and split by our own BPE."""
        if self.sentencepiece:
            return ()
        return (self.target_lang,) if self.bert else self.pair()

    def share(self, split: str) -> tuple[int, int]:
        """Return (i, n): which shard of how many of a split's documents is prepared."""
        return shard_numbers(self.shard) if split == "train" else WHOLE

    def given_dictionaries(self) -> list[Path]:
        """Return the given dictionary files, if any: one, or source's and target's if they differ."""
        if not self.dictionary:
            return []
        given = Path(self.dictionary)
        files = [given / f"dict.{lang}.txt" for lang in self.pair()] if given.is_dir() else [given]
        same = all(file.is_file() for file in files) and len({file.read_bytes() for file in files}) == 1
        return files[:1] if same else files

    def vocabulary_files(self) -> dict[str, list[Path]]:
        """Return the files of a given or borrowed vocabulary, by the step that reads them."""
        if self.vocabulary:
            lender = Path(self.vocabulary)
            return {
                **{f"truecaser:{lang}": [lender / f"truecase.{lang}"] for lang in self.plain()},
                "bpe-learn": [lender / "bpe.codes"],
                "dictionary": [lender / "bin" / f"dict.{self.source_lang}.txt"],
            }
        if self.bert:
            return {"pieces": [path for name in BERT_TOKENISER if (path := Path(self.bert) / name).is_file()]}
        cutter = {"pieces": self.sentencepiece, TARGET: self.sentencepiece_target, "bpe-given": self.bpe_codes}
        return {step: [Path(path)] for step, path in cutter.items() if path} | {
            step: [path] for step, path in zip(GIVEN_DICTIONARIES, self.given_dictionaries(), strict=False)
        }

    def piece_file(self) -> str | None:
        """Return the file name, in a prepared directory, of the subword model of the other languages."""
        return SENTENCEPIECE_FILE if self.sentencepiece else WORDPIECE_FILE if self.bert else None


def shard_numbers(shard: str | None) -> tuple[int, int]:
    """Return (i, n) of "i/n", the i-th of n shards, from 0; WHOLE for None. Raise UserError for anything else."""
    if shard is None:
        return WHOLE
    found = re.fullmatch(r"(\d+)/(\d+)", shard, re.ASCII)
    number, shards = map(int, found.groups()) if found else (0, 0)
    if not number < shards:
        raise UserError(f"--shard {shard}: give I/N, which shard of how many, I from 0 to N - 1 (of four: 0/4 to 3/4)")
    return number, shards


def with_models_vocabulary(settings: Settings) -> Settings:
    """Return the settings with the SentencePiece models and dictionaries of ``vocabulary``, if it has any.

    It is a model directory or a prepared corpus. Raises UserError for one of other languages.
    """
    folder = Path(settings.vocabulary or "")
    lent = read_json(folder / "manifest.json") if settings.vocabulary and (folder / "manifest.json").is_file() else {}
    if not isinstance(lent, dict) or not (lent.get("settings") or {}).get("sentencepiece"):
        return settings
    of_model, lent = lent.get("kind") == MODEL_KIND, lent["settings"]
    pair = lent["source_lang"], lent["target_lang"]
    if pair != settings.pair():
        raise UserError(f"{folder}: translates {'-'.join(pair)}; give these languages with -s and -t")
    target = folder / TARGET_PIECES
    found = replace(
        settings,
        vocabulary=None,
        langs=settings.langs or tuple(lent["langs"]),
        sentencepiece=str(folder / SENTENCEPIECE_FILE),
        sentencepiece_target=str(target) if lent.get("sentencepiece_target") else None,
        source_prefix=lent.get("source_prefix"),
        target_prefix=lent.get("target_prefix"),
        dictionary=str(folder if of_model else folder / "bin"),
    )
    found.check()
    return found


def check_given(settings: Settings) -> None:
    """Raise UserError for a pretrained model's codes, pieces and dictionaries that are invalid or do not match."""
    dictionaries = settings.given_dictionaries()
    words = frozenset(word for path in dictionaries for word in dictionary_words(path))
    fits, cutter = True, settings.bpe_codes or settings.sentencepiece
    if settings.bert:
        read_wordpiece_tokeniser(settings.bert)
    elif settings.bpe_codes:
        fits = codes_fit(read_codes(cutter), words)
    elif settings.sentencepiece:
        fits = not words.isdisjoint(SentencePieces(cutter).words())
    if not fits:
        what = f"has none of the pieces that {cutter} makes; give the dictionary that belongs to it"
        raise UserError(f"{dictionaries[0]}: {what}")


def check_vocabulary(settings: Settings, output: Path) -> Path:
    """Return the directory from which truecasers, BPE codes and dictionary are borrowed, after checking it.

    Raises UserError if a file is missing, or if the dictionary does not end in the language symbols and ``<mask>``.
    """
    directory = Path(settings.vocabulary or "")
    manifest = directory / "manifest.json"
    files = [path for (path,) in settings.vocabulary_files().values()]
    for path in (manifest, *files):
        if not path.is_file():
            raise UserError(f"{path}: no such file; --vocabulary needs a directory that gtransformer prepare has made")
    if directory.resolve() == output.resolve():
        raise UserError(f"{directory}: cannot borrow its own vocabulary; give another output directory")
    lent, dictionary = read_json(manifest)["settings"], files[-1]
    symbols = control_symbols(settings.langs or lent["langs"])
    words = dictionary_words(dictionary)
    if words[-len(symbols) :] != symbols or not set(control_symbols(settings.pair())) <= set(symbols):
        found = " ".join(words[-len(symbols) :])
        what = f"the dictionary ends in {found} and not in {' '.join(symbols)}; give --langs as it was given there"
        raise fault(dictionary, len(words), what)
    if lent["normalise_punctuation"] != settings.normalise_punctuation:
        raise UserError(f"{manifest}: prepared otherwise; use --normalise-punctuation in both or in neither")
    if not moses_rules(lent) and settings.moses_rules is not False:
        raise UserError(f"{manifest}: prepared without --moses-rules; leave it out here, too")
    if moses_rules(lent) and settings.moses_rules is False:
        raise UserError(
            f"{manifest}: prepared with Moses' rules; use --moses-rules here, too, or leave out --no-moses-rules (of "
            "gtransformer run: --set prepare.moses-rules=null)"
        )
    return directory
