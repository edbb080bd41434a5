"""Small random sentence models as folders of Hugging Face's form, made by transformers itself."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from sentencepiece import SentencePieceProcessor
from torch import Tensor

from gtransformer.files import write_json
from gtransformer.translation.api import GTransformer
from gtransformer.translation.convert import convert
from tests.saved_model import on_cpu

TEXT = {
    "en": [
        "The old house is green and Anna sees it.",
        "We saw a new garden in Berlin!",
        "It is (so) very light.",
    ],
    "de": [
        "Das alte Haus ist grün und Anna sieht es.",
        "Wir sahen einen neuen Garten in Berlin!",
        "Es ist hell.",
    ],
}
BEFORE = ["<s>", "<pad>", "</s>", "<unk>"]
# Symbols, languages, and rows without a word.
NO_PIECE = re.compile(r"[<_>]|madeup|[a-z]{2,3}_[A-Z]")
MADE_UP = [*(f"madeup{number}" for number in range(8)), ""]  # rows without a word
SHAPE = {
    "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 24, "decoder_ffn_dim": 20, "dropout": 0.0,
    "attention_dropout": 0.0, "activation_dropout": 0.0, "max_position_embeddings": 512,
}  # fmt: skip


@dataclass
class Folder:
    """A folder, its direction, transformers' words of each row, and its model.

    ``given``: the words in front of a source and of a target sentence; ``start``: the row that
    decoding begins with.
    """

    path: Path
    pair: tuple[str, str]
    words: tuple[list[str], list[str]]
    given: tuple[list[str], list[str]]
    start: int
    model: Any

    def rows(self, side: int, words: list[str]) -> list[int]:
        return [self.words[side].index(word) for word in (*self.given[side], *words)]

    def source(self, words: list[str]) -> Tensor:
        """(1, length) int64, what transformers' encoder reads."""
        return torch.tensor([[*self.rows(0, words), self.words[0].index("</s>")]])

    @torch.no_grad()
    def logits(self, source: list[str], target: list[str]) -> Tensor:
        """(length, words) of a pair of sentences, behind the first token, those given and each
        word.
        """
        read = torch.tensor([[self.start, *self.rows(1, target)]])
        return self.model(input_ids=self.source(source), decoder_input_ids=read).logits[0]

    def texts(self, side: int) -> list[str]:
        """The words that text is cut into."""
        return [one for one in self.words[side] if one and not NO_PIECE.match(one)]


def lines_of(*langs: str) -> list[str]:
    return [line for lang in langs for line in TEXT[lang]] * 20


def pieces_of(file: Path) -> list[str]:
    """Without ``<unk>``, ``<s>`` and ``</s>``, which come first."""
    processor = SentencePieceProcessor(model_file=str(file))
    return [processor.id_to_piece(number) for number in range(3, processor.get_piece_size())]


def numbered(words: list[str]) -> dict[str, int]:
    return {word: row for row, word in enumerate(words)}


def randomise(model: Any, end: int, ends: float) -> Any:
    """Its own initialisation is narrow; and ``</s>`` gets likelier by its bias, or by that of the
    layer norm below.
    """
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name or "MBart" in type(model).__name__:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=draw))
        if ends and not hasattr(model, "final_logits_bias"):
            row = model.lm_head.weight[end]
            model.model.decoder.layer_norm.bias += ends * row / row.square().sum()
        elif ends:
            model.final_logits_bias += torch.randn(model.final_logits_bias.shape, generator=draw)
            model.final_logits_bias[0, end] = ends
    return model.eval()


