"""Numbers of results: intervals, logs, tables."""

from __future__ import annotations

import runpy
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from gtransformer.errors import UserError
from gtransformer.lab.pictures import bleu_by_length, marked, side_by_side
from gtransformer.lab.results import markdown, mean_interval, read_log

LOG = """$ fairseq-train
2026 | INFO | train_inner | {"loss": "9.2", "wps": "100", "num_updates": "2"}
2026 | INFO | valid | {"valid_loss": "8.1", "valid_num_updates": "2"}
2026 | INFO | train_inner | {"loss": "7.0", "wps": "300", "num_updates": "4"}
$ fairseq-train
2026 | INFO | train_inner | {"loss": "6.5", "wps": "200", "num_updates": "4"}
"""


def test_the_interval_of_a_mean():
    values = [3.0, 4.5, 4.0]
    expected = stats.t.interval(0.95, 2, loc=np.mean(values), scale=stats.sem(values))
    assert mean_interval(values) == pytest.approx(expected) and mean_interval([1.0]) is None


def test_later_values_of_a_resumed_training_count(tmp_path):
    (tmp_path / "train.log").write_text(LOG, encoding="utf-8")
    series = read_log(tmp_path / "train.log")
    assert series["train_loss"] == {2: 9.2, 4: 6.5} and series["valid_loss"] == {2: 8.1}


def test_the_table():
    def line(system, seed, metric, value, interval=""):
        return {
            "system": system,
            "seed": seed,
            "metric": metric,
            "value": value,
            "interval": interval,
        }

    rows = [
        line("base", 1, "s_bleu", "20"),
        line("base", "mean", "s_bleu", "20.04"),
        line("ours", "mean", "s_bleu", "22.5", "21 to 24"),
        line("ours", "mean", "s_bleu - base", "2.46", "1.04 to 3.96"),
        line("ours", "documents", "s_bleu - base", "2.4", "2.0 to 2.8"),
    ]
    base, ours = markdown(rows).splitlines()[2:]
    assert (
        base == "| base | 20.0 |  |  |  |"
        and ours == "| ours | 22.5 | 2.5 | 1.0 to 4.0 | 2.0 to 2.8 |"
    )


def test_every_number_of_the_results_is_in_a_file(tmp_path):
    root = Path(__file__).resolve().parents[2]
    numbers = runpy.run_path(str(root / "docs" / "numbers.py"))
    recorded, missing = numbers["recorded"](), numbers["missing"]
    lacking = [number for page in numbers["PAGES"] for _, number in missing(root / page, recorded)]
    assert lacking == ["200"]  # items of another paper
    (tmp_path / "page.md").write_text("94.0 and 94.9712345, `77.7777`, 20", encoding="utf-8")
    assert missing(tmp_path / "page.md", recorded) == [(1, "94.9712345")]


def test_a_picture_of_translations():
    texts = {
        "source": ["He saw A & B.", "She sang."],
        "reference": ["Er sah A & B.", "Sie sang und sie lachte."],
        "ours": ["Er sieht A & B.", "Sie sang und sie sie lachte."],
    }
    lines = ElementTree.fromstring(side_by_side(texts)).findall("{*}text")
    words = ["".join(line.itertext()) for line in lines]
    assert words == [*texts, *(line for text in texts.values() for line in text)]
    coloured = [span.text for line in lines for span in line]
    assert coloured == ["sieht", "sie"]
    assert marked("a b", "b") == [("a", True), ("b", False)]
    with pytest.raises(UserError, match="different numbers"):
        side_by_side(texts | {"theirs": ["Er"]})


def test_bleu_by_length(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text(
        "system,seed,metric,value,interval\n"
        "ours-512,mean,s_bleu,30,28 to 32\n"
        "ours-64,mean,s_bleu,20,17 to 23\n"
        "ours-64,1,s_bleu,21,\n"
        "ours-longer,mean,s_bleu,5,4 to 6\n",
        encoding="utf-8",
    )
    assert bleu_by_length(path) == {"ours, s-BLEU": [(64, 20.0, 3.0), (512, 30.0, 2.0)]}
