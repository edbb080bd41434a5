"""Text comes back from its tokens: nothing that belongs together is torn, and blanks stand where they stood."""

from __future__ import annotations

import random
from functools import cache

import pytest

from gtransformer.files import read_lines
from gtransformer.preprocess.tokenise import Detokeniser, Tokeniser
from gtransformer.preprocess.truecase import LOWER, Truecaser, count_casings, detruecase, write_model


@cache
def both(lang: str) -> tuple[Tokeniser, Detokeniser]:
    return Tokeniser(lang, exact=True), Detokeniser(lang, exact=True)


@pytest.mark.parametrize(
    ("lang", "text"),
    [
        ("de", "Das kostet 5 € und 20% mehr, 5€ oder 20 % weniger."),
        ("de", "»Ja«, sagte er; „nein“, sagte sie: ›Nun‹."),
        ("de", "Um 14:30 Uhr, wie geht's? 2:0, Vgl. 3,5 km/h und/oder 10–20 – so."),
        ("de", "Mail an a.b@c.de oder https://a.de/b?c=1&d=2#e, C:\\d\\e und www.f.de/g."),
        ("de", "Schmeckt's? (Ja!) Der „Aal“-Händler, C#-Code, 96 dB(A), Lehrer(innen) [1], f(x)."),
        ("de", 'Er sagte: "Gut." Und: "Nein", sie \'auch\'.'),
        ("en", "My father’s house isn't old, it’s O'Neill's; the dogs' and cats’ tails."),
        ("en", "He said, \"I know,\" and then, “Go—now!” Rock 'n' roll in the '70s, get 'em."),
        ("en", "‘Good,’ she said. AT&T, R&D, $5.00, 5 $, #1, +1, <b>bold</b>, 3 < 4."),
        ("en", "'So it goes,' he said, snake_case and x=y; see a/b (1/2)."),
        ("fr", "L’eau qu'il boit « est » bonne : oui ! aujourd’hui, à 14:30, 5 € ?"),
        ("pt", "— Não! disse-lhe “ele”. Caixa d'água às 14:30, R$ 5,00, «já»; 1º, 2ª."),
        ("ru", "— Привет, «мир»! За́мок и замо́к, 5 % и 5%, т. е. так: „так“."),
        ("zh", "你好，世界。他说：“你好！”《书》（一）、增长了90%，使用 Python 3.12 编程。"),
        ("zh", "你好,世界!"),
        ("zh", '他说"你好"。错误: 发现 "a" 或"b", (c) 中文(英文)'),
        ("ja", "「はい」と言った。値は 5% です、'x'を 使う"),
        ("fr", "Oui? Non! «Bon»: ça; quoi?! (« oui ») https://a.fr/b?c"),
        ("de", 'Das Zeichen ")" und ":" und "-", in der Schweiz «so» und so.'),
        ("he", 'ד"ר כהן נסע לארה"ב, "שלום" אמר צה"ל.'),
        ("it", "E' vero: un po' di sale, po’ d’acqua; dell'altro, perche' no? Va' via."),
        ("it", "Disse 'ciao' e: “L’ho”."),
        ("ga", "D'ól sé b’fhéidir 'uisce' m'athar."),
        ("el", "Καλημέρα· τι κάνεις; «Ναι»· όχι."),
        ("el", "Α·Β και 5·3 · ναι"),
        ("hi", "यह एक घर है । नहीं ।"),
        ("ar", "ماذا ؟ نعم؟"),
        ("ca", "La vitamina 'D' és bona."),
        ("ca", "El col·legi d'en Joan · l’escola; porta'm 'això' i ‘allò’."),
        ("en", "The · here, A · B"),
        ("ar", "«لا»؛ نعم، «ماذا»؟"),
        ("hi", "“हाँ”। नहीं।"),
        ("en", "Me too 👍🏽 ❤️, 👨‍👩‍👧 — m², ½, 20 °C, 20°C."),
    ],
)
def test_examples(lang, text):
    tokenise, detokenise = both(lang)
    tokens = tokenise([text])
    assert detokenise(tokens) == [text]
    assert not {":", "@", "/", "€20", "%20"} <= set(tokens[0].split())


@pytest.mark.parametrize(
    ("lang", "text", "tokens"),
    [
        ("de", "Um 14:30 an a@b.de: 5 € und 20%.", "Um 14:30 an a@b.de : 5 € und 20% ."),
        ("de", "km/h, und/oder, 10–20", "km @/@ h , und @/@ oder , 10 @–@ 20"),
        ("en", "It isn't Tom's, is it?", "It isn 't Tom 's , is it ?"),
        ("fr", "L’eau, l'eau", "L’ eau , l' eau"),
    ],
)
def test_words_stay_words(lang, text, tokens):
    """What Moses cuts rightly is cut as before; dashes and slashes part words without becoming part of them."""
    assert both(lang)[0]([text]) == [tokens]


