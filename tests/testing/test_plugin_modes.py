"""The plugin's fixtures work under pytest-asyncio and anyio's plugin, alone and side by side, in strict and in auto mode."""

import pytest

from tests.testing.plugin_runs import installed as installed, suite as suite

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow  # each test is a pytest of its own

ASYNCIO = "pytestmark = pytest.mark.asyncio"
ANYIO = "pytestmark = pytest.mark.anyio"
ANYIO_BACKEND = """
@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"
"""

# By name: the marker of the tests, settings, options.
MODES: dict[str, tuple[str, str, list[str]]] = {
    "pytest-asyncio strict": (ASYNCIO, "asyncio_mode = strict", ["-p", "no:anyio"]),
    "pytest-asyncio auto": ("", "asyncio_mode = auto", ["-p", "no:anyio"]),
    "pytest-asyncio strict beside anyio": (ASYNCIO, "asyncio_mode = strict", []),
    "pytest-asyncio auto beside anyio": ("", "asyncio_mode = auto", []),
    "pytest-asyncio strict beside anyio auto": ("", "asyncio_mode = strict\nanyio_mode = auto", []),
    "anyio strict": (ANYIO, "anyio_mode = strict", ["-p", "no:asyncio"]),
    "anyio auto": ("", "anyio_mode = auto", ["-p", "no:asyncio"]),
    "anyio strict beside pytest-asyncio strict": (ANYIO, "asyncio_mode = strict", []),
    "anyio auto beside pytest-asyncio strict": (ANYIO, "asyncio_mode = strict\nanyio_mode = auto", []),
}

TESTS = """
import asyncio

import pytest

import aioexec as ax
from aioexec.testing import Fault, FaultKind, assert_gradients, assert_loop_lag

{marker}
{backend}

async def test_session(ax_session, ax_leak_check):
    x = ax.placeholder(ax.float32, [2], name="x")
    y = ax.reduce_sum(x * x)
    assert x.graph is ax_session.graph
    async with assert_loop_lag(max_ms=60_000):
        assert await ax_session.run(y, {{x: [1, 2]}}) == 5
    await assert_gradients(y, {{x: [1.0, 2.0]}})


async def test_virtual_time(virtual_clock, ax_leak_check):
    await asyncio.sleep(3600)
    assert virtual_clock.time() == asyncio.get_running_loop().time() == 3600


async def test_deterministic_time(deterministic_clock):
    assert await asyncio.to_thread(int) == 0
    await asyncio.sleep(60)
    assert deterministic_clock.time() == 60


async def test_cluster(ax_leak_check, virtual_clock, ax_cluster, ax_faults):
    cluster = await ax_cluster({{"worker": 2}})
    faults = await ax_faults(cluster, [Fault(message=1, kind=FaultKind.DELAY, seconds=1.0)])
    with ax.Graph().as_default() as graph, ax.device("/job:worker/task:1"):
        x = ax.placeholder(ax.float32)
        y = x * 2.0
    async with cluster.session("worker", 0, graph=graph) as session:
        assert await session.run(y, {{x: 3.0}}) == 6.0
    assert [fault.kind for fault in faults.happened] == [FaultKind.DELAY]


async def test_served(ax_leak_check, ax_session, ax_serve):
    x = ax.placeholder(ax.float32, [None, 2], name="x")
    model = await ax_serve(inputs={{"x": x}}, outputs={{"y": ax.reduce_sum(x, 1)}})
    assert await model.predict([[1, 2], [3, 4]]) == [3, 7]


@pytest.mark.ax_device("reference", "native")
async def test_device(ax_device, ax_session):
    assert ax_device in ("reference", "native")
    assert await ax_session.run(ax.constant(1.0) + 1.0) == 2.0
"""


@pytest.mark.parametrize("mode", MODES)
def test_all_fixtures_work(installed, mode):
    marker, settings, options = MODES[mode]
    backend = ANYIO_BACKEND if "anyio" in f"{marker}{settings}" else ""
    source = TESTS.format(marker=marker, backend=backend)

    result = installed(
        source,
        *options,
        settings=f"[pytest]\n{settings}\nfilterwarnings =\n    error\n    ignore:The configuration option\n",
    )

    result.assert_outcomes(passed=7)
