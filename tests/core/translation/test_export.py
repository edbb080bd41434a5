"""Model directories: complete, self-contained, whole or not there, and refused where the parts do not fit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gtransformer.cli.export import main
from gtransformer.cli.translate import main as translate
from gtransformer.models.saved import read_parameters
from gtransformer.preprocess.manifest import NOTED, noted_digests
from gtransformer.translation.api import GTransformer
from gtransformer.translation.model_directory import ModelDirectory
from gtransformer.translation.options import SearchOptions
from tests import saved_model as saved_models
from tests.saved_model import SHORT, make_checkpoint, training_arguments
from tests.support import ROOT

pytestmark = pytest.mark.slow

FULL = "--doc-mode full --encoder-ctxlayers 0 --decoder-ctxlayers 0 --cross-ctxlayers 0".split()
TEXT = ["The old dog sleeps.", "Mary finds her book under two trees."]


@pytest.fixture
def parts(saved_model, tmp_path):
    """A run's directory (checkpoints/, train.json) and its prepared corpus beside it, to be spoilt."""
    shutil.copytree(saved_model.parent / "prepared", tmp_path / "prepared")
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    shutil.copy(saved_model.parent / "checkpoint.pt", run / "checkpoints" / "checkpoint_best.pt")
    command = ["python", "-m", "fairseq_cli.train", str(tmp_path / "prepared" / "bin"), "--save-dir", str(run)]
    (run / "train.json").write_text(json.dumps({"command": command}))
    return tmp_path


def failure(capsys, *arguments) -> str:
    assert main([str(word) for word in arguments]) == 1
    return capsys.readouterr().err


def test_a_run_becomes_a_directory_that_needs_nothing_else(parts, saved_model, capsys):
    output = parts / "deep" / "model"
    assert main([str(parts / "run"), str(output), "--beam", "2", "--max-len-a", "0", "--max-len-b", "3"]) == 0
    assert "en to de" in capsys.readouterr().out
    expected = GTransformer.from_pretrained(saved_model, device="cpu").translate(TEXT)
    moved = parts / "elsewhere"
    output.rename(moved)
    for name in ("run", "prepared", "deep"):
        shutil.rmtree(parts / name)
    assert GTransformer.from_pretrained(moved, device="cpu").translate(TEXT) == expected
    names = ["model.safetensors", "dict.en.txt", "dict.de.txt", "bpe.codes", "truecase.en", "truecase.de"]
    assert sorted(path.name for path in moved.iterdir()) == sorted(["config.json", "manifest.json", *names])
    manifest = json.loads((moved / "manifest.json").read_text())
    assert manifest["command"].startswith("gtransformer export") and "torch" in manifest["versions"]
    assert manifest["search"]["beam"] == 2


def test_a_prepared_corpus_and_a_checkpoint(parts):
    checkpoint = parts / "run" / "checkpoints" / "checkpoint_best.pt"
    assert main([str(parts / "prepared"), str(parts / "model"), "--checkpoint", str(checkpoint)]) == 0
    assert ModelDirectory.open(parts / "model").search == SearchOptions()
    written, state = read_parameters(parts / "model"), torch.load(checkpoint)["model"]
    assert written.keys() == state.keys()
    for name, value in state.items():
        assert torch.equal(written[name], value)
    size = (parts / "model" / "model.safetensors").stat().st_size
    different = {value.data_ptr(): value.nbytes for value in state.values()}
    assert size < sum(different.values()) + 50_000  # what is tied is written once


def test_mistakes_leave_nothing_behind(parts, capsys):
    run, output = parts / "run", parts / "model"
    assert "--checkpoint" in failure(capsys, parts / "prepared", output)
    assert "--prepared" in failure(capsys, run, output, "--prepared", run)
    assert "exists already" in failure(capsys, run, parts / "prepared")
    dictionary = parts / "prepared" / "bin" / "dict.de.txt"
    words = dictionary.read_text()
    dictionary.write_text("surplus 1\n" + words)
    assert "name the corpus that it was trained on" in failure(capsys, run, output)
    dictionary.write_text(words)
    manifest = parts / "prepared" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"de"', '"fr"'))
    assert "translates en-de, but" in failure(capsys, run, output)
    assert sorted(path.name for path in parts.iterdir()) == ["prepared", "run"]


