"""fairseq-train and fairseq-hydra-train with the options that training uses."""

import re
import sys

import torch

from tests.commands import SMALL, TRAINING, USER_DIR, environment, losses, only_error, run
from tests.processes import run_group

SHORT = ["--max-tokens=400", "--max-update=3", "--lr=0.001", "--warmup-updates=3", "--no-epoch-checkpoints"]


def hydra(copy_corpus, save, *overrides):
    line = [
        sys.executable, "-m", "fairseq_cli.hydra_train", f"common.user_dir={USER_DIR}", "common.cpu=true",
        "common.log_format=simple", "common.log_interval=1", "+task._name=translation_doc",
        f"+task.data={copy_corpus / 'bin'}", "+task.source_lang=en", "+task.target_lang=de",
        "+model._name=gtransformer_mini", "+model.share_all_embeddings=true",
        "criterion=label_smoothed_cross_entropy", "optimizer=adam", "lr_scheduler=inverse_sqrt",
        "optimization.lr=[0.001]", "optimization.max_update=3", "dataset.max_tokens=200", f"hydra.run.dir={save}",
        f"checkpoint.save_dir={save}", "checkpoint.no_epoch_checkpoints=true", *overrides,
    ]  # fmt: skip
    done = run_group(line, env=environment(), cwd=save.parent)
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def test_hydra_in_float32_and_bfloat16(copy_corpus, tmp_path):
    """The named size and its exceptions arrive; bfloat16 learns nearly the same."""
    options = ["+task.doc_mode=partial", "+model.encoder_ctxlayers=1", "+model.dropout=0"]
    exact = losses(hydra(copy_corpus, tmp_path / "float32", *options))
    assert list(exact) == [1, 2, 3]
    state = torch.load(tmp_path / "float32" / "checkpoint_last.pt")
    model = state["cfg"]["model"]
    assert (model["encoder_embed_dim"], model["encoder_layers"], model["encoder_ctxlayers"]) == (128, 3, 1)
    assert state["model"]["encoder.layers.2.fc1.weight"].shape == (512, 128)
    assert "encoder.layers.2.self_attn_global.q_proj.weight" in state["model"]
    assert "encoder.layers.1.self_attn_global.q_proj.weight" not in state["model"]

    half = losses(hydra(copy_corpus, tmp_path / "bfloat16", *options, "common.bf16=true"))
    assert exact != half
    for update, loss in exact.items():
        assert abs(half[update] - loss) < 0.02 * loss


def test_options_of_long_trainings_together(copy_corpus, tmp_path):
    """Gradient accumulation, activation checkpointing, loader processes, word dropout, BLEU in validation."""
    output = run(
        "train", copy_corpus / "bin", *TRAINING, *SMALL, *SHORT, f"--save-dir={tmp_path}", "--update-freq=2",
        "--checkpoint-activations", "--num-workers=2", "--doc-noise-mask=0.3", "--doc-noise-epochs=1", "--eval-bleu",
        '--eval-bleu-args={"beam": 1, "max_len_b": 3}', "--best-checkpoint-metric=bleu",
        "--maximize-best-checkpoint-metric", "--dropout=0.1", "--attention-dropout=0.1",
    )  # fmt: skip
    assert list(losses(output)) == [1, 2, 3]
    valid = [line for line in output.splitlines() if "valid on 'valid' subset" in line][-1]
    for name in ("s_bleu", "d_bleu", "bleu"):
        assert re.search(rf"\b{name} [\d.]+", valid), valid
    assert (tmp_path / "checkpoint_best.pt").is_file()


def test_full_mode_and_the_fused_criterion(copy_corpus, tmp_path):
    """The document Transformer; the fused criterion's losses are those of fairseq's own."""
    line = ["train", copy_corpus / "bin", *TRAINING, *SMALL, *SHORT, "--doc-mode=full", "--label-smoothing=0.1"]
    plain = losses(run(*line, f"--save-dir={tmp_path / 'plain'}"))
    fused = run(*line, f"--save-dir={tmp_path / 'fused'}", "--criterion=fused_label_smoothed_cross_entropy")
    assert losses(fused) == plain
    state = torch.load(tmp_path / "fused" / "checkpoint_last.pt")
    assert state["cfg"]["task"]["doc_mode"] == "full"
    assert not [name for name in state["model"] if "_global" in name]


def test_impossible_settings_are_explained_in_one_line(copy_corpus, tmp_path):
    line = ["train", copy_corpus / "bin", *TRAINING, *SMALL, *SHORT, f"--save-dir={tmp_path}"]
    message = only_error(run(*line, "--encoder-ctxlayers=3", status=1))
    assert message == "--encoder-ctxlayers 3 is not between 0 and the 2 layers there are"
