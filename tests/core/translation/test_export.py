"""Model directories: complete, self-contained, whole or not there, and refused where the parts do
not fit.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
import torch

from gtransformer.files import write_json
from gtransformer.models.saved import read_parameters
from gtransformer.translation.model_directory import ModelDirectory
from gtransformer.translation.options import SearchOptions
from tests import saved_model as saved_models
from tests.saved_model import make_checkpoint, on_cpu, training_arguments
from tests.support import ROOT, command

main = command("export")
translate = command("translate")

pytestmark = pytest.mark.slow

TEXT = ["The old dog sleeps.", "Mary finds her book under two trees."]


@pytest.fixture
def parts(saved_model, tmp_path):
    """A run's directory (checkpoints/, train.json) and its prepared corpus beside it, to be
    spoilt.
    """
    shutil.copytree(saved_model.parent / "prepared", tmp_path / "prepared")
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    shutil.copy(saved_model.parent / "checkpoint.pt", run / "checkpoints" / "checkpoint_best.pt")
    command = [
        "python",
        "-m",
        "fairseq_cli.train",
        str(tmp_path / "prepared" / "bin"),
        "--save-dir",
        str(run),
    ]
    write_json(run / "train.json", {"command": command})
    return tmp_path


def failure(capsys, *arguments) -> str:
    assert main([str(word) for word in arguments]) == 1
    return capsys.readouterr().err


@pytest.mark.parametrize("form", ["cfg", "args"])
def test_a_run_becomes_a_directory_that_needs_nothing_else(parts, saved_model, form):
    """Checkpoints of the authors' release and of fairseq 0.10 hold arguments in place of a
    configuration.
    """
    output, checkpoint = (
        parts / "deep" / "model",
        parts / "run" / "checkpoints" / "checkpoint_best.pt",
    )
    if form == "args":
        torch.save(
            torch.load(checkpoint) | {"cfg": None, "args": training_arguments(parts / "prepared")},
            checkpoint,
        )
    assert (
        main(
            [str(parts / "run"), str(output), "--beam", "2", "--max-len-a", "0", "--max-len-b", "3"]
        )
        == 0
    )
    expected = on_cpu(saved_model).translate(TEXT)
    written, state = read_parameters(output), torch.load(checkpoint)["model"]
    assert written.keys() == state.keys()
    assert all(torch.equal(written[name], value) for name, value in state.items())
    different = {
        value.data_ptr(): value.nbytes for value in state.values()
    }  # what is tied is written once
    assert (output / "model.safetensors").stat().st_size < sum(different.values()) + 50_000
    moved = parts / "elsewhere"
    output.rename(moved)
    for name in ("run", "prepared", "deep"):
        shutil.rmtree(parts / name)
    assert on_cpu(moved).translate(TEXT) == expected
    names = [
        "model.safetensors",
        "dict.en.txt",
        "dict.de.txt",
        "bpe.codes",
        "truecase.en",
        "truecase.de",
    ]
    assert sorted(path.name for path in moved.iterdir()) == sorted(
        ["config.json", "manifest.json", *names]
    )


def test_mistakes_leave_nothing_behind(parts, capsys):
    run, output = parts / "run", parts / "model"
    assert str(parts / "prepared") in failure(capsys, run, parts / "prepared")
    dictionary = parts / "prepared" / "bin" / "dict.de.txt"
    words = dictionary.read_text()
    dictionary.write_text("surplus 1\n" + words)
    assert "checkpoint" in failure(capsys, run, output)
    dictionary.write_text(words)
    manifest = parts / "prepared" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"de"', '"fr"'))
    assert "en-de" in failure(capsys, run, output)
    assert sorted(path.name for path in parts.iterdir()) == ["prepared", "run"]


def test_learned_positions_have_an_end(parts, tmp_path, capsys):
    """Instances stay within them, and a sentence that does not is cut in parts: a line out for each
    line in.
    """
    learned = ["--encoder-learned-pos", "--max-source-positions", "20"]
    checkpoint = make_checkpoint(parts / "prepared", parts / "learned.pt", *learned)
    search = ["--beam", "2", "--max-len-a", "0", "--max-len-b", "2"]
    assert (
        main(
            [
                str(parts / "prepared"),
                str(parts / "model"),
                "--checkpoint",
                str(checkpoint),
                *search,
            ]
        )
        == 0
    )
    model = on_cpu(parts / "model")
    assert (
        model.max_instance_tokens == 21 < model.directory.max_instance_tokens
        and model.max_sentence_tokens == 18
    )
    tokens = len(model.encode(["house " * 30])[0])
    assert 18 < tokens <= 36
    first, long, last = model.translate([TEXT[0], "house " * 30, TEXT[1]])
    # Of 20 tokens there is no room for a neighbour.
    whole = model.engine.translate([[["house"] * (tokens // 2)]], model.options)[0][0].sentences
    assert long == " ".join(model.target_text.decode(whole * 2))
    assert len(model.translate(TEXT * 10)) == 20
    (tmp_path / "text").write_text("The old dog.\n" + "house " * 30 + "\n")
    capsys.readouterr()
    assert translate(["--model", str(parts / "model"), str(tmp_path / "text"), "--cpu"]) == 0
    output, errors = capsys.readouterr()
    assert output.count("\n") == 2 and "cut in parts: 1 in all (line 2)" in errors


@pytest.mark.parametrize(
    ("options", "limits"),
    [
        ((), (60, 9)),  # as the corpus was prepared
        (("--instances", "greedy", "--instance-tokens", "21"), (21, None)),
        (("--instances", "parts", "--instance-tokens", "90"), (90, None)),
        (("--instances", "disjoint", "--context-sentences", "0"), (None, 1)),
        (("--instances", "sliding", "--context-sentences", "30"), (None, 31)),
        (
            (
                "--instances",
                "current",
                "--context-sentences",
                "2",
                "--target-context-sentences",
                "2",
            ),
            (None, 3),
        ),
    ],
)
def test_instances_are_as_long_as_those_trained_on(parts, options, limits):
    manifest = parts / "prepared" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"max_sents": null', '"max_sents": 9'))
    make_checkpoint(
        parts / "prepared", parts / "run" / "checkpoints" / "checkpoint_best.pt", *options
    )
    assert main([str(parts / "run"), str(parts / "model")]) == 0
    directory = ModelDirectory.open(parts / "model")
    assert (directory.max_instance_tokens, directory.max_sents) == limits
    model = on_cpu(parts / "model")
    assert model.max_instance_tokens == (limits[0] or model.engine.longest + 1)
    assert len(model.translate(TEXT * 20, beam=1, max_len_a=0, max_len_b=1)) == 40


def test_the_search_is_that_of_the_runs_recipe(parts):
    """As training noted it, with what is given in its place."""
    noted = {"beam": 4, "lenpen": "0.6", "strategy": "sequential", "fp16": True, "nbest": 3}
    write_json(parts / "run" / "generate.json", noted)
    for options, wanted in (
        ([], SearchOptions(beam=4, lenpen=0.6, strategy="sequential")),
        (["--beam", "2", "--strategy", "full"], SearchOptions(beam=2, lenpen=0.6)),
    ):
        output = parts / f"model{len(options)}"
        assert main([str(parts / "run"), str(output), *options]) == 0
        assert ModelDirectory.open(output).search == wanted


@pytest.mark.parametrize(
    ("system", "options"),
    [
        ("doc_transformer", "--instances current --context-sentences 2"),
        ("document_transformer", "--instances current --context-sentences 2"),
        (
            "docflat",
            "--instances sliding --context-sentences 1 --context-loss off --batch-order document",
        ),
    ],
)
def test_models_that_read_other_sentences_are_refused(parts, monkeypatch, capsys, system, options):
    """What stands beside the translated sentences is not in a plain text."""
    monkeypatch.setattr(
        saved_models, "SIZES", ["--arch", f"{system}_mini", *saved_models.SIZES[2:-8]]
    )
    make_checkpoint(
        parts / "prepared", parts / "run" / "checkpoints" / "checkpoint_best.pt", *options.split()
    )
    assert failure(capsys, parts / "run", parts / "model").startswith("error: ")
    assert not (parts / "model").exists()


def test_exported_and_translated_by_programs(parts):
    """Nothing has told fairseq of this package's task before; translating needs neither fairseq
    nor the checkout, whose configs and scripts are not there.
    """

    def program(line: str, **variables: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "gtransformer", *line.split()]
        return subprocess.run(
            command, cwd=parts, env=os.environ | variables, capture_output=True, text=True
        )

    done = program("export run model --prepared prepared --beam 2 --max-len-a 0 --max-len-b 3")
    assert done.returncode == 0, done.stderr
    site = parts / "site"
    shutil.copytree(
        ROOT / "gtransformer", site / "gtransformer", ignore=shutil.ignore_patterns("__py*")
    )
    for name in ("fairseq", "hydra", "omegaconf"):
        (site / f"{name}.py").write_text(f"raise ImportError('{name}')")
    (parts / "text").write_text("\n".join(TEXT))
    done = program(
        "translate --model model text --cpu --quiet", PYTHONPATH=str(site), OMP_NUM_THREADS="1"
    )
    expected = on_cpu(parts / "model").translate(TEXT)
    assert (done.returncode, done.stdout.splitlines()) == (0, expected)
    assert done.stderr.startswith("ended by a length limit") and done.stderr.count("\n") == 1
