"""Marian's files from ``gtransformer model convert`` on: what is no model, text, training."""

from __future__ import annotations

import random
import re
from argparse import Namespace

import numpy as np
import pytest
import torch
import yaml
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.data import Dictionary

from gtransformer.cli.model_convert import main as model_convert
from gtransformer.cli.prepare import main as prepare
from gtransformer.criterions.fused_label_smoothed_cross_entropy import FusedLabelSmoothedCrossEntropy
from gtransformer.models.from_sentence_model import read_sentence_model
from gtransformer.preprocess.pieces import SentencePieces
from gtransformer.translation.export import Sources, export
from gtransformer.translation.options import SearchOptions
from tests.commands import only_error, run
from tests.core import marian_numpy as marian
from tests.core.models.from_sentence_model.marian_models import (
    SEARCH,
    TOKENS,
    Converted,
    random_rows,
    save,
    train_pieces,
    words_of,
)

pytestmark = pytest.mark.slow


def cut_off(length: int):
    return lambda path: path.write_bytes(path.read_bytes()[:length])


def changed(parameters=(), **switches):
    """Write the model again with other parameters (an array, or None: without) or switches of its configuration."""

    def change(path):
        values, config = marian.read_npz(path)
        values |= dict(parameters)
        config |= {name.replace("_", "-"): value for name, value in switches.items()}
        kept = {name: value for name, value in values.items() if value is not None}
        marian.write_npz(path, kept, {name: value for name, value in config.items() if value is not None})

    return change


def text_instead(path):
    path.write_text("a" * 500)


def archive_instead(path):
    np.savez(path, weights=np.zeros(3))


def other_vocabulary(path):
    train_pieces(path.parent / "vocab.ende.spm", 30, 1)


def no_vocabulary(path):
    (path.parent / "vocab.ende.spm").unlink()


def vocabulary_of_text(path):
    (path.parent / "vocab.ende.spm").write_text("no pieces")


def no_cutter(path):
    (path.parent / "source.spm").unlink()


def gaps_in_numbers(path):
    (path.parent / "src.vocab.yml").write_text("</s>: 0\n<unk>: 7\n")


def words_like_dates(path):
    (path.parent / "src.vocab.yml").write_text("</s>: 0\n2001-99-99: 7\n")


def compressed_otherwise(path):
    """By a method that no zip file has."""
    content = bytearray(path.read_bytes())
    content[(begin := content.index(b"PK\x01\x02") + 10) : begin + 2] = b"\xff\x00"
    path.write_bytes(content)


def second_model(path):
    marian.write_binary(path.parent / "second.bin", *marian.read_npz(path))


# What is wrong, in which form, and which file or word the message names.
WRONG = [
    *((cut_off(length), {}, "model.npz") for length in (5, 200, -1, -20_000)),
    *(
        (cut_off(length), {"form": form}, "model.bin")
        for form in ("bin", "int8")
        for length in (9, 40, 2000, -1, -9000)
    ),
    (text_instead, {"form": "bin"}, "model.bin"),
    (archive_instead, {}, "model.npz.*special:model.yml"),
    (other_vocabulary, {}, "vocab.ende.spm: 30 words, but the model has 46"),
    (no_vocabulary, {}, "--vocab"),
    (vocabulary_of_text, {}, "vocab.ende.spm"),
    (no_cutter, {"numbered": True}, "source.spm"),
    (gaps_in_numbers, {"numbered": True}, "src.vocab.yml"),
    (words_like_dates, {"numbered": True}, "src.vocab.yml"),
    (compressed_otherwise, {}, "model.npz.*compression"),
    (changed({"encoder_l1_self_bq": np.full((1, 16), np.nan)}), {}, "self_attn_local.q_proj.bias are not all finite"),
    (changed(layer_normalization=True), {}, "layer-normalization"),
    (changed(transformer_ffn_depth=3), {}, "more than two matrices"),
    (changed(transformer_decoder_autoreg="rnn"), {}, "rnn gru"),
    (changed(transformer_decoder_autoreg="average-attention"), {}, "average-attention"),
    (changed(transformer_preprocess="d", transformer_postprocess="an"), {}, "preprocess"),
    (changed(transformer_postprocess_emb="nd"), {}, "norm on its embeddings"),
    (changed(transformer_train_position_embeddings=True), {}, "transformer-train-position-embeddings"),
    (changed(transformer_ffn_activation="tanh"), {}, "tanh"),
    (changed(type="amun"), {}, "amun"),
    (changed(enc_depth=3), {}, "encoder_l3_self_W"),
    (changed(dec_depth=1), {}, "decoder_l2_"),
    (changed(dim_emb=None), {}, "dim-emb"),
    (changed(dim_emb=8), {}, "model.npz.*size"),
    (lambda path: None, {"form": "int8", "embeddings": "none"}, "model.bin.*decoder_ff_logit_out_W"),
    (changed(transformer_dim_ffn=32), {}, "fc1.weight"),
    (changed({"decoder_ff_logit_out_b": np.zeros((1, 9))}), {}, "model.npz.*size"),
    (changed({"encoder_l1_self_bq": None}), {}, "encoder_l1_self_bq"),
    (changed({"decoder_l1_extra": np.zeros((2, 2))}), {}, "decoder_l1_extra"),
]
OF_FOLDERS = [  # found when the folder is given
    (text_instead, {"form": "bin"}, "holds neither"),
    (second_model, {}, "model.npz, second.bin|second.bin, model.npz"),
    (no_vocabulary, {}, "--vocab"),
    (changed(layer_normalization=True), {}, "layer-normalization"),
]
CASES = [*((*one, False) for one in WRONG), *((*one, True) for one in OF_FOLDERS)]


