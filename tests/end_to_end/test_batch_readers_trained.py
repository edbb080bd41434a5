"""Systems that read their batch: a training that was interrupted, and one in two processes."""

from __future__ import annotations

import json
import re

import pytest
import torch

from gtransformer.data.loss_mask import without_context
from tests.end_to_end.commands import run
from tests.end_to_end.test_batch_readers import DOCUMENTS, SYSTEMS
from tests.end_to_end.test_distributed import parameters, train_in_two_processes
from tests.end_to_end.test_systems import PREPARED, SMALL, TASK
from tests.unit.tasks.test_grouping import load

TRAINING = [*TASK, *DOCUMENTS, "--context-loss=off", *SMALL, "--doc-noise-mask=0.1", "--disable-validation"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_resumed_training_ends_with_the_same_weights(tmp_path, system):
    """In the middle of an epoch, with dropout and word dropout."""
    found = []
    for name, stops in (("at once", [4]), ("in two", [2, 4])):
        for updates in stops:
            options = [*TRAINING, *SYSTEMS[system], f"--save-dir={tmp_path / name}", f"--max-update={updates}"]
            run("train", PREPARED / "bin", *options)
        found.append(parameters(tmp_path / name / "checkpoint_last.pt"))
    assert found[0].keys() == found[1].keys()
    assert all(torch.equal(value, found[1][name]) for name, value in found[0].items())


def test_two_processes_train_on_the_current_sentences_of_their_own_documents(tmp_path):
    """Each update counts the current tokens of one batch of either process, and no others."""
    options = [*TRAINING, *SYSTEMS["docflat"], f"--save-dir={tmp_path}", "--max-update=3"]
    first, _ = train_in_two_processes("train", PREPARED / "bin", *options)
    logged = [json.loads(line) for line in re.findall(r"train_inner \| (\{.*\})", first)]
    task, dataset = load(instances="sliding", context_sentences=2, batch_order="document", context_loss="off")
    shares = [
        task.get_batch_iterator(
            dataset, max_tokens=100, required_batch_size_multiple=8, num_shards=2, shard_id=rank,
            disable_iterator_cache=True,
        ).next_epoch_itr(shuffle=True)
        for rank in range(2)
    ]  # fmt: skip
    for line, batches in zip(logged, zip(*shares, strict=True), strict=False):
        current = [without_context(batch, task.tgt_dict.pad())["ntokens"] for batch in batches]
        assert float(line["wpb"]) == sum(current)
        assert float(line["bsz"]) == sum(len(batch["id"]) for batch in batches)
    assert len(logged) == 3
