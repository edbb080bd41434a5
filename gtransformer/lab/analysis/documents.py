"""Inspect one document while a model translates it, instance by instance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gtransformer.data.instances import BOUNDARY_TOKENS, greedy
from gtransformer.errors import UserError
from gtransformer.lab.analysis.attention import inspect
from gtransformer.lab.analysis.attention_shown import draw_attention, draw_gates, drawn_text, gate_table, to_json
from gtransformer.preprocess.corpus import text_lines
from gtransformer.translation.api import GTransformer
from gtransformer.translation.lines import InputLine
from gtransformer.translation.options import SearchOptions

START_SYMBOL, END_SYMBOL = BOUNDARIES = "<s>", "</s>"


@dataclass(frozen=True)
class InspectedInstance:
    """One instance of a document.

    Attributes:
        first: number of its first sentence, from 1.
        table: its gates as text; paragraphs: each sentence's sources by attention; numbers: all values, for a JSON
            file.
    """

    first: int
    table: str
    paragraphs: str
    numbers: dict[str, Any]


def inspect_document(
    model: GTransformer,
    document: list[InputLine],
    given: list[str] | None,
    options: SearchOptions,
    output: Path,
    title: str,
    top: int,
) -> Iterator[InspectedInstance]:
    """Inspect every instance, and draw its attention and gates into the folder ``output``.

    Args:
        given: BPE of the translation to inspect, line by line; None: the model's own.
        top: source sentences listed for each.
    """
    dictionary = model.engine.target
    bos, eos = dictionary.bos(), dictionary.eos()
    costs = [len(line.tokens[0]) + BOUNDARY_TOKENS for line in document]
    cuts = greedy(costs, model.max_instance_tokens, model.directory.max_sents)
    for number, (first, last) in enumerate(cuts, 1):
        lines = document[first:last]
        pieces = [line.tokens[0] for line in lines]
        target = given[first:last] if given else model.engine.translate([pieces], options)[0][0].sentences
        source = model.engine.instance_tokens(pieces).tolist()
        begin = [bos, *map(dictionary.index, given_words(model.directory.target_prefix))]
        written = [index for text in target for index in (*begin, *map(dictionary.index, text.split()), eos)]
        found = inspect(model.engine.model, source, written)
        several = len(cuts) > 1
        end = f".{number}" if several else ""
        here = f"{title}, sentences {first + 1} to {last}" if several else title
        draw_attention(found, output / f"attention{end}.png", here)
        if found.gates:
            draw_gates(found, output / f"gates{end}.png", here)
        plain = model.chain.decode(target)
        source = [line.sentences[0] for line in lines]
        numbers = {"first_sentence": first + 1, "source": source, "translation": plain, **to_json(found)}
        text = drawn_text(found, source, plain, first + 1, top)
        yield InspectedInstance(first + 1, f"{here}\n{gate_table(found)}", text, numbers)


def find_document(lines: Iterable[InputLine], number: int, name: str) -> list[InputLine]:
    """Return the sentences of the document with this number, from 1.

    Raises UserError if there are fewer documents, or if one of the sentences is too long for the model.
    """
    found: list[InputLine] = []
    documents = 0
    for line in lines:
        documents = line.position.documents
        if documents == number and line.tokens:
            found.append(line)
        if documents > number:
            break
    if not found:
        raise UserError(f"{name}: has {documents} documents, but no document {number}; choose one with --document")
    cut = next((line for line in found if line.was_cut), None)
    if cut is not None:
        raise UserError(
            f"{name}, line {cut.position.lines}: has more tokens than the model has positions; split the line"
        )
    return found


def given_translation(path: str, number: int, document: list[InputLine], model: GTransformer) -> list[str]:
    """Return the BPE of the document's lines in a file that is aligned with an input of ``number`` lines.

    Raises UserError for another number of lines.
    """
    lines = list(text_lines(path))
    if len(lines) != number:
        raise UserError(f"{path}: has {len(lines)} lines, but the text has {number}; give a line for each line")
    texts = [lines[line.position.lines - 1] for line in document]
    return [" ".join(tokens) for tokens in model.chain.encode_target(texts)]


def given_words(prefix: str | None) -> list[str]:
    """The words that every sentence of a side begins with: none, or the prefix."""
    return [] if prefix is None else [prefix]