@pytest.mark.parametrize(
    ("corpus", "lang"), [("bible", "de"), ("techdocs", "en"), ("techdocs", "de"), ("ted", "en"), ("news", "de")]
)
def test_real_text(shared, corpus, lang, tmp_path):
    raw = [line for line in read_lines(shared / corpus / f"concatenated_en2de_dev_{lang}.txt.xz") if line != "<d>"]
    raw = [" ".join(line.split()) for line in raw[:800]]
    raw = [line for line in raw if line]
    tokenise, detokenise = both(lang)
    tokens = tokenise(raw)
    write_model(count_casings(tokens, exact=True), tmp_path / "model")
    cased = Truecaser(tmp_path / "model", exact=True)(tokens)
    assert detruecase(cased, exact=True) == tokens, "casing alone is never lost"
    back = detokenise(tokens)
    assert sum(a == b for a, b in zip(raw, back, strict=True)) > 0.98 * len(raw)
    for before, after, line in zip(raw, back, tokens, strict=True):
        assert before.replace(" ", "") == after.replace(" ", ""), "nothing but blanks is ever changed"
        assert not any(word.endswith("@@") for word in line.split())


@pytest.mark.parametrize("lang", ["en", "de", "fr", "zh"])
def test_no_text_is_lost_whatever_it_is(lang):
    draw = random.Random(7)
    signs = (
        "ab C1 .,:;!?'\"’“”„‚‘«»‹›()[]{}<>/–—-@#%&*_=+|\\^~`$€é\u0301你，。「」…@@ <mask> [de] </s> THISISPROTECTED000 "
    )
    parts = [*signs, "<mask>", "[de]", "</s>", "@@", " ", " ", "THISISPROTECTED000", "wort", "don't"]
    texts = ["".join(draw.choices(parts, k=draw.randint(1, 25))) for _ in range(400)]
    texts += ["1%2/3:4 " * 700, "a" * 3000, "(" * 500, "a.b" * 500 + "@", "'" * 50, "x/" * 400]
    texts += ["中," * 1500, "a/b " * 1500, "a.b" * 20_000 + " #x", "a-b" * 20_000 + "/c"]
    texts = [" ".join(text.split()) for text in texts if text.strip()]
    tokenise, detokenise = both(lang)
    tokens = tokenise(texts)
    for text, line, back in zip(texts, tokens, detokenise(tokens), strict=True):
        assert text.replace(" ", "") == back.replace(" ", "")
        words = line.split()
        assert not {"<mask>", "[de]", "</s>"} & set(words) and not any(word.endswith("@@") for word in words)


def test_what_belongs_to_no_word_needs_no_guess():
    """Tokens with blanks around them are as they were given; so is the language's own spacing."""
    assert both("de")[1](["20 % von 5 € , a @ b"]) == ["20 % von 5 €, a @ b"]
    assert both("fr")[1](["« Oui » , dit-il ; non ?!"]) == ["« Oui », dit-il ; non ?!"]
    assert both("en")[1](["", "."]) == ["", "."]


def test_casing_of_a_line_comes_back(tmp_path):
    """Whatever the model has seen; a colon begins no sentence; lines in small letters are told by a token."""
    lines = ["Farben : rot und Blau", "die Rede", "„ Die Rede", "WICHTIG : ja", "iPhone", "ßa", "- Die da", ". . .", ""]
    lines += ["3 Äpfel", "ist es ? das ja", "Ist es ? Das ja"]
    write_model(count_casings(lines, exact=True), tmp_path / "model")
    cased = Truecaser(tmp_path / "model", exact=True)(lines)
    assert detruecase(cased, exact=True) == lines
    assert cased[1:4] == [f"{LOWER} die Rede", "„ die Rede", "WICHTIG : ja"] or cased[2] == "„ Die Rede"
    assert cased[-2].startswith(f"{LOWER} ist")


def test_the_token_is_only_written_where_training_text_has_it(tmp_path):
    """Else it would be unknown to the model, and a capital too many is the lesser evil."""
    write_model(count_casings(["Der Hund", "Er und der Hund"], exact=True), tmp_path / "model")
    assert Truecaser(tmp_path / "model", exact=True)(["der Hund", "Der Hund"]) == ["der Hund", "der Hund"]


def test_sign_of_small_letters_in_the_text_itself(tmp_path):
    write_model(count_casings(["der Hund", "er und der Hund"], exact=True), tmp_path / "model")
    for line in (LOWER, f"{LOWER} Der Hund", f"{LOWER} der Hund", f"Der {LOWER} Hund", f"{LOWER} {LOWER} der"):
        cased = Truecaser(tmp_path / "model", exact=True)([line])
        assert detruecase(cased, exact=True) == [line]
