"""Conditional accumulators in graphs: means of enough gradients, stale ones, slices, large ones, and cancelled callers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_no_output_op, apply_op
from aioexec.testing import all_tasks_blocked
from tests.tiers import Tier, tier as tier

LARGE = 100_000


@pytest.fixture(autouse=True)
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as made:
        yield made


async def test_gradients_are_averaged_once_there_are_enough_on_every_tier(tier: Tier, graph: ax.Graph):
    x = ax.placeholder(ax.float32, [2])
    made = ax.ConditionalAccumulator(ax.float32, shape=[2])
    put, mean, count = made.apply_grad(x * 2), made.take_grad(2), made.num_accumulated()
    async with tier.session(graph) as session:
        await session.run(put, {x: [1, 2]})
        await session.run(put, {x: [2, 4]})
        assert await session.run(count) == 2

        assert (await session.run(mean * 1.0)).tolist() == [3, 6]
        assert await session.run(count) == 0
        await session.run(put, {x: [1, 2]})
        assert await session.run(count) == 0, "of the step before"


async def test_stale_gradients_are_dropped():
    step = ax.placeholder(ax.int64, [])
    made = ax.ConditionalAccumulator(ax.float32, shape=[], reduction_type="SUM")
    put, begin, total = made.apply_grad(3.0, local_step=step), made.set_global_step(5), made.take_grad(2)
    async with ax.Session() as session:
        await session.run(begin)
        for at in (4, 5, 6):
            await session.run(put, {step: at})

        assert await session.run(total) == 6


async def test_who_takes_in_the_turn_of_the_loop_in_which_the_gradient_comes_gets_it():
    made = ax.ConditionalAccumulator(ax.float32, shape=[2])
    put, take = made.apply_grad(ax.ones([2]), local_step=9), made.take_grad(1)
    async with ax.Session() as session:
        for _ in range(3):  # the first time, steps are planned in turns of their own
            taken, _ = await asyncio.gather(session.run(take), session.run(put))

            assert taken.tolist() == [1, 1]


@pytest.mark.parametrize("size", [2, LARGE], ids=["on the loop", "on a worker"])
async def test_who_takes_waits_and_when_cancelled_takes_nothing(size: int):
    made = ax.ConditionalAccumulator(ax.float32, shape=[size])
    put, take = made.apply_grad(ax.ones([size]), local_step=9), made.take_grad(3)
    async with ax.Session() as session:
        await asyncio.gather(*[session.run(put) for _ in range(3)])
        await session.run(take)
        gone, staying = [asyncio.create_task(session.run(take)) for _ in range(2)]
        await all_tasks_blocked()
        gone.cancel()

        await asyncio.gather(*[session.run(put) for _ in range(4)])

        assert (await staying).tolist() == [1] * size
        assert await session.run(made.num_accumulated()) == 1


async def test_what_is_accumulated_is_a_copy():
    fed = ax.placeholder(ax.float32, [2])
    made = ax.ConditionalAccumulator(ax.float32)
    put, take = made.apply_grad(fed), made.take_grad(1)
    async with ax.Session() as session:
        value = np.ones(2, np.float32)
        await session.run(put, {fed: value})
        value[:] = 5

        assert (await session.run(take)).tolist() == [1, 1]


async def test_slices_are_averaged_each_by_how_often_it_came():
    made = ax.SparseConditionalAccumulator(ax.float32, shape=[4, 2])
    one = made.apply_grad([0, 2], [[1.0, 1.0], [2.0, 2.0]], [4, 2])
    two = made.apply_indexed_slices_grad(
        ax.IndexedSlices(ax.constant([[5.0, 5.0], [6.0, 6.0]]), ax.constant([1, 2]))
    )
    taken, slices = made.take_grad(2), made.take_indexed_slices_grad(1)
    async with ax.Session() as session:
        await session.run(one)
        await session.run(two)

        result = await session.run(taken)
        assert result.indices.tolist() == [0, 1, 2]
        assert result.values.tolist() == [[1, 1], [5, 5], [4, 4]]
        assert result.shape.tolist() == [4, 2]

        await session.run(made.apply_grad([3], [[1.0, 2.0]], local_step=1))
        value = await session.run(slices)
        assert (value.indices.tolist(), value.values.tolist(), value.dense_shape.tolist()) == (
            [3],
            [[1, 2]],
            [4, 2],
        )


async def test_what_does_not_fit_is_refused():
    made = ax.ConditionalAccumulator(ax.float32, shape=[2])
    fed, step, count = ax.placeholder(ax.float32), ax.placeholder(ax.int64), ax.placeholder(ax.int32)
    put, take = made.apply_grad(fed, local_step=step), made.take_grad(count)
    sparse = ax.SparseConditionalAccumulator(ax.float32, shape=[4, 2])
    slices = sparse.apply_grad(ax.placeholder(ax.int64, name="i"), fed)
    async with ax.Session() as session:
        cases: list[tuple[Any, Any, str]] = [
            (put, {fed: [1, 2, 3], step: 0}, r"Shape mismatch: expected \[2\], got \[3\]"),
            (put, {fed: [1, 2], step: [0]}, "local_step must be a scalar"),
            (take, {count: 0}, "num_required must be positive, but was 0"),
            (take, {count: [1]}, "num_required must be a scalar"),
            (slices, {"i:0": [4], fed: [[1, 2]]}, "index is 4 exceeded 4"),
        ]
        for fetch, feeds, message in cases:
            with pytest.raises(InvalidArgumentError, match=message):
                await session.run(fetch, feeds)
        other = apply_op("ResourceAccumulatorTakeGradient", made.accumulator_ref, 1, dtype=ax.float64)
        with pytest.raises(InvalidArgumentError, match="Signature mismatch"):
            await session.run(other)


@pytest.mark.behaviour(129)
async def test_accumulators_of_one_name_are_one():
    one, same = (ax.ConditionalAccumulator(ax.float32, shared_name="s") for _ in range(2))
    other = ax.ConditionalAccumulator(ax.float32)
    async with ax.Session() as session:
        await session.run(one.apply_grad([1.0]))

        assert await session.run([each.num_accumulated() for each in (one, same, other)]) == [1, 1, 0]


async def test_the_first_version_passes_accumulators_along_references():
    made = apply_op("ConditionalAccumulator", dtype=ax.float32, shape=[2])
    async with ax.Session() as session:
        await session.run(apply_no_output_op("AccumulatorApplyGradient", made, 0, [1.0, 2.0]))
        await session.run(apply_no_output_op("AccumulatorSetGlobalStep", made, 4))

        assert await session.run(apply_op("AccumulatorNumAccumulated", made)) == 1
        assert (
            await session.run(apply_op("AccumulatorTakeGradient", made, 1, dtype=ax.float32))
        ).tolist() == [1, 2]
