"""Damage to files, drawn at random: bytes, lines, and the values of JSON."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

# Numbers that are none or do not fit, texts that are none, paths that lead out, and other types than expected.
VALUES = [
    None, True, False, -1, 0, 1, 2**31, 10**30, 1.5, float("nan"), float("inf"), "", "x", "3", "\ud800", "../../x",
    "a\0b", "\u2028", "\u202e<s>", [], {}, [[]], [None], {"": None}, "9" * 5000,
]  # fmt: skip
TEXTS = [
    "\ufeff", "\0", "\x85", "\u2028", "\u202e", "\r", "\n\n", "\t", "  ", "<d>", "<s>", "</s>", "<mask>", "[de]",
    "@@ ", "e\u0301", "🙂", "%s", "${x}", "&x", "*x",
    "!!python/object:os.system", "#version: 9", " 1", "-1", "9" * 5000, "[" * 5000,
]  # fmt: skip


def damaged_bytes(content: bytes, draw: random.Random) -> bytes:
    """The content cut short, with a piece lost, doubled or put in, a byte changed, lines mixed; once to three times."""
    for _ in range(draw.randint(1, 3)):
        begin, end = sorted(draw.randint(0, len(content)) for _ in range(2))
        end = min(end, begin + draw.choice((1, 4, 20, len(content))))
        lines = content.split(b"\n")
        content = draw.choice(
            (
                content[:begin],
                content[:begin] + content[end:],
                content[:end] + content[begin:],
                content[:begin] + bytes([draw.randrange(256)]) + content[begin + 1 :],
                content[:begin] + draw.choice(TEXTS).encode() + content[begin:],
                b"\n".join(draw.sample(lines, len(lines))),
            )
        )
    return content


def damaged_json(content: bytes, draw: random.Random) -> bytes:
    """JSON in which values were exchanged, lost or doubled; now and then its bytes are damaged instead."""
    if draw.random() < 0.3:
        return damaged_bytes(content, draw)
    value = json.loads(content)
    for _ in range(draw.randint(1, 2)):
        places = list(_places(value))
        if not places:
            break
        holder, key = draw.choice(places)
        change = draw.randrange(3)
        if change == 0:
            holder[key] = draw.choice(VALUES)
        elif change == 1:
            del holder[key]
        elif isinstance(holder, list):
            holder.insert(key, holder[key])
        else:
            holder[draw.choice(("x", "version", ""))] = holder[key]
    return json.dumps(value).encode()


def damaged_lines_of_json(content: bytes, draw: random.Random) -> bytes:
    """The same for a file with one JSON value a line."""
    lines = content.split(b"\n")
    number = draw.randrange(len(lines))
    if lines[number]:
        lines[number] = damaged_json(lines[number], draw)
    return b"\n".join(lines)


def _places(value: Any):
    """(holder, key) of everything in a JSON value."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


Damage = Callable[[bytes, random.Random], bytes]
