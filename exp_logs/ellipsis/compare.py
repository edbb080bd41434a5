"""Compare systems and seeds: compare.py FOLDER REFERENCE > accuracy.json.

FOLDER has KIND.json, the items of ctxpro, and for each system and seed NAME.KIND, its translations, whose documents'
last lines are judged, and NAME.libre, of LibreOffice's test set, whose REFERENCE has documents.
"""

import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from sacrebleu.metrics import BLEU, CHRF

from gtransformer.evaluation.significance import paired_test
from gtransformer.preprocess.corpus import is_document_mark
from gtransformer.preprocess.plain_text import bare

KINDS = ("ellipsis", "formality")
DISTANCES = {"1": (1, 1), "2": (2, 2), "3": (3, 3), "4-12": (4, 12)}  # sentences back to the antecedent
PAIRS = (("s", "g"), ("gs", "g"))


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
    lines = [document[-1] for document in documents(path)]
    return [f" {bare(e['expected'])} " in f" {bare(line)} " for e, line in zip(entries, lines, strict=True)]


def film_rows(entries, verdicts):
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


def of_items(entries, verdicts):
    """By system: accuracy of each seed, their mean, and of groups of items the mean."""
    groups = {f"rule {rule}": [e["rule"] == rule for e in entries] for rule in sorted({e["rule"] for e in entries})}
    for name, (first, last) in DISTANCES.items():
        groups[f"distance {name}"] = [first <= (e.get("ante distance") or 0) <= last for e in entries]
    groups = {name: chosen for name, chosen in groups.items() if any(chosen)}
    return {
        system: {
            "seeds": [accuracy([one], [True] * len(entries)) for one in seeds],
            "mean": accuracy(seeds, [True] * len(entries)),
            "by": {name: {"items": sum(by), "accuracy": accuracy(seeds, by)} for name, by in groups.items()},
        }
        for system, seeds in verdicts.items()
    }


def of_text(paths, reference):
    """By score: that of each seed, and the mean."""
    found = defaultdict(list)
    references = [line for document in reference for line in document]
    for path in paths:
        texts = documents(path)
        assert list(map(len, texts)) == list(map(len, reference))
        lines = [line for document in texts for line in document]
        found["s-BLEU"].append(BLEU().corpus_score(lines, [references]).score)
        joined = [[" ".join(document) for document in side] for side in (texts, reference)]
        found["d-BLEU"].append(BLEU().corpus_score(joined[0], [joined[1]]).score)
        found["chrF"].append(CHRF().corpus_score(lines, [references]).score)
    return {name: {"seeds": values, "mean": statistics.fmean(values)} for name, values in found.items()}


def main(folder, reference):
    names = defaultdict(list)
    for path in sorted(folder.glob("*.libre")):
        names[path.stem.rstrip("0123456789")].append(path.stem)
    result = {"systems": names, "tests": {}}
    for kind in KINDS:
        entries = json.loads((folder / f"{kind}.json").read_text(encoding="utf-8"))
        verdicts = {s: [judged(entries, folder / f"{name}.{kind}") for name in seeds] for s, seeds in names.items()}
        result[kind] = of_items(entries, verdicts)
        for one, other in PAIRS:
            if {one, other} <= verdicts.keys():
                seeds = min(len(verdicts[one]), len(verdicts[other]))
                rows = (film_rows(entries, verdicts[system][:seeds]) for system in (one, other))
                (test,) = paired_test(*rows, lambda sums: 100 * sums[:, :1] / sums[:, 1:], "films")
                result["tests"][f"{kind}, {other} minus {one}"] = {"seeds": seeds} | test.to_json()
    texts = documents(reference)
    result["libreoffice"] = {s: of_text([folder / f"{n}.libre" for n in seeds], texts) for s, seeds in names.items()}
    print(json.dumps(result, indent=1))


main(Path(sys.argv[1]), Path(sys.argv[2]))