@pytest.mark.parametrize(("damage", "options", "words", "by_folder"), CASES)
def test_one_sentence_and_nothing_left(tmp_path, capsys, damage, options, words, by_folder):
    path = save(tmp_path / "given", **options).path
    damage(path)
    before = {one: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()}
    given = path.parent if by_folder else path
    assert model_convert([str(given), str(tmp_path / "out"), "-s", "en", "-t", "de"]) == 1
    message = only_error(capsys.readouterr().err)
    assert re.search(words, message), message
    assert {one: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()} == before
    assert [one.name for one in tmp_path.iterdir()] == ["given"]


def test_vocabularies_that_are_named(tmp_path):
    """In another folder, of both sides: the order says which is which; one too many is refused."""
    saved = save(tmp_path / "given", embeddings="none")
    files = [saved.path.parent / name for name in ("vocab.src.spm", "vocab.trg.spm")]
    moved = [file.rename(tmp_path / f"{number}.spm") for number, file in enumerate(files)]
    documents = [[([5, 6], [7, 8, 9])]]
    expected = Converted(saved, vocabulary=moved).scores(documents)
    (scores,) = expected[0]
    wanted = marian.log_softmax(saved.reference.logits([5, 6, 0], [7, 8, 9, 0]))[range(4), [7, 8, 9, 0]]
    assert np.abs(np.array(scores) - wanted).max() < 1e-8


def configure(path, models, *vocabularies):
    """Write a decoder's configuration of Marian."""
    path.write_text(yaml.safe_dump({"models": [models], "vocabs": [f"/somewhere/{one}" for one in vocabularies]}))


def test_vocabularies_of_two_models_in_one_folder(tmp_path, capsys):
    """Each has those of its own configuration; where that does not say it, they must be named."""
    saved = save(tmp_path / "given", embeddings="none")
    folder, ours = saved.path.parent, ("vocab.src.spm", "vocab.trg.spm")
    (folder / "another.npz").write_bytes(saved.path.read_bytes())
    configure(folder / "another.npz.decoder.yml", "another.npz", "vocab.trg.spm", "vocab.src.spm")
    (folder / "model.npz.yml").write_text("unrelated: true")

    def found(name: str = "model.npz") -> tuple[str, str]:
        model = read_sentence_model(folder / name, "en", "de", words_of)
        return model.source.pieces.name, model.target.pieces.name

    assert found() == ours  # by their names
    configure(folder / "config.yml", "model.npz", *ours)
    assert found() == ours
    for name in ("model.npz.orig.npz", "model.iter1000.npz"):  # of the same training
        (folder / name).write_bytes(saved.path.read_bytes())
        assert found(name) == ours
    configure(folder / "alternative.yml", "model.npz", *ours[::-1])
    assert model_convert([str(saved.path), str(tmp_path / "out"), "-s", "en", "-t", "de"]) == 1
    assert "different vocabularies" in only_error(capsys.readouterr().err)
    configure(folder / "model.npz.decoder.yml", "model.npz", *ours)
    assert found() == ours


