"""pytest plugin: the event loop of a test, virtual time, and checks after every test.

Opt in from the top-level `conftest.py`, beside pytest-asyncio:

    pytest_plugins = ["aioexec.testing.plugin"]

- `--loop=asyncio|uvloop|both` (default asyncio) selects the loop of asynchronous tests; tests marked `both_loops` run on both
  whatever the option.
- The fixture `virtual_clock` runs a test in virtual time (on the standard library's loop, see `clock`), `deterministic_clock`
  also without threads, so that it is deterministic (see `deterministic`).
- After every test, tasks, threads and file descriptors must be as before; `allow_leaks` marks an exception.
- A blocking call from aioexec's code on a running loop raises `blockbuster.BlockingError`; `may_block` allows it.
"""

import asyncio
import inspect
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from blockbuster import BlockBuster

from aioexec.testing.clock import VirtualClock, VirtualClockLoop
from aioexec.testing.deterministic import DeterministicLoop
from aioexec.testing.leaks import LeakCheck

if TYPE_CHECKING:
    from aioexec.devices.jit.library import KernelLibrary

try:
    import uvloop
except ImportError:  # not available on Windows
    uvloop = None  # type: ignore[assignment]

LoopFactory = Callable[[], asyncio.AbstractEventLoop]

LOOPS: dict[str, LoopFactory] = {"asyncio": asyncio.SelectorEventLoop}
if uvloop is not None:
    LOOPS["uvloop"] = uvloop.new_event_loop

MARKERS = (
    "both_loops: run on the standard library's loop and on uvloop, whatever --loop says",
    "allow_leaks(reason): do not check for tasks, threads and file descriptors left over",
    "may_block(reason): do not fail when aioexec makes a blocking call on the event loop",
)

_blocking_detector = pytest.StashKey[BlockBuster]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--loop`."""
    parser.getgroup("aioexec").addoption(
        "--loop",
        choices=[*LOOPS, "both"],
        default="asyncio",
        help="event loop of asynchronous tests (default: %(default)s)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers and enable the detector of blocking calls."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    # Enabled once: patching takes milliseconds, and it only acts while a loop is running.
    detector = BlockBuster("aioexec", excluded_modules=["aioexec.testing"])
    detector.activate()
    config.stash[_blocking_detector] = detector
    _open_lasting_descriptors()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Disable the detector of blocking calls; end the compiler child."""
    library = _kernel_library()
    if library is not None:
        library.shutdown()
    detector = config.stash.get(_blocking_detector, None)
    if detector is not None:
        detector.deactivate()


def pytest_report_header(config: pytest.Config) -> str:
    """Show the loop in the header of the report."""
    return f"loop: {config.getoption('--loop')}"


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, LoopFactory]:
    """Select the loops a test runs on (a hook of pytest-asyncio)."""
    fixtures = getattr(item, "fixturenames", ())
    if "deterministic_clock" in fixtures:
        return {"deterministic": DeterministicLoop}
    if "virtual_clock" in fixtures:
        return {"virtual": VirtualClockLoop}
    chosen: str = config.getoption("--loop")
    if chosen == "both" or item.get_closest_marker("both_loops") is not None:
        return LOOPS
    return {chosen: LOOPS[chosen]}


@pytest.fixture(autouse=True)
def leak_check(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves threads or file descriptors behind, after its loop is closed."""
    if _allows_leaks(request):
        yield
        return
    with LeakCheck(lasting_descriptors=_compiler_descriptors):
        yield
        library = _kernel_library()
        if library is not None:
            library.drain_and_join()


def _kernel_library() -> "KernelLibrary | None":
    """The kernel library of this process, if any test has used it."""
    jit = sys.modules.get("aioexec.devices.jit.library")
    return None if jit is None else jit.PROCESS_LIBRARY


def _compiler_descriptors() -> list[int]:
    """The descriptors of the compiler child, which belongs to the process: a new one for each test would take a second."""
    library = _kernel_library()
    descriptor = None if library is None else library.process.descriptor
    return [] if descriptor is None else [descriptor]


@pytest_asyncio.fixture
async def task_leak_check(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """Fail an asynchronous test whose loop has other tasks than before, after the teardown of its fixtures."""
    if _allows_leaks(request):
        yield
        return
    async with LeakCheck(threads=False, descriptors=False):
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Add `task_leak_check` to each asynchronous test: set up early, so torn down late, but before the loop is closed."""
    for item in items:
        if not isinstance(item, pytest.Function) or not _runs_in_own_loop(item):
            continue
        if "task_leak_check" not in item.fixturenames:  # the variants of a parametrised test share the list
            item.fixturenames.insert(item.fixturenames.index("leak_check") + 1, "task_leak_check")


@pytest.fixture(autouse=True)
def blocking_calls(request: pytest.FixtureRequest) -> Iterator[None]:
    """Disable the detector of blocking calls for a test marked `may_block`, or whose loop has no threads."""
    if (
        request.node.get_closest_marker("may_block") is None
        and "deterministic_clock" not in request.fixturenames
    ):
        yield
        return
    detector = request.config.stash[_blocking_detector]
    detector.deactivate()
    yield
    detector.activate()


@pytest_asyncio.fixture
async def virtual_clock() -> VirtualClock:
    """Run the test in virtual time; yields its clock."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualClockLoop), "pytest_asyncio_loop_factories chose it"
    return loop.clock


@pytest_asyncio.fixture
async def deterministic_clock() -> VirtualClock:
    """Run the test on a `DeterministicLoop`, in virtual time and without threads; yields its clock."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, DeterministicLoop), "pytest_asyncio_loop_factories chose it"
    return loop.clock


def _allows_leaks(request: pytest.FixtureRequest) -> bool:
    return request.node.get_closest_marker("allow_leaks") is not None


def _runs_in_own_loop(item: pytest.Function) -> bool:
    marker = item.get_closest_marker("asyncio")
    scope = "function" if marker is None else marker.kwargs.get("loop_scope", "function")
    function = getattr(item.obj, "hypothesis", None)
    function = item.obj if function is None else function.inner_test
    return scope == "function" and inspect.iscoroutinefunction(function)


def _open_lasting_descriptors() -> None:
    """Make libuv open the descriptors it keeps for the life of the process; otherwise they would count as a leak."""
    if uvloop is not None:
        uvloop.new_event_loop().close()
