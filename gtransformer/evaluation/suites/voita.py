"""The English-Russian consistency sets of Voita, Sennrich and Titov (2019): deixis, ellipsis, lexical cohesion.

A file is a JSON list; an entry has ``src`` (four sentences, tokenised, joined by `` _eos ``), ``dst`` (candidate
translations of the four in the same form), ``true_ind`` (which of them is right) and, for deixis and lexical cohesion,
``ctx_dist`` (how many sentences back the context stands that decides). An entry counts if the right candidate has
the lowest loss, taken over all four sentences.
"""

from __future__ import annotations

from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.evaluation.suites.example import Example

SEPARATOR = "_eos"
# How the published files are called, and what they test.
PHENOMENA = {
    "deixis": "deixis",
    "lex": "lexical cohesion",
    "ellipsis_infl": "ellipsis, inflection",
    "ellipsis_vp": "ellipsis, verb phrase",
}


def phenomenon_of(path: str | Path) -> str:
    """What a file tests, by its name; an unknown name stands for itself."""
    name = Path(path).name
    stem = name.split(".")[0]
    return next((title for start, title in PHENOMENA.items() if stem.startswith(start)), stem)


def is_voita(data: object) -> bool:
    """Whether parsed JSON is one of these sets."""
    return isinstance(data, list) and bool(data) and isinstance(data[0], dict) and "dst" in data[0]


def voita_examples(data: list, path: str | Path) -> list[Example]:
    """The examples of a parsed file; UserError, naming the entry, where it is not in the format."""
    phenomenon = phenomenon_of(path)
    examples = []
    for number, entry in enumerate(data):
        where = f"{path}: entry {number}"
        if not isinstance(entry, dict) or not isinstance(entry.get("src"), str):
            raise UserError(f"{where} has no valid 'src' (text); correct it")
        candidates, right, distance = entry.get("dst"), entry.get("true_ind"), entry.get("ctx_dist")
        if not isinstance(candidates, list) or len(candidates) < 2 or not all(isinstance(c, str) for c in candidates):
            raise UserError(f"{where} has no valid 'dst' (list of at least two texts); correct it")
        if not isinstance(right, int) or isinstance(right, bool) or not 0 <= right < len(candidates):
            raise UserError(f"{where} has no valid 'true_ind' (0 to {len(candidates) - 1}); correct it")
        if distance is not None and not isinstance(distance, int):
            raise UserError(f"{where} has no valid 'ctx_dist' (number of sentences); correct it")
        source = split_sentences(entry["src"])
        targets = tuple(split_sentences(candidate) for candidate in candidates)
        odd = next((target for target in targets if len(target) != len(source)), None)
        if odd is not None:
            raise UserError(
                f"{where}: a translation of {len(odd)} sentences for {len(source)}, by {SEPARATOR}; correct it"
            )
        groups = {"phenomenon": phenomenon} | ({} if distance is None else {"distance": str(distance)})
        examples.append(Example(number, source, targets, right, True, groups))
    return examples


def split_sentences(text: str) -> tuple[str, ...]:
    """The sentences that ``_eos`` separates, in single spaces."""
    sentences: list[list[str]] = [[]]
    for word in text.split():
        if word == SEPARATOR:
            sentences.append([])
        else:
            sentences[-1].append(word)
    return tuple(" ".join(sentence) for sentence in sentences)
