"""Systems that read their batch: a training that was interrupted, and one in two processes."""

from __future__ import annotations

import json
import re

import torch
from fairseq import options, tasks, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer

from gtransformer.data.batch_fields import counted
from tests.commands import run
from tests.core.end_to_end.test_batch_readers import DOCUMENTS, SYSTEMS
from tests.core.end_to_end.test_distributed import TWO, parameters
from tests.core.end_to_end.test_systems import PREPARED, SMALL, TASK
from tests.support import relative_error

TRAINING = [*TASK, *DOCUMENTS, "--context-loss=off", *SMALL, "--doc-noise-mask=0.1", "--disable-validation"]


def test_a_resumed_training_ends_with_the_same_weights(tmp_path):
    """In the middle of an epoch, with dropout and word dropout."""
    found = []
    for name, stops in (("at once", [4]), ("in two", [2, 4])):
        for updates in stops:
            line = [*TRAINING, *SYSTEMS["docflat"], f"--save-dir={tmp_path / name}", f"--max-update={updates}"]
            run("train", PREPARED / "bin", *line)
        found.append(parameters(tmp_path / name / "checkpoint_last.pt"))
    assert found[0].keys() == found[1].keys()
    assert all(torch.equal(value, found[1][name]) for name, value in found[0].items())


def trainer_of(*arguments) -> Trainer:
    """fairseq's trainer as fairseq-train makes it, in this process, and its task with the training set."""
    args = options.parse_args_and_arch(options.get_training_parser(), input_args=list(map(str, arguments)))
    cfg = convert_namespace_to_omegaconf(args)
    utils.set_torch_seed(cfg.common.seed)
    task = tasks.setup_task(cfg.task)
    model, criterion = task.build_model(cfg.model), task.build_criterion(cfg.criterion)
    task.load_dataset("train")
    trainer = Trainer(cfg, task, model, criterion)
    trainer.begin_epoch(1)
    return trainer


def test_two_processes_train_on_the_current_sentences_of_their_own_documents(tmp_path):
    """Each update counts the current tokens of one batch of either process, and no others; gradients are their sum."""
    line = [*TRAINING, *SYSTEMS["docflat"], f"--save-dir={tmp_path}", "--max-update=3"]
    line += ["--dropout=0", "--optimizer=sgd", "--lr=0.5"]
    first = run("train", PREPARED / "bin", *line, *TWO)
    logged = [json.loads(one) for one in re.findall(r"train_inner \| (\{.*\})", first)]
    trainer = trainer_of(PREPARED / "bin", *line)
    task = trainer.task
    shares = [
        task.get_batch_iterator(
            task.dataset("train"), max_tokens=100, required_batch_size_multiple=8, num_shards=2, shard_id=rank,
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
