"""mBART25 and BERT from plain text to scores: corpora cut by a pretrained model's own pieces, training, translation."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest
import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq.data import Dictionary, data_utils
from sacrebleu import corpus_bleu
from sacremoses import MosesDetokenizer
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from gtransformer.cli.contrastive import main as contrastive
from gtransformer.cli.export import main as export
from gtransformer.cli.prepare import main as prepare
from gtransformer.cli.score import main as score
from gtransformer.cli.translate import main as translate
from gtransformer.errors import UserError
from gtransformer.preprocess.bpe import Encoder, remove_bpe_lines
from gtransformer.preprocess.chain import PieceJoiner, Postprocessor, TextEncoder, postprocessor_for
from gtransformer.preprocess.tokenise import Tokeniser
from gtransformer.preprocess.truecase import Truecaser
from gtransformer.run.commands import to_arguments, without_half_precision
from gtransformer.run.recipe import load_recipe
from gtransformer.translation.api import GTransformer
from gtransformer.translation.model_directory import ModelDirectory, TextChain
from tests.bert import save_bert, skip_without_transformers
from tests.commands import run
from tests.core.models import fairseq_models

pytestmark = pytest.mark.slow

WORDS = {"en": "the old house is green and Anna sees it", "de": "das alte Haus ist grün und Anna sieht es"}
MBART = {"encoder_normalize_before": True, "decoder_normalize_before": True, "layernorm_embedding": True}
SIZES = {key.replace("_", "-"): value for key, value in fairseq_models.SIZES.items()}
SHORT = {"max-update": 1, "num-workers": 0, "tensorboard-logdir": None, "cpu": True, "no-progress-bar": True}


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> Path:
    """Documents of three sentences, such as "Anna sees the house ." """
    folder = tmp_path_factory.mktemp("raw")
    draw = random.Random(1)
    for split, documents in {"train": 30, "dev": 4, "test": 3}.items():
        for lang, words in WORDS.items():
            lines = []
            for _ in range(documents):
                lines += ["<d>", *(" ".join(draw.choices(words.split(), k=5)).capitalize() + "." for _ in range(3))]
            (folder / f"concatenated_en2de_{split}_{lang}.txt").write_text("\n".join(lines) + "\n")
    return folder


def arguments(name: str, sections: tuple[str, ...], **changes) -> list[str]:
    """A recipe's options, on the CPU, with some of them changed; None takes one away."""
    options = without_half_precision(load_recipe(name).options(*sections))
    options |= {key.replace("_", "-"): value for key, value in changes.items()}
    return to_arguments(options)


def items(raw: Path, folder: Path) -> Path:
    """A contrastive suite in ContraPro's format: a test sentence, right and wrong."""
    english, german = ((raw / f"concatenated_en2de_test_{lang}.txt").read_text().splitlines()[1:4] for lang in WORDS)
    known = {"src pronoun": "it", "ref pronoun": "es", "ante distance": 1, "intrasegmental": False}
    entries = [
        known | {"src segment": english[number], "ref segment": german[number],
                 "errors": [{"contrastive": german[number - 1]}, {"contrastive": german[number - 2]}]}
        for number in range(3)
    ]  # fmt: skip
    (folder / "contrapro.json").write_text(json.dumps(entries))
    return folder / "contrapro.json"


def check_contrastive(prepared: Path, checkpoint: Path, suite: Path, source, target) -> None:
    """The command's scores are those of the plain forward pass over pieces that ``source`` and ``target`` cut."""
    result = suite.with_name("result.json")
    line = [str(prepared), f"--path={checkpoint}", f"--items={suite}", f"--output={result}", "--context=0", "--cpu"]
    assert contrastive(line) == 0
    (model,), _, task = load_model_ensemble_and_task([str(checkpoint)])
    model.eval()
    for entry, item in zip(json.loads(suite.read_text()), json.loads(result.read_text())["items"], strict=True):
        expected = []
        for text in (entry["ref segment"], *(error["contrastive"] for error in entry["errors"])):
            sides = [(task.source_dictionary, source(entry["src segment"])), (task.target_dictionary, target(text))]
            before, after = ([d.bos(), *(d.index(word) for word in words), d.eos()] for d, words in sides)
            assert task.target_dictionary.unk() not in after
            with torch.no_grad():
                previous = torch.tensor([after[:-1]])
                logits = model(torch.tensor([before]), torch.tensor([len(before)]), previous)[0][0].double()
            chosen = torch.log_softmax(logits, dim=-1).gather(1, torch.tensor(after[1:]).unsqueeze(1))
            expected.append(float(chosen.sum()))
        assert item["scores"] == pytest.approx(expected, abs=1e-4) and len(set(expected)) == 3


def fairseq_join(sentences: list[str]) -> list[str]:
    """What fairseq's ``--remove-bpe sentencepiece`` does."""
    return [data_utils.post_process(sentence, "sentencepiece") for sentence in sentences]


