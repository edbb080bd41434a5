"""Targets that do not count in the loss."""

import pytest
import torch

from gtransformer.data.batch_fields import CONTEXT, counted, without_context

P = 1


@pytest.mark.parametrize("left", [False, True])
def test_targets_of_the_context_are_padding(left):
    rows = [[5, 6, 7, 8, 9, 10], [11, 12, 13]]
    target = torch.tensor([row if len(row) == 6 else [P] * 3 + row if left else row + [P] * 3 for row in rows])
    sample = {"target": target, "ntokens": 9, CONTEXT: torch.tensor([4, 0]), "context_total": 4, "id": "x"}
    found = without_context(sample, P)
    assert found["target"][0].tolist() == [P, P, P, P, 9, 10]
    assert found["target"][1].equal(target[1]) and found["ntokens"] == 5 and found["id"] == "x"
    assert sample["ntokens"] == 9 and sample["target"].equal(target)  # the whole one stays for others


def test_where_all_count_nothing_is_touched():
    sample = {"target": torch.tensor([[5, 6]]), "ntokens": 2}
    assert without_context(sample, P) is sample
    assert without_context({}, P) == {}


def test_rows_that_count():
    features = torch.arange(8.0, requires_grad=True)
    rows, targets = counted(features.view(4, 2), torch.tensor([P, 5, P, 6]), P)
    assert rows.tolist() == [[2, 3], [6, 7]] and targets.tolist() == [5, 6]
    rows.sum().backward()
    assert features.grad.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
