"""Compare the arms of a miniature: compare.py OUT TRANSLATIONS > scores.json.

OUT is the folder of miniature.sh; TRANSLATIONS gets those of the test set. Arms are compared with none on the seeds
that both have: whole documents are exchanged, of the items whole films, their counts summed over the seeds. Terms are
looked up in the training set of all arms. An item is right if its last sentence contains the expected word.
"""

import json
import statistics
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import numpy as np

from gtransformer.evaluation.generative import RIGHT, judge_lines
from gtransformer.evaluation.metrics import COLUMNS, DOCUMENTS
from gtransformer.evaluation.provenance import provenance
from gtransformer.evaluation.score import score_translations
from gtransformer.evaluation.significance import compare, paired_test
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


@cache
def terms(arm, seed):
    rows = consistency(source, found[arm][seed].text, lexicon)
    return rows, lambda sums: 100 * ratios(np.array(sums))[0]


@cache
def items(arm, seed):
    """(films, 2): right items, and all."""
    entries, sums = read_json(out / "items.json"), defaultdict(lambda: np.zeros(2))
    judged = judge_lines(entries, out / f"{arm}-{seed}" / "ellipsis.txt")
    for entry, one in zip(entries, judged, strict=True):
        sums[entry["document id"]] += one.outcome == RIGHT, 1
    return np.stack([sums[film] for film in sorted(sums)]), lambda sums: 100 * sums[0] / sums[1]


def bleu(key, arm, seeds):
    runs = {name: [found[name][seed] for seed in seeds] for name in (BASELINE, arm)}
    return compare(runs, key, DOCUMENTS)[arm]


def summed(measure, test):
    def over(key, arm, seeds):
        return test(*(sum(measure(name, seed)[0] for seed in seeds) for name in (BASELINE, arm)))

    return over


def over_films(*sums):
    return paired_test(*sums, lambda sums: 100 * sums[:, :1] / sums[:, 1:], "films")[0]


def score_of(key):
    metric, level = COLUMNS[key].metric, COLUMNS[key].level
    return lambda arm, seed: found[arm][seed].statistics(metric, level).score()


def value(measure):
    def of_all(arm, seed):
        rows, score = measure(arm, seed)
        return float(score(rows.sum(axis=0)))

    return of_all


MEASURES = {key: (score_of(key), bleu) for key in KEYS}
MEASURES[TERMS] = value(terms), summed(terms, lambda *sums: differences(*sums)["ltcr"])
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
