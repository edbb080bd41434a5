"""Golden files: what every system computes, written once and compared on every commit.

    python tests/golden/make.py OUT [SYSTEM ...]     # compute, one OUT/SYSTEM.npz each

Everything goes through fairseq's own interface (its parsers, task, models and training), so that
the script runs at any commit of the package. Weights come from their names, not from the order in
which a model makes them.
"""

from __future__ import annotations

import contextlib
import io
import random
import sys
import tempfile
import zlib
from argparse import Namespace
from pathlib import Path
from unittest import mock

import fairseq
import numpy as np
import torch
from fairseq import options, tasks
from fairseq.data.iterators import EpochBatchIterator
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli import generate, preprocess, train

import gtransformer

UPDATES = 6
# Adam's epsilon is large, so that gradients that are zero but for rounding do not become steps of
# full size.
SMALL = (
    "--dropout=0 --share-all-embeddings --optimizer=adam --adam-eps=1e-3 --lr=0.01 --max-tokens=80"
).split()
SMALL += ["--label-smoothing=0.1"]
for side in ("encoder", "decoder"):
    SMALL += [
        f"--{side}-embed-dim=8",
        f"--{side}-ffn-embed-dim=12",
        f"--{side}-layers=2",
        f"--{side}-attention-heads=2",
    ]
TOP = "--encoder-ctxlayers=1 --decoder-ctxlayers=1 --cross-ctxlayers=1".split()
SINGLE = "--instances=disjoint --context-sentences=0".split()
CURRENT = "--instances=current --context-sentences=2".split()
PSEUDO = (
    "--instances=sliding --context-sentences=2 --context-loss=off --batch-order=document".split()
)


def gtransformer_options(*more: str) -> list[str]:
    """Return the options of a G-Transformer with one layer of global attention on each side."""
    return ["--arch=gtransformer_mini", "--doc-mode=partial", *TOP, *more]


# Of the systems that tests/core/models/test_numpy.py knows those that are trained in a way of their
# own; and all that it does not know.
SYSTEMS = {
    "gtransformer": gtransformer_options(),
    "gtransformer_greedy": gtransformer_options("--instances=greedy", "--instance-tokens=20"),
    "gtransformer_word_dropout": gtransformer_options(
        "--doc-noise-mask=0.3", "--doc-noise-epochs=30"
    ),
    "gtransformer_fused": gtransformer_options(
        "--criterion=fused_label_smoothed_cross_entropy", "--optimizer=fused_adam"
    ),
    "sentences": ["--arch=doc_transformer_mini", "--doc-mode=full", *SINGLE],
    "document_transformer": ["--arch=document_transformer_mini", "--doc-mode=full", *CURRENT],
    "docflat_c": ["--arch=docflat_mini", "--doc-mode=full", "--context-gate=continuous", *PSEUDO],
    "docflat_d": ["--arch=docflat_mini", "--doc-mode=full", "--context-gate=discrete", *PSEUDO],
    "docflat_i": ["--arch=docflat_mini", "--doc-mode=full", "--context-gate=identity", *PSEUDO],
    "abd": ["--arch=abd_mini", "--doc-mode=full", *PSEUDO],
    "mbe": ["--arch=mbe_mini", "--doc-mode=full", *PSEUDO],
}
# Systems that continue the training of "sentences", with the options of their second step.
SECOND_STEP = {
    "gtransformer_finetuned": gtransformer_options(
        "--load-partial", "--doc-double-lr", "--lr-scale-pretrained=0.2"
    ),
    "gtransformer_copied": gtransformer_options("--load-partial-global-from-local"),
    "gtransformer_neutral": gtransformer_options(
        "--load-partial", "--neutral-gates", "--positions=sentence"
    ),
    "document_transformer_frozen": [
        *SYSTEMS["document_transformer"],
        "--load-partial",
        "--freeze-sentence-parameters",
    ],
    "docflat_finetuned": [*SYSTEMS["docflat_c"], "--load-partial"],
}
EXACT_START = "gtransformer_exact_start"
# The decoder reads the other sentences' targets, which a first pass has to translate.
READS_TARGETS = {"docflat_c", "docflat_d", "docflat_i", "docflat_finetuned"}
NAMES = [*SYSTEMS, *SECOND_STEP, EXACT_START]


