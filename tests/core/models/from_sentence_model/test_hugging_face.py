"""Models that transformers has saved, converted: they compute, and find, what transformers does."""

from __future__ import annotations

import json
import math
import random
import re
import shutil
from functools import partial
from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from torch import Tensor

from gtransformer.cli.export import main as export
from gtransformer.cli.model_convert import main as model_convert
from gtransformer.cli.prepare import main as prepare
from gtransformer.cli.translate import main as translate
from gtransformer.errors import UserError
from gtransformer.lab.analysis.start import measure
from gtransformer.models.common.pretrained import from_transformer
from gtransformer.models.from_sentence_model import read_sentence_model
from gtransformer.models.from_sentence_model.hugging_face import TABLES
from gtransformer.optional import import_transformers
from gtransformer.preprocess.chain import postprocessor_for
from gtransformer.preprocess.pieces import SentencePieces
from gtransformer.tasks.checkpoints import read_state
from gtransformer.translation.api import GTransformer
from gtransformer.translation.convert import convert
from gtransformer.translation.export import Sources
from gtransformer.translation.export import export as write_export
from gtransformer.translation.options import SearchOptions
from tests.commands import GENERATION, run
from tests.core.models.from_sentence_model.hf_folders import (
    TEXT,
    Folder,
    load,
    many_languages,
    marian,
    write_json,
)
from tests.saved_model import make_checkpoint

pytestmark = pytest.mark.slow

MAKERS = {
    "marian-swish": marian,
    "marian-relu-without-bias": partial(marian, form="bin", activation_function="relu", bias=0.0),
    "marian-gelu-unscaled": partial(marian, form="sharded", activation_function="gelu", scale_embedding=False),
    "marian-two-vocabularies": partial(marian, two=True),
    "marian-two-vocabularies-bin": partial(marian, two=True, form="bin"),
    "marian-three-tables": partial(marian, two=True, tied=False, form="sharded"),
    "marian-languages": partial(marian, languages=["deu", "nld"]),
    "marian-half": partial(marian, form="half"),
    # Settings that transformers does not read.
    "marian-norms": partial(marian, normalize_before=True, normalize_embedding=True, add_final_layer_norm=True),
    "m2m-norms": partial(many_languages, kind="m2m", normalize_before=False, normalize_embedding=True),
    "m2m": partial(many_languages, kind="m2m"),
    "m2m-bin": partial(many_languages, kind="m2m", form="bin", scale_embedding=False, activation_function="gelu"),
    "m2m-version-5": partial(many_languages, kind="m2m5"),
    "nllb": partial(many_languages, kind="nllb", form="sharded"),
    "mbart": partial(many_languages, kind="mbart"),
    "mbart-bin": partial(many_languages, kind="mbart", form="bin"),
    "mbart-sharded": partial(many_languages, kind="mbart", form="sharded"),
}


def sentences(folder: Folder, side: int, count: int, draw: random.Random, most: int = 9) -> list[list[str]]:
    """Words at random."""
    return [draw.choices(folder.texts(side), k=draw.randint(1, most)) for _ in range(count)]


def ours(folder: Folder, loaded: GTransformer, source: list[list[str]], target: list[list[str]]) -> list[Tensor]:
    """(length, words) for each pair of sentences, in our order of the words; all are one document."""
    engine, rows = loaded.engine, []
    for dictionary, side, lines in ((engine.source, 0, source), (engine.target, 1, target)):
        texts = [[dictionary.index(word) for word in (*folder.given[side], *line)] for line in lines]
        assert dictionary.unk() not in sum(texts, [])
        rows.append([[dictionary.bos(), *text, dictionary.eos()] for text in texts])
    read = torch.tensor([sum(rows[0], [])])
    with torch.no_grad():
        encoded = engine.model.encoder(read, src_lengths=torch.tensor([read.shape[1]]))
        logits = engine.model.decoder(torch.tensor([sum(rows[1], [])]), encoder_out=encoded)[0][0]
    return [part[:-1] for part in logits.split([len(row) for row in rows[1]])]


def places(folder: Folder, loaded: GTransformer) -> tuple[list[int], list[int]]:
    """Where a word is in our dictionary, and transformers' row of it."""
    found, engine = {}, loaded.engine
    for number, word in enumerate(engine.target.symbols[: engine.model.decoder.predictable[1]]):
        unused = re.fullmatch("<unused:(\\d+)>", word)
        if unused or word in folder.words[1]:
            found[number] = int(unused[1]) if unused else folder.words[1].index(word)
    return list(found), list(found.values())


