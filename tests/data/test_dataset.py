"""Datasets built with `ax.data`: iterators, sessions, cancellation, what is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import (
    FailedPreconditionError,
    GraphTypeError,
    GraphValueError,
    InvalidArgumentError,
    OutOfRangeError,
)

Dataset = ax.data.Dataset


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as made:
        yield made


async def rest(session: ax.Session, element: Any, feed: Any = None) -> list[Any]:
    found = []
    with pytest.raises(OutOfRangeError, match="End of sequence"):
        while True:
            value = await session.run(element, feed)
            found.append(value.tolist() if isinstance(value, np.ndarray | np.generic) else value)
    return found


async def test_an_iterator_of_one_shot_needs_no_initializer():
    dataset = Dataset.range(5).map(lambda x: x * x).filter(lambda x: x > 1)
    element = ax.data.make_one_shot_iterator(dataset).get_next()

    async with ax.Session() as session:
        assert await rest(session, element) == [4, 9, 16]
        assert await rest(session, element) == []
    async with ax.Session() as session:
        assert await session.run(element) == 4


async def test_a_dataset_is_initialized_anew_from_what_is_fed():
    values = ax.placeholder(ax.float32, [None, 2])
    iterator = Dataset.from_tensor_slices(values).batch(2).make_initializable_iterator()
    element = iterator.get_next()

    async with ax.Session() as session:
        with pytest.raises(FailedPreconditionError, match="has not been initialized"):
            await session.run(element)
        for rows in (3, 1):
            await session.run(iterator.initializer, {values: np.ones([rows, 2])})
            assert [len(batch) for batch in await rest(session, element)] == [2, 1][-rows:]


async def test_an_iterator_takes_datasets_of_its_structure():
    training = Dataset.range(4).map(lambda x: x + 100)
    validation = Dataset.range(2)
    iterator = ax.data.Iterator.from_structure(training.output_types, training.output_shapes)
    begin, begin_other = iterator.make_initializer(training), iterator.make_initializer(validation)
    element = iterator.get_next()

    async with ax.Session() as session:
        await session.run(begin)
        assert await session.run(element) == 100
        await session.run(begin_other)
        assert await rest(session, element) == [0, 1]
        await session.run(begin)
        assert await rest(session, element) == [100, 101, 102, 103]
    with pytest.raises(TypeError, match="Expected output types"):
        iterator.make_initializer(Dataset.from_tensors(1.0))
    with pytest.raises(ValueError, match="does not have an initializer"):
        _ = iterator.initializer


async def test_what_is_fed_selects_an_iterator():
    handle = ax.placeholder(ax.string, [])
    training, validation = Dataset.range(3).repeat(), Dataset.range(10, 12)
    iterator = ax.data.Iterator.from_string_handle(handle, training.output_types, training.output_shapes)
    element = iterator.get_next()
    first, second = training.make_one_shot_iterator(), validation.make_initializable_iterator()

    async with ax.Session() as session:
        one = await session.run(first.string_handle())
        other = await session.run(second.string_handle())
        found = [int(await session.run(element, {handle: one})) for _ in range(4)]
        await session.run(second.initializer)
        assert await rest(session, element, {handle: other}) == [10, 11]
        assert found == [0, 1, 2, 0]
        assert await session.run(element, {handle: one}) == 1


async def test_functions_use_resource_variables_and_tables():
    offset = ax.get_variable("offset", initializer=ax.constant(10, ax.int64), use_resource=True)
    iterator = Dataset.range(3).map(lambda x: x + offset).make_initializable_iterator()
    element = iterator.get_next()

    async with ax.Session() as session:
        await session.run(offset.initializer)
        await session.run(iterator.initializer)
        assert await session.run(element) == 10
        await session.run(offset.assign_add(5))
        assert await rest(session, element) == [16, 17]


def test_an_iterator_of_one_shot_refuses_state():
    offset = ax.get_variable("offset", initializer=ax.constant(10, ax.int64), use_resource=True)
    fed = ax.placeholder(ax.int32, [3])

    with pytest.raises(ValueError, match="does not support datasets that capture stateful objects"):
        Dataset.range(3).map(lambda x: x + offset).make_one_shot_iterator()
    with pytest.raises(ValueError, match="Cannot capture a placeholder"):
        Dataset.from_tensor_slices(fed).make_one_shot_iterator()


def test_a_dataset_of_another_graph_is_refused():
    dataset = Dataset.range(3)

    with (
        ax.Graph().as_default(),
        pytest.raises(ValueError, match="different from the graph the dataset was created in"),
    ):
        dataset.make_initializable_iterator()


def test_what_makes_no_sense_is_refused():
    numbers = Dataset.range(3)

    with pytest.raises(GraphValueError, match="Invalid arguments to RangeDataset"):
        Dataset.range()
    with pytest.raises(GraphTypeError, match="nested structure of `Dataset` objects"):
        Dataset.zip([numbers, numbers])
    with pytest.raises(GraphTypeError, match="different types"):
        numbers.concatenate(Dataset.from_tensors(1.0))
    with pytest.raises(GraphValueError, match="scalar boolean tensor"):
        numbers.filter(lambda x: x + 1)
    with pytest.raises(GraphTypeError, match="Unsupported return value"):
        numbers.map(lambda x: None)
    with pytest.raises(GraphTypeError, match="must return a Dataset"):
        numbers.apply(lambda dataset: 3)  # type: ignore[arg-type, return-value]
    with pytest.raises(GraphValueError, match="is not compatible with the shape"):
        numbers.padded_batch(2, [None])


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda numbers: numbers.batch(0), "Batch size must be greater than zero"),
        (lambda numbers: numbers.shuffle(0), "buffer_size must be greater than zero"),
        (lambda numbers: numbers.shard(2, 2), "Index must be between 0 and 1"),
        (lambda numbers: numbers.prefetch(-2), "buffer_size must be >= 0"),
        (lambda numbers: numbers.map(lambda x: x, num_parallel_calls=0), "must be greater than zero"),
        (lambda numbers: Dataset.range(0, 3, 0), "step must be a non-zero integer"),
    ],
)
async def test_what_is_fed_is_checked_when_it_runs(make: Any, text: str):
    iterator = make(Dataset.range(3)).make_initializable_iterator()

    async with ax.Session() as session:
        with pytest.raises(InvalidArgumentError, match=text):
            await session.run(iterator.initializer)


# Waiting


class Gate:
    """An `async def` function that waits; `begun` are the values of its calls, `_news` those not yet seen by the test."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.opened = asyncio.Event()
        self._news: asyncio.Queue[int] = asyncio.Queue()

    async def __call__(self, value: Any) -> Any:
        self.begun.append(int(value))
        self._news.put_nowait(int(value))
        await self.opened.wait()
        return value

    async def next(self, count: int) -> list[int]:
        """Wait for the next calls, and return their values."""
        return sorted([await self._news.get() for _ in range(count)])

    def function(self, x: ax.Tensor) -> ax.Tensor:
        found: ax.Tensor = ax.py_func(self, [x], ax.int64)
        found.set_shape([])
        return found