def write_corpus(folder: Path) -> Path:
    """Write documents of random words, and binarise them by fairseq-preprocess; return the data
    directory.
    """
    draw = random.Random(5)
    words = [f"w{i}" for i in range(20)]
    for split, count in {"train": 24, "valid": 4, "test": 4}.items():
        lines = {"en": [], "de": []}
        for _ in range(count):
            lengths = [draw.randint(1, 6) for _ in range(draw.randint(1, 5))]
            for lang, surplus in (("en", 0), ("de", 1)):
                sentences = [
                    " ".join(draw.choices(words, k=draw.randint(1, n + surplus))) for n in lengths
                ]
                lines[lang].append(
                    " ".join(f"<s> {sentence} </s>" for sentence in sentences) + "\n"
                )
        for lang, text in lines.items():
            (folder / f"{split}.{lang}").write_text("".join(text))
    (folder / "dict.txt").write_text(
        "".join(f"{word} 1\n" for word in [*words, "[en]", "[de]", "<mask>"])
    )
    line = [
        "--task=translation_doc",
        "-s=en",
        "-t=de",
        f"--srcdict={folder / 'dict.txt'}",
        "--joined-dictionary",
    ]
    line += [f"--{name}pref={folder / name}" for name in ("train", "valid", "test")] + [
        f"--destdir={folder / 'bin'}"
    ]
    preprocess.main(options.get_preprocessing_parser().parse_args(line))
    return folder / "bin"


def configuration(data: Path, save: Path, system: list[str], *more: str):
    """Return fairseq's configuration of a training of a system."""
    line = [
        str(data),
        "--task=translation_doc",
        "-s=en",
        "-t=de",
        "--langs=en,de",
        "--cpu",
        f"--save-dir={save}",
    ]
    line += [
        "--criterion=label_smoothed_cross_entropy",
        *SMALL,
        f"--max-update={UPDATES}",
        "--num-workers=0",
    ]
    line += [
        "--disable-validation",
        "--no-progress-bar",
        "--lr-scheduler=fixed",
        "--seed=3",
        *system,
        *more,
    ]
    return convert_namespace_to_omegaconf(
        options.parse_args_and_arch(options.get_training_parser(), line)
    )


def set_weights(model: torch.nn.Module) -> None:
    """Draw every parameter in float64 from a generator seeded by its name; shared parameters by
    their first name.
    """
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            value = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            center = 1.0 if name.endswith("norm.weight") else 0.0
            parameter.copy_(center + (0.6 if parameter.dim() > 1 else 0.1) * value)


def batches(task, cfg, split: str) -> list[dict]:
    """Return the first two batches of a split."""
    task.load_dataset(split)
    iterator = task.get_batch_iterator(
        task.dataset(split), max_tokens=80, seed=3, num_workers=0, epoch=1
    )
    found = [batch for batch in iterator.next_epoch_itr(shuffle=False) if batch]
    return found[:2]


def model_values(
    data: Path, folder: Path, system: list[str], searches: bool
) -> dict[str, np.ndarray]:
    """Return logits, loss, gradients and 4-best lists of a model in float64."""
    cfg = configuration(data, folder, system)
    task = tasks.setup_task(cfg.task)
    model = task.build_model(cfg.model).double().eval()
    set_weights(model)
    criterion = task.build_criterion(cfg.criterion)
    values: dict[str, np.ndarray] = {}
    for number, sample in enumerate(batches(task, cfg, "valid")):
        sample["net_input"].pop(
            "first_sentence", None
        )  # was no input of a batch when the files were written
        values[f"logits/{number}"] = model(**sample["net_input"])[0].detach().numpy()
        loss = criterion(model, sample)[0]
        loss.backward()
        values[f"loss/{number}"] = loss.detach().numpy()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            values[f"gradient/{name}"] = parameter.grad.to_dense().numpy()
    if searches:
        generator = task.build_generator(
            [model], Namespace(beam=4, nbest=4, max_len_a=1.2, max_len_b=3)
        )
        with torch.no_grad():
            for number, sample in enumerate(batches(task, cfg, "test")):
                for place, hypotheses in enumerate(task.inference_step(generator, [model], sample)):
                    for rank, hypothesis in enumerate(hypotheses):
                        key = f"{number}.{place}.{rank}"
                        values[f"tokens/{key}"] = hypothesis["tokens"].numpy()
                        values[f"score/{key}"] = np.float64(hypothesis["score"])
    return values


