"""Queues of other kinds, staging areas, barriers and accumulators, where steps wait for each other, in both engines."""

import asyncio
import importlib

import numpy as np
import pytest

from tests.interop.behaviours.both import failure, floats

pytestmark = pytest.mark.interop


def data_flow(engine):
    """The module with the names that are not public in TensorFlow 2."""
    if not engine.is_ours:
        return importlib.import_module("tensorflow.python.ops.data_flow_ops")

    class Names:
        def __getattr__(self, name):
            for module in ("barrier", "staging_class", "accumulator_classes"):
                found = getattr(importlib.import_module(f"aioexec.ops.containers.{module}"), name, None)
                if found is not None:
                    return found
            raise AttributeError(name)

    return Names()


async def test_a_shuffled_queue_gives_the_same_order_for_the_same_seeds(agree):
    async def program(engine):
        tf = engine.tf
        tf.set_random_seed(11)
        queue = tf.RandomShuffleQueue(50, 5, [tf.int32, tf.string], shapes=[[], [1]], seed=4)
        many = queue.enqueue_many([np.arange(30, dtype=np.int32), [[str(n)] for n in range(30)]])
        one, batch, close, rest = (
            queue.dequeue(),
            queue.dequeue_many(8),
            queue.close(),
            queue.dequeue_up_to(99),
        )
        async with engine.session() as session:
            await session.run(many)
            results = [await session.run(each) for each in (one, batch, one)]
            await session.run(close)
            return *results, await session.run(rest)

    *_, rest = await agree(program)

    assert len(rest[0]) == 20


async def test_a_shuffling_dequeue_waits_until_enough_are_left(agree):
    async def program(engine):
        tf = engine.tf
        queue = tf.RandomShuffleQueue(10, 2, [tf.int32], shapes=[[]])
        put, take, size = queue.enqueue(7), queue.dequeue(), queue.size()
        async with engine.session() as session:
            for _ in range(2):
                await session.run(put)
            taking = asyncio.create_task(session.run(take))
            await session.run(put)
            return await taking, await session.run(size)

    assert await agree(program) == (7, 2)


async def test_batches_are_padded_to_their_largest_element(agree):
    async def program(engine):
        tf = engine.tf
        queue = tf.PaddingFIFOQueue(10, [tf.float32, tf.string], shapes=[[None, 2], [None]])
        value, text = tf.placeholder(tf.float32), tf.placeholder(tf.string)
        put, take, none = queue.enqueue([value, text]), queue.dequeue_many(3), queue.dequeue_many(0)
        async with engine.session() as session:
            for rows, words in ((1, ["a", "b"]), (0, []), (2, ["c"])):
                await session.run(
                    put, {value: np.full((rows, 2), rows, np.float32), text: np.array(words, object)}
                )
            return await session.run(take), await session.run(none)

    (values, texts), _ = await agree(program)

    assert values.shape == (3, 2, 2)
    assert texts.tolist() == [[b"a", b"b"], [b"", b""], [b"c", b""]]


async def test_priorities_go_before_the_order_of_arrival(agree):
    async def program(engine):
        tf = engine.tf
        queue = tf.PriorityQueue(10, [tf.string], shapes=[[]])
        priority, word = tf.placeholder(tf.int64), tf.placeholder(tf.string)
        put, two = queue.enqueue([priority, word]), queue.dequeue_many(2)
        async with engine.session() as session:
            taking = asyncio.create_task(session.run(two))
            for n, text in ((5, "later"), (1, "first")):
                await session.run(put, {priority: n, word: text})
            return await taking

    priorities, words = await agree(program)

    assert (priorities.tolist(), words.tolist()) == ([1, 5], [b"first", b"later"])


@pytest.mark.behaviour(128)
async def test_queues_that_are_not_what_they_must_be_are_refused(agree):
    async def program(engine):
        tf = engine.tf

        async def size_of(make):
            queue = make()
            async with engine.session() as session:
                return await session.run(queue.size())

        one = tf.FIFOQueue(5, [tf.int32], shared_name="q")
        shuffled = [tf.RandomShuffleQueue(5, least, [tf.int32], seed=3, shared_name="s") for least in (1, 2)]
        async with engine.session() as session:
            await session.run([one.size(), shuffled[0].size()])
            other = tf.RandomShuffleQueue(5, 1, [tf.int32], shared_name="q").size()
            shared = [
                await failure(lambda: session.run(other), "Expected" if not engine.is_ours else "expected"),
                await failure(lambda: session.run(shuffled[1].size()), "min_after_dequeue 1 but requested"),
            ]
        return [
            *shared,
            await failure(
                lambda: size_of(lambda: tf.RandomShuffleQueue(2, 2, tf.float32)), "must be < capacity 2"
            ),
            await failure(
                lambda: tf.PaddingFIFOQueue(3, [tf.float32], shapes=[None]), "a list of shapes must be"
            ),
            await failure(
                lambda: tf.PaddingFIFOQueue(3, [tf.float32], shapes=[[], []]), "1 dtypes and 2 shapes"
            ),
            await failure(lambda: tf.PriorityQueue(3, tf.float32), "Expected list for 'shapes' argument"),
        ]

    await agree(program)


async def test_a_cancelled_step_leaves_the_queue_as_it_was(agree):
    async def program(engine):
        tf = engine.tf
        queue = tf.PriorityQueue(10, [tf.int32], shapes=[[]])
        x = tf.placeholder(tf.float32)
        many = queue.dequeue_many(3)
        fails = tf.check_numerics(x, "an error elsewhere")
        put = queue.enqueue_many([np.array([2, 1]), np.array([20, 10], np.int32)])
        async with engine.session() as session:
            await session.run(put)
            error = await failure(lambda: session.run([many, fails], {x: np.inf}), "an error elsewhere")
            return error, await session.run(queue.size()), await session.run(queue.dequeue_many(2))

    _, size, batch = await agree(program)

    assert size == 2
    assert [each.tolist() for each in batch] == [[1, 2], [10, 20]]