@pytest.mark.parametrize("kind", ["marian-swish", "m2m", "mbart"])
def test_what_the_configuration_leaves_out(kind: str, pieces: Path, tmp_path: Path):
    """It is what transformers takes then."""
    folder = MAKERS[kind](pieces, tmp_path / "folder")
    config = json.loads((folder.path / "config.json").read_text())
    for name in ("activation_function", "scale_embedding", "dropout"):
        del config[name]
    write_json(folder.path / "config.json", config)
    folder.model = type(folder.model).from_pretrained(folder.path).eval()
    loaded, draw = load(folder, tmp_path / "model"), random.Random(1)
    here, there = places(folder, loaded)
    lines = [sentences(folder, side, 1, draw) for side in (0, 1)]
    (mine,) = ours(folder, loaded, *lines)
    assert (mine[:, here] - folder.logits(*(side[0] for side in lines))[:, there]).abs().max() < 1e-5


@pytest.mark.parametrize("kind", MAKERS)
def test_logits(kind: str, pieces: Path, tmp_path: Path):
    """Several sentences as one document cost what they do one by one; every word that transformers has is there."""
    folder = MAKERS[kind](pieces, tmp_path / "folder")
    loaded, draw = load(folder, tmp_path / "model"), random.Random(1)
    here, there = places(folder, loaded)
    assert sorted(there) == list(range(len(folder.words[1])))
    for count in (1, 4):
        lines = [sentences(folder, side, count, draw) for side in (0, 1)]
        for mine, source, target in zip(ours(folder, loaded, *lines), *lines, strict=True):
            theirs = folder.logits(source, target)
            assert theirs.std() > 0.3
            assert (mine[:, here] - theirs[:, there]).abs().max() < 1e-5
            rest = sorted({*range(mine.shape[1])} - {*here})
            assert mine[:, rest].eq(-torch.inf).all()


class DocumentEnd:
    """A logits processor of transformers that ends a document as here: one token more, which costs nothing.

    Behind ``given`` words a sentence has ``least`` to ``longest``. A limit does not make ``</s>`` free, as
    ``forced_eos_token_id`` does.
    """

    def __init__(self, eos: int, end: int, longest: int, banned: list[int], least: int, given: int):
        self.eos, self.end, self.longest, self.banned, self.least = eos, end, longest, banned, least
        self.given = given

    def __call__(self, read: Tensor, scores: Tensor) -> Tensor:
        """read (rows, length), scores (rows, words): log probabilities."""
        words, last = read.shape[1] - 1 - self.given, read[:, -1].tolist()
        if words < 0:
            return scores
        scores[:, self.banned] = -torch.inf
        if words < self.least:
            scores[:, self.eos] = -torch.inf
        for row, word in enumerate(last):
            if words and word == self.eos:
                scores[row] = -torch.inf
                scores[row, self.end] = 0.0
            elif words >= self.longest:
                kept = scores[row, self.eos].clone()
                scores[row] = -torch.inf
                scores[row, self.eos] = kept
        return scores


def theirs(folder: Folder, source: list[str], **search) -> list[str]:
    """What ``generate`` finds, without what is given and ends it."""
    words, given = folder.words[1], folder.given[1]
    forced = {"forced_bos_token_id": words.index(given[0])} if given else {}
    found = folder.model.generate(folder.source(source), do_sample=False, **forced, **search)
    return [words[row] for row in found[0].tolist()[1 + len(given) :]]


# What makes random models end now and then.
ENDING = {"marian": partial(marian, bias=3.3), "m2m": partial(many_languages, kind="m2m", ends=4.5)}


