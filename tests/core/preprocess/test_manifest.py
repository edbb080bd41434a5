"""What the manifest's counts are made to say."""

from gtransformer.preprocess.manifest import unknown_warnings


def test_many_unknown_tokens_are_warned_of():
    splits = {
        name: {"tokens": {"en": 1000, "de": 2000}, "unknown_tokens": dict(zip(("en", "de"), unknown, strict=True))}
        for name, unknown in {"train": (0, 19), "valid": (9, 20), "test": (1000, 0)}.items()
    }
    valid, test = unknown_warnings({"splits": splits})
    assert valid.startswith("warning: valid, de: 20 of 2,000 tokens are not in the dictionary")
    assert test.startswith("warning: test, en: 1,000 of 1,000 tokens")
