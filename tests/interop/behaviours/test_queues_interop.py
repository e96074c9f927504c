"""Queues that steps fill, close, wait at and are cancelled at, in both engines."""

import asyncio

import numpy as np
import pytest

from tests.interop.behaviours.both import failure, floats

pytestmark = pytest.mark.interop


def queue_of_floats(tf, capacity=10, **options):
    return tf.FIFOQueue(capacity, [tf.float32], shapes=[[]], **options)


async def test_elements_come_out_in_the_order_they_went_in(agree):
    async def program(engine):
        tf = engine.tf
        queue = tf.FIFOQueue(10, [tf.int32, tf.string], shapes=[[2], []], names=["numbers", "text"])
        number, text = tf.placeholder(tf.int32, [2]), tf.placeholder(tf.string, [])
        put, take, size = queue.enqueue({"numbers": number, "text": text}), queue.dequeue(), queue.size()
        async with engine.session() as session:
            for n in range(3):
                await session.run(put, {number: [n, n * n], text: f"no. {n}"})
            return [await session.run(take) for _ in range(3)], await session.run(size)

    elements, size = await agree(program)

    assert [element["text"] for element in elements] == [b"no. 0", b"no. 1", b"no. 2"]
    np.testing.assert_array_equal([element["numbers"] for element in elements], [[0, 0], [1, 1], [2, 4]])
    assert size == 0


async def test_many_elements_go_in_and_come_out_at_once(agree):
    async def program(engine):
        tf = engine.tf
        queue = queue_of_floats(tf)
        many = queue.enqueue_many([floats([1, 2, 3, 4, 5])])
        two, up_to, none = queue.dequeue_many(2), queue.dequeue_up_to(2), queue.dequeue_many(0)
        close, last = queue.close(), queue.dequeue_up_to(9)
        async with engine.session() as session:
            await session.run(many)
            results = [await session.run(each) for each in (two, none, up_to)]
            await session.run(close)
            return *results, await session.run(last)

    result = await agree(program)

    assert [each.tolist() for each in result] == [[1.0, 2.0], [], [3.0, 4.0], [5.0]]


async def test_the_first_waiter_is_served_first(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [])
        queue = queue_of_floats(tf)
        put, take = queue.enqueue(x), queue.dequeue()
        async with engine.session() as session:
            waiting = asyncio.create_task(session.run(take))
            await session.run(put, {x: 5.0})
            return await waiting

    assert await agree(program) == 5.0


async def test_a_full_queue_makes_enqueues_wait(agree):
    async def program(engine):
        tf = engine.tf
        queue = queue_of_floats(tf, capacity=1)
        put, take, size = queue.enqueue_many([floats([1, 2, 3])]), queue.dequeue(), queue.size()
        async with engine.session() as session:
            filling = asyncio.create_task(session.run(put))
            values = [await session.run(take) for _ in range(3)]
            await filling
            return values, await session.run(size)

    assert await agree(program) == ([1.0, 2.0, 3.0], 0)


async def test_two_halves_of_one_step_meet_at_a_queue(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [])
        queue = queue_of_floats(tf, capacity=1)
        async with engine.session() as session:
            value, _ = await session.run([queue.dequeue() + x * 3.0, queue.enqueue(x * 2.0)], {x: 1.0})
            return value

    assert await agree(program) == 5.0


async def test_a_closed_queue_gives_what_is_left_then_ends(agree):
    async def program(engine):
        tf = engine.tf
        queue = queue_of_floats(tf, name="left")
        put, take, close, closed = queue.enqueue(1.0), queue.dequeue(), queue.close(), queue.is_closed()
        three = queue.dequeue_many(3)
        async with engine.session() as session:
            await session.run(put)
            before = await session.run(closed)
            await session.run(close)
            return [
                before,
                await session.run(closed),
                await failure(lambda: session.run(put), "left", "is closed"),
                await failure(
                    lambda: session.run(three),
                    "is closed and has insufficient elements (requested 3, current size 1)",
                ),
                await session.run(take),
                await failure(
                    lambda: session.run(take),
                    "is closed and has insufficient elements (requested 1, current size 0)",
                ),
                await failure(lambda: session.run(close), "closed"),
            ]

    result = await agree(program)

    assert [result[n].classes[0] for n in (2, 3, 5, 6)] == [
        "CancelledError",
        "OutOfRangeError",
        "OutOfRangeError",
        "CancelledError",
    ]


async def test_closing_ends_waits_for_an_element(agree):
    async def program(engine):
        tf = engine.tf
        queue = queue_of_floats(tf)
        take, close = queue.dequeue(), queue.close()
        async with engine.session() as session:
            waiting = asyncio.create_task(failure(lambda: session.run(take), "is closed"))
            await session.run(close)
            return await waiting

    assert (await agree(program)).classes[0] == "OutOfRangeError"


