"""A step of a plan: the cost of a warm one, the arrays it returns, and the thread on which it runs."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import numpy as np
import pytest

from tests.tiers import (
    Ops,
    Tier,
    constant,
    executors,
    feed,
    graph,
    op,
    programs,
    read,
    resource,
    run_nowait,
    session_on,
)


def chain(length: int) -> tuple[Any, Any, Any]:
    with graph() as g:
        x = feed([64])
        y = x
        for k in range(length):
            y = op("Mul" if k % 2 else "Add", y, x)
    return g, x, y


async def calls_of_a_warm_step(length: int) -> int:
    """Python and C calls between the call of `run` and its result."""
    g, x, y = chain(length)
    array = np.full(64, 0.5, np.float32)
    feeds = {x: array}
    async with session_on(g, "eager") as session:
        for _ in range(5):
            await session.run(y, feeds)
        await asyncio.sleep(0)  # a tick with all its budget
        calls = []
        sys.setprofile(lambda frame, event, argument: calls.append(event) if "call" in event else None)
        try:
            await session.run(y, feeds)
        finally:
            sys.setprofile(None)
        assert [program.variant.native for program in programs(session)] == [length]
    return len(calls)


async def test_a_warm_step_makes_as_many_calls_for_1000_nodes_as_for_10():
    calls = [await calls_of_a_warm_step(length) for length in (10, 1000)]

    assert calls[0] == calls[1]
    assert calls[0] < 60


async def test_a_warm_training_step_makes_as_many_calls_for_100_nodes_as_for_10():
    async def calls_with_updates(length: int) -> int:
        with graph() as g:
            x, v = feed([64]), resource([64])
            init = op("AssignVariableOp", v, np.zeros(64, np.float32))
            y = read(v)
            for _ in range(length):
                y = op("Mul", y, x)
            train = op("AssignAddVariableOp", v, y)
        feeds = {x: np.ones(64, np.float32)}
        async with session_on(g, "eager") as session:
            await session.run(init)
            for _ in range(5):
                await session.run([y, train], feeds)
            await asyncio.sleep(0)  # a tick with all its budget
            calls = []
            sys.setprofile(lambda frame, event, argument: calls.append(event) if "call" in event else None)
            try:
                await session.run([y, train], feeds)
            finally:
                sys.setprofile(None)
        return len(calls)

    assert await calls_with_updates(10) == await calls_with_updates(100)


async def test_a_step_of_several_fetches_in_any_order_is_one_call_too():
    """The fast path does not depend on the order in which the graph made what is fetched."""
    with graph() as g:
        x = feed([4])
        a = op("Add", x, x)
        b = op("Mul", a, x)
    feeds = {x: np.arange(4, dtype=np.float32)}

    async with session_on(g, "eager") as session:
        await session.run([b, a], feeds)
        found = run_nowait(executors(session)[0], feeds.values())

    assert isinstance(found, list)
    np.testing.assert_array_equal(found[0], [0, 2, 8, 18])
    np.testing.assert_array_equal(found[1], [0, 2, 4, 6])


async def test_a_fetched_array_has_no_other_reference(tier: Tier):
    """A fetch shares memory with no feed, constant, variable, other fetch, or later result."""
    with graph() as g:
        x = feed([4], name="x")
        v = resource([4])
        c = constant([1.0, 2.0, 3.0, 4.0])
        init = op("AssignVariableOp", v, np.arange(4, dtype=np.float32))
        y = op("Add", x, c)
        fetches = {
            "feed": op("Identity", x),
            "reshaped feed": op("Reshape", x, np.array([2, 2], np.int32)),
            "constant": c,
            "same constant": op("Identity", c),
            "variable": read(v),
            "variable again": op("Identity", read(v)),
            "sum": y,
            "sum again": op("Identity", y),
            "reshaped sum": op("Reshape", y, np.array([2, 2], np.int32)),
        }
    array = np.arange(4, dtype=np.float32)

    async with tier.session(g) as session:
        await session.run(init)
        first = await session.run(fetches, {x: array})
        expected = {name: value.copy() for name, value in first.items()}
        names = list(first)
        for name, value in first.items():
            assert value.flags.writeable, name
            assert not np.shares_memory(value, array), name
            for other in names[names.index(name) + 1 :]:
                assert not np.shares_memory(value, first[other]), (name, other)
        for value in first.values():
            value.fill(-77)
        second = await session.run(fetches, {x: array})

    for name, value in second.items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


async def test_fetching_a_fed_tensor_gives_the_callers_own_object(tier: Tier):
    with graph() as g:
        x = feed(None)
        y = op("Add", x, constant(1.0))
        z = op("Mul", y, constant(2.0))
    array, middle = np.ones((2, 3), np.float32), np.full((2,), 5, np.float32)

    async with tier.session(g) as session:
        for _ in range(2):
            same, result = await session.run([x, y], {x: array})
            assert same is array
            np.testing.assert_array_equal(result, array + 1)
            same, result = await session.run([y, z], {y: middle})
            assert same is middle
            np.testing.assert_array_equal(result, [10, 10])


async def test_a_fed_intermediate_tensor_replaces_its_producer_which_does_not_run(tier: Tier, ops: Ops):
    ran: list[int] = []

    def spy(x: Any) -> Any:
        ran.append(1)
        return x

    ops.broken("TestSpy", spy)
    with graph() as g:
        x = feed([2])
        spied = op("TestSpy", x)
        y = op("Add", spied, spied)

    async with tier.session(g) as session:
        result = await session.run(y, {spied: np.array([1, 2], np.float32)})
        np.testing.assert_array_equal(result, [2, 4])
        assert ran == []
        await session.run(y, {x: np.array([1, 2], np.float32)})
        assert ran == [1]


async def test_feeding_one_output_leaves_the_other_to_the_node(tier: Tier):
    with graph() as g:
        parts = op("Split", constant(0, "int32"), constant([1.0, 2.0]), num_split=2)
        y = op("Sub", parts[0], parts[1])

    async with tier.session(g) as session:
        assert await session.run(y, {parts[1]: np.array([10], np.float32)}) == [-9]
        assert await session.run(y) == [-1]


async def test_batch_sizes_that_change_give_right_results_and_a_bounded_number_of_programs(tier: Tier):
    with graph() as g:
        x = feed([None, 3])
        y = op("Add", op("MatMul", x, constant(np.eye(3))), constant([1.0, 2.0, 3.0]))
        rng = np.random.default_rng(1)

    async with tier.session(g) as session:
        for size in [*range(40), *rng.integers(0, 40, 60)]:
            batch = rng.random((size, 3)).astype(np.float32)
            np.testing.assert_allclose(await session.run(y, {x: batch}), batch + [1, 2, 3], rtol=1e-6)
        assert len(programs(session)) == (16 if tier.is_native else 0)


async def test_programs_run_where_the_tier_says(tier: Tier):
    g, x, y = chain(3)

    async with tier.session(g) as session:
        for _ in range(3):
            await session.run(y, {x: np.ones(64, np.float32)})
        assert [program.inline for program in programs(session)] == {"inline": [True], "worker": [False]}.get(
            tier.name, []
        )


async def test_a_program_whose_estimate_was_too_high_moves_to_the_loop_and_stays_there():
    """Measured, it is cheap: it may not run out of fuel, be thrown away, and start again on a worker each time."""
    with graph() as g:
        x = feed([64])
        y = op("Add", x, x)
    feeds = {x: np.ones(64, np.float32)}

    async with session_on(g, "eager") as session:
        await session.run(y, feeds)
        (program,) = programs(session)
        program.rows[0][2] = 10**6  # the row claims to take a millisecond
        object.__setattr__(program.variant, "cost", 10**6)
        program.frames.clear()
        for _ in range(3):
            assert run_nowait(executors(session)[0], feeds.values()) is not None
            assert program.inline


@pytest.mark.parametrize(
    "kind", ["strided", "read-only", "misaligned", "byte-swapped", "empty", "reversed", "transposed"]
)
async def test_feeds_of_any_memory_layout(tier: Tier, kind: str):
    with graph() as g:
        x = feed([None, None])
        y = op("Add", op("Mul", x, constant(2.0)), x)
        same = op("Identity", x)
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    raw = np.zeros(4 * 24 + 1, np.uint8)
    raw[1:] = base.reshape(-1).view(np.uint8)
    locked = base.copy()
    locked.flags.writeable = False
    array = {
        "strided": base[::2, ::3],
        "read-only": locked,
        "misaligned": raw[1:].view(np.float32).reshape(4, 6),
        "byte-swapped": base.astype(">f4"),
        "empty": base[:0],
        "reversed": base[::-1],
        "transposed": base.T,
    }[kind]
    before = array.copy()

    async with tier.session(g) as session:
        for _ in range(3):
            result, copied = await session.run([y, same], {x: array})
            np.testing.assert_array_equal(result, 3 * before)
            np.testing.assert_array_equal(copied, before)
            assert result.shape == before.shape
    np.testing.assert_array_equal(array, before)