def test_old_checkpoints(parts, saved_model):
    """Those of the authors' release and of fairseq 0.10 hold arguments in place of a configuration."""
    checkpoint = parts / "run" / "checkpoints" / "checkpoint_best.pt"
    state = torch.load(checkpoint)
    state |= {"cfg": None, "args": training_arguments(parts / "prepared")}
    torch.save(state, checkpoint)
    search = ["--beam", "2", "--max-len-a", "0", "--max-len-b", "3"]
    assert main([str(parts / "run"), str(parts / "model"), *search]) == 0
    found = GTransformer.from_pretrained(parts / "model", device="cpu").translate(TEXT)
    assert found == GTransformer.from_pretrained(saved_model, device="cpu").translate(TEXT)


def test_learned_positions_have_an_end(parts, tmp_path, capsys):
    """Instances stay within them, and a sentence that does not is cut in parts: a line out for each line in."""
    learned = ["--encoder-learned-pos", "--max-source-positions", "20"]
    checkpoint = make_checkpoint(parts / "prepared", parts / "learned.pt", *learned)
    search = ["--beam", "2", "--max-len-a", "0", "--max-len-b", "2"]
    assert main([str(parts / "prepared"), str(parts / "model"), "--checkpoint", str(checkpoint), *search]) == 0
    model = GTransformer.from_pretrained(parts / "model", device="cpu")
    assert model.max_instance_tokens == 21 < model.directory.max_instance_tokens and model.max_sentence_tokens == 18
    tokens = len(model.chain.encode(["house " * 30])[0])
    assert 18 < tokens <= 36
    first, long, last = model.translate([TEXT[0], "house " * 30, TEXT[1]])
    # Of 20 tokens there is no room for a neighbour.
    whole = model.engine.translate([[["house"] * (tokens // 2)]], model.options)[0][0].sentences
    assert long == " ".join(model.chain.decode(whole * 2))
    assert len(model.translate(TEXT * 10)) == 20
    (tmp_path / "text").write_text("The old dog.\n" + "house " * 30 + "\n")
    capsys.readouterr()
    assert translate(["--model", str(parts / "model"), str(tmp_path / "text"), "--cpu"]) == 0
    output, errors = capsys.readouterr()
    assert output.count("\n") == 2 and "cut in parts: 1 in all (sentence 2 of document 1)" in errors


def test_sentence_level_models_get_a_sentence_at_a_time(parts, saved_model):
    """A corpus prepared with --max-sents 1 makes a model that has never seen two sentences together."""
    manifest = parts / "prepared" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"max_sents": null', '"max_sents": 1'))
    search = ["--beam", "2", "--max-len-a", "0", "--max-len-b", "3"]
    assert main([str(parts / "run"), str(parts / "model"), *search]) == 0
    found = GTransformer.from_pretrained(parts / "model", device="cpu").translate(TEXT)
    whole = GTransformer.from_pretrained(saved_model, device="cpu")
    assert found == [whole.translate([sentence])[0] for sentence in TEXT] != whole.translate(TEXT)


@pytest.mark.parametrize(
    ("options", "limits"),
    [
        ((), (60, None)),  # as the corpus was prepared
        (("--instances", "greedy", "--instance-tokens", "21"), (21, None)),
        (("--instances", "parts", "--instance-tokens", "90"), (90, None)),
        (("--instances", "disjoint", "--context-sentences", "0"), (None, 1)),
        (("--instances", "sliding", "--context-sentences", "30"), (None, 31)),
        (("--instances", "current", "--context-sentences", "2", "--target-context-sentences", "2"), (None, 3)),
    ],
)
def test_instances_are_as_long_as_those_trained_on(parts, options, limits):
    make_checkpoint(parts / "prepared", parts / "run" / "checkpoints" / "checkpoint_best.pt", *options)
    assert main([str(parts / "run"), str(parts / "model")]) == 0
    directory = ModelDirectory.open(parts / "model")
    assert (directory.max_instance_tokens, directory.max_sents) == limits
    model = GTransformer.from_pretrained(parts / "model", device="cpu")
    assert model.max_instance_tokens == (limits[0] or model.engine.longest + 1)
    assert len(model.translate(TEXT * 20, beam=1, max_len_a=0, max_len_b=1)) == 40


def noted(run: Path, **record: object) -> None:
    """Write what a run's training notes."""
    manifest = run.parent / "prepared" / "manifest.json"
    manifest.write_text(json.dumps({"outputs": {}} | json.loads(manifest.read_text())))
    digests = noted_digests(manifest.parent)
    (run / "checkpoints" / NOTED).write_text(json.dumps(digests | record))


def test_the_search_is_that_of_the_runs_recipe(parts):
    """As training noted it, with what is given in its place."""
    noted(parts / "run", generate={"beam": 4, "lenpen": "0.6", "strategy": "sequential", "fp16": True, "nbest": 3})
    for options, wanted in (
        ([], SearchOptions(beam=4, lenpen=0.6, strategy="sequential")),
        (["--beam", "2", "--strategy", "full"], SearchOptions(beam=2, lenpen=0.6)),
    ):
        output = parts / f"model{len(options)}"
        assert main([str(parts / "run"), str(output), *options]) == 0
        assert ModelDirectory.open(output).search == wanted


def test_a_search_that_the_model_cannot_do_is_refused(parts, capsys):
    """Every translation with the directory would fail."""
    noted(parts / "run", generate={"strategy": "parallel"})
    best = parts / "run" / "checkpoints" / "checkpoint_best.pt"
    make_checkpoint(parts / "prepared", best, "--instances=disjoint", "--context-sentences=0")
    message = "--strategy parallel: the model was trained on single sentences"
    assert message in failure(capsys, parts / "run", parts / "model")
    assert not (parts / "model").exists()


@pytest.mark.parametrize(
    ("system", "options"),
    [
        ("doc_transformer", "--instances current --context-sentences 2"),
        ("document_transformer", "--instances current --context-sentences 2"),
        ("docflat", "--instances sliding --context-sentences 1 --context-loss off --batch-order document"),
    ],
)
def test_models_that_read_other_sentences_are_refused(parts, monkeypatch, capsys, system, options):
    """What stands beside the translated sentences is not in a plain text."""
    monkeypatch.setattr(saved_models, "SIZES", ["--arch", f"{system}_mini", *saved_models.SIZES[2:-8]])
    make_checkpoint(parts / "prepared", parts / "run" / "checkpoints" / "checkpoint_best.pt", *options.split())
    assert "reads other sentences beside those" in failure(capsys, parts / "run", parts / "model")
    assert not (parts / "model").exists()


def test_plain_transformer_over_the_document_keeps_the_number_of_lines(parts):
    """--doc-mode full: nothing but the constraint ties its sentences to those of the source."""
    checkpoint = make_checkpoint(parts / "prepared", parts / "full.pt", *FULL)
    assert main([str(parts / "prepared"), str(parts / "model"), "--checkpoint", str(checkpoint)]) == 0
    model = GTransformer.from_pretrained(parts / "model", device="cpu")
    assert len(model.translate(TEXT * 2, beam=SHORT.beam, max_len_a=0, max_len_b=2)) == 4


@pytest.mark.slow
def test_works_without_the_checkout(saved_model, tmp_path):
    """The package alone, without configs, scripts and fairseq, and a model that was moved: nothing else is needed."""
    shutil.copytree(ROOT / "gtransformer", tmp_path / "site" / "gtransformer", ignore=shutil.ignore_patterns("__py*"))
    for name in ("fairseq", "hydra", "omegaconf"):
        (tmp_path / "site" / f"{name}.py").write_text(f"raise ImportError('{name}')")
    shutil.copytree(saved_model, tmp_path / "moved")
    (tmp_path / "text").write_text("\n".join(TEXT))
    line = [sys.executable, "-m", "gtransformer", "translate", "--model", "moved", "text", "--cpu", "--quiet"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    expected = GTransformer.from_pretrained(saved_model, device="cpu").translate(TEXT)
    assert (done.returncode, done.stdout.splitlines()) == (0, expected)
    assert done.stderr.startswith("ended by a length limit") and done.stderr.count("\n") == 1
