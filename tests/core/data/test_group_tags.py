"""Group tags of tokens (Eq. 3)."""

from hypothesis import given
from hypothesis import strategies as st

from gtransformer.data.group_tags import group_tags
from tests.support import pad_batch

S, P, E, A = 0, 1, 2, 4  # <s>, <pad>, </s>, w0


LENGTHS = st.lists(st.integers(0, 5), min_size=1, max_size=9)


@given(st.lists(LENGTHS, min_size=1, max_size=5), st.booleans())
def test_random_batches(lengths, left):
    documents = [sum(([S, *[A] * words, E] for words in shape), []) for shape in lengths]
    tags = group_tags(pad_batch(documents, P, left, extra=2), S, P)
    for row, shape in zip(tags.tolist(), lengths, strict=True):
        expected = [number for number, words in enumerate(shape, 1) for _ in range(words + 2)]
        assert [tag for tag in row if tag] == expected
        assert row.count(0) == len(row) - len(expected)
