"""What is trained on: several corpora together, and what is left out as too long."""

from __future__ import annotations

import logging
import pickle
import shutil

import pytest

from gtransformer.errors import UserError
from tests.core.plugin.loaded import LEN48, documents, load

LEN90 = LEN48.parent / "len90"
SINGLE = {"instances": "disjoint", "context_sentences": 0}


def examples(dataset) -> list[tuple[list[int], list[int]]]:
    """Source and target of every instance."""
    return [
        (one["source"].tolist(), one["target"].tolist())
        for one in (dataset[i] for i in range(len(dataset)))
    ]


@pytest.mark.parametrize("options", [{}, SINGLE], ids=["stored", "single"])
def test_further_corpora(options):
    """One after the other, also one that is named twice; other splits are those of the first
    alone.
    """
    first, second = (examples(load(folder=one / "bin", **options)[1]) for one in (LEN48, LEN90))
    further = {"more_training_data": f"{LEN90 / 'bin'}:{LEN90 / 'bin'}", **options}
    _, dataset = load(**further)
    assert examples(dataset) == first + second * 2
    assert examples(pickle.loads(pickle.dumps(dataset))) == examples(
        dataset
    )  # as workers that are not forked read it
    sizes = list(zip(dataset.src_sizes.tolist(), dataset.tgt_sizes.tolist(), strict=True))
    assert sizes == [(len(source), len(target)) for source, target in examples(dataset)]
    assert examples(load("valid", **further)[1]) == examples(load("valid", **options)[1])


def test_other_words_are_refused(tmp_path):
    """In whatever way further data are given; of a part of the corpus without a dictionary there is
    none to compare.
    """
    other = shutil.copytree(LEN90 / "bin", tmp_path / "bin")
    dictionary = other / "dict.de.txt"
    dictionary.write_text("strange 1\n" + dictionary.read_text(encoding="utf-8"), encoding="utf-8")
    for options in ({"more_training_data": str(other)}, {"folder": f"{LEN48 / 'bin'}:{other}"}):
        task, _ = load("valid", **options)
        with pytest.raises(UserError, match="dict.de.txt: another dictionary than .*--vocabulary"):
            task.load_dataset("train", epoch=2)
    dictionary.unlink()
    load(more_training_data=str(other))


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("most", [20, 1000])
def test_what_is_too_long_is_left_out_of_training(caplog, before, most):
    """Current source, current target and context each, spelled out; other splits are whole."""
    options = {"instances": "current", "context_sentences": before, "doc_mode": "full"}
    sides = [documents("train", lang) for lang in ("en", "de")]
    expected = []
    for document, number in sides[0]:
        first = number
        while (
            first > number - before and (document, first - 1) in sides[0]
        ):  # one sentence is missing
            first -= 1
        read = [sides[0][document, other] for other in range(first, number + 1)]
        *context, current = ([word for word in sentence if word != "</s>"] for sentence in read)
        counts = sum(map(len, context)), len(current), len(sides[1][document, number]) - 1
        if max(counts) <= most:
            expected.append([word for sentence in read for word in ("<s>", *sentence)])
    with caplog.at_level(logging.INFO, logger="gtransformer.plugin"):
        task, dataset = load(max_pair_tokens=most, **options)
    assert [
        [task.src_dict[token] for token in source] for source, _ in examples(dataset)
    ] == expected
    assert f"{len(sides[0]) - len(expected)} of {len(sides[0])} instances left out" in caplog.text
    assert bool(expected) and (len(expected) < len(sides[0])) == (most < 1000)
    assert len(load("test", max_pair_tokens=1, **options)[1]) == len(documents("test", "en"))
