"""Compare the arms of the miniature: compare.py OUT > scores.json.

OUT is the folder of miniature.sh. Arms are compared with none on the seeds that both have: whole documents are
exchanged, their counts summed over the seeds.
"""

import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from gtransformer.evaluation.metrics import COLUMNS, DOCUMENTS
from gtransformer.evaluation.provenance import provenance
from gtransformer.evaluation.score import score_translations
from gtransformer.evaluation.significance import by_document, paired_test
from gtransformer.files import read_json

KEYS, BASELINE = ("s_bleu", "d_bleu"), "none"

out, found = Path(sys.argv[1]), defaultdict(dict)
for path in sorted(out.glob("*-*/test.jsonl")):
    arm, _, seed = path.parent.name.partition("-")
    found[arm][int(seed)] = score_translations(out / "prepared", "test", path).scores["raw"]


def counts(arm, seeds, key):
    """(documents, counts) of BLEU, summed over seeds, and what computes it from sums over documents."""
    column, total = COLUMNS[key], 0
    for seed in seeds:
        segments = found[arm][seed].segments
        one = segments.statistics(column.metric, column.level)
        rows = np.array(one.rows, dtype=np.float64)
        total = total + (rows if column.level == DOCUMENTS else by_document(rows, segments.documents_of(column.level)))
    return total, lambda sums: np.array([[one.measure.score(each)] for each in sums.tolist()])


result = {"arms": {}, "tests": {}}
for arm, scores in found.items():
    result["arms"][arm] = {"seeds": sorted(scores)}
    for key in KEYS:
        values = [scores[seed].values[key].score for seed in sorted(scores)]
        result["arms"][arm][key] = {"each": values, "mean": statistics.fmean(values)}
    seeds = sorted(scores.keys() & found[BASELINE].keys())
    for key in KEYS if seeds and arm != BASELINE else ():
        (baseline, score), (other, _) = (counts(name, seeds, key) for name in (BASELINE, arm))
        (test,) = paired_test(baseline, other, score, "documents")
        result["tests"][f"{key}, {arm} minus {BASELINE}"] = {"seeds": seeds} | test.to_json()
for kind in ("observed", "back", "target"):
    result[kind] = read_json(out / kind / "augment" / "made.json")["selected"]
print(json.dumps(result | provenance("python exp_logs/augment/compare.py", None), indent=1))
