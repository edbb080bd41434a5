"""Compare systems and seeds: compare.py FOLDER LIBREOFFICE TRAINING > accuracy.json; or keep their
translations: compare.py FOLDER LIBREOFFICE > translations.json.

FOLDER has KIND.json, the items of ctxpro, and KIND.3.en; for each system and seed NAME.KIND, its
translations, whose documents' last lines are judged, and NAME.libre, of the test set of the raw
corpus LIBREOFFICE. TRAINING was made by corpus.py and replies.py. The terms in accuracy.json were
counted by an earlier state of this file. NAME is a system's
letter and the seed: b, the student; a, S1; o, S2 without replies; s, S2; g, the G-Transformer; u,
the same trained on single sentences; c and d, concatenation of two and of three sentences.
"""

import json
import statistics
import sys
from collections import Counter, defaultdict
from dataclasses import asdict
from pathlib import Path

import numpy as np
from replies import bare
from sacrebleu.metrics import BLEU, CHRF

from gtransformer.evaluation.accuracy import contains
from gtransformer.evaluation.significance import paired_test
from gtransformer.preprocess.corpus import is_document_mark

KINDS = ("ellipsis", "formality")
DISTANCES = {
    "1": (1, 1),
    "2": (2, 2),
    "3": (3, 3),
    "4-12": (4, 12),
}  # sentences back to the antecedent
KEPT = 2  # sentences before an item that G sees
LONG = 30  # words of a source paragraph
PAIRS = ("sg", "og", "ag", "ug", "cg", "dg", "bg", "bs", "su", "sc")  # baseline, system


def documents(path):
    """Lists of lines; a file without <d> has a document a line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if not any(map(is_document_mark, lines)):
        return [[line] for line in lines]
    found = []
    for line in lines:
        found.append([]) if is_document_mark(line) else found[-1].append(line)
    return found


def judged(entries, path):
    """Whether each last line has the expected word."""
    lasts = [document[-1] for document in documents(path)]
    pairs = zip(entries, lasts, strict=True)
    return [contains(line, entry["expected"]) for entry, line in pairs]


def by_film(entries, verdicts):
    """(films, 2): right ones and items, both summed over seeds."""
    sums = defaultdict(lambda: [0, 0])
    for one in verdicts:
        for entry, good in zip(entries, one, strict=True):
            sums[entry["document id"]][0] += good
            sums[entry["document id"]][1] += 1
    return np.array([sums[film] for film in sorted(sums)], dtype=float)


def accuracy(verdicts, chosen):
    values = [good for one in verdicts for good, take in zip(one, chosen, strict=True) if take]
    return 100 * statistics.fmean(values)


def seen(entry, sentences):
    """Whether a word of these begins with the lemma of the antecedent's verb."""
    lemma = entry.get("src ante verb lemma", "").lower()
    return any(word.startswith(lemma) for sentence in sentences for word in bare(sentence).split())


def of_items(entries, contexts, verdicts, known):
    """By system: accuracy of each seed, their mean, and of groups of items the mean."""
    groups = {
        f"rule {rule}": [e["rule"] == rule for e in entries]
        for rule in sorted({e["rule"] for e in entries})
    }
    for name, (first, last) in DISTANCES.items():
        groups[f"distance {name}"] = [
            first <= (e.get("ante distance") or 0) <= last for e in entries
        ]
    far = [(e.get("ante distance") or 0) > KEPT for e in entries]
    in_sight = [seen(entry, context) for entry, context in zip(entries, contexts, strict=True)]
    groups["distance 3-12, verb in the two sentences before"] = [
        a and b for a, b in zip(far, in_sight, strict=True)
    ]
    groups["distance 3-12, verb not there"] = [
        a and not b for a, b in zip(far, in_sight, strict=True)
    ]
    forms = [bare(entry["expected"]) for entry in entries]
    groups["form in help or items"] = [form in known[0] for form in forms]
    groups["form only in replies"] = [form not in known[0] and form in known[1] for form in forms]
    groups["form not in training"] = [not any(form in words for words in known) for form in forms]
    groups = {name: chosen for name, chosen in groups.items() if any(chosen)}
    return {
        system: {
            "seeds": [accuracy([one], [True] * len(entries)) for one in seeds],
            "mean": accuracy(seeds, [True] * len(entries)),
            "by": {
                name: {"items": sum(by), "accuracy": accuracy(seeds, by)}
                for name, by in groups.items()
            },
        }
        for system, seeds in verdicts.items()
    }


def majority(entries, training):
    """Share of items whose form is the most frequent one of the same sentence in training, or of
    all sentences.
    """
    forms, alone = Counter(), defaultdict(Counter)
    for entry in training:
        forms[bare(entry["expected"])] += 1
        alone[bare(entry["src segment"])][bare(entry["expected"])] += 1
    hits = [
        (alone.get(bare(e["src segment"])) or forms).most_common(1)[0][0] == bare(e["expected"])
        for e in entries
    ]
    return 100 * statistics.fmean(hits)


