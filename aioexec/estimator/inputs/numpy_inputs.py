"""numpy_input_fn: batches of arrays as the input of an estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.estimator.inputs.feeding import enqueue_rows

_SINGLE: Final = "__direct_np_input__"
_TARGET: Final = "__target_key__"


def numpy_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
) -> Callable[[], Any]:
    """Return a function without arguments that returns the tensors of a batch: features, or (features, labels).

    Args:
        x: an array [rows, ...], or a dict of such; features have the same structure.
        y: an array [rows, ...], or a dict of such, for labels.
        batch_size: the rows of a batch; the last one may have fewer if `num_epochs` is given.
        num_epochs: the passes over the rows, None: no end.
        shuffle: whether rows come in random order; must be given.
        queue_capacity: the rows that the queue holds.
        num_threads: the tasks that fill the queue; more than one only together with `shuffle`.

    Raises:
        GraphValueError: `shuffle` is no boolean. By the function: there are no rows, or arrays of different length, or a name
            is in both x and y.
        GraphTypeError: by the function: x is neither an array nor a dict.
    """
    if not isinstance(shuffle, bool):
        raise GraphValueError(
            "shuffle must be provided and explicitly set as boolean (it is recommended to set it as True for training); "
            f"got {shuffle!r}"
        )
    in_random_order = shuffle

    def input_fn() -> Any:
        features, labels = _features_of(x), _labels_of(y)
        _check(features, labels)
        arrays = {**features, **labels}
        queue = enqueue_rows(arrays, queue_capacity, in_random_order, num_threads, batch_size, num_epochs)
        batch = queue.dequeue_many(batch_size) if num_epochs is None else queue.dequeue_up_to(batch_size)
        found = dict(zip(arrays, batch[1:], strict=True))
        inputs = {name: found[name] for name in features} if isinstance(x, Mapping) else found[_SINGLE]
        if y is None:
            return inputs
        return inputs, {name: found[name] for name in labels} if isinstance(y, Mapping) else found[_TARGET]

    return input_fn


def _features_of(x: Any) -> dict[str, Any]:
    """The arrays by name, sorted; a single one has a name of its own."""
    if isinstance(x, Mapping):
        if not x:
            raise GraphValueError("x cannot be an empty dict")
        return {name: x[name] for name in sorted(x)}
    if isinstance(x, np.ndarray):
        if x.size == 0:
            raise GraphValueError("x cannot be an empty array")
        return {_SINGLE: x}
    raise GraphTypeError(f"x must be a dict or array; got {type(x).__name__}")


def _labels_of(y: Any) -> dict[str, Any]:
    if y is None:
        return {}
    if isinstance(y, Mapping):
        if not y:
            raise GraphValueError("y cannot be empty dict, use None instead.")
        return {name: y[name] for name in sorted(y)}
    return {_TARGET: y}


def _check(features: Mapping[str, Any], labels: Mapping[str, Any]) -> None:
    shared = features.keys() & labels.keys()
    if shared:
        raise GraphValueError(f"{len(shared)} duplicate keys are found in both x and y: {sorted(shared)}")
    if len({len(array) for array in (*features.values(), *labels.values())}) != 1:
        shapes = [{name: np.shape(array) for name, array in each.items()} for each in (features, labels)]
        raise GraphValueError(
            "Length of tensors in x and y is mismatched. All elements in x and y must have the same length. "
            f"Shapes in x: {shapes[0]}, shapes in y: {shapes[1]}"
        )
