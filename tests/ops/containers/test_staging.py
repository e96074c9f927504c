"""Staging areas in graphs: between steps, in parts, by key, waiting and cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphValueError, InternalError, InvalidArgumentError, ResourceExhaustedError
from aioexec.graph.apply import apply_list_op, apply_no_output_op, apply_op
from aioexec.ops.containers.staging_class import MapStagingArea, StagingArea
from aioexec.testing import all_tasks_blocked
from tests.tiers import Tier, tier as tier


@pytest.fixture(autouse=True)
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as made:
        yield made


async def waiting(session: ax.Session, fetch: Any, feed_dict: Any = None) -> asyncio.Task[Any]:
    task = asyncio.create_task(session.run(fetch, feed_dict))
    await all_tasks_blocked()
    assert not task.done()
    return task


async def test_one_step_leaves_values_for_another_on_every_tier(tier: Tier, graph: ax.Graph):
    x = ax.placeholder(ax.float32, [2])
    area = StagingArea([ax.float32, ax.float32], shapes=[[2], []], capacity=2)
    put = area.put([x * 2, ax.reduce_sum(x)])
    doubled, total = area.get()
    result = doubled + total
    async with tier.session(graph) as session:
        await session.run(put, {x: [1, 2]})
        assert await session.run(area.size()) == 1

        assert (await session.run([result, put], {x: [5, 6]}))[0].tolist() == [5, 7]
        assert (await session.run(area.peek(0)))[1] == 11
        await session.run(area.clear())
        assert await session.run(area.size()) == 0


async def test_who_takes_waits_for_who_puts_and_the_other_way_round():
    area = StagingArea([ax.int32], capacity=1)
    put, take = area.put([ax.constant(3)]), area.get()
    async with ax.Session() as session:
        await session.run(put)
        await session.run(take)
        taking = await waiting(session, take)
        await session.run(put)
        assert await taking == [3]

        await session.run(put)
        putting = await waiting(session, put)
        await session.run(take)
        await putting
        assert await session.run(area.size()) == 1


async def test_a_cancelled_step_takes_and_leaves_nothing():
    area = StagingArea([ax.int32], capacity=1)
    put, take = area.put([ax.constant(3)]), area.get()
    async with ax.Session() as session:
        await session.run(put)
        await session.run(take)
        first, second = await waiting(session, take), await waiting(session, take)
        first.cancel()
        await session.run(put)
        assert await second == [3]

        await session.run(put)
        putting = await waiting(session, put)
        putting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await putting
        await session.run(take)
        assert await session.run(area.size()) == 0


async def test_what_is_left_is_a_copy_also_if_it_is_large():
    fed = ax.placeholder(ax.float32)
    area = StagingArea([ax.float32], memory_limit=500_000)
    put, take = area.put([fed]), area.get()
    async with ax.Session() as session:
        for size in (3, 100_000):
            value = np.zeros(size, np.float32)
            await session.run(put, {fed: value})
            value[:] = 1
            assert not (await session.run(take))[0].any()
        with pytest.raises(ResourceExhaustedError, match="combined size of '800000' bytes"):
            await session.run(put, {fed: np.zeros(200_000, np.float32)})


async def test_tuples_come_and_go_by_key_in_parts():
    area = MapStagingArea([ax.float32, ax.int32], shapes=[[], []], names=["x", "n"])
    key = ax.placeholder(ax.int64, [])
    first, second = area.put(key, {"n": 7}), area.put(key, {"x": 0.5})
    whole, part = area.get(key), area.get(key, ["n"])
    sizes = [area.size(), area.incomplete_size()]
    async with ax.Session() as session:
        await session.run(first, {key: 9})
        assert await session.run(sizes) == [0, 1]
        taking = await waiting(session, whole, {key: 9})
        await session.run(second, {key: 9})
        assert await taking == (9, {"x": 0.5, "n": 7})

        for put in (first, second):
            await session.run(put, {key: 4})
        assert await session.run(area.peek(key), {key: 4}) == {"x": 0.5, "n": 7}
        assert (await session.run(part, {key: 4}))[1] == {"n": 7}
        with pytest.raises(InvalidArgumentError, match="has already been removed"):
            await session.run(part, {key: 4})


async def test_an_ordered_area_gives_the_lowest_key():
    areas = [MapStagingArea([ax.int64], ordered=ordered, shared_name="same") for ordered in (True, False)]
    key = ax.placeholder(ax.int64, [])
    async with ax.Session() as session:
        for k in (5, 2, 8):
            await session.run([area.put(key, [key], [0]) for area in areas], {key: k})

        assert [(await session.run(area.get()))[0] for area in areas] == [2, 5]


async def test_areas_of_one_name_are_one_in_a_container():
    put = apply_no_output_op("Stage", [1.0], shared_name="here")
    with ax.container("elsewhere"):
        apart = apply_op("StageSize", dtypes=[ax.float32], shared_name="here", container="elsewhere")
    by_node = apply_no_output_op("Stage", [1.0], name="here_too")
    sizes = [
        apply_op("StageSize", dtypes=[ax.float32], shared_name=name) for name in ("here", "here_too", "other")
    ]
    async with ax.Session() as session:
        await session.run([put, by_node])

        assert await session.run([*sizes, apart]) == [1, 1, 0, 0]


async def test_what_is_taken_must_be_what_was_put():
    put = apply_no_output_op("Stage", [1.0, 2.0], shared_name="s")
    fewer = apply_list_op("Unstage", dtypes=[ax.float32], shared_name="s")
    other = apply_list_op("Unstage", dtypes=[ax.float32, ax.int32], shared_name="s")
    async with ax.Session() as session:
        for take, kind, message in (
            (fewer, InvalidArgumentError, "Mismatch stage/unstage: 2 vs. 1"),
            (other, InternalError, "Output 1 of type float32 does not match declared output type int32"),
        ):
            await session.run(put)
            with pytest.raises(kind, match=message):
                await session.run(take)


def test_the_classes_refuse_what_is_not_a_tuple_of_theirs():
    area = StagingArea([ax.float32], shapes=[[2]])
    named = StagingArea([ax.float32, ax.int32], names=["x", "n"])
    mapped = MapStagingArea([ax.float32, ax.int32])
    key = ax.constant(1, ax.int64)
    for call, message in (
        (lambda: StagingArea([ax.float32], shapes=[[], []]), "shapes must be the same length"),
        (lambda: StagingArea([ax.float32], names=["a", "b"]), "names must be the same length"),
        (lambda: StagingArea([ax.float32], shared_name=5), "shared_name must be a string"),
        (lambda: area.put([[1.0]]), "incompatible"),
        (lambda: area.put({"x": [1.0, 2.0]}), "must have names to enqueue a dictionary"),
        (lambda: named.put([1.0, 2]), "must enqueue a dictionary in a staging area with names"),
        (lambda: named.put({"x": 1.0, "z": 2}), "do not match names of staging area"),
        (lambda: named.put({"x": 1.0}), "expected 2 components, got 1"),
        (lambda: mapped.put(key, [1.0, 2]), "Indices must be supplied"),
        (lambda: mapped.put(key, [1.0, 2], [0]), "Number of indices 1 doesn't match number of values 2"),
        (lambda: mapped.get(key, ["x"]), "was not created with names"),
    ):
        with pytest.raises(GraphValueError, match=message):
            call()