def check_release(prepared: Path, folder: Path, join) -> None:
    """The release's scores of a small model's translation, computed again from what lies there."""
    detokenise = MosesDetokenizer("de").detokenize
    (binary,) = (prepared / "instances").glob("test.de*")
    known = {line.split(" ")[0] for line in (prepared / "bin" / f"dict.{binary.suffix[1:]}.txt").open()}
    sides = {"hypotheses": [], "references": []}
    for line in (folder / "test.jsonl").read_text(encoding="utf-8").splitlines():
        sides["hypotheses"].append(json.loads(line)["hypotheses"][0]["sentences"])
    for line in binary.read_text(encoding="utf-8").splitlines():
        marked = " ".join(w if w in known or w in ("<s>", "</s>") else "<<unk>>" for w in line.split())
        sides["references"].append([part.strip().removesuffix("</s>") for part in marked.split("<s>")[1:]])
    by_instance = {}
    for side, instances in sides.items():
        whole = [" </s> ".join(join(sentences)) for sentences in instances]
        by_instance[side] = [[p.strip() for p in detokenise(text.split()).split("</s>")] for text in whole]
    scores = json.loads((folder / "test.scores.json").read_text())["scores"]["release"]
    for key, segments in (
        ("s_bleu", {side: [line for part in parts for line in part] for side, parts in by_instance.items()}),
        ("d_bleu_instance", {side: [" ".join(filter(None, p)) for p in parts] for side, parts in by_instance.items()}),
    ):
        expected = corpus_bleu(segments["hypotheses"], [segments["references"]])
        assert scores[key]["score"] == expected.score
        found = scores[key]["hypothesis_length"], scores[key]["reference_length"]
        assert found == (expected.sys_len, expected.ref_len), "of an untrained model's words hardly one is right"


def check_translation(prepared: Path, checkpoint: Path, raw: Path, folder: Path, files: set[str]) -> Path:
    """An exported model, alone, translates the raw text as fairseq-generate and the score command did."""
    model = folder / "model"
    assert export([str(prepared), str(model), f"--checkpoint={checkpoint}", "--beam=1"]) == 0
    assert {path.name for path in model.iterdir()} == {"manifest.json", "model.pt", *files}
    shutil.rmtree(prepared)
    checkpoint.unlink()
    text = folder / "translated.txt"
    line = ["--model", str(model), str(raw / "concatenated_en2de_test_en.txt"), "-o", str(text), "--cpu", "--quiet"]
    assert translate(line) == 0
    found, expected = (path.read_text(encoding="utf-8").splitlines() for path in (text, folder / "test.txt"))
    assert found == [" ".join(line.split()) for line in expected]
    assert len(found) == 12 and found.count("<d>") == 3
    return model