@pytest.mark.parametrize("kind", ENDING)
def test_beam_search(kind: str, pieces: Path, tmp_path: Path):
    """Of 60 sentences each the translation that ``generate`` finds, word by word, and what it costs.

    ``generate`` has to end a document as search here does: ``</s>`` stays in the beam for one step, and the end counts
    as one token more where scores are divided by length. Without a beam that makes no difference.
    """
    folder = ENDING[kind](pieces, tmp_path / "folder")
    loaded, words, given = load(folder, tmp_path / "model"), folder.words[1], len(folder.given[1])
    eos, end, spoken = words.index("</s>"), len(words) - 1, {*folder.texts(1), "</s>", "<unk>"}
    banned = [row for row, word in enumerate(words) if word not in spoken]
    bad = [[row] for row in banned if words[row] not in folder.given[1]]
    lengths: list[int] = []
    source = sentences(folder, 0, 60, random.Random(2))
    limits = [int(1.5 * (len(line) + len(folder.given[0]))) + 4 for line in source]
    for beam in (1, 3):
        options = SearchOptions(beam=beam, lenpen=0.7, max_len_a=1.5, max_len_b=4, min_len=2)
        mine = loaded.engine.translate([[line] for line in source], options)
        for line, limit, (hypothesis, *_) in zip(source, limits, mine, strict=True):
            if beam == 1:
                found = theirs(
                    folder, line, num_beams=1, min_new_tokens=2 + given, max_new_tokens=limit + 1 + given,
                    forced_eos_token_id=eos, bad_words_ids=bad,
                )  # fmt: skip
            else:
                *found, last = theirs(
                    folder, line, num_beams=beam, length_penalty=0.7, early_stopping=True, eos_token_id=end,
                    pad_token_id=end, max_new_tokens=limit + 2 + given,
                    logits_processor=[DocumentEnd(eos, end, limit, banned, 2, given)],
                )  # fmt: skip
                assert last == words[end]
            assert found.pop() == "</s>"
            assert hypothesis.sentences == [" ".join(found)]
            costs = -folder.logits(line, found).log_softmax(dim=1)[given:]
            rows = [words.index(word) for word in (*found, "</s>")]
            total = costs[range(len(rows)), rows].sum().item()
            assert hypothesis.scores[0] == pytest.approx(-total, abs=1e-4)  # what is given costs nothing
            lengths.append(len(found))
    assert len({*lengths}) > 8 and sum(length < limit for length, limit in zip(lengths[60:], limits, strict=True)) > 9


def document(draw: random.Random, lines: int) -> list[str]:
    """Lines of text; some are empty, some one word."""
    found = []
    for _ in range(lines):
        words = draw.choice(TEXT["en"]).split()
        found.append(" ".join(words[: draw.choice([0, 1, 2, 3])]))
    return found


