"""The same text, the same instances (cut by source length), three commands: one translation.

fairseq-generate reads binarised instances, fairseq-interactive the same instances as lines,
gtransformer translate the plain text.
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest
from fairseq.data import Dictionary

from gtransformer.preprocess.chain import open_text
from gtransformer.preprocess.characters import clean_line
from gtransformer.preprocess.instances import instance_line, split_instance, write_instances
from tests.commands import run
from tests.hard_text import hard_lines
from tests.saved_model import MAX_INSTANCE_TOKENS, SHORT, make_model, on_cpu
from tests.support import read_jsonl, write_binary, write_lines

pytestmark = pytest.mark.slow

SEARCH = [
    f"--beam={SHORT.beam}",
    f"--max-len-a={SHORT.max_len_a}",
    f"--max-len-b={SHORT.max_len_b}",
    "--cpu",
]
TASK = ["--task=translation_doc", "--source-lang=en", "--target-lang=de", "--langs=en,de"]


@pytest.fixture(scope="module")
def text():
    """Documents of visible sentences, some longer than an instance."""
    documents: list[list[str]] = [[]]
    for line in hard_lines(80, longest=20, long_sentence=60):
        if "<d>" in line:
            continue
        if any(sign.isalnum() for sign in line):
            documents[-1].append(clean_line(line))
        elif documents[-1]:
            documents.append([])
    return [document for document in documents if document]


def hypotheses(output: str) -> list[list[str]]:
    """The words of fairseq's H lines in the order of their numbers, without the marks of
    sentences.
    """
    found = re.findall(r"^H-(\d+)\t[^\t]*\t(.*)$", output, re.MULTILINE)
    return [
        [word for word in line.split() if word not in ("<s>", "</s>")]
        for _, line in sorted((int(number), line) for number, line in found)
    ]


def binarise(instances: list[str], model: Path, folder: Path) -> None:
    """A test set without target in a folder with the model's dictionaries."""
    dictionary = Dictionary.load(str(model / "dict.en.txt"))
    for lang in ("en", "de"):
        (folder / f"dict.{lang}.txt").write_bytes((model / f"dict.{lang}.txt").read_bytes())
    # As fairseq-preprocess does, with a further </s>.
    rows = ([*map(dictionary.index, line.split()), dictionary.eos()] for line in instances)
    write_binary(folder / "test.en-de.en", rows, len(dictionary))


def written_sentences(folder: Path) -> list[list[str]]:
    """The sentences of every instance, as ``--gen-output`` has written them."""
    return [line["hypotheses"][0]["sentences"] for line in read_jsonl(folder / "out.jsonl")]


def plain(sentences: list[list[str]], model: Path) -> list[str]:
    return open_text(model, "de").decode(sum(sentences, []))


@pytest.mark.parametrize("strategy", ["full", "sequential"])
def test_documents_in_parts_are_translated_as_by_generate(text, tmp_path, strategy):
    """Parts of roughly equal length, not full ones and a rest, as greedy instances are; sentence by
    sentence, too.
    """
    saved = make_model(tmp_path, "--instances", "parts", "--instance-tokens", "40")
    encode = open_text(saved, "en").encode
    binarise([instance_line(encode(document)) for document in text], saved, tmp_path)
    way = [
        "--instances=parts",
        "--instance-tokens=40",
        f"--strategy={strategy}",
        "--max-tokens=500",
    ]
    path = f"--path={tmp_path / 'checkpoint.pt'}"
    run("generate", tmp_path, *TASK, path, *SEARCH, *way, f"--gen-output={tmp_path / 'out'}")
    written = written_sentences(tmp_path)
    assert len(written) > len(text) + 5
    translated = on_cpu(saved).translate(text, strategy=strategy)
    assert sum(translated, []) == plain(written, saved)


def test_generate_interactive_and_translate_agree(text, saved_model, tmp_path, monkeypatch):
    encode = open_text(
        saved_model, "en"
    ).encode  # a model directory has all that a prepared corpus gives to it
    lines = [line for document in text for line in ("<d>", *encode(document))]
    write_lines(tmp_path / "bpe.en", lines)
    write_instances(
        tmp_path / "bpe.en",
        tmp_path / "bpe.en",
        tmp_path,
        "test",
        ("en", "de"),
        MAX_INSTANCE_TOKENS,
    )
    instances = (tmp_path / "test.en").read_text(encoding="utf-8").split("\n")[:-1]
    assert len(instances) > len(text) + 5 and sum(map(len, text)) > 40
    binarise(instances, saved_model, tmp_path)
    given = [*TASK, f"--path={saved_model.parent / 'checkpoint.pt'}", *SEARCH]
    generated = run(
        "generate", tmp_path, *given, "--max-tokens=500", f"--gen-output={tmp_path / 'out'}"
    )
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in instances)))
    # The model directory itself serves fairseq as a data directory.
    interacted = run("interactive", saved_model, *given, "--buffer-size=30", "--max-tokens=300")
    assert hypotheses(interacted) == hypotheses(generated) and len(hypotheses(generated)) == len(
        instances
    )

    written = written_sentences(tmp_path)
    assert [len(sentences) for sentences in written] == [
        len(split_instance(line)) for line in instances
    ]
    translated = sum(on_cpu(saved_model).translate(text), [])
    assert translated == plain(written, saved_model) and len(set(translated)) > 20
