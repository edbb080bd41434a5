"""Make items of films' English alone: replies.py OUTPUT TEST TRAINING CTXPRO..., then replies.py
OUTPUT TRANSLATIONS.

A sentence ("Do you trust him?") gets a reply without the verb ("No, I don't."), and the same reply
written out ("No, I don't trust."). The first call reads the inputs of CTXPRO (CTXPRO.json,
CTXPRO.inputs; of any target language) but no film of TEST (such files, joined by commas) and none
that corpus.py holds out of TRAINING (ctxpro_train.json). It writes OUTPUT.json and the sentences to
translate, OUTPUT.en. The second, given their TRANSLATIONS by the sentence
model, writes the raw corpus OUTPUT: the short reply has the translation of the reply written out.
Replies of whose translation no word begins with the same three letters as one of the context's are
left out, and forms of "fazer".
"""

import json
import random
import re
import sys
import unicodedata
from collections import Counter
from pathlib import Path

from gtransformer.preprocess.characters import one_form
from gtransformer.preprocess.corpus import read_documents, write_pairs
from gtransformer.preprocess.suites import read_items

# Held-out films; a seed; characters of a sentence; occurrences of a verb.
FILMS, SEED, LONGEST, RARE = 80, 7, 90, 4
EACH = {"statement": 110, "question": 200}  # replies by verb
WHO = "you|he|she|they|we|I|it"
HOW = r"(?:(?:really|just|ever|even|never|actually|also|always|still|only|at least) )?"
AUXILIARY = (
    "don't|do not|didn't|did not|doesn't|does not|won't|will not|will|"
    "'ll|wouldn't|would not|would|'d"
)
AUXILIARIES = {
    "did": "did",
    "wil": "will",
    "won": "will",
    "'ll": "will",
    "wou": "would",
    "'d": "would",
}  # by three letters
QUESTION = re.compile(rf"\b(do|did|does|will|would)(?:n't)? ({WHO}) {HOW}([a-z]{{2,}})\b", re.I)
STATEMENTS = (
    re.compile(rf"\b({WHO}) {HOW}({AUXILIARY}) {HOW}([a-z]{{2,}})\b", re.I),
    re.compile(rf"\b({WHO})('ll|'d) {HOW}([a-z]{{2,}})\b", re.I),
)
PRESENT = re.compile(
    rf"(?:^|[-,.?!] |\band |\bbut |\bthat |\bbecause |\bif )(I|you|we|they) {HOW}([a-z]{{2,}})\b",
    re.I,
)
THIRD = re.compile(
    r"\b(he|she|it|everybody|everyone|nobody|this|that) (?:really |never |always |"
    r"still )?([a-z]{3,}s)\b",
    re.I,
)
IMPERATIVE = re.compile(
    r"(?:^|^- |[.!?,] )(?:please,? |and |just |don't )?([A-Za-z]{2,})\b(?! (?:is|was|are|were)\b)"
)
PHRASE = re.compile(
    r"\b(you|i) (see|know|mean|guess|look|listen),|\bi mean\b|^(look|listen|say|see),|\byou know\b$"
)
NO_VERBS = set(
    "be not you he she it they we i the a an have got that this what so to no all my your his her "
    "our in on of as like"
    " for if at do did well better rather been gonna anything one him me us them and or but too "
    "with now nothing"
    " something right two guys again please there here then more think say wanna stuff yourself "
    "someone".split()
)
# After 'd and I.
PAST_TOO = set("put let hit cut read set hurt cost bet shut quit come run become".split())
NOUNS_TOO = PAST_TOO | set(
    "sit need love care work call help talk kill plan mind matter change answer trust play leave "
    "stop wait cause"
    " promise sound deal fight kiss dance drink drive dream end bring date place".split()
)
COMMANDS = NOUNS_TOO - set("trust wait leave stop bring call put let come run".split())
COMMON = set(
    "não sim mas que ele ela eles elas você vocês nós claro bem acho espero sei talvez iria vai "
    "vou vão vamos para com"
    " isso isto".split()
)
TO_DO = set("fiz faz fazem fez farei fazer fará faço faria".split())
STEMS = {"dizer": "dir", "fazer": "far", "trazer": "trar"}
YES = (
    "Yes, ",
    "Yes, ",
    "Yeah, ",
    "",
    "",
    "",
    "- ",
    "- Yes, ",
    "Of course ",
    "Sure, ",
    "Well, ",
    "I think ",
    "You know ",
)
NO = ("No, ", "No, ", "", "", "- ", "Well, ", "But ", "- No, ", "Of course ", "I'm sorry, ")
AGREED = (
    "",
    "",
    "",
    "- ",
    "Yes, ",
    "But ",
    "Well, ",
    "Maybe ",
    "And ",
    "I think ",
    "I hope ",
    "Of course ",
    "Oh, ",
)
DENIED = ("", "", "", "- ", "But ", "No, ", "Well, ", "Maybe ", "And ", "I know ", "I hope ")
draw = random.Random(SEED)


