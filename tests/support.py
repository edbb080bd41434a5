"""What many tests need: a tiny dictionary, random documents, tiny models and a tiny task."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path

import torch
from fairseq import options as fairseq_options
from fairseq.data import Dictionary, indexed_dataset
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from omegaconf import DictConfig, OmegaConf
from sentencepiece import SentencePieceTrainer
from torch import Tensor

from gtransformer.cli.main import main
from gtransformer.models.common.config import DocumentModelConfig
from gtransformer.models.common.layer import LayerStack
from gtransformer.models.common.model import DocumentModel
from gtransformer.models.gtransformer import GTransformerConfig, GTransformerModel
from gtransformer.modules.attention import Pattern
from gtransformer.modules.packed import PackedPattern
from gtransformer.modules.ragged import Ragged
from gtransformer.modules.reach import by_document, by_sentence
from gtransformer.plugin.config import TranslationDocConfig
from gtransformer.plugin.task import TranslationDocTask
from tests.dense import DensePattern

ENGINES = {"dense": DensePattern, "packed": PackedPattern}
ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
PARITY = ROOT / "tests" / "parity"  # computed by the authors' release


def command(name: str) -> Callable[[list[str]], int]:
    """A command of this package, in this process: from its words to its exit status."""
    return lambda words: main([*name.split(), *words])


def write_lines(path: Path, lines: Iterable[str]) -> Path:
    """Write a text file, and its folder; return the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def read_jsonl(path: Path) -> list[dict]:
    """The objects of a file that has one a line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_binary(prefix: Path | str, rows: Iterable[list[int]], words: int) -> None:
    """Write rows of token indices as fairseq-preprocess does, for a dictionary of so many words."""
    builder = indexed_dataset.make_builder(f"{prefix}.bin", "mmap", vocab_size=words)
    for row in rows:
        builder.add_item(torch.tensor(row, dtype=torch.int32))
    builder.finalize(f"{prefix}.idx")


def train_pieces(path: Path, lines: Iterable[str], size: int, **options) -> Path:
    """Write a SentencePiece model of about so many pieces; return the file."""
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=size,
        hard_vocab_limit=False, minloglevel=2, **options,
    )  # fmt: skip
    path.write_bytes(model.getvalue())
    return path


def training_options(line: Iterable) -> DictConfig:
    """All options of a line of fairseq-train, which begins with the data."""
    parser = fairseq_options.get_training_parser()
    parsed = fairseq_options.parse_args_and_arch(parser, list(map(str, line)))
    return convert_namespace_to_omegaconf(parsed)


def tiny_dictionary(words: int = 12, langs: tuple[str, ...] = ("en", "de")) -> Dictionary:
    """<s> <pad> </s> <unk>, then w0, w1, ..., the language symbols and <mask>."""
    dictionary = Dictionary()
    for symbol in [*(f"w{i}" for i in range(words)), *(f"[{lang}]" for lang in langs), "<mask>"]:
        dictionary.add_symbol(symbol)
    return dictionary


def random_document(draw: random.Random, dictionary: Dictionary, lengths: list[int]) -> list[int]:
    """Token indices of ``<s> words </s>`` for every given number of words."""
    words = [i for i in range(len(dictionary)) if dictionary[i].startswith("w")]
    tokens: list[int] = []
    for length in lengths:
        tokens += [dictionary.bos(), *draw.choices(words, k=length), dictionary.eos()]
    return tokens


def random_lengths(draw: random.Random, sentences: int, most: int, fewest: int = 1) -> list[int]:
    """So many sentences of ``fewest`` to ``most`` words."""
    return [draw.randint(fewest, most) for _ in range(sentences)]


def pad_batch(documents: list[list[int]], pad: int, left: bool, extra: int = 0) -> Tensor:
    """(batch, longest + extra) int64, padded on the left or on the right."""
    width = max(map(len, documents)) + extra
    rows = []
    for tokens in documents:
        padding = [pad] * (width - len(tokens))
        rows.append(padding + tokens if left else tokens + padding)
    return torch.tensor(rows)


def tiny_config(**options) -> GTransformerConfig:
    """A model of 16 dimensions, 3 + 3 layers, 2/2/2 of them combined, no dropout, joined
    embeddings.
    """
    defaults = {
        "dropout": 0.0,
        "share_all_embeddings": True,
        "doc_mode": "partial",
        "max_source_positions": 1_000_000,
        "max_target_positions": 1_000_000,
    }
    for side in ("encoder", "decoder"):
        defaults |= {f"{side}_embed_dim": 16, f"{side}_ffn_embed_dim": 24, f"{side}_layers": 3}
        defaults |= {f"{side}_attention_heads": 2}
    return GTransformerConfig(**{**defaults, **options})


def tiny_sizes() -> dict:
    """What of ``tiny_config`` is an option of every system."""
    shared = {field.name for field in fields(DocumentModelConfig)}
    return {key: value for key, value in vars(tiny_config()).items() if key in shared}


def model_options(system: str = "gtransformer", **options) -> DictConfig:
    """The options of a tiny model as fairseq has them."""
    given = vars(tiny_config()) if system == "gtransformer" else tiny_sizes()
    kind = MODEL_DATACLASS_REGISTRY[system]
    return OmegaConf.structured(kind(_name=system, **{**given, **options}))


def tiny_model(dictionary: Dictionary, seed: int = 1, **options) -> GTransformerModel:
    """A model in evaluation mode whose weights are drawn wide, so that attention is far from
    uniform.
    """
    torch.manual_seed(seed)
    model = GTransformerModel.build(tiny_config(**options), dictionary, dictionary)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
            elif parameter.any():
                parameter.mul_(2.0)
            else:  # what a model learns to use
                torch.nn.init.normal_(parameter, std=0.5)
        model.encoder.embed_tokens.weight[dictionary.pad()].zero_()
    return model.eval()


def trainable(model: DocumentModel) -> DocumentModel:
    """The same model with what fairseq's training calls."""
    model.__class__ = MODEL_REGISTRY[model.system]
    return model


