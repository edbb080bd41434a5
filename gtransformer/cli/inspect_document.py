"""Look inside a model while it translates a document: attention by sentence, gates, and what was drawn on.

``gtransformer-inspect --model DIR FILE --output DIR`` writes attention.png, gates.png, sources.txt and inspection.json.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterable
from pathlib import Path

from gtransformer.analysis.attention import inspect
from gtransformer.analysis.attention_pictures import draw_attention, draw_gates
from gtransformer.analysis.attention_text import HEADING, drawn_text, gate_table, to_json
from gtransformer.errors import UserError, cli_main
from gtransformer.evaluation.provenance import provenance
from gtransformer.files import atomic_write, decode_lines, read_lines, write_json
from gtransformer.preprocess.instances import greedy_instances
from gtransformer.translation.api import GTransformer
from gtransformer.translation.lines import Line, read_text
from gtransformer.translation.options import add_search_options


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="scripts/inspect.sh", description=__doc__.splitlines()[0])
    parser.add_argument("input", nargs="?", default="-", metavar="FILE", help="plain text, as scripts/translate.sh")
    parser.add_argument("--model", type=Path, required=True, metavar="DIR", help="made by scripts/export.sh")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="where to write")
    parser.add_argument("--document", type=int, default=1, metavar="N", help="which document of the file (%(default)s)")
    parser.add_argument("--translation", metavar="FILE", help="look at this translation, line by line, not the model's")
    parser.add_argument("--top", type=int, default=3, help="source sentences listed for each (%(default)s)")
    add_search_options(parser)
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    parser.add_argument("--moses", metavar="DIR", help="Moses, if the model's corpus was prepared with it")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Translate the document instance by instance, look at each, write."""
    args = build_parser().parse_args(argv)
    for option in ("document", "top"):
        if getattr(args, option) < 1:
            raise UserError(f"--{option} {getattr(args, option)}: must be at least 1")
    for name in ("fairseq", "gtransformer.tasks"):
        logging.getLogger(name).setLevel(logging.WARNING)
    model = GTransformer.from_pretrained(args.model, "cpu" if args.cpu else None, moses=args.moses)
    options = model.directory.search.given(vars(args)).changed(nbest=1)
    name = "standard input" if args.input == "-" else args.input
    text = decode_lines(sys.stdin.buffer, name) if args.input == "-" else read_lines(args.input)
    lines = read_text(text, model.chain.encode, longest=model.max_sentence_tokens)
    document = find_document(lines, args.document, name)
    given = given_translation(args.translation, document, model) if args.translation else None
    cuts = greedy_instances(
        [len(line.tokens[0]) for line in document], None, model.max_instance_tokens, model.directory.max_sents
    )
    paragraphs, results = [HEADING], []
    for number, (first, count) in enumerate(cuts, 1):
        lines = document[first : first + count]
        target = given[first : first + count] if given else translate(model, lines, options)
        found = inspect(
            model.engine.model,
            model.engine.instance_tokens([line.tokens[0] for line in lines]).tolist(),
            target_tokens(model, target),
        )
        end = f".{number}" if len(cuts) > 1 else ""
        title = f"{Path(name).name}, document {args.document}"
        if end:
            title += f", sentences {first + 1} to {first + count}"
        draw_attention(found, args.output / f"attention{end}.png", title)
        if found.gates:
            draw_gates(found, args.output / f"gates{end}.png", title)
        plain = model.chain.decode(target)
        source = [line.sentences[0] for line in lines]
        paragraphs.append(drawn_text(found, source, plain, first + 1, args.top))
        results.append({"first_sentence": first + 1, "source": source, "translation": plain, **to_json(found)})
        print(f"{title}\n{gate_table(found)}")
    with atomic_write(args.output / "sources.txt") as stream:
        stream.write("\n".join(paragraphs))
    origin = provenance("gtransformer.cli.inspect_document", argv)
    write_json(args.output / "inspection.json", {"version": 1, "instances": results, **origin})
    print(f"{args.output}: attention, gates, sources.txt, inspection.json")


def find_document(lines: Iterable[Line], number: int, name: str) -> list[Line]:
    """The sentences of the document with this number, from 1.

    Raises UserError if there are fewer documents, or if one of the sentences is too long for the model.
    """
    found: list[Line] = []
    documents = 0
    for line in lines:
        documents = line.place.documents
        if documents == number and not line.breaks:
            found.append(line)
        if documents > number:
            break
    if not found:
        raise UserError(f"{name}: has {documents} documents, there is no document {number}; choose one with --document")
    cut = next((line for line in found if line.was_cut), None)
    if cut is not None:
        raise UserError(f"{name}, line {cut.place.lines}: has more tokens than the model has positions; split the line")
    return found


def given_translation(path: str, document: list[Line], model: GTransformer) -> list[str]:
    """BPE of the document's lines in a file that is aligned line by line with the input."""
    lines = list(read_lines(path))
    last = document[-1].place.lines
    if len(lines) < last:
        raise UserError(f"{path}, line {len(lines)}: ends here, but the document goes to line {last}; align the files")
    texts = [lines[line.place.lines - 1] for line in document]
    return [" ".join(tokens) for tokens in model.chain.encode_target(texts)]


def translate(model: GTransformer, lines: list[Line], options) -> list[str]:
    """The model's own best translation, in BPE."""
    return model.engine.translate([[line.tokens[0] for line in lines]], options)[0][0].sentences


def target_tokens(model: GTransformer, sentences: list[str]) -> list[int]:
    """``<s> a b </s> <s> c </s>`` as indices."""
    dictionary = model.engine.target
    bos, eos = dictionary.bos(), dictionary.eos()
    return [index for text in sentences for index in (bos, *map(dictionary.index, text.split()), eos)]


if __name__ == "__main__":
    raise SystemExit(main())
