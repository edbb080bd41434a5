"""A study at its smallest: two runs of a few updates, ended in the first training and gone on with."""

from __future__ import annotations

import json
import os
import sys
import tarfile
from pathlib import Path

import pytest
from matplotlib.image import imread

from gtransformer.cli.score import main as score
from tests.processes import interrupt_when, run_group
from tests.support import SMALLEST_STUDY

ROOT = Path(__file__).resolve().parents[3]
FIGURE = """
description: smallest figure
miniature:
  panels:
    - {title: d-BLEU, kind: scores, systems: [plain, ours], axis: instances, values: [20, 900000], length: 64}
    - title: entropy
      kind: curves
      quantity: bits
      lines:
        - {system: plain, instances: 20, curve: valid_entropy_cross_global, flat: true}
        - {system: ours, instances: 20, curve: valid_entropy_cross_group, label: local, flat: true}
"""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(2000)]


@pytest.fixture
def command(tmp_path) -> list[str]:
    """The study's command, one run at a time."""
    (tmp_path / "common.yaml").write_text(SMALLEST_STUDY)
    (tmp_path / "smallest.yaml").write_text(FIGURE)
    arguments = [str(tmp_path / "smallest.yaml"), "demo", str(tmp_path / "out"), "--miniature", "--jobs", "1"]
    return [sys.executable, "-m", "gtransformer.lab.cli.study", *arguments]


def assert_scores_repeat(translations, runs, folder):
    """The texts kept beside a result are scored again as it says."""
    with tarfile.open(translations) as packed:
        packed.extractall(folder, filter="data")
    assert {path.stem for path in folder.iterdir()} == {"reference", *runs}
    for name, run in runs.items():
        again = folder / f"{name}.json"
        texts = [f"--hypotheses={folder / name}.txt", f"--reference-file={folder / 'reference.txt'}"]
        score([*texts, f"--output={again}"])
        (found,) = json.loads(again.read_text())["scores"].values()
        assert found["d_bleu"]["score"] == pytest.approx(run["scores"]["d_bleu"]["score"])


def test_interrupted_and_resumed(command, tmp_path):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    out = tmp_path / "out"
    # Two updates after a checkpoint was saved, two before the next one is.
    output = interrupt_when(
        lambda: any('"num_updates": "6"' in log.read_text() for log in out.glob("runs/*/train.log")),
        command,
        env=environment,
    )
    assert output.rstrip().endswith("interrupted"), output[-3000:]
    assert not list(out.glob("runs/*/result.json")) and not (out / "smallest.json").exists()

    done = run_group(command, env=environment)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "d-BLEU: 900000 instances left out, the corpus has" in done.stdout
    assert "2 runs, 0 done before; 1 at a time" in done.stdout and done.stdout.count("done before, kept") >= 2
    found = json.loads((out / "smallest.json").read_text())
    plain, ours = (json.loads((out / "runs" / name / "result.json").read_text()) for name in found["runs"])
    logs = [(out / "runs" / name / "train.log").read_text() for name in found["runs"]]
    assert "Loaded checkpoint" in logs[0] and "Loaded checkpoint" not in logs[1], "the first goes on, the other is new"
    for run, reach in ((plain, "global"), (ours, "group")):
        updates, bits = zip(*run["curves"][f"valid_entropy_cross_{reach}"], strict=True)
        assert {4, 8, 12} <= set(updates) and list(updates) == sorted(set(updates))
        flat = [value for _, value in run["curves"][f"valid_entropy_cross_{reach}_flat"]]
        assert len(set(flat)) == 1 and all(0 < value <= flat[0] + 1e-3 for value in bits)
        assert [update for update, _ in run["curves"]["valid_loss"]] == list(updates)
        assert run["curves"]["train_loss"][-1][0] == 12
        assert run["scores"]["d_bleu"]["signature"] and run["options"]["train"]["max-update"] == 12
    assert ours["scores"]["s_bleu"] is not None and ours["counts"]["misaligned_instances"] == 0
    assert {"command", "commit", "versions", "date", "device", "panels"} <= found.keys()
    choices = [run.pop("contrastive") for run in found["runs"].values()]  # the corpus's own items, whose number is said
    assert [one["total"]["items"] for one in choices] == [3, 3] and all("by_phenomenon" in one for one in choices)
    assert found["runs"] == {run["run"]["name"]: run for run in (plain, ours)}
    assert imread(out / "smallest.png").ndim == 3
    assert_scores_repeat(out / "smallest.tar.xz", found["runs"], tmp_path / "texts")
    (path,) = out.glob("prepared/len64-20-*/manifest.json")
    manifest = json.loads(path.read_text())
    assert manifest["splits"]["train"]["instances"] == 20 and manifest["splits"]["train"]["documents"] == 20
    assert not list(out.glob("runs/*/checkpoints")), "results and curves are kept, not checkpoints"