async def test_a_staging_area_hands_values_from_step_to_step(agree):
    async def program(engine):
        tf, names = engine.tf, data_flow(engine)
        x = tf.placeholder(tf.float32, [2])
        area = names.StagingArea([tf.float32, tf.int32], shapes=[[2], []], capacity=1, names=["x", "n"])
        put, take = area.put({"x": x * 2.0, "n": tf.constant(3)}), area.get()
        peek, size, clear = area.peek(0), area.size(), area.clear()
        async with engine.session() as session:
            taking = asyncio.create_task(session.run(take))
            await session.run(put, {x: [1.0, 2.0]})
            results = [await taking]
            await session.run(put, {x: [3.0, 4.0]})
            putting = asyncio.create_task(session.run(put, {x: [5.0, 6.0]}))
            results += [await session.run(each) for each in (peek, take)]
            await putting
            results.append(await session.run(size))
            await session.run(clear)
            return *results, await session.run(size)

    *_, full, empty = await agree(program)

    assert (full, empty) == (1, 0)


async def test_a_map_hands_on_tuples_by_key_and_in_parts(agree):
    async def program(engine):
        tf, names = engine.tf, data_flow(engine)
        area = names.MapStagingArea([tf.float32, tf.int32], shapes=[[], []], names=["x", "n"], ordered=True)
        key = tf.placeholder(tf.int64)
        whole = area.put(key, {"x": tf.constant(0.5), "n": tf.constant(7)})
        part, rest = area.put(key, {"n": tf.constant(8)}), area.put(key, {"x": tf.constant(1.5)})
        take, first, some = area.get(key), area.get(), area.get(key, ["n"])
        sizes = [area.size(), area.incomplete_size()]
        async with engine.session() as session:
            taking = asyncio.create_task(session.run(take, {key: 4}))
            await session.run(part, {key: 4})
            results = [await session.run(sizes)]
            await session.run(rest, {key: 4})
            results.append(await taking)
            for k in (9, 2, 5):
                await session.run(whole, {key: k})
            results += [await session.run(first), await session.run(some, {key: 9})]
            error = await failure(lambda: session.run(some, {key: 9}), "has already been removed")
            return *results, error, await session.run(sizes)

    sizes, *_, left = await agree(program)

    assert (sizes, left) == ([0, 1], [2, 0])


async def test_a_barrier_gives_tuples_that_are_complete(agree):
    async def program(engine):
        tf, names = engine.tf, data_flow(engine)
        made = names.Barrier((tf.float32, tf.string), shapes=((), (2,)))
        first = made.insert_many(0, ["a", "b", "c"], floats([1, 2, 3]))
        second = made.insert_many(1, ["b", "c"], [["p", "q"], ["r", "s"]])
        third = made.insert_many(1, ["a"], [["t", "u"]])
        two, one, sizes = made.take_many(2), made.take_many(1), [made.ready_size(), made.incomplete_size()]
        small = made.take_many(5, allow_small_batch=True)
        async with engine.session() as session:
            taking = asyncio.create_task(session.run(two))
            await session.run(first)
            await session.run(second)
            results = [await taking, await session.run(sizes)]
            await session.run(made.close())
            # One after the other: TensorFlow's barrier moves a complete tuple in two steps, and a take between them fails.
            await session.run(third)
            results.append(await session.run(one))
            return *[
                [np.asarray(part) for part in each] for each in (results[0][:2], results[1], results[2][:2])
            ], [
                await failure(lambda: session.run(first), "is closed"),
                await failure(lambda: session.run(small), "is closed and has insufficient elements"),
                await failure(lambda: session.run(made.close()), "is already closed"),
            ]

    taken, sizes, last, _ = await agree(program)

    assert taken[1].tolist() == [b"b", b"c"]
    assert [int(size) for size in sizes] == [2 - 2, 1]
    assert last[1].tolist() == [b"a"]


async def test_accumulators_average_what_is_not_stale(agree):
    async def program(engine):
        tf, names = engine.tf, data_flow(engine)
        gradient, step = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.int64)
        dense = names.ConditionalAccumulator(tf.float32, shape=[2])
        sparse = names.SparseConditionalAccumulator(tf.float32, shape=[4, 2], reduction_type="SUM")
        put, take, count = (
            dense.apply_grad(gradient, local_step=step),
            dense.take_grad(3),
            dense.num_accumulated(),
        )
        one = sparse.apply_grad([0, 2], [[1.0, 1.0], [2.0, 2.0]], [4, 2])
        two = sparse.apply_grad([1, 2], [[5.0, 5.0], [6.0, 6.0]])
        slices = sparse.take_grad(2)
        async with engine.session() as session:
            taking = asyncio.create_task(session.run(take))
            for k in range(3):
                await session.run(put, {gradient: [k, 2 * k], step: k})
            results = [await taking]
            await session.run(put, {gradient: [9, 9], step: 0})
            results.append(await session.run(count))
            await session.run(dense.set_global_step(0))
            await session.run(put, {gradient: [9, 9], step: 0})
            results.append(await session.run(count))
            await session.run(one)
            await session.run(two)
            return *results, [np.asarray(part) for part in await session.run(slices)]

    mean, stale, kept, slices = await agree(program)

    assert mean.tolist() == [1, 2]
    assert (stale, kept) == (0, 1)
    assert slices[1].tolist() == [[1, 1], [5, 5], [8, 8]]
