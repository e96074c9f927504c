"""Accuracy of one batch, and lists of metrics as metrics of lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import name_scope
from aioexec.ops.math.arithmetic import divide, multiply
from aioexec.ops.math.cast import cast
from aioexec.ops.math.comparison import equal
from aioexec.ops.reduction.reductions import reduce_mean, reduce_sum


def accuracy(predictions: Any, labels: Any, weights: Any = None, name: str | None = None) -> Tensor:
    """Return the fraction of predictions that equal the labels; with weights, the weighted one.

    Raises:
        GraphValueError: the dtype is neither bool, integer nor string, or the dtypes or shapes differ.
    """
    predictions, labels = convert_to_tensor(predictions), convert_to_tensor(labels)
    dtype = labels.dtype.base_dtype
    if not (dtype.is_integer or dtype in (dtypes.bool_, dtypes.string)):
        raise GraphValueError(f"Labels should have bool, string or integer dtype, got {dtype.name}")
    predictions.shape.assert_is_compatible_with(labels.shape)
    if predictions.dtype.base_dtype != dtype:
        raise GraphValueError(
            f"Dtypes of predictions and labels should match. Given: predictions ({predictions.dtype}) and labels ({dtype})"
        )
    with name_scope(name, "accuracy", [predictions, labels]):
        is_correct = cast(equal(predictions, labels), dtypes.float32)
        if weights is None:
            return reduce_mean(is_correct)
        factors = cast(weights, dtypes.float32)
        is_correct = multiply(is_correct, factors)
        counted = multiply(cast(equal(labels, labels), dtypes.float32), factors)
        return divide(reduce_sum(is_correct), reduce_sum(counted))


def aggregate_metrics(*value_update_tuples: tuple[Any, Any]) -> tuple[list[Any], list[Any]]:
    """Return the list of values and the list of updates of metrics.

    Raises:
        GraphValueError: there are no metrics.
    """
    if not value_update_tuples:
        raise GraphValueError("Expected at least one value_tensor/update_op pair")
    values, updates = zip(*value_update_tuples, strict=True)
    return list(values), list(updates)


def aggregate_metric_map(
    names_to_tuples: Mapping[str, tuple[Any, Any]],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values and the updates of metrics by their names."""
    return (
        {name: value for name, (value, _) in names_to_tuples.items()},
        {name: update for name, (_, update) in names_to_tuples.items()},
    )
