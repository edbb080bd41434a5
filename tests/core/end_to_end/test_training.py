"""Trainings through fairseq's commands: killed and resumed, in two processes, from Hydra, with many
options together.
"""

from __future__ import annotations

import json
import re

import torch
from fairseq import tasks, utils
from fairseq.trainer import Trainer

from gtransformer.data.batch_fields import counted
from tests.commands import (
    SMALL,
    TRAINING,
    USER_DIR,
    kill_at,
    losses,
    run,
    run_alone,
    run_here,
)
from tests.core.end_to_end import test_systems as systems
from tests.support import relative_error, training_options

DATA = systems.PREPARED / "bin"
DOCFLAT = [*systems.TASK, *systems.SYSTEMS["docflat_mini"], "--arch=docflat_mini", *systems.SMALL]
DOCFLAT += ["--context-loss=off", "--doc-noise-mask=0.1", "--disable-validation"]


def parameters(path):
    return torch.load(path / "checkpoint_last.pt")["model"]


def test_training_goes_on_after_kill_9(tmp_path):
    """Killed in the middle of an epoch and restarted, with dropout, word dropout and batches in the
    order of documents, it ends with the weights of a run in one go, to the bit.
    """
    line = ["train", DATA, *DOCFLAT, "--max-update=24", "--save-interval-updates=5"]
    run(*line, f"--save-dir={tmp_path / 'whole'}")
    killed = tmp_path / "killed"
    assert '"num_updates": "11"' in kill_at('"num_updates": "12"', *line, f"--save-dir={killed}")
    after = run(*line, f"--save-dir={killed}")
    assert re.search(r"Loaded checkpoint .*checkpoint_last\.pt \(epoch \d @ 10 updates\)", after)
    found, expected = parameters(killed), parameters(tmp_path / "whole")
    assert found.keys() == expected.keys()
    assert all(torch.equal(value, expected[name]) for name, value in found.items())


def trainer_of(*arguments) -> Trainer:
    """Make fairseq's trainer as fairseq-train does, and its task with the training set."""
    cfg = training_options(arguments)
    utils.set_torch_seed(cfg.common.seed)
    task = tasks.setup_task(cfg.task)
    model, criterion = task.build_model(cfg.model), task.build_criterion(cfg.criterion)
    task.load_dataset("train")
    trainer = Trainer(cfg, task, model, criterion)
    trainer.begin_epoch(1)
    return trainer


def test_two_processes_train_on_the_current_sentences(tmp_path):
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
    output = run_alone("train", DATA, *line, "--distributed-world-size=2")
    logged = [json.loads(one) for one in re.findall(r"train_inner \| (\{.*\})", output)]
    trainer = trainer_of(DATA, *line)
    task = trainer.task
    shares = [
        list(task.get_batch_iterator(
            task.dataset("train"), max_tokens=100, required_batch_size_multiple=8, num_shards=2,
            shard_id=rank,
            disable_iterator_cache=True,
        ).next_epoch_itr(shuffle=True))
        for rank in range(2)
    ]  # fmt: skip
    first, second = (
        {int(one) for batch in share for one in batch.get("id", ())} for share in shares
    )
    assert not first & second and len(first | second) == len(task.dataset("train"))
    for told, batches in zip(logged, zip(*shares, strict=True), strict=False):
        current = [counted(batch)["ntokens"] for batch in batches]
        assert float(told["wpb"]) == sum(current)
        assert float(told["bsz"]) == sum(len(batch["id"]) for batch in batches)
        trainer.train_step(list(batches))
    assert len(logged) == trainer.get_num_updates() == 3
    found, expected = parameters(tmp_path), trainer.model.state_dict()
    for name, value in expected.items():
        assert relative_error(found[name], value) < 1e-5, name


def test_hydra(copy_corpus, tmp_path, monkeypatch):
    """The named size and its exceptions arrive."""
    monkeypatch.chdir(tmp_path)
    status, output = run_here(
        "fairseq_cli.hydra_train", f"common.user_dir={USER_DIR}",
        "common.cpu=true", "common.log_format=simple", "common.log_interval=1",
        "+task._name=translation_doc", f"+task.data={copy_corpus / 'bin'}", "+task.source_lang=en",
        "+task.target_lang=de", "+task.doc_mode=partial", "+model._name=gtransformer_mini",
        "+model.share_all_embeddings=true", "+model.encoder_ctxlayers=1", "+model.dropout=0",
        "criterion=label_smoothed_cross_entropy", "optimizer=adam", "lr_scheduler=inverse_sqrt",
        "optimization.lr=[0.001]", "optimization.max_update=3", "dataset.max_tokens=200",
        f"hydra.run.dir={tmp_path}", f"checkpoint.save_dir={tmp_path}",
        "checkpoint.no_epoch_checkpoints=true",
    )  # fmt: skip
    assert status == 0 and list(losses(output)) == [1, 2, 3], output[-3000:]
    state = parameters(tmp_path)
    assert state["encoder.layers.2.fc1.weight"].shape == (512, 128)
    assert "encoder.layers.2.self_attn_global.q_proj.weight" in state
    assert "encoder.layers.1.self_attn_global.q_proj.weight" not in state


def test_options_of_long_trainings_together(copy_corpus, tmp_path):
    """Gradient accumulation, activation checkpointing, loader processes, word dropout, BLEU in
    validation.
    """
    output = run(
        "train", copy_corpus / "bin", *TRAINING, *SMALL, "--max-tokens=400", "--max-update=3",
        "--lr=0.001", "--warmup-updates=3", "--no-epoch-checkpoints", f"--save-dir={tmp_path}",
        "--update-freq=2",
        "--checkpoint-activations", "--num-workers=2", "--doc-noise-mask=0.3",
        "--doc-noise-epochs=2", "--eval-bleu",
        '--eval-bleu-args={"beam": 1, "max_len_b": 3}', "--best-checkpoint-metric=bleu",
        "--maximize-best-checkpoint-metric", "--dropout=0.1", "--attention-dropout=0.1",
    )  # fmt: skip
    assert list(losses(output)) == [1, 2, 3]
    valid = [line for line in output.splitlines() if "valid on 'valid' subset" in line][-1]
    assert re.search(r"\bbleu [\d.]+", valid), valid
    assert (tmp_path / "checkpoint_best.pt").is_file()
