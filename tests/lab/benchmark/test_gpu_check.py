"""The check on a GPU: parts are recorded, kept and repeated as they should be; commands and folders are right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from gtransformer.cli import prepare
from gtransformer.cli import run as recipes
from gtransformer.errors import UserError
from gtransformer.lab.benchmark.gpu import pack as packing
from gtransformer.lab.benchmark.gpu import precision, run
from gtransformer.lab.benchmark.gpu.parts import PARTS, Check, Part
from gtransformer.lab.benchmark.gpu.precision import BOUNDS, errors, steps_of
from gtransformer.lab.cli import benchmark, demo_corpus, gpu_check
from gtransformer.run.recipe import load_recipe
from gtransformer.run.recipe_check import check_options
from gtransformer.tasks.checkpoint_file import read_state
from tests.processes import run_forked

pytestmark = pytest.mark.slow

CARD = "about"


def part(name: str, code: str, seconds: int = 60, **more) -> Part:
    """A part that runs Python code; its figure is how many lines were written."""
    figures = more.pop("figures", lambda check, output: {"lines": len(output.splitlines())})
    return Part(name, f"what {name} is", seconds, lambda check: [[sys.executable, "-c", code]], figures, **more)


@pytest.fixture
def check(tmp_path) -> Check:
    return Check(tmp_path / "work", "cpu", True)


def start(monkeypatch, tmp_path, check, *parts, **options) -> list[str]:
    monkeypatch.setattr(run, "PARTS", parts)
    return run.run_parts(list(parts), check, tmp_path, {CARD: "a machine"}, **options)


def record(tmp_path: Path, name: str) -> dict:
    own = json.loads((tmp_path / f"{name}.json").read_text())
    assert json.loads((tmp_path / run.TOGETHER).read_text())["parts"][name] == own
    return own


def test_a_failure_is_recorded_and_the_rest_goes_on(monkeypatch, tmp_path, check, capsys):
    parts = (
        part("good", "print(1); print(2)"),
        part("bad", "print('begun'); raise SystemExit('error: no such thing')"),
        part("other", "print(3)"),
        part("behind", "print(4)", needs=("bad",)),
        part("unread", "", figures=lambda check, output: json.loads(output)),
    )
    assert start(monkeypatch, tmp_path, check, *parts) == ["bad", "behind", "unread"]
    good, bad = record(tmp_path, "good"), record(tmp_path, "bad")
    assert (good["state"], good["error"], good["figures"]) == ("done", None, {"lines": 2})
    assert good["rehearsal"] and good[CARD] == "a machine"
    assert good["commands"] == ["python -c 'print(1); print(2)'"]  # and not by this machine's path
    assert (bad["state"], bad["error"]) == ("failed", "error: no such thing") and "begun" in bad["output_tail"]
    assert record(tmp_path, "behind")["error"] == "needs bad, which is not done"
    assert record(tmp_path, "unread")["state"] == "failed"
    assert record(tmp_path, "other")["state"] == "done"
    capsys.readouterr()

    mended = (*parts[:1], part("bad", "print(5)"), *parts[2:4])
    assert start(monkeypatch, tmp_path, check, *mended) == []
    assert capsys.readouterr().out.splitlines()[0] == "good: done before"
    assert record(tmp_path, "bad")["state"] == record(tmp_path, "behind")["state"] == "done"
    assert record(tmp_path, "good") == good


def test_records_together_are_enough_to_go_on(monkeypatch, tmp_path, check, capsys):
    one = part("one", "print(1)")
    start(monkeypatch, tmp_path, check, one)
    (tmp_path / "one.json").unlink()
    assert start(monkeypatch, tmp_path, check, one) == []
    assert capsys.readouterr().out.endswith("one: done before\n")


def test_records_from_another_machine_are_not_their_output(monkeypatch, tmp_path, check, capsys):
    """What a part needs that is left to do is made again; for what is done nothing is."""
    made, model = tmp_path / "made", tmp_path / "model"
    parts = (
        part("data", f"open({str(made)!r}, 'x')", outputs=lambda check: [made]),
        part("first", f"open({str(model)!r}, 'x')", needs=("data",), outputs=lambda check: [model]),
    )
    third = part("third", f"open({str(model)!r})", needs=("data", "first"))
    assert start(monkeypatch, tmp_path, check, *parts) == []
    for path in (made, model):
        path.unlink()
    capsys.readouterr()
    assert start(monkeypatch, tmp_path, check, *parts) == [] and not made.exists()
    assert capsys.readouterr().out == "data: done before\nfirst: done before\n"
    monkeypatch.setattr(run, "PARTS", (*parts, third))
    assert run.run_parts([third], check, tmp_path, {CARD: "a machine"}) == ["third"]
    assert record(tmp_path, "third")["error"] == "needs data, whose output is not there; run it, too"
    assert start(monkeypatch, tmp_path, check, *parts, third) == [] and made.exists() and model.exists()


def test_what_others_need_is_named():
    needed = {name for part in PARTS for name in part.needs}
    assert (
        {part.name for part in PARTS if part.outputs(Check(Path("work")))} == needed == {"prepare", "train_sentences"}
    )


def test_a_rehearsal_is_not_the_check(monkeypatch, tmp_path, check):
    one = part("one", "print(1)")
    start(monkeypatch, tmp_path, check, one)
    assert run.state_of(record(tmp_path, "one"), check) == run.DONE
    assert run.state_of(record(tmp_path, "one"), Check(check.work)) == run.NOT_RUN
    assert Check(check.work, "cpu").rehearsal and Check(check.work, small=True).rehearsal


def test_a_part_has_its_time_and_leaves_no_program_behind(monkeypatch, tmp_path):
    shell = ["sh", "-c", f"sleep 60 & echo $! >{tmp_path / 'pid'}; echo begun; wait"]
    long = replace(part("long", "", seconds=3), commands=lambda check: [shell])
    assert start(monkeypatch, tmp_path, Check(tmp_path / "work"), long) == ["long"]
    found = record(tmp_path, "long")
    assert (found["state"], found["error"]) == ("out of time", "more than 3 s") and found["seconds"] < 30
    assert found["figures"] == {"lines": 1}
    pid = int((tmp_path / "pid").read_text())
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            break
        if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
            break
        time.sleep(0.05)
    else:
        raise AssertionError("still there")


def test_no_part_is_begun_that_may_not_end_in_time(monkeypatch, tmp_path, check, capsys):
    parts = part("short", "print(1)", seconds=30), part("long", "print(2)", seconds=300)
    assert start(monkeypatch, tmp_path, check, *parts, seconds=1000) == ["long"]
    assert not (tmp_path / "long.json").exists()
    assert "long: needs 3000 s, " in capsys.readouterr().out


def test_what_is_trained_needs_a_corpus(monkeypatch, tmp_path):
    full = Check(tmp_path / "work", "cpu")
    assert start(monkeypatch, tmp_path, full, part("train", "print(1)", trains=True)) == ["train"]
    assert record(tmp_path, "train")["error"] == "needs --corpus or --prepared"


def test_a_prepared_corpus_is_taken_as_it_is_or_unpacked(tmp_path):
    (prepare,) = [part for part in PARTS if part.name == "prepare"]
    folder = Check(tmp_path / "work", prepared=tmp_path / "prepared")
    assert prepare.commands(folder) == [] and folder.data == tmp_path / "prepared"
    archive = Check(tmp_path / "work", prepared=tmp_path / "prepared.tar.xz")
    (unpack,) = prepare.commands(archive)
    assert unpack[1:4] == ["-m", "tarfile", "-e"] and archive.data == tmp_path / "work" / "prepared"
    for check in (folder, archive):
        (line,) = [part for part in PARTS if part.name == "train_gtransformer"][0].commands(check)
        assert line[line.index("--prepared") + 1] == str(check.data)


def test_parts_fit_into_their_time():
    assert all(part.seconds <= 8 * 60 for part in PARTS) and sum(part.seconds for part in PARTS) <= 25 * 60
    names = [part.name for part in PARTS]
    assert all(needed in names[: names.index(part.name)] for part in PARTS for needed in part.needs)
    assert [part.name for part in run.choose(["amp", "tests"])] == ["tests", "amp"]
    with pytest.raises(UserError, match="nothing: no such part; choose of tests, "):
        run.choose(["nothing"])


@pytest.mark.parametrize("small", [False, True])
def test_commands_are_such_that_there_are(tmp_path, small):
    """Each module, and all options of its program; recipes with what is changed in them."""
    parsers = {
        "gtransformer.lab.cli.benchmark": benchmark.build_parser(), "gtransformer.cli.prepare": prepare.build_parser(),
        "gtransformer.lab.cli.demo_corpus": demo_corpus.build_parser(), "gtransformer.cli.run": recipes.build_parser(),
    }  # fmt: skip
    check, seen = Check(tmp_path, "cpu" if small else "cuda", small, None if small else tmp_path), set()
    for command in (command for part in PARTS for command in part.commands(check)):
        assert command[:2] == [sys.executable, "-m"] and find_spec(command[2])
        seen.add(command[2])
        if command[2] in parsers:
            given = parsers[command[2]].parse_args(command[3:])
            if command[2] == "gtransformer.cli.run":
                check_options(load_recipe(given.recipe, given.set), given.stage)
    assert parsers.keys() - {"gtransformer.lab.cli.demo_corpus"} <= seen


def test_gradients_that_were_divided_twice_are_seen():
    """Losses of the first updates and their norms would not tell: parameters that hardly move do."""
    exact = {"loss": [5.0, 4.9], "gnorm": [1.0, 1.1], "moved": 0.5}
    close = {"loss": [5.01, 4.89], "gnorm": [1.01, 1.08], "moved": 0.49}
    assert all(value <= BOUNDS[name] for name, value in errors(close, exact).items())
    assert errors(close | {"moved": 0.004}, exact)["moved"] > BOUNDS["moved"]
    assert errors(close | {"loss": [5.0]}, exact)["loss"] == float("inf")
    log = '2026 | INFO | train_inner | {"loss": "5.0", "num_updates": "1"}\n2026 | INFO | valid | {"loss": "4"}\n'
    assert steps_of(log) == [{"loss": "5.0", "num_updates": "1"}]


def test_the_state_of_parts_is_said(monkeypatch, tmp_path, check, capsys):
    start(monkeypatch, tmp_path, check, part("tests", "print(1)"), part("amp", "raise SystemExit('error: x')"))
    monkeypatch.undo()
    capsys.readouterr()
    line = ["--list", "--output", str(tmp_path)]
    assert gpu_check.main([*line, "--device", "cpu", "--small"]) == 0
    said = {row.split()[0]: row.split(" s  ")[1] for row in capsys.readouterr().out.splitlines()}
    assert said["tests"] == "done" and said["amp"] == "failed: error: x" and said["benchmark"] == "not run"
    assert gpu_check.main([*line, "amp"]) == 0
    assert capsys.readouterr().out.split(" s  ")[1] == "not run\n"


def test_a_folder_for_a_machine_without_network(monkeypatch, tmp_path):
    """Of what is needed, all that is installed here and not there; not more than is allowed."""

    def fetch(wanted, folder, python):
        for one in wanted:
            (folder / f"{one}.whl").write_bytes(b"x")

    monkeypatch.setattr(packing, "_fetch", fetch)
    corpus, folder = tmp_path / "corpus", tmp_path / "folder"
    corpus.mkdir()
    with pytest.raises(UserError, match="holds no concatenated_"):
        packing.pack(folder, [], "3.12", "abc", corpus=corpus)
    with pytest.raises(UserError, match="holds no prepared corpus"):
        packing.pack(folder, [], "3.12", "abc", prepared=corpus)
    (corpus / "concatenated_en2de_train_en.txt.xz").write_bytes(b"text")
    (tmp_path / "there").write_text("Package    Version\n---------- -------\nPyYAML     6.0\nMatplotlib==3.9\n")
    names = packing.read_names(tmp_path / "there")
    prepared = tmp_path / "made"
    (prepared / "bin").mkdir(parents=True)
    for name in ("manifest.json", "bin/train.en-de.en.bin", "bpe.codes"):
        (prepared / name).write_text(name)
    about = packing.pack(folder, names, "3.12", "abc", corpus, prepared)
    packages = about["packages"]
    assert {"fairseq-fixed", "omegaconf", "antlr4-python3-runtime", "sacremoses"} <= packages.keys()
    assert not {"torch", "numpy", "pyyaml", "matplotlib", "triton"} & packages.keys()
    assert (folder / "corpus" / "concatenated_en2de_train_en.txt.xz").read_bytes() == b"text"
    with tarfile.open(folder / "prepared.tar.xz") as archive:
        files = sorted(one.name for one in archive if one.isfile())
    assert files == ["prepared/bin/train.en-de.en.bin", "prepared/manifest.json"]
    assert json.loads((folder / "pack.json").read_text()) == about and about["commit"] == "abc"
    assert len(list((folder / "wheels").iterdir())) == len(packages)
    monkeypatch.setattr(packing, "LIMIT", 3)
    with pytest.raises(UserError, match="name what the machine has, as pip list says it there, with --there FILE"):
        packing.pack(folder, names, "3.12", "abc", corpus, prepared)


def test_updates_in_mixed_precision_are_compared(monkeypatch, tmp_path):
    """On a CPU, where the scale is 1 and all is float32, they are the same; a training that fails is said."""
    forked = SimpleNamespace(run=run_forked, PIPE=subprocess.PIPE, STDOUT=subprocess.STDOUT)
    monkeypatch.setattr(precision, "subprocess", forked)
    found = precision.compare(tmp_path, "cpu", small=True, record=tmp_path / "amp.json")
    assert json.loads((tmp_path / "amp.json").read_text()) == found
    (saved, *_) = (tmp_path / "amp").glob("checkpoint_1_*.pt")
    assert "last_optimizer_state" not in read_state(saved)
    assert found.keys() == {"float32", "amp"} and all(row["within"] for row in found.values())
    assert len(found["amp"]["loss"]) == len(found["amp"]["gnorm"]) == precision.UPDATES and found["amp"]["moved"] > 0.01
    monkeypatch.setitem(precision.WAYS, "amp", ["--patience=much"])
    found = precision.compare(tmp_path, "cpu", small=True)
    assert not found["amp"]["within"] and "argument --patience: invalid" in found["amp"]["error"]


def test_a_part_from_its_command_to_its_record(tmp_path):
    """A rehearsal as a user runs it."""
    line = ["--device", "cpu", "--small", "--output", str(tmp_path), "--work", str(tmp_path / "work")]
    assert gpu_check.main(["varlen", *line]) == 0
    found = record(tmp_path, "varlen")
    assert found["rehearsal"] and found["versions"]["torch"] and found["machine"]["cores"] and found["device"] == "CPU"
    assert found["commands"] == ["python -m gtransformer.lab.benchmark.gpu.measure varlen WORK --device cpu --small"]
    rows = found["figures"]["varlen"]
    assert len(rows) == 12 and all(row["within"] for row in rows)
