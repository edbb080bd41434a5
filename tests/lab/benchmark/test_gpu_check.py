"""The check of a GPU, as far as a processor shows it: what is done is not done again, and what is wrong is said."""

from __future__ import annotations

import json
import sys

import pytest

from gtransformer.errors import UserError
from gtransformer.lab.cli import gpu_check
from gtransformer.run.recipe import load_recipe
from gtransformer.run.recipe_check import check_options


def script(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_parts_are_recorded_and_what_is_done_is_not_done_again(tmp_path, monkeypatch, capsys):
    again = tmp_path / "again"
    parts = {
        "tests": (60, [script("print('3 passed, 1 skipped in 2 s')")]),
        "prepare": (60, [script(f"open({str(again)!r}, 'a').write('x')"), script("raise ValueError('no such text')")]),
        "late": (0, [script("import time; time.sleep(60)")]),
    }
    monkeypatch.setattr(gpu_check, "make_parts", lambda *given: parts)
    monkeypatch.setattr("gtransformer.lab.benchmark.measure.machine", dict)
    line = ["--rehearse", "--output", str(tmp_path)]
    assert gpu_check.main(line) == gpu_check.main(line) == 1
    record = json.loads((tmp_path / "gpu_check.json").read_text())
    assert record["rehearsal"] and record["versions"]["torch"]
    assert record["parts"]["tests"]["figures"] == {"passed": 3, "skipped": 1}
    assert record["parts"]["prepare"]["error"] == "ValueError: no such text"
    assert record["parts"]["late"]["error"].startswith("more than")
    assert again.read_text() == "xx", "failed parts are run again"
    assert "tests: done before" in capsys.readouterr().out
    (tmp_path / "gpu_check.json").write_text(json.dumps(record | {"commit": "an earlier one"}))
    assert gpu_check.main(line) == 1
    assert "tests: done before" not in capsys.readouterr().out, "of other code"


def test_half_precision_has_to_learn_the_same(tmp_path):
    output = "".join(
        f'2026 | INFO | train_inner | {{"num_updates": "{n}", "loss": "{loss}"}}\n' for n, loss in ((1, 9.0), (50, 4.0))
    )
    found = gpu_check.figures("train_amp", tmp_path, output, {"train_float32": {"figures": {"loss": 4.1}}})
    assert (found["first loss"], found["loss"], found["num_updates"]) == (9.0, 4.0, 50)
    with pytest.raises(UserError, match="loss 4.0"):
        gpu_check.figures("train_amp", tmp_path, output, {"train_float32": {"figures": {"loss": 3.0}}})
    with pytest.raises(UserError, match="loss nan"):
        gpu_check.figures("train_fp16", tmp_path, output.replace("4.0", "nan"), {"train_float32": {"figures": found}})
    with pytest.raises(UserError, match="no update"):
        gpu_check.figures("train_fp16", tmp_path, "", {})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["pack", "{folder}"], "has other files"),
        (["--python", "3.13"], "--python: not without pack"),
        (["pack", "x", "--rehearse"], "--rehearse: not with pack"),
        (["--rehearse", "--prepared", "{folder}"], "no prepared corpus"),
    ],
)
def test_mistakes_cost_no_files_and_no_time(tmp_path, capsys, options, says):
    (tmp_path / "thesis.tex").touch()
    assert gpu_check.main([option.format(folder=tmp_path) for option in options]) == 1
    assert says in capsys.readouterr().err and (tmp_path / "thesis.tex").exists()


def test_trainings_have_options_that_their_programs_take(tmp_path):
    parts = gpu_check.make_parts(tmp_path, None, rehearse=False)
    for name in gpu_check.PRECISIONS:
        (command,) = parts[f"train_{name}"][1]
        changes = [word for before, word in zip(command, command[1:], strict=False) if before == "--set"]
        check_options(load_recipe("demo", changes), "train")


def test_what_a_machine_lacks():
    """The packages installed here with all that they need, but for what comes with PyTorch."""
    found = gpu_check.closure(["sacrebleu"], ["numpy", "Tabulate"])
    assert {"sacrebleu", "portalocker", "regex"} <= found.keys() and not {"numpy", "tabulate"} & found.keys()
