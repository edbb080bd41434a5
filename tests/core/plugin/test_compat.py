"""Patches of fairseq, and reading fairseq's checkpoints with PyTorch's safe loader."""

import argparse
import inspect
import signal
import subprocess
import sys
import warnings
from collections import OrderedDict

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils, nan_detector, options
from fairseq import utils as fairseq_utils
from fairseq.dataclass.configs import FairseqConfig
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import utils as distributed
from fairseq.logging import meters, metrics
from fairseq.models import distributed_fairseq_model
from fairseq.optim import AMPOptimizer
from fairseq.trainer import Trainer
from omegaconf import OmegaConf
from torch.utils._python_dispatch import TorchDispatchMode

from gtransformer.plugin import patches
from tests.core.plugin import test_optimizers
from tests.core.plugin.loaded import LEN48, built
from tests.saved_model import training_arguments
from tests.support import tiny_model


def test_what_fairseq_stores_can_be_read_safely(tmp_path, monkeypatch):
    """Until 0.9 also meters, by the names of then."""
    kinds = (meters.AverageMeter, meters.TimeMeter, meters.StopwatchMeter)
    for kind in kinds:
        monkeypatch.setattr(kind, "__module__", "fairseq.meters")
    state = {
        "args": argparse.Namespace(arch="gtransformer_base", lr=[0.0005]),
        "cfg": OmegaConf.to_container(OmegaConf.structured(FairseqConfig()), enum_to_str=True),
        "config": OmegaConf.create({"a": [1, 2.0, True, None, "x"]}),
        "best": np.float64(1.5),
        "number": np.int64(3),
        "array": np.arange(3, dtype=np.float32),
        "history": [OrderedDict(a=1)],
    }
    torch.save({**state, "meters": {kind.__name__: kind() for kind in kinds}}, tmp_path / "c.pt")
    found = torch.load(tmp_path / "c.pt")
    types = {name: type(one) for name, one in found.pop("meters").items()}
    assert types == {kind.__name__: kind for kind in kinds}
    assert found.pop("array").tolist() == state.pop("array").tolist() and found == state


class Foreign:
    """Something no checkpoint of fairseq holds."""


def test_the_loader_stays_safe(tmp_path):
    torch.save({"model": Foreign()}, tmp_path / "c.pt")
    with pytest.raises(Exception, match="Unsupported global|weights_only"):
        torch.load(tmp_path / "c.pt")


def test_hydra_is_quiet(saved_model):
    """What it has to say of fairseq would stand at the head of every log."""
    arguments = training_arguments(saved_model.parent / "prepared")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        convert_namespace_to_omegaconf(arguments)
        assert found, "hydra is quiet by itself"
        found.clear()
        patches.quiet_hydra()
        convert_namespace_to_omegaconf(arguments)
        warnings.warn("something else", stacklevel=1)
    assert [str(one.message) for one in found] == ["something else"]


@pytest.mark.slow
@pytest.mark.skipif(
    sys.version_info >= (3, 14), reason="Python no longer ends a thread within an operation"
)
def test_a_program_ends_while_batches_are_read_ahead():
    """Without the patch the process aborts, nearly always."""
    program = """
import sys, torch
from fairseq.data import iterators
if sys.argv[1:]:
    from gtransformer.plugin.patches import patch
    patch()
class Slow(torch.utils.data.Dataset):
    def __len__(self): return 1000
    def __getitem__(self, i): return torch.isin(torch.arange(200000) % 977, torch.arange(9))
next(iterators.BufferedIterator(1000, torch.utils.data.DataLoader(Slow(), batch_size=1)))
"""

    def status(*arguments: str) -> int:
        return subprocess.run(
            [sys.executable, "-c", program, *arguments], capture_output=True
        ).returncode

    assert status("patched") == 0
    assert any(status() == -signal.SIGABRT for _ in range(5))


def test_gradients_on_the_cpu_are_clipped_beside_a_gpu(monkeypatch):
    """As PyTorch clips them; fairseq moves the norm to the GPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for most in (0.0, 0.5, 100.0):
        ours, theirs = (
            [torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(2, 2))]
            for _ in range(2)
        )
        for one in (*ours, *theirs):
            one.grad = torch.arange(float(one.numel())).view_as(one)
        norm = fairseq_utils.clip_grad_norm_(ours, most)
        expected = torch.nn.utils.clip_grad_norm_(theirs, most or torch.inf)
        assert torch.equal(norm, expected)
        assert all(torch.allclose(a.grad, b.grad) for a, b in zip(ours, theirs, strict=True))


def test_fairseq_still_has_its_defects(dictionary, tmp_path, monkeypatch):
    """A patch whose line fails here is no longer needed. (The threads' stands above.)"""
    with monkeypatch.context() as patch:
        patch.setattr(AMPOptimizer, "clip_grad_norm", AMPOptimizer.clip_grad_norm.__wrapped__)
        with pytest.raises(AssertionError):
            test_optimizers.test_a_scaled_loss_trains_as_one_that_is_not(test_optimizers.amp_on_cpu)
    with monkeypatch.context() as patch:
        clip = fairseq_utils.clip_grad_norm_.__wrapped__
        patch.setattr(fairseq_utils, "clip_grad_norm_", clip)
        with pytest.raises((AssertionError, RuntimeError)):
            test_gradients_on_the_cpu_are_clipped_beside_a_gpu(patch)
    with pytest.raises(IsADirectoryError):
        checkpoint_utils.load_checkpoint_to_cpu.__wrapped__(str(tmp_path))
    with pytest.raises(KeyError):  # no task
        options.parse_args_and_arch.__wrapped__(options.get_validation_parser(), ["--path=x", "y"])
    cfg = OmegaConf.structured(FairseqConfig())
    cfg.common.cpu, cfg.distributed_training.distributed_world_size = True, 99
    with pytest.raises(AssertionError, match="available devices"):
        distributed.call_main.__wrapped__(cfg, print)
    assert "device_ids=[args.device_id]" in inspect.getsource(distributed_fairseq_model)
    tokens = torch.tensor([[dictionary.bos(), 5, dictionary.eos()]])
    model = tiny_model(dictionary)
    with pytest.raises(StopIteration), nan_detector.NanDetector(model):
        model(tokens, None, tokens)


class Reads(TorchDispatchMode):
    """Counts the values that the host reads."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def test_an_update_is_logged_without_reading_it(tmp_path):
    """On a GPU the host would wait. The norm is read, which is that of the update before."""
    model, task, cfg = built(LEN48 / "bin", tmp_path, "gtransformer_mini", "--cpu")
    trainer = Trainer(cfg, task, model, task.build_criterion(cfg.criterion))
    logs = [{"loss": torch.ones(()), "ntokens": 1, "nsentences": 1, "sample_size": 1}]
    counts = []
    for log in (Trainer._reduce_and_log_stats, Trainer._reduce_and_log_stats.__wrapped__):
        with Reads() as reads, metrics.aggregate(new_root=True):
            log(trainer, logs, 1, torch.ones(()))
        counts.append(reads.count)
    assert counts[0] == 1 < counts[1]
    assert "isfinite(grad_norm).all()" in inspect.getsource(Trainer.train_step)
