"""fairseq-train and fairseq-hydra-train with the options that training uses."""

import re
import sys

import torch

from tests.commands import SMALL, TRAINING, USER_DIR, environment, losses, run
from tests.processes import run_group

SHORT = [
    "--max-tokens=400",
    "--max-update=3",
    "--lr=0.001",
    "--warmup-updates=3",
    "--no-epoch-checkpoints",
]


def hydra(copy_corpus, save, *overrides):
    line = [
        sys.executable, "-m", "fairseq_cli.hydra_train", f"common.user_dir={USER_DIR}",
        "common.cpu=true",
        "common.log_format=simple", "common.log_interval=1", "+task._name=translation_doc",
        f"+task.data={copy_corpus / 'bin'}", "+task.source_lang=en", "+task.target_lang=de",
        "+model._name=gtransformer_mini", "+model.share_all_embeddings=true",
        "criterion=label_smoothed_cross_entropy", "optimizer=adam", "lr_scheduler=inverse_sqrt",
        "optimization.lr=[0.001]", "optimization.max_update=3", "dataset.max_tokens=200",
        f"hydra.run.dir={save}",
        f"checkpoint.save_dir={save}", "checkpoint.no_epoch_checkpoints=true", *overrides,
    ]  # fmt: skip
    done = run_group(line, env=environment(), cwd=save.parent)
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def test_hydra(copy_corpus, tmp_path):
    """The named size and its exceptions arrive."""
    options = ["+task.doc_mode=partial", "+model.encoder_ctxlayers=1", "+model.dropout=0"]
    assert list(losses(hydra(copy_corpus, tmp_path / "save", *options))) == [1, 2, 3]
    state = torch.load(tmp_path / "save" / "checkpoint_last.pt")
    model = state["cfg"]["model"]
    assert (model["encoder_embed_dim"], model["encoder_layers"], model["encoder_ctxlayers"]) == (
        128,
        3,
        1,
    )
    assert state["model"]["encoder.layers.2.fc1.weight"].shape == (512, 128)
    assert "encoder.layers.2.self_attn_global.q_proj.weight" in state["model"]
    assert "encoder.layers.1.self_attn_global.q_proj.weight" not in state["model"]


def test_options_of_long_trainings_together(copy_corpus, tmp_path):
    """Gradient accumulation, activation checkpointing, loader processes, word dropout, BLEU in
    validation.
    """
    output = run(
        "train", copy_corpus / "bin", *TRAINING, *SMALL, *SHORT, f"--save-dir={tmp_path}",
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
