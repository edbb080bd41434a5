"""What the package makes of the models kept in this folder, through fairseq's and its own public interfaces."""

from __future__ import annotations

import json
import math
import re
from argparse import Namespace
from pathlib import Path

import torch
from fairseq import checkpoint_utils

from gtransformer import GTransformer
from gtransformer.cli import contrastive
from tests.commands import run

HERE = Path(__file__).resolve().parent
PREPARED, MODEL = HERE / "prepared", HERE / "model"
CHECKPOINTS = {mode: HERE / f"{mode}.pt" for mode in ("partial", "full")}
SEARCH = {"beam": 5, "nbest": 3, "max_len_a": 1.2, "max_len_b": 10}
DOCUMENTS = [
    ["How are you?", "My aunt bought a watch.", "It is very old.", "", "She found it in the kitchen."],
    ["Dear Mrs Miller,", "the bank near the river was closed; it opens again on Monday."],
]
# How both models were trained, and how a training begins.
TRAINING = (
    "--task translation_doc --source-lang en --target-lang de --langs en,de --arch gtransformer_mini --cpu --seed 1 "
    "--encoder-embed-dim 16 --decoder-embed-dim 16 --encoder-ffn-embed-dim 24 --decoder-ffn-embed-dim 24 "
    "--encoder-layers 2 --decoder-layers 2 --encoder-attention-heads 2 --decoder-attention-heads 2 "
    "--encoder-ctxlayers 1 --decoder-ctxlayers 1 --cross-ctxlayers 1 --share-all-embeddings --optimizer adam "
    "--criterion fused_label_smoothed_cross_entropy --label-smoothing 0.1 --clip-norm 1 --num-workers 0 "
    "--no-progress-bar --log-format simple --log-interval 1 --no-epoch-checkpoints"
).split()


def load(mode: str):
    """The model in evaluation mode and its task with the test set, loaded as fairseq's own commands load them."""
    overrides = {"data": str(PREPARED / "bin")}
    (model,), cfg, task = checkpoint_utils.load_model_ensemble_and_task([str(CHECKPOINTS[mode])], overrides)
    task.load_dataset("test", task_cfg=cfg.task)
    return model.eval(), task


def batches(task, max_tokens: int) -> list[dict]:
    """The test set in batches, as fairseq-generate makes them."""
    options = {"max_tokens": max_tokens, "max_positions": task.max_positions(), "ignore_invalid_inputs": False}
    iterator = task.get_batch_iterator(dataset=task.dataset("test"), **options)
    return list(iterator.next_epoch_itr(shuffle=False))


def nbest(mode: str) -> list[list[dict]]:
    """By instance its three best translations: tokens, score, and the best one's scores by position (nats)."""
    model, task = load(mode)
    generator = task.build_generator([model], Namespace(**SEARCH))
    found: dict[int, list[dict]] = {}
    for sample in batches(task, 400):
        for number, hypotheses in zip(
            sample["id"].tolist(), task.inference_step(generator, [model], sample), strict=True
        ):
            best = hypotheses[: SEARCH["nbest"]]
            found[number] = [{"tokens": one["tokens"].tolist(), "score": float(one["score"])} for one in best]
            found[number][0]["positions"] = best[0]["positional_scores"].tolist()
    return [found[number] for number in sorted(found)]


def likelihoods(mode: str) -> list[list[float]]:
    """By instance the log probability of every target token, teacher-forced."""
    model, task = load(mode)
    padding = task.target_dictionary.pad()
    found: dict[int, list[float]] = {}
    for sample in batches(task, 400):
        with torch.no_grad():
            scores = model.get_normalized_probs(model(**sample["net_input"]), log_probs=True, sample=sample)
        target = sample["target"]
        scores = scores.view(*target.shape, -1).gather(2, target.unsqueeze(2)).squeeze(2)
        for number, row, kept in zip(sample["id"].tolist(), scores, target != padding, strict=True):
            found[number] = row[kept].tolist()
    return [found[number] for number in sorted(found)]


def texts() -> list[list[list[dict]]]:
    """By document and line of DOCUMENTS the exported model's translations, best first."""
    model = GTransformer.from_pretrained(MODEL, device="cpu")
    found = model.nbest(DOCUMENTS, beam=5, nbest=3)
    best = model.translate(DOCUMENTS, beam=5, nbest=3)
    assert best == [[line[0].text if line else "" for line in document] for document in found]
    return [[[{"text": one.text, "score": one.score} for one in line] for line in document] for document in found]


def generate(folder: Path) -> list[dict]:
    """What ``fairseq-generate --gen-output`` writes, by instance."""
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SEARCH.items()]
    run(
        "generate", PREPARED / "bin", f"--path={CHECKPOINTS['partial']}", *options,
        *TRAINING[: TRAINING.index("--arch")], "--cpu", "--max-tokens=400", f"--gen-output={folder / 'out'}",
    )  # fmt: skip
    return [json.loads(line) for line in (folder / "out.jsonl").read_text(encoding="utf-8").splitlines()]


def contrasts(folder: Path) -> list[dict]:
    """Log probabilities of right and wrong translations, by the command for contrastive items."""
    contrastive.main([
        str(PREPARED), f"--path={CHECKPOINTS['partial']}", f"--items={HERE / 'contrastive.json'}", "--cpu",
        f"--output={folder / 'contrastive.json'}",
    ])  # fmt: skip
    items = json.loads((folder / "contrastive.json").read_text(encoding="utf-8"))["items"]
    return [{name: item[name] for name in ("id", "correct", "wrong")} for item in items]


def losses(folder: Path) -> list[float]:
    """Losses of the first six updates of a training with dropout and word dropout, and the validation loss."""
    log = run(
        "train", PREPARED / "bin", *TRAINING, "--lr=0.003", "--lr-scheduler=fixed", "--dropout=0.1",
        "--attention-dropout=0.1", "--activation-dropout=0.1", "--doc-noise-mask=0.2", "--doc-noise-epochs=4",
        "--max-tokens=500", "--max-update=6", f"--save-dir={folder / 'save'}",
    )  # fmt: skip
    updates = re.findall(r"train_inner.*?\bloss=([\d.]+)", log)
    (*_, valid) = re.findall(r"valid on 'valid' subset.*?\bloss ([\d.]+)", log)
    found = [float(loss) for loss in (*updates, valid)]
    assert all(map(math.isfinite, found))
    return found


def observe(folder: Path) -> dict:
    """All of the above, as kept in ``expected.json``; ``folder`` for files of the commands."""
    return {
        "nbest": {mode: nbest(mode) for mode in CHECKPOINTS},
        "likelihoods": {mode: likelihoods(mode) for mode in CHECKPOINTS},
        "texts": texts(),
        "generate": generate(folder),
        "contrasts": contrasts(folder),
        "losses": losses(folder),
    }
