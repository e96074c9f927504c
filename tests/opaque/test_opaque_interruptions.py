"""A step on an opaque device that is interrupted at each of its points: cancelled, timed out, out of memory, failed, lost.

Whatever happens, nothing of the step is left when it has ended, and the session runs the same program again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import (
    DeadlineExceededError,
    InternalError,
    OpError,
    ResourceExhaustedError,
    UnavailableError,
)
from aioexec.testing.opaque_device import OpaqueDevice, OpaqueDeviceFactory

ADDED = {1: [7.0, 23.0], -1: [-1.0, -9.0]}
"""What a step adds to the variable, by the sign of its feed: that of each branch of the conditional."""
SIGNS = pytest.mark.parametrize("sign", ADDED)
KINDS = pytest.mark.parametrize(
    ("use_resource", "other"),
    [
        (True, "/device:OPAQUE:1"),
        (False, "/device:CPU:0"),
        pytest.param(True, "/device:CPU:0", marks=pytest.mark.slow),
    ],
)
"""The kind of the variable, and the device of a node between those of the first one."""
SEEDS = pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(1, 20))]
)
POINTS = 1000
"""More than a step has."""


class Program:
    """A session with a program of kernels, copies both ways, a loop, a conditional and the update of a variable.

    Attributes:
        device: that of all nodes but one.
        held: bytes of each device in use between steps.
    """

    def __init__(self, session: ax.Session, devices: Sequence[OpaqueDevice], tensors: dict[str, Any]) -> None:
        self.session = session
        self.device = devices[0]
        self.held: list[int] = []
        self._devices = devices
        self._tensors = tensors

    async def run(self, sign: int, **options: Any) -> Any:
        feeds = {self._tensors["x"]: [sign, 2 * sign]}
        return await self.session.run(self._tensors["fetched"], feeds, **options)

    async def reset(self) -> None:
        """Set the variable to zeros."""
        await self.session.run(self._tensors["initializer"])

    async def check_runs(self) -> None:
        """Both branches of the program give what they should."""
        for sign, added in ADDED.items():
            await self.reset()
            np.testing.assert_array_equal(await self.run(sign), np.multiply(added, 2))
        await self.reset()

    def check_nothing_left(self) -> None:
        """Nothing of an interrupted step: no task, no work, no memory."""
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert not any(any(device._streams.values()) for device in self._devices)
        assert [device.used for device in self._devices] == self.held

    async def check_after(self, sign: int) -> None:
        """Nothing is left, the variable has the value before the update or that after it, and the program runs."""
        self.check_nothing_left()
        value = await self.session.run(self._tensors["value"])
        assert value.tolist() in ([0, 0], ADDED[sign])
        await self.check_runs()


@asynccontextmanager
async def opened(opaque: OpaqueDeviceFactory, use_resource: bool, other: str) -> AsyncIterator[Program]:
    """The program, after steps of all its signatures."""
    opaque.count = 1 + other.endswith("OPAQUE:1")
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [2])
        variable = ax.Variable([0.0, 0.0], use_resource=use_resource)
        _, y = ax.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, y * x + 1.0), [0, x])
        z = ax.cond(ax.reduce_sum(y) > 0, lambda: y * 2.0, lambda: y - 1.0)
        with ax.device(other):
            z += 1.0
        update = variable.assign_add(z)
        with ax.control_dependencies([update]):
            value = variable.read_value()
        tensors = {"x": x, "fetched": value * 2.0, "value": ax.identity(variable)}
        tensors["initializer"] = variable.initializer
    async with ax.Session(graph=graph, config=ax.ConfigProto(allow_soft_placement=True)) as session:
        await session.run(variable.initializer)
        await session.run(tensors["value"])
        program = Program(session, opaque.made, tensors)
        await program.check_runs()
        program.held = [device.used for device in opaque.made]
        yield program


async def failure(step: Awaitable[Any]) -> OpError | None:
    """The error with which a step ends, if it does."""
    try:
        await step
    except OpError as error:
        return error
    return None


@KINDS
@SIGNS
@SEEDS
async def test_cancelled_in_each_turn_of_the_loop(
    opaque: OpaqueDeviceFactory, seed: int, sign: int, use_resource: bool, other: str
):
    """So at each await that lasts, and in each state of the device's work."""
    opaque.seed = seed
    async with opened(opaque, use_resource, other) as program:
        for turns in count():
            task = asyncio.create_task(program.run(sign))
            for _ in range(turns):
                await asyncio.sleep(0)
            if task.done():
                break
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            del task
            await program.check_after(sign)
        assert 20 < turns < POINTS


@KINDS
@SIGNS
@SEEDS
async def test_timed_out_at_each_moment(
    opaque: OpaqueDeviceFactory, virtual_clock: Any, seed: int, sign: int, use_resource: bool, other: str
):
    opaque.seed, opaque.turn_seconds = seed, 0.001
    async with opened(opaque, use_resource, other) as program:
        for milliseconds in range(1, POINTS):
            try:
                await program.run(sign, options=ax.RunOptions(timeout_in_ms=milliseconds))
                break
            except DeadlineExceededError:
                pass
            await program.check_after(sign)
        assert 10 < milliseconds < POINTS - 1


@KINDS
@SIGNS
@SEEDS
@pytest.mark.parametrize("fault", ["refuses_at", "fails_at"])
async def test_without_memory_or_with_failed_work_at_each_node(
    opaque: OpaqueDeviceFactory, seed: int, sign: int, use_resource: bool, other: str, fault: str
):
    opaque.seed = seed
    error, counter = {
        "refuses_at": (ResourceExhaustedError, "allocations"),
        "fails_at": (InternalError, "launches"),
    }[fault]
    async with opened(opaque, use_resource, other) as program:
        for number in range(1, POINTS):
            setattr(program.device, counter, 0)
            setattr(program.device, fault, number)
            found = await failure(program.run(sign))
            setattr(program.device, fault, None)
            if found is None:
                break
            assert isinstance(found, error)
            assert "OPAQUE:0" in str(found)
            assert found.node_def is not None
            del found
            await program.check_after(sign)
        assert 5 < number < POINTS - 1


@KINDS
@SIGNS
@SEEDS
async def test_lost_at_each_launch(
    opaque: OpaqueDeviceFactory, seed: int, sign: int, use_resource: bool, other: str
):
    """Nothing runs on the device any more; the next session has another one."""
    opaque.seed = seed
    for number in range(1, POINTS):
        async with opened(opaque, use_resource, other) as program:
            program.device.launches, program.device.fails_from = 0, number
            found = await failure(program.run(sign))
            if found is None:
                break
            assert isinstance(found, UnavailableError)
            assert "OPAQUE:0 was lost" in str(found)
            del found
            program.check_nothing_left()
    assert 5 < number < POINTS - 1
