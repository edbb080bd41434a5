"""Settings of a prepared corpus, checks of a given vocabulary, and the manifest.

The manifest has counts as in Table 1 of the paper, settings, versions and checksums.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gtransformer.data.dictionaries import RESERVED, dictionary_words
from gtransformer.errors import UserError
from gtransformer.files import digest, read_json, sha256, write_json
from gtransformer.installation import versions
from gtransformer.optional import read_wordpiece_tokeniser
from gtransformer.preprocess.chain import dictionary_of, prepared_settings, text_files
from gtransformer.preprocess.clean import CleanReport
from gtransformer.preprocess.instances import InstanceReport
from gtransformer.preprocess.tokenisers import SEPARATOR, SentencePieces, read_codes

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
        kept_punctuation: a language whose punctuation is not normalised all the same, as in
            ``vocabulary``.
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
    kept_punctuation: str | None = None
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
    model = prepared_settings(settings.vocabulary)
    pair = model["source_lang"], model["target_lang"]
    if pair != settings.pair():
        raise UserError(
            f"{settings.vocabulary}: of {'-'.join(pair)}; give these languages with -s and -t"
        )
    names = ("normalise_punctuation", "kept_punctuation", "source_prefix", "target_prefix")
    return replace(
        settings, langs=tuple(model["langs"]), **{name: model.get(name) for name in names}
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
        pieces = ["".join(line.split()) for line in read_codes(settings.bpe_codes)]
        forms = [piece.removesuffix("</w>") for piece in pieces]
        forms += [piece + SEPARATOR for piece in pieces]
        fits = not words.isdisjoint(forms)
    elif settings.sentencepiece:
        if any(file.suffix == ".json" for file in settings.given_files()):
            raise UserError(
                "--sentencepiece takes a SentencePiece model, no .json file; for a pretrained "
                "model with tokenizer.json, run gtransformer model convert, and give its directory "
                "as --vocabulary"
            )
        # Not all of them: dictionaries of fairseq leave rare pieces out.
        fits = not words.isdisjoint(SentencePieces(settings.sentencepiece).words())
    else:
        return
    if not fits:
        model = settings.bpe_codes or settings.sentencepiece
        what = f"has none of the pieces that {model} makes; give the dictionary that belongs to it"
        raise UserError(f"{dictionaries[0]}: {what}")


PACKAGES = ("fairseq-fixed", "sacremoses", "sentencepiece", "subword-nmt")  # that make a corpus
# Settings that name files; what these contain is in ``given``.
PATHS = (
    "vocabulary", "sentencepiece", "sentencepiece_target", "bpe_codes", "dictionary", "bert",
)  # fmt: skip
# Files that determine the model's vocabulary, by the beginnings of their names.
VOCABULARY = ("bin/dict.", "bpe.codes", "truecase.", "sentencepiece.", "tokenizer.", "wordpieces.")
DIGEST_FILE = "vocabulary.json"  # next to checkpoints: ``vocabulary_digest`` of their corpus
MANY_UNKNOWN = 0.01  # of a text's tokens; text with the BPE codes of its dictionary has almost none


def vocabulary_digest(prepared: Path) -> str:
    """Return a digest of the files that encode text and of the dictionaries."""
    files = read_json(prepared / "manifest.json")["outputs"]
    return digest({name: sha for name, sha in files.items() if name.startswith(VOCABULARY)})


def check_vocabulary(checkpoint: Path, prepared: Path) -> None:
    """Raise UserError if a checkpoint was trained with another vocabulary than that of a prepared
    corpus.

    The digest next to the checkpoint is compared. Without one, as after plain fairseq-train,
    nothing is checked.
    """
    path = checkpoint.parent / DIGEST_FILE
    if path.is_file() and read_json(path) != vocabulary_digest(prepared):
        raise UserError(
            f"{checkpoint}: trained with another vocabulary than that of {prepared}, so its "
            "translations would be of other words; name the corpus that it was trained on with "
            "--prepared, or train again"
        )


def description(settings: Settings, splits: Mapping[str, tuple[Path, Path]]) -> dict[str, Any]:
    """Return what determines a prepared corpus: settings, and checksums of given vocabulary and raw
    files.

    Args:
        splits: the raw files of each split.
    """
    # Lists, as JSON gives them back for the comparison. Paths and processes do not change the
    # result.
    values = {**asdict(settings), "langs": list(settings.order())}
    del values["workers"]
    values |= {name: bool(values[name]) for name in PATHS}
    given = {path.name: sha256(path) for path in settings.given_files()}
    inputs = {path.name: sha256(path) for files in splits.values() for path in files}
    return {"settings": values, "given": given, "inputs": inputs}


def difference(manifest: Mapping[str, Any], requested: Mapping[str, Any]) -> str | None:
    """Return how a prepared corpus differs from what is asked for (``description``); None if it
    does not.
    """
    for part, what in (("settings", "options"), ("given", "vocabulary"), ("inputs", "raw files")):
        before, now = manifest.get(part, {}), requested[part]
        changed = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
        if changed:
            return f"other {what}: {', '.join(changed)}"
    return None


def kept(output: Path, requested: Mapping[str, Any], overwrite: bool) -> dict[str, Any] | None:
    """Return the manifest of a finished corpus that is what is ``requested``; None if it has to be
    made.

    Raises UserError for a directory with other content, and without ``overwrite`` for another
    corpus, whose models need it as it is.
    """
    path = output / "manifest.json"
    if not path.is_file():
        # Interrupted runs leave nothing here, so these are the user's files.
        if output.exists() and any(output.iterdir()):
            raise UserError(
                f"{output}: holds something else than a prepared corpus; name another directory"
            )
        return None
    manifest = read_json(path)
    changed = difference(manifest, requested)
    if changed is None:
        return manifest
    if not overwrite:
        raise UserError(
            f"{output}: prepared otherwise ({changed}), and models of it need it as it is; give "
            "another directory, or, if no model of it is needed any more, gtransformer prepare "
            "--overwrite"
        )
    # The folder is replaced as a whole, so nothing else may be in it.
    own = {path.name, *(name.partition("/")[0] for name in manifest["outputs"])}
    others = sorted(entry.name for entry in output.iterdir() if entry.name not in own)
    if others:
        raise UserError(
            f"{output}: also holds {', '.join(others)}, which --overwrite would remove; move it "
            "away first"
        )
    return None


def split_counts(
    clean: CleanReport, cut: InstanceReport, unknown: dict[str, int], pair: tuple[str, str]
) -> dict[str, Any]:
    """Return the counts of one split."""
    tokens = dict(zip(pair, (cut.source_tokens, cut.target_tokens), strict=True))
    return {
        "sentences": cut.sentences,
        "documents": cut.documents,
        "instances": cut.instances,
        "sentences_per_instance": round(cut.sentences / cut.instances, 2),
        "tokens_per_instance": {
            lang: round(count / cut.instances, 2) for lang, count in tokens.items()
        },
        "tokens": tokens,
        "unknown_tokens": unknown,
        "dropped": {
            "empty_side": clean.dropped,
            "longer_than_max_sentence_tokens": cut.dropped_too_long,
            "without_source": cut.without_source,
            "documents_emptied_by_cleaning": clean.dropped_documents,
        },
        "raw": {
            "sentences": clean.sentences + clean.dropped,
            "documents": clean.documents + clean.dropped_documents,
        },
    }


def write(
    output: Path,
    settings: Settings,
    requested: Mapping[str, Any],
    splits: dict[str, dict[str, Any]],
    command: str,
) -> dict[str, Any]:
    """Write ``output/manifest.json`` when all else is written, and return it.

    Args:
        requested: ``description``.
        splits: the counts of each.
        command: the command line.
    """
    dictionary = dictionary_words(output / "bin" / f"dict.{settings.source_lang}.txt")
    files = sorted(path for path in output.rglob("*") if path.is_file())
    manifest = {
        "splits": splits,
        "vocabulary": {"size": len(dictionary) + len(RESERVED)},
        **requested,
        "command": command,
        "versions": versions(PACKAGES),
        "outputs": {str(path.relative_to(output)): sha256(path) for path in files},
    }
    write_json(output / "manifest.json", manifest)
    return manifest


def unknown_warnings(manifest: dict[str, Any]) -> list[str]:
    """Return a warning for each side of a split with many tokens that are not in the dictionary."""
    return [
        f"{split}, {lang}: {unknown:,} of {counts['tokens'][lang]:,} tokens are not in the "
        "dictionary and become <unk>; check that the text is of the language and script that the "
        "dictionary was made for"
        for split, counts in manifest["splits"].items()
        for lang, unknown in counts["unknown_tokens"].items()
        if unknown >= MANY_UNKNOWN * counts["tokens"][lang]
    ]
