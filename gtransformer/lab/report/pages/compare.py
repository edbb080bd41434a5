"""The page that compares systems: source, reference and translations, by document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.evaluation.accuracy import bucket_name
from gtransformer.evaluation.contrastive import Item, check_right_translation, read_items
from gtransformer.evaluation.metrics import COLUMNS, INSTANCES
from gtransformer.evaluation.score import Evaluation
from gtransformer.evaluation.score_table import notes, score_cell
from gtransformer.evaluation.segments import POSITION_RANGES, Segments
from gtransformer.lab.report.pages.colours import system_colours
from gtransformer.lab.report.pages.page import write_page
from gtransformer.preprocess.plain_text import Documents

REFERENCE = "raw"  # untouched text
WORD = re.compile(r"\w+|[^\w\s]")  # as in the page's script


def write_comparison(
    path: str | Path,
    systems: Sequence[Evaluation],
    source: Documents | None,
    items: Sequence[Item] = (),
    title: str = "Translations side by side",
) -> None:
    """Write the page.

    Args:
        systems: scored against the untouched text.
        source: documents of sentences, in the shape of the reference; None: not shown.
        items: contrastive items of the split, to mark their words.

    Raises UserError for items of another text.
    """
    evaluations = [system.scores[REFERENCE] for system in systems]
    first = evaluations[0].segments
    names = [system.name for system in systems]
    colours = system_colours(names)
    marks = marked(items, first)
    shown = [{"name": name, "colour": colours[name]} for name in names]
    languages = systems[0].source_lang, systems[0].target_lang
    ranges = {bucket_name(place, POSITION_RANGES) for _, place in first.positions}
    phenomena = sorted({mark[0] for some in marks.values() for mark in some})
    data = {
        "systems": shown,
        "languages": [(lang or "").replace("_", "-") for lang in languages],
        "source": source is not None,
        "documents": documents([scores.segments for scores in evaluations], source, marks),
    }
    rows = []
    for key in dict.fromkeys(key for scores in evaluations for key in scores.values if COLUMNS[key].level != INSTANCES):
        values = [scores.values.get(key) for scores in evaluations]
        cells = [score_cell(key, value) for value in values]
        rows.append((COLUMNS[key].title, cells, next(value for value in values if value is not None).signature))
    write_page(
        path,
        "compare.html",
        data,
        title=title,
        systems=shown,
        rows=rows,
        notes=[note.removeprefix("note: ") for system in systems for note in notes(system, len(systems) > 1)],
        positions=[
            (name, low, high or "")
            for low, high in POSITION_RANGES
            if (name := bucket_name(low, POSITION_RANGES)) in ranges
        ],
        phenomena=phenomena,
        documents=len(data["documents"]),
        sentences=len(first.positions),
        signature=first.statistics("chrf", "sentences").measure.signature,
    )


def documents(systems: Sequence[Segments], source: Documents | None, marks: Mapping[tuple[int, int], list]) -> list:
    """Return ``[number, [[position, source, texts, scores, marks], ...]]`` of every document; numbers and positions
    from 1.

    ``texts``: the reference, then each system's translation; the number of an earlier text stands for an equal one.
    ``scores``: chrF of each translation of the sentence, in tenths. ``marks`` is left out if there are none.
    """
    found: dict[int, list] = {}
    statistics = [segments.statistics("chrf", "sentences") for segments in systems]
    # The split determines the scored sentences, so positions are the same for all systems.
    for index, (document, position) in enumerate(systems[0].positions):
        texts = [systems[0].sentences.references[index], *(one.sentences.hypotheses[index] for one in systems)]
        same = [texts.index(text) for text in texts]
        sentence = [
            position,
            source[document][position - 1] if source else "",
            [text if at == number else at for number, (text, at) in enumerate(zip(texts, same, strict=True))],
            [round(10 * one.score([index])) for one in statistics],
        ]
        if (document, position - 1) in marks:
            sentence.append(marks[document, position - 1])
        found.setdefault(document, []).append(sentence)
    return [[number + 1, sentences] for number, sentences in found.items()]


def marked(items: Iterable[Item], segments: Segments) -> dict[tuple[int, int], list]:
    """Return ``[phenomenon, detail, distance, right words, wrong words]`` of items, by document and sentence, from 0.

    Raises UserError for an item whose sentence is missing, or has another reference.
    """
    references = dict(zip(segments.positions, segments.sentences.references, strict=True))
    known = {(d, s) for d, document in enumerate(segments.text) for s in range(len(document))}
    found: dict[tuple[int, int], list] = {}
    for item in items:
        reference = references.get((item.document, item.sentence + 1))
        if reference is None and (item.document, item.sentence) in known:  # in no instance, so not shown
            continue
        check_right_translation(item, reference)
        mark = [item.phenomenon, item.detail, item.distance, *telling_words(item.correct, item.wrong)]
        found.setdefault((item.document, item.sentence), []).append(mark)
    return found


def read_split_items(path: Path, split: str | None) -> list[Item]:
    """Return contrastive items. Raises UserError if they are not of the scored split (None: it has no name)."""
    own, items = read_items(path)
    if split not in (None, own):
        raise UserError(f"{path}: items of the split '{own}', but '{split}' is scored; give that split's items")
    return items


def telling_words(correct: str, wrong: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the words by which a right translation differs from wrong ones, and the words only in wrong ones."""
    words, right, others = WORD.findall(correct), {}, {}
    for text in wrong:
        other = WORD.findall(text)
        for kind, a, b, c, d in SequenceMatcher(None, words, other, autojunk=False).get_opcodes():
            if kind != "equal":
                right |= dict.fromkeys(words[a:b])
                others |= dict.fromkeys(other[c:d])
    return list(right), [word for word in others if word not in words]
