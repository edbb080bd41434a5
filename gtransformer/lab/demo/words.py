"""The words of the demonstration's language with German inflection: people, things, places, times,
adjectives."""

from __future__ import annotations

from dataclasses import dataclass

GENDERS = ("m", "f", "n")

PRONOUNS = {"m": ("er", "ihn"), "f": ("sie", "sie"), "n": ("es", "es")}
"""Nominative and accusative of the pronoun for each gender."""

_EIN = {
    "nom": {"m": "ein", "f": "eine", "n": "ein"},
    "acc": {"m": "einen", "f": "eine", "n": "ein"},
    "dat": {"m": "einem", "f": "einer", "n": "einem"},
}
_DER = {
    "nom": {"m": "der", "f": "die", "n": "das"},
    "acc": {"m": "den", "f": "die", "n": "das"},
    "dat": {"m": "dem", "f": "der", "n": "dem"},
}
# Endings of an adjective after "ein".
_ENDINGS = {
    "nom": {"m": "er", "f": "e", "n": "es"},
    "acc": {"m": "en", "f": "e", "n": "es"},
    "dat": {"m": "en", "f": "en", "n": "en"},
}


@dataclass(frozen=True)
class Word:
    """An English word or phrase and its German; ``str()`` is the German base form.

    ``acc`` and ``dat`` default to the base form. A German form may contain ``[du form|Sie form]``.
    Two words of one ``group`` would contradict each other about the same thing.
    """

    en: str
    de: str
    accusative: str = ""
    dative: str = ""
    group: str = ""

    def __str__(self) -> str:
        return self.de

    @property
    def acc(self) -> str:
        return self.accusative or self.de

    @property
    def dat(self) -> str:
        return self.dative or self.de


@dataclass(frozen=True)
class Noun:
    """An inanimate noun, referred to as "it". ``de`` is the same in every case of the singular used
    here."""

    en: str
    de: str
    gender: str


def described(noun: Noun, adjective: Word) -> Word:
    """Return the phrase "a new lamp", "eine neue Lampe" in its three cases."""
    g = noun.gender
    forms = [
        f"{_EIN[case][g]} {adjective.de}{_ENDINGS[case][g]} {noun.de}"
        for case in ("nom", "acc", "dat")
    ]
    article = "an" if adjective.en[0] in "aeiou" else "a"
    return Word(f"{article} {adjective.en} {noun.en}", *forms)


@dataclass(frozen=True)
class Sense:
    """One meaning of an ambiguous English noun; ``oblique`` is the accusative and dative if they
    differ."""

    en: str
    de: str
    gender: str
    oblique: str = ""

    def __str__(self) -> str:
        return f"{_DER['nom'][self.gender]} {self.de}"

    @property
    def acc(self) -> str:
        return f"{_DER['acc'][self.gender]} {self.oblique or self.de}"

    @property
    def dat(self) -> str:
        return f"{_DER['dat'][self.gender]} {self.oblique or self.de}"

    @property
    def von(self) -> str:
        """The noun with "von", which merges with the article "dem"."""
        return f"von {self.dat}".replace("von dem ", "vom ")


def _words(text: str, group: str = "") -> tuple[Word, ...]:
    pairs = (entry.strip().split(" = ") for entry in text.split(","))
    return tuple(Word(en, de, group=group) for en, de in pairs)


def _nouns(gender: str, text: str) -> tuple[Noun, ...]:
    return tuple(Noun(word.en, word.de, gender) for word in _words(text))


def _kin(en: str, de: str, gender: str) -> tuple[Word, Word]:
    """Return a relative of the writer ("my brother") and one of the reader ("your brother")."""
    nom, acc, dat = ({"m": ("", "en", "em"), "f": ("e", "e", "er")})[gender]
    mine = Word(f"my {en}", f"mein{nom} {de}", f"mein{acc} {de}", f"mein{dat} {de}")
    yours = Word(f"your {en}", *(f"[dein{ending}|Ihr{ending}] {de}" for ending in (nom, acc, dat)))
    return mine, yours


