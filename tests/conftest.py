"""Settings of the whole suite: the plugin with its checks, Hypothesis's profiles, and failure on planner crashes."""

import gc
import logging
import os
import tempfile
from collections.abc import Iterator

import hypothesis
import pytest

# Compiled kernels are kept for one run of the suite, or by the caller's cache folder: compiling all of them takes a minute.
# Tests use NumPy kernels by default.
_cache = tempfile.TemporaryDirectory(prefix="aioexec-kernels-")
os.environ.setdefault("AIOEXEC_CACHE_DIR", _cache.name)
os.environ["AIOEXEC_JIT"] = "off"

# Otherwise gRPC opens descriptors whenever a process is started, and logs it.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

pytest_plugins = ["aioexec_pytest"]  # loaded by its entry point where the package is installed

# Every run tries the same examples; `--hypothesis-profile=random`, which .ci/nightly uses, tries others each time.
hypothesis.settings.register_profile(
    "random",
    deadline=None,  # whether a test is right does not depend on the load of the machine
    database=None,
    print_blob=True,
    max_examples=50,
)
hypothesis.settings.register_profile("fixed", hypothesis.settings.get_profile("random"), derandomize=True)
hypothesis.settings.load_profile("fixed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the tests marked slow too, as .ci/run does")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests marked slow, unless `--all`, files or tests are given."""
    if config.getoption("--all") or config.args_source is pytest.Config.ArgsSource.ARGS:
        return
    slow = {item for item in items if item.get_closest_marker("slow")}
    config.hook.pytest_deselected(items=[item for item in items if item in slow])
    items[:] = [item for item in items if item not in slow]


def pytest_collection_finish() -> None:
    """Exclude ten thousand test objects from garbage collection: it runs often, and some tests run a full collection."""
    gc.collect()
    gc.freeze()


class _Crashes(logging.Handler):
    """Records planner crashes: for a user these are only warnings, since NumPy computes instead."""

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
    logger = logging.getLogger("aioexec.execution.program_cache")
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
