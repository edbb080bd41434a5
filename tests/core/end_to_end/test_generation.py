"""fairseq-generate and fairseq-interactive: the same translations, n-best, sampling, prefixes, ensembles, errors."""

import json
import re
import shutil

import pytest

from tests.commands import GENERATION, only_error, run

LIMITS = ["--max-len-a=1.2", "--max-len-b=3"]


def hypotheses(output):
    """Text by instance: fairseq's H lines, in the order printed."""
    found = {}
    for number, text in re.findall(r"^H-(\d+)\t[^\t]*\t(.*)$", output, re.MULTILINE):
        found.setdefault(int(number), []).append(text)
    return found


def test_interactive_translates_like_generate(copier):
    generated = hypotheses(run("generate", copier.corpus / "bin", *GENERATION, f"--path={copier.checkpoint}", *LIMITS))
    typed = (copier.corpus / "test.en").read_text(encoding="utf-8")
    output = run(
        "interactive", copier.corpus / "bin", *GENERATION, f"--path={copier.checkpoint}", *LIMITS, "--buffer-size=20",
        "--batch-size=20", input=typed,
    )  # fmt: skip
    assert len(generated) == 20
    assert hypotheses(output) == generated
    # fairseq prints neither <s> nor </s>; --gen-output keeps the sentences apart.
    assert [generated[number] for number in range(20)] == [[" ".join(document)] for document in copier.sentences()]


def test_one_sentence_a_line_with_prepend_bos(copier):
    line = ["interactive", copier.corpus / "bin", *GENERATION, f"--path={copier.checkpoint}", *LIMITS]
    output = run(*line, "--prepend-bos", input="w3 w5 w1\n")
    assert hypotheses(output) == {0: ["w3 w5 w1"]}
    output = run(*line, input="w3 w5 w1\n<s> w2 w4 </s>\n")
    assert hypotheses(output) == {0: ["w3 w5 w1"], 1: ["w2 w4"]}
    assert output.count("does not begin with <s> and is taken as one sentence: write every sentence as") == 1


@pytest.mark.parametrize("options", [["--prefix-size=4", "--nbest=3"], ["--sampling", "--beam=2", "--nbest=2"]])
def test_options_keep_the_constraint(copier, options, tmp_path):
    """With an ensemble of two, n-best lists, prefix tokens and sampling."""
    shutil.copy(copier.checkpoint, tmp_path / "other.pt")
    run(
        "generate", copier.corpus / "bin", *GENERATION, f"--path={copier.checkpoint}:{tmp_path / 'other.pt'}", *LIMITS,
        f"--gen-output={tmp_path / 'out'}", *options,
    )  # fmt: skip
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    nbest = int(options[-1][-1])
    assert len(lines) == 20
    for line, document in zip(lines, copier.sentences(), strict=True):
        assert len(line["hypotheses"]) == nbest
        for hypothesis in line["hypotheses"]:
            assert len(hypothesis["sentences"]) == len(document)


def test_a_document_model_is_for_documents_and_its_own_direction(copier):
    """Without --task it would translate sentence by sentence, and with -s and -t exchanged words of no language."""
    given = [copier.corpus / "bin", f"--path={copier.checkpoint}", *LIMITS, "--cpu"]
    said = only_error(run("generate", *given, "--source-lang=en", "--target-lang=de", status=1))
    assert said == "--task translation: the model is for documents; give --task translation_doc"
    exchanged = ["--task=translation_doc", "--langs=en,de", "--source-lang=de", "--target-lang=en"]
    said = only_error(run("generate", *given, *exchanged, status=1))
    assert said.startswith("the model translates en-de, and this is to be de-en (--source-lang, --target-lang); ")
    # The release's command, without languages: these are those of the data.
    plain = ["--task=translation_doc", "--langs=en,de", "--tokenizer=moses", "--remove-bpe", "--sacrebleu", "--beam=3"]
    assert re.search(r"^Generate test with beam=3: BLEU = 100\.00 .*hyp_len = ", run("generate", *given, *plain), re.M)
