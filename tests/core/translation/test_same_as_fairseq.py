"""The same text, the same instances (cut by source length), three commands: one translation.

fairseq-generate reads binarised instances, fairseq-interactive the same instances as lines, gtransformer translate the
plain text. All run in this process, because each start of fairseq takes seconds; so no ``--user-dir`` is needed.
"""

from __future__ import annotations

import io
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary, indexed_dataset

from gtransformer.preprocess.chain import open_text
from gtransformer.preprocess.characters import clean_line
from gtransformer.preprocess.instances import instance_line, split_instance, write_instances
from gtransformer.translation.api import GTransformer
from tests.hard_text import hard_lines
from tests.saved_model import MAX_INSTANCE_TOKENS, SHORT, make_model

SEARCH = [f"--beam={SHORT.beam}", f"--max-len-a={SHORT.max_len_a}", f"--max-len-b={SHORT.max_len_b}", "--cpu"]
TASK = ["--task=translation_doc", "--source-lang=en", "--target-lang=de", "--langs=en,de"]


@pytest.fixture(scope="module")
def text():
    """Documents of visible sentences, some longer than an instance."""
    lines = [line for line in hard_lines(80, longest=20, long_sentence=60) if "<d>" not in line]
    documents: list[list[str]] = [[]]
    for line in lines:
        if any(sign.isalnum() for sign in line):
            documents[-1].append(clean_line(line))
        elif documents[-1]:
            documents.append([])
    return [document for document in documents if document]


@pytest.fixture(scope="module")
def instances(text, saved_model, tmp_path_factory):
    """The instance lines that the steps of gtransformer prepare make of the text, by source length."""
    folder = tmp_path_factory.mktemp("instances")
    encode = open_text(saved_model, "en").encode  # a model directory has all that a prepared corpus gives to it
    lines = [line for document in text for line in ("<d>", *encode(document))]
    (folder / "bpe.en").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    write_instances(folder / "bpe.en", folder / "bpe.en", folder, "test", ("en", "de"), MAX_INSTANCE_TOKENS)
    return (folder / "test.en").read_text(encoding="utf-8").split("\n")[:-1]


def run(module, monkeypatch, *arguments, stdin: str = "") -> str:
    """A command of fairseq in this process; what it printed."""
    output = io.StringIO()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", ["fairseq", *map(str, arguments)])
        patch.setattr(sys, "stdin", io.StringIO(stdin))
        patch.setattr(sys, "stdout", output)
        module.cli_main()
    return output.getvalue()


def hypotheses(output: str) -> list[str]:
    """fairseq's H lines in the order of their numbers; it prints neither <s> nor </s>."""
    found = re.findall(r"^H-(\d+)\t[^\t]*\t(.*)$", output, re.MULTILINE)
    return [text for _, text in sorted((int(number), text) for number, text in found)]


def binarise(instances: list[str], model: Path, folder: Path) -> None:
    """A test set without target in a folder with the model's dictionaries."""
    dictionary = Dictionary.load(str(model / "dict.en.txt"))
    for lang in ("en", "de"):
        (folder / f"dict.{lang}.txt").write_bytes((model / f"dict.{lang}.txt").read_bytes())
    prefix = str(folder / "test.en-de.en")
    builder = indexed_dataset.make_builder(f"{prefix}.bin", "mmap", vocab_size=len(dictionary))
    for line in instances:  # as fairseq-preprocess does, with a further </s>
        words = [dictionary.index(word) for word in line.split()]
        builder.add_item(torch.tensor([*words, dictionary.eos()], dtype=torch.int32))
    builder.finalize(f"{prefix}.idx")


def read_translations(prefix: Path) -> list[dict]:
    """What ``--gen-output`` has written."""
    lines = prefix.with_name(f"{prefix.name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["full", "sequential"])
def test_documents_in_parts_are_translated_as_by_generate(text, tmp_path, monkeypatch, strategy):
    """Parts of roughly equal length, not full ones and a rest, as greedy instances are; sentence by sentence, too."""
    from fairseq_cli import generate

    saved = make_model(tmp_path, "--instances", "parts", "--instance-tokens", "40")
    encode = open_text(saved, "en").encode
    binarise([instance_line(encode(document)) for document in text], saved, tmp_path)
    way = ["--instances=parts", "--instance-tokens=40", f"--strategy={strategy}", "--max-tokens=500"]
    output = tmp_path / "out"
    model = f"--path={tmp_path / 'checkpoint.pt'}"
    run(generate, monkeypatch, tmp_path, *TASK, model, *SEARCH, *way, f"--gen-output={output}")
    written = read_translations(output)
    assert len(written) > len(text) + 5
    sentences = [sentence for line in written for sentence in line["hypotheses"][0]["sentences"]]
    plain = open_text(saved, "de").decode(sentences)
    model = GTransformer.from_pretrained(saved, device="cpu")
    translated = model.translate(text, strategy=strategy)
    assert [sentence for document in translated for sentence in document] == plain
    model.directory = replace(model.directory, parts=False)
    assert model.translate(text, strategy=strategy) != translated, "greedy instances are others"


@pytest.mark.slow
def test_generate_interactive_and_translate_agree(text, instances, saved_model, tmp_path, monkeypatch):
    from fairseq_cli import generate, interactive

    assert len(instances) > len(text) + 5 and sum(map(len, text)) > 40
    binarise(instances, saved_model, tmp_path)
    model = f"--path={saved_model.parent / 'checkpoint.pt'}"
    output = tmp_path / "out"
    generated = run(
        generate, monkeypatch, tmp_path, *TASK, model, *SEARCH, "--max-tokens=500", f"--gen-output={output}"
    )
    typed = "".join(f"{line}\n" for line in instances)
    # The model directory itself serves fairseq as a data directory.
    interacted = run(
        interactive,
        monkeypatch,
        saved_model,
        *TASK,
        model,
        *SEARCH,
        "--buffer-size=30",
        "--max-tokens=300",
        stdin=typed,
    )
    assert hypotheses(interacted) == hypotheses(generated) and len(hypotheses(generated)) == len(instances)

    written = read_translations(output)
    sentences = [sentence for line in written for sentence in line["hypotheses"][0]["sentences"]]
    assert [len(line["hypotheses"][0]["sentences"]) for line in written] == [len(split_instance(i)) for i in instances]
    plain = open_text(saved_model, "de").decode(sentences)
    translated = GTransformer.from_pretrained(saved_model, device="cpu").translate(text)
    assert [sentence for document in translated for sentence in document] == plain
    assert len(set(plain)) > 20
