"""Calls on opaque devices that are cancelled in each turn of the loop: of partial runs, of queues, and of steps with copies
between two devices. Nothing of a cancelled call is left, and the session goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import CancelledError, InvalidArgumentError
from aioexec.testing.opaque_device import OpaqueDevice, OpaqueDeviceFactory

SEEDS = pytest.mark.parametrize(
    "seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(3, 40))]
)
SOFT = ax.ConfigProto(allow_soft_placement=True)
MOST_TURNS = 1000
"""More than any call here takes."""


def check_nothing_left(devices: Sequence[OpaqueDevice], held: Sequence[int]) -> None:
    """No task, no work, and no memory but what was in use before."""
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert not any(any(device._streams.values()) for device in devices)
    assert [device.used for device in devices] == held


async def cancelled_after(turns: int, call: Awaitable[Any]) -> bool:
    """Cancel a call after some turns of the loop; False if it has ended before."""
    task = asyncio.ensure_future(call)
    for _ in range(turns):
        await asyncio.sleep(0)
    if task.done():
        await task
        return False
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    return True


async def in_each_turn(call: Callable[[], Awaitable[Any]], check: Callable[[], Awaitable[Any]]) -> None:
    """Cancel a call after its first turn, its second, and so on until it ends before, and check what is left each time."""
    turns = 1
    while await cancelled_after(turns, call()):
        await check()
        turns += 1
    assert 3 < turns < MOST_TURNS


@SEEDS
@pytest.mark.parametrize("part", [0, 1])
async def test_a_cancelled_call_of_a_partial_run_ends_the_run(
    opaque: OpaqueDeviceFactory, seed: int, part: int
):
    """The variable is updated by the whole of the second part or not at all."""
    opaque.seed = seed
    with ax.Graph().as_default() as graph:
        a, b = ax.placeholder(ax.float32, [2]), ax.placeholder(ax.float32, [2])
        variable = ax.Variable([0.0, 0.0], use_resource=True)
        first = ax.exp(a * 0.0) + a
        with ax.control_dependencies([variable.assign_add(first * b)]):
            second = variable.read_value() - 1.0
        value, init = ax.identity(variable), variable.initializer
    parts: list[tuple[Any, Any, Any]] = [(first, {a: [1, 2]}, [2, 3]), (second, {b: [1, 2]}, [1, 5])]

    async with ax.Session(graph=graph, config=SOFT) as session:

        async def begin(count: int) -> str:
            """A partial run of which some parts have run."""
            await session.run(init)
            handle = await session.partial_run_setup([first, second], [a, b])
            for fetch, feeds, expected in parts[:count]:
                np.testing.assert_array_equal(await session.partial_run(handle, fetch, feeds), expected)
            return handle

        await begin(2)
        await session.run(value)
        handle = await begin(2)
        held = [device.used for device in opaque.made]

        async def call() -> None:
            await session.partial_run(handle, *parts[part][:2])

        async def check() -> None:
            nonlocal handle
            with pytest.raises((CancelledError, InvalidArgumentError)):
                await session.partial_run(handle, *parts[part][:2])
            check_nothing_left(opaque.made, held)
            found = (await session.run(value)).tolist()
            assert found == [0, 0] if part == 0 else found in ([0, 0], [2, 6])
            await begin(2)
            check_nothing_left(opaque.made, held)
            handle = await begin(part)

        handle = await begin(part)
        await in_each_turn(call, check)
        if part == 0:
            await session.partial_run(handle, *parts[1][:2])
        check_nothing_left(opaque.made, held)


@SEEDS
async def test_a_cancelled_enqueue_has_enqueued_or_not(opaque: OpaqueDeviceFactory, seed: int):
    opaque.seed = seed
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [2])
        queue = ax.FIFOQueue(4, [ax.float32], [[2]])
        enqueue, dequeued, size = queue.enqueue(ax.exp(x) * 2.0), queue.dequeue() - 1.0, queue.size()
    async with ax.Session(graph=graph, config=SOFT) as session:
        await session.run(enqueue, {x: [0, 0]})
        await session.run(dequeued)
        assert await session.run(size) == 0
        held = [device.used for device in opaque.made]

        async def check() -> None:
            check_nothing_left(opaque.made, held)
            for _ in range(await session.run(size)):
                np.testing.assert_array_equal(await session.run(dequeued), [1, 1])
            check_nothing_left(opaque.made, held)

        await in_each_turn(lambda: session.run(enqueue, {x: [0, 0]}), check)


@SEEDS
async def test_a_cancelled_dequeue_has_dequeued_or_not(opaque: OpaqueDeviceFactory, seed: int):
    """Elements stay in their order, and one is dequeued at most."""
    opaque.seed = seed
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [])
        queue = ax.FIFOQueue(4, [ax.float32], [[]])
        enqueue, dequeued, size = queue.enqueue(x * 2.0), ax.exp(queue.dequeue() * 0.0), queue.size()
        plain = queue.dequeue()
    async with ax.Session(graph=graph, config=SOFT) as session:

        async def fill() -> None:
            for k in range(3):
                await session.run(enqueue, {x: k})

        await fill()
        for _ in range(3):
            await session.run(dequeued)
        await fill()
        for _ in range(3):
            await session.run(plain)
        await session.run(size)
        held = [device.used for device in opaque.made]

        async def check() -> None:
            check_nothing_left(opaque.made, held)
            left = int(await session.run(size))
            assert left in (2, 3)
            assert [await session.run(plain) for _ in range(left)] == [0, 2, 4][3 - left :]
            await fill()

        await fill()
        await in_each_turn(lambda: session.run(dequeued), check)


@SEEDS
async def test_a_blocked_dequeue_is_cancelled_while_the_device_works(opaque: OpaqueDeviceFactory, seed: int):
    """The queue is empty: the step waits for it, and for other work of the device."""
    opaque.seed = seed
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [2])
        queue = ax.FIFOQueue(4, [ax.float32], [[2]])
        total = queue.dequeue() + ax.exp(x)
        enqueue = queue.enqueue(x)
    async with ax.Session(graph=graph, config=SOFT) as session:
        await session.run(enqueue, {x: [1, 2]})
        await session.run(total, {x: [0, 0]})
        held = [device.used for device in opaque.made]
        for turns in range(40):
            assert await cancelled_after(turns, session.run(total, {x: [0, 0]}))
            check_nothing_left(opaque.made, held)
        await session.run(enqueue, {x: [1, 2]})
        np.testing.assert_array_equal(await session.run(total, {x: [0, 0]}), [2, 3])


@SEEDS
async def test_a_step_with_copies_between_two_devices_is_cancelled(opaque: OpaqueDeviceFactory, seed: int):
    """A chain over both devices and the processor, and a variable of each device."""
    opaque.seed, opaque.count = seed, 2
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [2])
        value, variables, updates = x, [], []
        for k, place in enumerate(("OPAQUE:0", "OPAQUE:1", "CPU:0", "OPAQUE:1", "OPAQUE:0")):
            with ax.device(f"/device:{place}"):
                value = value * 2.0 + 1.0
                if k < 2:
                    variables.append(ax.Variable([0.0, 0.0], use_resource=True))
                    updates.append(variables[-1].assign_add(value))
        with ax.control_dependencies(updates):
            fetched = ax.identity(value)
        values, init = [ax.identity(each) for each in variables], ax.global_variables_initializer()
    async with ax.Session(graph=graph, config=SOFT) as session:
        await session.run(init)
        np.testing.assert_array_equal(await session.run(fetched, {x: [0, 1]}), [31, 63])
        await session.run(values)
        await session.run(init)
        held = [device.used for device in opaque.made]

        async def check() -> None:
            check_nothing_left(opaque.made, held)
            first, second = await session.run(values)
            assert first.tolist() in ([0, 0], [1, 3])
            assert second.tolist() in ([0, 0], [3, 7])
            await session.run(init)

        await in_each_turn(lambda: session.run(fetched, {x: [0, 1]}), check)
