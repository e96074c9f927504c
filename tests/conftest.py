"""What holds for the whole suite: the plugin with its checks, Hypothesis's settings, and no planner that crashes."""

import gc
import logging
import os
import tempfile
from collections.abc import Iterator

import hypothesis
import pytest

# Compiled kernels are kept for one run of the suite, unless the caller wants them kept longer: compiling all of them
# takes a minute. NumPy computes unless a test says otherwise.
_cache = tempfile.TemporaryDirectory(prefix="aioexec-kernels-")
os.environ.setdefault("AIOEXEC_CACHE_DIR", _cache.name)
os.environ["AIOEXEC_JIT"] = "off"

# Or gRPC opens descriptors whenever a process is begun, and says so.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

pytest_plugins = ["aioexec.testing.plugin"]

hypothesis.settings.register_profile(
    "aioexec",
    deadline=None,  # a shared machine has no say in whether a test is right
    database=None,  # the seed is pytest-randomly's: the same order and examples are one option away
    print_blob=True,
    max_examples=50,
)
hypothesis.settings.load_profile("aioexec")


def pytest_collection_finish() -> None:
    """Spare the collector ten thousand tests: it runs often, and some tests ask for a full collection."""
    gc.collect()
    gc.freeze()


class _Crashes(logging.Handler):
    """Keeps what the planner's crashes said: for a user only a warning, since NumPy computes instead."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.said.append(self.format(record))


@pytest.fixture(autouse=True)
def planner_crashes() -> Iterator[list[str]]:
    """Fail a test for whose graphs no program could be made because of a fault of ours; what it expects it removes."""
    crashes = _Crashes()
    logger = logging.getLogger("aioexec.execution.item_runner")
    logger.addHandler(crashes)
    try:
        yield crashes.said
    finally:
        logger.removeHandler(crashes)
    if crashes.said:
        pytest.fail("\n".join(crashes.said), pytrace=False)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the cache of this run."""
    _cache.cleanup()
