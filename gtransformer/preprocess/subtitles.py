"""Subtitles (SubRip, WebVTT, ASS), read and written by pysubs2: to translate them cue by cue, and
as parallel corpora.

A cue's lines are one text for the model, except that each speaker's line (``- Hi.``) is a text of
its own. Cues of one sentence are joined, and its translation is divided again in proportion to
their lengths.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from html import escape, unescape
from itertools import groupby
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from gtransformer.errors import UserError
from gtransformer.files import read_lines
from gtransformer.preprocess.corpus import DOCUMENT, LeftOut, Pair, check_reserved

if TYPE_CHECKING:
    import pysubs2

ENDINGS = (".srt", ".vtt", ".ass", ".ssa")
GAP = 30.0  # seconds without a cue that separate documents
SHORT_PAUSE = 1.0  # seconds; between the cues of a sentence
MOST_CUES = 4  # of a sentence
LINE = 42  # letters; a longer cue is written on two lines, as is usual for films

_WITH_HTML = {".srt", ".vtt"}
# Of ASS, as {\i1}, and of HTML.
_TAG = r"\{[^}]*\}|</?[A-Za-z][^>]*>"
_LINE_BREAK = r"\\N"
# What may stand before and after the words of a cue.
_SIGNS = rf"{_TAG}|{_LINE_BREAK}|[♪♫#\s]"
# A cue: what stands before its words, the words, what stands after them.
_ENDS = re.compile(rf"((?:{_SIGNS}|[-–—]\s*)*)(.*?)((?:{_SIGNS})*)\Z", re.DOTALL)
# A line that begins with WebVTT's <v NAME>, or with a dash and a word.
_NEXT_SPEAKER = rf"{_LINE_BREAK}(?=<v[ .]|(?:{_TAG}|\s)*[-–—](?:{_TAG}|[^\w\\])*\w)"
_SWITCH = r"(</?|\\(?=[bius][01]\b))([A-Za-z]+)(0?)"  # of HTML and ASS: <i>, </i>, {\i1}, {\i0}
# Tags with the names {0}.
_REMOVED = r"</?(?:{0})\b[^>]*>|\{{\\(?:{0})[01]\}}|\\(?:{0})[01]\b"
_INNER_TIME = r"<\d+:[\d:.]+>"  # WebVTT: when the words after it appear
# A cue with such an end is not joined with the next one.
_SENTENCE_END = re.compile(r"[.!?…:;。！？♪♫\])\"”»]\Z")


@dataclass
class Part:
    """What one speaker says in a cue: ``text`` for the model, and the tags and signs before and
    after it.
    """

    cue: pysubs2.SSAEvent
    before: str
    text: str
    after: str


def is_subtitles(path: str | Path) -> bool:
    """Return whether a file's name is one of subtitles."""
    return Path(path).suffix.lower() in ENDINGS


def translate_file(
    path: str, output: str, gap: float, translate: Callable[[list[str]], list[str]]
) -> str:
    """Return the content of a file of subtitles, translated, in the format of the ending of
    ``output``.

    Args:
        gap: seconds without a cue that separate documents.
        translate: from lines of text, with lines ``<d>`` before documents, to the translations of
            the others.
    """
    endings = [Path(name).suffix.lower() for name in (path, output)]
    with_html = _WITH_HTML.issuperset(endings)
    # Between formats with HTML's tags these pass as they are. pysubs2 knows only some of them and
    # would drop the others.
    film = load(path, with_html)
    parts = parts_of(film)
    joined = sentences(parts)
    lines, end = [DOCUMENT], None
    for sentence in joined:
        # Times are milliseconds.
        if end is not None and sentence[0].cue.start - end > 1000 * gap:
            lines.append(DOCUMENT)
        end = max(end or 0, sentence[-1].cue.end)
        lines.append(" ".join(part.text for part in sentence))
    translations = translate(lines)
    is_vtt = endings[1] == ".vtt"
    put_back(parts, joined, translations, partial(escape, quote=False) if is_vtt else str)
    if with_html and is_vtt:
        for cue in film:
            # Players of SubRip know tags of ASS such as {\an8}; those of WebVTT would show them.
            cue.text = re.sub(r"\{\\[^}]*\}", "", cue.text)
    options = {"keep_ssa_tags": True} if with_html else {}  # tags are then written as they are
    return film.to_string(endings[1].removeprefix("."), **options)


def load(path: str | Path, keep_html: bool = False) -> pysubs2.SSAFile:
    """Read a file of subtitles; tags of HTML are kept, or become those of ASS.

    Raises UserError for a file that is no subtitles, or not UTF-8.
    """
    import pysubs2

    # pysubs2 would take a line with two inner times for the beginning of a cue.
    text = re.sub(_INNER_TIME, "", "\n".join(read_lines(path)))
    try:
        film = pysubs2.SSAFile.from_string(text, keep_html_tags=keep_html)
    except pysubs2.Pysubs2Error as error:
        raise UserError(f"{path}: no subtitles that pysubs2 can read ({error})") from None
    if film.format == "vtt":
        for cue in film:
            # pysubs2 adds the notes and names that stand before the next cue.
            cue.text = cue.text.split(r"\N\N")[0]
    return film


