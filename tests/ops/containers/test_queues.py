"""Queues in graphs and sessions: the nodes of `FIFOQueue`, results, waits and errors of its methods."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import (
    CancelledError,
    DeadlineExceededError,
    GraphValueError,
    InvalidArgumentError,
    OutOfRangeError,
)
from aioexec.graph.apply import apply_list_op, apply_no_output_op, apply_op
from aioexec.ops.containers.queue_class import FIFOQueue, QueueBase
from aioexec.testing import all_tasks_blocked
from tests.tiers import Tier, tier as tier

LARGE = 40_000
"""Elements of a vector that is copied on a worker."""


@pytest.fixture(autouse=True)
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as made:
        yield made


def numbers(capacity: int = 10, **options: Any) -> FIFOQueue:
    return FIFOQueue(capacity, ax.int32, shapes=[[]], **options)


async def filled(session: ax.Session, queue: FIFOQueue, *values: int) -> None:
    await session.run(queue.enqueue_many([list(values)]))


async def waiting(session: ax.Session, fetch: Any, feed_dict: Any = None) -> asyncio.Task[Any]:
    """A run that has come as far as it can; its signature must have been planned."""
    task = asyncio.create_task(session.run(fetch, feed_dict))
    await all_tasks_blocked()
    assert not task.done()
    return task


# Values through a queue


async def test_elements_of_several_components_come_out_in_order():
    queue = FIFOQueue(5, [ax.int32, ax.float32, ax.string], shapes=[[], [2], []])
    async with ax.Session() as session:
        await session.run(queue.enqueue((1, [1.0, 2.0], "a")))
        await session.run(queue.enqueue_many(([2, 3], [[3.0, 4.0], [5.0, 6.0]], ["b", "c"])))

        assert await session.run(queue.size()) == 3
        first = await session.run(queue.dequeue())
        rest = await session.run(queue.dequeue_many(2))

    assert [first[0].tolist(), first[1].tolist(), first[2]] == [1, [1.0, 2.0], b"a"]
    assert [component.tolist() for component in rest] == [[2, 3], [[3.0, 4.0], [5.0, 6.0]], [b"b", b"c"]]
    assert [component.dtype for component in rest] == [np.int32, np.float32, object]


async def test_strings_that_are_fed_are_bytes_in_the_queue_in_every_run():
    queue, fed = FIFOQueue(5, ax.string), ax.placeholder(ax.string)
    put, take = queue.enqueue(fed), queue.dequeue()
    async with ax.Session() as session:
        for text in ("a", "b", "c"):
            await session.run(put, {fed: np.array([text], object)})

            assert (await session.run(take)).tolist() == [text.encode()]


async def test_elements_with_names_are_dicts():
    queue = FIFOQueue(5, [ax.int32, ax.float32], shapes=[[], []], names=["x", "y"])
    async with ax.Session() as session:
        await session.run(queue.enqueue({"y": 2.0, "x": 1}))
        await session.run(queue.enqueue_many({"y": [4.0], "x": [3]}))

        assert await session.run(queue.dequeue()) == {"x": 1, "y": 2.0}
        assert await session.run(queue.dequeue_up_to(1)) == {"x": [3], "y": [4.0]}


async def test_elements_without_declared_shapes_may_have_any():
    queue = FIFOQueue(5, ax.float32)
    async with ax.Session() as session:
        await session.run(queue.enqueue(1.0))
        await session.run(queue.enqueue([[1.0, 2.0]]))
        await session.run(queue.enqueue_many([[[3.0], [4.0]]]))

        assert [(await session.run(queue.dequeue())).tolist() for _ in range(3)] == [1.0, [1.0, 2.0], [3.0]]


@pytest.mark.parametrize("size", [3, LARGE], ids=["on the loop", "on a worker"])
async def test_what_is_in_a_queue_is_a_copy(size: int):
    queue = FIFOQueue(5, ax.float32, shapes=[[size]])
    fed = ax.placeholder(ax.float32, [size])
    batch = ax.placeholder(ax.float32, [None, size])
    async with ax.Session() as session:
        value = np.zeros(size, np.float32)
        await session.run(queue.enqueue(fed), {fed: value})
        value[:] = 1
        values = np.zeros((2, size), np.float32)
        await session.run(queue.enqueue_many([batch]), {batch: values})
        values[:] = 1

        one = await session.run(queue.dequeue())
        two = await session.run(queue.dequeue_many(2))
        one[:] = 2

    assert two.shape == (2, size)
    assert not two.any()


async def test_nothing_is_lost_on_the_way_through_workers():
    queue = FIFOQueue(1000, ax.int32, shapes=[[]])
    many = ax.constant(np.arange(900), ax.int32)
    async with ax.Session() as session:
        await session.run(queue.enqueue_many([many]))

        first = await session.run(queue.dequeue_many(600))
        await session.run(queue.close())
        rest = await session.run(queue.dequeue_up_to(600))

    assert np.concatenate([first, rest]).tolist() == list(range(900))


async def test_the_verbs_of_the_first_version_pass_queues_along_references():
    queue = apply_op("FIFOQueue", component_types=[ax.int32], shapes=[()])
    add, many = (
        apply_no_output_op("QueueEnqueue", queue, [5]),
        apply_no_output_op("QueueEnqueueMany", queue, [[6, 7, 8]]),
    )
    types: dict[str, Any] = {"component_types": [ax.int32]}
    async with ax.Session() as session:
        await session.run(add)
        await session.run(many)

        assert await session.run(apply_op("QueueSize", queue)) == 4
        assert await session.run(apply_list_op("QueueDequeue", queue, **types)) == [5]
        assert (await session.run(apply_list_op("QueueDequeueMany", queue, 2, **types)))[0].tolist() == [6, 7]
        await session.run(apply_no_output_op("QueueClose", queue))
        assert await session.run(apply_op("QueueIsClosed", queue))
        assert (await session.run(apply_list_op("QueueDequeueUpTo", queue, 2, **types)))[0].tolist() == [8]


async def test_what_a_program_computes_goes_through_queues_on_every_tier(tier: Tier, graph: ax.Graph):
    queue = FIFOQueue(10, [ax.float32, ax.float32], shapes=[[3], [3]])
    x = ax.placeholder(ax.float32, [3])
    enqueue = queue.enqueue((x * 2 + 1, ax.tanh(x)))
    doubled, bent = queue.dequeue()
    result = ax.reduce_sum(doubled * bent) + ax.cast(queue.size(), ax.float32) * 0
    value = np.array([0.5, 1, 2], np.float32)
    async with tier.session(graph) as session:
        for _ in range(3):
            await session.run(enqueue, {x: value})

            np.testing.assert_allclose(
                await session.run(result), ((value * 2 + 1) * np.tanh(value)).sum(), rtol=1e-6
            )


async def test_one_step_may_dequeue_and_enqueue():
    queue = numbers()
    doubled = queue.dequeue() * 3
    async with ax.Session() as session:
        value, _ = await session.run([doubled, queue.enqueue(7)])

    assert value == 21


# Waiting


async def test_dequeue_waits_for_the_next_element_and_holds_nothing():
    queue = numbers()
    enqueue, dequeue = queue.enqueue(5), queue.dequeue()
    async with ax.Session() as session:
        await session.run([enqueue, dequeue])
        task = await waiting(session, dequeue)

        await session.run(enqueue)

        assert await task == 5


async def test_enqueue_waits_for_room():
    queue = numbers(1)
    enqueue, dequeue = queue.enqueue(5), queue.dequeue()
    async with ax.Session() as session:
        await session.run(enqueue)
        task = await waiting(session, enqueue)

        assert await session.run(dequeue) == 5
        await task
        assert await session.run(queue.size()) == 1


@pytest.mark.parametrize("count", [3, 300], ids=["on the loop", "on a worker"])
async def test_a_cancelled_dequeue_many_gives_back_what_it_had(count: int):
    queue, n = numbers(-1), ax.placeholder(ax.int32, [])
    many = queue.dequeue_many(n)
    async with ax.Session() as session:
        await filled(session, queue, 0)
        await session.run(many, {n: 1})
        await filled(session, queue, 1, 2)
        task = await waiting(session, many, {n: count})
        assert await session.run(queue.size()) == 0

        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert (await session.run(many, {n: 2})).tolist() == [1, 2]


async def test_of_waiting_dequeues_the_cancelled_ones_are_passed_over():
    queue = numbers()
    dequeue = queue.dequeue()
    async with ax.Session() as session:
        await filled(session, queue, 0)
        await session.run(dequeue)
        tasks = [await waiting(session, dequeue) for _ in range(4)]

        tasks[0].cancel()
        tasks[2].cancel()
        await filled(session, queue, 1, 2, 3)

        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [results[1], results[3]] == [1, 2]
        assert await session.run(dequeue) == 3


async def test_no_element_is_lost_to_steps_that_are_being_cancelled():
    queue = numbers(1)
    enqueue, dequeue = queue.enqueue(1), queue.dequeue()
    async with ax.Session() as session:
        await session.run([enqueue, dequeue])
        tasks = [await waiting(session, dequeue) for _ in range(20)]

        for task in tasks[::3]:
            task.cancel()
        for _ in range(13):  # served before the cancelled tasks have their turn, or after
            await session.run(enqueue)

        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results[::3]] == [asyncio.CancelledError] * 7
        assert [result for k, result in enumerate(results) if k % 3] == [1] * 13


@pytest.mark.behaviour(40)
@pytest.mark.parametrize("where", ["run", "session"])
async def test_a_blocked_dequeue_fails_when_the_time_is_up(where: str, virtual_clock: Any):
    queue = numbers()
    enqueue, dequeue = queue.enqueue(1), queue.dequeue()
    config = ax.ConfigProto(operation_timeout_in_ms=1000 if where == "session" else 0)
    options = ax.RunOptions(timeout_in_ms=1000 if where == "run" else 0)
    async with ax.Session(config=config) as session:
        await session.run(enqueue)
        await session.run(dequeue)

        with pytest.raises(DeadlineExceededError):
            await session.run(dequeue, options=options)

        await session.run(enqueue)
        assert await session.run(dequeue) == 1


# Closing


async def test_a_closed_queue_says_so_in_tensorflows_words():
    queue = numbers(name="q")
    async with ax.Session() as session:
        await filled(session, queue, 1, 2)
        assert not await session.run(queue.is_closed())
        await session.run(queue.close())

        assert await session.run(queue.is_closed())
        with pytest.raises(CancelledError, match=r"FIFOQueue '_\d+_q' is closed"):
            await session.run(queue.enqueue(3))
        with pytest.raises(CancelledError, match="is already closed"):
            await session.run(queue.close())
        with pytest.raises(
            OutOfRangeError, match=r"is closed and has insufficient elements \(requested 3, current size 2\)"
        ) as caught:
            await session.run(queue.dequeue_many(3))
        assert caught.value.node == "q_DequeueMany"
        assert (await session.run(queue.dequeue_up_to(3))).tolist() == [1, 2]
        assert (await session.run(queue.dequeue_many(0))).shape == (0,)


async def test_closing_with_cancellation_fails_pending_enqueues():
    queue = numbers(1)
    enqueue = queue.enqueue(5)
    async with ax.Session() as session:
        await session.run(enqueue)
        task = await waiting(session, enqueue)

        await session.run(queue.close(cancel_pending_enqueues=True))

        with pytest.raises(CancelledError, match="Enqueue operation was cancelled"):
            await task


async def test_closing_waits_for_pending_enqueues():
    queue = numbers(1)
    enqueue, close, dequeue = queue.enqueue(5), queue.close(), queue.dequeue()
    async with ax.Session() as session:
        await session.run(enqueue)
        pending = await waiting(session, enqueue)
        closing = asyncio.create_task(session.run(close))

        assert [await session.run(dequeue), await session.run(dequeue)] == [5, 5]
        await asyncio.gather(pending, closing)


# Sharing


@pytest.mark.behaviour(129)
async def test_queues_are_their_nodes_own_unless_they_share_a_name():
    own, other = numbers(name="a"), numbers(name="b")
    shared, same = numbers(shared_name="s"), numbers(shared_name="s")
    with ax.container("elsewhere"):
        apart = numbers(shared_name="s")
    async with ax.Session() as session:
        await session.run([own.enqueue(1), shared.enqueue(1)])

        assert [await session.run(queue.size()) for queue in (own, other, shared, same, apart)] == [
            1,
            0,
            1,
            1,
            0,
        ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity": 11}, "has capacity 10 but requested capacity was 11"),
        ({"dtypes": ax.int64}, "has component types int32 but requested component types were int64"),
        ({"shapes": [[3]]}, r"has component shapes \[\[\]\] but requested component shapes were \[\[3\]\]"),
        ({"shapes": None}, r"has component shapes \[\[\]\] but requested component shapes were \[\]"),
    ],
)
async def test_a_shared_queue_is_asked_for_as_it_is(options: dict[str, Any], message: str):
    alike: dict[str, Any] = {"capacity": 10, "dtypes": ax.int32, "shapes": [[]], "shared_name": "s"}
    first, second = FIFOQueue(**alike), FIFOQueue(**{**alike, **options})
    async with ax.Session() as session:
        await session.run(first.size())

        with pytest.raises(InvalidArgumentError, match=f"Shared queue 's' {message}"):
            await session.run(second.size())


@pytest.mark.behaviour(129)
@pytest.mark.parametrize(
    ("container", "shared_name", "message"),
    [
        ("two words", "", "container contains invalid characters"),
        ("", "_x", "shared_name cannot start with '_'"),
    ],
)
async def test_bad_containers_and_shared_names_are_refused(container: str, shared_name: str, message: str):
    with ax.container(container):
        queue = numbers(shared_name=shared_name)
    async with ax.Session() as session:
        with pytest.raises(InvalidArgumentError, match=message):
            await session.run(queue.size())


async def test_a_queue_is_chosen_from_a_list_when_the_step_runs():
    queues = [numbers(name="a"), numbers(name="b")]
    index = ax.placeholder(ax.int32, [])
    chosen = QueueBase.from_list(index, queues)
    async with ax.Session() as session:
        await session.run(chosen.enqueue(1), {index: 1})

        assert [await session.run(queue.size()) for queue in queues] == [0, 1]
        assert await session.run(chosen.dequeue(), {index: 1}) == 1


# Errors


@pytest.mark.parametrize(
    ("verb", "value", "message"),
    [
        ("enqueue", [[1.0, 2.0, 3.0]], r"Shape mismatch in tuple component 0. Expected \[2\], got \[3\]"),
        ("enqueue_many", [[[1.0, 2.0, 3.0]]], r"tuple component 0. Expected \[1,2\], got \[1,3\]"),
        ("enqueue_many", [1.0], "tuple component 0. Expected a batch of elements, got"),
    ],
)
async def test_elements_of_another_shape_are_refused_when_the_step_runs(verb: str, value: Any, message: str):
    queue, fed = FIFOQueue(3, ax.float32, shapes=[[2]]), ax.placeholder(ax.float32)
    async with ax.Session() as session:
        with pytest.raises(InvalidArgumentError, match=message):
            await session.run(getattr(queue, verb)([fed]), {fed: value[0]})

        assert await session.run(queue.size()) == 0


async def test_components_of_a_batch_must_be_of_one_size():
    queue, fed = FIFOQueue(3, [ax.int32, ax.int32]), ax.placeholder(ax.int32)
    async with ax.Session() as session:
        with pytest.raises(InvalidArgumentError, match="Component 1 has 1, and should have 2"):
            await session.run(queue.enqueue_many(([1, 2], fed)), {fed: [1]})


async def test_without_shapes_elements_are_not_put_together():
    queue = FIFOQueue(3, ax.int32)
    async with ax.Session() as session:
        with pytest.raises(InvalidArgumentError, match="require the components to have specified shapes"):
            await session.run(queue.dequeue_many(2))


@pytest.mark.parametrize(
    ("verb", "what"), [("dequeue_many", "DequeueMany"), ("dequeue_up_to", "DequeueUpTo")]
)
async def test_a_negative_number_of_elements_is_refused(verb: str, what: str):
    queue, n = numbers(), ax.placeholder(ax.int32, [])
    with pytest.raises(GraphValueError, match="Input 'n' must be >= 0, but is -1"):
        getattr(queue, verb)(-1)
    async with ax.Session() as session:
        with pytest.raises(InvalidArgumentError, match=f"{what}Op requested -1 < 0 elements"):
            await session.run(getattr(queue, verb)(n), {n: -1})


@pytest.mark.behaviour(130)
async def test_a_verb_refuses_what_is_no_queue_or_a_queue_of_other_components():
    queue = numbers()
    variable = apply_op("VarHandleOp", dtype=ax.float32, shape=())
    async with ax.Session() as session:
        with pytest.raises(InvalidArgumentError, match="using the wrong type"):
            await session.run(apply_op("QueueSizeV2", variable))
        with pytest.raises(InvalidArgumentError, match="Signature mismatch"):
            await session.run(apply_list_op("QueueDequeueV2", queue.queue_ref, component_types=[ax.float32]))
        with pytest.raises(InvalidArgumentError, match="Signature mismatch"):
            await session.run(apply_no_output_op("QueueEnqueueV2", queue.queue_ref, [1, 2]))


async def test_timeouts_of_single_verbs_are_refused():
    queue = numbers()
    async with ax.Session() as session:
        with pytest.raises(InvalidArgumentError, match="Timeout not supported yet"):
            await session.run(
                apply_list_op("QueueDequeueV2", queue.queue_ref, component_types=[ax.int32], timeout_ms=5)
            )
