"""New text made ready for a model of a prepared corpus: tokenised, truecased and cut by its BPE, or cut by the pieces
of a pretrained model.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError, cli_main
from gtransformer.files import read_json
from gtransformer.preprocess.binarise import dictionary_words
from gtransformer.preprocess.bpe import Encoder
from gtransformer.preprocess.moses import moses_as_prepared
from gtransformer.preprocess.parallel import available_cores, map_file
from gtransformer.preprocess.pieces import SENTENCEPIECE_FILE, WORDPIECE_FILE, SentencePieces, WordPieces
from gtransformer.preprocess.settings import moses_rules
from gtransformer.preprocess.tokenise import Detokeniser, Tokeniser
from gtransformer.preprocess.truecase import Truecaser
from gtransformer.preprocess.unicode_forms import one_form

CODES = "bpe.codes"


def text_files(settings: Mapping[str, Any]) -> list[str]:
    """The files of a prepared directory that new text needs, both languages taken together.

    ``settings``: those of its manifest. mBART's sides are cut by its SentencePiece model; with BERT the source is cut
    into wordpieces and only the target goes through truecaser and BPE. Given BPE codes have no truecasers.
    """
    pair = settings["source_lang"], settings["target_lang"]
    if settings.get("sentencepiece"):
        return [SENTENCEPIECE_FILE]
    if settings.get("bert"):
        return [WORDPIECE_FILE, CODES, f"truecase.{pair[1]}"]
    if settings.get("bpe_codes"):
        return [CODES]
    return [CODES, *(f"truecase.{lang}" for lang in pair)]


def never_truecased(prepared: str | Path, lang: str) -> bool:
    """Whether a prepared corpus, or a model directory, cuts a language by BPE codes that were given, untruecased."""
    return (Path(prepared) / CODES).is_file() and not (Path(prepared) / f"truecase.{lang}").is_file()


def is_exact(prepared: str | Path) -> bool:
    """Whether the text of a prepared corpus, or a model directory, comes back from its tokens by rules of ours."""
    manifest = Path(prepared) / "manifest.json"
    return manifest.is_file() and not moses_rules(read_settings(prepared))


class TextEncoder:
    """Plain sentences of one language to subwords, just as ``scripts/prepare.sh`` made the corpus in ``prepared``.

    Args:
        prepared: the corpus, or a model directory, whose files have the same names.
        lang: one of its two languages.
        moses: a Moses directory; by default Moses is used only where the corpus was prepared with it.
        tokenised: the sentences are so already.

    Raises UserError if ``prepared`` is not a prepared corpus, lacks the language or one of the files.
    """

    def __init__(self, prepared: str | Path, lang: str, moses: str | None = None, tokenised: bool = False):
        prepared = Path(prepared)
        settings = read_settings(prepared)
        pair = settings["source_lang"], settings["target_lang"]
        if lang not in pair:
            raise UserError(f"{prepared}: prepared for {'-'.join(pair)}, which lacks {lang}")
        tool, exact = moses_as_prepared(settings["moses"], moses), not moses_rules(settings)
        if exact and moses and not settings.get("sentencepiece"):
            raise UserError(f"--moses {moses}: {prepared} was prepared by rules that Moses does not have; leave it out")
        cutter = None
        if settings.get("sentencepiece"):
            cutter = SentencePieces(prepared / SENTENCEPIECE_FILE)
        elif settings.get("bert") and lang == pair[0]:
            cutter = WordPieces(prepared / WORDPIECE_FILE)
        self._steps: list[Callable[[Sequence[str]], list[str]]]
        if cutter is not None:
            # A pretrained model has seen plain text. mBART's en_XX is en.
            detokeniser = Detokeniser(lang.partition("_")[0], tool, exact=exact)
            self._steps = [detokeniser, cutter] if tokenised else [cutter]
        else:
            given = bool(settings.get("bpe_codes"))
            tokeniser = Tokeniser(lang, tool, settings["normalise_punctuation"], given, exact)
            self._steps = [] if tokenised else [tokeniser]
            if tokenised and (given or exact):  # by other rules
                self._steps = [Detokeniser(lang, tool, exact=exact), tokeniser]
            self._steps += [] if given else [Truecaser(prepared / f"truecase.{lang}", tool, exact)]
            known = _dictionary(prepared, lang) if settings.get("codes_within_dictionary") else None
            self._steps.append(Encoder(prepared / CODES, known))

    def __call__(self, lines: Sequence[str]) -> list[str]:
        """Encode plain sentences; as many lines come back as went in."""
        lines = [one_form(line) for line in lines]
        for step in self._steps:
            lines = step(lines)
        return lines


def _dictionary(prepared: Path, lang: str) -> list[str]:
    """The words of a corpus's dictionary, or a model directory's, whose files lie elsewhere."""
    name = f"dict.{lang}.txt"
    path = prepared / "bin" / name
    return dictionary_words(path if path.is_file() else prepared / name)


def read_settings(prepared: str | Path) -> dict[str, Any]:
    """The settings that a corpus was prepared with; UserError if it is not a prepared corpus."""
    manifest = Path(prepared) / "manifest.json"
    try:
        settings = read_json(manifest)["settings"]
        if {"source_lang", "target_lang", "moses", "normalise_punctuation"} <= settings.keys():
            return settings
    except (AttributeError, KeyError, TypeError):
        pass
    raise UserError(f"{manifest}: not of a prepared corpus; give one that scripts/prepare.sh has made")


@cli_main
def main(argv: list[str] | None = None) -> None:
    """``python -m gtransformer.preprocess.encode INPUT OUTPUT --prepared DIR --lang en``"""
    parser = argparse.ArgumentParser(prog="gtransformer.preprocess.encode", description="Plain text to BPE.")
    parser.add_argument("input", help="plain text, one sentence a line; <d> lines are left alone")
    parser.add_argument("output")
    parser.add_argument("--prepared", required=True, help="directory made by scripts/prepare.sh")
    parser.add_argument("--lang", required=True, help="language of the text, e.g. en")
    parser.add_argument("--moses", metavar="DIR", help="Moses' scripts (default: as the corpus was prepared)")
    parser.add_argument("--workers", type=int, default=available_cores())
    args = parser.parse_args(argv)
    work = TextEncoder(args.prepared, args.lang, args.moses)
    map_file(work, args.input, args.output, args.workers, label="encode")


if __name__ == "__main__":
    raise SystemExit(main())
