"""References for a translation of a prepared split, and the conversion of both sides to text.

The authors' release generates with ``--tokenizer moses --remove-bpe --sacrebleu``. Subwords are
joined. Then fairseq passes the string of a whole instance, with its separators, through sacremoses'
detokeniser, for translation and reference alike. Only then is it cut at the separators. Truecasing
is not undone. Detokenising before and after the cut
differs: quotation marks are counted in the whole instance, so a missing one inverts those of all
later sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, islice
from pathlib import Path

from gtransformer.data.dictionaries import RESERVED, dictionary_words
from gtransformer.data.instance_index import InstanceIndex, join
from gtransformer.data.languages import two_letters
from gtransformer.data.translations import TranslatedInstance, taken_from
from gtransformer.data.unspaced import bleu_tokenizer
from gtransformer.errors import UserError
from gtransformer.files import read_lines
from gtransformer.preprocess.chain import open_text, pieces_file
from gtransformer.preprocess.instances import END, split_instance
from gtransformer.preprocess.plain_text import Documents, read_plain
from gtransformer.preprocess.tokenisers import SPACE, remove_bpe_lines

RAW, INSTANCES = "text", "instances"  # folders of a prepared corpus
# fairseq's Dictionary.string(escape_unk=True): an unknown word of a reference matches nothing
UNKNOWN = "<<unk>>"


def find_instance_index(prepared: Path, split: str) -> Path:
    """Return the path of a split's instance index. Raises UserError, listing the existing splits,
    if there is none.
    """
    folder = prepared / "bin"
    paths = sorted(folder.glob(f"{split}.*-*.instances.json"))
    if len(paths) != 1:
        splits = ", ".join(sorted(path.name for path in folder.glob("*.instances.json")))
        raise UserError(
            f"{prepared}: not a prepared corpus with one split {split!r}; it has: {splits}"
        )
    return paths[0]


def read_side(prepared: Path, instance_index: InstanceIndex, lang: str) -> Documents:
    """Return one side of a split as documents of sentences, untouched text; the other side may be
    missing.
    """
    documents, _ = read_plain(prepared / RAW / f"{instance_index.split}.{lang}")
    return documents


def read_target_pieces(prepared: Path, instance_index: InstanceIndex) -> list[list[str]]:
    """Return the target side by instance, sentences of pieces as fairseq-generate reads them;
    unknown ones are ``UNKNOWN``.
    """
    target = instance_index.target_lang
    path = prepared / INSTANCES / f"{instance_index.split}.{target}"
    dictionary = prepared / "bin" / f"dict.{target}.txt"
    words = frozenset([*dictionary_words(dictionary), *RESERVED])
    instances = []
    for line in read_lines(path):
        pieces = [sentence.split() for sentence in split_instance(line)]
        instances.append(
            [" ".join(p if p in words else UNKNOWN for p in sentence) for sentence in pieces]
        )
    return instances


# raw: the translation as a reader sees it, plain text, against the untouched text. release: as the
# authors' release computed the paper's scores: truecasing kept on both sides, whole instances
# detokenised and then cut into sentences.
REFERENCES = ("raw", "release")


def raw_tokenizer(reference: Documents, tokenizer: str | None = None, lang: str = "") -> str:
    """Return sacrebleu's tokeniser for untouched text: the given one, else by language, else by the
    text's script.
    """
    return tokenizer or bleu_tokenizer(lang, chain.from_iterable(reference))


def render(
    name: str,
    prepared: Path,
    instance_index: InstanceIndex,
    translations: Sequence[TranslatedInstance],
    tokenizer: str | None = None,
) -> tuple[Documents, list[list[str]], str]:
    """Return both sides of a split as text, for the reference ``name`` of ``REFERENCES``.

    Args:
        tokenizer: sacrebleu's for the raw reference; the release's is 13a.

    Returns the reference as documents of sentences (empty if no instance has the sentence), every
    instance's translation as sentences, and sacrebleu's tokeniser for BLEU. Raises UserError if the
    reference's files are missing or do not match the instance index.
    """
    lang = instance_index.target_lang
    produced = [translation.hypothesis for translation in translations]
    if name == "raw":
        # All at once, as Moses' scripts require.
        lines = iter(open_text(prepared, lang).decode(list(chain.from_iterable(produced))))
        texts = [list(islice(lines, len(sentences))) for sentences in produced]
        reference = read_side(prepared, instance_index, lang)
        return reference, texts, raw_tokenizer(reference, tokenizer, lang)
    text = release_text(prepared, lang)
    pieces = join(instance_index, read_target_pieces(prepared, instance_index))
    current = []
    for translation in translations:  # the reference is detokenised in the translated instances
        first = translation.first_sentence
        instance = pieces[translation.document][first : first + translation.sentences]
        current.append(translation.taken(text(instance)))
    documents = join(taken_from(translations, instance_index), current)
    reference = [[sentence or "" for sentence in document] for document in documents]
    return reference, [text(sentences) for sentences in produced], "13a"


def release_text(prepared: Path, lang: str) -> Callable[[Sequence[str]], list[str]]:
    """Return a function from the subwords of an instance's sentences to the release's text.

    It always uses sacremoses, as the release does; as many sentences come out as go in. Scores of a
    corpus that Moses' rules did not tokenise only approximate the release's.
    """
    from sacremoses import MosesDetokenizer  # takes a second

    detokenise = MosesDetokenizer(two_letters(lang)).detokenize
    has_pieces = pieces_file(prepared)

    def instance(sentences: Sequence[str]) -> list[str]:
        joined = remove_bpe_lines(sentences)
        if has_pieces:  # as fairseq's --remove-bpe sentencepiece; byte pieces are kept
            joined = [text.replace(" ", "").replace(SPACE, " ").strip() for text in sentences]
        # The detokeniser treats </s> as any word, so the text can be cut there afterwards. A
        # sentence with that text itself, which no corpus has, must not be cut.
        words = [word for text in joined for word in (*text.replace(END, "").split(), END)]
        *parts, _ = detokenise(words).split(END)
        return [part.strip() for part in parts]

    return instance
