"""A prepared corpus without text whose BPE spells every word, and checkpoints of untrained models over it."""

from __future__ import annotations

import string
import tempfile
from functools import cache
from pathlib import Path

import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

from tests.raw_corpus import write_moses_files

LETTERS = [*string.ascii_lowercase, *"äöüß", *(chr(code) for code in range(0x430, 0x450)), *".,?!"]
DOCUMENT = ["--task=translation_doc", "--langs=en,de,ru"]
SIZES = ("--encoder-embed-dim=12", "--decoder-embed-dim=12", "--encoder-ffn-embed-dim=16", "--decoder-ffn-embed-dim=16")
SIZES += ("--encoder-layers=2", "--decoder-layers=2", "--encoder-attention-heads=2", "--decoder-attention-heads=2")
CONTEXT = ["--encoder-ctxlayers=1", "--decoder-ctxlayers=1", "--cross-ctxlayers=1"]
# Model -> fairseq's options.
MODELS = {
    "partial": [*DOCUMENT, "--arch=gtransformer_mini", "--doc-mode=partial", *CONTEXT],
    "full": [*DOCUMENT, "--arch=gtransformer_mini", "--doc-mode=full"],
    "transformer": [*DOCUMENT, "--arch=transformer"],
    "fairseq's task": ["--task=translation", "--arch=transformer"],
}


def spell(text: str) -> list[str]:
    """The symbols of a sentence of small letters."""
    return [letter + "@@" * (number < len(word) - 1) for word in text.split() for number, letter in enumerate(word)]


def write_prepared(folder: Path, source: str, target: str) -> Path:
    """What the contrastive command reads of a prepared corpus."""
    (folder / "bin").mkdir(parents=True)
    write_moses_files(folder, source, target)
    symbols = [*LETTERS, *(f"{letter}@@" for letter in LETTERS), "_eos", "[en]", "[de]", "[ru]", "<mask>"]
    for lang in (source, target):
        text = "".join(f"{symbol} 1\n" for symbol in symbols)
        (folder / "bin" / f"dict.{lang}.txt").write_text(text, encoding="utf-8")
    return folder


@cache
def _untrained(name: str, pair: tuple[str, str], symbols: str):
    """An untrained model of ``MODELS``, its dictionary, and its configuration; none is to be changed."""
    with tempfile.TemporaryDirectory() as folder:
        for lang in pair:
            (Path(folder) / f"dict.{lang}.txt").write_text(symbols, encoding="utf-8")
        arguments = [folder, f"--source-lang={pair[0]}", f"--target-lang={pair[1]}"]
        arguments += [*MODELS[name], *SIZES, "--share-all-embeddings", "--dropout=0.1"]
        parser = options.get_training_parser(default_task="translation")
        cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, arguments))
        torch.manual_seed(5)
        task = tasks.setup_task(cfg.task)
    model = task.build_model(cfg.model).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.5)
    return model, task.target_dictionary, OmegaConf.to_container(cfg)


def save_model(name: str, prepared: Path, path: Path, pair: tuple[str, str]):
    """Save an untrained model of ``MODELS`` as fairseq would; the model and its dictionary."""
    symbols = (prepared / "bin" / f"dict.{pair[0]}.txt").read_text(encoding="utf-8")  # the same on both sides
    model, dictionary, settings = _untrained(name, pair, symbols)
    history = [{"num_updates": 1, "lr_scheduler_state": {}, "optimizer_name": "Adam", "criterion_name": "X"}]
    state = {
        "args": None,
        "cfg": settings | {"task": settings["task"] | {"data": str(prepared / "bin")}},
        "model": model.state_dict(),
        "optimizer_history": history,
        "extra_state": {"train_iterator": {"epoch": 1}},
    }
    torch.save(state, path)
    return model, dictionary


def write_out(sentences: list[str]) -> tuple[list[str], list[int | None]]:
    """A document as the model reads it: symbols, and the sentence that each counts for."""
    symbols: list[str] = []
    owners: list[int | None] = []
    for number, sentence in enumerate(sentences):
        words = [*spell(sentence), "</s>"]
        symbols += ["<s>", *words]
        owners += [None, *[number] * len(words)]
    return symbols, owners


def brute_force(model, dictionary, source: list[str], target: list[str]) -> list[float]:
    """Log probability of every sentence of the target, by one plain forward pass, alone in its batch."""
    read, _ = write_out(source)
    written, owners = write_out(target)
    goal, owners, previous = written[1:], owners[1:], written[:-1]  # the decoder starts from the document's own <s>
    indices = [[dictionary.index(symbol) for symbol in side] for side in (read, goal, previous)]
    assert dictionary.unk() not in indices[0] + indices[1] + indices[2]
    with torch.no_grad():
        output = model(torch.tensor([indices[0]]), torch.tensor([len(read)]), torch.tensor([indices[2]]))
    table = torch.log_softmax(output[0][0].double(), dim=-1)
    scores = [0.0] * len(target)
    for position, (token, owner) in enumerate(zip(indices[1], owners, strict=True)):
        if owner is not None:
            scores[owner] += table[position, token].item()
    return scores