def bare(text):
    """Lower-cased, without punctuation, single blanks between the words."""
    letters = one_form(text).lower()
    kept = "".join(one for one in letters if not unicodedata.category(one).startswith("P"))
    return " ".join(kept.split())


def film(entry):
    """Year and number; subtitles of one film in several languages share them."""
    return "_".join(entry["document id"].split("/")[-1].split("_")[:2])


def sentences_of(names, left_out):
    """By film and sentence: the sentence before, itself, and the next."""
    found = {}
    for name in names:
        for entry, lines in read_items(Path(f"{name}.json"), Path(f"{name}.inputs")):
            if film(entry) not in left_out:
                for before, line, after in zip(["", *lines], lines, [*lines[1:], ""], strict=False):
                    known = found.get((film(entry), line))
                    if known is None or (before and not known[0]):
                        found[film(entry), line] = (before, line, after)
    return list(found.values())


def third_person(verb):
    if re.search(r"(?:s|sh|ch|x|z|^go)$", verb):
        return verb + "es"
    return verb[:-1] + "ies" if re.search(r"[^aeiou]y$", verb) else verb + "s"


def antecedents(line, verbs):
    """(kind, subject of the reply, verb, negated, auxiliary) of what a reply can leave out."""
    turned = {"i": "you", "you": "I"}
    for match in QUESTION.finditer(line):
        auxiliary, who, verb = (part.lower() for part in match.groups())
        yield (
            "question",
            turned.get(who, who),
            verb,
            False,
            "do" if auxiliary == "does" else auxiliary,
        )
    for pattern in STATEMENTS:
        for match in pattern.finditer(line):
            who, auxiliary, verb = (part.lower() for part in match.groups())
            if auxiliary != "'d" or verb not in NOUNS_TOO:
                negated, auxiliary = "n" in auxiliary, AUXILIARIES.get(auxiliary[:3], "do")
                who = "I" if who == "i" else who
                others = [who, turned.get(who.lower(), who), "I", "he", "they"]
                yield "statement", draw.choice(others), verb, negated, auxiliary
    for match in PRESENT.finditer(line):
        who, verb = match[1].lower(), match[2].lower()
        if verb not in PAST_TOO:
            who = "I" if who == "i" else who
            others = [who, turned.get(who.lower(), who), "he", "she", "they", "I"]
            yield (
                "statement",
                draw.choice(others),
                verb,
                False,
                draw.choice(["do", "do", "do", "will"]),
            )
    for match in THIRD.finditer(line):
        verb = {third_person(verb): verb for verb in verbs}.get(match[2].lower(), "")
        yield "statement", draw.choice(["he", "she", "it", "I", "they"]), verb, False, "do"
    match = IMPERATIVE.match(line)
    if match and match[1].lower() not in COMMANDS:
        negated = "don't" in line.lower()[:8]
        who, auxiliary = (
            draw.choice(["I", "I", "I", "we", "you", "he"]),
            draw.choice(["will", "will", "did", "would"]),
        )
        yield "statement", who, match[1].lower(), negated, auxiliary


