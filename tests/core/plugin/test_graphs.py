"""The loss by CUDA graphs, whose captures are pretended: their results are always written to the
same memory.
"""

import pytest
import torch

from gtransformer.lab.benchmark.batches import model as random_model
from gtransformer.lab.benchmark.batches import packed_batch, vocabulary
from gtransformer.models.common import model as models
from gtransformer.models.common.compiled import packed_loss
from gtransformer.plugin import graphs
from gtransformer.plugin.graphs import BEFORE, GraphedLoss
from tests.core.models.test_compiled import four_batches, packer
from tests.support import tiny_model

CAPTURES = []


def pretended(compute, pool):
    """Captures nothing: what replays computes again, and writes where the first results are."""
    results = [[one.clone() for one in part] for part in computed(compute)]
    CAPTURES.append(results)

    def replay():
        for own, given in zip(results, computed(compute), strict=True):
            torch._foreach_copy_(own, given)

    return replay, results, None


def computed(compute):
    losses, gradients = compute()
    assert None not in gradients
    return losses, gradients


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
        found.append({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
    return losses, found


@pytest.mark.parametrize("together", [1, 2, 3])
def test_losses_and_gradients_as_without(training, together):
    """Also those that are kept while later batches are computed, and sums of several batches."""
    model, batches = training
    batches = batches + batches[::-1] + batches[:1]
    loss_of = GraphedLoss()
    losses, found = updates(model, batches, loss_of, together)
    # The first captured batch begins with its update's seed: its dropout is not that of the third
    # batch of an update.
    first = BEFORE // together * together
    expected_losses, expected = updates(model, batches, plain, together)
    assert len(CAPTURES) == 1 and loss_of.graph.turn == len(batches) - BEFORE + 1
    if BEFORE % together == 0:
        assert losses == expected_losses
    for number, (own, one) in enumerate(zip(found, expected, strict=True)):
        if BEFORE % together == 0 or number * together != first:
            assert own.keys() == one.keys()
            for name in one:
                assert torch.allclose(own[name], one[name], rtol=1e-9, atol=1e-12), name


def test_gradients_are_scaled_with_the_loss_and_those_of_a_past_batch_refused(training):
    model, batches = training
    loss_of = GraphedLoss()
    updates(model, batches[:BEFORE], loss_of, 1)
    torch.manual_seed(1)
    past, _ = loss_of(model, batches[0], 0.1)
    loss, _ = loss_of(model, batches[1], 0.1)
    model.zero_grad()
    (loss * 3).backward()
    found = [p.grad for p in model.parameters() if p.grad is not None]
    for own, one in zip(found, loss_of.graph.gradients, strict=True):
        assert torch.equal(own, one * 3)
    with pytest.raises(RuntimeError, match="another batch"):
        past.backward()


def test_another_form_or_moved_parameters_need_another_graph(training, dictionary):
    model, batches = training
    loss_of = GraphedLoss()
    updates(model, batches, loss_of, 1)
    larger = packer(model, [sum_of(four_batches(dictionary))])(*sum_of(four_batches(dictionary)))
    for changed in (lambda: larger, lambda: moved(model, batches[0])):
        graph, batch = loss_of.graph, changed()
        for _ in range(BEFORE):
            found, _ = loss_of(model, batch, 0.1)
            assert loss_of.graph is None
        torch.manual_seed(5)
        found, _ = loss_of(model, batch, 0.1)
        assert loss_of.graph is not graph
        torch.manual_seed(5)
        assert found.item() == pytest.approx(plain(model, batch, 0.1)[0].item(), rel=1e-9)
    assert len(CAPTURES) == 3


def sum_of(batches):
    """One batch of all documents."""
    return [sum(side, []) for side in zip(*batches, strict=True)]


def moved(model, batch):
    """The batch, after all parameters have got other memory."""
    for parameter in model.parameters():
        parameter.data = parameter.data * 1.5
    return batch


@pytest.mark.parametrize("of_layer", [True, False])
def test_hooks_are_called(training, caplog, of_layer):
    model, batches = training
    loss_of = GraphedLoss()
    updates(model, batches, loss_of, 1)
    called = []
    owner, kind = (
        (model.decoder.layers[0], "forward_hook")
        if of_layer
        else (next(model.parameters()), "hook")
    )
    getattr(owner, f"register_{kind}")(lambda *_: called.append(1))
    updates(model, batches, loss_of, 1)
    assert len(called) >= len(batches) and "have hooks" in caplog.text and not loss_of.works


@pytest.mark.parametrize("flaw", ["fails", "stale", "other dropout", "another loss"])
def test_a_graph_that_cannot_be_captured_or_is_wrong(training, monkeypatch, caplog, flaw):
    def flawed(compute, pool):
        if flaw == "fails":
            raise RuntimeError("operation not permitted when stream is capturing")
        replay, results, _ = pretended(compute, pool)
        if flaw == "stale":
            results[1][-1].zero_()
            return (lambda: None), results, None
        if flaw == "another loss":
            return (lambda: (replay(), results[0][1].mul_(1.1))), results, None
        return (lambda: (torch.rand(1), replay())), results, None

    monkeypatch.setattr(graphs, "capture", flawed)
    model, batches = training
    loss_of = GraphedLoss()
    losses, _ = updates(model, batches, loss_of, 1)
    assert not loss_of.works and loss_of.graph is None
    assert "without CUDA graphs" in caplog.text
    assert losses == updates(model, batches, plain, 1)[0]


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("fails", [False, True])
def test_on_a_gpu(monkeypatch, caplog, fails):
    """Also after a capture that fails because the host reads a value."""
    caplog.set_level("INFO")
    words = vocabulary(100)
    model = random_model(words, (64, 128, 2, 2), dropout=0.2, autocast="bfloat16").cuda()
    made = [packed_batch(3, 60, 20, words) for _ in range(8)]
    batches = [graphs.tree_map(on_gpu, batch) for batch in made]
    if fails:
        reading = lambda compute: (compute(), torch.ones(1, device="cuda").item())  # noqa: E731
        own = graphs.capture
        monkeypatch.setattr(
            graphs, "capture", lambda compute, pool: own(lambda: reading(compute), pool)
        )
    loss_of = GraphedLoss()
    losses, found = updates(model, batches, loss_of, 2)
    assert loss_of.works != fails, caplog.text
    expected_losses, expected = updates(model, batches, plain, 2)
    assert [float(one) for one in losses] == pytest.approx(list(map(float, expected_losses)), 1e-3)
    for own, one in zip(found, expected, strict=True):
        assert graphs._deviation([own[name] for name in one], list(one.values())) < 0.01


def on_gpu(one):
    return one.cuda() if isinstance(one, torch.Tensor) else one