TINY = dict.fromkeys(("encoder_layers", "decoder_layers"), 1)
NO_TEXT = re.compile(r"<unused|</?s>|<pad>|<mask>|__[a-z]+__|[a-z]{3}_[A-Z][a-z]{3}|[a-z]{2}_[A-Z]{2}|>>|<<")


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(partial(marian, bias=3.0, two=True), id="marian"),
        pytest.param(partial(marian, languages=["deu", "nld"]), id="marian-languages"),
        pytest.param(partial(many_languages, kind="m2m"), id="m2m"),
        pytest.param(partial(many_languages, kind="nllb"), id="nllb"),
        pytest.param(partial(many_languages, kind="mbart"), id="mbart"),
    ],
)
def test_no_sentence_is_lost(make, pieces: Path, tmp_path: Path):
    """200 documents: an empty line for an empty line, one line for each other one, and nothing that is no text."""
    folder = make(pieces, tmp_path / "folder", **TINY)
    loaded, draw = load(folder, tmp_path / "model", beam=2, max_len_a=0.1, max_len_b=4), random.Random(3)
    texts = [document(draw, size) for size in (300, *(draw.randint(1, 3) for _ in range(199)))]
    texts[7][0] = " ".join(draw.choices(TEXT["en"][0].split(), k=400))
    texts[8] = ["", "Anna", ""]
    found = loaded.translate(texts)
    path, lines = tmp_path / "text", [line for text in texts for line in ("<d>", *text)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = ["--model", str(tmp_path / "model"), str(path), "-o", str(tmp_path / "out"), "--cpu", "--quiet"]
    assert translate(command) == 0
    written = (tmp_path / "out").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    assert written == [line for text in found for line in ("<d>", *text)]
    assert [[bool(line) for line in text] for text in found] == [[bool(line) for line in text] for text in texts]
    assert not [line for text in found for line in text if NO_TEXT.search(line)]


@pytest.mark.parametrize("kind", ["marian-swish", "m2m", "mbart"])
def test_plain_text_is_cut_and_joined_as_by_transformers(kind: str, pieces: Path, tmp_path: Path):
    """Its tokeniser, ``generate`` and its tokeniser again, from text to text; greedy, without what is no text."""
    transformers = import_transformers()
    folder = MAKERS[kind](pieces, tmp_path / "folder")
    loaded, (source_lang, target_lang) = load(folder, tmp_path / "model"), folder.pair
    if kind == "mbart":
        made = transformers.MBart50Tokenizer.from_pretrained(folder.path, src_lang=source_lang, tgt_lang=target_lang)
    elif kind == "m2m":
        made = transformers.M2M100Tokenizer.from_pretrained(folder.path, src_lang=source_lang, tgt_lang=target_lang)
    else:
        made = transformers.MarianTokenizer.from_pretrained(folder.path)
    words = folder.words[1]
    spoken = {*folder.texts(1), "</s>", "<unk>"}
    banned = [[row] for row, word in enumerate(words) if word not in (*spoken, *folder.given[1])]
    forced = {"forced_bos_token_id": words.index(folder.given[1][0])} if folder.given[1] else {}
    text = [*TEXT["en"], "Anna sees the garden.", "Is it old?"]
    for line in text:
        read = made(line, return_tensors="pt")
        limit = read.input_ids.shape[1] - 1
        found = folder.model.generate(
            **read, do_sample=False, num_beams=1, max_new_tokens=limit + 1 + len(folder.given[1]),
            min_new_tokens=1 + len(folder.given[1]), forced_eos_token_id=words.index("</s>"), bad_words_ids=banned,
            **forced,
        )  # fmt: skip
        wanted = made.decode(found[0], skip_special_tokens=True)
        assert loaded.translate([line], beam=1, max_len_a=1, max_len_b=0) == [wanted], line


COMMON = (
    "--optimizer adam --lr-scheduler fixed --cpu --no-progress-bar --num-workers 0 --seed 1 --source-lang en "
    "--target-lang de --langs=en,de --max-tokens 400 --no-epoch-checkpoints --task=translation_doc "
    "--arch=gtransformer --criterion=fused_label_smoothed_cross_entropy --label-smoothing=0.1"
).split()


def write_raw(folder: Path) -> dict[str, list[str]]:
    """A raw corpus of en and de; the sentences of the development set by language."""
    draw, dev, (one, other) = random.Random(4), {}, TEXT
    folder.mkdir()
    for split, count in {"train": 6, "dev": 2, "test": 2}.items():
        for lang in TEXT:
            documents = [draw.choices(TEXT[lang], k=3) for _ in range(count)]
            lines = [line for document in documents for line in ("<d>", *document)]
            path = folder / f"concatenated_{one}2{other}_{split}_{lang}.txt"
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
            if split == "dev":
                dev[lang] = sum(documents, [])
    return dev


def test_from_a_directory_to_a_document_model(pieces: Path, tmp_path: Path):
    """Preparing, training, generating, exporting: the language is given, and costs nothing anywhere."""
    folder = many_languages(pieces, tmp_path / "folder", "m2m", ends=3.0)
    loaded, raw, prepared = load(folder, tmp_path / "converted"), tmp_path / "raw", tmp_path / "prepared"
    dev = write_raw(raw)
    assert prepare([str(raw), str(prepared), f"--vocabulary={tmp_path / 'converted'}", "--workers=1"]) == 0
    for lang, dictionary in zip(folder.pair, (loaded.engine.source, loaded.engine.target), strict=True):
        assert Dictionary.load(str(prepared / "bin" / f"dict.{lang}.txt")).symbols == dictionary.symbols
        instances = (prepared / "instances" / f"train.{lang}").read_text(encoding="utf-8")
        assert instances.count(f"<s> __{lang}__ ") == instances.count("<s>") == 18

    last = tmp_path / "save" / "checkpoint_last.pt"
    line = [
        "train", prepared / "bin", *COMMON, f"--sentence-model={tmp_path / 'converted'}", f"--save-dir={last.parent}",
        "--encoder-ctxlayers=1", "--decoder-ctxlayers=2", "--cross-ctxlayers=1", "--dropout=0",
    ]  # fmt: skip
    output = run(*line, "--lr=1e-12", "--max-update=1")
    costs = []
    cut = SentencePieceProcessor(model_file=str(pieces / "both.model"))
    for source, target in zip(dev["en"], dev["de"], strict=True):
        source, target = (cut.encode(text, out_type=str) for text in (source, target))
        rows = [folder.words[1].index(word) for word in (*target, "</s>")]
        costs += (-folder.logits(source, target).log_softmax(dim=1)[1:])[range(len(rows)), rows].tolist()
    (said,) = {float(one) for one in re.findall(r"valid on 'valid' subset.*? nll_loss ([\d.]+)", output)}
    assert said == pytest.approx(sum(costs) / len(costs) / math.log(2), abs=1e-3)
    assert "@ 1 updates" in run(*line, "--lr=1e-3", "--max-update=3")

    output = run(
        "generate", prepared / "bin", *GENERATION, f"--path={last}", f"--gen-output={tmp_path / 'test'}",
        "--max-len-b=5", "--remove-bpe=sentencepiece",
    )  # fmt: skip
    hypotheses = [one for one in output.splitlines() if one[:2] in ("T-", "H-", "D-")]
    generated = (tmp_path / "test.jsonl").read_text(encoding="utf-8")
    assert hypotheses and not [one for one in (*hypotheses, generated) if "__" in one or "unused" in one]
    exported = tmp_path / "exported"
    assert export([str(prepared), str(exported), f"--checkpoint={last}", "--beam=2"]) == 0
    model = GTransformer.from_pretrained(exported, device="cpu")
    text = [*TEXT["en"], "", "Anna"]
    (found,) = model.nbest([text], max_len_b=5)
    assert [bool(one) for one in found] == [bool(one) for one in text]
    assert not [one for line in found for one in line if NO_TEXT.search(one.text) or one.score > 0]


STARTS = {
    "marian": partial(marian, two=True),
    "marian-one-vocabulary": marian,
    "marian-languages": partial(marian, languages=["de", "nl"]),
    "m2m": partial(many_languages, kind="m2m"),
    "nllb": partial(many_languages, kind="nllb"),
    "mbart": partial(many_languages, kind="mbart"),
}


@pytest.mark.parametrize("kind", STARTS)
def test_exact_start(kind: str, pieces: Path, tmp_path: Path):
    """A word of a document costs the document model what it costs transformers, sentence by sentence."""
    folder = STARTS[kind](pieces, tmp_path / "folder")
    model, raw, prepared = tmp_path / "model", tmp_path / "raw", tmp_path / "prepared"
    load(folder, model)
    dev = write_raw(raw)
    pair = [f"--source-lang={folder.pair[0]}", f"--target-lang={folder.pair[1]}"]
    assert prepare([str(raw), str(prepared), f"--vocabulary={model}", "--workers=1", *pair]) == 0
    found = measure(prepared, model / "model.pt", "valid", ["neutral"], context_layers=1, cpu=True)
    assert found["starts"]["neutral"]["largest"] < 1e-5
    costs = []
    names = ("source.spm", "target.spm") if kind.startswith("marian") else ("sentencepiece.bpe.model",) * 2
    cutters = [SentencePieceProcessor(model_file=str(folder.path / name)) for name in names]
    for lines in zip(dev["en"], dev["de"], strict=True):
        source, target = (cutter.encode(line, out_type=str) for cutter, line in zip(cutters, lines, strict=True))
        rows = [folder.words[1].index(word) for word in (*target, "</s>")]
        logits = folder.logits(source, target)[len(folder.given[1]) :]
        costs += (-logits.log_softmax(dim=1))[range(len(rows)), rows].tolist()
    assert found["tokens"] == len(costs)
    assert found["sentence_model"] == pytest.approx(sum(costs) / len(costs), abs=1e-5)


def pieces_of(file: Path) -> list[str]:
    return SentencePieces(file).words()


def cut_short(folder: Path, name: str, share: float = 0.5) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: int(len(content) * share)])


