"""F1 of pronoun and formality translation, English to German (Herold and Ney 2023, section 3.5 and appendix A.1).

"Improving Long Context Document-Level Machine Translation" counts German words that may translate an ambiguous English
pronoun. Its appendix gives the rules but not the word lists. These are our choice:

* Gendered pronouns are the personal pronouns that show one gender: er, ihn; sie, ihr; es. ``ihm`` is left out, as it is
  male or neuter. So are possessives (sein, ihr Haus), which the tagger labels as determiners. On ContraPro's correct
  references these lists find, without a tagger, 4,703 male, 4,007 female and 4,820 neuter pronouns. The paper's Table
  8, with a tagger, has 4,688, 4,001 and 4,565.
* Address includes the possessives: the paper counts all forms of "you", and "your" is equally ambiguous. ``ihr`` as
  informal plural is left out, as it cannot be distinguished from "her" and "their".

Tags come from spaCy, an optional extra. Its models are installed separately.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gtransformer.evaluation.segments import sentence_segments
from gtransformer.evaluation.text_table import align
from gtransformer.preprocess.plain_text import read_plain, read_shaped

MODELS = {"en": "en_core_web_sm", "de": "de_core_news_sm"}  # the paper's taggers


class Token(NamedTuple):
    """A word and its universal part of speech (``PRON``, ``DET``, ``VERB``, ...)."""

    text: str
    pos: str


Counts = Counter[str]

NEUTER = frozenset({"it", "its", "itself"})
FEMALE = frozenset({"she", "her", "hers", "herself"})
SECOND = frozenset({"you", "your", "yours", "yourself", "yourselves"})
THIRD_PLURAL = frozenset({"they", "them", "their", "theirs", "themselves"})
GENDERS = {"er": "male", "ihn": "male", "sie": "female", "ihr": "female", "es": "neuter"}
# Formal address is capitalised; Ihr as a pronoun at the start of a sentence is the informal plural.
FORMAL = {"PRON": frozenset({"Sie", "Ihnen"}), "DET": frozenset({"Ihr", "Ihre", "Ihrem", "Ihren", "Ihrer", "Ihres"})}
INFORMAL = frozenset(
    {"du", "dich", "dir", "euch", "euer", "eure", "eurem", "euren", "eurer", "eures"}
    | {f"dein{ending}" for ending in ("", "e", "em", "en", "er", "es")}
)


def has_pronoun(tokens: Sequence[Token], forms: frozenset[str]) -> bool:
    """Return whether an English sentence contains one of ``forms``, tagged as a pronoun."""
    return any(token.pos == "PRON" and token.text.lower() in forms for token in tokens)


def pronoun_counts(source: Sequence[Token], target: Sequence[Token]) -> Counts:
    """Return CP(F, E, x) for x male, female, neuter: German gendered pronouns that may translate "it".

    A pair is valid only if the source has a neuter third-person pronoun. If it also has a second-person or third-person
    plural pronoun, German "sie" may translate that, so female forms are not counted.
    """
    if not has_pronoun(source, NEUTER):
        return Counter()
    words = [token.text.lower() for token in target if token.pos == "PRON"]
    counts = Counter(GENDERS[word] for word in words if word in GENDERS)
    if has_pronoun(source, SECOND | THIRD_PLURAL):
        del counts["female"]
    return counts


def formality_counts(source: Sequence[Token], target: Sequence[Token]) -> Counts:
    """Return CP(F, E, x) for x formal, informal: German words of address that may translate "you".

    A pair is valid only if the source has a second-person pronoun. If it also has a third-person pronoun (female,
    neuter or plural), "Sie" may translate that, so formal forms are not counted.
    """
    if not has_pronoun(source, SECOND):
        return Counter()
    counts: Counts = Counter()
    ambiguous = has_pronoun(source, FEMALE | NEUTER | THIRD_PLURAL)
    for token in target:
        if token.text in FORMAL.get(token.pos, ()) and not ambiguous:
            counts["formal"] += 1
        elif token.pos in ("PRON", "DET") and token.text.lower() in INFORMAL:
            counts["informal"] += 1
    return counts


RULES = {
    "pronoun": (pronoun_counts, ("male", "female", "neuter")),
    "formality": (formality_counts, ("formal", "informal")),
}


def corpus_f1(pairs: Sequence[tuple[Counts, Counts]], classes: Sequence[str]) -> dict[str, float | int | None]:
    """Return F1, precision and recall over sentences ``(hypothesis counts, reference counts)``, summed over
    ``classes``.

    A sentence matches min(hypothesis, reference) times in each class. Values are fractions, 0 to 1. Precision is 0 if
    the hypothesis has no occurrence, recall is 0 if the reference has none. All three are None if neither has any.
    """
    matched = sum(min(ours[x], theirs[x]) for ours, theirs in pairs for x in classes)
    ours, theirs = (sum(pair[side][x] for pair in pairs for x in classes) for side in (0, 1))
    f1 = precision = recall = None
    if ours + theirs:
        # The harmonic mean of precision and recall, 2 PR / (P + R).
        f1 = 2 * matched / (ours + theirs)
        precision, recall = (matched / of if of else 0.0 for of in (ours, theirs))
    return {
        "f1": f1, "precision": precision, "recall": recall,
        "matched": matched, "hypothesis": ours, "reference": theirs,
    }  # fmt: skip


def discourse_f1(
    sources: Sequence[Sequence[Token]], hypotheses: Sequence[Sequence[Token]], references: Sequence[Sequence[Token]]
) -> dict[str, Any]:
    """Return ``{"pronoun": ..., "formality": ...}``: F1 overall and ``by_class``, and the number of valid sentences.

    The three arguments are tagged sentences, equally many.
    """
    result = {}
    for name, (rule, classes) in RULES.items():
        pairs = [
            (rule(source, hypothesis), rule(source, reference))
            for source, hypothesis, reference in zip(sources, hypotheses, references, strict=True)
        ]
        result[name] = corpus_f1(pairs, classes) | {
            "sentences": sum(any((a + b).values()) for a, b in pairs),
            "by_class": {x: corpus_f1(pairs, [x]) for x in classes},
        }
    return result


class Tagger:
    """Part-of-speech tagger with a spaCy model.

    The extra ``discourse`` installs spaCy; ``python -m spacy download NAME`` a model.
    """

    def __init__(self, model: str):
        import spacy

        # Tagging is several times faster without parser and named entities.
        self._nlp = spacy.load(model, exclude=["parser", "ner", "lemmatizer", "senter"])
        self.name = f"{model}|version:{self._nlp.meta.get('version', 'unknown')}|spacy:{spacy.__version__}"

    def __call__(self, sentences: Sequence[str]) -> Iterator[list[Token]]:
        """Yield the tokens of every sentence."""
        for document in self._nlp.pipe(sentences):
            yield [Token(token.text, token.pos_) for token in document]


def score_files(source: Path, reference: Path, systems: Mapping[str, Path], models: tuple[str, str]) -> dict[str, Any]:
    """Return the scores of all systems' files, as a JSON object; ``models``: spaCy's, of source and target language.

    Raises UserError for files that are not aligned.
    """
    wanted, _ = read_plain(reference)
    shape = [len(document) for document in wanted]
    original, *translations = (read_shaped(path, shape, reference) for path in (source, *systems.values()))
    english, german = map(Tagger, models)
    sources, references = list(english(sentence_segments(original))), list(german(sentence_segments(wanted)))
    tagged = (list(german(sentence_segments(text))) for text in translations)
    return {
        "taggers": [english.name, german.name],
        "sentences": len(sources),
        "systems": {name: discourse_f1(sources, text, references) for name, text in zip(systems, tagged, strict=True)},
    }


def table(results: Mapping[str, Mapping]) -> str:
    """Return F1, precision and recall in per cent, overall and by class, a column per system."""
    first = next(iter(results.values()))
    rows = [["translation of", "", *results, "in the reference"]]
    for name, part in first.items():
        for value, title in (("f1", "F1"), ("precision", "precision"), ("recall", "recall")):
            cells = [_percent(result[name][value]) for result in results.values()]
            rows.append([name, title, *cells, str(part["reference"]) if value == "f1" else ""])
        for x, counts in part["by_class"].items():
            cells = [_percent(result[name]["by_class"][x]["f1"]) for result in results.values()]
            rows.append([name, f"F1, {x}", *cells, str(counts["reference"])])
    return align(rows, range(2, len(rows[0])))


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"