def test_mbart_from_text_to_scores(raw, tmp_path, capsys):
    """With recipe ``mbart``, a small mBART of fairseq's own class, and its SentencePiece model and dictionary."""
    SentencePieceTrainer.train(
        input=str(raw / "concatenated_en2de_train_de.txt"), model_prefix=str(tmp_path / "spm"), vocab_size=40,
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    pieces = [line.split("\t")[0] for line in (tmp_path / "spm.vocab").read_text().splitlines()][3:]
    (tmp_path / "dict.txt").write_text("".join(f"{piece} 1\n" for piece in pieces))
    given = {"sentencepiece": tmp_path / "spm.model", "dictionary": tmp_path / "dict.txt"}
    languages = arguments("mbart", ("task",), task=None, doc_mode=None, decoder_start=None)
    prepared = tmp_path / "prepared"
    line = [str(raw), str(prepared), *arguments("mbart", ("prepare",), **given), *languages, "--workers=1"]
    assert prepare(line) == 0
    dictionary = Dictionary.load(str(prepared / "bin" / "dict.en_XX.txt"))
    symbols = [f"[{lang}]" for lang in load_recipe("mbart").options("task")["langs"].split(",")]
    assert dictionary.symbols[-26:] == [*symbols, "<mask>"]
    assert dictionary.symbols[4:-26] == pieces
    plain = (raw / "concatenated_en2de_test_de.txt").read_text().splitlines()
    instance = (prepared / "instances" / "test.de_DE").read_text().splitlines()[0]
    sentences = [part.strip().removesuffix(" </s>") for part in instance.split("<s>")[1:]]
    assert postprocessor_for(prepared, "de_DE").plain_lines(sentences) == plain[1:4]
    assert TextEncoder(prepared, "de_DE")(plain[1:4]) == sentences
    assert isinstance(postprocessor_for(prepared, "de_DE"), PieceJoiner)

    teacher = fairseq_models.build(dictionary, "mbart_large", **MBART)
    args = fairseq_models.settings("mbart_large", **MBART)
    torch.save(fairseq_models.checkpoint(teacher, args), tmp_path / "model.pt")
    save = {"save-dir": tmp_path / "save", "finetune-from-model": tmp_path / "model.pt"}
    output = run("train", prepared / "bin", *arguments("mbart", ("task", "train"), **SIZES, **SHORT, **save))
    assert "initialised from a Transformer: 60 new parameters (fresh)" in output

    best = tmp_path / "save" / "checkpoint_best.pt"
    options = {"path": best, "gen-output": tmp_path / "test", "cpu": True, "beam": 1}
    run("generate", prepared / "bin", *arguments("mbart", ("task", "generate"), **options))
    assert score([str(prepared), "--hypotheses", str(tmp_path / "test.jsonl"), "--reference", "both"]) == 0
    assert "s-BLEU" in capsys.readouterr().out
    said = json.loads((tmp_path / "test.scores.json").read_text())["references"]
    assert {name: one["detokeniser"] for name, one in said.items()} == {"raw": "sentencepiece", "release": "sacremoses"}
    check_release(prepared, tmp_path, fairseq_join)

    processor = SentencePieceProcessor(model_file=str(tmp_path / "spm.model"))

    def cut(text: str) -> list[str]:
        return processor.encode(text, out_type=str)

    check_contrastive(prepared, best, items(raw, tmp_path), cut, cut)
    (tmp_path / "spm.model").unlink()
    files = {"dict.en_XX.txt", "dict.de_DE.txt", "sentencepiece.model"}
    model = check_translation(prepared, best, raw, tmp_path, files)
    chain = TextChain(ModelDirectory.open(model))
    assert chain.encode_target(plain[1:4]) == [sentence.split() for sentence in sentences]
    (model / "sentencepiece.model").unlink()
    with pytest.raises(UserError, match="sentencepiece.model: no such file; the model directory is incomplete"):
        ModelDirectory.open(model)


def test_bert_from_text_to_a_checkpoint(raw, tmp_path):
    """With recipe ``bert``: wordpieces and a dictionary of their own on the source side, BPE on the target side."""
    skip_without_transformers()
    words = [*WORDS["en"].lower().split(), "."]
    save_bert(tmp_path / "bert", words)
    languages = arguments("bert", ("task",), task=None, doc_mode=None, decoder_start=None, max_source_positions=None)
    prepared = tmp_path / "prepared"
    chosen = arguments("bert", ("prepare",), bert=tmp_path / "bert", bpe_merges=20)
    assert prepare([str(raw), str(prepared), *chosen, *languages, "--workers=1"]) == 0
    source, target = (Dictionary.load(str(prepared / "bin" / f"dict.{lang}.txt")) for lang in ("en", "de"))
    assert source.symbols[4:] == [*words, "[en]", "[de]", "<mask>"] and "haus" in target.symbols
    instance = (prepared / "instances" / "test.en").read_text().splitlines()[0]
    plain = (raw / "concatenated_en2de_test_en.txt").read_text().splitlines()[1]
    assert instance.split(" </s>")[0] == f"<s> {plain.lower().replace('.', ' .')}"
    assert TextEncoder(prepared, "en")([plain]) == [instance.split(" </s>")[0].removeprefix("<s> ")]
    assert isinstance(postprocessor_for(prepared, "de"), Postprocessor)

    sizes = {**SIZES, "encoder-layers": 2, "max-source-positions": 64}
    save = {"save-dir": tmp_path / "save", "bert-checkpoint": tmp_path / "bert"}
    output = run("train", prepared / "bin", *arguments("bert", ("task", "train"), **sizes, **SHORT, **save))
    assert f"encoder initialised from {tmp_path / 'bert'}" in output and "0.1 times --lr" in output
    shutil.rmtree(tmp_path / "bert")  # a trained model is whole without it
    best = tmp_path / "save" / "checkpoint_best.pt"
    (model,), _, task = load_model_ensemble_and_task([str(best)])
    saved = torch.load(best)["model"]
    assert torch.equal(model.encoder.layers[0].fc1.weight, saved["encoder.layers.0.fc1.weight"])
    assert task.source_dictionary != task.target_dictionary

    options = {"path": best, "gen-output": tmp_path / "test", "cpu": True, "beam": 1}
    run("generate", prepared / "bin", *arguments("bert", ("task", "generate"), **options))
    assert score([str(prepared), "--hypotheses", str(tmp_path / "test.jsonl"), "--reference", "both"]) == 0
    check_release(prepared, tmp_path, remove_bpe_lines)
    steps = [Tokeniser("de"), Truecaser(prepared / "truecase.de"), Encoder(prepared / "bpe.codes")]

    def cut(text: str) -> list[str]:
        lines = [text]
        for step in steps:
            lines = step(lines)
        return lines[0].split()

    suite = items(raw, tmp_path)
    check_contrastive(prepared, best, suite, lambda text: text.lower().replace(".", " .").split(), cut)
    files = {"dict.en.txt", "dict.de.txt", "wordpieces.json", "bpe.codes", "truecase.de"}
    model = check_translation(prepared, best, raw, tmp_path, files)
    # 64 positions: documents are cut accordingly, and so is a sentence that is longer.
    long = ["Anna sees it."] * 40 + ["the " * 200]
    found = GTransformer.from_pretrained(model, device="cpu").translate(long, beam=1, max_len_a=0, max_len_b=2)
    assert len(found) == 41
