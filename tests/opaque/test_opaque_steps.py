"""Steps whose nodes run on a device with memory that the processor cannot read."""

from __future__ import annotations

import numpy as np

from aioexec.testing.opaque_device import OpaqueDeviceFactory
from tests.tiers import constant, feed, graph, op, read, resource, session_on


async def test_values_go_in_and_come_out(opaque: OpaqueDeviceFactory):
    with graph() as g:
        x = feed([2, 2])
        y = op("Add", op("MatMul", x, constant([[1.0, 2.0], [3.0, 4.0]])), constant(1.0))

    async with session_on(g, "off") as session:
        for _ in range(3):
            found = await session.run(y, {x: np.eye(2)})
            np.testing.assert_array_equal(found, [[2, 3], [4, 5]])
        (device,) = opaque.made
        assert device.launches == 6


async def test_variables_are_read_and_written(opaque: OpaqueDeviceFactory):
    with graph() as g:
        v = resource([2])
        init = op("AssignVariableOp", v, constant([1.0, 2.0]))
        add = op("AssignAddVariableOp", v, constant([1.0, 1.0]))
        value = read(v)

    async with session_on(g, "off") as session:
        await session.run(init)
        for _ in range(3):
            await session.run(add)
        np.testing.assert_array_equal(await session.run(value), [4, 5])