def drawn(
    dictionary: Dictionary,
    kind: type[DocumentModel],
    config: type = DocumentModelConfig,
    seed: int = 1,
    **options,
) -> DocumentModel:
    """A model of the sizes of ``tiny_config``, in float64 and evaluation mode, its weights drawn
    wide.
    """
    torch.manual_seed(seed)
    model = kind.build(config(**{**tiny_sizes(), **options}), dictionary, dictionary)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0) if parameter.dim() == 2 else parameter.add_(
                0.1 * torch.randn_like(parameter)
            )
    return model.double().eval()


def task_config(**options) -> TranslationDocConfig:
    """The task's options en -> de, with what fairseq's other option groups would fill in."""
    elsewhere = {"dataset_impl": None, "train_subset": "train", "doc_seed": 1}
    return TranslationDocConfig(
        **{"source_lang": "en", "target_lang": "de", **elsewhere, **options}
    )


def tiny_task(dictionary: Dictionary, **options) -> TranslationDocTask:
    """The task en -> de over a dictionary, without data; all languages of the dictionary are known
    to it.
    """
    langs = [symbol[1:-1] for symbol in dictionary.symbols if symbol.startswith("[")]
    return TranslationDocTask(
        task_config(**{"langs": ",".join(langs), **options}), dictionary, dictionary
    )


def encoded(model: GTransformerModel, tokens: torch.Tensor) -> torch.Tensor:
    """The encoder's states (batch, length, channels) of tokens (batch, length)."""
    memory = model.encoder(tokens)["memory"][0]
    return memory.layout.pad(memory.states)


def with_engine(model: GTransformerModel, engine: str) -> GTransformerModel:
    """The same model, attending with another engine."""
    for part in model.modules():
        if isinstance(part, LayerStack):
            part.engine = ENGINES[engine]
    return model


def ragged(tags: list[list[int]], left: bool = False) -> Ragged:
    """A layout of documents given by the group tags of their tokens."""
    width = max(map(len, tags))
    real, padded = [], []
    for row in tags:
        gap = width - len(row)
        real.append(
            [False] * gap + [True] * len(row) if left else [True] * len(row) + [False] * gap
        )
        padded.append([0] * gap + row if left else row + [0] * gap)
    return Ragged(torch.tensor(real).bool(), torch.tensor(padded).long())


def make_local_or_global(
    engine: str, queries: Ragged, keys: Ragged, local: bool, causal: bool
) -> Pattern:
    """Group attention (``local``) or global attention between two layouts."""
    return ENGINES[engine]((by_sentence if local else by_document)(queries, keys, causal))


def relative_error(found: Tensor, expected: Tensor) -> float:
    """Largest error over largest magnitude."""
    found, expected = found.detach().double(), expected.detach().double()
    return float((found - expected).abs().max() / expected.abs().max().clamp(min=1e-30))


def without_limit_remarks(text: str) -> str:
    """Leave out the remarks of ``translate`` on the length limit: random models end few
    translations by themselves.
    """
    return "".join(
        line for line in text.splitlines(keepends=True) if "ended by a length limit" not in line
    )
