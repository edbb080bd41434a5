"""Two processes on the CPU learn what one process learns with twice as many batches an update."""

from __future__ import annotations

import json
import re

import torch
from fairseq import options, tasks, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer

from gtransformer.data.batch_fields import counted
from tests.commands import SMALL, TRAINING, run, run_alone
from tests.core.end_to_end import test_systems as systems
from tests.support import relative_error

TWO = ["--distributed-world-size=2", "--cpu"]
DATA = systems.PREPARED / "bin"
DOCFLAT = [*systems.TASK, *systems.SYSTEMS["docflat_mini"], "--arch=docflat_mini", *systems.SMALL]
DOCFLAT += ["--context-loss=off", "--doc-noise-mask=0.1", "--disable-validation"]


def parameters(path):
    return torch.load(path)["model"]


def change(before, after) -> torch.Tensor:
    """What a training with lr 1 and plain gradient descent has taken off the parameters: the
    gradients' sum.
    """
    return torch.cat(
        [
            (value - after[name]).flatten()
            for name, value in before.items()
            if value.is_floating_point()
        ]
    )


def test_gradients_of_two_processes_are_those_of_one(copy_corpus, tmp_path):
    """To float precision, from the same weights."""
    line = [
        "train",
        copy_corpus / "bin",
        *TRAINING,
        *SMALL,
        "--batch-size=25",
        "--no-epoch-checkpoints",
    ]
    descent = [
        *line,
        "--optimizer=sgd",
        "--lr-scheduler=fixed",
        "--clip-norm=0",
        "--disable-validation",
    ]
    run(*descent, "--lr=0", "--max-update=1", f"--save-dir={tmp_path / 'begin'}")
    first = tmp_path / "begin" / "checkpoint_last.pt"
    descent += ["--lr=1", f"--finetune-from-model={first}", "--max-update=2"]
    run(*descent, "--update-freq=2", f"--save-dir={tmp_path / 'one'}")
    assert "training on 2 devices" in run_alone(*descent, *TWO, f"--save-dir={tmp_path / 'two'}")
    found, expected = (
        change(parameters(first), parameters(tmp_path / name / "checkpoint_last.pt"))
        for name in ("two", "one")
    )
    assert relative_error(found, expected) < 1e-5 and expected.abs().max() > 1e-3


def trainer_of(*arguments) -> Trainer:
    """fairseq's trainer as fairseq-train makes it, in this process, and its task with the training
    set.
    """
    args = options.parse_args_and_arch(
        options.get_training_parser(), input_args=list(map(str, arguments))
    )
    cfg = convert_namespace_to_omegaconf(args)
    utils.set_torch_seed(cfg.common.seed)
    task = tasks.setup_task(cfg.task)
    model, criterion = task.build_model(cfg.model), task.build_criterion(cfg.criterion)
    task.load_dataset("train")
    trainer = Trainer(cfg, task, model, criterion)
    trainer.begin_epoch(1)
    return trainer


def test_two_processes_train_on_the_current_sentences_of_their_own_documents(tmp_path):
    """Each update counts the current tokens of one batch of either process, and no others;
    gradients are their sum.
    """
    line = [
        *DOCFLAT,
        f"--save-dir={tmp_path}",
        "--max-update=3",
        "--dropout=0",
        "--optimizer=sgd",
        "--lr=0.5",
    ]
    first = run_alone("train", DATA, *line, *TWO)
    logged = [json.loads(one) for one in re.findall(r"train_inner \| (\{.*\})", first)]
    trainer = trainer_of(DATA, *line)
    task = trainer.task
    shares = [
        task.get_batch_iterator(
            task.dataset("train"), max_tokens=100, required_batch_size_multiple=8, num_shards=2,
            shard_id=rank,
            disable_iterator_cache=True,
        ).next_epoch_itr(shuffle=True)
        for rank in range(2)
    ]  # fmt: skip
    for told, batches in zip(logged, zip(*shares, strict=True), strict=False):
        current = [counted(batch)["ntokens"] for batch in batches]
        assert float(told["wpb"]) == sum(current)
        assert float(told["bsz"]) == sum(len(batch["id"]) for batch in batches)
        trainer.train_step(list(batches))
    assert len(logged) == trainer.get_num_updates() == 3
    found, expected = parameters(tmp_path / "checkpoint_last.pt"), trainer.model.state_dict()
    for name, value in expected.items():
        assert relative_error(found[name], value) < 1e-5, name


def test_a_resumed_training_ends_with_the_same_weights(tmp_path):
    """In the middle of an epoch, with dropout and word dropout."""
    found = []
    for name, stops in (("at once", [4]), ("in two", [2, 4])):
        for updates in stops:
            run("train", DATA, *DOCFLAT, f"--save-dir={tmp_path / name}", f"--max-update={updates}")
        found.append(parameters(tmp_path / name / "checkpoint_last.pt"))
    assert found[0].keys() == found[1].keys()
    assert all(torch.equal(value, found[1][name]) for name, value in found[0].items())
