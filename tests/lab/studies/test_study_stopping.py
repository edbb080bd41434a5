"""When the runs of the full studies validate, save and stop, by the rules of fairseq-train itself."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli import train
from omegaconf import OmegaConf

from gtransformer.lab.studies.plan import load_study
from gtransformer.run.commands import on_device, to_arguments

pytestmark = pytest.mark.slow

EPOCH = 37  # updates; 1,250 instances of 512 tokens are about as many


def settings(system: str, *changes: str) -> SimpleNamespace:
    """fairseq's configuration of a full run, as plain objects."""
    runs = load_study("figure7", changes=changes).runs()
    recipe = next(run for run in runs if run.recipe == system).settings()
    line = ["data", *to_arguments(on_device(recipe.options("task", "train"), 0))]
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), line))
    parts = ("optimization", "checkpoint", "dataset")
    return SimpleNamespace(**{part: SimpleNamespace(**OmegaConf.to_container(cfg[part])) for part in parts})


@pytest.fixture
def follow(monkeypatch):
    """A function that goes through a training without training: (updates of validations, updates of checkpoints)."""
    forget = vars(train.should_stop_early).clear
    forget()

    def follower(cfg, loss=lambda update: 1.0) -> tuple[list[int], list[int]]:
        validated, saved, updates = [], [], 0
        # An update takes ten seconds.
        trainer = SimpleNamespace(get_num_updates=lambda: updates, cumulative_training_time=lambda: 10.0 * updates)
        monkeypatch.setattr(train, "validate", lambda *_: (validated.append(updates), [loss(updates)])[1])
        monkeypatch.setattr(train.checkpoint_utils, "save_checkpoint", lambda *_: saved.append(updates))
        stop = False
        while not stop and updates < 30_000:
            updates += 1
            epoch = SimpleNamespace(epoch=-(-updates // EPOCH))
            _, stop = train.validate_and_save(cfg, trainer, None, epoch, ["valid"], updates % EPOCH == 0)
        return validated, saved

    yield follower
    forget()


@pytest.mark.parametrize("system", ["doc_base", "base"])
def test_patience_is_counted_in_updates_whatever_the_data_scale(follow, system):
    """Better and better until update 6000: 20 validations later, 10,000 updates, training stops."""
    cfg = settings(system)
    validated, saved = follow(cfg, lambda update: max(1.0, 7.0 - update / 1000))
    assert validated == list(range(500, 16001, 500)), "no validation at the ends of epochs"
    assert saved == validated


def test_a_limited_training_validates_and_saves_at_its_end(follow):
    assert follow(settings("base", "train.max-update=730")) == ([500, 730],) * 2
    assert follow(settings("base", "train.stop-time-hours=1")) == ([361],) * 2