def replies(kind, who, verb, negated, auxiliary):
    """The short reply and the one written out."""
    third = auxiliary == "do" and who in ("he", "she", "it")
    auxiliary = "does" if third else auxiliary
    if kind == "question":
        no, question = draw.random() < 0.45, False
        start = draw.choice(NO if no else YES)
    else:
        no, question = negated if draw.random() < 0.5 else not negated, draw.random() < 0.12
        start = draw.choice(DENIED if no else AGREED)
    if question:
        pair = (f"{auxiliary} {who}?", f"{auxiliary} {who} {verb}?")
    else:
        end = draw.choice("....!")
        short = (
            f"{who} {auxiliary}"
            if not no
            else f"{who} {'wo' if auxiliary == 'will' else auxiliary}n't"
        )
        said = f"{short} {verb}"
        if auxiliary in ("do", "does") and not no:
            said = f"{who} {third_person(verb) if third else verb}"
        pair = (f"{start}{short}{end}", f"{start}{said}{end}")
    return [re.sub("[A-Za-z]", lambda match: match[0].upper(), text, count=1) for text in pair]


def make(output, test, training, names):
    entries = json.loads(Path(training).read_text(encoding="utf-8"))
    films = sorted({entry["document id"] for entry in entries})
    random.Random(1).shuffle(films)  # as corpus.py does
    left_out = {film({"document id": name}) for name in films[:FILMS]}
    for name in test.split(","):
        left_out |= {
            film(entry) for entry in json.loads(Path(f"{name}.json").read_text(encoding="utf-8"))
        }
    sentences, counts = sentences_of(names, left_out), Counter()
    for _, line, _ in sentences:
        counts.update(match[3].lower() for match in QUESTION.finditer(line))
        counts.update(
            match[3].lower() for match in STATEMENTS[0].finditer(line) if match[2].lower() != "'d"
        )
    verbs = {
        v
        for v, count in counts.items()
        if count >= RARE and v not in NO_VERBS and not v.endswith(("ed", "ing", "ly"))
    }
    draw.shuffle(sentences)
    found, used = [], Counter()
    for before, line, after in sentences:
        possible = [one for one in antecedents(line, verbs) if one[2] in verbs]
        context = (
            (line, after)
            if after and len(after) < LONGEST and draw.random() < 0.25
            else (before, line)
        )
        if (
            not possible
            or max(map(len, context)) > LONGEST
            or any(PHRASE.search(text.lower()) for text in context)
        ):
            continue
        kind, verb = possible[-1][0], possible[-1][2]
        if used[kind, verb] < EACH[kind]:
            used[kind, verb] += 1
            found.append([*context, *replies(*possible[-1])])
    texts = sorted(
        {text for before, line, _, said in found for text in (before, line, said) if text},
        key=lambda text: (len(text), text),
    )
    output.with_suffix(".json").write_text(json.dumps(found, indent=0), encoding="utf-8")
    output.with_suffix(".en").write_text(
        "".join(f"<d>\n{text}\n" for text in texts), encoding="utf-8"
    )


def simple(line):
    """Conditionals in one word, as films have them: "iria confiar" becomes "confiaria"."""
    pattern = r"\b(?:iria|iriam|iríamos|irias) ([a-záéíóúâêôãõç]+[aei]r)\b"
    return re.sub(
        pattern, lambda m: STEMS.get(m[1], m[1]) + m[0].split()[0].lower()[2:], line, flags=re.I
    )


def join(output, translations):
    documents = read_documents(output.with_suffix(".en"), translations)
    known = {source: target for document in documents for source, target in document}
    documents = []
    for before, line, short, said in json.loads(
        output.with_suffix(".json").read_text(encoding="utf-8")
    ):
        document = [(text, known[text]) for text in (before, line) if text] + [
            (short, simple(known[said]))
        ]
        *context, reply = (
            {word for word in bare(target).split() if len(word) > 2} for _, target in document
        )
        stems = {word[:3] for word in set().union(*context) - COMMON}
        if (
            not reply & TO_DO
            and stems & {word[:3] for word in reply - COMMON}
            and all(t.strip() for _, t in document)
        ):
            documents.append(document)
    random.Random(3).shuffle(documents)
    output.mkdir()
    for _ in write_pairs(
        [output / f"concatenated_en2pt_train_{lang}.txt" for lang in ("en", "pt")], documents
    ):
        pass


if __name__ == "__main__":  # compare.py imports bare
    if len(sys.argv) == 3:
        join(Path(sys.argv[1]), Path(sys.argv[2]))
    else:
        make(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:])
