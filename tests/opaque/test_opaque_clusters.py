"""Opaque devices of the tasks of a cluster: values between them, from one memory to the other without a copy in between."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.testing.cluster import InMemoryCluster
from aioexec.testing.opaque_device import OpaqueDevice, OpaqueDeviceFactory
from aioexec.testing.tasks import all_tasks_blocked

FEW, MANY = 3, 20_000
"""Elements of a value that is sent in a message, and of one that follows it."""
SEEDS = pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(k, marks=pytest.mark.sweep) for k in range(2, 20))]
)


class Program:
    """A program on the opaque devices of two tasks: a value goes there and back, and a variable of each is updated.

    `updates` is what one step adds to the variable of each task for a feed of ones.
    """

    updates = (1.0, 4.0)

    def __init__(self, size: int) -> None:
        with ax.Graph().as_default() as self.graph:
            self.x = ax.placeholder(ax.float32, [size])
            value, variables, added = self.x, [], []
            for task in (0, 1):
                with ax.device(f"/job:worker/task:{task}/device:OPAQUE:0"):
                    variables.append(ax.Variable(np.zeros(size, np.float32), use_resource=True))
                    added.append(variables[-1].assign_add(value))
                    value = (value + 1.0) * 2.0
            with ax.device("/job:worker/task:0/device:OPAQUE:0"), ax.control_dependencies(added):
                self.y = value - self.x
            self.values = [ax.identity(each) for each in variables]
            self.init = ax.global_variables_initializer()


def devices_of(cluster: InMemoryCluster) -> list[OpaqueDevice]:
    servers = [cluster.server("worker", task) for task in (0, 1)]
    found = [device for server in servers for device in server.devices.list_devices()]
    return [device for device in found if isinstance(device, OpaqueDevice)]


@SEEDS
@pytest.mark.parametrize("size", [FEW, MANY])
async def test_values_go_from_one_task_to_another(opaque: OpaqueDeviceFactory, size: int, seed: int):
    opaque.seed = seed
    program = Program(size)
    async with (
        InMemoryCluster({"worker": 2}) as cluster,
        cluster.session("worker", 0, graph=program.graph) as session,
    ):
        await session.run(program.init)
        for step in range(1, 4):
            found = await session.run(program.y, {program.x: np.ones(size)})
            np.testing.assert_array_equal(found, np.full(size, 9))
            values = await session.run(program.values)
            for value, added in zip(values, program.updates, strict=True):
                np.testing.assert_array_equal(value, np.full(size, step * added))
        assert all(device.launches for device in devices_of(cluster))


async def test_a_large_value_is_sent_and_received_without_another_copy(
    opaque: OpaqueDeviceFactory, monkeypatch: pytest.MonkeyPatch
):
    """The sender serialises what the device has copied out; the receiver's device copies in what its array has received."""
    copied_out: list[Any] = []
    made: list[Any] = []
    copied_in: list[Any] = []
    copy_out, copy_in = OpaqueDevice.copy_out, OpaqueDevice.copy_in

    def noted_out(device: OpaqueDevice, buffer: Any) -> Any:
        found = copy_out(device, buffer)
        copied_out.append(found[0])
        return found

    def noted_in(device: OpaqueDevice, value: Any) -> Any:
        copied_in.append(value)
        return copy_in(device, value)

    def make(device: OpaqueDevice, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
        made.append(np.empty(shape, dtype))
        return made[-1]

    sent: list[Any] = []

    async def noted_sent(request: Any, call: Any) -> Any:
        reply = await receive(request, call)
        sent.extend(reply.tensors)
        return reply

    program = Program(MANY)
    async with (
        InMemoryCluster({"worker": 2}) as cluster,
        cluster.session("worker", 0, graph=program.graph) as session,
    ):
        await session.run(program.init)
        await session.run(program.y, {program.x: np.ones(MANY)})
        handlers: Any = cluster.server("worker", 0)._listener
        receive = handlers.handlers["WorkerService/RecvTensor"]
        handlers.handlers = {**handlers.handlers, "WorkerService/RecvTensor": noted_sent}
        monkeypatch.setattr(OpaqueDevice, "copy_out", noted_out)
        monkeypatch.setattr(OpaqueDevice, "copy_in", noted_in)
        monkeypatch.setattr(OpaqueDevice, "host_array", make)
        await session.run(program.y, {program.x: np.ones(MANY)})

    assert len(made) == 2  # one for each task
    assert all(any(each is value for value in copied_in) for each in made)
    assert sent
    assert all(any(each is value for value in copied_out) for each in sent)


@SEEDS
@pytest.mark.parametrize("size", [FEW, MANY])
async def test_a_step_that_is_cancelled_leaves_nothing_on_either_device(
    opaque: OpaqueDeviceFactory, size: int, seed: int
):
    """Cancelled after any number of turns of the loop; each variable has the value before the update or that after it."""
    opaque.seed = seed
    program = Program(size)
    async with (
        InMemoryCluster({"worker": 2}) as cluster,
        cluster.session("worker", 0, graph=program.graph) as session,
    ):
        await session.run(program.init)
        await session.run(program.y, {program.x: np.ones(size)})
        await session.run(program.values)
        devices = devices_of(cluster)
        held = [device.used for device in devices]
        for turns in count():
            await session.run(program.init)
            task: asyncio.Task[Any] = asyncio.create_task(session.run(program.y, {program.x: np.ones(size)}))
            for _ in range(turns):
                await asyncio.sleep(0)
            if task.done():
                break
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            del task
            await all_tasks_blocked()  # the servers have the cancellation, and end their parts of the step
            assert not any(any(device._streams.values()) for device in devices)
            assert [device.used for device in devices] == held
            for value, added in zip(await session.run(program.values), program.updates, strict=True):
                assert value[0] in (0, added)
        assert turns > 20
