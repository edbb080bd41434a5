"""Reversible tokenisation: patterns that the tokeniser does not split, and rules of spacing for detokenisation.

Moses' tokeniser splits at all characters but letters and digits, and its detokeniser guesses the blanks: ``5 € und``,
``14:30`` and ``a@b.de`` become ``5 €und``, ``14: 30``, ``a @ b.de``. Here a sign that is no punctuation stays with the
word that it touches, or remains a token if it touches none. So addresses, times, numbers with units and words with
stress marks need no guess. The blanks of punctuation follow rules; the side of a quotation mark follows from its
neighbours. A dash or slash between two words becomes the token ``@/@``, like Moses' ``@-@``. So does an ASCII comma
between Chinese characters. French punctuation without its blank becomes ``@?``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gtransformer.data.languages import language_of_rules

STOPS = ".,;:!?…"
OPENING, CLOSING = "([{¿¡", ")]}"
QUOTES = "\"'“”„‘’‚«»‹›"
WIDE = "。，、；：！？（）［］｛｝「」『』《》〈〉【】〔〕～"  # of Chinese and Japanese: without blanks on either side
DOT = "·"  # such a mark in these two, elsewhere a sign (col·legi)
# Stops of Arabic, Hindi, Armenian, Amharic and Greek stay with the word before; as tokens they may follow a quotation.
SIGN_STOPS = "،؛؟।॥։።·"
JOINTS = "/–—"
ASCII = ",:;!?\"'"  # such marks among Chinese or Japanese have blanks or not, as in other languages
FRENCH = "?!:;»"  # with a blank in front; « with one behind
UNSPACED = ("zh", "ja")
ELIDING = ("fr", "it", "ca", "ga")  # l'eau is two words, the first of which ends in the apostrophe
# Italian words end in an apostrophe for lost syllables, too (un po' di). They end in a vowel, elided ones never.
VOWELS = "aeiouAEIOUàèéìòùÀÈÉÌÒÙ"
# Short forms that begin with an apostrophe; any other such token of an English text belongs to the word before it.
SHORT = r"'(?:\d0s|n'?|em|til|tis|twas|cause|bout|ne[mnrs]?|nen|rein|raus|runter|rum)"
# Languages that open with „ and close with “, and those that write »so« and not «so».
LOW_QUOTES = ("de", "cs", "sk", "sl", "hr", "bg", "et", "lt", "lv", "is", "ru", "uk")
INWARD = ("de", "da", "cs", "sk", "sl", "hr", "hu")

QUOTED = "'’"
_QUOTES = frozenset(QUOTES)
_SHORT = re.compile(SHORT, re.IGNORECASE)
_OPENED = re.compile(r"(?<!\w)['‘‚]\w")
_JOINT = re.compile(f"[{JOINTS}]")
_JOINED = re.compile(f" @([{JOINTS}{ASCII}])@ ")
_TIGHT = re.compile(f" @([{FRENCH}])|(«)@ ")
_GLUED = re.compile(f'(?<=\\S)([{FRENCH}])(?=[]{FRENCH})"”’.,…]*(?:\\s|$))|(?<![^\\s([{{])(«)(?=\\S)')
_WIDE_MARK = re.compile(f"([{re.escape(WIDE + DOT)}])")
_DISARMED = re.compile(r"< (/?[a-z]+) >")
_WIDE = re.compile("[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]|[\U00020000-\U0003ffff]")


def ranges(letters: str) -> str:
    """Return the characters of a string as ranges, for a character class of a regular expression."""
    codes = sorted(set(map(ord, letters)))
    ends = [code for code, after in zip(codes, [*codes[1:], -1], strict=True) if after != code + 1]
    begins = [code for code, before in zip(codes, [-1, *codes[:-1]], strict=True) if before != code - 1]
    return "".join(f"{re.escape(chr(one))}-{re.escape(chr(other))}" for one, other in zip(begins, ends, strict=True))


def join_joints(line: str) -> str:
    """Undo ``@/@`` and ``@?``: ``"und @/@ oder @?"`` becomes ``"und/oder?"``."""
    if " @" in line:
        line = _JOINED.sub(r"\1", line)
    return _TIGHT.sub(r"\1\2", line) if "@" in line else line


class KeptTogether:
    """The patterns that the tokeniser does not split, for sacremoses' ``protected_patterns``.

    ``alnum``: the tokeniser's letters and digits.
    """

    def __init__(self, lang: str, alnum: str):
        letters = ranges(alnum)
        marks = re.escape(STOPS + OPENING + CLOSING + QUOTES + WIDE + (DOT if lang in UNSPACED else ""))
        a, sign = f"[{letters}]", f"[^{letters}{marks}`\\s-]"
        either = f"[^{marks}`\\s-]"
        # Possessive, and tried only at the beginning of a word: input may have words of any length.
        word = f"{a}++(?:(?:[.'’-]|(?<=\\d),(?=\\d)){a}++)*+"
        within = ":([{" if lang in UNSPACED else ":([{,;?!"
        between = "|".join(
            (
                f"{sign}+",
                f"(?<={a})(?:\\([^\\s()]*\\)|\\[[^\\s\\[\\]]*\\])",
                f"(?<={either})[{re.escape(within)}]+(?={either})",
                f"[)\\]}}](?={either})",
            )
        )
        self._signs = f"(?=\\S\\S)(?:(?<!{a})(?<!{a}[.'’-]){word})?(?:(?:{between})(?:[.'’-]*{word})?)+"
        self._has_sign = re.compile(f"{sign}|[{re.escape(within + ')]}')}]{a}|{a}[(\\[{{]")
        self._dots = f"(?:{a}++|(?<!\\.))\\.\\.++(?={a})"  # possessive: a long row of dots is read once
        self._english, self._elided = lang == "en", None
        self._shortened = f"{a}+’(?=\\s)"
        self._apostrophes = [f"{a}+s['’](?=\\s)", f"(?<!\\S){SHORT}(?!{a})"]
        self._truncated = f"{a}*[{VOWELS}]['’](?=\\s)" if lang == "it" else None
        self._acronym = '[א-ת]+"[א-ת]+' if lang == "he" else None
        inner = f"{a}+(?:[{'’' if lang == 'en' else QUOTED}]{a}+)+"  # English has own rules for the straight apostrophe
        if lang in ("ca", "ga"):  # one letter is elided; sacremoses does not know these
            one = f"(?<!{a})(?<!['‘’])(?i:[bdlmnst])['’]"
            self._elided = re.compile(f"({one})(?={a})")
            self._apostrophes += [f"{one}(?=\\s)", inner]
        elif lang in ELIDING:
            self._elided = re.compile(f"({a}’)(?={a})")
            self._apostrophes.append(self._shortened)
        else:
            self._apostrophes.append(inner)
        self._joints = re.compile(
            f"(?<![^\\s{re.escape(OPENING + QUOTES)}]){word}(?:[{JOINTS}]{word})+(?=[{marks}]*(?:\\s|$))"
        )

        self._french, self._unspaced = lang == "fr", None
        if lang in UNSPACED:
            letter = "[\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
            self._unspaced = re.compile(
                f"(?<={letter})[{ASCII}](?=[^\\s{WIDE}])|(?<=[^\\s{WIDE}])[{ASCII}](?={letter})"
            )

    def __call__(self, line: str) -> tuple[str, list[str]]:
        """Return the line with its joints as tokens, and the patterns that it needs (mostly none)."""
        patterns = []
        if self._french:
            line, tight = _GLUED.subn(lambda mark: f" @{mark[1]} " if mark[1] else " «@ ", line)
            patterns += [f"(?<!\\S)(?:@[{FRENCH}]|«@)(?!\\S)"] if tight else []
        if self._unspaced:
            line, joints = self._unspaced.subn(lambda mark: f" @{mark[0]}@ ", line)
            line = _WIDE_MARK.sub(r" \1 ", line)  # sacremoses takes some for letters
            patterns += [f"(?<!\\S)@[{ASCII}]@(?!\\S)"] if joints else []
        if any(joint in line for joint in JOINTS):
            line, joints = self._joints.subn(lambda words: _JOINT.sub(r" @\g<0>@ ", words[0]), line)
            patterns += [f"(?<!\\S)@[{JOINTS}]@(?!\\S)"] if joints else []
        if "'" in line or "’" in line:
            if self._english and line[0] == "'" and not _SHORT.match(line):
                line = f"' {line[1:]}"
            line = self._elided.sub(r"\1 ", line) if self._elided else line
            patterns += self._apostrophes
            if "’" in line and "‘" not in line and "‚" not in line:  # it closes nothing
                patterns.append(self._shortened)
            if self._truncated and not _OPENED.search(line):
                patterns.append(self._truncated)
        if self._acronym and '"' in line:
            patterns.append(self._acronym)
        if ".." in line:
            patterns.append(self._dots)
        if self._has_sign.search(line):
            patterns.append(self._signs)
        return line, patterns


class Spacing:
    """A detokeniser by the rules of a language."""

    def __init__(self, lang: str):
        self.lang = lang = language_of_rules(lang)
        self._spaced = frozenset(FRENCH if lang == "fr" else "")
        wide = WIDE + DOT if lang in UNSPACED else WIDE
        self._left = frozenset((*STOPS, *CLOSING, *wide)) - self._spaced
        self._right = frozenset((*OPENING, *wide))
        joints = JOINTS + ASCII if lang in UNSPACED else JOINTS
        # Token of a joint -> its sign, and whether it touches the token before and after it.
        self._joint_tokens = {f"@{joint}@": (joint, True, True) for joint in joints}
        if lang == "fr":
            self._joint_tokens |= {f"@{mark}": (mark, True, False) for mark in FRENCH} | {"«@": ("«", False, True)}
        self._within = frozenset("“”‘’") if lang in UNSPACED else frozenset()

    def __call__(self, tokens: Sequence[str]) -> str:
        """Return the plain text of the tokens of one line."""
        opens = self._directions(tokens)
        text: list[str] = []
        before, touches = "", True
        for position, token in enumerate(tokens):
            bare, left, right = self._joint_tokens.get(token, (token, False, False))
            if not (touches or left or self._touch(before, token, opens.get(position - 1), opens.get(position))):
                text.append(" ")
            text.append(bare)
            before, touches = token, right
        line = "".join(text)
        return _DISARMED.sub(r"<\1>", line) if "< " in line else line

    def _touch(self, one: str, other: str, one_opens: bool | None, other_opens: bool | None) -> bool:
        """Return whether there is no blank between two tokens; ``..._opens``: whether a quotation mark opens."""
        if (one in self._within and _WIDE.match(other)) or (other in self._within and _WIDE.match(one[-1])):
            return True
        if one in self._right:
            return True
        if one_opens is not None and (one_opens or other in self._spaced):
            return one_opens and not (self.lang == "fr" and one in "«‹")
        if other_opens is not None:
            return not other_opens and not (self.lang == "fr" and other in "»›")
        if other in self._left:
            return True
        if other in SIGN_STOPS:
            return one_opens is False or one in CLOSING
        head = other[0]
        if head in self._spaced:
            return one in "?!" and head in "?!"
        if head in STOPS and not other.strip(STOPS):
            return True
        if head == "'" and self.lang == "en" and len(other) > 1:
            return not _SHORT.fullmatch(other)
        if head in "-–—" and len(other) > 1:
            return one_opens is False or one in CLOSING
        elided = self.lang in ELIDING and one[-1] in "'’" and one[:-1].isalpha() and head.isalpha()
        return elided and not (self.lang == "it" and one[-2] in VOWELS)

    def _directions(self, tokens: Sequence[str]) -> dict[int, bool]:
        """Return, for every quotation mark, by position, whether it opens."""
        found: dict[str, list[int]] = {}
        for position, token in enumerate(tokens):
            mark = self._joint_tokens[token][0] if token in self._joint_tokens else token
            if mark in _QUOTES:
                found.setdefault(mark, []).append(position)
        opens: dict[int, bool] = {}
        for low, high, end in (("„", "“", "”"), ("‚", "‘", "’")):
            opens |= dict.fromkeys(found.pop(low, ()), True)
            for position in found.get(end, ()):
                if end == "”" or self._closes(tokens, position, (low, high)):
                    opens[position] = False
            if high in found and low in tokens:
                opens |= dict.fromkeys(found.pop(high), False)
            elif high in found and (end in found or self.lang not in LOW_QUOTES):
                opens |= dict.fromkeys(found.pop(high), True)
            found.pop(end, None)
        for one, other in (("»", "«"), ("›", "‹")):
            pair = [(position, True) for position in found.pop(one, ())] + [
                (position, False) for position in found.pop(other, ())
            ]
            if pair:
                inward = dict(sorted(pair))
                favour = 1.5 if self.lang in INWARD else -5
                if len(set(inward.values())) == 2:  # the first of the two kinds probably opens
                    favour += 3 if next(iter(inward.values())) else -3
                opens |= self._better(tokens, inward, favour)
        for places in found.values():
            opens |= self._better(tokens, {position: number % 2 == 0 for number, position in enumerate(places)}, 1.5)
        return opens

    @staticmethod
    def _closes(tokens: Sequence[str], position: int, opening: Sequence[str]) -> bool:
        """Return whether ’ is a closing quotation mark: after an opening one, or at the end of a sentence."""
        before = tokens[:position]
        ends = position + 1 == len(tokens) or (position > 0 and before[-1] in STOPS)
        return ends or any(mark in before for mark in opening)

    @staticmethod
    def _better(tokens: Sequence[str], opens: dict[int, bool], favour: float) -> dict[int, bool]:
        """Return ``opens`` or its opposite, whichever fits the neighbours better; ``favour``: initial score."""
        last = len(tokens) - 1
        for position, opening in opens.items():
            before, after = tokens[position - 1] if position else "", tokens[position + 1] if position < last else ""
            speaks = 0.0  # score of an opening mark
            if not before:
                speaks += 4
            elif position > 1 and tokens[position - 2] in _QUOTES:
                pass  # a mark that is quoted itself
            elif before in (*OPENING, ":", "–", "-", "—"):
                speaks += 1
            elif before in (".", "!", "?", "…", "..."):
                speaks -= 1
            if not after:
                speaks -= 4
            elif position + 2 <= last and tokens[position + 2] in _QUOTES:
                pass
            elif after[0] in f"{STOPS}{CLOSING}" and after[0] != "…" and after != "...":
                speaks -= 2
            elif after[0] == "-" and after[1:2].isalpha():
                speaks -= 1
            favour += speaks if opening else -speaks
        return opens if favour >= 0 else {position: not opening for position, opening in opens.items()}
