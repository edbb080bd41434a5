"""Small models of fairseq's own classes, for what is initialised from them."""

from __future__ import annotations

from argparse import Namespace

import torch
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.bart import BARTModel
from fairseq.models.transformer import TransformerModel

SIZES = {
    f"{side}_{key}": value
    for side in ("encoder", "decoder")
    for key, value in {
        "embed_dim": 16,
        "ffn_embed_dim": 24,
        "layers": 3,
        "attention_heads": 2,
    }.items()
}


def settings(arch: str, **options) -> Namespace:
    """The options of a fairseq model of 16 dimensions and 3 + 3 layers, as its training would have
    stored them.
    """
    args = Namespace(arch=arch, _name=arch, task="translation", dropout=0.0, **{**SIZES, **options})
    ARCH_CONFIG_REGISTRY[arch](args)
    return args


def build(dictionary, arch: str = "transformer", seed: int = 1, target=None, **options):
    """Such a model in evaluation mode, with random weights drawn wide; ``target``: another
    dictionary than source's.
    """
    torch.manual_seed(seed)
    task = Namespace(source_dictionary=dictionary, target_dictionary=target or dictionary)
    model = (BARTModel if "bart" in arch else TransformerModel).build_model(
        settings(arch, **options), task
    )
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
            elif "bart" in arch:
                parameter.mul_(8.0)  # BERT's initialisation is narrow: attention would be uniform
        model.encoder.embed_tokens.weight[dictionary.pad()].zero_()
    return model.eval()


def checkpoint(state: dict, args: Namespace) -> dict:
    """What fairseq's training saves, as far as loading reads it; ``state``: of the model."""
    history = [{"criterion_name": "LabelSmoothedCrossEntropyCriterion",
    "optimizer_name": "FairseqAdam",
                "lr_scheduler_state": {"best": None}, "num_updates": 7}]  # fmt: skip
    return {
        "args": args, "model": state, "optimizer_history": history,
        "last_optimizer_state": None,
        "extra_state": {"train_iterator": {"epoch": 3, "iterations_in_epoch": 0}, "val_loss": 1.5},
    }  # fmt: skip
