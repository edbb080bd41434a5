"""What a translation of a prepared split can be scored against, and how either side is made into text for that.

The names stand in tables and result files. Result files from before ``release`` existed have a score ``paper``: it is
what is ``tokenised`` here, and was never the authors' computation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gtransformer.data.sidecar import Sidecar, join
from gtransformer.data.translations import TranslatedInstance, taken_from
from gtransformer.evaluation.prepared_split import RAW, TOKENISED, read_target, read_target_pieces, references_available
from gtransformer.evaluation.release import ReleaseText
from gtransformer.evaluation.segments import Documents
from gtransformer.preprocess.bpe import remove_bpe_lines
from gtransformer.preprocess.postprocess import postprocessor_for
from gtransformer.preprocess.unspaced import bleu_tokenizer

REFERENCES = {
    "raw": "the translation as a reader sees it, plain text, against the untouched text",
    "release": "as the authors' release computed the paper's scores: truecasing kept on both sides, whole instances "
    "detokenised and then cut into sentences",
    "tokenised": "both sides tokenised and truecased, no tokeniser of sacrebleu's; not how the paper's were computed",
}
OLD_NAMES = {"paper": "tokenised"}  # in result files; on the command line ``paper`` is another word for ``release``
TOGETHER = ("raw", "release")  # "both"


@dataclass(frozen=True)
class Rendering:
    """Both sides of a split as text, for one reference.

    Attributes:
        reference: documents of sentences; an empty string for a sentence that no instance holds.
        hypotheses: the translation of every instance, sentences as they were produced.
        tokenizer: sacrebleu's, for BLEU.
        detokeniser: what has detokenised; None where nothing was.
    """

    reference: Documents
    hypotheses: list[list[str]]
    tokenizer: str
    detokeniser: str | None


def references_of(option: str) -> tuple[str, ...]:
    """The references that a value of the option ``--reference`` means."""
    return TOGETHER if option == "both" else (option,)


def reference_option(prepared: Path, split: str, target: str | None = None) -> str:
    """``both`` for a split that can be scored as the release did, else ``raw`` (``references_available``)."""
    return "both" if "release" in references_available(prepared, split, target) else "raw"


def raw_tokenizer(reference: Documents, wanted: str | None = None, lang: str = "") -> str:
    """sacrebleu's tokeniser for untouched text, unless one is wanted: by language, else by the script of the text."""
    return wanted or bleu_tokenizer(lang, (sentence for document in reference for sentence in document))


def render(
    name: str,
    prepared: Path,
    sidecar: Sidecar,
    translations: Sequence[TranslatedInstance],
    tokenizer: str | None = None,
    moses: str | None = None,
) -> Rendering:
    """Both sides for the reference ``name`` of ``REFERENCES``.

    Args:
        tokenizer: sacrebleu's for the raw reference; that of the others is part of their definition.
        moses: a folder with the Moses scripts that detokenise for the raw reference.

    Raises UserError where the corpus lacks what the reference is read from, or it is not the sidecar's.
    """
    lang, produced = sidecar.target_lang, [translation.hypothesis for translation in translations]
    if name == "raw":
        processor = postprocessor_for(prepared, lang, moses)
        texts = by_instance(produced, processor.plain_lines)
        reference = read_target(prepared, sidecar, RAW)
        return Rendering(reference, texts, raw_tokenizer(reference, tokenizer, lang), processor.name)
    if name == "tokenised":
        texts = by_instance(produced, remove_bpe_lines)
        return Rendering(read_target(prepared, sidecar, TOKENISED), texts, "none", None)
    text = ReleaseText(prepared, lang)
    pieces = join(sidecar, read_target_pieces(prepared, sidecar))
    wanted = []
    for translation in translations:  # the reference is detokenised by the instances that were translated
        first = translation.first_sentence
        instance = pieces[translation.document][first : first + translation.sentences]
        wanted.append(translation.taken(text.instance(instance)))
    documents = join(taken_from(translations, sidecar), wanted)
    reference = [[sentence or "" for sentence in document] for document in documents]
    return Rendering(reference, [text.instance(sentences) for sentences in produced], "13a", text.detokeniser)


def by_instance(instances: Sequence[Sequence[str]], finish: Callable[[Sequence[str]], list[str]]) -> list[list[str]]:
    """All sentences of all instances through ``finish`` (as many out as in) at once, which Moses' scripts need."""
    lines = iter(finish([sentence for sentences in instances for sentence in sentences]))
    return [[next(lines) for _ in sentences] for sentences in instances]
