"""Options of a preparation that make no sense together."""

from __future__ import annotations

import pytest

from gtransformer.errors import UserError
from gtransformer.preprocess.settings import Settings


def test_shards_that_could_not_be_merged(tmp_path):
    with pytest.raises(UserError, match=r"--shard 0/4: with --bert every shard would .* prepare the corpus whole$"):
        Settings(bert=str(tmp_path), shard="0/4").check()
    Settings(bert=str(tmp_path)).check()
    Settings(shard="0/4").check()
