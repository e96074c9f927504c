"""Python functions as nodes, and values made of several tensors, in both engines."""

import numpy as np
import pytest

from tests.interop.behaviours.both import failure, floats

pytestmark = pytest.mark.interop


async def test_a_python_function_computes(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [2])
        both = tf.py_func(lambda a, b: (a + b, np.int64(a.size)), [x, x * 10.0], [tf.float32, tf.int64])
        text = tf.py_func(lambda word: word + b"!", [tf.constant("hello")], tf.string)
        async with engine.session() as session:
            return await session.run(both, {x: floats([1, 2])}), await session.run(text)

    (total, size), text = await agree(program)

    np.testing.assert_array_equal(total, [11, 22])
    assert (size, text) == (2, b"hello!")


@pytest.mark.behaviour(75)
@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (ValueError, "InvalidArgumentError"),
        (TypeError, "InvalidArgumentError"),
        (StopIteration, "OutOfRangeError"),
        (MemoryError, "ResourceExhaustedError"),
        (NotImplementedError, "UnimplementedError"),
        (KeyError, "UnknownError"),
        (ZeroDivisionError, "UnknownError"),
    ],
)
async def test_what_a_python_function_raises_has_a_canonical_class(raised, expected, agree):
    async def program(engine):
        tf = engine.tf

        def function():
            raise raised("out of the function")

        node = tf.py_func(function, [], tf.float32)
        async with engine.session() as session:
            return await failure(lambda: session.run(node), "out of the function")

    assert (await agree(program)).classes[0] == expected


async def test_what_a_python_function_returns_must_be_what_it_said(agree):
    async def program(engine):
        tf = engine.tf
        one_too_many = tf.py_func(lambda: (1.0, 2.0), [], [tf.float64])
        wrong = tf.py_func(lambda: np.int32(1), [], tf.float32)
        async with engine.session() as session:
            return [
                await failure(
                    lambda: session.run(one_too_many), "returns 2 values, but expects to see 1 values"
                ),
                await failure(lambda: session.run(wrong)),
            ]

    await agree(program)


@pytest.mark.behaviour(31)
async def test_a_stateful_python_function_runs_in_each_step(agree):
    async def program(engine):
        tf = engine.tf
        calls = []

        def count():
            calls.append(1)
            return np.int64(len(calls))

        counts = [tf.py_func(count, [], tf.int64) for _ in range(2)]
        async with engine.session() as session:
            return sorted(await session.run(counts)), await session.run(counts[0]), len(calls)

    assert await agree(program) == ([1, 2], 3, 3)


@pytest.mark.behaviour(28)
async def test_sparse_tensors_are_fed_and_fetched(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.sparse_placeholder(tf.float32, [3, 4])
        doubled = tf.SparseTensor(x.indices, x.values * 2.0, x.dense_shape)
        fed = tf.SparseTensorValue([[0, 1], [2, 3]], [1.0, 2.0], [3, 4])
        async with engine.session() as session:
            return [
                tuple(await session.run(doubled, {x: value})) for value in (fed, ([[1, 1]], [5.0], [3, 4]))
            ], type(await session.run(doubled, {x: fed})).__name__

    (first, _), kind = await agree(program)

    np.testing.assert_array_equal(first[1], [2.0, 4.0])
    assert kind == "SparseTensorValue"


@pytest.mark.behaviour(28)
async def test_indexed_slices_are_fetched_whole(agree):
    async def program(engine):
        tf = engine.tf
        table = tf.placeholder(tf.float32, [4, 2])
        (gradient,) = tf.gradients(tf.reduce_sum(tf.gather(table, [1, 3, 1]) * 3.0), [table])
        async with engine.session() as session:
            value = await session.run(gradient, {table: np.zeros([4, 2])})
            return type(value).__name__, value.values, value.indices

    kind, values, indices = await agree(program)

    assert kind == "IndexedSlicesValue"
    np.testing.assert_array_equal(values, np.full([3, 2], 3.0))
    np.testing.assert_array_equal(indices, [1, 3, 1])
