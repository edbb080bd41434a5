"""What a translation of a prepared split can be scored against, and how either side is made into text for that.

The names stand in tables and result files. Result files from before ``release`` existed have a score ``paper``: it is
what is ``tokenised`` here, and was never the authors' computation.

The authors' release generates with ``--tokenizer moses --remove-bpe --sacrebleu``: subwords are joined, the string of a
whole instance, its separators among the words, goes through sacremoses' detokeniser as fairseq calls it, translation
and reference alike, and only then is it cut at the separators. Truecasing is not undone. Detokenising is not the same
before and after the cut: quotation marks are counted through the whole instance, so that one that is missing turns
those of all later sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gtransformer.data.instance_index import InstanceIndex, join
from gtransformer.data.translations import TranslatedInstance, taken_from
from gtransformer.data.unspaced import bleu_tokenizer
from gtransformer.evaluation.prepared_split import (
    TOKENISED,
    find_instance_index,
    read_side,
    read_target_pieces,
    release_files,
)
from gtransformer.preprocess.bpe import remove_bpe_lines
from gtransformer.preprocess.chain import is_exact, postprocessor_for
from gtransformer.preprocess.instances import END
from gtransformer.preprocess.pieces import SENTENCEPIECE_FILE
from gtransformer.preprocess.plain_text import Documents
from gtransformer.preprocess.tokenise import sacremoses
from gtransformer.preprocess.truecase import without_marks

REFERENCES = {
    "raw": "the translation as a reader sees it, plain text, against the untouched text",
    "release": "as the authors' release computed the paper's scores: truecasing kept on both sides, whole instances "
    "detokenised and then cut into sentences",
    "tokenised": "both sides tokenised and truecased, no tokeniser of sacrebleu's; not how the paper's were computed",
}
OLD_NAMES = {"paper": "tokenised"}  # in result files; on the command line ``paper`` is another word for ``release``
TOGETHER = ("raw", "release")  # "both"


def reference_option(prepared: Path, split: str, target: str | None = None) -> str:
    """Return ``both`` for a split that can be scored as the release did, else ``raw``.

    ``target``: the target language as the corpus calls it; None for that of the split's instance index.
    """
    target = target or InstanceIndex.load(find_instance_index(prepared, split)).target_lang
    return "both" if all(path.is_file() for path in release_files(prepared, split, target)) else "raw"


def raw_tokenizer(reference: Documents, wanted: str | None = None, lang: str = "") -> str:
    """sacrebleu's tokeniser for untouched text, unless one is wanted: by language, else by the script of the text."""
    return wanted or bleu_tokenizer(lang, (sentence for document in reference for sentence in document))


def render(
    name: str,
    prepared: Path,
    instance_index: InstanceIndex,
    translations: Sequence[TranslatedInstance],
    tokenizer: str | None = None,
    moses: str | None = None,
) -> tuple[Documents, list[list[str]], str, str | None]:
    """Both sides of a split as text, for the reference ``name`` of ``REFERENCES``.

    Args:
        tokenizer: sacrebleu's for the raw reference; that of the others is part of their definition.
        moses: a folder with the Moses scripts that detokenise for the raw reference.

    Returns the reference as documents of sentences (empty for one that no instance holds); the translation of every
    instance, sentences as they were produced; sacrebleu's tokeniser for BLEU; and what has detokenised, if anything.
    Raises UserError where the corpus lacks what the reference is read from, or it is not the instance index's.
    """
    lang, produced = instance_index.target_lang, [translation.hypothesis for translation in translations]
    if name == "raw":
        processor = postprocessor_for(prepared, lang, moses)
        texts = by_instance(produced, processor.plain_lines)
        reference = read_side(prepared, instance_index, lang)
        return reference, texts, raw_tokenizer(reference, tokenizer, lang), processor.name
    if name == "tokenised":
        return (
            read_side(prepared, instance_index, lang, TOKENISED),
            by_instance(produced, remove_bpe_lines),
            "none",
            None,
        )
    text = ReleaseText(prepared, lang)
    pieces = join(instance_index, read_target_pieces(prepared, instance_index))
    wanted = []
    for translation in translations:  # the reference is detokenised by the instances that were translated
        first = translation.first_sentence
        instance = pieces[translation.document][first : first + translation.sentences]
        wanted.append(translation.taken(text.instance(instance)))
    documents = join(taken_from(translations, instance_index), wanted)
    reference = [[sentence or "" for sentence in document] for document in documents]
    return reference, [text.instance(sentences) for sentences in produced], "13a", text.detokeniser


def by_instance(instances: Sequence[Sequence[str]], finish: Callable[[Sequence[str]], list[str]]) -> list[list[str]]:
    """Return all sentences of all instances through ``finish`` (as many out as in) at once, which Moses' scripts need."""
    lines = iter(finish([sentence for sentences in instances for sentence in sentences]))
    return [[next(lines) for _ in sentences] for sentences in instances]


class ReleaseText:
    """Turns the pieces of instances of a prepared corpus into the release's text.

    Always sacremoses', whatever MOSES says: that is what the release calls. ``lang`` is the target language as the
    corpus has it; mBART's ``de_DE`` is ``de``. What other rules than Moses' have put into a corpus's tokens goes first;
    its scores are near the release's only.
    """

    detokeniser = "sacremoses"

    def __init__(self, prepared: str | Path, lang: str):
        self._pieces = (Path(prepared) / SENTENCEPIECE_FILE).is_file()
        self._exact = not self._pieces and is_exact(prepared)
        self._detokenise = sacremoses().MosesDetokenizer(lang.partition("_")[0]).detokenize

    def instance(self, sentences: Sequence[str]) -> list[str]:
        """Return the sentences of one instance, subwords as the model writes them, as many as went in."""
        if self._pieces:  # as fairseq's --remove-bpe sentencepiece; bytes stay as they are written
            from fairseq.data import data_utils  # here, since it loads PyTorch

            joined = [data_utils.post_process(sentence, "sentencepiece") for sentence in sentences]
        else:
            joined = remove_bpe_lines(sentences)
        if self._exact:
            joined = [without_marks(line) for line in joined]
        return cut_when_detokenised(joined, self._detokenise)


def cut_when_detokenised(sentences: Sequence[str], detokenise: Callable[[list[str]], str]) -> list[str]:
    """Return the sentences of one instance, detokenised together: as many come back as went in.

    Args:
        sentences: words separated by spaces, without ``<s>`` and ``</s>``.
        detokenise: a list of words to a text.

    ``</s>`` stands behind every sentence as a word of its own, an ordinary one to the detokeniser, and the text is cut
    there; blanks at the cuts go. Where a sentence holds that text itself, another mark of its kind is taken.
    """
    number, mark = 0, END
    while True:
        words = [word for sentence in sentences for word in (*sentence.split(), mark)]
        *parts, _ = detokenise(words).split(mark)
        if len(parts) == len(sentences):
            return [part.strip() for part in parts]
        number += 1
        mark = f"{END[:-1]}{number}{END[-1]}"
