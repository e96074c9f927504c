"""numpy_input_fn and pandas_input_fn: batches of rows from a queue."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.estimator.inputs.feeding import enqueue_rows

inputs = ax.estimator.inputs
X = np.arange(5, dtype=np.float32)


async def batches(input_fn: Any, most: int = 20) -> list[Any]:
    """The batches of an input function to its end, or `most` of them."""
    found: list[Any] = []
    with ax.Graph().as_default():
        tensors = input_fn()
        async with ax.train.MonitoredSession() as session:
            while not session.should_stop() and len(found) < most:
                found.append(await session.run(tensors))
    return found


async def test_rows_come_in_order_for_a_number_of_epochs():
    found = await batches(inputs.numpy_input_fn(X, batch_size=3, num_epochs=2, shuffle=False))

    assert [list(each) for each in found] == [[0, 1, 2], [3, 4, 0], [1, 2, 3], [4]]


async def test_rows_without_an_end_come_in_whole_batches():
    found = await batches(inputs.numpy_input_fn(X, batch_size=3, num_epochs=None, shuffle=False), most=4)

    assert [list(each) for each in found] == [[0, 1, 2], [3, 4, 0], [1, 2, 3], [4, 0, 1]]


async def test_shuffled_rows_are_all_there():
    found = await batches(inputs.numpy_input_fn(X, batch_size=2, num_epochs=3, shuffle=True))

    assert sorted(np.concatenate(found)) == sorted([*X] * 3)


async def test_a_batch_may_be_larger_than_the_queue():
    found = await batches(
        inputs.numpy_input_fn(X, batch_size=5, num_epochs=2, shuffle=False, queue_capacity=3)
    )

    assert [len(each) for each in found] == [5, 5]


async def test_features_and_labels_keep_their_structure():
    x, y = {"b": X, "a": np.stack([X, X], 1)}, {"l": X.astype(np.int64)}

    ((features, labels),) = await batches(inputs.numpy_input_fn(x, y, num_epochs=1, shuffle=False))
    ((array, target),) = await batches(inputs.numpy_input_fn(X, -X, num_epochs=1, shuffle=False))

    np.testing.assert_array_equal(features["a"], x["a"])
    np.testing.assert_array_equal(features["b"], X)
    np.testing.assert_array_equal(labels["l"], X)
    np.testing.assert_array_equal(array, -target)


async def test_text_is_enqueued_as_strings():
    (found,) = await batches(inputs.numpy_input_fn(np.array(["a", "bc"]), shuffle=False))

    assert list(found) == [b"a", b"bc"]


async def test_several_tasks_each_enqueue_all_epochs(caplog):
    input_fn = inputs.numpy_input_fn(X, batch_size=5, num_epochs=1, shuffle=False, num_threads=2)

    found = await batches(input_fn)

    assert sorted(np.concatenate(found)) == sorted([*X] * 2)
    assert "num_epochs is applied per thread" in caplog.text


def test_a_seed_determines_where_a_task_starts():
    with ax.Graph().as_default() as graph:
        for _ in range(2):
            enqueue_rows({"x": np.arange(1000)}, 10, True, 1, 1, None, seed=5)
        runners = graph.get_collection(ax.GraphKeys.QUEUE_RUNNERS)
        feeds = [next(iter(runner._feeds.values()))() for runner in runners]

    first, second = ([*each.values()][1] for each in feeds)
    np.testing.assert_array_equal(first, second)


def test_wrong_arrays_are_refused():
    def call(x: Any, y: Any = None) -> Any:
        with ax.Graph().as_default():
            return inputs.numpy_input_fn(x, y, shuffle=False)()

    with pytest.raises(GraphValueError, match="shuffle must be provided"):
        inputs.numpy_input_fn(X)
    with pytest.raises(GraphValueError, match="x cannot be an empty dict"):
        call({})
    with pytest.raises(GraphValueError, match="x cannot be an empty array"):
        call(X[:0])
    with pytest.raises(GraphTypeError, match="x must be a dict or array; got list"):
        call([1.0])
    with pytest.raises(GraphValueError, match="y cannot be empty dict"):
        call(X, {})
    with pytest.raises(GraphValueError, match=r"duplicate keys .* \['a'\]"):
        call({"a": X}, {"a": X})
    with pytest.raises(GraphValueError, match="mismatched"):
        call(X, X[1:])


class Series:
    """As much of a pandas Series as is used."""

    def __init__(self, values: Any, index: Any = None) -> None:
        self.values, self.index = np.array(values), np.arange(len(values)) if index is None else index

    def to_numpy(self) -> Any:
        return self.values


class Frame(dict[str, Series]):
    """As much of a pandas DataFrame as is used."""

    @property
    def columns(self) -> list[str]:
        return list(self)

    @property
    def index(self) -> Any:
        return next(iter(self.values())).index


async def test_columns_of_a_frame_are_features():
    x = Frame(a=Series([1, 2, 3]), b=Series(["x", "y", "z"]))

    found = await batches(inputs.pandas_input_fn(x, Series([4.0, 5, 6]), batch_size=2, shuffle=False))
    (both,) = await batches(inputs.pandas_input_fn(x, Frame(c=Series([7, 8, 9])), shuffle=False))
    (alone,) = await batches(inputs.pandas_input_fn(x, shuffle=False))

    assert [list(features["a"]) for features, _ in found] == [[1, 2], [3]]
    assert [list(features["b"]) for features, _ in found] == [[b"x", b"y"], [b"z"]]
    assert [list(labels) for _, labels in found] == [[4, 5], [6]]
    assert list(both[1]["c"]) == [7, 8, 9]
    assert alone.keys() == {"a", "b"}


def test_frames_must_match():
    x = Frame(a=Series([1, 2]))

    with pytest.raises(GraphValueError, match="shuffle must be provided"):
        inputs.pandas_input_fn(x)
    with pytest.raises(GraphTypeError, match="must be a pandas DataFrame"):
        inputs.pandas_input_fn([1], shuffle=False)
    with pytest.raises(GraphTypeError, match="must be a pandas Series or DataFrame"):
        inputs.pandas_input_fn(x, 1, shuffle=False)
    with pytest.raises(GraphValueError, match="are columns of x"):
        inputs.pandas_input_fn(x, Frame(a=Series([1, 2])), shuffle=False)()
    with pytest.raises(GraphValueError, match="mismatched"):
        inputs.pandas_input_fn(x, Series([1, 2], index=np.array([1, 2])), shuffle=False)()
