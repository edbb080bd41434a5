"""Training in several processes: on CPUs as on GPUs."""

from __future__ import annotations

import os
import socket


def mend() -> None:
    """Let a training in several processes run on CPUs as on GPUs, whoever starts them.

    fairseq asks how many GPUs there are at every turn: torchrun fails where there is none, and where a machine has one,
    each process trains by itself, since fairseq takes part in nothing of world size 1; its own launcher starts no
    process on a CPU; its PyTorch wrapper wants the number of a GPU.
    """
    from fairseq.distributed import utils
    from fairseq.models import distributed_fairseq_model
    from torch.nn.parallel import DistributedDataParallel

    if utils.call_main is not _call_main:
        _call_main.fairseqs, utils.call_main = utils.call_main, _call_main

    def wrapped(module, device_ids, output_device, **options):
        if next(module.parameters()).device.type == "cpu":
            device_ids = output_device = None
        return DistributedDataParallel(module, device_ids=device_ids, output_device=output_device, **options)

    distributed_fairseq_model.DistributedDataParallel = wrapped


def _call_main(cfg, main, **options):
    """fairseq's ``call_main``, but that processes of torchrun find each other, and those on CPUs are started."""
    import torch

    group, on_cpu = cfg.distributed_training, cfg.common.cpu or not torch.cuda.is_available()
    if group.distributed_init_method is None and _by_torchrun():
        group.distributed_init_method = "env://"
        group.distributed_world_size, group.distributed_rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
        group.device_id = int(os.environ.get("LOCAL_RANK", group.distributed_rank)) % max(1, torch.cuda.device_count())
        group.distributed_no_spawn = True
    if on_cpu and group.distributed_world_size > 1:
        group.distributed_backend = "gloo"
        slurm = int(os.environ.get("SLURM_NTASKS", 1)) > 1  # which has started them; fairseq asks it where they meet
        if group.distributed_init_method is None and not group.distributed_no_spawn and not slurm:
            port = group.distributed_port if group.distributed_port > 0 else free_port()
            group.distributed_init_method = f"tcp://localhost:{port}"
            torch.multiprocessing.spawn(_one_of_several, (cfg, main, options), nprocs=group.distributed_world_size)
            return
        group.distributed_no_spawn = True  # who names the meeting point starts each process
    _call_main.fairseqs(cfg, main, **options)


def free_port() -> int:
    """Return a port that no program uses; one drawn blindly may be taken, which ends the training."""
    with socket.socket() as one:
        one.bind(("", 0))
        return one.getsockname()[1]


def _by_torchrun() -> bool:
    """Whether this is one of several processes that torchrun, or a program that sets what it sets, has started."""
    wanted = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")
    return all(name in os.environ for name in wanted) and os.environ["WORLD_SIZE"] != "1"


def _one_of_several(number: int, cfg, main, options: dict) -> None:
    """One process of those that ``_call_main`` starts on a CPU."""
    group = cfg.distributed_training
    group.distributed_rank, group.distributed_no_spawn = number, True
    _call_main.fairseqs(cfg, main, **options)
