"""A step of reference kernels drops large values after their last use: it does not hold all of them at once."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from aioexec.execution.node_calls import LARGE_VALUE
from tests.tiers import Ops, constant, feed, graph, op, session_on


async def test_large_values_are_dropped_after_their_last_use(ops: Ops):
    alive: list[weakref.ref[Any]] = []
    most: list[int] = []

    def watch(x: Any) -> Any:
        most.append(sum(each() is not None for each in alive))
        made = x + 1
        alive.append(weakref.ref(made))
        return made

    ops.broken("Watched", watch)
    with graph() as g:
        x = feed([None])
        first = y = op("Watched", x)
        for _ in range(6):
            y = op("Watched", y)
        total = op(
            "Add",
            op("Sum", y, op("Const", value=np.array([0], np.int32), dtype="int32")),
            op("Sum", first, op("Const", value=np.array([0], np.int32), dtype="int32")),
        )

    large, small = np.ones(LARGE_VALUE // 4, np.float32), np.ones(4, np.float32)
    async with session_on(g, "off") as session:
        for given in (large, small, large, small, large, large):  # the first and later runs with their shapes
            alive.clear()
            most.clear()
            assert await session.run(total, {x: given}) == 10 * given.size
            if given is large:
                assert max(most) <= 2  # the first value, which is used at the end, and the present one


async def test_a_large_value_that_follows_from_shapes_is_dropped_and_made_again():
    with graph() as g:
        x = feed([None])
        zeros = op("ZerosLike", x)  # its shape alone decides it
        total = op("Sum", op("Add", zeros, x), constant([0], "int32"))
    ones = np.ones(LARGE_VALUE // 4, np.float32)
    async with session_on(g, "off") as session:
        for _ in range(4):
            assert await session.run(total, {x: ones}) == ones.size
