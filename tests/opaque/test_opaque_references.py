"""Reference variables on an opaque device whose values nodes take in main memory: as they are when the node runs."""

from __future__ import annotations

from typing import Any

import numpy as np

import aioexec as ax
from aioexec.testing.opaque_device import OpaqueDeviceFactory
from tests.tiers import constant, graph, op, reference


async def test_each_iteration_reads_what_it_has_written(opaque: OpaqueDeviceFactory):
    with ax.Graph().as_default() as g:
        v = reference([1], "int32", "v")
        init = op("Assign", v, constant([0], "int32"))

        def body(i: Any, total: Any) -> Any:
            with ax.control_dependencies([op("AssignAdd", v, constant([1], "int32"))]):
                ones = op("Fill", v, constant(1.0))
            return i + 1, total + ax.reduce_sum(ones)

        _, total = ax.while_loop(lambda i, total: i < 3, body, [0, 0.0])
    async with ax.Session(graph=g) as session:
        await session.run(init)
        assert await session.run(total) == 1 + 2 + 3
        assert await session.run(total) == 4 + 5 + 6


async def test_readers_before_and_after_a_write_have_copies_of_their_own(opaque: OpaqueDeviceFactory):
    with graph() as g:
        v = reference([1], "int32", "v")
        init = op("Assign", v, constant([2], "int32"))
        before = op("Fill", v, constant(1.0))
        with g.control_dependencies([before.op]):
            changed = op("AssignAdd", v, constant([1], "int32"))
        with g.control_dependencies([changed.op]):
            after = op("Fill", v, constant(1.0))
    async with ax.Session(graph=g) as session:
        await session.run(init)
        found = await session.run([before, after])
        np.testing.assert_array_equal(found[0], np.ones(2))
        np.testing.assert_array_equal(found[1], np.ones(3))
