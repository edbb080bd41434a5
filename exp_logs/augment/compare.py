"""Compare the arms of a miniature: compare.py OUT TRANSLATIONS > scores.json.

OUT is the folder of miniature.sh; TRANSLATIONS gets those of the test set. Arms are compared with none on the seeds
that both have: whole documents are exchanged, of the items whole films, their counts summed over the seeds. The
terms in the results were counted by an earlier state of this file. An item is right if its last sentence contains the
expected word.
"""

import json
import statistics
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import numpy as np

from gtransformer.evaluation.generative import judge_lines
from gtransformer.evaluation.metrics import COLUMNS
from gtransformer.evaluation.score import score_translations
from gtransformer.evaluation.significance import compare, paired_test
from gtransformer.files import read_json
from gtransformer.provenance import provenance

KEYS, ITEMS, BASELINE = ("s_bleu", "d_bleu"), "ellipsis", "none"
out, found = Path(sys.argv[1]), defaultdict(dict)
for path in sorted(out.glob("*-*/test.jsonl")):
    arm, _, seed = path.parent.name.partition("-")
    found[arm][int(seed)] = score_translations(out / "prepared", "test", path).scores["raw"].segments


@cache
def items(arm, seed):
    """(films, 2): right items, and all."""
    entries, sums = read_json(out / "items.json"), defaultdict(lambda: np.zeros(2))
    judged = judge_lines(entries, out / f"{arm}-{seed}" / "ellipsis.txt")
    for entry, one in zip(entries, judged, strict=True):
        sums[entry["document id"]] += one.right, 1
    return np.stack([sums[film] for film in sorted(sums)]), lambda sums: 100 * sums[0] / sums[1]


def bleu(key, arm, seeds):
    runs = {name: [found[name][seed] for seed in seeds] for name in (BASELINE, arm)}
    return compare(runs, key)[arm]


def summed(measure, test):
    def over(key, arm, seeds):
        return test(*(sum(measure(name, seed)[0] for seed in seeds) for name in (BASELINE, arm)))

    return over


def over_films(*sums):
    return paired_test(*sums, lambda sums: 100 * sums[:, 0] / sums[:, 1], "films")


def score_of(key):
    metric, level = COLUMNS[key].metric, COLUMNS[key].level
    return lambda arm, seed: found[arm][seed].statistics(metric, level).score()


def value(measure):
    def of_all(arm, seed):
        rows, score = measure(arm, seed)
        return float(score(rows.sum(axis=0)))

    return of_all


MEASURES = {key: (score_of(key), bleu) for key in KEYS}
if (out / "items.json").is_file():
    MEASURES[ITEMS] = value(items), summed(items, over_films)
result = {"arms": {arm: {"seeds": sorted(seeds)} for arm, seeds in found.items()}, "tests": {}}
for key, (score, test) in MEASURES.items():
    for arm, seeds in found.items():
        values = [score(arm, seed) for seed in sorted(seeds)]
        result["arms"][arm][key] = {"each": values, "mean": statistics.fmean(values)}
        both = sorted(seeds.keys() & found[BASELINE].keys())
        if arm != BASELINE and both:
            result["tests"][f"{key}, {arm} minus {BASELINE}"] = {"seeds": both} | test(key, arm, both).to_json()
for kind in ("observed", "back", "target"):
    path = out / kind / "augment" / "made.json"
    if path.is_file():
        result[kind] = read_json(path)["selected"]
print(json.dumps(result | provenance("python exp_logs/augment/compare.py", None), indent=1))
kept = {f"{arm}-{seed}": segments.text for arm, seeds in found.items() for seed, segments in seeds.items()}
Path(sys.argv[2]).write_text(json.dumps(kept, ensure_ascii=False, indent=0), encoding="utf-8")