NOUNS = {
    "m": _nouns(
        "m",
        "table = Tisch, chair = Stuhl, cupboard = Schrank, carpet = Teppich, coat = Mantel, hat = "
        "Hut, suitcase = Koffer, umbrella = Regenschirm, ring = Ring, mirror = Spiegel, computer "
        "= Computer, basket = Korb",
    ),
    "f": _nouns(
        "f",
        "lamp = Lampe, bag = Tasche, clock = Uhr, guitar = Gitarre, vase = Vase, jacket = Jacke, "
        "camera = Kamera, necklace = Kette, blanket = Decke, cup = Tasse, doll = Puppe, trumpet = "
        "Trompete",
    ),
    "n": _nouns(
        "n",
        "book = Buch, picture = Bild, bed = Bett, sofa = Sofa, dress = Kleid, shirt = Hemd, piano "
        "= Klavier, bicycle = Fahrrad, radio = Radio, shelf = Regal, telephone = Telefon, knife = "
        "Messer",
    ),
}

WOMEN = ("Anna", "Maria", "Lena", "Julia")
MEN = ("Peter", "Paul", "Tom", "Jonas")
SURNAMES = ("Schmidt", "Weber", "Fischer", "Wagner", "Becker", "Hoffmann")
NAMES = tuple(Word(name, name) for pair in zip(WOMEN, MEN, strict=True) for name in pair)

_KIN = tuple(
    _kin(*entry)
    for entry in (
        ("brother", "Bruder", "m"),
        ("sister", "Schwester", "f"),
        ("father", "Vater", "m"),
        ("mother", "Mutter", "f"),
        ("uncle", "Onkel", "m"),
        ("aunt", "Tante", "f"),
    )
)
MY_KIN = tuple(mine for mine, _ in _KIN)
YOUR_KIN = tuple(yours for _, yours in _KIN)

CITIES = _words(
    "Berlin = Berlin, Hamburg = Hamburg, Munich = München, Vienna = Wien, Cologne = Köln, Zurich = "
    "Zürich"
)
DAYS = _words(
    "Monday = Montag, Tuesday = Dienstag, Wednesday = Mittwoch, Thursday = Donnerstag, Friday = "
    "Freitag, Saturday = Samstag, Sunday = Sonntag"
)
MONTHS = _words("May = Mai, June = Juni, July = Juli, August = August")
PAST = _words("yesterday = gestern, last week = letzte Woche, this morning = heute Morgen")
ROOMS = _words(
    "in the kitchen = in der Küche, in the garden = im Garten, in the cellar = im Keller, in the "
    "office = im Büro"
)
NUMBERS = _words(
    "twenty = zwanzig, thirty = dreißig, forty = vierzig, fifty = fünfzig, sixty = sechzig"
)
FEW = _words("two = zwei, three = drei, four = vier, five = fünf")
LANGUAGES = _words(
    "Italian = Italienisch, French = Französisch, Spanish = Spanisch, Russian = Russisch"
)
SKILLS = _words("sings = singt, cooks = kocht, swims = schwimmt, dances = tanzt, draws = zeichnet")

COLOURS_AND_SIZES = _words(
    "new = neu, old = alt, small = klein, big = groß, red = rot, blue = blau, green = grün, black "
    "= schwarz, white = weiß, yellow = gelb"
)
MOODS = _words(
    "tired = müde, happy = glücklich, ill = krank, sad = traurig, nervous = nervös, hungry = "
    "hungrig"
)
LOOKS = _words("beautiful = schön, ugly = hässlich, strange = seltsam", group="look")
QUALITIES = (
    *LOOKS,
    *_words("expensive = teuer, cheap = billig, valuable = wertvoll", group="price"),
    *_words("practical = praktisch, useful = nützlich", group="use"),
)
STATES = _words("dirty = schmutzig, clean = sauber, broken = kaputt", group="state")

SLOTS: dict[str, tuple[Word, ...]] = {
    "H": NAMES,
    "A": QUALITIES,
    "B": LOOKS,
    "S": STATES,
    "M": MOODS,
    "C": CITIES,
    "D": DAYS,
    "J": MONTHS,
    "T": PAST,
    "L": ROOMS,
    "N": NUMBERS,
    "F": FEW,
    "G": LANGUAGES,
    "V": SKILLS,
    "Y": YOUR_KIN,
}
"""What may stand in each one-letter slot; people (``P``, ``Q``) and the thing talked about (``X``)
are filled apart."""