@pytest.mark.parametrize("names", [("vocab.en.spm", "vocab.de.spm"), ("vocab.en.spm", "german.spm")])
def test_vocabularies_that_could_be_of_either_side(tmp_path, names, capsys):
    saved = save(tmp_path / "given", embeddings="none")
    for side, name in zip(("src", "trg"), names, strict=True):
        (saved.path.parent / f"vocab.{side}.spm").rename(saved.path.parent / name)
    assert model_convert([str(saved.path), str(tmp_path / "other"), "-s", "en", "-t", "de"]) == 1
    assert "Name both" in only_error(capsys.readouterr().err)


def test_gelu_of_older_versions(tmp_path, capsys):
    """It is an approximation that no layer here has."""
    path = save(tmp_path / "given", activation="gelu").path
    changed(version="v1.11.5 f00d10c7 2022-02-09")(path)
    assert model_convert([str(path), str(tmp_path / "out"), "-s", "en", "-t", "de"]) == 1
    assert "gelu" in only_error(capsys.readouterr().err)
    changed(version="v1.12.0 65bf82ff 2023-02-21")(path)
    assert model_convert([str(path), str(tmp_path / "out"), "-s", "en", "-t", "de"]) == 0


@pytest.fixture(scope="module")
def multilingual(tmp_path_factory) -> Converted:
    """With an output bias and SSRU, for two target languages."""
    return Converted(save(tmp_path_factory.mktemp("many") / "given", decoder="ssru", symbols=TOKENS, seed=17))


def reference_of(converted: Converted) -> marian.MarianReference:
    return marian.MarianReference(*marian.read_npz(converted.folder.parent / "model.npz"))


def test_a_language_token_in_front_of_every_sentence(multilingual, tmp_path, capsys):
    """Of documents that are translated; a language that there is no token for is refused."""
    folder, reference = multilingual.folder.parent, reference_of(multilingual)
    words = words_of(folder / "vocab.ende.spm")
    assert multilingual.manifest["settings"]["source_prefix"] == ">>de<<"
    cut = SentencePieces(folder / "vocab.ende.spm")
    sentences = ["abc def", "gg hah abc", "fed"]
    found = multilingual.translator.translate(sentences)
    rows = [[words.index(">>de<<"), *map(words.index, line.split())] for line in cut(sentences)]
    best = [reference.beam_search([*one, marian.EOS], 1, SEARCH["max_len_b"])[0] for one in rows]
    assert found == cut.join([" ".join(words[row] for row in one[:-1]) for one in best])
    other = [reference.beam_search([*one[1:], marian.EOS], 1, SEARCH["max_len_b"])[0] for one in rows]
    assert best != other
    assert model_convert([str(folder), str(tmp_path / "out"), "-s", "en", "-t", "fr"]) == 1
    assert "de, fr_BE" in only_error(capsys.readouterr().err) and not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def prepared(multilingual, tmp_path_factory):
    raw, draw = tmp_path_factory.mktemp("raw"), random.Random(2)
    for split, documents in {"train": 8, "dev": 2, "test": 2}.items():
        for lang in ("en", "de"):
            lines = [" ".join(draw.choices(["abc", "def", "gg", "hah", "feda"], k=4)) for _ in range(3 * documents)]
            lines = [one for number, line in enumerate(lines) for one in (["<d>"] * (number % 3 == 0) + [line])]
            (raw / f"concatenated_en2de_{split}_{lang}.txt").write_text("\n".join(lines) + "\n")
    output = raw / "prepared"
    line = [str(raw), str(output), f"--vocabulary={multilingual.folder}", "--workers=1"]
    assert prepare([*line, "-s", "en", "-t", "de"]) == 0
    return output


def test_prepared_text_is_the_models(multilingual, prepared):
    raw = (prepared.parent / "concatenated_en2de_test_en.txt").read_text().splitlines()
    cut = SentencePieces(multilingual.folder.parent / "vocab.ende.spm")
    wanted = [f"<s> >>de<< {pieces} </s>" for pieces in cut([line for line in raw if line != "<d>"])]
    assert "\n".join(wanted).split() == (prepared / "instances" / "test.en").read_text().split()
    assert ">>de<<" not in (prepared / "instances" / "test.de").read_text()
    for lang in ("en", "de"):
        theirs, ours = (Dictionary.load(str(folder / f"dict.{lang}.txt")).symbols for folder in (
            multilingual.folder, prepared / "bin"))  # fmt: skip
        assert theirs == ours


