"""F1 of pronoun and formality translation, English to German (Herold and Ney 2023, section 3.5 and appendix A.1).

"Improving Long Context Document-Level Machine Translation" counts German words that an ambiguous English pronoun may
have become. Its appendix gives the rules but not the word lists, which are fixed here:

* Gendered pronouns are the personal pronouns that show one gender: er, ihn; sie, ihr; es. ``ihm`` is male and neuter
  alike and is left out, as are possessives (sein, ihr Haus), which the tagger calls determiners. On the correct
  references of ContraPro these lists find, without a tagger, 4,703 male, 4,007 female and 4,820 neuter pronouns;
  with one the paper's Table 8 has 4,688, 4,001 and 4,565.
* Address includes the possessives: the paper counts "you" in all its forms, and "your" is just as ambiguous. ``ihr`` as
  informal plural is left out, as it cannot be told from "her" and "their".

Tags are spaCy's, an optional extra; its models are installed apart from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gtransformer.errors import UserError
from gtransformer.evaluation.score import read_aligned
from gtransformer.evaluation.segments import sentence_segments
from gtransformer.evaluation.text_table import align
from gtransformer.files import sha256

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
# Formal address is written with a capital; Ihr as a pronoun at the start of a sentence is the informal plural.
FORMAL = {"PRON": frozenset({"Sie", "Ihnen"}), "DET": frozenset({"Ihr", "Ihre", "Ihrem", "Ihren", "Ihrer", "Ihres"})}
INFORMAL = frozenset(
    {"du", "dich", "dir", "euch", "euer", "eure", "eurem", "euren", "eurer", "eures"}
    | {f"dein{ending}" for ending in ("", "e", "em", "en", "er", "es")}
)


def has_pronoun(tokens: Sequence[Token], forms: frozenset[str]) -> bool:
    """Return whether an English sentence holds one of ``forms``, tagged as a pronoun."""
    return any(token.pos == "PRON" and token.text.lower() in forms for token in tokens)


def pronoun_counts(source: Sequence[Token], target: Sequence[Token]) -> Counts:
    """CP(F, E, x) for x male, female, neuter: gendered German pronouns that "it" may have become.

    A pair is valid only if the source has a neuter third-person pronoun. Where it also has one of the second person or
    of the third person plural, German "sie" may translate that, so female forms are not counted.
    """
    if not has_pronoun(source, NEUTER):
        return Counter()
    words = [token.text.lower() for token in target if token.pos == "PRON"]
    counts = Counter(GENDERS[word] for word in words if word in GENDERS)
    if has_pronoun(source, SECOND | THIRD_PLURAL):
        del counts["female"]
    return counts


def formality_counts(source: Sequence[Token], target: Sequence[Token]) -> Counts:
    """CP(F, E, x) for x formal, informal: German words of address that "you" may have become.

    A pair is valid only if the source has a second-person pronoun. Where it also has a female or neuter one of the
    third person, or one of the third person plural, "Sie" may translate that, so formal ones are not counted.
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
    """F1, precision and recall over sentences ``(hypothesis counts, reference counts)``, summed over ``classes``.

    A sentence matches min(hypothesis, reference) times in each class. Values are fractions, 0 to 1; where the
    hypothesis has no occurrence precision is 0, where the reference has none recall is 0, and where neither has any
    there is nothing to judge: all three are None.
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
    """Return ``{"pronoun": ..., "formality": ...}``: F1 overall and ``by_class``, and the number of sentences that
    count.

    The three are tagged sentences, equally many.
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
    """Tags sentences with a spaCy model.

    Raises UserError, saying what to install, where spaCy or the model is not there or the model does not tag.
    """

    def __init__(self, model: str):
        try:
            import spacy
        except ImportError as error:
            raise UserError(
                f"spaCy is not installed ({error}); install it with: pip install '.[discourse]', then the model with: "
                f"python -m spacy download {model}"
            ) from None
        try:
            # Neither parses nor names are needed; without them tagging is several times faster.
            self._nlp = spacy.load(model, exclude=["parser", "ner", "lemmatizer", "senter"])
        except (OSError, ImportError):
            raise UserError(
                f"the spaCy model {model} is not installed; get it with: python -m spacy download {model}, or give the "
                "name or directory of another with --source-model, --target-model"
            ) from None
        self.name = f"{model}|version:{self._nlp.meta.get('version', 'unknown')}|spacy:{spacy.__version__}"

    def __call__(self, sentences: Sequence[str]) -> Iterator[list[Token]]:
        """Yield the tokens of every sentence."""
        for text, document in zip(sentences, self._nlp.pipe(sentences), strict=True):
            tokens = [Token(token.text, token.pos_) for token in document]
            if text.strip() and not any(token.pos for token in tokens):
                raise UserError(f"the spaCy model {self.name.split('|')[0]} gives no parts of speech; choose another")
            yield tokens


def score_files(source: Path, reference: Path, systems: Mapping[str, Path], models: tuple[str, str]) -> dict[str, Any]:
    """Return what the files of all systems score, as a JSON object; ``models``: spaCy's, of source and target language.

    Raises UserError for what is no plain text, for files that are not aligned, and for taggers that are not there.
    """
    wanted, _, (original, *translations) = read_aligned(reference, [source, *systems.values()])
    english, german = map(Tagger, models)
    sources, references = list(english(sentence_segments(original))), list(german(sentence_segments(wanted)))
    tagged = (list(german(sentence_segments(text))) for text in translations)
    return {
        "version": 1,
        "taggers": [english.name, german.name],
        "sentences": len(sources),
        "sha256": {str(path): sha256(path) for path in (source, reference, *systems.values())},
        "systems": {name: discourse_f1(sources, text, references) for name, text in zip(systems, tagged, strict=True)},
    }


def table(results: Mapping[str, Mapping]) -> str:
    """F1, precision and recall in per cent, overall and by class, a column per system."""
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
