"""Accuracy and scores of all systems and seeds, with tests over films and documents: compare.py FOLDER > results.json.

FOLDER has ITEMS.json and the translations NAME.ITEMS of each system (students, s1 ..., g1 ...), the last lines of
documents being those that are judged, and NAME.libre of LibreOffice's test set.
"""

import json
import statistics
import sys
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
from sacrebleu.metrics import BLEU, CHRF

from gtransformer.evaluation.significance import paired_test
from gtransformer.preprocess.corpus import is_document_mark
from gtransformer.preprocess.plain_text import bare

ITEMS = ("ellipsis", "formality")
REACH = ((1, 1), (2, 2), (3, 3), (4, 12))  # sentences back to the antecedent


def last_lines(path):
    documents = []
    lines = path.read_text(encoding="utf-8").splitlines()
    if not any(map(is_document_mark, lines)):
        return lines
    for line in lines:
        if is_document_mark(line):
            documents.append("")
        else:
            documents[-1] = line
    return documents


def right(entry, line):
    return f" {bare(entry['expected'])} " in f" {bare(line)} "


def rows_by_film(entries, verdicts):
    """(films, 2): right ones summed over seeds, and items times seeds."""
    sums = defaultdict(lambda: [0, 0])
    for one in verdicts:
        for entry, good in zip(entries, one, strict=True):
            sums[entry["document id"]][0] += good
            sums[entry["document id"]][1] += 1
    return np.array([sums[film] for film in sorted(sums)], dtype=float)


def documents(path):
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        found.append([]) if is_document_mark(line) else found[-1].append(line)
    return found


folder, reference = Path(sys.argv[1]), documents(Path(sys.argv[2]))
systems = defaultdict(list)
for path in sorted(folder.glob("*.libre")):
    name = path.name.removesuffix(".libre")
    systems[name.rstrip("0123456789")].append(name)
result = {"items": {}, "libreoffice": {}, "tests": {}}
verdicts = {}
for kind in ITEMS:
    entries = json.loads((folder / f"{kind}.json").read_text(encoding="utf-8"))
    for system, names in systems.items():
        for name in names:
            verdicts[kind, name] = [
                right(entry, line) for entry, line in zip(entries, last_lines(folder / f"{name}.{kind}"), strict=True)
            ]
        accuracy = [100 * statistics.fmean(verdicts[kind, name]) for name in names]
        found = result["items"].setdefault(kind, {})[system] = {"seeds": accuracy, "mean": statistics.fmean(accuracy)}
        groups = {f"{first}-{last}": [first <= (entry.get("ante distance") or 0) <= last for entry in entries]
                  for first, last in REACH} if kind == "ellipsis" else {}  # fmt: skip
        groups |= {rule: [entry["rule"] == rule for entry in entries] for rule in Counter(e["rule"] for e in entries)}
        found["by"] = {
            group: {
                "items": sum(chosen),
                "accuracy": statistics.fmean(
                    100 * good for name in names for good, take in zip(verdicts[kind, name], chosen, strict=True) if take
                ),
            }
            for group, chosen in groups.items()
            if any(chosen)
        }
    score = lambda sums: 100 * sums[:, :1] / sums[:, 1:]  # noqa: E731
    for one, other in (("s", "g"), ("gs", "g")):
        if {one, other} <= systems.keys():
            seeds = min(len(systems[one]), len(systems[other]))
            pair = [rows_by_film(entries, [verdicts[kind, n] for n in systems[x][:seeds]]) for x in (one, other)]
            result["tests"][f"{kind}: {other} - {one}"] = {"seeds": seeds} | paired_test(*pair, score, "films")[0].to_json()
flat = [line for document in reference for line in document]
for system, names in systems.items():
    scores = defaultdict(list)
    for name in names:
        found = documents(folder / f"{name}.libre")
        assert list(map(len, found)) == list(map(len, reference))
        lines = [line for document in found for line in document]
        scores["s-BLEU"].append(BLEU().corpus_score(lines, [flat]).score)
        joined = [[" ".join(one) for one in side] for side in (found, reference)]
        scores["d-BLEU"].append(BLEU().corpus_score(joined[0], [joined[1]]).score)
        scores["chrF"].append(CHRF().corpus_score(lines, [flat]).score)
    result["libreoffice"][system] = {key: {"seeds": all_, "mean": statistics.fmean(all_)} for key, all_ in scores.items()}
print(json.dumps(result, indent=1))