def changed(folder: Path, **values) -> None:
    write_json(folder / "config.json", json.loads((folder / "config.json").read_text()) | values)


def retokenised(folder: Path, **values) -> None:
    """Change the tokeniser's configuration."""
    path = folder / "tokenizer_config.json"
    write_json(path, (json.loads(path.read_text()) if path.is_file() else {}) | values)


def resized_bias(folder: Path, size: int) -> None:
    state = torch.load(folder / "pytorch_model.bin")
    torch.save(state | {BIAS: torch.randn(1, size)}, folder / "pytorch_model.bin")


def more_words(folder: Path) -> None:
    words = json.loads((folder / "vocab.json").read_text())
    write_json(folder / "vocab.json", words | {f"more{number}": len(words) + number for number in range(200)})


WEIGHTS, BIAS = "model.safetensors", "final_logits_bias"
FAULTS = {
    "no tokeniser": ("m2m", lambda f: (f / "sentencepiece.bpe.model").unlink(), "sentencepiece.bpe.model: no such"),
    "no pieces": ("marian", lambda f: (f / "target.spm").unlink(), "target.spm: no such file"),
    "no vocabulary": ("marian", lambda f: (f / "vocab.json").unlink(), "vocab.json: no such file"),
    "no weights": ("m2m", lambda f: (f / WEIGHTS).unlink(), "holds neither model.safetensors nor pytorch_model.bin"),
    "another kind": ("m2m", lambda f: changed(f, model_type="t5"), "a model of type 't5'"),
    "another start": ("m2m", lambda f: changed(f, decoder_start_token_id=0), "its decoder begins with token 0"),
    "no such start": ("marian", lambda f: changed(f, decoder_start_token_id=999), "decoder_start_token_id 999"),
    "activation": ("marian", lambda f: changed(f, activation_function="mish"), "activation mish"),
    "activation, a list": ("marian", lambda f: changed(f, activation_function=[1]), "activation [1]"),
    "dropout": ("m2m", lambda f: changed(f, dropout="0.1"), "dropout 0.1 is no probability"),
    "size, a switch": ("marian", lambda f: changed(f, encoder_ffn_dim=True), "encoder_ffn_dim is no size"),
    "no size": ("marian", lambda f: changed(f, d_model=None), "d_model is no size"),
    "another size": ("marian", lambda f: changed(f, d_model=24), "embeddings of another size"),
    "another inner size": ("marian", lambda f: changed(f, encoder_ffn_dim=8), "of another size"),
    "more layers": ("m2m", lambda f: changed(f, encoder_layers=3), "of another structure"),
    "fewer layers": ("m2m", lambda f: changed(f, decoder_layers=1), "of another structure"),
    "cut off": ("m2m", lambda f: cut_short(f, WEIGHTS), "model.safetensors: damaged"),
    "header alone": ("marian", lambda f: cut_short(f, WEIGHTS, 0.001), "model.safetensors: damaged"),
    "bin": ("bin", lambda f: cut_short(f, "pytorch_model.bin"), "pytorch_model.bin: damaged"),
    "no parameters": ("bin", lambda f: torch.save([1, 2], f / "pytorch_model.bin"), "pytorch_model.bin"),
    "lacking shard": ("sharded", lambda f: sorted(f.glob("model-*"))[1].unlink(), "no such file"),
    "index": ("sharded", lambda f: cut_short(f, f"{WEIGHTS}.index.json"), "index.json: holds no JSON object"),
    "index of no use": ("sharded", lambda f: write_json(f / f"{WEIGHTS}.index.json", {"weight_map": []}), "index.json"),
    "vocabulary": ("marian", more_words, "embeddings"),
    "larger vocabulary": ("m2m", more_words, "embeddings"),
    "words": ("marian", lambda f: write_json(f / "vocab.json", {"</s>": 0, "<unk>": 7}), "numbers are not those"),
    "no numbers": ("marian", lambda f: write_json(f / "vocab.json", {"</s>": [0], "<unk>": "x"}), "vocab.json"),
    "config": ("m2m", lambda f: cut_short(f, "config.json"), "config.json: holds no JSON object"),
    "config, a list": ("m2m", lambda f: write_json(f / "config.json", [1]), "config.json: holds no JSON object"),
    "vocab.json": ("marian", lambda f: cut_short(f, "vocab.json"), "vocab.json: holds no JSON object"),
    "special": ("m2m", lambda f: cut_short(f, "special_tokens_map.json"), "special_tokens_map.json: holds no JSON"),
    "special, of another form": (
        "m2m",
        lambda f: write_json(f / "special_tokens_map.json", {"additional_special_tokens": [3]}),
        "special_tokens_map.json",
    ),
    "another tokeniser": ("m2m", lambda f: retokenised(f, tokenizer_class="SMALL100Tokenizer"), "is SMALL100Tokenizer"),
    "language last": ("nllb", lambda f: retokenised(f, legacy_behaviour=True), "legacy_behaviour"),
    "no languages": ("nllb", lambda f: (f / "special_tokens_map.json").unlink(), "no symbols of languages"),
    "other direction": (
        "marian",
        lambda f: retokenised(f, source_lang="deu", target_lang="en"),
        "deu to en; swap",
    ),
    "heads": (
        "marian",
        lambda f: changed(f, encoder_attention_heads=3),
        "encoder_attention_heads does not divide",
    ),
    "short bias": ("bin", lambda f: resized_bias(f, 9), "differ in size"),
    "long bias": ("bin", lambda f: resized_bias(f, 999), "differ in size"),
    "pieces": ("nllb", lambda f: (f / "sentencepiece.bpe.model").write_text("no"), "not a SentencePiece model"),
    "pieces of M2M-100": ("m2m", lambda f: (f / "sentencepiece.bpe.model").write_text("no"), "not a SentencePiece"),
    "pieces of Marian": ("marian", lambda f: (f / "source.spm").write_text("no"), "not a SentencePiece model"),
}
WHOLE = {
    "m2m": partial(many_languages, kind="m2m"),
    "nllb": partial(many_languages, kind="nllb"),
    "marian": partial(marian, languages=["deu", "nld"]),
    "bin": partial(marian, form="bin"),
    "sharded": partial(many_languages, kind="m2m", form="sharded"),
}


