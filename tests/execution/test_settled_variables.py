"""Variables that an item only reads are packed like constants once they stay as they are, and only as long as they do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aioexec.devices.jit import panels
from aioexec.execution.settled_variables import SettledVariables, State
from tests.tiers import constant, executors, feed, graph, op, programs, read, resource, session_on

RNG = np.random.default_rng(8)
ROWS, TERMS, COLUMNS = 3, 256, 288
WEIGHTS = RNG.standard_normal((TERMS, COLUMNS)).astype(np.float32)
OTHER = RNG.standard_normal((TERMS, COLUMNS)).astype(np.float32)
X = RNG.standard_normal((ROWS, TERMS)).astype(np.float32)
LOOKS = 12
"""Runs after which variables that stay are packed."""

pytestmark = pytest.mark.skipif(not panels.vector_bytes(), reason="kernels for this processor take no panels")


class Layer:
    """x @ w in a graph, and the ops that write w."""

    def __init__(self, weights: np.ndarray = WEIGHTS) -> None:
        with graph() as self.graph:
            self.x = feed((None, len(weights)))
            w = resource(weights.shape, name="w")
            self.value = feed(weights.shape)
            self.assign = op("AssignVariableOp", w, self.value)
            self.add = op("AssignAddVariableOp", w, constant(1.0 + np.zeros_like(weights)))
            self.y = op("MatMul", self.x, read(w))


async def run_often(session: Any, layer: Layer) -> np.ndarray:
    """Run until what is built is built; return the last result."""
    for _ in range(2):
        for _ in range(LOOKS):
            await session.run(layer.y, {layer.x: X})
        for executor in executors(session):
            await executor.wait_until_built()
    return await session.run(layer.y, {layer.x: X})


def settled_of(session: Any) -> list[SettledVariables]:
    return [each.settled for each in programs(session) if isinstance(each.settled, SettledVariables)]


def packed_bytes(session: Any) -> int:
    """The bytes that the current programs hold of packed matrices."""
    settled = settled_of(session)
    return sum(each.packed.variant.packed_bytes for each in settled if each.packed is not None)


def states(session: Any) -> list[State]:
    return [each.state for each in settled_of(session)]


@pytest.mark.parametrize("jit", ["eager", "background"])
async def test_a_variable_that_stays_is_packed(jit):
    layer = Layer()

    async with session_on(layer.graph, jit) as session:
        await session.run(layer.assign, {layer.value: WEIGHTS})
        before = await session.run(layer.y, {layer.x: X})
        after = await run_often(session, layer)
        packed = packed_bytes(session)

    assert packed >= WEIGHTS.nbytes
    for result in (before, after):
        np.testing.assert_allclose(result, X @ WEIGHTS, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("write", ["assign", "add"])
async def test_the_run_after_a_write_reads_what_was_written(write):
    layer = Layer()
    written = OTHER if write == "assign" else WEIGHTS + np.float32(1)

    async with session_on(layer.graph, "eager") as session:
        await session.run(layer.assign, {layer.value: WEIGHTS})
        await run_often(session, layer)
        feeds = {layer.value: OTHER} if write == "assign" else {}
        await session.run(getattr(layer, write), feeds)
        result = await session.run(layer.y, {layer.x: X})
        unpacked = packed_bytes(session)
        for _ in range(2):
            await run_often(session, layer)
        again = await run_often(session, layer)
        packed = packed_bytes(session)

    assert unpacked == 0
    assert packed >= WEIGHTS.nbytes
    for each in (result, again):
        np.testing.assert_allclose(each, X @ written, rtol=1e-4, atol=1e-4)


async def test_a_variable_that_is_written_between_runs_is_not_packed():
    layer = Layer()
    expected = WEIGHTS.astype(np.float64)

    async with session_on(layer.graph, "eager") as session:
        await session.run(layer.assign, {layer.value: WEIGHTS})
        for _ in range(3 * LOOKS):
            result = await session.run(layer.y, {layer.x: X})
            np.testing.assert_allclose(result, X @ expected, rtol=1e-4, atol=1e-2)
            await session.run(layer.add)
            expected += 1
        found = states(session)

    assert found == [State.WATCHING]


async def test_a_step_that_writes_what_it_reads_packs_nothing():
    layer = Layer()
    with layer.graph.as_default(), layer.graph.control_dependencies([layer.add]):
        late = op("MatMul", layer.x, read(layer.assign.inputs[0]))

    async with session_on(layer.graph, "eager") as session:
        await session.run(layer.assign, {layer.value: WEIGHTS})
        for number in range(1, LOOKS + 1):
            result = await session.run(late, {layer.x: X})
            np.testing.assert_allclose(result, X @ (WEIGHTS + np.float32(number)), rtol=1e-4, atol=1e-2)
        packed = packed_bytes(session)

    assert packed == 0


async def test_small_variables_are_read_as_they_are():
    layer = Layer(WEIGHTS[:, :16].copy())

    async with session_on(layer.graph, "eager") as session:
        await session.run(layer.assign, {layer.value: WEIGHTS[:, :16]})
        await run_often(session, layer)
        found = states(session)

    assert found == [State.UNFIT]


async def test_packed_variables_share_memory_between_signatures():
    layer = Layer()

    async with session_on(layer.graph, "eager") as session:
        await session.run(layer.assign, {layer.value: WEIGHTS})
        for rows in (1, 2):
            for _ in range(LOOKS):
                await session.run(layer.y, {layer.x: X[:rows]})
            await executors(session)[-1].wait_until_built()
            await session.run(layer.y, {layer.x: X[:rows]})
        packed = [set(each.packed.variant.packed) for each in settled_of(session) if each.packed is not None]

    assert len(packed) == 2
    assert packed[0] == packed[1]


async def test_explain_counts_packed_variables():
    layer = Layer()

    async with session_on(layer.graph, "eager") as session:
        await session.run(layer.assign, {layer.value: WEIGHTS})
        await run_often(session, layer)
        text = str(await session.explain(layer.y, {layer.x: X}))
        nbytes = packed_bytes(session)

    assert f"packed constants {nbytes} bytes" in text
