"""Compare the arms of a miniature: compare.py OUT TRANSLATIONS > scores.json.

OUT is the folder of miniature.sh; TRANSLATIONS gets those of the test set. Arms are compared with none on the seeds
that both have: whole documents are exchanged, of the items whole films, their counts summed over the seeds. Terms are
looked up in the training set of all arms. An item is right if its last sentence contains the expected word.
"""

import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from gtransformer.evaluation.generative import RIGHT, judge_lines
from gtransformer.evaluation.metrics import COLUMNS, DOCUMENTS
from gtransformer.evaluation.provenance import provenance
from gtransformer.evaluation.score import score_translations
from gtransformer.evaluation.significance import by_document, paired_test
from gtransformer.evaluation.terms import Lexicon, consistency, differences, ratios
from gtransformer.files import read_json
from gtransformer.preprocess.corpus import find_splits, read_documents

KEYS, TERMS, ITEMS, BASELINE = ("s_bleu", "d_bleu"), "terms", "ellipsis", "none"
out, found = Path(sys.argv[1]), defaultdict(dict)
PAIR = next(("en", lang) for lang in ("pt", "de") if (out / f"mono.{lang}").is_file())
for path in sorted(out.glob("*-*/test.jsonl")):
    arm, _, seed = path.parent.name.partition("-")
    found[arm][int(seed)] = score_translations(out / "prepared", "test", path).scores["raw"].segments


def raw(split):
    """Documents, lists of (source, target)."""
    return list(read_documents(*find_splits(out / "real", *PAIR)[split]))


source = [[sentence for sentence, _ in document] for document in raw("test")]
pairs = [pair for document in raw("train") for pair in document]
lexicon = Lexicon(pairs, source, [segments.text for seeds in found.values() for segments in seeds.values()])


def bleu(arm, seed, key):
    """(documents, counts), and what computes a score from their sums."""
    column = COLUMNS[key]
    one = found[arm][seed].statistics(column.metric, column.level)
    rows = np.array(one.rows, dtype=np.float64)
    if column.level != DOCUMENTS:
        rows = by_document(rows, found[arm][seed].documents_of(column.level))
    return rows, one.measure.score


def terms(arm, seed, key):
    rows = consistency(source, found[arm][seed].text, lexicon)
    return rows, lambda sums: 100 * ratios(np.array(sums))[0]


def items(arm, seed, key):
    """(films, 2): right items, and all."""
    entries, sums = read_json(out / "items.json"), defaultdict(lambda: np.zeros(2))
    judged = judge_lines(entries, out / f"{arm}-{seed}" / "ellipsis.txt")
    for entry, one in zip(entries, judged, strict=True):
        sums[entry["document id"]] += one.outcome == RIGHT, 1
    return np.stack([sums[film] for film in sorted(sums)]), lambda sums: 100 * sums[0] / sums[1]


MEASURES = {**dict.fromkeys(KEYS, bleu), TERMS: terms, **({ITEMS: items} if (out / "items.json").is_file() else {})}
result = {"arms": {arm: {"seeds": sorted(seeds)} for arm, seeds in found.items()}, "tests": {}}
for key, measure in MEASURES.items():
    counts = {arm: {seed: measure(arm, seed, key) for seed in sorted(seeds)} for arm, seeds in found.items()}
    for arm, seeds in counts.items():
        values = [float(score(rows.sum(axis=0).tolist())) for rows, score in seeds.values()]
        result["arms"][arm][key] = {"each": values, "mean": statistics.fmean(values)}
        both = sorted(seeds.keys() & counts[BASELINE].keys())
        if arm == BASELINE or not both:
            continue
        score = seeds[both[0]][1]
        sides = [sum(counts[name][seed][0] for seed in both) for name in (BASELINE, arm)]
        if key == TERMS:
            test = differences(*sides)["ltcr"]
        else:
            unit = "films" if key == ITEMS else "documents"
            (test,) = paired_test(
                *sides, lambda sums, score=score: np.array([[score(one)] for one in sums.tolist()]), unit
            )
        result["tests"][f"{key}, {arm} minus {BASELINE}"] = {"seeds": both} | test.to_json()
for kind in ("observed", "back", "target"):
    path = out / kind / "augment" / "made.json"
    if path.is_file():
        result[kind] = read_json(path)["selected"]
print(json.dumps(result | provenance("python exp_logs/augment/compare.py", None), indent=1))
kept = {f"{arm}-{seed}": segments.text for arm, seeds in found.items() for seed, segments in seeds.items()}
Path(sys.argv[2]).write_text(json.dumps(kept, ensure_ascii=False, indent=0), encoding="utf-8")
