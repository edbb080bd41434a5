"""What is augmented: the share of a shard, nothing that is held out; what comes back from a translation."""

from __future__ import annotations

from pathlib import Path

import pytest

from gtransformer.errors import UserError
from gtransformer.preprocess.augment import (
    HeldOut,
    Selection,
    fingerprint,
    read_translated,
    select,
    with_observed_words,
)
from gtransformer.preprocess.observed import GAP, SEPARATOR, random_numbers, with_observed
from tests.raw_corpus import write_documents

LONG = ["The river near the house is old.", "Mary finds a red book there.", "She reads until the evening comes."]
SHORT = ["Yes.", "No, thanks.", "Good!"]
OTHER = [f"This is sentence number {number} of something else." for number in range(12)]
PAGE = [f"Nobody else has written the {number}th one of these." for number in range(8)]
OTHER_PAGE = [f"The other page has {number} more sentences like this." for number in range(9)]
COMMON = [f"Click the button {name} to continue." for name in ("Next", "Back", "Help")]
TEXT = [[f"Sentence {one} of document {number} is here." for one in range(number % 3 + 1)] for number in range(11)]


@pytest.fixture
def corpus(tmp_path) -> Path:
    """A raw corpus whose test set has a long and a short document and two pages, the dev set another."""
    folder = tmp_path / "corpus"
    for split, documents in (
        ("test", [LONG, SHORT, PAGE + COMMON, COMMON + OTHER_PAGE]),
        ("dev", [["Some other text stands in the dev set."]]),
    ):
        write_documents(folder / f"concatenated_en2de_{split}_en.txt", documents)
        upper = [[f"Übersetzt: {sentence}" for sentence in document] for document in documents]
        write_documents(folder / f"concatenated_en2de_{split}_de.txt", upper)
    return folder


@pytest.fixture
def held_out(corpus) -> HeldOut:
    return HeldOut([corpus], ("en", "de"))


@pytest.mark.parametrize(
    ("sentences", "found"),
    [
        (LONG, "it is document 1 of the test set"),
        ([f"Übersetzt: {sentence}" for sentence in LONG], "it is document 1 of the test set"),
        (SHORT, "it is document 2 of the test set"),
        (
            ["some other text", "stands in the  DEV SET."],
            "it is document 1 of the dev set",
        ),  # cut elsewhere, other case
        (["“Some other text” – stands in the dev set!"], "it is document 1 of the dev set"),  # other punctuation
        (["…"], None),
        (
            [*LONG, "And this is how the whole story ends, some days later."],
            "most of it is in document 1 of the test set",
        ),
        ([LONG[1], "Hm."], "most of it is in document 1 of the test set"),  # a part
        ([*OTHER[:5], *LONG, *OTHER[5:]], "most of document 1 of the test set"),  # a part of something longer
        ([OTHER[0], LONG[2], *OTHER[1:6], LONG[0], *OTHER[6:]], "most of document 1 of the test set"),
        ([one for pair in zip(OTHER, PAGE[::2], strict=False) for one in pair], "4 sentences of document 3"),
        ([*OTHER, *PAGE[:2], *PAGE[:2]], None),  # two quotations
        ([*OTHER, *COMMON], None),  # sentences that several held-out documents have
        ([*OTHER, *SHORT, *SHORT], None),
        ([*SHORT, "Goodbye!"], None),  # short sentences are everywhere
        ([LONG[0], "But this document is about some other things, with one quotation."], None),
        (["Yes."], None),
        (["Nothing of it."], None),
    ],
)
def test_what_is_held_out(held_out, sentences, found):
    where = held_out.find(sentences)
    assert where is None if found is None else where.startswith(found)


CHINESE = [
    "今天早上我和妹妹一起去公园散步。", "公园里的花都开了，非常漂亮。", "我们在湖边坐了一会儿，喝了茶。",
    "中午的时候，天突然下起了大雨。", "我们没有带伞，只好跑到商店里。", "商店的老板借给我们两把雨伞。",
]  # fmt: skip


@pytest.mark.parametrize(
    ("sentences", "found"),
    [
        ([*CHINESE, "（完）"], "most of it is in document 1 of the test set"),
        (CHINESE[1:3], "most of it is in document 1 of the test set"),
        (
            [*CHINESE[:4], *[f"这里是第{number}个完全不同的句子，没有人写过。" for number in range(9)]],
            "most of document 1",
        ),
        (["你好吗？", "我不知道。", "谢谢你们！"], None),
    ],
)
def test_a_sentence_has_fewer_characters_in_chinese(tmp_path, sentences, found):
    """Ordinary ones tell, though they have fewer than twenty; greetings do not."""
    for lang, document in (("en", OTHER[: len(CHINESE) + 2]), ("zh", [*CHINESE, "你好吗？", "谢谢你们！"])):
        write_documents(tmp_path / f"concatenated_en2zh_test_{lang}.txt", [document])
    where = HeldOut([tmp_path], ("en", "zh")).find(sentences)
    assert where is None if found is None else where.startswith(found)


