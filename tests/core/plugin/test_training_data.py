"""What is trained on: several corpora together."""

from __future__ import annotations

import pickle
import shutil

import pytest

from gtransformer.errors import UserError
from tests.core.plugin.loaded import LEN48, load

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
