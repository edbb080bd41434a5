"""Every system computes what it computed at commit 7c951ad8: tests/golden/make.py wrote the files
there.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.golden import make
from tests.support import ROOT

GOLDEN = ROOT / "tests" / "golden"
FLOAT64, UPDATES = 1e-10, 1e-5  # relative to the largest value; of parameters, absolute
# relative; without the sentence rule scores were those of fairseq's search, which sums in float32
FREE_TEXT = 1e-6


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A directory with the corpus."""
    folder = tmp_path_factory.mktemp("golden")
    make.write_corpus(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", make.NAMES)
def test_computes_the_same(work, name):
    """Logits, gradients and 4-best lists in float64, and the parameters after six updates of
    fairseq-train.
    """
    expected = np.load(GOLDEN / f"{name}.npz")
    values = make.compute(name, work / "bin", work)
    assert values.keys() == set(expected)
    score = FREE_TEXT if "--doc-mode=full" in make.SYSTEMS.get(name, []) else FLOAT64
    for key, value in values.items():
        if key.startswith("updated/"):
            assert np.abs(value - expected[key]).max() <= UPDATES, key
        elif key.startswith("gradient/") and key.endswith("k_proj.bias"):
            # A bias of keys changes no softmax: its gradient is rounding alone.
            assert max(np.abs(value).max(), np.abs(expected[key]).max()) <= 1e-12, key
        else:
            tolerance = score if key.startswith("score/") else FLOAT64
            assert make.difference(expected[key], value) <= tolerance, key
