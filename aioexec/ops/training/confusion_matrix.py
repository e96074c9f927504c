"""The confusion matrix of labels and predictions."""

from __future__ import annotations

from typing import Any

from aioexec import dtypes
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Operation, Tensor
from aioexec.ops.array.filling import ones_like
from aioexec.ops.array.gathering import scatter_nd
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.control_flow.checks import assert_less, assert_non_negative
from aioexec.ops.control_flow.dependencies import with_dependencies
from aioexec.ops.math.cast import cast
from aioexec.ops.reduction.reductions import reduce_max
from aioexec.ops.training.weights import remove_squeezable_dimensions


def confusion_matrix(
    labels: Any,
    predictions: Any,
    num_classes: Any = None,
    dtype: Any = dtypes.int32,
    name: str | None = None,
    weights: Any = None,
) -> Tensor:
    """Return a square matrix whose element [i, j] counts (or sums the weights of) examples of label i predicted as j.

    Args:
        labels, predictions: vectors of class indices.
        num_classes: by default one more than the largest class index.

    Raises:
        GraphValueError: the shapes are incompatible.
        InvalidArgumentError: (in a run, or statically) a class index is not in [0, num_classes).
    """
    with op_scope(name, "confusion_matrix", predictions, labels, num_classes, weights):
        given = remove_squeezable_dimensions(
            convert_to_tensor(labels, name="labels"), convert_to_tensor(predictions, name="predictions")
        )
        wanted, predicted = (
            _checked(cast(classes, dtypes.int64), num_classes, called)
            for classes, called in zip(given, ("labels", "predictions"), strict=True)
        )
        if num_classes is None:
            num_classes = apply_op("Maximum", reduce_max(predicted), reduce_max(wanted)) + 1
        if weights is None:
            counts = ones_like(predicted, dtype)
        else:
            factors = convert_to_tensor(weights, name="weights")
            predicted.shape.assert_is_compatible_with(factors.shape)
            counts = cast(factors, dtype)
        size = cast(num_classes, dtypes.int64)
        places = apply_op("Pack", [wanted, predicted], axis=1, name="stack")
        return scatter_nd(places, counts, apply_op("Pack", [size, size], name="stack"))


def _checked(classes: Tensor, num_classes: Any, called: str) -> Tensor:
    """Return class indices after a check that they are valid."""
    checks: list[Operation] = [assert_non_negative(classes, message=f"`{called}` contains negative values")]
    if num_classes is not None:
        limit = cast(num_classes, dtypes.int64)
        checks.append(assert_less(classes, limit, message=f"`{called}` out of bound"))
    checked: Tensor = with_dependencies(checks, classes)
    return checked
