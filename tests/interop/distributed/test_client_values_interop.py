"""Values of every dtype and size, sent to servers of both kinds and back."""

from __future__ import annotations

import numpy as np
import pytest

import aioexec as ax
from tests.interop.behaviours.both import Failure, floats, outcome

pytestmark = pytest.mark.interop

DTYPES = [
    "float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "bool", "complex64", "complex128", "string",
]  # fmt: skip
SHAPES = [(), (3,), (0,), (2, 3), (2, 0, 3), (1, 1, 1)]


def example(dtype: ax.DType, shape: tuple[int, ...]) -> np.ndarray:
    """Something of that dtype and shape."""
    count = int(np.prod(shape))
    if dtype is ax.string:
        texts = np.empty(count, object)
        texts[:] = [b"", b"ab", b"\xff\x00", b"z" * 300, b"q", b"r"][:count]
        return texts.reshape(shape)
    return np.arange(count).reshape(shape).astype(dtype.as_numpy_dtype)


@pytest.mark.behaviour(141)
@pytest.mark.parametrize("name", DTYPES)
async def test_what_is_fed_comes_back(target, name):
    dtype = ax.as_dtype(name)
    values = [example(dtype, shape) for shape in SHAPES]
    with ax.Graph().as_default() as graph:
        fed = [ax.placeholder(dtype) for _ in values]
        back = [ax.identity(each) for each in fed]

    async with ax.Session(target, graph=graph) as session:
        results = await session.run(back, dict(zip(fed, values, strict=True)))

    for result, value in zip(results, values, strict=True):
        assert np.shape(result) == value.shape
        assert value.shape == () or result.dtype == value.dtype
        assert np.array_equal(result, value)


async def test_values_without_dimensions_are_numbers_and_bytes(target):
    with ax.Graph().as_default() as graph:
        number, text = ax.constant(2.0) * 2.0, ax.identity(ax.constant("text"))

    async with ax.Session(target, graph=graph) as session:
        results = await session.run([number, text])

    assert results == [4.0, b"text"]
    assert [type(each) for each in results] == [np.float32, bytes]


@pytest.mark.behaviour(141)
async def test_results_come_in_the_order_asked_each_as_often_as_asked(target):
    with ax.Graph().as_default() as graph:
        first, second = ax.split(ax.constant([1.0, 2.0]), 2)
        x = ax.placeholder(ax.float32, [2])
        y = x + 1.0

    async with ax.Session(target, graph=graph) as session:
        one, two, again = await session.run([second, first, second])
        value = floats([5, 6])
        fed, found = await session.run([x, y], {x: value})
        alone = await session.run(x, {x: value})

    assert (one, two, again) == ([2.0], [1.0], [2.0])
    assert fed is value
    assert alone is value
    assert found.tolist() == [6.0, 7.0]


@pytest.mark.slow
async def test_many_bytes_go_there_and_back(target):
    value = np.arange(16 << 20, dtype=np.float32)
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [None])
        y = x * 2.0

    async with ax.Session(target, graph=graph) as session:
        result = await session.run(y, {x: value})

    assert np.array_equal(result, value * 2)


@pytest.mark.behaviour(147)
@pytest.mark.slow
@pytest.mark.sweep  # takes 12 GiB of memory
async def test_a_value_of_3_gib_is_refused_or_passes(target):
    value = np.zeros(3 << 28, np.float32)
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [None])
        y, small = ax.shape(x), ax.placeholder(ax.float32, []) + 1.0

    async with ax.Session(target, graph=graph) as session:
        found = await outcome(lambda: session.run(y, {x: value}))
        assert await session.run(small, {small.op.inputs[0]: 1.0}) == 2.0

    if isinstance(found, Failure):
        assert found.classes[0] in ("ResourceExhaustedError", "InvalidArgumentError"), found
    else:
        assert found == [3 << 28]


@pytest.mark.behaviour(157)
async def test_a_loop_outside_the_graph_converges(target):
    matrix = floats([[2, 1, 0], [1, 3, 1], [0, 1, 4]])
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [3, 1])
        y = ax.matmul(ax.constant(matrix), x)
        following = y / ax.sqrt(ax.reduce_sum(ax.square(y)))
        value = ax.reduce_sum(y * x)

    vector = np.ones([3, 1], np.float32)
    async with ax.Session(target, graph=graph) as session:
        for _ in range(100):
            vector, largest = await session.run([following, value], {x: vector})

    assert largest == pytest.approx(np.linalg.eigvalsh(matrix).max(), rel=1e-5)
