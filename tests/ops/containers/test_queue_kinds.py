"""Padding, shuffling and priority queues in graphs and sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError, ResourceExhaustedError
from aioexec.graph.apply import apply_any_op, apply_list_op, apply_no_output_op, apply_op
from aioexec.testing import all_tasks_blocked


@pytest.fixture(autouse=True)
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as made:
        yield made


async def test_batches_of_a_padding_queue_are_as_large_as_the_largest_element():
    queue = ax.PaddingFIFOQueue(9, [ax.float32, ax.string], shapes=[[None, 2], [None]])
    value, text = ax.placeholder(ax.float32), ax.placeholder(ax.string)
    put, two, none = queue.enqueue((value, text)), queue.dequeue_many(2), queue.dequeue_many(0)
    assert [tensor.shape.as_list() for tensor in two] == [[2, None, 2], [2, None]]
    async with ax.Session() as session:
        await session.run(put, {value: [[1, 2]], text: ["a", "b"]})
        await session.run(put, {value: [[3, 4], [5, 6]], text: []})

        values, texts = await session.run(two)
        empty = await session.run(none)

    assert values.tolist() == [[[1, 2], [0, 0]], [[3, 4], [5, 6]]]
    assert texts.tolist() == [[b"a", b"b"], [b"", b""]]
    assert [array.shape for array in empty] == [(0, 0, 2), (0, 0)]


async def test_elements_of_a_padding_queue_must_fit_what_is_given_of_their_shape():
    queue = ax.PaddingFIFOQueue(9, [ax.float32], shapes=[[None, 2]])
    value = ax.placeholder(ax.float32)
    put, many = queue.enqueue([value]), queue.enqueue_many([value])
    async with ax.Session() as session:
        with pytest.raises(InvalidArgumentError, match=r"component 0. Expected \[\?,2\], got \[1,3\]"):
            await session.run(put, {value: np.ones((1, 3))})
        with pytest.raises(InvalidArgumentError, match=r"component 0. Expected \[4,\?,2\], got \[4,2\]"):
            await session.run(many, {value: np.ones((4, 2))})


async def test_large_batches_are_padded_on_a_worker():
    queue = ax.PaddingFIFOQueue(-1, [ax.float32], shapes=[[None]])
    value = ax.placeholder(ax.float32)
    put, many = queue.enqueue_many([value]), queue.dequeue_many(400)
    async with ax.Session() as session:
        await session.run(put, {value: np.ones((200, 1))})
        await session.run(put, {value: np.ones((200, 3))})

        batch = await session.run(many)

    assert batch.shape == (400, 3)
    assert batch.sum() == 800


@pytest.mark.parametrize("waits", [False, True])
async def test_a_batch_that_would_be_absurdly_padded_is_refused_and_nothing_is_lost(waits: bool):
    queue = ax.PaddingFIFOQueue(-1, [ax.float32], shapes=[[None, None]])
    value = ax.placeholder(ax.float32)
    put, two, one = queue.enqueue(value), queue.dequeue_many(2), queue.dequeue()
    tall, wide = np.zeros((100_000, 1), np.float32), np.zeros((1, 100_000), np.float32)
    async with ax.Session() as session:
        for each in (wide, wide, tall):
            await session.run(put, {value: each})
        assert (await session.run(two)).shape == (2, 1, 100_000)
        if not waits:
            await session.run(put, {value: wide})
        refused = asyncio.create_task(session.run(two))
        await all_tasks_blocked()
        if waits:
            await session.run(put, {value: wide})

        with pytest.raises(ResourceExhaustedError, match=r"padded to \[2, 100000, 100000\]"):
            await refused

        assert [(await session.run(one)).shape for _ in range(2)] == [tall.shape, wide.shape]


async def test_a_shuffling_queue_chooses_as_tensorflow_does():
    """The numbers are TensorFlow's."""
    queue = ax.RandomShuffleQueue(100, 3, ax.int32, shapes=[[]], seed=7)
    async with ax.Session() as session:
        await session.run(queue.enqueue_many([np.arange(20)]))

        first = await session.run(queue.dequeue_many(10))
        one = queue.dequeue()
        rest = [int(await session.run(one)) for _ in range(7)]

    assert first.tolist() == [7, 4, 19, 15, 0, 8, 10, 11, 14, 6]
    assert rest == [16, 1, 12, 3, 17, 5, 2]