@pytest.mark.parametrize("calls", [None, 1, 3])
async def test_no_element_is_lost_with_the_step_that_waits(calls: int | None):
    gate = Gate()
    iterator = Dataset.range(5).map(gate.function, num_parallel_calls=calls).make_initializable_iterator()
    element = iterator.get_next()

    async with ax.Session() as session:
        await session.run(iterator.initializer)
        step = asyncio.create_task(session.run(element))
        await gate.next(1)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        gate.opened.set()

        assert await rest(session, element) == [0, 1, 2, 3, 4]
        assert sorted(gate.begun) == [0, 1, 2, 3, 4], "no call is made twice"


async def test_calls_overlap():
    gate = Gate()
    iterator = Dataset.range(5).map(gate.function, num_parallel_calls=3).make_initializable_iterator()
    element = iterator.get_next()

    async with ax.Session() as session:
        await session.run(iterator.initializer)
        step = asyncio.create_task(session.run(element))
        assert await gate.next(3) == [0, 1, 2]
        gate.opened.set()
        assert await step == 0


@pytest.mark.parametrize("size", [1, 3])
async def test_elements_are_computed_ahead_and_dropped_with_the_session(size: int):
    gate = Gate()
    gate.opened.set()
    iterator = Dataset.range(9).map(gate.function).prefetch(size).make_initializable_iterator()
    element = iterator.get_next()

    async with ax.Session() as session:
        await session.run(iterator.initializer)
        assert await session.run(element) == 0
        assert await gate.next(1 + size) == list(range(1 + size))
        gate.opened.clear()
        assert await session.run(element) == 1
        assert await gate.next(1) == [1 + size]
    assert gate.begun == list(range(2 + size))


async def test_a_new_pass_stops_what_the_old_one_computes():
    gate = Gate()
    iterator = Dataset.range(9).map(gate.function).prefetch(2).make_initializable_iterator()
    element = iterator.get_next()

    async with ax.Session() as session:
        await session.run(iterator.initializer)
        step = asyncio.create_task(session.run(element))
        assert await gate.next(1) == [0]
        await session.run(iterator.initializer)
        gate.opened.set()
        assert await step == 0
        assert await rest(session, element) == list(range(1, 9))
        assert gate.begun[:2] == [0, 0]


async def test_many_elements_leave_room_for_other_tasks():
    iterator = Dataset.range(3000).filter(lambda x: x < 0).make_initializable_iterator()
    element, turns = iterator.get_next(), 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with ax.Session() as session:
        await session.run(iterator.initializer)
        counting = asyncio.create_task(count())
        assert await rest(session, element) == []
        counting.cancel()
    assert turns > 3