def test_training(multilingual, prepared, tmp_path):
    """One update on the CPU; its loss is the reference's, of words and ``</s>``; a loss over all symbols is refused."""
    line = [
        "train", prepared / "bin", "--task=translation_doc", "--arch=gtransformer", "--langs=en,de", "--cpu",
        "--source-lang=en", "--target-lang=de", "--optimizer=adam", "--lr=1e-12", "--max-tokens=4000", "--max-update=1",
        "--num-workers=0", "--no-progress-bar", "--log-format=json", "--no-epoch-checkpoints", "--dropout=0",
        f"--sentence-model={multilingual.folder}", "--encoder-ctxlayers=1", "--decoder-ctxlayers=1",
        "--cross-ctxlayers=1", "--label-smoothing=0.1",
    ]  # fmt: skip
    output = run(*line, "--criterion=fused_label_smoothed_cross_entropy", f"--save-dir={tmp_path}")
    found = re.findall(r'"valid_nll_loss": "([\d.]+)"', output)
    reference, cut = reference_of(multilingual), SentencePieces(multilingual.folder.parent / "vocab.ende.spm")
    words, costs = words_of(multilingual.folder.parent / "vocab.ende.spm"), []
    text = [(prepared.parent / f"concatenated_en2de_dev_{lang}.txt").read_text().splitlines() for lang in ("en", "de")]
    for source, target in zip(*([line for line in side if line != "<d>"] for side in text), strict=True):
        rows = [[words.index(word) for word in line.split()] for line in cut([source, target])]
        goal = [*rows[1], marian.EOS]
        logits = reference.logits([words.index(">>de<<"), *rows[0], marian.EOS], goal)
        costs += (-marian.log_softmax(logits)[range(len(goal)), goal] / np.log(2)).tolist()
    assert float(found[-1]) == pytest.approx(np.mean(costs), abs=1e-3)  # bits a word, three decimals
    message = only_error(run(*line, "--criterion=label_smoothed_cross_entropy", f"--save-dir={tmp_path}/2", status=1))
    assert "can never be predicted" in message


def test_exported_models_never_write_unk(multilingual, prepared, tmp_path):
    """As the directory that training began from, whatever the commands of training were."""
    manifest = export(Sources(prepared, multilingual.folder / "model.pt"), tmp_path / "exported", SearchOptions(), {})
    assert manifest["search"]["unkpen"] == 1000


def random_sample(converted: Converted, draw: random.Random):
    """A batch as the task has it: what is given, ``<s>`` and the language at the end, is no target."""
    target = converted.engine.target
    documents = [[random_rows(draw, len(converted.target)) for _ in range(count)] for count in (3, 1)]
    rows = [
        [t for one in document for t in (target.bos(), *(converted.target[row] for row in one), target.eos())]
        for document in documents
    ]
    width = max(map(len, rows))
    previous = torch.tensor([row + [target.pad()] * (width - len(row)) for row in rows])
    language = target.index("[de]")
    goal = torch.tensor([[*row[1:], language] + [target.pad()] * (width - len(row)) for row in rows])
    sources = [[random_rows(draw, len(converted.source)) for _ in range(count)] for count in (3, 1)]
    return {
        "net_input": converted.batch(sources) | {"prev_output_tokens": previous},
        "target": goal,
        "ntokens": int(goal.ne(target.pad()).sum()),
    }


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_is_fairseqs_over_what_can_be_predicted(multilingual, smoothing):
    model, task = multilingual.model, multilingual.engine.task
    target = multilingual.engine.target
    last = len(target) - 3  # [en], [de], <mask>
    sample = random_sample(multilingual, random.Random(4))
    logits = model(**sample["net_input"])[0]
    real = logits[sample["target"].ne(target.pad())]
    assert torch.isneginf(real[:, :2]).all() and torch.isneginf(real[:, last:]).all()
    assert torch.isfinite(real[:, 2:last]).all()
    counts = (sample["target"] >= 2) & (sample["target"] < last)
    lprobs = logits[..., 2:last].log_softmax(dim=-1)[counts]
    expected = label_smoothed_nll_loss(lprobs, sample["target"][counts].unsqueeze(1) - 2, smoothing)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    wanted = torch.autograd.grad(expected[0].sum(), parameters, allow_unused=True)
    criterion = FusedLabelSmoothedCrossEntropy(Namespace(target_dictionary=target), False, smoothing)
    loss, size, logs = criterion(model, task._counted(sample, model))
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    assert size == int(counts.sum())
    assert loss.item() == pytest.approx(expected[0].sum().item(), rel=1e-9)
    assert float(logs["nll_loss"]) == pytest.approx(expected[1].sum().item(), rel=1e-9)
    for one, other in zip(found, wanted, strict=True):
        assert (one is None) == (other is None)
        assert one is None or (one - other).abs().max() < 1e-9
