"""Producers: every row once per epoch, in the requested order, and the end of input after the last one."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import aioexec as ax
from aioexec.errors import GraphValueError, InvalidArgumentError, OutOfRangeError
from aioexec.formats.protos import Summary


@pytest.fixture(autouse=True)
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as made:
        yield made


@asynccontextmanager
async def running(to_the_end: bool = False) -> AsyncIterator[ax.Session]:
    """A session whose runners run, or have reached the end of their input."""
    async with ax.Session() as session:
        await session.run([ax.global_variables_initializer(), ax.local_variables_initializer()])
        coord = ax.train.Coordinator()
        for thread in ax.train.start_queue_runners(coord=coord):
            if to_the_end and not thread.name.endswith("close_on_stop"):
                await thread.join()
        yield session
        coord.request_stop()
        await coord.join()


async def drained(fetches: Any) -> list[Any]:
    values = []
    async with running() as session:
        while True:
            try:
                values.append(await session.run(fetches))
            except OutOfRangeError:
                return values


async def test_rows_come_in_order_as_often_as_asked():
    queue = ax.train.input_producer([[1, 2], [3, 4]], num_epochs=2, shuffle=False)

    assert queue.shapes[0].as_list() == [2]
    assert [row.tolist() for row in await drained(queue.dequeue())] == [[1, 2], [3, 4]] * 2


async def test_each_epoch_has_an_order_of_its_own():
    queue = ax.train.range_input_producer(20, num_epochs=3, seed=5, capacity=100)

    rows = [int(row) for row in await drained(queue.dequeue())]

    epochs = [rows[start : start + 20] for start in (0, 20, 40)]
    assert all(sorted(epoch) == list(range(20)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2] != list(range(20))


async def test_without_a_number_of_epochs_rows_come_for_ever():
    queue = ax.train.string_input_producer(["a", "b"], capacity=3)
    dequeue = queue.dequeue()
    async with running() as session:
        counts = Counter([await session.run(dequeue) for _ in range(40)])

    assert counts == {b"a": 20, b"b": 20}


async def test_rows_of_several_tensors_come_together():
    numbers = ax.constant([[1, 2], [3, 4], [5, 6]])
    pairs = ax.train.slice_input_producer([numbers, ["x", "y", "z"]], num_epochs=1, shuffle=True, seed=2)

    assert [tensor.shape.as_list() for tensor in pairs] == [[2], []]
    rows = [(row.tolist(), name) for row, name in await drained(pairs)]
    assert sorted(rows) == [([1, 2], b"x"), ([3, 4], b"y"), ([5, 6], b"z")]


async def test_how_full_a_queue_is_is_summarised():
    ax.train.string_input_producer(["a"] * 4, num_epochs=2, capacity=16)
    (summary,) = ax.get_collection(ax.GraphKeys.SUMMARIES)
    async with running(to_the_end=True) as session:
        (value,) = Summary.FromString(await session.run(summary)).value

    assert (value.tag, value.simple_value) == ("input_producer/fraction_of_16_full", 0.5)


async def test_an_input_that_turns_out_to_be_empty_fails_in_the_step():
    names = ax.placeholder_with_default(ax.constant([], ax.string), [None])
    queue = ax.train.string_input_producer(names)
    coord = ax.train.Coordinator()
    async with ax.Session() as session:
        ax.train.start_queue_runners(session, coord)

        with pytest.raises(InvalidArgumentError, match="requires a non-null input tensor"):
            await coord.join()
        with pytest.raises(OutOfRangeError, match="is closed and has insufficient elements"):
            await session.run(queue.dequeue())


async def test_a_tensor_can_be_had_so_many_times():
    limited = ax.train.limit_epochs(ax.constant(7), 2)
    async with ax.Session() as session:
        await session.run(ax.local_variables_initializer())
        assert [await session.run(limited) for _ in range(2)] == [7, 7]
        with pytest.raises(OutOfRangeError):
            await session.run(limited)
    unlimited = ax.constant(1)
    assert ax.train.limit_epochs(unlimited) is unlimited


async def test_names_of_files_are_matched_once(tmp_path):
    for name in ("a.txt", "b.txt", "c.csv"):
        (tmp_path / name).touch()
    matched = ax.train.match_filenames_once(f"{tmp_path}/*.txt")
    queue = ax.train.string_input_producer(matched, num_epochs=1, shuffle=False)
    assert ax.get_collection(ax.GraphKeys.LOCAL_VARIABLES)[0] is matched

    names = await drained(queue.dequeue())

    assert names == [f"{tmp_path}/{name}.txt".encode() for name in "ab"]


async def test_a_queue_with_a_shared_name_is_one_for_all_its_nodes():
    first = ax.train.string_input_producer(["a"], shared_name="all")
    second = ax.train.string_input_producer(["b"], shared_name="all")
    enqueue, dequeue = first.enqueue("c"), second.dequeue()
    async with ax.Session() as session:  # no runners: the first of two to end closes the queue for the other
        await session.run(enqueue)

        assert await session.run(dequeue) == b"c"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ax.train.string_input_producer([]), "requires a non-null input tensor"),
        (lambda: ax.train.slice_input_producer([]), "Expected at least one tensor in slice_input_producer"),
        (lambda: ax.train.limit_epochs([1], 0), "num_epochs must be > 0 not 0"),
        (lambda: ax.train.range_input_producer(3, num_epochs=-1), "num_epochs must be > 0 not -1"),
        (lambda: ax.train.input_producer(ax.placeholder(ax.int32, [None, None])), "fully defined shape"),
        (lambda: ax.train.input_producer(ax.placeholder(ax.int32, [2, 3]), [4]), "are not compatible"),
    ],
    ids=["strings", "slices", "epochs", "negative", "unknown", "shapes"],
)
def test_what_cannot_be_produced_is_refused(make, message):
    with pytest.raises(GraphValueError, match=message):
        make()
