"""The interface of a step for kernels: its id, its container, and the callbacks of its cancellation."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from aioexec.errors import InvalidArgumentError
from aioexec.graph.kernels.kernel import StepContext
from tests.execution.steps import stepping
from tests.tiers import Ops, feed, graph, op


def add_watcher(ops: Ops, calls: list[tuple[str, int]], gate: asyncio.Future[None]) -> None:
    """TestWatch notes its step's id when it is given up; it waits for the gate."""

    async def watch(step: StepContext, x: Any) -> Any:
        manager = step.cancellation_manager
        assert manager is step.cancellation_manager
        token = manager.get_cancellation_token()
        manager.register_callback(token, lambda: calls.append(("given up", step.step_id)))
        await asyncio.shield(gate)
        manager.deregister_callback(token)
        return x

    ops.add("TestWatch(x:T) -> (y:T) [T:type] {stateful}", watch, asynchronous=True)


@pytest.mark.behaviour(56, 91)
async def test_each_step_has_a_cancellation_manager_of_its_own_that_is_told_when_it_fails(ops: Ops):
    calls: list[tuple[str, int]] = []
    gate = asyncio.get_running_loop().create_future()
    add_watcher(ops, calls, gate)
    with graph() as g:
        x = feed([])
        y = op("TestWatch", x)

    async with stepping(g) as steps:
        first = asyncio.create_task(steps.run([y], {x: np.float32(1)}))
        second = asyncio.create_task(steps.run([y], {x: np.float32(2)}))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert len(calls) == 1
        assert len(steps.engine.cancellation._managers) == 1
        gate.set_result(None)

        assert await second == [2]
        assert len(calls) == 1
        assert not steps.engine.cancellation._managers


async def test_a_failing_node_gives_its_step_up(ops: Ops):
    calls: list[tuple[str, int]] = []
    gate = asyncio.get_running_loop().create_future()
    add_watcher(ops, calls, gate)

    async def fail(step: StepContext, x: Any) -> Any:
        raise InvalidArgumentError("no")

    ops.add("TestFail(x:T) -> (y:T) [T:type] {stateful}", fail, asynchronous=True)
    with graph() as g:
        x = feed([])
        y, z = op("TestWatch", x), op("TestFail", x)

    async with stepping(g) as steps:
        with pytest.raises(InvalidArgumentError, match="no"):
            await steps.run([y, z], {x: np.float32(1)})

        assert [what for what, _ in calls] == ["given up"]