@pytest.mark.parametrize(("one", "other"), [("वह घर में है", "वह घर मा हो"), ("ดี มี ที่", "ดู มู ทู")])
def test_vowels_tell_texts_apart(one, other):
    """They are marks in Hindi and Thai, not letters."""
    assert fingerprint(one) != fingerprint(other)
    assert fingerprint("كَتَبَ الوَلَدُ") == fingerprint("كتب الولد") and fingerprint("cafe\u0301") == fingerprint("Café")
    assert fingerprint(f" {one}!") == fingerprint(one.replace(" ", "")) == fingerprint(one)


def test_a_corpus_that_is_named_twice(corpus):
    """Its sentences are still of one document each."""
    found = HeldOut([corpus, corpus.resolve() / ".." / corpus.name], ("en", "de")).find([*OTHER, *PAGE[:3]])
    assert found.startswith("3 sentences of document 3 of the test set")


def test_a_corpus_without_held_out_sets_is_refused(corpus):
    for path in corpus.iterdir():
        path.rename(
            path.with_name(path.name.replace("test", "train")) if "test" in path.name else path.with_suffix(".x")
        )
    with pytest.raises(UserError, match="has neither a dev nor a test set for en-de"):
        HeldOut([corpus], ("en", "de"))


def chosen(path: Path, held_out: HeldOut, **options) -> tuple[list[tuple[int, list[str]]], Selection]:
    counts = Selection()
    found = [
        (number, [one for one, _ in document]) for number, document in select((path, path), held_out, counts, **options)
    ]
    return found, counts


def test_shards_are_the_whole(tmp_path, held_out):
    path = write_documents(tmp_path / "text", TEXT)
    whole, counts = chosen(path, held_out)
    assert whole == list(enumerate(TEXT)) and (counts.documents, counts.sentences) == (11, sum(map(len, TEXT)))
    shards = [chosen(path, held_out, share=(number, 4))[0] for number in range(4)]
    assert sorted(one for shard in shards for one in shard) == whole
    assert [number for number, _ in shards[1]] == [1, 5, 9]


def test_a_held_out_document_is_refused_or_left_out(tmp_path, held_out):
    path = write_documents(tmp_path / "text", [*TEXT[:3], LONG, *TEXT[3:]])
    with pytest.raises(UserError, match=r"text: document 4, which begins 'The river .* is document 1 of the test set"):
        chosen(path, held_out)
    found, counts = chosen(path, held_out, skip=True)
    assert [document for _, document in found] == TEXT and (counts.held_out, counts.documents) == (1, 11)
    with pytest.raises(UserError, match="no document is left"):
        chosen(write_documents(tmp_path / "alone", [LONG]), held_out, skip=True)


def test_sentences_with_our_signs_are_left_out_and_counted(tmp_path, held_out):
    path = write_documents(tmp_path / "text", [["A plain one.", f"One {SEPARATOR} two."], [f"{GAP}"]])
    found, counts = chosen(path, held_out, plain=True)
    assert found == [(0, ["A plain one."])] and counts.with_signs == 2
    assert len(chosen(path, held_out)[0]) == 2


def test_copies_are_drawn_by_document_whatever_the_shard():
    documents = [(number, [(text, text) for text in document]) for number, document in enumerate(TEXT)]
    whole = list(with_observed_words(documents, 3, 5))
    assert [number for number, _ in whole] == list(range(33))
    assert whole[3 * 4 : 3 * 5] == list(with_observed_words(documents[4:5], 3, 5))
    random = random_numbers(5, 1, 4)  # the second copy of the fifth document
    assert whole[13][1] == [(with_observed(text, text, random), text) for text in TEXT[4]]
    assert len({str(document) for _, document in whole}) > 25


def test_an_augmentation_model_is_not_asked_what_it_was_trained_on():
    """With the same seed, which is the default of both commands."""
    words = " ".join(f"w{number}" for number in range(40))
    documents = [(number, [(words, words)]) for number in range(20)]
    trained, asked = (with_observed_words(documents, 3, 1, unseen) for unseen in (False, True))
    assert not {str(one) for _, one in trained} & {str(one) for _, one in asked}


def test_a_translation_comes_back_line_by_line(tmp_path):
    text = write_documents(tmp_path / "text", [["a", "b"], ["c"]])
    translation = tmp_path / "translation"
    translation.write_text("<d>\nA <d> x\n\n<d>\n<d>\n")
    assert list(read_translated(text, translation)) == [[("a", "A < d> x"), ("b", "")], [("c", "< d>")]]
    for wrong in ("<d>\nA\nB\n<d>\n", "<d>\nA\nB\n<d>\nC\nD\n"):
        translation.write_text(wrong)
        with pytest.raises(UserError, match="translation: not the translation of"):
            list(read_translated(text, translation))
