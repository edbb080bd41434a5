"""fairseq-generate and fairseq-interactive: the same translations; errors."""

import re

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
