"""s-BLEU and d-BLEU of the translations of a prepared split (paper, appendix A).

Two references:

* ``raw``: the hypothesis, with BPE removed, detruecased and detokenised, against the text as it was before any
  preprocessing (``text/{split}.{lang}``). What a reader of the translation sees, hence the default.
* ``paper``: the hypothesis with BPE removed, against the tokenised and truecased text (``tok/{split}.{lang}``), without
  any further tokenisation: what the authors' release scored, comparable with the paper's tables only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.evaluation.bleu import BleuScore, corpus_bleu, document_segments, sentence_segments
from gtransformer.evaluation.translations import Translation, align_sentences, read_translations
from gtransformer.files import sha256
from gtransformer.preprocess.bpe import remove_bpe_lines
from gtransformer.preprocess.corpus import read_documents
from gtransformer.preprocess.postprocess import postprocessor_for
from gtransformer.preprocess.sidecar import Sidecar, join

REFERENCES = ("raw", "paper")
# Languages whose words are not separated by spaces need another tokeniser than sacrebleu's default.
TOKENIZERS = {"zh": "zh", "ja": "char", "ko": "char", "th": "char"}

Documents = list[list[str]]


@dataclass
class Scores:
    """The three BLEU scores against one reference, and the hypothesis as it was scored (documents of sentences)."""

    s_bleu: BleuScore
    d_bleu: BleuScore
    d_bleu_instance: BleuScore
    documents: Documents = field(repr=False)

    def to_json(self) -> dict:
        """The scores as a JSON object, without the text."""
        return {name: getattr(self, name).to_json() for name in ("s_bleu", "d_bleu", "d_bleu_instance")}


@dataclass
class Evaluation:
    """Scores against each reference asked for, and what was counted on the way."""

    split: str
    source_lang: str
    target_lang: str
    counts: dict[str, int]
    scores: dict[str, Scores]
    hypotheses: Path
    checksum: str
    detokeniser: str | None

    def to_json(self) -> dict:
        """The evaluation as a JSON object."""
        return {
            "version": 1,
            "split": self.split,
            "source_lang": self.source_lang,
            "target_lang": self.target_lang,
            "hypotheses": str(self.hypotheses),
            "hypotheses_sha256": self.checksum,
            "detokeniser": self.detokeniser,
            "counts": self.counts,
            "scores": {reference: scores.to_json() for reference, scores in self.scores.items()},
        }


def find_sidecar(prepared: Path, split: str) -> Path:
    """The sidecar of ``split`` in a prepared corpus; UserError, naming the splits there are, if it has none."""
    folder = prepared / "bin"
    if not folder.is_dir():
        raise UserError(f"{prepared}: not a prepared corpus (no folder bin in it); make one with scripts/prepare.sh")
    found = sorted(folder.glob(f"{split}.*-*.instances.json"))
    if not found:
        splits = sorted({path.name.split(".")[0] for path in folder.glob("*.instances.json")})
        raise UserError(f"{prepared}: no split {split!r}; it has: {', '.join(splits) or 'none'}")
    if len(found) > 1:
        raise UserError(
            f"{folder}: several language pairs for {split!r} ({', '.join(p.name for p in found)}); keep one"
        )
    return found[0]


def read_reference(folder: Path, sidecar: Sidecar) -> Documents:
    """The target side of a split, documents of sentences; UserError if its documents are not those of the sidecar."""
    source, target = (folder / f"{sidecar.split}.{lang}" for lang in (sidecar.source_lang, sidecar.target_lang))
    documents = [[pair[1] for pair in document] for document in read_documents(source, target)]
    expected = [len(document) for document in join(sidecar, [[""] * count for *_, count in sidecar.instances])]
    if [len(document) for document in documents] != expected:
        raise UserError(
            f"{target}: {len(documents)} documents of {sum(map(len, documents))} sentences, but the sidecar of "
            f"{sidecar.split} has {len(expected)} of {sum(expected)}; prepare the corpus again"
        )
    return documents


def score_translations(
    prepared: str | Path,
    split: str,
    hypotheses: str | Path,
    references: Sequence[str] = ("raw",),
    tokenizer: str | None = None,
    moses: str | None = None,
) -> Evaluation:
    """Score the translations ``hypotheses`` (``PREFIX.jsonl``) of ``split`` of a prepared corpus.

    ``references`` are names from ``REFERENCES``; ``tokenizer`` is sacrebleu's for the raw reference (default: by target
    language, 13a for most); ``moses`` a folder with the Moses scripts, if detokenisation shall be theirs.

    s-BLEU of a translation with another number of sentences than its source is taken after aligning by order
    (``align_sentences``); ``counts["misaligned_instances"]`` says how many there were. d-BLEU uses the sentences as
    they are. Sentences that no instance holds are left out of hypothesis and reference
    (``counts["left_out_sentences"]``). Raises UserError for every mismatch between translations, sidecar and
    reference.
    """
    prepared = Path(prepared)
    sidecar = Sidecar.load(find_sidecar(prepared, split))
    translations = read_translations(hypotheses, sidecar)
    scores, detokeniser = {}, None
    for name in dict.fromkeys(references):
        if name == "raw":
            postprocessor = postprocessor_for(prepared, sidecar.target_lang, moses)
            finish, detokeniser = postprocessor.plain_lines, postprocessor.name
            folder, used = "text", tokenizer or TOKENIZERS.get(sidecar.target_lang.partition("_")[0], "13a")
        elif name == "paper":
            finish = remove_bpe_lines
            folder, used = "tok", "none"
        else:
            raise UserError(f"unknown reference {name!r}; choose from: {', '.join(REFERENCES)}")
        reference = read_reference(prepared / folder, sidecar)
        scores[name] = _score(translations, sidecar, reference, finish, used)
    counts = {
        "documents": sidecar.documents,
        "instances": len(translations),
        "sentences": sum(translation.sentences for translation in translations),
        "left_out_sentences": len(sidecar.dropped),
        "misaligned_instances": sum(translation.misaligned for translation in translations),
    }
    return Evaluation(
        split,
        sidecar.source_lang,
        sidecar.target_lang,
        counts,
        scores,
        Path(hypotheses),
        sha256(hypotheses),
        detokeniser,
    )


def _score(
    translations: Sequence[Translation],
    sidecar: Sidecar,
    reference: Documents,
    finish: Callable[[Sequence[str]], list[str]],
    tokenizer: str,
) -> Scores:
    """Score one rendering (``finish``: lines of BPE to as many lines of text) of the translations against one
    reference.
    """
    lines = iter(finish([sentence for translation in translations for sentence in translation.hypothesis]))
    finished = [[next(lines) for _ in translation.hypothesis] for translation in translations]
    aligned = [
        align_sentences(text, translation.sentences) for text, translation in zip(finished, translations, strict=True)
    ]
    placed = join(sidecar, aligned)
    hypothesis = [[sentence for sentence in document if sentence is not None] for document in placed]
    wanted = [
        [sentence for sentence, place in zip(document, places, strict=True) if place is not None]
        for document, places in zip(reference, placed, strict=True)
    ]
    # Instances of a document in their order, so that its text is whole again: with sentences as they were produced.
    whole: list[list[tuple[int, list[str]]]] = [[] for _ in reference]
    for (document, first, _), text in zip(sidecar.instances, finished, strict=True):
        whole[document].append((first, text))
    produced = [[s for _, text in sorted(parts, key=lambda part: part[0]) for s in text] for parts in whole]
    filled = [number for number, document in enumerate(wanted) if document]
    return Scores(
        s_bleu=corpus_bleu(sentence_segments(hypothesis), sentence_segments(wanted), tokenizer),
        d_bleu=corpus_bleu(
            document_segments([produced[number] for number in filled]),
            document_segments([wanted[number] for number in filled]),
            tokenizer,
        ),
        d_bleu_instance=corpus_bleu(
            document_segments(finished),
            document_segments([reference[d][first : first + count] for d, first, count in sidecar.instances]),
            tokenizer,
        ),
        documents=[[sentence or "" for sentence in document] for document in placed],
    )
