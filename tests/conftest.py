"""Shared by all tests."""

import gc
import os

# Models here are tiny: one thread is faster, and results do not depend on the number of cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest  # noqa: E402
import torch  # noqa: E402
from hypothesis import settings  # noqa: E402

import gtransformer  # noqa: E402
from tests.saved_model import make_model  # noqa: E402
from tests.support import tiny_dictionary  # noqa: E402

gtransformer.register()  # with fairseq
# The same examples in every run, and no folder of those that failed.
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("repeatable")
gc.set_threshold(50_000, 50, 100)  # a seventh of the time was spent on looking for garbage
# Of an iterator that the garbage collector finds, the queues are closed before its workers are told
# to end: each is then waited for as long as this, in seconds, and killed.
torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL = 0.2


@pytest.fixture(autouse=True)
def one_thread_and_fixed_seed():
    """Every test starts from the same random state."""
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def saved_model(tmp_path_factory):
    """A model directory; beside it lie the ``prepared`` corpus and the ``checkpoint.pt`` that it
    was made of.
    """
    return make_model(tmp_path_factory.mktemp("saved"))


@pytest.fixture
def dictionary():
    """Twelve words, [en], [de] and <mask>."""
    return tiny_dictionary()


def pytest_addoption(parser):
    parser.addoption(
        "--fast",
        action="store_true",
        help="unit tests that are not slow; of each with many cases the first and the last",
    )


def pytest_collection_modifyitems(config, items):
    """What --fast leaves: something of every room, in less than two minutes."""
    if not config.getoption("--fast"):
        return
    cases: dict[str, list] = {}
    for item in items:
        if "end_to_end" not in item.path.parts and not item.get_closest_marker("slow"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = {id(some[place]) for some in cases.values() for place in (0, -1)}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]


def pytest_runtest_logreport(report):
    """Show a failure when it happens, not only at the end: a run that is cut off has told what it
    knew.
    """
    if report.failed and not os.environ.get("PYTEST_XDIST_WORKER"):
        print(f"\nFAILED {report.nodeid} ({report.when})\n{report.longreprtext}", flush=True)
