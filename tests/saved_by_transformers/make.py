"""Small random models as a version of transformers saves them, with its pieces and log
probabilities.

``python make.py OUT.tar.xz`` with transformers 4.33.3 or 4.46.3 (PyTorch, sentencepiece) wrote the
archives in this folder. The tests call ``make`` with the version that is installed.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

TEXT = {
    "en": ['The "old" house is green - and Anna\'s.', "We saw a new garden in Berlin!"],
    "de": ["Das alte Haus ist grün und Anna sieht es.", "Wir sahen einen Garten in Berlin!"],
}
# Also with signs that no piece has, and blanks.
PAIRS = [
    ("Anna sees the old house.", "Anna sieht das alte Haus."),
    ("  A new  garden ☃ in Berlin☃☃!", "Ein Garten: ☃ grün"),
    ("It", "Es"),
]
SIZES = {
    "d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 12, "decoder_ffn_dim": 12,
    "max_position_embeddings": 64, "dropout": 0.0,
}  # fmt: skip
BEFORE = ["<s>", "<pad>", "</s>", "<unk>"]
NAMES = "opus", "opus_many", "m2m", "nllb_fast", "nllb_new", "mbart", "mbart_fast"
NEW = "tyv_Cyrl"  # a language that NLLB-200 does not have


def train_pieces(path: Path, langs: str, model_type: str) -> list[str]:
    """Train a SentencePiece model; return its pieces without ``<unk>``, ``<s>``, ``</s>``."""
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter([line for lang in langs.split() for line in TEXT[lang]] * 20),
        model_writer=model, vocab_size=60, hard_vocab_limit=False, model_type=model_type,
        normalization_rule_name="identity", minloglevel=2,
    )  # fmt: skip
    path.write_bytes(model.getvalue())
    read = SentencePieceProcessor(model_file=str(path))
    return [read.id_to_piece(number) for number in range(3, read.get_piece_size())]


def write_rows(path: Path, words: list[str]) -> None:
    """Write ``{word: row}``."""
    path.write_text(json.dumps({word: row for row, word in enumerate(words)}), encoding="utf-8")


def opus_tokeniser(folder: Path, languages: list[str]) -> Any:
    """OPUS-MT; with ``languages`` to translate into."""
    words = train_pieces(folder / "source.spm", "en", "unigram")
    words += train_pieces(folder / "target.spm", "de", "unigram")
    more = [f">>{lang}<<" for lang in languages]
    write_rows(folder / "vocab.json", ["</s>", "<unk>", *sorted({*words}), *more, "<pad>"])
    files = (str(folder / name) for name in ("source.spm", "target.spm", "vocab.json"))
    return transformers.MarianTokenizer(*files, source_lang="en", target_lang="de")


def m2m_tokeniser(folder: Path) -> Any:
    """M2M-100."""
    pieces = train_pieces(folder / "sentencepiece.bpe.model", "en de", "bpe")
    write_rows(folder / "vocab.json", [*BEFORE, *sorted(pieces)])
    files = str(folder / "vocab.json"), str(folder / "sentencepiece.bpe.model")
    return transformers.M2M100Tokenizer(*files, src_lang="en", tgt_lang="de")


def nllb_tokeniser(folder: Path, fast: bool, new: bool) -> Any:
    """NLLB-200; perhaps with a language more."""
    from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES

    train_pieces(folder / "sentencepiece.bpe.model", "en de", "bpe")
    kind = transformers.NllbTokenizer
    options = {"src_lang": "eng_Latn", "tgt_lang": NEW if new else "deu_Latn"}
    if transformers.__version__ >= "5":  # reads no languages from SentencePiece's model alone
        options["extra_special_tokens"] = FAIRSEQ_LANGUAGE_CODES
    elif fast:
        kind = transformers.NllbTokenizerFast
    made = kind.from_pretrained(folder, **options)
    if new:
        made.add_tokens([NEW], special_tokens=True)
        made.tgt_lang = NEW
        if transformers.__version__ < "4.34":  # as its users do
            made.lang_code_to_id[NEW] = made.convert_tokens_to_ids(NEW)
    return made


def mbart_tokeniser(folder: Path, fast: bool) -> Any:
    """mBART-50."""
    train_pieces(folder / "sentencepiece.bpe.model", "en de", "unigram")
    kind = transformers.MBart50TokenizerFast if fast else transformers.MBart50Tokenizer
    return kind.from_pretrained(folder, src_lang="en_XX", tgt_lang="de_DE")


def random_model(kind: str, tokeniser: Any) -> Any:
    """A model with random parameters, with rows for all words and some more."""
    rows = max({**tokeniser.get_vocab(), **getattr(tokeniser, "lang_token_to_id", {})}.values())
    options = {**SIZES, "vocab_size": rows + 3, "scale_embedding": True}
    if kind == "marian":
        pad = tokeniser.pad_token_id
        config = transformers.MarianConfig(
            **options, pad_token_id=pad, decoder_start_token_id=pad, eos_token_id=0,
            bos_token_id=None, forced_eos_token_id=0, activation_function="swish",
        )  # fmt: skip
        model = transformers.MarianMTModel(config)
    elif kind == "mbart":
        config = transformers.MBartConfig(
            **options, decoder_start_token_id=2, activation_function="gelu"
        )
        model = transformers.MBartForConditionalGeneration(config)
    else:
        config = transformers.M2M100Config(**options, activation_function="relu")
        model = transformers.M2M100ForConditionalGeneration(config)
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name or kind == "mbart":
                parameter.add_(0.5 * torch.randn(parameter.shape, generator=draw))
        if kind == "marian":
            bias = model.final_logits_bias
            bias.add_(torch.randn(bias.shape, generator=draw))
    return model.eval()


@torch.no_grad()
def expected(model: Any, tokeniser: Any) -> list[dict[str, Any]]:
    """The library's pieces of sentence pairs, and the log probabilities of the target's."""
    found = []
    for source, target in PAIRS:
        prefix = ">>deu<< " if ">>deu<<" in tokeniser.get_vocab() else ""
        read = tokeniser(prefix + source).input_ids
        labels = tokeniser(text_target=target).input_ids
        first = [model.config.decoder_start_token_id]
        logits = model(
            input_ids=torch.tensor([read]), decoder_input_ids=torch.tensor([first + labels[:-1]])
        ).logits[0]
        scores = logits.log_softmax(dim=1)[range(len(labels)), labels]
        words = [tokeniser.convert_ids_to_tokens(ids) for ids in (read, labels)]
        pair = {"source": source, "target": target, "source_pieces": words[0]}
        found.append(pair | {"target_pieces": words[1], "scores": scores.tolist()})
    return found


def save(folder: Path, kind: str, tokeniser: Any, pair: tuple[str, str]) -> None:
    """Write a folder as ``save_pretrained`` does, and beside it ``NAME.json``."""
    model = random_model(kind, tokeniser)
    content = {"pair": pair, "pairs": expected(model, tokeniser)}
    shutil.rmtree(folder)
    model.save_pretrained(folder)
    tokeniser.save_pretrained(folder)
    text = json.dumps(content, ensure_ascii=False, indent=1)
    folder.with_suffix(".json").write_text(text, encoding="utf-8")


def make(output: Path) -> None:
    """Write all folders into ``output``."""
    folders = {}
    for name in NAMES:
        folders[name] = output / name
        folders[name].mkdir(parents=True)
    nllb, mbart = ("eng_Latn", "deu_Latn"), ("en_XX", "de_DE")
    save(folders["opus"], "marian", opus_tokeniser(folders["opus"], []), ("en", "de"))
    tokeniser = opus_tokeniser(folders["opus_many"], ["deu", "nld"])
    save(folders["opus_many"], "marian", tokeniser, ("eng", "deu"))
    save(folders["m2m"], "m2m_100", m2m_tokeniser(folders["m2m"]), ("en", "de"))
    save(folders["nllb_fast"], "m2m_100", nllb_tokeniser(folders["nllb_fast"], True, False), nllb)
    tokeniser = nllb_tokeniser(folders["nllb_new"], False, True)
    save(folders["nllb_new"], "m2m_100", tokeniser, ("eng_Latn", NEW))
    save(folders["mbart"], "mbart", mbart_tokeniser(folders["mbart"], False), mbart)
    save(folders["mbart_fast"], "mbart", mbart_tokeniser(folders["mbart_fast"], True), mbart)
    for name in ("nllb_fast", "mbart_fast"):  # tokenizer.json alone
        (folders[name] / "sentencepiece.bpe.model").unlink(missing_ok=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(sys.argv[1], "w:xz") as archive:
        make(Path(scratch) / "made")
        archive.add(Path(scratch) / "made", ".")