def parts_of(film: pysubs2.SSAFile) -> list[Part]:
    """Return the parts of all cues with text, in the order of their times.

    Tags within a text are left out; so is one at an end whose partner this removes.
    """
    parts = []
    # Files of ASS often list signs before or after all that is spoken.
    for cue in sorted(cue for cue in film if cue.is_text):
        speakers = [_ENDS.match(part).groups() for part in re.split(_NEXT_SPEAKER, cue.text)]
        unclosed = Counter()
        for begin, name, off in re.findall(_SWITCH, "".join(text for _, text, _ in speakers)):
            unclosed[name] += -1 if off or begin == "</" else 1
        single = [name for name, count in unclosed.items() if count]
        removed = _REMOVED.format("|".join(single)) if single else "(?!)"
        for before, text, after in speakers:
            # ASS writes line breaks and hard blanks as \N, \n and \h.
            plain = re.sub(_TAG, "", re.sub(r"\\[Nnh]", " ", text))
            if film.format == "vtt":
                plain = unescape(plain)
            before, after = (re.sub(removed, "", end) for end in (before, after))
            parts.append(Part(cue, before, " ".join(plain.split()), after))
    return parts


def sentences(parts: list[Part]) -> list[list[Part]]:
    """Join the parts of one sentence: what does not end a sentence, and what follows in the next
    cue.
    """
    joined: list[list[Part]] = []
    for part in parts:
        if not part.text:
            continue
        if joined and len(joined[-1]) < MOST_CUES and _goes_on(joined[-1][-1], part):
            joined[-1].append(part)
        else:
            joined.append([part])
    return joined


def _goes_on(part: Part, following: Part) -> bool:
    if following.cue is part.cue:  # of another speaker
        return False
    pause = (following.cue.start - part.cue.end) / 1000
    signs = re.sub(rf"{_TAG}|{_LINE_BREAK}", "", part.after + following.before).strip()
    if pause > SHORT_PAUSE or signs or _SENTENCE_END.search(part.text):
        return False
    # A title in capitals is a sentence; so are the cues of scripts without capitals, which often
    # lack full stops.
    return any(letter.islower() for letter in part.text)


def put_back(
    parts: list[Part],
    joined: list[list[Part]],
    translations: list[str],
    encode: Callable[[str], str],
) -> None:
    """Replace the text of all cues by the translations of their sentences; ``encode``: of the
    format.
    """
    for sentence, translation in zip(joined, translations, strict=True):
        texts = divide(translation, [len(part.text) for part in sentence])
        for part, text in zip(sentence, texts, strict=True):
            lines = wrap(text, LINE, break_long_words=False, break_on_hyphens=False)
            part.text = encode(r"\N".join(lines))
    # By identity: two cues with equal text and times are equal.
    for _, of_cue in groupby(parts, key=lambda part: id(part.cue)):
        of_cue = list(of_cue)
        of_cue[0].cue.text = r"\N".join(part.before + part.text + part.after for part in of_cue)


def divide(text: str, lengths: list[int]) -> list[str]:
    """Divide a text in proportion to ``lengths``: between words, or, without blanks, between
    letters.
    """
    words, between = text.split(), " "
    if len(words) < len(lengths) and not any(
        letter.islower() or letter.isupper() for letter in text
    ):
        words, between = list(text), ""  # Chinese, Japanese, Thai
    parts, begin = [], 0
    for number in range(1, len(lengths) + 1):
        # Every part gets a word, as long as there are enough: an empty cue would flash.
        end = round(len(words) * sum(lengths[:number]) / sum(lengths))
        end = max(begin, min(max(end, begin + 1), len(words) - (len(lengths) - number)))
        parts.append(between.join(words[begin:end]))
        begin = end
    return parts


def read_cue_pairs(source: Path, target: Path, left_out: LeftOut) -> Iterator[list[Pair]]:
    """Yield the pairs of cues with equal times of two files; a document ends where ``GAP`` seconds
    have no cue.

    Cues without text, or without a cue of the same times, are left out.
    """
    sides = []
    for path in (source, target):
        film = load(path)
        decode = unescape if film.format == "vtt" else str
        # The words by the times of a cue; cues of the same times, as of two speakers, are one text.
        words: dict[tuple[int, int], list[str]] = defaultdict(list)
        for cue in film:
            if cue.is_text:
                words[cue.start, cue.end] += decode(cue.plaintext).split()
        sides.append(words)
    document: list[Pair] = []
    end = 0
    for times in sorted(sides[0].keys() | sides[1].keys()):
        texts = [" ".join(words.get(times, ())) for words in sides]
        if not all(texts):
            what = "cues without text or without one of equal times"
            left_out[what].append(f"at {times[0]} ms")
            continue
        if document and times[0] - end > 1000 * GAP:
            yield document
            document = []
        where = f"cue at {times[0]} ms"
        document.append(tuple(map(check_reserved, (source, target), (where, where), texts)))
        end = max(end, times[1])
    if document:
        yield document