@pytest.fixture(scope="module")
def whole(pieces: Path, tmp_path_factory) -> dict[str, Folder]:
    folder = tmp_path_factory.mktemp("whole")
    return {name: make(pieces, folder / name) for name, make in WHOLE.items()}


def refused(path: Path, output: Path, pair: tuple[str, str], capsys, *options: str) -> str:
    """The one sentence with which the command ends."""
    before = {*output.parent.iterdir()}
    assert model_convert([str(path), str(output), "-s", pair[0], "-t", pair[1], *options]) == 1
    assert {*output.parent.iterdir()} == before
    said = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("[transformers]")]
    assert len(said) == 1 and said[0].startswith("error: "), said
    return said[0]


@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_converted(fault: str, whole, tmp_path: Path, capsys):
    """One sentence, and nothing is left."""
    kind, damage, message = FAULTS[fault]
    shutil.copytree(whole[kind].path, tmp_path / "folder")
    damage(tmp_path / "folder")
    capsys.readouterr()
    assert message in refused(tmp_path / "folder", tmp_path / "model", whole[kind].pair, capsys)


@pytest.mark.parametrize("kept", ["lm_head.weight", "model.encoder.embed_tokens.weight", "model.shared.weight"])
def test_a_shared_table_under_any_of_its_names(kept: str, whole, tmp_path: Path):
    """As transformers reads it."""
    shutil.copytree(whole["bin"].path, tmp_path / "folder")
    file = tmp_path / "folder" / "pytorch_model.bin"
    state = torch.load(file)
    names = ("model.shared.weight", *TABLES, "lm_head.weight")
    table = next(state[name] for name in names if name in state)
    torch.save({name: value for name, value in state.items() if name not in names} | {kept: table}, file)
    read = [read_sentence_model(path, "en", "de", pieces_of) for path in (tmp_path / "folder", whole["bin"].path)]
    found, wanted = (one.state() for one in read)
    assert found.keys() == wanted.keys()
    assert all(found[name].equal(value) for name, value in wanted.items())


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_one_file_of_a_folder(name: str, whole, tmp_path: Path, capsys):
    path = whole["marian"].path / name
    assert "give its folder" in refused(path, tmp_path / "model", ("en", "deu"), capsys)


