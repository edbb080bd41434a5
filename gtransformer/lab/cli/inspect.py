"""Inspect a model while it translates a document: attention by sentence, gates, and source sentences attended to.

``gtransformer lab inspect --model DIR FILE --output DIR`` writes attention.png, gates.png, sources.txt and
inspection.json.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import UserError, cli_main
from gtransformer.files import atomic_write, write_json
from gtransformer.preprocess.plain_text import input_lines
from gtransformer.provenance import provenance
from gtransformer.translation.lines import read_text
from gtransformer.translation.options import add_search_options


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(prog="gtransformer lab inspect", description=__doc__.splitlines()[0])
    parser.add_argument(
        "input", nargs="?", default="-", metavar="FILE", help="plain text, as for gtransformer translate"
    )
    parser.add_argument(
        "--model",
        type=Path,
        required=True,
        metavar="DIR",
        help="directory of gtransformer export",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="where to write")
    parser.add_argument(
        "--document", type=int, default=1, metavar="N", help="number of the document in the file (%(default)s)"
    )
    parser.add_argument("--translation", metavar="FILE", help="inspect this translation, line by line, not the model's")
    parser.add_argument("--top", type=int, default=3, help="source sentences listed per sentence (%(default)s)")
    add_search_options(parser)
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    parser.add_user_dir()
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Translate the document instance by instance, inspect each, write."""
    args = build_parser().parse_args(argv)

    from gtransformer.lab.analysis.attention_shown import HEADING
    from gtransformer.lab.analysis.documents import find_document, given_translation, inspect_document
    from gtransformer.models.common.model import needs_of
    from gtransformer.translation.api import GTransformer

    origin = provenance("lab inspect", argv)
    model = GTransformer.from_pretrained(args.model, "cpu" if args.cpu else None)
    if needs_of(model.engine.model).numbers:
        raise UserError(f"{args.model}: this model reads sentence numbers, which the inspection does not provide")
    options = model.directory.search.given(vars(args)).changed(nbest=1)
    name = "standard input" if args.input == "-" else args.input
    text = list(input_lines(args.input))
    document = find_document(
        read_text(text, model.chain.encode, longest=model.max_sentence_tokens), args.document, name
    )
    given = given_translation(args.translation, len(text), document, model) if args.translation else None
    title = f"{Path(name).name}, document {args.document}"
    found = []
    remove_earlier(args.output)
    for one in inspect_document(model, document, given, options, args.output, title, args.top):
        print(one.table)
        found.append(one)
    with atomic_write(args.output / "sources.txt") as stream:
        stream.write("\n".join([HEADING, *(one.paragraphs for one in found)]))
    results = [one.numbers for one in found]
    write_json(args.output / "inspection.json", {"version": 1, "instances": results, **origin})
    print(f"{args.output}: attention, gates, sources.txt, inspection.json")


def remove_earlier(output: Path) -> None:
    """Remove the results of another document."""
    for pattern in ("attention*.png", "gates*.png", "sources.txt", "inspection.json"):
        for path in output.glob(pattern):
            path.unlink()


if __name__ == "__main__":
    raise SystemExit(main())
