"""PREFIX.jsonl: every instance, in the order of the corpus, whatever order decoding used."""

from argparse import Namespace

import pytest

from gtransformer.data.translations import split_sentences
from tests.core.plugin.loaded import load
from tests.support import read_jsonl, tiny_model

pytestmark = pytest.mark.slow


def generate(corpus_folder, prefix, order, dictionary, **options):
    """Translate the test split batch by batch, as fairseq-generate does."""
    (task, dataset), model = (
        load("test", corpus_folder, gen_output=str(prefix)),
        tiny_model(dictionary),
    )
    generator = task.build_generator([model], Namespace(max_len_a=1, max_len_b=2, **options))
    for batch in order:
        task.inference_step(generator, [model], dataset.collater([dataset[i] for i in batch]))
    return dataset


def test_all_instances_in_order(corpus, tmp_path, dictionary):
    order, prefix = [[6, 1], [3, 0, 5], [2, 4]], tmp_path / "out" / "test"
    dataset = generate(corpus(test=7), prefix, order, dictionary, beam=4, nbest=3)
    for number, found in enumerate(read_jsonl(tmp_path / "out" / "test.jsonl")):
        count = int(dataset[number]["source"].eq(dictionary.bos()).sum())
        scores = [hypothesis["score"] for hypothesis in found["hypotheses"]]
        assert len(scores) == 3 and scores == sorted(scores, reverse=True)
        for hypothesis in found.pop("hypotheses"):
            assert len(hypothesis["sentences"]) == count
            words = " ".join(hypothesis["sentences"]).split()
            assert not {"<s>", "</s>", "[de]", "<pad>"} & set(words)
        place = {"document": number, "first_sentence": 0, "sentences": count, "current": [0, count]}
        assert found == {"id": number, **place}
    assert number == 6


def test_nothing_half_done_is_taken_for_a_result(corpus, tmp_path, dictionary):
    """An old result goes when a new run begins; the new one appears when all instances are
    there.
    """
    (tmp_path / "t.jsonl").write_text("old\n")
    generate(corpus(test=3), tmp_path / "t", [[0, 2]], dictionary, beam=1)
    assert not (tmp_path / "t.jsonl").exists()


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("<s> w1 w1 </s> <s> </s> [de]", ["w1 w1", ""]),
        ("<s> w1 </s> <s> w2 [de]", ["w1", "w2"]),  # cut off in the middle
        ("[de] <s> w1 <unk> </s> <pad>", ["w1 <unk>"]),
        ("", []),
    ],
)
def test_split_sentences(dictionary, text, sentences):
    tokens = [dictionary.index(word) for word in text.split()]
    skip = {dictionary.pad(), dictionary.index("[de]")}
    assert split_sentences(tokens, dictionary, skip) == sentences