@pytest.mark.parametrize(
    ("kind", "pair", "message"),
    [
        ("m2m", ("en", "xx"), "--target-lang xx: "),
        ("m2m", ("eng_Latn", "de"), "--source-lang eng_Latn: "),
        ("nllb", ("en", "deu_Latn"), "--source-lang en: "),
        ("marian", ("en", "fra"), "does not translate into 'fra'; give one of deu, nld"),
        ("m2m", ("en", "en"), "source and target language are both en"),
        ("bin", ("e/n", "de"), "no name of a language"),
    ],
)
def test_languages_that_it_does_not_know(kind: str, pair, message: str, whole, tmp_path: Path, capsys):
    assert message in refused(whole[kind].path, tmp_path / "model", pair, capsys)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--batch-sentences=4", "--batch-sentences 4: the model does not translate in two passes"),
        ("--strategy=sequential", "--strategy sequential: the model was trained on single sentences"),
        ("--strategy=parallel", "--strategy parallel: the model was trained on single sentences"),
    ],
)
def test_a_search_that_it_cannot_do(option: str, message: str, whole, tmp_path: Path, capsys):
    """Every translation with the directory would fail."""
    assert message in refused(whole["m2m"].path, tmp_path / "model", whole["m2m"].pair, capsys, option)


def test_a_piece_that_looks_like_a_language_is_text(pieces: Path, tmp_path: Path):
    SentencePieceTrainer.train(
        input=str(pieces / "both.txt"), model_prefix=str(tmp_path / "both"), vocab_size=60, minloglevel=2,
        hard_vocab_limit=False, user_defined_symbols=["ab_Cd", "__x"],
    )  # fmt: skip
    for kind in ("m2m", "nllb"):
        folder = many_languages(tmp_path, tmp_path / kind, kind)
        model = load(folder, tmp_path / f"{kind}-model")
        assert model.engine.source.unk() not in [*map(model.engine.source.index, ("ab_Cd", "__x"))]
        with pytest.raises(UserError, match="--source-lang"):
            convert(folder.path, tmp_path / "other", "ab_Cd", folder.pair[1], {}, {})


