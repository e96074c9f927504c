"""Large constants: programs read the arrays of the graph, and hold no copies."""

from __future__ import annotations

import numpy as np
import pytest

import aioexec as ax
from tests.tiers import Ops, constant, feed, graph, op, programs, session_on

ROWS, COLUMNS = 4096, 64
TABLE = np.random.default_rng(1).standard_normal((ROWS, COLUMNS)).astype(np.float32)


async def test_rows_read_the_array_of_the_graph():
    with graph() as made:
        table = constant(TABLE)
        places = feed([3], "int32")
        y = op("Neg", op("GatherV2", table, places, constant(0, "int32")))
    given = np.array([5, 0, 4000], np.int32)

    async with session_on(made, "eager") as session:
        found = await session.run(y, {places: given})
        (program,) = programs(session)

    (array,) = program.variant.large.values()
    assert np.shares_memory(array, made.get_operation_by_name(table.op.name).attrs["value"])
    assert program.variant.constants.nbytes < 1024
    np.testing.assert_array_equal(found, -TABLE[given])


async def test_two_programs_share_the_array():
    with graph() as made:
        x = feed([None, COLUMNS])
        y = op("AddV2", x, constant(TABLE))

    async with session_on(made, "eager") as session:
        for count in (1, ROWS):
            given = np.ones((count, COLUMNS), np.float32)
            np.testing.assert_array_equal(await session.run(y, {x: given}), TABLE + 1)
        one, other = (program.variant.large.values() for program in programs(session))

    assert [id(array) for array in one] == [id(array) for array in other]


async def test_a_break_reads_it(ops: Ops):
    ops.broken("BreaksLarge", lambda value: value * 2)
    with graph() as made:
        x = feed([COLUMNS])
        table = constant(TABLE)
        y = op("AddV2", op("BreaksLarge", op("AddV2", x, table)), table)

    async with session_on(made, "eager") as session:
        found = await session.run(y, {x: np.ones(COLUMNS, np.float32)})

    np.testing.assert_array_equal(found, (TABLE + 1) * 2 + TABLE)


async def test_a_fetched_one_is_a_copy():
    with graph() as made:
        x = feed([])
        table = constant(TABLE)
        y = op("AddV2", x, constant(1.0))

    async with session_on(made, "eager") as session:
        for _ in range(2):
            kept, _ = await session.run([table, y], {x: 1.0})
            kept[:] = 0
        again = await session.run(table)

    np.testing.assert_array_equal(again, TABLE)


@pytest.mark.parametrize("jit", ["off", "eager"])
async def test_a_loop_that_begins_with_it_leaves_it_as_it_is(jit):
    with graph() as made:
        x = feed([])
        start = ax.constant(TABLE)
        _, total = ax.while_loop(
            lambda k, _: k < 3, lambda k, value: (k + 1, value * 2 + x), (ax.constant(0), start)
        )

    async with session_on(made, jit) as session:
        for _ in range(2):
            found = await session.run(total, {x: 1.0})
            np.testing.assert_allclose(found, TABLE * 8 + 7, rtol=1e-6, atol=1e-6)
