"""Rows whose models cannot translate: trained, asked about contrastive items, and no more."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gtransformer.errors import UserError
from gtransformer.lab.studies import one_run
from gtransformer.lab.studies.plan import load_study
from gtransformer.lab.studies.runner import Runner
from gtransformer.lab.studies.table import summary, table
from gtransformer.run.run import Run
from tests.lab.studies import test_docflat_studies as whole

pytestmark = pytest.mark.slow

write = whole.write
ROWS = """
    - {title: Table, kind: table, columns: system, rows: [
        {system: plain, label: plain},
        {system: flat, label: mute, training: {train.arch: abd_mini, train.context-gate: null}, translate: false}]}
"""


def test_the_paper_s_rows():
    """In the decoder attention between datapoints reads what is to be predicted; what they start from translates."""
    for miniature in (False, True):
        (panel,) = load_study("docflat_table7", miniature).panels
        for line in panel.lines:
            sides = line.runs[0].settings().sections["train"].get("batch-attention-in", "none")
            assert line.runs[0].translate == (sides in ("none", "encoder")) and line.runs[0].needed.translate


def test_the_order_says_so(write, tmp_path: Path):
    study = load_study(write(ROWS), miniature=True)
    corpora = whole.Prepared(whole.Pipeline(tmp_path, "study"), "demo", study.corpus, whole.load_recipe("arena/start"))
    runner, (plain, mute) = Runner(study, corpora, jobs=1), (line.runs[0] for line in study.panels[0].lines)
    for run in (plain, mute):
        runner.folder(run).mkdir(parents=True)
        runner.order(run)
        assert json.loads((runner.folder(run) / "run.json").read_text())["translate"] == (run == plain)
    assert len({runner.folder(run) for run in (mute, replace(mute, translate=True))}) == 2


@pytest.mark.parametrize("translate", [True, False])
def test_a_run(tmp_path: Path, monkeypatch, translate: bool):
    """Its training, the items; where it translates, that and its scores, too."""
    did = []
    monkeypatch.setattr(Run, "execute", lambda self, stage: did.append(stage))
    monkeypatch.setattr(one_run, "score_test", lambda *_: did.append("score"))
    monkeypatch.setattr(one_run, "ask", lambda run, **asked: did.append(asked))
    order = {"recipe": "demo_full", "changes": [], "corpus": "demo", "prepared": "p", "contrastive": {"items": ["x"]}}
    (tmp_path / "run.json").write_text(json.dumps(order | ({} if translate else {"translate": False})))
    (tmp_path / "train.log").write_text('{"ppl": "4", "loss": "2", "num_updates": "10", "wall": "3"}\n')
    best = {"raw": {"d_bleu": {"score": 3.0}}}
    (tmp_path / "test.scores.json").write_text(json.dumps({"scores": best, "counts": {"misaligned_instances": 0}}))
    (tmp_path / "generate.test.json").write_text('{"seconds": 1}')
    one_run.do_run(tmp_path, [])
    found = json.loads((tmp_path / "result.json").read_text())
    assert did == ["train", *(["generate", "score"] if translate else []), {"items": ["x"]}]
    assert found["scores"] == (best["raw"] if translate else {}) and found["seconds"]["train"] == 3
    assert found["seconds"]["generate"] == (1 if translate else None)


def test_its_row_has_accuracy_alone(write):
    results = {name: whole.result(50, 60) for name in ("plain0", "plain1", "flat0", "flat1")}
    for name in ("flat0", "flat1"):
        results[name] |= {"scores": {}}
    shown = whole.shown_panels(load_study(write(ROWS), miniature=True), results)
    mute = shown["panels"][0]["lines"][1]
    assert mute["s_bleu"] is mute["d_bleu"] is mute["signature"] is None and mute["accuracy"]["mean"] == 50
    (line,) = (line for line in table(shown).splitlines() if line.startswith("mute"))
    assert line.split()[1:4] == ["-", "-", "50.00"] and "None" not in table(shown)
    alone = json.loads(json.dumps(shown["panels"]))
    alone[0]["lines"] = alone[0]["lines"][1:]
    assert table(shown | {"panels": summary(alone, results)}).count("BLEU:") == 0


def test_no_decoding_without_translation(write):
    both = ROWS.replace("translate: false", "translate: false, decoding: {generate.batch-sentences: 2}")
    with pytest.raises(UserError, match="row 'mute': translate is false, but decoding says how; leave one of them ou"):
        load_study(write(both), miniature=True)