def test_a_text_in_the_models_languages_by_their_plain_names(whole, tmp_path: Path, capsys):
    """NLLB-200's eng_Latn is the source ``en`` of a file, and sentences of zho_Hans are joined without blanks."""
    text = "Anna sees the garden."
    convert(whole["nllb"].path, tmp_path / "model", "eng_Latn", "zho_Hans", {"max_len_a": 0, "max_len_b": 4}, {})
    (tmp_path / "in.xml").write_text(
        f'<dataset id="x"><doc id="a"><src lang="en"><seg id="1">{text}</seg></src></doc></dataset>', encoding="utf-8"
    )
    common = ["--model", str(tmp_path / "model"), "--cpu", "--quiet", str(tmp_path / "in.xml")]
    assert translate([*common, "-o", str(tmp_path / "out.xml"), "--format=input"]) == 0, capsys.readouterr().err
    assert '<hyp lang="zh" system="model">' in (tmp_path / "out.xml").read_text(encoding="utf-8")
    model = GTransformer.from_pretrained(tmp_path / "model", device="cpu")
    (alone,) = model.translate([text])
    ((joined,),) = model.translate_lines([f"{text}|{text}"], split=lambda line: line.split("|"))
    assert alone and joined.translations[0].text == alone * 2


def test_converting_twice_is_the_same(whole, tmp_path: Path):
    """The rows of symbols that no file has are not drawn anew."""
    states = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        convert(whole["m2m"].path, tmp_path / str(seed), "en", "de", {}, {})
        states.append(read_state(tmp_path / str(seed) / "model.pt")["model"])
        assert torch.rand(1) == torch.rand(1, generator=torch.Generator().manual_seed(seed))  # and draws nothing
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())


def test_a_shared_table_is_in_memory_once(whole, tmp_path: Path):
    """Of NLLB-200 it has a gigabyte."""
    read = read_sentence_model(whole["m2m"].path, "en", "de", lambda file: SentencePieces(file).words())
    model = load(whole["m2m"], tmp_path / "model").engine.model
    for state in (read.state(), from_transformer(read.state(), model)):
        tables = [
            value for name, value in state.items() if "embed_tokens" in name or name.endswith("projection.weight")
        ]
        assert len(tables) == 3 and len({table.data_ptr() for table in tables}) == 1


def test_a_corpus_with_two_models_of_pieces_the_other_way_round(pieces: Path, tmp_path: Path):
    """A model from its target to its source cuts and joins each language as the corpus does."""
    folder = marian(pieces, tmp_path / "folder", two=True)
    load(folder, tmp_path / "model")
    write_raw(tmp_path / "raw")
    prepared = tmp_path / "prepared"
    assert prepare([str(tmp_path / "raw"), str(prepared), "--workers=1", f"--vocabulary={tmp_path / 'model'}"]) == 0
    text = {"en": "The old house is green.", "de": "Das alte Haus ist gr\u00fcn."}
    cut = {lang: SentencePieces(pieces / f"{lang}.model")([line])[0] for lang, line in text.items()}
    for lang, line in text.items():
        assert postprocessor_for(prepared, lang).plain_lines([cut[lang]]) == [line]

    arguments = ["--source-lang", "de", "--target-lang", "en"]
    checkpoint = make_checkpoint(prepared, tmp_path / "reverse.pt", *arguments)
    settings = json.loads((prepared / "manifest.json").read_text())
    settings["settings"] |= {"source_prefix": "a", "target_prefix": "b"}
    (prepared / "manifest.json").write_text(json.dumps(settings))
    made = write_export(Sources(prepared, checkpoint), tmp_path / "exported", SearchOptions(), {})
    assert [made["settings"][f"{side}_prefix"] for side in ("source", "target")] == ["b", "a"]
    for name, lang in (("sentencepiece.model", "de"), ("sentencepiece.target.model", "en")):
        assert (tmp_path / "exported" / name).read_bytes() == (pieces / f"{lang}.model").read_bytes()
