"""What datasets make of the elements of others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, UnimplementedError
from tests.data.elements import elements, rest

Dataset = ax.data.Dataset


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as made:
        yield made


def numbers(count: int) -> ax.data.Dataset:
    return Dataset.range(count)


CASES: list[tuple[Any, list[Any]]] = [
    (lambda: Dataset.zip((numbers(3), {"a": numbers(2)})), [(0, {"a": 0}), (1, {"a": 1})]),
    (lambda: Dataset.from_tensors(([1, 2], "x")), [([1, 2], b"x")]),
    (lambda: numbers(3).enumerate(5), [(5, 0), (6, 1), (7, 2)]),
    (lambda: numbers(5).concatenate(numbers(2)).skip(3).take(3), [3, 4, 0]),
    (lambda: numbers(7).shard(3, 1), [1, 4]),
    (lambda: numbers(5).batch(2).unbatch(), [0, 1, 2, 3, 4]),
    (lambda: numbers(4).flat_map(lambda x: numbers(3).take(x)), [0, 0, 1, 0, 1, 2]),
    (
        lambda: numbers(3).interleave(lambda x: Dataset.from_tensors(x).repeat(3), 2, 1),
        [0, 1, 0, 1, 0, 1, 2, 2, 2],
    ),
    (
        lambda: numbers(3).interleave(
            lambda x: Dataset.from_tensors(x).repeat(3), 2, 2, num_parallel_calls=2
        ),
        [0, 0, 1, 1, 0, 1, 2, 2, 2],
    ),
    (lambda: numbers(5).window(2).flat_map(lambda x: x.batch(2)), [[0, 1], [2, 3], [4]]),
    (
        lambda: numbers(5).window(2, shift=1, drop_remainder=True).flat_map(lambda x: x.batch(2)),
        [[0, 1], [1, 2], [2, 3], [3, 4]],
    ),
    (
        lambda: numbers(3).map(lambda x: ax.fill([x], x)).padded_batch(3, [None], ax.constant(-1, ax.int64)),
        [[[-1, -1], [1, -1], [2, 2]]],
    ),
    (lambda: numbers(6).shuffle(6).filter(lambda x: ax.equal(x, 4)), [4]),
    (lambda: numbers(2).apply(lambda dataset: dataset.repeat(2)), [0, 1, 0, 1]),
    (lambda: numbers(3).map(lambda x: [x, x + 1]), [(0, 1), (1, 2), (2, 3)]),
]


@pytest.mark.parametrize(("make", "expected"), CASES)
async def test_elements(make: Any, expected: list[Any]):
    assert await elements(make()) == expected


async def test_a_reduction_is_a_tensor():
    total = numbers(5).reduce(np.int64(10), lambda state, x: state + x)
    count, last = numbers(5).reduce((0, ax.constant(-1, ax.int64)), lambda state, x: (state[0] + 1, x))

    async with ax.Session() as session:
        assert await session.run([total, count, last]) == [20, 5, 4]
    with pytest.raises(GraphTypeError, match="must match the initial state"):
        numbers(5).reduce(0, lambda state, x: x)


async def test_elements_are_computed_once_if_they_are_cached():
    calls = 0

    def count(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return x * 2

    dataset = numbers(3).map(lambda x: ax.py_func(count, [x], ax.int64)).cache().repeat(3)

    assert await elements(dataset) == [0, 2, 4] * 3
    assert calls == 3


async def test_steps_may_modify_cached_elements():
    element = Dataset.from_tensors([1, 2]).cache().repeat(3).make_one_shot_iterator().get_next()

    async with ax.Session() as session:
        for _ in range(3):
            found = await session.run(element)
            assert found.tolist() == [1, 2]
            found[:] = 7


async def test_elements_are_not_cached_in_files():
    iterator = numbers(3).cache("/tmp/none").make_initializable_iterator()

    async with ax.Session() as session:
        with pytest.raises(UnimplementedError, match="in memory only"):
            await session.run(iterator.initializer)


async def test_a_shuffle_follows_its_seed_and_differs_by_repetition():
    def shuffled(seed: int, **how: Any) -> ax.data.Dataset:
        return numbers(20).shuffle(20, seed=seed, **how).repeat(2)

    first, again = await elements(shuffled(1)), await elements(shuffled(1))
    other, alike = (
        await elements(shuffled(2)),
        await elements(shuffled(1, reshuffle_each_iteration=False)),
    )

    assert first == again != other
    assert sorted(first[:20]) == sorted(first[20:]) == list(range(20))
    assert first[:20] != first[20:]
    assert alike[:20] == alike[20:]


async def test_a_function_that_fails_fails_the_step_alone():
    element = numbers(3).map(lambda x: 6 // x, num_parallel_calls=2).make_one_shot_iterator().get_next()

    async with ax.Session() as session:
        with pytest.raises(ax.errors.InvalidArgumentError, match="division by zero"):
            await session.run(element)
        assert await rest(session, element) == [6, 3]


def test_a_function_that_returns_no_dataset_is_refused():
    with pytest.raises(GraphTypeError, match="must return a `Dataset` object"):
        numbers(3).flat_map(lambda x: x)


def test_the_structure_of_elements_is_known():
    dataset = Dataset.from_tensor_slices({"b": np.zeros([4, 2], np.float32), "a": ["x"] * 4}).batch(2)

    assert dataset.output_types == {"a": ax.string, "b": ax.float32}
    assert {name: shape.as_list() for name, shape in dataset.output_shapes.items()} == {
        "a": [None],
        "b": [None, 2],
    }
    assert dataset.output_classes == {"a": ax.Tensor, "b": ax.Tensor}
    assert dataset.batch(3, drop_remainder=True).output_shapes["b"].as_list() == [3, None, 2]
    assert ax.data.get_output_types(dataset.make_one_shot_iterator()) == dataset.output_types
