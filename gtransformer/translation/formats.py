"""Translated lines as they stand in the output: one line for each line of the input, as text or as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable

from gtransformer.translation.api import TranslatedLine, Translation
from gtransformer.translation.lines import shown_separator

Format = Callable[[TranslatedLine], str]
# What JSON leaves as it is and some readers take for the end of a line.
_BREAKS = {sign: f"\\u{sign:04x}" for sign in (0x85, 0x2028, 0x2029)}


def make_format(name: str, scores: bool, several: bool) -> Format:
    """The function that writes a line, without its line end: ``name`` is "text" or "json".

    Args:
        scores: give the log probability of every translation.
        several: give all n best translations, not only the best.
    """
    chosen = {"text": text_line, "json": json_line}[name]
    return lambda translated: chosen(translated, scores, several)


def text_line(translated: TranslatedLine, scores: bool, several: bool) -> str:
    """Columns separated by tabs: the translation, or score and translation, as often as there are translations."""
    if not translated.translations:
        return shown_separator(translated.line)
    shown = translated.translations if several else translated.translations[:1]
    cells = [cell for one in shown for cell in ((f"{one.score:.4f}", one.text) if scores else (one.text,))]
    return "\t".join(cells)


def json_line(translated: TranslatedLine, scores: bool, several: bool) -> str:
    """An object with ``line``, ``document`` and ``sentence`` (all from 1; null between documents), ``source`` as read,
    ``translation``, and on request ``score`` and ``nbest``.
    """
    line, translations = translated.line, translated.translations
    value: dict = {
        "line": line.place.lines,
        "document": None if line.breaks else line.place.documents,
        "sentence": None if line.breaks else line.place.sentences,
        "source": line.text,
        "translation": translations[0].text if translations else shown_separator(line),
    }
    if translations and scores:
        value["score"] = round(translations[0].score, 4)
    if translations and several:
        value["nbest"] = [_entry(one, scores) for one in translations]
    return json.dumps(value, ensure_ascii=False).translate(_BREAKS)


def _entry(one: Translation, scores: bool) -> dict:
    return {"translation": one.text} | ({"score": round(one.score, 4)} if scores else {})
