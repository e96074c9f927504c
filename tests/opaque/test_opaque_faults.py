"""What goes wrong on an opaque device: the step fails with the node's name, and the session stays usable."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from aioexec import dtypes
from aioexec.errors import InternalError, InvalidArgumentError, ResourceExhaustedError, UnavailableError
from aioexec.testing.opaque_device import OpaqueDeviceFactory
from tests.tiers import constant, feed, graph, op, read, resource, session_on

LIMIT = 1 << 16


async def test_a_buffer_is_no_array(opaque: OpaqueDeviceFactory):
    with graph() as g:
        y = op("Neg", feed([2], name="x"))
    async with session_on(g, "off") as session:
        await session.run(y, {"x:0": [1, 2]})
        (device,) = opaque.made
        buffer = device.copy_in(np.ones(2))
        with pytest.raises(InternalError, match="read as an array"):
            np.asarray(buffer)
        await device.sync()


async def test_a_step_that_needs_too_much_memory_fails_and_frees_what_it_had(opaque: OpaqueDeviceFactory):
    opaque.memory_limit = LIMIT
    with graph() as g:
        n = feed([1], "int32")
        y = op("Neg", op("Fill", n, constant(1.0)), name="large")
        total = op("Sum", y, constant([0], "int32"))
    async with session_on(g, "off") as session:
        assert await session.run(total, {n: [100]}) == -100
        (device,) = opaque.made
        before = device.used
        with pytest.raises(ResourceExhaustedError, match=r"Neg 'large'.*shape \[10000\]") as caught:
            await session.run(total, {n: [10_000]})
        assert f"of {LIMIT} bytes" in str(caught.value)
        del caught
        assert await session.run(total, {n: [100]}) == -100
        assert device.used == before


async def test_a_kernel_that_fails_on_the_device_names_its_node(opaque: OpaqueDeviceFactory):
    with graph() as g:
        k = feed([1], "int32")
        y = op("GatherNd", constant([1.0, 2.0]), op("ExpandDims", k, constant(0, "int32")), name="here")
        z = op("Neg", y)
    async with session_on(g, "off") as session:
        with pytest.raises(InvalidArgumentError, match=r"here.*OPAQUE:0"):
            await session.run(z, {k: [7]})
        np.testing.assert_array_equal(await session.run(z, {k: [1]}), [-2])


async def test_a_failed_update_leaves_a_variable_as_it_was(opaque: OpaqueDeviceFactory):
    with graph() as g:
        v, k = resource([2]), feed([1], "int32")
        init = op("AssignVariableOp", v, constant([1.0, 2.0]))
        update = op("ResourceScatterAdd", v, k, constant([1.0]), dtype=dtypes.float32)
        value = read(v)
    async with session_on(g, "off") as session:
        await session.run(init)
        for _ in range(2):
            with pytest.raises(InvalidArgumentError):
                await session.run(update, {k: [5]})
        np.testing.assert_array_equal(await session.run(value), [1, 2])
        await session.run(update, {k: [1]})
        np.testing.assert_array_equal(await session.run(value), [1, 3])


@pytest.mark.parametrize("seed", range(8))
async def test_a_failed_update_is_undone_for_all_that_came_after_it(opaque: OpaqueDeviceFactory, seed: int):
    """Steps that read or keep the content of the failed update fail as well; an assignment of another step lasts."""
    opaque.seed = seed
    with graph() as g:
        v, w, k = resource([2]), resource([2]), feed([1], "int32")
        init = [op("AssignVariableOp", each, constant([1.0, 2.0])) for each in (v, w)]
        update = op("ResourceScatterAdd", v, k, constant([1.0]), dtype=dtypes.float32)
        keep = op("AssignVariableOp", w, read(v))
        add = op("AssignAddVariableOp", v, constant([1.0, 1.0]))
        assign = op("AssignVariableOp", v, constant([7.0, 7.0]))
        values = [read(v), read(w)]
    async with session_on(g, "off") as session:
        for each in (init, update, keep, add, assign, values, init):
            await session.run(each, {k: [0]})  # planned, so that later steps begin in their order
        steps = [session.run(each, {k: [5]}) for each in (update, keep, add)]
        found = await asyncio.gather(*steps, return_exceptions=True)
        assert [type(each) for each in found] == [InvalidArgumentError] * 3
        np.testing.assert_array_equal(await session.run(values), [[1, 2], [1, 2]])
        steps = [session.run(each, {k: [5]}) for each in (update, assign, add)]
        await asyncio.gather(*steps, return_exceptions=True)
        np.testing.assert_array_equal(await session.run(values[0]), [8, 8])


@pytest.mark.parametrize("launch", range(1, 5))
async def test_a_lost_device_fails_its_steps_and_no_others(opaque: OpaqueDeviceFactory, launch: int):
    with graph() as g:
        x = feed([2])
        there = op("Neg", op("Exp", op("Neg", op("Exp", x))))
        with g.device("/device:CPU:0"):
            here = op("Neg", x)
    async with session_on(g, "off") as session:
        await session.run(here, {x: [0, 0]})
        (device,) = opaque.made
        device.fails_from = launch
        for _ in range(2):
            with pytest.raises(UnavailableError, match=r"OPAQUE:0 was lost"):
                await session.run(there, {x: [0, 0]})
        np.testing.assert_array_equal(await session.run(here, {x: [1, 2]}), [-1, -2])


@pytest.mark.parametrize("turns", range(12))
async def test_a_cancelled_step_ends_when_the_device_has(opaque: OpaqueDeviceFactory, turns: int):
    """Cancelled after any number of turns of the loop: nothing of the step is left on the device."""
    opaque.seed = turns
    with graph() as g:
        v, x = resource([2]), feed([2])
        init = op("AssignVariableOp", v, constant([0.0, 0.0]))
        with g.control_dependencies([op("AssignAddVariableOp", v, op("Exp", x))]):
            value = read(v)
    async with session_on(g, "off") as session:
        await session.run(init)
        (device,) = opaque.made
        before = device.used
        task: asyncio.Task[Any] = asyncio.ensure_future(session.run(value, {x: [0, 0]}))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert not any(device._streams.values())
        del task
        assert device.used == before
        found = await session.run(value, {x: [0, 0]})
        assert found.tolist() in ([1, 1], [2, 2])
