"""fairseq-generate: scores and errors."""

import re

from tests.commands import only_error, run

LIMITS = ["--max-len-a=1.2", "--max-len-b=3"]


def test_a_document_model_is_for_documents_and_its_own_direction(copier):
    """Without --task it would translate sentence by sentence, and with -s and -t exchanged words of no language."""
    given = [copier.corpus / "bin", f"--path={copier.checkpoint}", *LIMITS, "--cpu"]
    said = only_error(run("generate", *given, "--source-lang=en", "--target-lang=de", status=1))
    assert said == "--task translation: the model is for documents; give --task translation_doc"
    exchanged = ["--task=translation_doc", "--langs=en,de", "--source-lang=de", "--target-lang=en"]
    said = only_error(run("generate", *given, *exchanged, status=1))
    assert "--source-lang de: the model was trained with en" in said
    # The options of the release.
    plain = ["--task=translation_doc", "--langs=en,de", "--source-lang=en", "--target-lang=de"]
    plain += ["--tokenizer=moses", "--remove-bpe", "--sacrebleu", "--beam=3"]
    output = run("generate", *given, *plain)
    assert "[document-level] Generate test with beam=3: BLEU = 100.00, " in output
    # No sentence has four words.
    assert re.search(r"^Generate test with beam=3: BLEU = 0\.00, 100\.0/100\.0/100\.0/0\.0 ", output, re.M)
