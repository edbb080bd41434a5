"""A model that plain fairseq trained on sentences goes on as a document model: text, training,
translation.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq.data import Dictionary

from gtransformer.files import read_json
from gtransformer.preprocess.chain import open_text
from gtransformer.preprocess.tokenisers import Moses
from tests.commands import GENERATION, only_error, run
from tests.raw_corpus import write_documents
from tests.support import command, read_jsonl, write_binary

prepare = command("prepare")


pytestmark = pytest.mark.slow

WORDS = {
    "en": "the old house is green and Anna sees it",
    "de": "das alte Haus ist grün und Anna sieht es",
}
COMMON = (
    "--optimizer adam --lr-scheduler fixed --cpu --no-progress-bar --num-workers 0 --seed 1 "
    "--source-lang en "
    "--target-lang de --max-tokens 400 --no-epoch-checkpoints"
).split()
FUSED = ["--criterion=fused_label_smoothed_cross_entropy", "--label-smoothing=0.1"]


def sentences(lang: str, count: int, draw: random.Random) -> list[str]:
    """Such as ``It "sees" the well-known house.``, each with what fairseq's examples escape and set
    apart.
    """
    words = WORDS[lang].split()
    return [
        f'{draw.choice(words)} "{draw.choice(words)}" {draw.choice(words)}-{words[1]}.'
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def given(tmp_path_factory) -> Path:
    """A folder as fairseq publishes its models: ``model.pt``, two dictionaries, ``bpecodes`` of
    fastBPE.
    """
    folder, draw = tmp_path_factory.mktemp("given"), random.Random(1)
    (folder / "bpecodes").write_text("e n</w> 20\ns e 10\nh o 9\n", encoding="utf-8")
    (folder / "bpe.codes").write_text("#version: 0.2\ne n</w>\ns e\nh o\n", encoding="utf-8")
    cut = {
        lang: Moses(lang, codes=folder / "bpe.codes", escaped=True).split(sentences(lang, 40, draw))
        for lang in WORDS
    }
    for lang, lines in cut.items():
        dictionary = Dictionary()
        for line in lines:
            dictionary.encode_line(line, add_if_not_exist=True)
        dictionary.finalize()
        dictionary.save(str(folder / f"dict.{lang}.txt"))
        for split in ("train", "valid"):
            some = lines[:: 1 if split == "train" else 5]
            rows = (dictionary.encode_line(line, add_if_not_exist=False).tolist() for line in some)
            write_binary(folder / f"{split}.en-de.{lang}", rows, len(dictionary))
    run(
        "train", folder, "--task=translation", "--arch=transformer", *COMMON, *FUSED, "--lr=1e-3",
        "--max-update=3",
        *(f"--{side}-{name}" for side in ("encoder", "decoder") for name in (
            "embed-dim=16", "ffn-embed-dim=24", "layers=2", "attention-heads=2",
            "normalize-before")),
        f"--save-dir={folder}",
    )  # fmt: skip
    (folder / "checkpoint_last.pt").rename(folder / "model.pt")
    return folder


@pytest.fixture(scope="module")
def prepared(given, tmp_path_factory) -> Path:
    """Documents, cut as the model's own text was."""
    raw, draw = tmp_path_factory.mktemp("raw"), random.Random(2)
    for split, documents in {"train": 12, "dev": 3, "test": 2}.items():
        for lang in WORDS:
            texts = [sentences(lang, 3, draw) for _ in range(documents)]
            write_documents(raw / f"concatenated_en2de_{split}_{lang}.txt", texts)
    output = raw / "prepared"
    options = [f"--bpe-codes={given / 'bpecodes'}", f"--dictionary={given}", "--workers=1"]
    assert prepare([str(raw), str(output), *options]) == 0
    return output


def taken_over(parameters, name: str) -> torch.Tensor | None:
    """A sentence model's parameter among those of a document model, if there; what neutral gates
    halve is doubled.
    """
    ours = name.replace("self_attn.", "self_attn_local.").replace(
        "encoder_attn.", "encoder_attn_local."
    )
    found = parameters.get(ours)
    block, _, projection = name.partition(".out_proj.")
    return found / 2 if projection and f"{block}_gate.0.bias" in parameters else found


