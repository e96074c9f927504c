"""Batching: which examples form a batch, in which order, padded or not, and the last batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.formats.protos import Summary
from tests.train.test_input_producers import drained, graph, running

__all__ = ["graph"]  # a fixture


def counted(count: int) -> Any:
    """0, 1, …, one a step; then the input ends."""
    return ax.train.range_input_producer(count, num_epochs=1, shuffle=False).dequeue()


def lists(values: Sequence[Any]) -> list[Any]:
    return [value.tolist() for value in values]


async def test_examples_come_in_batches_and_what_is_left_is_lost():
    number = counted(7)
    batch = ax.train.batch([number, number * 10], 3)
    assert [tensor.shape.as_list() for tensor in batch] == [[3], [3]]

    batches = await drained(batch)

    assert [lists(each) for each in batches] == [[[0, 1, 2], [0, 10, 20]], [[3, 4, 5], [30, 40, 50]]]


async def test_the_last_batch_may_be_smaller():
    batch = ax.train.batch([counted(7)], 3, allow_smaller_final_batch=True)
    assert batch.shape.as_list() == [None]

    assert lists(await drained(batch)) == [[0, 1, 2], [3, 4, 5], [6]]


async def test_a_dict_of_tensors_gives_a_dict_of_batches():
    number = counted(4)
    batch = ax.train.batch({"b": number, "a": ax.as_string(number)}, 2)

    batches = await drained(batch)

    assert [{key: value.tolist() for key, value in each.items()} for each in batches] == [
        {"a": [b"0", b"1"], "b": [0, 1]},
        {"a": [b"2", b"3"], "b": [2, 3]},
    ]


async def test_a_dict_of_one_tensor_gives_a_dict():
    batch = ax.train.batch({"alone": counted(2)}, 2)

    (each,) = await drained(batch)

    assert {key: value.tolist() for key, value in each.items()} == {"alone": [0, 1]}


async def test_many_examples_are_enqueued_at_once():
    number = counted(3)
    rows = ax.stack([number, number + 100])
    batch = ax.train.batch([rows], 3, enqueue_many=True)

    assert lists(await drained(batch)) == [[0, 100, 1], [101, 2, 102]]


async def test_examples_of_several_sizes_are_padded_to_the_largest():
    number = counted(4)
    batch = ax.train.batch([ax.range(number), ax.fill([number], "x")], 2, dynamic_pad=True)
    assert [tensor.shape.as_list() for tensor in batch] == [[2, None], [2, None]]

    batches = await drained(batch)

    assert [lists(each) for each in batches] == [
        [[[0], [0]], [[b""], [b"x"]]],
        [[[0, 1, 0], [0, 1, 2]], [[b"x", b"x", b""], [b"x", b"x", b"x"]]],
    ]


async def test_several_lists_are_batched_together():
    batch = ax.train.batch_join([[counted(3)], [counted(3) + 10], [counted(3) + 20]], 9)

    assert [sorted(each) for each in await drained(batch)] == [[0, 1, 2, 10, 11, 12, 20, 21, 22]]


async def test_several_tasks_bring_examples():
    batch = ax.train.batch([counted(12)], 12, num_threads=4)

    assert [sorted(each) for each in await drained(batch)] == [list(range(12))]


@pytest.mark.parametrize("joins", [False, True])
async def test_mixed_examples_come_once_each_and_not_in_order(joins):
    number = counted(200)
    if joins:
        batch = ax.train.shuffle_batch_join([[number], [number]], 20, 200, 100, seed=3)
    else:
        batch = ax.train.shuffle_batch([number], 20, 200, 100, seed=3)

    values = np.concatenate(await drained(batch)).tolist()

    assert sorted(values) == list(range(200))
    assert values != sorted(values)
    assert max(values[:20]) < 200 - 1


async def test_the_summary_of_a_shuffling_queue_counts_what_it_does_not_keep_back():
    ax.train.shuffle_batch([counted(8)], 4, 10, 5)
    (*_, full) = ax.get_collection(ax.GraphKeys.SUMMARIES)
    async with running(to_the_end=True) as session:
        (value,) = Summary.FromString(await session.run(full)).value

    assert value.tag == "shuffle_batch/fraction_over_5_of_5_full"
    assert value.simple_value == pytest.approx(0.6)


# Leaving examples out


async def test_examples_are_left_out():
    number = counted(6)
    even = ax.equal(number % 2, 0)
    batch = ax.train.maybe_batch([number], even, 3)

    assert lists(await drained(batch)) == [[0, 2, 4]]


async def test_rows_are_left_out_of_many():
    rows = ax.stack([counted(3)] * 3) + [0, 10, 20]
    batch = ax.train.maybe_batch([rows], [True, False, True], 3, enqueue_many=True)

    assert lists(await drained(batch)) == [[0, 20, 1], [21, 2, 22]]


async def test_the_other_functions_leave_out_likewise():
    number = counted(8)
    keep = number >= 4
    joined = ax.train.maybe_batch_join([[number]], keep, 4)
    assert [sorted(each) for each in await drained(joined)] == [[4, 5, 6, 7]]


@pytest.mark.parametrize("joins", [False, True])
async def test_mixed_examples_are_left_out(joins):
    number = counted(8)
    keep = number >= 4
    if joins:
        batch = ax.train.maybe_shuffle_batch_join([[number]], 4, 10, 2, keep)
    else:
        batch = ax.train.maybe_shuffle_batch([number], 4, 10, 2, keep)

    assert [sorted(each) for each in await drained(batch)] == [[4, 5, 6, 7]]


# Sparse tensors


def sparse_row(number: Any) -> ax.SparseTensor:
    """A vector of 10 with the number at its place."""
    place = ax.reshape(ax.cast(number, ax.int64), [1, 1])
    return ax.SparseTensor(place, ax.reshape(number, [1]), [10])


async def test_sparse_tensors_are_batched_with_dense_ones():
    number = counted(4)
    batch = ax.train.batch([number, sparse_row(number)], 2)
    assert batch[1].indices.shape.as_list() == [None, 2]

    batches = await drained(batch)

    assert lists([dense for dense, _ in batches]) == [[0, 1], [2, 3]]
    assert lists([sparse.indices for _, sparse in batches]) == [[[0, 0], [1, 1]], [[0, 2], [1, 3]]]
    assert lists([sparse.values for _, sparse in batches]) == [[0, 1], [2, 3]]
    assert lists([sparse.dense_shape for _, sparse in batches]) == [[2, 10]] * 2


async def test_rows_of_a_sparse_tensor_are_examples():
    number = ax.cast(counted(2), ax.int64)
    rows = ax.SparseTensor(ax.stack([[0, number], [2, number]]), [1.0, 2.0], [3, 4])
    batch = ax.train.batch([rows], 2, enqueue_many=True)

    batches = await drained(batch)

    assert lists([each.indices for each in batches]) == [[[0, 0]], [[0, 0], [1, 1]], [[1, 1]]]
    assert lists([each.values for each in batches]) == [[1.0], [2.0, 1.0], [2.0]]


async def test_sparse_tensors_of_several_lists_share_a_map():
    first, second = counted(2), counted(2) + 5
    batch = ax.train.batch_join([[sparse_row(first)], [sparse_row(second)]], 4)

    (value,) = await drained(batch)

    assert sorted(value.values.tolist()) == [0, 1, 5, 6]


@pytest.mark.parametrize("many", [False, True])
async def test_sparse_tensors_are_left_out(many):
    number = counted(4)
    if many:
        rows = ax.SparseTensor([[0, 0], [1, 0]], ax.stack([number, number + 10]), [2, 1])
        batch = ax.train.maybe_batch([rows], [False, True], 2, enqueue_many=True)
        expected = [[10, 11], [12, 13]]
    else:
        batch = ax.train.maybe_batch([sparse_row(number)], number >= 2, 2)
        expected = [[2, 3]]

    assert lists([each.values for each in await drained(batch)]) == expected


# Errors


def both(first: Any, second: Any, **options: Any) -> Any:
    return ax.train.batch_join([[first], [second]], 2, **options)


def unknown(*dims: Any) -> Any:
    return ax.placeholder(ax.float32, dims[0] if dims else None)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ax.train.batch([], 2), GraphValueError, "Expected at least one tensor in batch"),
        (lambda: ax.train.batch_join([], 2), GraphValueError, "Expected at least one set of tensors"),
        (lambda: both(ax.constant(1), ax.constant(1.0)), GraphTypeError, "Expected types to be consistent"),
        (lambda: both(ax.constant(1), ax.constant([1])), GraphValueError, "incompatible"),
        (lambda: both(ax.constant(1), sparse_row(1)), GraphValueError, "Inconsistent SparseTensors list"),
        (lambda: both(sparse_row(1), ax.constant(1)), GraphValueError, "Inconsistent SparseTensors list"),
        (lambda: ax.train.batch([unknown()], 2), GraphValueError, "Cannot infer Tensor's rank"),
        (lambda: ax.train.batch([unknown([None])], 2), GraphValueError, "All shapes must be fully defined"),
        (lambda: ax.train.batch([unknown([])], 2, enqueue_many=True), GraphValueError, "rank at least 1"),
        (lambda: ax.train.shuffle_batch([1], 2, 5, 5), GraphValueError, "capacity 5 must be bigger"),
        (lambda: ax.train.maybe_batch([1], [True], 2), GraphValueError, "cannot be a vector"),
        (
            lambda: ax.train.maybe_batch([1], ax.placeholder(ax.bool), 2),
            GraphValueError,
            "`keep_input` dimensions must be known",
        ),
        (
            lambda: ax.train.maybe_batch([[1]], [[True]], 2, enqueue_many=True),
            GraphValueError,
            "must be 0 or 1 dimensions",
        ),
        (
            lambda: ax.train.batch_join([{"a": 1}, {"b": 1}], 2),
            GraphValueError,
            "must have the same keys",
        ),
    ],
    ids=range(14),
)
def test_examples_that_cannot_be_batched_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
