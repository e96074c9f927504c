"""The part of the pytest plugin that `aioexec_blocking_check` enables.

A blocking call from aioexec's code on a running loop raises `blockbuster.BlockingError`. `may_block` allows it.
"""

from collections.abc import Iterator

import pytest
from blockbuster import BlockBuster

_detector = BlockBuster("aioexec", excluded_modules=["aioexec.testing"])


def pytest_sessionstart() -> None:
    """Enable the detector; once, because patching takes milliseconds, and it only acts while a loop is running."""
    _detector.activate()


def pytest_unconfigure() -> None:
    """Disable the detector."""
    _detector.deactivate()


@pytest.fixture(autouse=True)
def blocking_calls(request: pytest.FixtureRequest) -> Iterator[None]:
    """Disable the detector for a test marked `may_block`, or whose loop has no threads."""
    if (
        request.node.get_closest_marker("may_block") is None
        and "deterministic_clock" not in request.fixturenames
    ):
        yield
        return
    _detector.deactivate()
    yield
    _detector.activate()
