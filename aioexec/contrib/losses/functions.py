"""The losses of `tf.contrib.losses`, by those of `aioexec.losses`.

They differ in two ways: predictions come before labels, and weights may have fewer axes than the losses, whose first axes they
then belong to. Each loss is a scalar, the sum over all elements divided by the number of elements with a weight other than 0,
and is added to LOSSES.
"""

from __future__ import annotations

from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import name_scope
from aioexec.ops.array.arrays import reshape, squeeze
from aioexec.ops.array.filling import ones_like
from aioexec.ops.array.joining import concat
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.math.binary_functions import div_no_nan
from aioexec.ops.math.cast import cast
from aioexec.ops.math.comparison import not_equal
from aioexec.ops.math.math_functions import square
from aioexec.ops.reduction.reductions import reduce_sum
from aioexec.ops.training import losses as by_labels
from aioexec.ops.training.losses import Reduction


def _wide(weights: Any, rank: int | None) -> Any:
    """Weights with as many axes as the losses.

    Raises:
        GraphValueError: a rank is not known.
    """
    weights = convert_to_tensor(weights)
    if rank is None:
        raise GraphValueError("losses.get_shape().ndims cannot be None")
    if weights.shape.ndims is None:
        raise GraphValueError("weights.get_shape().ndims cannot be None")
    if weights.shape.ndims > 1 and weights.shape.ndims > rank and weights.shape[-1].is_compatible_with(1):
        weights = squeeze(weights, [-1])
    missing = rank - weights.shape.ndims
    if weights.shape.ndims == 0 or missing <= 0:
        return weights
    return reshape(weights, concat([shape(weights), [1] * missing], 0))


def _rank(value: Any) -> int | None:
    rank: int | None = convert_to_tensor(value).shape.ndims
    return rank


def compute_weighted_loss(losses: Any, weights: Any = 1.0, scope: str | None = None) -> Tensor:
    """Return the weighted mean of losses.

    Raises:
        GraphValueError: the rank of losses or weights is not known, or the weights do not broadcast.
    """
    return by_labels.compute_weighted_loss(losses, _wide(weights, _rank(losses)), scope)


def absolute_difference(
    predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None
) -> Tensor:
    """Return the weighted mean of |predictions - labels|."""
    return by_labels.absolute_difference(labels, predictions, _wide(weights, _rank(predictions)), scope)


def mean_squared_error(
    predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None
) -> Tensor:
    """Return the weighted mean of the squares of predictions - labels."""
    return by_labels.mean_squared_error(labels, predictions, _wide(weights, _rank(predictions)), scope)


def log_loss(
    predictions: Any, labels: Any = None, weights: Any = 1.0, epsilon: float = 1e-7, scope: str | None = None
) -> Tensor:
    """Return the weighted mean of the log loss of probabilities; `epsilon` is added to what a logarithm is taken of."""
    return by_labels.log_loss(labels, predictions, _wide(weights, _rank(predictions)), epsilon, scope)


def cosine_distance(
    predictions: Any,
    labels: Any = None,
    axis: int | None = None,
    weights: Any = 1.0,
    scope: str | None = None,
    dim: int | None = None,
) -> Tensor:
    """Return the weighted mean of 1 minus the dot product of unit vectors along `axis`, formerly `dim`.

    Raises:
        GraphValueError: neither or both of `axis` and `dim` are given.
    """
    return by_labels.cosine_distance(
        labels, predictions, axis, _wide(weights, _rank(predictions)), scope, dim=dim
    )


def sigmoid_cross_entropy(
    logits: Any,
    multi_class_labels: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
) -> Tensor:
    """Return the weighted mean of the cross entropy of each class by itself; smoothing moves labels towards 1 / 2."""
    weights = _wide(weights, _rank(logits))
    return by_labels.sigmoid_cross_entropy(multi_class_labels, logits, weights, label_smoothing, scope)


def softmax_cross_entropy(
    logits: Any, onehot_labels: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: str | None = None
) -> Tensor:
    """Return the weighted mean of the cross entropy; smoothing moves labels towards 1 / number of classes."""
    rank = _rank(logits)
    wide = _wide(weights, None if rank is None else rank - 1)
    return by_labels.softmax_cross_entropy(onehot_labels, logits, wide, label_smoothing, scope)


def sparse_softmax_cross_entropy(
    logits: Any, labels: Any, weights: Any = 1.0, scope: str | None = None
) -> Tensor:
    """Return the weighted mean of the cross entropy for labels [batch] or [batch, 1], integers."""
    labels = reshape(labels, [-1])
    return by_labels.sparse_softmax_cross_entropy(labels, logits, _wide(weights, 1), scope)


def hinge_loss(logits: Any, labels: Any = None, scope: str | None = None) -> Tensor:
    """Return the hinge loss of each element, not reduced, and in no collection."""
    return by_labels.hinge_loss(labels, logits, 1.0, scope, None, Reduction.NONE)


def mean_pairwise_squared_error(
    predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None
) -> Tensor:
    """Return the mean of the squared differences between the errors of all pairs of elements of an example.

    Args:
        weights: a scalar, or [batch].

    Raises:
        GraphValueError: the rank of predictions or weights is not known.
    """
    with name_scope(scope, "mean_pairwise_squared_error", [predictions, labels, weights]):
        differences = cast(predictions, dtypes.float32) - cast(labels, dtypes.float32)
        rank = differences.shape.ndims
        factors = cast(_wide(weights, rank), dtypes.float32)
        axes = list(range(1, rank))
        present = reduce_sum(cast(not_equal(factors, 0.0), dtypes.float32) * ones_like(differences), axes)
        squares = div_no_nan(reduce_sum(square(differences), axes), present)
        mean_squares = div_no_nan(square(reduce_sum(differences, axes)), square(present))
        by_example = 2.0 * squares - 2.0 * mean_squares
        loss: Tensor = reduce_sum(
            by_example * (factors if factors.shape.ndims == 0 else reshape(factors, [-1]))
        )
        by_labels.add_loss(loss)
        return loss