async def test_closing_may_cancel_waits_for_room(agree):
    async def program(engine):
        tf = engine.tf
        queue = queue_of_floats(tf, capacity=1)
        put, size = queue.enqueue(1.0), queue.size()
        close = queue.close(cancel_pending_enqueues=True)
        async with engine.session() as session:
            await session.run(put)
            waiting = asyncio.create_task(failure(lambda: session.run(put)))
            await session.run(close)
            return await waiting, await session.run(size)

    error, size = await agree(program)

    assert (error.classes[0], size) == ("CancelledError", 1)


@pytest.mark.behaviour(126)
async def test_elements_that_do_not_fit_are_refused(agree):
    async def program(engine):
        tf = engine.tf
        queue = tf.FIFOQueue(3, [tf.float32, tf.int32], shapes=[[2], []])
        x = tf.placeholder(tf.float32)
        put = queue.enqueue([x, 1])
        many_of_any_shape = tf.FIFOQueue(3, [tf.float32]).dequeue_many(2)
        async with engine.session() as session:
            return [
                await failure(lambda: queue.enqueue([1.0])),
                await failure(lambda: queue.enqueue([floats([1, 2, 3]), 1])),
                await failure(lambda: queue.enqueue(["text", 1])),
                await failure(
                    lambda: session.run(put, {x: floats([1, 2, 3])}), "Shape mismatch in tuple component 0"
                ),
                await failure(lambda: session.run(many_of_any_shape), "shapes"),
            ]

    await agree(program)


@pytest.mark.behaviour(128, 129)
async def test_queues_of_one_shared_name_are_one_queue(agree):
    async def program(engine):
        tf = engine.tf
        one, same = (queue_of_floats(tf, shared_name="shared", name=name) for name in ("one", "same"))
        other = queue_of_floats(tf, name="other")
        with tf.container("elsewhere"):
            apart = queue_of_floats(tf, shared_name="shared", name="apart")
        put, sizes = one.enqueue(1.0), [each.size() for each in (one, same, other, apart)]
        take = same.dequeue()
        async with engine.session() as session:
            await session.run(put)
            return await session.run(sizes), await session.run(take)

    assert await agree(program) == ([1, 1, 0, 0], 1.0)


@pytest.mark.behaviour(129)
async def test_a_bad_container_name_is_refused(agree):
    async def program(engine):
        tf = engine.tf

        async def run():
            with tf.container("not/a name!"):
                queue = queue_of_floats(tf)
            async with engine.session() as session:
                return await session.run(queue.size())

        return await failure(run, "container")

    await agree(program)


@pytest.mark.behaviour(128)
async def test_a_shared_queue_must_be_asked_for_as_it_was_made(agree):
    async def program(engine):
        tf = engine.tf
        queues = [
            tf.FIFOQueue(5, [tf.float32], shapes=[[]], shared_name="q"),
            tf.FIFOQueue(6, [tf.float32], shapes=[[]], shared_name="q"),
            tf.FIFOQueue(5, [tf.int32], shapes=[[]], shared_name="q"),
            tf.FIFOQueue(5, [tf.float32], shapes=[[2]], shared_name="q"),
        ]
        sizes = [queue.size() for queue in queues]
        async with engine.session() as session:
            first = await session.run(sizes[0])
            return first, [
                await failure(lambda: session.run(sizes[1]), "capacity"),
                await failure(lambda: session.run(sizes[2]), "component types"),
                await failure(lambda: session.run(sizes[3]), "component shapes"),
            ]

    assert (await agree(program))[0] == 0


@pytest.mark.behaviour(31)
async def test_a_queue_belongs_to_its_session(agree):
    async def program(engine):
        tf = engine.tf
        queue = queue_of_floats(tf, shared_name="of a session")
        put, size = queue.enqueue(1.0), queue.size()
        async with engine.session() as one, engine.session() as two:
            await one.run(put)
            return await one.run(size), await two.run(size)

    assert await agree(program) == (1, 0)


@pytest.mark.behaviour(75)
async def test_an_error_ends_waits_in_the_same_step(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [])
        queue = queue_of_floats(tf)
        take = queue.dequeue()
        fails = tf.check_numerics(x, "the first error", name="checked")
        put = queue.enqueue(7.0)
        async with engine.session() as session:
            error = await failure(lambda: session.run([take, fails], {x: np.inf}), "the first error")
            await session.run(put)
            return error, await session.run(take)

    error, value = await agree(program)

    assert error.classes[0] == "InvalidArgumentError"
    assert value == 7.0