async def test_a_shuffling_queue_keeps_some_elements_back():
    queue = ax.RandomShuffleQueue(10, 1, ax.int32, shapes=[[]])
    put, take = queue.enqueue(5), queue.dequeue()
    async with ax.Session() as session:
        for _ in range(2):
            await session.run(put)
        assert await session.run(take) == 5
        waiting = asyncio.create_task(session.run(take))
        await all_tasks_blocked()
        assert not waiting.done()

        await session.run(put)

        assert await waiting == 5
        assert await session.run(queue.size()) == 1


async def test_a_priority_queue_gives_the_lowest_first():
    queue = ax.PriorityQueue(9, ax.string, shapes=[()], names=["priority", "word"])
    assert queue.dtypes == [ax.int64, ax.string]
    async with ax.Session() as session:
        for priority, word in ((5, "a"), (3, "b"), (5, "c"), (-1, "d")):
            await session.run(queue.enqueue({"priority": np.int64(priority), "word": word}))

        batch = await session.run(queue.dequeue_many(4))

    assert batch["priority"].tolist() == [-1, 3, 5, 5]
    assert batch["word"].tolist() == [b"d", b"b", b"a", b"c"]


def test_queues_are_made_with_tensorflows_arguments_and_words():
    shuffle = ax.RandomShuffleQueue(3, 1, ax.float32, seed=7).queue_ref.op
    assert [shuffle.get_attr(name) for name in ("min_after_dequeue", "seed", "seed2")] == [1, 87654321, 7]
    assert ax.PriorityQueue(3, ax.float32, [[]]).queue_ref.op.get_attr("component_types") == [ax.float32]
    for shapes in (None, [None], [2]):
        with pytest.raises(GraphValueError, match="When providing partial shapes, a list of shapes must be"):
            ax.PaddingFIFOQueue(3, [ax.float32], shapes=shapes)
    with pytest.raises(GraphValueError, match="received 1 dtypes and 2 shapes"):
        ax.PaddingFIFOQueue(3, [ax.float32], shapes=[[], []])
    with pytest.raises(GraphTypeError, match="Expected list for 'shapes' argument"):
        ax.PriorityQueue(3, ax.float32)


@pytest.mark.behaviour(128)
@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"min_after_dequeue": 2}, "has min_after_dequeue 1 but requested min_after_dequeue was 2"),
        ({"seed": 4}, r"has random seeds \(87654321, 3\) but requested random seeds were \(87654321, 4\)"),
        ({"capacity": 9}, "has capacity 5 but requested capacity was 9"),
    ],
)
async def test_a_shared_shuffling_queue_is_asked_for_as_it_is(attrs: dict[str, Any], message: str):
    given: dict[str, Any] = {
        "capacity": 5,
        "min_after_dequeue": 1,
        "dtypes": ax.int32,
        "seed": 3,
        "shared_name": "s",
    }
    first, second = ax.RandomShuffleQueue(**given), ax.RandomShuffleQueue(**given | attrs)
    async with ax.Session() as session:
        await session.run(first.size())

        with pytest.raises(InvalidArgumentError, match=message):
            await session.run(second.size())


@pytest.mark.behaviour(128)
async def test_a_shared_queue_is_of_one_kind():
    queues = [
        ax.FIFOQueue(5, ax.int32, shapes=[[]], shared_name="s"),
        ax.PaddingFIFOQueue(5, [ax.int32], shapes=[[]], shared_name="s"),
    ]
    async with ax.Session() as session:
        await session.run(queues[0].size())

        with pytest.raises(InvalidArgumentError, match="expected PaddingFIFOQueue, found FIFOQueue"):
            await session.run(queues[1].size())


async def test_queues_of_several_kinds_are_chosen_from_a_list():
    queues = [ax.FIFOQueue(5, ax.int32, shapes=[[]]), ax.RandomShuffleQueue(5, 0, ax.int32, shapes=[[]])]
    index = ax.placeholder(ax.int32, [])
    chosen = ax.QueueBase.from_list(index, queues)
    put = chosen.enqueue(4)
    async with ax.Session() as session:
        await session.run(put, {index: 1})

        assert await session.run([queue.size() for queue in queues]) == [0, 1]


@pytest.mark.parametrize("kind", ["PaddingFIFOQueue", "RandomShuffleQueue"])
async def test_the_first_versions_pass_queues_along_references(kind: str):
    queue = apply_any_op(kind, component_types=[ax.int32], shapes=[()])
    types: dict[str, Any] = {"component_types": [ax.int32]}
    async with ax.Session() as session:
        await session.run(apply_no_output_op("QueueEnqueueMany", queue, [[6, 6, 6]]))

        assert (await session.run(apply_list_op("QueueDequeueMany", queue, 2, **types)))[0].tolist() == [6, 6]
        assert await session.run(apply_op("QueueSize", queue)) == 1
