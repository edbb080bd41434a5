"""New text made ready for a model of a prepared corpus: tokenised, truecased and cut by its BPE."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from gtransformer.errors import UserError, cli_main
from gtransformer.files import read_json
from gtransformer.preprocess.bpe import Encoder
from gtransformer.preprocess.moses import moses_directory
from gtransformer.preprocess.parallel import available_cores, map_file
from gtransformer.preprocess.pieces import SENTENCEPIECE_FILE, WORDPIECE_FILE, SentencePieces, WordPieces
from gtransformer.preprocess.tokenise import Tokeniser
from gtransformer.preprocess.truecase import Truecaser


class TextEncoder:
    """Plain sentences of one language to subwords, just as ``scripts/prepare.sh`` made the corpus in ``prepared``.

    ``moses``: a Moses directory, by default the variable MOSES, else sacremoses. Raises UserError if ``prepared`` is
    not a prepared corpus or lacks the language.
    """

    def __init__(self, prepared: str | Path, lang: str, moses: str | None = None):
        prepared = Path(prepared)
        moses = moses_directory(moses)
        settings = read_json(prepared / "manifest.json")["settings"]
        if lang not in (settings["source_lang"], settings["target_lang"]):
            pair = f"{settings['source_lang']}-{settings['target_lang']}"
            raise UserError(f"{prepared}: prepared for {pair}, which lacks {lang}")
        self._steps: list[Callable[[Sequence[str]], list[str]]]
        if (prepared / SENTENCEPIECE_FILE).is_file():
            self._steps = [SentencePieces(prepared / SENTENCEPIECE_FILE)]
        elif (prepared / WORDPIECE_FILE).is_file() and lang == settings["source_lang"]:
            self._steps = [WordPieces(prepared / WORDPIECE_FILE)]
        else:
            self._steps = [
                Tokeniser(lang, moses, settings["normalise_punctuation"]),
                Truecaser(prepared / f"truecase.{lang}", moses),
                Encoder(prepared / "bpe.codes"),
            ]

    def __call__(self, lines: Sequence[str]) -> list[str]:
        """Encode plain sentences; as many lines come back as went in."""
        for step in self._steps:
            lines = step(lines)
        return list(lines)


@cli_main
def main(argv: list[str] | None = None) -> None:
    """``python -m gtransformer.preprocess.encode INPUT OUTPUT --prepared DIR --lang en``"""
    parser = argparse.ArgumentParser(prog="gtransformer.preprocess.encode", description="Plain text to BPE.")
    parser.add_argument("input", help="plain text, one sentence a line; <d> lines are left alone")
    parser.add_argument("output")
    parser.add_argument("--prepared", required=True, help="directory made by scripts/prepare.sh")
    parser.add_argument("--lang", required=True, help="language of the text, e.g. en")
    parser.add_argument("--moses", metavar="DIR", help="use this Moses' Perl scripts (default: the variable MOSES)")
    parser.add_argument("--workers", type=int, default=available_cores())
    args = parser.parse_args(argv)
    work = TextEncoder(args.prepared, args.lang, args.moses)
    map_file(work, args.input, args.output, args.workers, label="encode")


if __name__ == "__main__":
    raise SystemExit(main())
