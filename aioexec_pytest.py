"""The pytest plugin of aioexec: fixtures for graphs, sessions, clusters, servers and virtual time, and checks of a whole suite.

pytest loads it by its entry point in every environment where aioexec is installed, so it stands outside the package, whose
import takes half a second, and imports it when a test uses a fixture. The module itself takes 1 ms; pytest takes 0.1 s to read
the list of the distribution's 2,900 files, as it does for every plugin, to rewrite assertions in them.

Unless a project sets one of its options, tests that use none of its fixtures run as without it. docs/guide/testing.md describes
fixtures, markers and options.

Asynchronous fixtures run under pytest-asyncio or under anyio's plugin, whichever runs the test (see `pytest_fixture_setup`);
neither is imported unless it is active. For a test in virtual time that plugin gets the loop: pytest-asyncio by its hook,
anyio's as an option of its backend (see `pytest_generate_tests`).
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from aioexec import Session
    from aioexec.testing import FaultInjector, InMemoryCluster, ServedModel, VirtualClock

    LoopFactory = Callable[[], AbstractEventLoop]
    AsyncFixture = Callable[..., AsyncIterator[Any]]

MARKERS = (
    "ax_device(*names): run the test with each of these values of the fixture `ax_device`: reference, native",
    "both_loops: run on the standard library's loop and on uvloop, whatever --aioexec-loop says",
    "allow_leaks(reason): do not check for tasks, threads and file descriptors left over",
    "may_block(reason): do not fail when aioexec makes a blocking call on the event loop",
)

_VIRTUAL_CLOCKS = {"deterministic_clock": "DeterministicLoop", "virtual_clock": "VirtualClockLoop"}
"""The fixtures that need a loop of their own, and its class in `aioexec.testing`."""

_async_fixtures: set[AsyncFixture] = set()
"""The functions of the asynchronous fixtures of this module."""


def _async_fixture(function: AsyncFixture) -> Any:
    """A fixture that runs under the plugin that runs the test."""
    _async_fixtures.add(function)
    return pytest.fixture(function)


# Options


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the command line and of the configuration file."""
    group = parser.getgroup("aioexec")
    group.addoption(
        "--aioexec-loop",
        choices=["asyncio", "uvloop", "both"],
        help="event loop of asynchronous tests under pytest-asyncio (default: pytest-asyncio's)",
    )
    group.addoption(
        "--aioexec-device",
        choices=["reference", "native", "both"],
        default="reference",
        help="what computes in tests with `ax_session`: NumPy, compiled kernels, or each in turn (default: %(default)s)",
    )
    parser.addini(
        "aioexec_leak_check",
        "fail tests that leave tasks, threads or file descriptors behind",
        type="bool",
        default=False,
    )
    parser.addini(
        "aioexec_blocking_check",
        "fail tests in which aioexec blocks the event loop (needs blockbuster)",
        type="bool",
        default=False,
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and the checks of the whole suite if the project wants them."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    if config.getini("aioexec_leak_check"):
        config.pluginmanager.register(import_module("aioexec.testing.leak_plugin"))
    if config.getini("aioexec_blocking_check"):
        config.pluginmanager.register(import_module("aioexec.testing.blocking_plugin"))
    if _runs_pytest_asyncio(config):
        for function in _async_fixtures:
            import_module("pytest_asyncio").fixture(function)
        loops = _loops(config.getoption("aioexec_loop"))
        if loops:
            config.pluginmanager.register(_LoopChoice(loops))


# The loop and the device of a test


class _LoopChoice:
    """A plugin that gives tests of pytest-asyncio their loops, except those that need another one."""

    def __init__(self, loops: Mapping[str, LoopFactory]) -> None:
        self._loops = loops

    def pytest_asyncio_loop_factories(self, item: pytest.Item) -> Mapping[str, LoopFactory]:
        """Return the loops by name (a hook of pytest-asyncio)."""
        return _own_loops(getattr(item, "fixturenames", ()), item) or self._loops


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Iterator[None]:
    """Give a test its own loop, and run it with each device.

    pytest-asyncio's hook must return loops for all tests or not exist. It exists only while the tests of a function that
    needs a loop of ours are made, so that other functions keep the loop they have without this plugin.
    """
    item, config = metafunc.definition, metafunc.config
    if "ax_leak_check" in metafunc.fixturenames:
        _check_leaks_last(metafunc.fixturenames)
    devices = _devices(metafunc)
    if len(devices) > 1:
        metafunc.parametrize("ax_device", devices, indirect=True)
    loops = _own_loops(metafunc.fixturenames, item)
    if not loops:
        return (yield)
    if "anyio_backend" in metafunc.fixturenames:
        backends = [
            pytest.param(("asyncio", {"loop_factory": loop}), id=name) for name, loop in loops.items()
        ]
        item.add_marker(pytest.mark.parametrize("anyio_backend", backends, scope="module"))
        return (yield)
    if not _runs_pytest_asyncio(config):
        return (yield)
    choice = _LoopChoice(loops)
    config.pluginmanager.register(choice)
    try:
        return (yield)
    finally:
        config.pluginmanager.unregister(choice)


def _check_leaks_last(fixtures: list[str]) -> None:
    """Put the leak check before our other fixtures: what is set up first is torn down last."""
    fixtures.remove("ax_leak_check")
    ours = {function.__name__ for function in _async_fixtures}
    fixtures.insert(
        next((place for place, name in enumerate(fixtures) if name in ours), len(fixtures)), "ax_leak_check"
    )


def _own_loops(fixtures: Any, item: pytest.Item) -> Mapping[str, LoopFactory]:
    """The loops that a test needs whatever the option says; empty if any is right."""
    for fixture, loop in _VIRTUAL_CLOCKS.items():
        if fixture in fixtures:
            return {fixture.removesuffix("_clock"): getattr(import_module("aioexec.testing"), loop)}
    return _loops("both" if item.get_closest_marker("both_loops") is not None else None)


def _loops(chosen: str | None) -> Mapping[str, LoopFactory]:
    if chosen is None:
        return {}
    loops: Mapping[str, LoopFactory] = import_module("aioexec.testing.loops").LOOPS
    if chosen == "both":
        return loops
    if chosen not in loops:
        raise pytest.UsageError(f"--aioexec-loop={chosen}: it is not installed")
    return {chosen: loops[chosen]}


def _devices(metafunc: pytest.Metafunc) -> tuple[str, ...]:
    if "ax_device" not in metafunc.fixturenames:
        return ()
    marker = metafunc.definition.get_closest_marker("ax_device")
    if marker is not None:
        return marker.args if len(marker.args) > 1 else ()
    return ("reference", "native") if metafunc.config.getoption("aioexec_device") == "both" else ()


# Asynchronous fixtures under both plugins


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Iterator[Any]:
    """Have an asynchronous fixture of ours run by the plugin that runs the test.

    The fixtures are declared as pytest-asyncio's where that is active (see `pytest_configure`). In a test of anyio's plugin,
    which takes every asynchronous fixture, they must not be.
    """
    if fixturedef.func not in _async_fixtures:
        return (yield)
    if "anyio_backend" in request.fixturenames:
        _check_anyio(fixturedef, request)
        variant = _undeclared(fixturedef.func)
    elif _runs_pytest_asyncio(request.config):
        variant = _declared(fixturedef.func, _loop_scope(request))
    else:
        pytest.fail(
            f"{fixturedef.argname}: no plugin runs asynchronous tests: install pytest-asyncio 1.5, or mark the test for anyio",
            pytrace=False,
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fixturedef, "func", variant)
        return (yield)


def _check_anyio(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> None:
    backend = request.getfixturevalue("anyio_backend")
    name = backend if isinstance(backend, str) else backend[0]
    if name != "asyncio":
        pytest.fail(
            f"{fixturedef.argname} needs asyncio, not {name}: define a fixture `anyio_backend` that returns 'asyncio'",
            pytrace=False,
        )
    config = request.config
    if _runs_pytest_asyncio(config) and "auto" in (
        config.getoption("asyncio_mode"),
        config.getini("asyncio_mode"),
    ):
        pytest.fail(
            f"{fixturedef.argname}: pytest-asyncio in auto mode takes the tests of anyio's plugin: set asyncio_mode = strict",
            pytrace=False,
        )


@functools.cache
def _declared(function: AsyncFixture, loop_scope: Any) -> AsyncFixture:
    """The same fixture, declared as one of pytest-asyncio that runs in the loop of a scope."""
    variant = _undeclared.__wrapped__(function)
    import_module("pytest_asyncio").fixture(loop_scope=loop_scope)(variant)
    return variant


@functools.cache
def _undeclared(function: AsyncFixture) -> AsyncFixture:
    """The same fixture, without pytest-asyncio's declaration."""

    async def variant(**arguments: Any) -> AsyncIterator[Any]:
        async for value in function(**arguments):
            yield value

    return variant


def _loop_scope(request: pytest.FixtureRequest) -> str:
    """The scope of the loop that the test runs in."""
    marker = request.node.get_closest_marker("asyncio")
    scope: str = request.config.getini("asyncio_default_test_loop_scope") or "function"
    return scope if marker is None else marker.kwargs.get("loop_scope", scope)


def _runs_pytest_asyncio(config: pytest.Config) -> bool:
    return config.pluginmanager.hasplugin("asyncio") and hasattr(config.hook, "pytest_asyncio_loop_factories")


# Fixtures


@_async_fixture
async def virtual_clock() -> AsyncIterator[VirtualClock]:
    """Run the test in virtual time, which jumps to the next timer when nothing is runnable; yields its clock."""
    yield _clock("VirtualClockLoop")


@_async_fixture
async def deterministic_clock() -> AsyncIterator[VirtualClock]:
    """Run the test in virtual time and without threads, always in the same order; yields its clock."""
    yield _clock("DeterministicLoop")


def _clock(expected: str) -> VirtualClock:
    import asyncio

    loop = asyncio.get_running_loop()
    if not isinstance(loop, getattr(import_module("aioexec.testing"), expected)):
        pytest.fail(
            f"the test's loop is {loop!r}, not a {expected}: a fixture or marker of the project chose it",
            pytrace=False,
        )
    clock: VirtualClock = loop.clock
    return clock


@pytest.fixture
def ax_device(request: pytest.FixtureRequest) -> str:
    """What computes in this test: "reference" for NumPy, "native" for compiled kernels."""
    marker = request.node.get_closest_marker("ax_device")
    default = marker.args[0] if marker is not None else request.config.getoption("aioexec_device")
    name: str = getattr(request, "param", default)
    if name not in ("reference", "native"):
        raise pytest.UsageError(f"ax_device: expected 'reference' or 'native', got {name!r}")
    return name


@_async_fixture
async def ax_session(ax_device: str) -> AsyncIterator[Session]:
    """A session on a new graph, both of them the default ones during the test."""
    import aioexec as ax

    config = ax.ConfigProto()
    config.aioexec.jit = "off" if ax_device == "reference" else "eager"
    async with ax.Session(graph=ax.Graph(), config=config) as session:
        yield session


@_async_fixture
async def ax_cluster() -> AsyncIterator[Callable[..., Awaitable[InMemoryCluster]]]:
    """A function that starts a cluster in memory, with the arguments of `InMemoryCluster`; it is stopped after the test."""
    from aioexec.testing import InMemoryCluster

    async with AsyncExitStack() as stack:

        async def start(jobs: Mapping[str, int], **options: Any) -> InMemoryCluster:
            return await stack.enter_async_context(InMemoryCluster(jobs, **options))

        yield start


@_async_fixture
async def ax_faults(ax_cluster: Any) -> AsyncIterator[Callable[..., Awaitable[FaultInjector]]]:
    """A function that injects faults into a cluster, with the arguments of `FaultInjector`, until the end of the test."""
    from aioexec.testing import FaultInjector

    async with AsyncExitStack() as stack:

        async def inject(cluster: InMemoryCluster, faults: Any) -> FaultInjector:
            return await stack.enter_async_context(FaultInjector(cluster, faults))

        yield inject


@_async_fixture
async def ax_serve() -> AsyncIterator[Callable[..., Awaitable[ServedModel]]]:
    """A function that serves a model on a free port, with the arguments of `aioexec.testing.served`, until the test ends."""
    from aioexec.testing import served

    async with AsyncExitStack() as stack:

        async def serve(*args: Any, **options: Any) -> ServedModel:
            return await stack.enter_async_context(served(*args, **options))

        yield serve


@_async_fixture
async def ax_leak_check() -> AsyncIterator[None]:
    """Fail the test if tasks, threads or file descriptors are left when it and its later fixtures are over."""
    from aioexec.testing import LeakCheck
    from aioexec.testing.leak_plugin import compiler_descriptors

    async with LeakCheck(lasting_descriptors=compiler_descriptors):
        yield


@_async_fixture
async def ax_task_leak_check(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """The part of `aioexec_leak_check` that runs in the loop of a test."""
    from aioexec.testing import LeakCheck

    if request.node.get_closest_marker("allow_leaks") is not None:
        yield
        return
    async with LeakCheck(threads=False, descriptors=False):
        yield
