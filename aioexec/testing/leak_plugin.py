"""The part of the pytest plugin that `aioexec_leak_check` enables.

After every test, tasks, threads and file descriptors must be as before. `allow_leaks` marks an exception.
"""

import inspect
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from aioexec.testing.leaks import LeakCheck
from aioexec.testing.loops import open_lasting_descriptors

if TYPE_CHECKING:
    from aioexec.devices.jit.library import KernelLibrary


def pytest_sessionstart() -> None:
    """Open what lives as long as the process."""
    open_lasting_descriptors()


def pytest_unconfigure() -> None:
    """End the compiler child."""
    library = _kernel_library()
    if library is not None:
        library.shutdown()


@pytest.fixture(autouse=True)
def leak_check(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves threads or file descriptors behind, after its loop is closed."""
    if request.node.get_closest_marker("allow_leaks") is not None:
        yield
        return
    with LeakCheck(lasting_descriptors=compiler_descriptors):
        yield
        library = _kernel_library()
        if library is not None:
            library.drain_and_join()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Add `ax_task_leak_check` to each asynchronous test: set up early, so torn down late, but before the loop is closed."""
    for item in items:
        if not isinstance(item, pytest.Function) or not _runs_in_own_loop(item):
            continue
        if (
            "ax_task_leak_check" not in item.fixturenames
        ):  # the variants of a parametrised test share the list
            item.fixturenames.insert(item.fixturenames.index("leak_check") + 1, "ax_task_leak_check")


def compiler_descriptors() -> list[int]:
    """The descriptors of the compiler child, which belongs to the process: a new one for each test would take a second."""
    library = _kernel_library()
    descriptor = None if library is None else library.process.descriptor
    return [] if descriptor is None else [descriptor]


def _kernel_library() -> "KernelLibrary | None":
    """The kernel library of this process, if any test has used it."""
    jit = sys.modules.get("aioexec.devices.jit.library")
    return None if jit is None else jit.PROCESS_LIBRARY


def _runs_in_own_loop(item: pytest.Function) -> bool:
    """Whether a test is a coroutine function with a loop for itself."""
    marker = item.get_closest_marker("asyncio")
    scope = "function" if marker is None else marker.kwargs.get("loop_scope", "function")
    function = getattr(item.obj, "hypothesis", None)
    function = item.obj if function is None else function.inner_test
    return scope == "function" and inspect.iscoroutinefunction(function)
