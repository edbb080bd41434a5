"""A tiny model directory with all its parts, made in seconds without training: its weights are
random.
"""

from __future__ import annotations

import random
from argparse import Namespace
from pathlib import Path

import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

from gtransformer.files import write_json
from gtransformer.plugin.export import export
from gtransformer.preprocess.instances import count_words, instance_line, write_dictionary
from gtransformer.preprocess.tokenisers import Moses, learn_codes, learn_truecaser
from gtransformer.translation.api import GTransformer
from gtransformer.translation.options import SearchOptions
from tests.support import write_lines

WORDS = {
    "en": (
        "the old house dog sleeps near a river and Mary finds her red book under two trees ."
    ).split(),
    "de": (
        "das alte Haus Hund schläft an einem Fluss und Maria findet ihr rotes Buch unter zwei "
        "Bäumen ."
    ).split(),
}
SIZES = (
    "--arch gtransformer_mini --encoder-embed-dim 16 --decoder-embed-dim 16 "
    "--encoder-ffn-embed-dim 24 "
    "--decoder-ffn-embed-dim 24 --encoder-layers 2 --decoder-layers 2 --encoder-attention-heads 2 "
    "--decoder-attention-heads 2 --encoder-ctxlayers 1 --decoder-ctxlayers 1 --cross-ctxlayers 1 "
    "--dropout 0"
).split()
# The source has to outweigh the previous word, or all sentences would come out alike.
SCALES = {
    "encoder_attn_local.q": 5.0, "encoder_attn_local.k": 5.0,
    "encoder_attn_global.q": 5.0, "encoder_attn_global.k": 5.0,
    "encoder_attn": 4.0, "encoder.embed_tokens": 3.0, "decoder.embed_tokens": 0.5,
}  # fmt: skip
SHORT = SearchOptions(beam=2, max_len_a=0, max_len_b=3, max_tokens=200)  # four steps a sentence
MAX_INSTANCE_TOKENS = 60


def make_prepared(folder: Path) -> Path:
    """What of a prepared corpus a model directory needs: truecasers, BPE codes, dictionary,
    manifest.
    """
    draw = random.Random(5)
    (folder / "bin").mkdir(parents=True)
    lines: dict[str, list[str]] = {}
    for lang, words in WORDS.items():
        plain = [" ".join(draw.choices(words, k=draw.randint(2, 8))) for _ in range(200)]
        tokenised, truecaser = Moses(lang).tokenise(plain), folder / f"truecase.{lang}"
        learn_truecaser(tokenised, truecaser)
        lines[lang] = Moses(lang, truecaser).truecase(tokenised)
    learn_codes([line for lang in WORDS for line in lines[lang]], folder / "bpe.codes", 60)
    for lang in WORDS:
        instances = [
            instance_line([line])
            for line in Moses(lang, codes=folder / "bpe.codes").subwords(lines[lang])
        ]
        write_lines(folder / f"instances.{lang}", instances)
    counts = count_words([folder / f"instances.{lang}" for lang in WORDS])
    for lang in WORDS:
        write_dictionary(counts, list(WORDS), folder / "bin" / f"dict.{lang}.txt")
    settings = {
        "source_lang": "en", "target_lang": "de", "langs": ["en", "de"],
        "max_instance_tokens": MAX_INSTANCE_TOKENS, "max_sentence_tokens": 1024, "max_sents": None,
        "normalise_punctuation": False,
    }  # fmt: skip
    write_json(folder / "manifest.json", {"version": 1, "settings": settings})
    return folder


def training_arguments(prepared: Path, *more: str) -> Namespace:
    """fairseq-train's arguments; ``more``: further options."""
    task = "--task translation_doc --source-lang en --target-lang de --langs en,de".split()
    line = [str(prepared / "bin"), *task, *SIZES, *more]
    return options.parse_args_and_arch(options.get_training_parser(), line)


def make_checkpoint(prepared: Path, path: Path, *more: str) -> Path:
    """A checkpoint as fairseq-train writes it, of a model whose weights are drawn wide; ``more``:
    training options.
    """
    cfg = convert_namespace_to_omegaconf(training_arguments(prepared, *more))
    torch.manual_seed(2)
    model = tasks.setup_task(cfg.task).build_model(cfg.model)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale = next((scale for part, scale in SCALES.items() if part in name), 2.0)
            parameter.copy_(
                scale * parameter
                if parameter.dim() == 2
                else parameter + torch.randn_like(parameter) / 10
            )
    path.parent.mkdir(parents=True, exist_ok=True)
    state = {
        "args": None,
        "cfg": OmegaConf.to_container(cfg),
        "model": model.state_dict(),
        "criterion": {},
        "optimizer_history": [
            {
                "criterion_name": "X",
                "optimizer_name": "Adam",
                "lr_scheduler_state": {},
                "num_updates": 1,
            }
        ],
        "task_state": {},
        "extra_state": {"epoch": 1, "train_iterator": {"epoch": 1}},
        "last_optimizer_state": {"state": {0: {"exp_avg": torch.ones(1000)}}, "param_groups": []},
    }
    torch.save(state, path)
    return path


def make_model(folder: Path, *more: str) -> Path:
    """``folder/model``, exported from ``folder/prepared`` and ``folder/checkpoint.pt``."""
    prepared = make_prepared(folder / "prepared")
    checkpoint = make_checkpoint(prepared, folder / "checkpoint.pt", *more)
    export(prepared, folder / "model", SHORT, {}, checkpoint)
    return folder / "model"


def on_cpu(folder: Path) -> GTransformer:
    """Load a model directory as a user does, but never on a GPU."""
    return GTransformer.from_pretrained(folder, device="cpu")
