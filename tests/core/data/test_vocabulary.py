"""Vocabularies: the indices of fairseq's dictionaries, in and out; a direction's symbols."""

from fairseq.data import Dictionary

from gtransformer.data.dictionaries import Vocabulary
from gtransformer.data.sides import Sides
from tests.support import PARITY


def test_indices_are_those_of_fairseq(tmp_path):
    ours, theirs = Vocabulary.load(PARITY / "dict.txt"), Dictionary.load(str(PARITY / "dict.txt"))
    assert ours.symbols == theirs.symbols and len(ours) == len(theirs) > 4
    for word in (*theirs.symbols, "nowhere"):
        assert ours.index(word) == theirs.index(word)
    for name in ("bos", "pad", "eos", "unk"):
        assert getattr(ours, name)() == getattr(theirs, name)()
    ours.save(tmp_path / "dict.txt")
    assert Vocabulary.load(tmp_path / "dict.txt") == ours
    assert Dictionary.load(str(tmp_path / "dict.txt")).symbols == theirs.symbols


def test_symbols_are_appended_once_and_are_no_words_of_a_text():
    sides = Sides(Vocabulary(["a", "[en]"]), Vocabulary(["b"]), ("en", "de"), ["en", "de"])
    assert sides.source.symbols[4:] == ["a", "[en]", "[de]", "<mask>"]
    assert sides.target.symbols[4:] == ["b", "[en]", "[de]", "<mask>"] and sides.language == 6
    words = ["b", "<s>", "[en]", "<mask>", "a", "<unk>"]
    assert sides.indices(words, sides.target) == [4, 3, 3, 3, 3, 3]
