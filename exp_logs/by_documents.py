"""Compare the rows of a study's tables by whole test documents: by_documents.py STUDY.json > differences.json.

Translations are those of STUDY.tar.xz. Each row is compared with its table's baseline on the seeds that both have: the
counts of s-BLEU or d-BLEU are summed over these seeds, and whole documents are exchanged.
"""

import json
import sys
import tarfile
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from gtransformer.evaluation.metrics import COLUMNS, DOCUMENTS
from gtransformer.evaluation.provenance import provenance
from gtransformer.evaluation.score import score_text
from gtransformer.evaluation.significance import by_document, paired_test
from gtransformer.files import read_json

study, result = Path(sys.argv[1]), {}
runs, folder = read_json(study)["runs"], tempfile.TemporaryDirectory()
with tarfile.open(study.with_suffix(".tar.xz")) as packed:
    packed.extractall(folder.name, filter="data")


@cache
def counts(name, key):
    """(documents, counts), and what computes a score from their sums; None without aligned sentences."""
    texts = Path(folder.name)
    (scores,) = score_text(texts / f"{name}.txt", texts / "reference.txt", metrics=["bleu"]).scores.values()
    column = COLUMNS[key]
    one = scores.segments.statistics(column.metric, column.level)
    rows = np.array(one.rows, dtype=np.float64)
    if column.level != DOCUMENTS:
        rows = by_document(rows, scores.segments.documents_of(column.level))
    return rows, one.measure.score


for panel in read_json(study)["panels"]:
    if panel["kind"] != "table":
        continue
    rows = {line["label"]: {runs[name]["run"]["seed"]: name for name in line["runs"]} for line in panel["lines"]}
    base = rows[panel["baseline"]]
    for label, names in rows.items():
        seeds = sorted(names.keys() & base.keys())
        for key in ("s_bleu", "d_bleu"):
            aligned = all(runs[names[seed]]["scores"][key] for seed in seeds)
            if label == panel["baseline"] or not seeds or not aligned:
                continue
            pairs = [[counts(side[seed], key) for seed in seeds] for side in (base, names)]
            score = pairs[0][0][1]
            (test,) = paired_test(
                *(sum(rows for rows, _ in side) for side in pairs),
                lambda sums, score=score: np.array([[score(one)] for one in sums.tolist()]),
                "documents",
            )
            result[f"{panel['title']}: {label}, {key}"] = {"seeds": seeds} | test.to_json()
print(json.dumps(result | provenance(f"python exp_logs/by_documents.py {study.name}", None), indent=1))
