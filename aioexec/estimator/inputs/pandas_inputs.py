"""pandas_input_fn: batches of a pandas DataFrame as the input of an estimator; pandas is not imported here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.estimator.inputs.feeding import enqueue_rows


def pandas_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
    target_column: str = "target",
) -> Callable[[], Any]:
    """Return a function without arguments that returns the tensors of a batch: a dict of features, or (features, labels).

    Args:
        x: a DataFrame; each column is a feature [batch].
        y: a Series, or a DataFrame for a dict of labels, with the index of `x`.
        target_column: the name of a Series among the columns while they are in the queue.

    The others are those of `numpy_input_fn`.

    Raises:
        GraphValueError: `shuffle` is no boolean. By the function: the index of y is another, or its name is a column of x.
        GraphTypeError: x is no DataFrame; y is neither a Series nor a DataFrame.
    """
    if not isinstance(shuffle, bool):
        raise GraphValueError(
            "shuffle must be provided and explicitly set as boolean (it is recommended to set it as True for training); "
            f"got {shuffle!r}"
        )
    if not (hasattr(x, "columns") and hasattr(x, "index")):
        raise GraphTypeError(f"x must be a pandas DataFrame; got {type(x).__name__}")
    if y is not None and not hasattr(y, "index"):
        raise GraphTypeError(f"y must be a pandas Series or DataFrame; got {type(y).__name__}")
    in_random_order = shuffle

    def input_fn() -> Any:
        features = {name: _column(x[name]) for name in x.columns}
        labels = _labels(y, target_column)
        if labels:
            _check(x, y, features, labels)
        arrays = {**features, **labels}
        queue = enqueue_rows(arrays, queue_capacity, in_random_order, num_threads, batch_size, num_epochs)
        batch = queue.dequeue_many(batch_size) if num_epochs is None else queue.dequeue_up_to(batch_size)
        found = dict(zip(arrays, batch[1:], strict=True))
        inputs = {name: found[name] for name in features}
        if y is None:
            return inputs
        if hasattr(y, "columns"):
            return inputs, {name: found[name] for name in labels}
        return inputs, found[target_column]

    return input_fn


def _column(series: Any) -> np.ndarray[Any, Any]:
    """The values of a column; text as an array of objects, which becomes a tensor of strings."""
    values: np.ndarray[Any, Any] = series.to_numpy()
    return values if values.dtype.kind in "biufc" else values.astype(object)


def _labels(y: Any, target_column: str) -> dict[str, np.ndarray[Any, Any]]:
    if y is None:
        return {}
    if hasattr(y, "columns"):
        return {name: _column(y[name]) for name in y.columns}
    return {target_column: _column(y)}


def _check(x: Any, y: Any, features: dict[str, Any], labels: dict[str, Any]) -> None:
    shared = features.keys() & labels.keys()
    if shared:
        raise GraphValueError(f"Cannot use names of labels for features: {sorted(shared)} are columns of x")
    if not np.array_equal(x.index, y.index):
        raise GraphValueError("Index for x and y are mismatched.")
