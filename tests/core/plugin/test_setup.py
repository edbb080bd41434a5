"""Setting the task up: dictionaries, languages, data, and what is said when something is
missing.
"""

import numpy as np
import pytest
import torch

from gtransformer.data.sentences import RunDataset, SideSentences
from gtransformer.errors import UserError
from gtransformer.plugin.document_dataset import DocumentPairDataset
from gtransformer.plugin.loading import word_dropout
from gtransformer.plugin.task import TranslationDocTask
from tests.core.plugin.loaded import setup
from tests.support import task_config, tiny_dictionary


def test_typed_lines(corpus, dictionary):
    """fairseq appends another </s>, which is dropped; a line without <s> is refused."""
    task = setup(corpus(train=1))
    lines = [dictionary.encode_line(line).long() for line in ("<s> w1 </s> <s> w2 </s>", "w1 w2")]
    found = task.build_dataset_for_inference(lines[:1], [len(lines[0])])
    assert found[0]["source"].tolist() == lines[0].tolist()[:-1]
    with pytest.raises(UserError, match="the input: instance 1 does not begin with <s>"):
        task.build_dataset_for_inference(lines, list(map(len, lines)))


def test_languages_are_inferred(corpus, dictionary):
    task = setup(corpus(train=1), source_lang=None, target_lang=None, langs="en,de")
    task.load_dataset("train")
    assert (task.cfg.source_lang, task.cfg.target_lang) == ("en", "de")
    last = task.dataset("train")[0]["target"][-1]
    assert last == dictionary.index("[de]") == task.language


def test_unknown_language(corpus):
    with pytest.raises(FileNotFoundError, match=r"dict\.fr\.txt"):
        setup(corpus(train=1), source_lang="fr")
    with pytest.raises(UserError, match="--langs en,fr does not name the target language 'de'"):
        setup(corpus(train=1), langs="en,fr")


def test_missing_data(tmp_path, corpus):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        setup(tmp_path / "nowhere")
    with pytest.raises(UserError, match="give both"):
        setup(corpus(train=1), target_lang=None)
    task = setup(corpus(train=1))
    with pytest.raises(UserError, match=r"no binarised test set for en-de"):
        task.load_dataset("test")


def test_unequal_sides(corpus):
    folder = corpus(train=3)
    corpus(sides=("de",), train=2)
    task = setup(folder)
    with pytest.raises(UserError, match=r"train\.en-de\.\*: 3 source but 2 target instances"):
        task.load_dataset("train")


def test_dictionaries_of_their_own(dictionary):
    """With BERT each side has its own: neither <mask> nor the language symbols have the same index
    in both.
    """
    source, target = tiny_dictionary(9), dictionary
    task = TranslationDocTask(task_config(doc_noise_mask=1.0, langs="en,de"), source, target)
    sides = []
    for one in (source, target):
        words = [one.index(f"w{number}") for number in range(9)]
        sides.append(torch.tensor([one.bos(), *words, one.unk(), one.eos()]))
    stored = (
        SideSentences(side.numpy(), np.array([len(side)]), one, "x")
        for one, side in zip((source, target), sides, strict=True)
    )
    dataset = DocumentPairDataset(
        *(RunDataset(side, side.stored_ranges()) for side in stored), source, target, task.language,
        word_dropout=word_dropout(task.options, task.sides),
    )  # fmt: skip
    item = dataset[0]
    for one, found in (
        (source, item["source"].tolist()),
        (target, item["prev_output_tokens"].tolist()),
    ):
        assert found[:11] == [one.bos(), *[one.index("<mask>")] * 9, one.unk()]
    assert item["target"].tolist() == [*sides[1].tolist()[1:], target.index("[de]")]
