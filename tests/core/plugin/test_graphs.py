"""The loss by CUDA graphs, whose captures are pretended: their results are always written to the
same memory.
"""

import pytest
import torch

from gtransformer.errors import UserError
from gtransformer.lab.benchmark.batches import model as random_model
from gtransformer.lab.benchmark.batches import packed_batch, vocabulary
from gtransformer.models.common import model as models
from gtransformer.models.common.compiled import packed_loss
from gtransformer.plugin import graphs
from gtransformer.plugin.graphs import GraphedLoss
from tests.core.models.test_compiled import four_batches, packer
from tests.support import tiny_model

CAPTURES = []


def pretended(compute, pool, device):
    """Captures nothing, and draws nothing: what replays computes, and writes where the results of
    the capture are.
    """
    with torch.random.fork_rng():
        losses, gradients = compute()
    results = losses, [one.clone() for one in gradients]
    CAPTURES.append(results)

    def replay():
        for own, given in zip(results, compute(), strict=True):
            torch._foreach_copy_(own, given)

    return replay, results, None


@pytest.fixture(autouse=True)
def without_compiler(request, monkeypatch):
    if "gpu" in request.keywords:
        return
    monkeypatch.setattr(models, "compiled_loss", packed_loss)
    monkeypatch.setattr(graphs, "capture", pretended)
    CAPTURES.clear()


@pytest.fixture
def training(dictionary):
    """A model with dropout, and packed batches."""
    model = tiny_model(dictionary, dropout=0.2).double().train()
    batches = four_batches(dictionary)
    pack = packer(model, batches)
    return model, [pack(*batch) for batch in batches]


def plain(model, batch, smoothing):
    return model(packed=batch, smoothing=smoothing)


def updates(model, batches, loss_of, together):
    """Losses, and the gradients after every update of so many batches, seeded as fairseq does."""
    losses, found = [], []
    for number, begin in enumerate(range(0, len(batches), together)):
        torch.manual_seed(number)
        model.zero_grad()
        for batch in batches[begin : begin + together]:
            loss, nll = loss_of(model, batch, 0.1)
            loss.backward()
            losses += [loss.detach(), nll]  # kept, as fairseq keeps what it logs
            del loss
        found.append({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
    return losses, found


@pytest.mark.parametrize("together", [1, 2, 3])
def test_losses_and_gradients_as_without(training, together):
    """Also those that are kept while later batches are computed, and sums of several batches."""
    model, batches = training
    batches = batches + batches[::-1] + batches[:1]
    loss_of = GraphedLoss()
    losses, found = updates(model, batches, loss_of, together)
    expected_losses, expected = updates(model, batches, plain, together)
    # The first two without: after the first one the table of positions is another one.
    assert len(CAPTURES) == 1 and loss_of.graph.turn == len(batches) - 2
    assert losses == expected_losses
    for own, one in zip(found, expected, strict=True):
        assert own.keys() == one.keys()
        for name in one:
            assert torch.allclose(own[name], one[name], rtol=1e-9, atol=1e-12), name


def test_gradients_are_scaled_with_the_loss_and_those_of_a_past_batch_refused(training):
    model, batches = training
    loss_of = GraphedLoss()
    updates(model, batches[:3], loss_of, 1)
    past, _ = loss_of(model, batches[0], 0.1)
    loss, _ = loss_of(model, batches[1], 0.1)
    model.zero_grad()
    (loss * 3).backward()
    found = [p.grad for p in model.parameters() if p.grad is not None]
    for own, one in zip(found, loss_of.graph.gradients, strict=True):
        assert torch.equal(own, one * 3)
    with pytest.raises(RuntimeError, match="another batch"):
        past.backward()


def test_other_shapes_or_moved_parameters_need_another_graph(training, dictionary):
    model, batches = training
    loss_of = GraphedLoss()
    updates(model, batches, loss_of, 1)
    larger = packer(model, [sum_of(four_batches(dictionary))])(*sum_of(four_batches(dictionary)))
    for changed in (lambda: larger, lambda: moved(model, batches[0])):
        batch = changed()
        loss_of(model, batch, 0.1)
        assert loss_of.graph is None
        torch.manual_seed(5)
        found, _ = loss_of(model, batch, 0.1)
        torch.manual_seed(5)
        assert found.item() == pytest.approx(plain(model, batch, 0.1)[0].item(), rel=1e-9)
    next(model.parameters()).requires_grad_(False)
    loss_of(model, batches[0], 0.1)
    assert loss_of.graph is None
    assert len(CAPTURES) == 3


def test_a_capture_that_fails_ends_the_training(training, monkeypatch):
    """fairseq leaves out a batch for lack of memory; here it would leave out all."""

    def fails(compute, pool, device):
        raise RuntimeError("CUDA out of memory")

    monkeypatch.setattr(graphs, "capture", fails)
    with pytest.raises(UserError, match="--compile on"):
        updates(*training, GraphedLoss(), 1)


def sum_of(batches):
    """One batch of all documents."""
    return [sum(side, []) for side in zip(*batches, strict=True)]


def moved(model, batch):
    """The batch, after all parameters have got other memory."""
    for parameter in model.parameters():
        parameter.data = parameter.data * 1.5
    return batch


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu():
    words = vocabulary(100)
    model = random_model(words, (64, 128, 2, 2), dropout=0.2, autocast="bfloat16").cuda()
    made = [packed_batch(3, 60, 20, words) for _ in range(8)]
    batches = [graphs.tree_map(on_gpu, batch) for batch in made]
    losses, found = updates(model, batches, GraphedLoss(), 2)
    expected_losses, expected = updates(model, batches, plain, 2)
    assert [float(one) for one in losses] == pytest.approx(list(map(float, expected_losses)), 1e-3)
    for own, one in zip(found, expected, strict=True):
        whole, other = (torch.cat([part[name].flatten() for name in one]) for part in (own, one))
        assert (whole - other).norm() < 0.01 * other.norm()  # other dropout: above 0.1


def on_gpu(one):
    return one.cuda() if isinstance(one, torch.Tensor) else one