def test_text_is_the_models(given, prepared):
    """Tokens as its dictionaries have them, none unknown for its own words; new symbols at the end;
    and back again.
    """
    manifest = read_json(prepared / "manifest.json")
    for lang in WORDS:
        words = Dictionary.load(str(given / f"dict.{lang}.txt")).symbols
        assert Dictionary.load(str(prepared / "bin" / f"dict.{lang}.txt")).symbols == [
            *words,
            "[en]",
            "[de]",
            "<mask>",
        ]
        assert (
            manifest["splits"]["test"]["unknown_tokens"][lang]
            < manifest["splits"]["test"]["tokens"][lang] / 20
        )
        raw = (
            (prepared.parent / f"concatenated_en2de_test_{lang}.txt").read_text().splitlines()[1:4]
        )
        cut = (prepared / "instances" / f"test.{lang}").read_text().splitlines()[0]
        parts = [part.strip().removesuffix("</s>").strip() for part in cut.split("<s>")[1:]]
        assert open_text(prepared, lang).encode(raw) == parts
        assert open_text(prepared, lang).decode(parts) == raw
    assert not list(prepared.glob("truecase.*"))


def test_pieces_are_those_of_the_dictionary(given, tmp_path, prepared, capsys):
    """Text is cut as far as it needs, as a corpus and as new text; what has no pieces at all is
    said.
    """
    folder, raw = tmp_path / "given", tmp_path / "raw"
    shutil.copytree(given, folder)
    (folder / "bpecodes").write_text(
        "e n</w> 20\ns e 10\nh o 9\nho u 8\nse e</w> 7\n", encoding="utf-8"
    )
    raw.mkdir()
    for path in prepared.parent.glob("concatenated_*"):
        more = (
            ("Щука.\n" if path.name.endswith("_de.txt") else "A.\n") * 9
            if "_test_" in path.name
            else ""
        )
        (raw / path.name).write_text(path.read_text(encoding="utf-8") + more, encoding="utf-8")
    options = [f"--bpe-codes={folder / 'bpecodes'}", f"--dictionary={folder}", "--workers=1"]
    assert prepare([str(raw), str(tmp_path / "out"), *options]) == 0
    warned = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
    assert len(warned) == 1 and warned[0].startswith("warning: test, de: ")
    for name in ("train.en", "train.de"):
        found, before = (
            (folder / "instances" / name).read_text() for folder in (tmp_path / "out", prepared)
        )
        assert found == before, "as by the model's own codes, whose pieces the dictionary has"
    lines = [
        line
        for line in (raw / "concatenated_en2de_train_en.txt").read_text().splitlines()
        if line != "<d>"
    ]
    assert open_text(tmp_path / "out", "en").encode(lines) == open_text(prepared, "en").encode(
        lines
    )


def test_training_goes_on_from_it_and_translates(given, prepared, tmp_path, capsys):
    """One option; the command resumes; with a rate of nothing, the first update leaves what the
    sentence model knew.
    """
    line = [
        "train", prepared / "bin", "--task=translation_doc", "--arch=gtransformer",
        "--langs=en,de", *COMMON, *FUSED,
        f"--sentence-model={given / 'model.pt'}", f"--save-dir={tmp_path}", "--encoder-ctxlayers=1",
        "--decoder-ctxlayers=1", "--cross-ctxlayers=1", "--doc-noise-mask=0.1",
    ]  # fmt: skip
    other = run(*line, "--criterion=label_smoothed_cross_entropy", "--lr=1", status=1)
    assert "fused_label_smoothed_cross_entropy" in only_error(other)
    output = run(*line, "--lr=1e-12", "--max-update=1")
    assert "initialised from a Transformer" in output
    last = tmp_path / "checkpoint_last.pt"
    before, after = torch.load(given / "model.pt")["model"], torch.load(last)["model"]
    for name, value in before.items():
        assert torch.allclose(taken_over(after, name)[: len(value)], value, atol=1e-9), name
    assert (
        len(after["decoder.output_projection.weight"])
        == len(before["decoder.output_projection.weight"]) + 3
    )
    again = run(*line, "--lr=1e-3", "--max-update=3")
    assert "@ 1 updates" in again and "initialised from a Transformer" not in again

    (model,), _, _ = load_model_ensemble_and_task(
        [str(last)], arg_overrides={"data": str(prepared / "bin")}
    )
    assert model.decoder.predictable == (0, len(before["decoder.output_projection.weight"]))
    output = f"--gen-output={tmp_path / 'test'}"
    run("generate", prepared / "bin", *GENERATION, f"--path={last}", output, "--max-len-b=5")
    instances = read_jsonl(tmp_path / "test.jsonl")
    assert sum(len(one["hypotheses"][0]["sentences"]) for one in instances) == 6