def document_after_document(iterator, epoch: int, fix_batches_to_gpus: bool, shuffle: bool):
    """Return an epoch's batches in the order with which the files were written: documents mixed at
    random, the batches of each in order.
    """
    batches = list(iterator.frozen_batches)
    documents = iterator.dataset.documents[[batch[0] for batch in batches], 0]
    places = np.random.RandomState(iterator.seed + epoch).permutation(documents)
    order = np.empty(len(batches), dtype=int)
    order[np.argsort(places, kind="stable")] = np.argsort(documents, kind="stable")
    return [batches[number] for number in order]


def trained_values(
    data: Path, folder: Path, system: list[str], *more: str
) -> dict[str, np.ndarray]:
    """Return the parameters after six updates of fairseq-train, which are in float32."""
    by_document = "--batch-order=document" in system
    order = document_after_document if by_document else EpochBatchIterator.ordered_batches
    with mock.patch.object(EpochBatchIterator, "ordered_batches", order):
        train.main(configuration(data, folder, system, *more))
    state = torch.load(folder / "checkpoint_last.pt", weights_only=True)["model"]
    return {
        f"updated/{name}": value.numpy()
        for name, value in state.items()
        if value.is_floating_point()
    }


def translations(data: Path, model: Path, *more: str) -> list[str]:
    """Return the translations that fairseq-generate prints."""
    line = [str(data), "--task=translation_doc", "-s=en", "-t=de", "--langs=en,de", "--cpu"]
    line += [f"--path={model}", "--doc-mode=full", "--beam=2", "--max-len-a=1.2", "--max-len-b=3"]
    line += ["--gen-subset=test", *more]
    args = options.parse_args_and_arch(options.get_generation_parser(), line)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        generate.main(convert_namespace_to_omegaconf(args))
    lines = [line for line in printed.getvalue().splitlines() if line.startswith("H-")]
    words = [line.split("\t")[2].split() for line in lines]
    return [" ".join(word for word in one if word not in ("<s>", "</s>")) for one in words]


def two_pass_values(data: Path, model: Path, first_model: Path) -> dict[str, np.ndarray]:
    """Return the translations of a model that reads those of a first pass."""
    first = model.parent / "first"
    translations(data, first_model, *SINGLE, "--sentence-rule=on", f"--gen-output={first}")
    pseudo = ["--instances=sliding", "--context-sentences=2", "--batch-order=document"]
    found = translations(data, model, *pseudo, "--batch-sentences=3", f"--first-pass={first}.jsonl")
    return {"two_passes": np.array(found)}


def compute(name: str, data: Path, work: Path) -> dict[str, np.ndarray]:
    """Return all values of a system; the training of "sentences" is done when another system starts
    from it.
    """
    folder = work / name
    if name in SYSTEMS:
        values = model_values(data, folder, SYSTEMS[name], name not in READS_TARGETS)
        values |= trained_values(data, folder, SYSTEMS[name])
    else:
        start = work / "sentences" / "checkpoint_last.pt"
        if not start.exists():
            trained_values(data, start.parent, SYSTEMS["sentences"])
        if name == EXACT_START:
            values = trained_values(
                data,
                folder,
                gtransformer_options(f"--sentence-model={start}", "--positions=sentence"),
            )
        else:
            values = trained_values(
                data, folder, SECOND_STEP[name], f"--finetune-from-model={start}"
            )
        if name in READS_TARGETS:
            values |= two_pass_values(data, folder / "checkpoint_last.pt", start)
    return values


def difference(old: np.ndarray, new: np.ndarray) -> float:
    """Return the largest difference over the largest magnitude; infinite for other shapes, texts or
    tokens.
    """
    if old.shape != new.shape or old.dtype.kind != new.dtype.kind:
        return float("inf")
    if np.array_equal(old, new):
        return 0.0
    if old.dtype.kind != "f":
        return float("inf")
    return float(np.abs(old - new).max() / max(np.abs(old).max(), 1e-30))


def main() -> None:
    """Run the command line above."""
    output, names = Path(sys.argv[1]), sys.argv[2:] or NAMES
    output.mkdir(parents=True, exist_ok=True)
    gtransformer.register()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as work:
        data = write_corpus(Path(work))
        for name in names:
            np.savez_compressed(output / f"{name}.npz", **compute(name, data, Path(work)))
            print(f"{name}: fairseq {fairseq.__version__}, PyTorch {torch.__version__}", flush=True)


if __name__ == "__main__":
    main()
