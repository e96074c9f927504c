"""Barriers in graphs: insertion, take_many, close, and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import CancelledError, GraphValueError, InvalidArgumentError, OutOfRangeError
from aioexec.graph.apply import apply_any_op, apply_op
from aioexec.ops.containers.barrier import Barrier
from aioexec.testing import all_tasks_blocked

FIRST = -(2**63)


@pytest.fixture(autouse=True)
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as made:
        yield made


def barrier(**options: Any) -> Barrier:
    return Barrier((ax.float32, ax.string), shapes=((2,), ()), name="b", **options)


async def test_tuples_are_taken_when_all_their_components_have_come():
    made = barrier()
    first = made.insert_many(0, ["x", "y"], [[1.0, 2.0], [3.0, 4.0]])
    second = made.insert_many(1, ["y"], ["why"])
    take = made.take_many(1)
    assert [tensor.shape.as_list() for tensor in (take.indices, take.keys, *take.values)] == [
        [1],
        [1],
        [1, 2],
        [1],
    ]
    async with ax.Session() as session:
        await session.run(first)
        await session.run(second)
        assert await session.run([made.ready_size(), made.incomplete_size()]) == [1, 1]

        taken = await session.run(take)

    assert (taken.indices.tolist(), taken.keys.tolist()) == ([FIRST], [b"y"])
    assert [value.tolist() for value in taken.values] == [[[3.0, 4.0]], [b"why"]]


@pytest.mark.parametrize("count", [3, 400], ids=["on the loop", "on a worker"])
async def test_many_tuples_come_and_go_at_once(count: int):
    made = barrier()
    keys, values, words = ax.placeholder(ax.string), ax.placeholder(ax.float32), ax.placeholder(ax.string)
    first, second = made.insert_many(0, keys, values), made.insert_many(1, keys, words)
    take = made.take_many(count)
    names = [f"{k:04}" for k in range(count)]
    numbers = np.arange(2 * count, dtype=np.float32).reshape(count, 2)
    async with ax.Session() as session:
        await session.run(first, {keys: names, values: numbers})
        await session.run(second, {keys: names[::-1], words: names[::-1]})

        taken = await session.run(take)

    assert [name.decode() for name in taken.keys] == names[::-1]
    assert np.array_equal(taken.values[0], numbers[::-1])


@pytest.mark.parametrize("count", [2, 300], ids=["on the loop", "on a worker"])
async def test_who_takes_waits_and_leaves_nothing_behind_when_cancelled(count: int):
    made = Barrier(ax.int32, shapes=((),))
    number = ax.placeholder(ax.int32)
    put, take, all_ = made.insert_many(0, ["k"], number), made.take_many(1), made.take_many(count)
    async with ax.Session() as session:
        await session.run(put, {number: [0]})
        await session.run(take)
        waiting = asyncio.create_task(session.run(all_))
        await all_tasks_blocked()
        await session.run(put, {number: [7]})
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

        assert (await session.run(take)).values[0].tolist() == [7]


async def test_closing_ends_who_waits_for_what_will_not_come():
    made = barrier()
    first, take = made.insert_many(0, ["x"], [[1.0, 2.0]]), made.take_many(1)
    async with ax.Session() as session:
        await session.run(first)
        waiting = asyncio.create_task(session.run(take))
        await all_tasks_blocked()
        await session.run(made.close())
        assert not waiting.done()

        await session.run(made.close(cancel_pending_enqueues=True))

        with pytest.raises(
            OutOfRangeError, match=r"is closed and has insufficient elements \(requested 1, total"
        ):
            await waiting
        with pytest.raises(CancelledError, match="is closed"):
            await session.run(first)
        with pytest.raises(CancelledError, match="is already closed"):
            await session.run(made.close())


async def test_what_does_not_fit_is_refused_when_the_step_runs():
    made = barrier()
    keys, values = ax.placeholder(ax.string), ax.placeholder(ax.float32)
    put = made.insert_many(0, keys, values)
    count = ax.placeholder(ax.int32)
    take = made.take_many(count)
    async with ax.Session() as session:
        for feeds, message in (
            (
                {keys: ["k"], values: [[1.0, 2.0, 3.0]]},
                r"Shape mismatch in tuple component 2. Expected \(2,\), got \[3\]",
            ),
            ({keys: ["k", "l"], values: [[1.0, 2.0]]}, "with a value each"),
            ({keys: "k", values: [1.0, 2.0]}, "keys must be a vector"),
        ):
            with pytest.raises(InvalidArgumentError, match=message):
                await session.run(put, feeds)
        for value, message in ((-1, "must not be negative"), ([1], "num_elements must be a scalar")):
            with pytest.raises(InvalidArgumentError, match=message):
                await session.run(take, {count: value})
        with pytest.raises(InvalidArgumentError, match="component ID is out of range 5"):
            await session.run(made.insert_many(5, ["k"], [[1.0, 2.0]]))
        with pytest.raises(InvalidArgumentError, match="Signature mismatch"):
            await session.run(
                apply_any_op("BarrierTakeMany", made.barrier_ref, 1, component_types=[ax.float32])
            )
        with pytest.raises(InvalidArgumentError, match="only accepts capacity=-1"):
            limited = apply_op("Barrier", component_types=[ax.int32], capacity=3)
            await session.run(apply_op("BarrierReadySize", limited))


def test_a_barrier_has_shapes_that_are_known_and_not_empty():
    with pytest.raises(GraphValueError, match="All shapes must be fully defined"):
        Barrier(ax.int32, shapes=((None,),))
    with pytest.raises(GraphValueError, match="Empty tensors are not supported, but received shape"):
        Barrier(ax.int32, shapes=((0,),))
    assert barrier().name == "b"


@pytest.mark.behaviour(129)
async def test_barriers_of_one_name_are_one():
    one, same, other = barrier(shared_name="s"), barrier(shared_name="s"), barrier()
    async with ax.Session() as session:
        await session.run(one.insert_many(0, ["x"], [[1.0, 2.0]]))

        assert await session.run([each.incomplete_size() for each in (one, same, other)]) == [1, 1, 0]
