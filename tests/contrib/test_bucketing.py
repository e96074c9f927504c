"""Buckets of `ax.contrib.training`: batches of examples of one bucket."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError, OutOfRangeError

training = ax.contrib.training


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


async def batches(fetches: Any) -> list[Any]:
    """All batches until the end of the input."""
    found = []
    coordinator = ax.train.Coordinator()
    async with ax.Session() as session:
        await session.run([ax.global_variables_initializer(), ax.local_variables_initializer()])
        threads = ax.train.start_queue_runners(session, coordinator)
        with pytest.raises(OutOfRangeError):
            while True:
                found.append(await session.run(fetches))
        coordinator.request_stop()
        await coordinator.join(threads)
    return found


def numbers(count: int) -> Any:
    """The numbers from 0 on, once each."""
    return ax.train.range_input_producer(count, num_epochs=1, shuffle=False).dequeue()


async def test_batches_have_examples_of_one_bucket():
    number = numbers(8)
    found = await batches(training.bucket([number, number * 10], number % 2, 2, 2))

    assert sorted((int(which), [part.tolist() for part in parts]) for which, parts in found) == [
        (0, [[0, 2], [0, 20]]),
        (0, [[4, 6], [40, 60]]),
        (1, [[1, 3], [10, 30]]),
        (1, [[5, 7], [50, 70]]),
    ]


async def test_the_last_batches_may_be_smaller():
    number = numbers(5)
    made = training.bucket(
        {"x": number}, number % 2, [2, 3], 2, bucket_capacities=[4, 4], allow_smaller_final_batch=True
    )
    found = await batches(made)

    assert sorted((int(which), parts["x"].tolist()) for which, parts in found) == [
        (0, [0, 2]),
        (0, [4]),
        (1, [1, 3]),
    ]


async def test_sequences_are_batched_by_length_and_padded():
    number = numbers(6)
    length = number + 1
    sequence = ax.range(length)
    sequence.set_shape([None])
    made = training.bucket_by_sequence_length(
        length, [sequence], 2, [3, 5], dynamic_pad=True, keep_input=ax.not_equal(length, 9)
    )
    found = await batches(made)

    assert sorted((lengths.tolist(), parts[0].tolist()) for lengths, parts in found) == [
        ([1, 2], [[0, 0], [0, 1]]),
        ([3, 4], [[0, 1, 2, 0], [0, 1, 2, 3]]),
        ([5, 6], [[0, 1, 2, 3, 4, 0], [0, 1, 2, 3, 4, 5]]),
    ]


async def test_examples_may_be_left_out_and_sparse():
    number = numbers(6)
    sparse = ax.SparseTensor([[0]], ax.reshape(number, [1]), [3])
    made = training.bucket([sparse], 0, 2, 1, keep_input=ax.equal(number % 2, 0))
    found = await batches(made)

    assert [parts[0].values.tolist() for _, parts in found] == [[0, 2]]
    np.testing.assert_array_equal(found[0][1][0].dense_shape, [2, 3])


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"bucket_boundaries": 3}, GraphTypeError, "list or tuple"),
        ({"bucket_boundaries": []}, GraphValueError, "empty"),
        ({"bucket_boundaries": [1.0]}, GraphTypeError, "integers"),
        ({"bucket_boundaries": [2, 1]}, GraphValueError, "increasing"),
        ({"batch_size": [1]}, GraphValueError, "num_buckets"),
        ({"bucket_capacities": [1]}, GraphValueError, "num_buckets"),
    ],
)
def test_arguments_of_buckets_are_checked(options: Any, kind: type[Exception], message: str):
    given = {"batch_size": 1, "bucket_boundaries": [2, 4], **options}

    with pytest.raises(kind, match=message):
        training.bucket_by_sequence_length(ax.constant(1), [ax.constant(1)], **given)
    with pytest.raises(GraphValueError, match="at least one"):
        training.bucket([], 0, 1, 1)
