"""Commands that use a trained model import of PyTorch and fairseq what they need, and the result is the same."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

from tests.saved_model import make_checkpoint, training_arguments
from tests.support import ROOT

TEXT = "The old dog sleeps.\nMary finds her book.\n\nThe river sleeps near a house.\n"
SLOW = ("sklearn", "scipy", "tensorboard", "sacrebleu", "matplotlib", "fairseq.trainer", "fairseq.models.wav2vec")
QUICK = "from gtransformer.quick_import import quick_import\nwith quick_import(): import gtransformer.tasks\n"
REGISTRIES = """
import fairseq.models, fairseq.tasks, fairseq.registry, json
every = {name: one["registry"] for name, one in fairseq.registry.REGISTRIES.items()}
every |= {"model": fairseq.models.MODEL_REGISTRY, "arch": fairseq.models.ARCH_MODEL_REGISTRY}
every |= {"task": fairseq.tasks.TASK_REGISTRY}
print(json.dumps({name: sorted(some) for name, some in every.items()}))
"""


def fresh(code: str, *arguments: str) -> list[str]:
    """Run code in a process that has imported nothing; return its lines."""
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", code, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


REST = "\nfrom gtransformer import compat; assert compat.import_rest() and not compat.import_rest()\n"
TRAINER = "\nfrom fairseq.trainer import Trainer; print(Trainer.train_step.patched)"


@pytest.mark.slow
def test_the_rest_can_be_imported_later(tmp_path):
    """Of a model that nobody named by an import, of all, and of the trainer with our patches."""
    light = "import gtransformer, sys; assert 'torch' not in sys.modules; "
    whole = fresh(light + "gtransformer.register()" + REGISTRIES)
    quick = fresh(QUICK + REGISTRIES + "import fairseq.models.lstm" + REGISTRIES + REST + REGISTRIES + TRAINER)
    first, second, third = map(json.loads, quick[:3])
    assert "lstm" not in first["model"] and "lstm" in second["model"] and "audio_pretraining" not in second["task"]
    assert third == json.loads(whole[0]) and "translation_doc" in third["task"]
    assert quick[3:] == ["True"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lstm", "args"])
def test_checkpoints_that_need_the_rest_are_loaded(kind, saved_model, tmp_path):
    """Of a model of fairseq's that was left out, and from before there were configurations."""
    prepared = saved_model.parent / "prepared"
    path = make_checkpoint(prepared, tmp_path / "checkpoint.pt")
    state = torch.load(path)
    if kind == "lstm":
        line = f"{prepared / 'bin'} --task translation -s en -t de --arch lstm_wiseman_iwslt_de_en".split()
        args = options.parse_args_and_arch(options.get_training_parser(), line)
        cfg = convert_namespace_to_omegaconf(args)
        weights = tasks.setup_task(cfg.task).build_model(cfg.model).state_dict()
        torch.save(state | {"cfg": OmegaConf.to_container(cfg), "model": weights}, path)
    else:
        torch.save(state | {"args": training_arguments(prepared), "cfg": None}, path)
    code = (
        QUICK
        + """
import sys
from gtransformer.tasks.trained import load_trained
model, task = load_trained(sys.argv[1], data=sys.argv[2])
print(type(model).__name__, sum(one.double().sum().item() for one in model.state_dict().values()))
"""
    )
    name, total = fresh(code, str(path), str(prepared / "bin"))[-1].split()
    weights = torch.load(path)["model"].values()
    assert name == {"lstm": "LSTMModel", "args": "GtransformerMini"}[kind]
    assert float(total) == pytest.approx(sum(one.double().sum().item() for one in weights))