def bleu(sums):
    metric = BLEU()
    return np.array([metric._compute_score_from_stats(list(one)).score for one in sums])


def of_text(texts, source, reference):
    """By score, that of each translation of the text; and the counts of each document for
    s-BLEU.
    """
    found, counts = defaultdict(list), []
    references = [line for document in reference for line in document]
    after_long = np.array(
        [len(before.split()) > LONG for document in source for before in ("", *document[:-1])]
    )
    for text in texts:
        lines = [line for document in text for line in document]
        found["s-BLEU"].append(BLEU().corpus_score(lines, [references]).score)
        joined = [[" ".join(document) for document in side] for side in (text, reference)]
        found["d-BLEU"].append(BLEU().corpus_score(joined[0], [joined[1]]).score)
        found["chrF"].append(CHRF().corpus_score(lines, [references]).score)
        for name, chosen in (
            ("s-BLEU after long paragraphs", after_long),
            ("s-BLEU elsewhere", ~after_long),
        ):
            kept, expected = (
                [line for line, take in zip(side, chosen, strict=True) if take]
                for side in (lines, references)
            )
            found[name].append(BLEU().corpus_score(kept, [expected]).score)
        each = np.array(BLEU()._extract_corpus_statistics(lines, [references]), dtype=float)
        counts.append(np.add.reduceat(each, np.cumsum([0, *map(len, reference)])[:-1]))
    return {
        name: {"seeds": values, "mean": statistics.fmean(values)} for name, values in found.items()
    }, counts


def main(folder, libreoffice, training):
    names = defaultdict(list)
    for path in sorted(folder.glob("*.libre")):
        names[path.stem.rstrip("0123456789")].append(path.stem)
    known = []
    for parts in (("help", "items"), ("replies",)):
        texts = (training / part / "concatenated_en2pt_train_pt.txt" for part in parts)
        known.append(
            {word for path in texts for word in bare(path.read_text(encoding="utf-8")).split()}
        )
    result = {"systems": names, "tests": {}}
    for kind in KINDS:
        entries = json.loads((folder / f"{kind}.json").read_text(encoding="utf-8"))
        verdicts = {
            s: [judged(entries, folder / f"{name}.{kind}") for name in seeds]
            for s, seeds in names.items()
        }
        contexts = [document[:-1] for document in documents(folder / f"{kind}.{KEPT + 1}.en")]
        result[kind] = of_items(entries, contexts, verdicts, known)
        path = folder / f"{kind}.train.json"
        if path.is_file():
            result[kind]["most frequent form"] = majority(
                entries, json.loads(path.read_text(encoding="utf-8"))
            )
        for one, other in PAIRS:
            if {one, other} <= verdicts.keys():
                seeds = min(len(verdicts[one]), len(verdicts[other]))
                sums = (by_film(entries, verdicts[system][:seeds]) for system in (one, other))
                test = paired_test(*sums, lambda sums: 100 * sums[:, 0] / sums[:, 1], "films")
                result["tests"][f"{kind}, {other} minus {one}"] = {"seeds": seeds} | asdict(test)
    source, reference = (
        documents(libreoffice / f"concatenated_en2pt_test_{lang}.txt") for lang in ("en", "pt")
    )
    texts = {
        system: [documents(folder / f"{name}.libre") for name in seeds]
        for system, seeds in names.items()
    }
    every = [reference, *(text for seeds in texts.values() for text in seeds)]
    assert all(list(map(len, text)) == list(map(len, source)) for text in every)
    counts, result["libreoffice"] = {}, {}
    for system, seeds in texts.items():
        result["libreoffice"][system], counts[system] = of_text(seeds, source, reference)
    for one, other in PAIRS:
        if {one, other} <= counts.keys():
            seeds = min(len(names[one]), len(names[other]))
            both = [np.sum(counts[system][:seeds], axis=0) for system in (one, other)]
            test = paired_test(*both, bleu, "documents")
            result["tests"][f"s-BLEU, {other} minus {one}"] = {"seeds": seeds} | asdict(test)
    print(json.dumps(result, indent=1))


def keep(folder, libreoffice):
    """Print the ids of each kind (film and number of the segment, or LibreOffice's), and by system
    the judged lines.
    """
    kept = {}
    for kind in (*KINDS, "libre"):
        if kind == "libre":
            ids = (libreoffice / "ids_test.txt").read_text(encoding="utf-8").splitlines()
        else:
            entries = json.loads((folder / f"{kind}.json").read_text(encoding="utf-8"))
            ids = [f"{entry['document id']} {entry['segment id']}" for entry in entries]
        kept[kind] = {"ids": ids}
        for path in sorted(folder.glob(f"*.{kind}")):
            lines = path.read_text(encoding="utf-8").splitlines()
            judged_lines = [document[-1] for document in documents(path)]
            kept[kind][path.stem] = lines if kind == "libre" else judged_lines
    print(json.dumps(kept, ensure_ascii=False, indent=0))


paths = [Path(word) for word in sys.argv[1:]]
main(*paths) if len(paths) == 3 else keep(*paths)