def marian(
    pieces: Path, path: Path, bias: float = 2.0, languages: list[str] | None = None,
    two: bool = False, tied: bool = True, **options,
) -> Folder:  # fmt: skip
    """An OPUS-MT model; with ``two`` vocabularies and embeddings; with ``languages`` (``>>deu<<``)
    to choose from.
    """
    import transformers

    path.mkdir()
    english, german = (pieces_of(pieces / f"{lang}.model") for lang in ("en", "de"))
    joined = sorted({*english, *german})
    more = [f">>{lang}<<" for lang in languages or []]
    if two:  # transformers needs a larger target vocabulary: it has one number for padding
        target = [*german, *sorted({*english} - {*german})]
        words = tuple(["</s>", "<unk>", *one, *more, "<pad>"] for one in (english, target))
        write_json(path / "target_vocab.json", numbered(words[1]))
    else:
        words = (["</s>", "<unk>", *joined, *more, "<pad>"],) * 2
    write_json(path / "vocab.json", numbered(words[0]))
    shutil.copy(pieces / "en.model", path / "source.spm")
    shutil.copy(pieces / "de.model", path / "target.spm")
    names = {
        "source_lang": "en",
        "target_lang": "de",
        "separate_vocabs": two,
        "tokenizer_class": "MarianTokenizer",
    }
    write_json(path / "tokenizer_config.json", names)
    start = len(words[1]) - 1
    config = transformers.MarianConfig(
        vocab_size=len(words[0]), decoder_vocab_size=len(words[1]), pad_token_id=len(words[0]) - 1,
        decoder_start_token_id=start, eos_token_id=0, bos_token_id=None, forced_eos_token_id=None,
        share_encoder_decoder_embeddings=not two, tie_word_embeddings=tied,
        **{**SHAPE, "scale_embedding": True, "activation_function": "swish", **options},
    )  # fmt: skip
    torch.manual_seed(1)
    model = randomise(transformers.MarianMTModel(config), 0, bias)
    model.save_pretrained(path)
    given = ([f">>{languages[0]}<<"] if languages else [], [])
    return Folder(path, ("en", languages[0] if languages else "de"), words, given, start, model)


def many_languages(pieces: Path, path: Path, kind: str, ends: float = 0.0, **options) -> Folder:
    """M2M-100 (``m2m``), NLLB-200 (``nllb``) or mBART-50 (``mbart``), with the files of their
    tokenisers.
    """
    import transformers
    from transformers.models import m2m_100, mbart50, nllb

    path.mkdir()
    shutil.copy(pieces / "both.model", path / "sentencepiece.bpe.model")
    words = [*BEFORE, *pieces_of(pieces / "both.model")]
    if kind == "m2m":
        codes = m2m_100.tokenization_m2m_100.FAIRSEQ_LANGUAGE_CODES["m2m100"]
        languages, pair = [f"__{lang}__" for lang in codes], ("en", "de")
        write_json(path / "vocab.json", numbered(words))
        name, token, more = "M2M100", "__{}__".format, MADE_UP[:8]
    elif kind == "nllb":
        languages, pair = nllb.tokenization_nllb.FAIRSEQ_LANGUAGE_CODES, ("eng_Latn", "deu_Latn")
        name, token, more = "Nllb", str, ["<mask>", "", ""]
    else:
        languages = mbart50.tokenization_mbart50.FAIRSEQ_LANGUAGE_CODES
        pair = "en_XX", "de_DE"
        name, token, more = "MBart50", str, ["<mask>"]
    write_json(
        path / "tokenizer_config.json", {"src_lang": pair[0], "tokenizer_class": f"{name}Tokenizer"}
    )
    listed = {"eos_token": "</s>", "unk_token": "<unk>", "additional_special_tokens": languages}
    write_json(path / "special_tokens_map.json", listed)
    words = [*words, *languages, *more]
    named = transformers.MBartConfig if kind == "mbart" else transformers.M2M100Config
    config = named(
        vocab_size=len(words), decoder_start_token_id=2, forced_eos_token_id=None,
        **{**SHAPE, "scale_embedding": True,
        "activation_function": "gelu" if kind == "mbart" else "relu", **options},
    )  # fmt: skip
    torch.manual_seed(1)
    built = (
        transformers.MBartForConditionalGeneration
        if kind == "mbart"
        else transformers.M2M100ForConditionalGeneration
    )
    model = randomise(built(config), 2, ends)
    model.save_pretrained(path)
    return Folder(path, pair, (words, words), tuple([token(lang)] for lang in pair), 2, model)


def load(folder: Folder, output: Path, **search: Any) -> GTransformer:
    """Convert the folder and load the model directory."""
    convert(folder.path, output, *folder.pair, search, {})
    return on_cpu(output)
