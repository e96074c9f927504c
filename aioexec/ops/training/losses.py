"""Losses of a batch: element-wise losses, weighted and reduced to a scalar, which is added to a collection.

All are computed in float32, except cross entropies, which keep the dtype of the logits until they are weighted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Tensor
from aioexec.ops.array.filling import ones_like, zeros_like
from aioexec.ops.array.shapes_of import rank, size
from aioexec.ops.common.elementwise import named, op_scope
from aioexec.ops.math.arithmetic import add_n
from aioexec.ops.math.binary_functions import div_no_nan
from aioexec.ops.math.cast import cast
from aioexec.ops.nn.activations import relu
from aioexec.ops.nn.cross_entropy import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits_v2,
    sparse_softmax_cross_entropy_with_logits,
)
from aioexec.ops.reduction.reductions import reduce_sum
from aioexec.ops.training.weights import (
    assert_broadcastable,
    broadcast_weights,
    drop_last,
    drop_last_where,
    remove_squeezable_dimensions,
)

Formula = Callable[[Tensor, Tensor], Tensor]


class Reduction:
    """The reductions of element-wise losses to a result."""

    NONE = "none"
    SUM = "weighted_sum"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    MEAN = "weighted_mean"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS

    @classmethod
    def all(cls) -> tuple[str, ...]:
        return (
            cls.NONE,
            cls.SUM,
            cls.MEAN,
            cls.SUM_OVER_BATCH_SIZE,
            cls.SUM_OVER_NONZERO_WEIGHTS,
            cls.SUM_BY_NONZERO_WEIGHTS,
        )

    @classmethod
    def validate(cls, key: str) -> None:
        """Raise GraphValueError for an unknown reduction."""
        if key not in cls.all():
            raise GraphValueError(f"Invalid Reduction Key {key!r}. Key should be one of {cls.all()}")


BY_NONZERO = Reduction.SUM_BY_NONZERO_WEIGHTS


# Collections


def add_loss(loss: Any, loss_collection: str | None = GraphKeys.LOSSES) -> None:
    """Add a loss to the collection, for `get_total_loss`."""
    if loss_collection:
        get_default_graph().add_to_collection(loss_collection, loss)


def get_losses(scope: str | None = None, loss_collection: str = GraphKeys.LOSSES) -> list[Any]:
    """Return the losses in the collection; with `scope`, those whose name it matches from the start."""
    return get_default_graph().get_collection(loss_collection, scope)


def get_regularization_losses(scope: str | None = None) -> list[Any]:
    """Return the regularization losses of variables."""
    return get_default_graph().get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)


def get_regularization_loss(scope: str | None = None, name: str = "total_regularization_loss") -> Tensor:
    """Return the sum of the regularization losses, 0 if there are none."""
    losses = get_regularization_losses(scope)
    return add_n(losses, name=name) if losses else constant(0.0)


def get_total_loss(
    add_regularization_losses: bool = True, name: str = "total_loss", scope: str | None = None
) -> Tensor:
    """Return the sum of all losses in the collection.

    Raises:
        GraphValueError: there are no losses.
    """
    losses = get_losses(scope)
    if add_regularization_losses:
        losses = losses + get_regularization_losses(scope)
    return add_n(losses, name=name)


# Weighting


def compute_weighted_loss(
    losses: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = BY_NONZERO,
) -> Tensor:
    """Multiply losses by weights and reduce them; the result has the dtype of the losses.

    Args:
        weights: a scalar, or a tensor of the rank of the losses, whose dimensions are 1 or equal.

    Raises:
        GraphValueError: the weights do not broadcast, or the reduction is unknown.
    """
    Reduction.validate(reduction)
    with op_scope(scope, "weighted_loss", losses, weights):
        checked = assert_broadcastable(weights, losses)
        with get_default_graph().control_dependencies([checked]):
            given = convert_to_tensor(losses)
            each, factors = _float(given), _float(weights)
            loss: Tensor = cast(_reduced(each, factors, reduction), given.dtype.base_dtype)
            add_loss(loss, loss_collection)
            return loss


def _reduced(losses: Tensor, weights: Tensor, reduction: str) -> Tensor:
    weighted = apply_op("Mul", losses, weights)
    if reduction == Reduction.NONE:
        return weighted
    total = reduce_sum(weighted)
    if reduction == Reduction.MEAN:
        return _safe_mean(total, reduce_sum(ones_like(losses) * weights))
    if reduction == Reduction.SUM_BY_NONZERO_WEIGHTS:
        return _safe_mean(total, _present(losses, weights))
    if reduction == Reduction.SUM_OVER_BATCH_SIZE:
        with op_scope(None, "num_elements", losses) as scope:
            count = cast(size(losses, name=scope), losses.dtype.base_dtype)
        return _safe_mean(total, count)
    return total


def _safe_mean(total: Tensor, count: Tensor) -> Tensor:
    return div_no_nan(reduce_sum(total), count, name="value")


def _present(losses: Tensor, weights: Tensor, per_batch: bool = False) -> Tensor:
    """Return the number of losses with non-zero weight; with `per_batch`, for each element of the first dimension."""
    with op_scope(None, "num_present", losses, weights) as scope:
        is_absent = apply_op("Equal", weights, 0.0)
        present = apply_op("Select", is_absent, zeros_like(weights), ones_like(weights))
        present = broadcast_weights(present, losses)
        axis = _inner_axes(present) if per_batch else None
        return reduce_sum(present, axis=axis, keepdims=per_batch, name=scope)


def _inner_axes(x: Tensor) -> Tensor:
    return apply_op("Range", 1, rank(x), 1)


def _float(value: Any) -> Tensor:
    single: Tensor = cast(value, dtypes.float32)
    return single


def _require(**arguments: Any) -> None:
    for name, value in arguments.items():
        if value is None:
            raise GraphValueError(f"Argument `{name}` must not be None")


def _float32_pair(predictions: Any, labels: Any) -> tuple[Tensor, Tensor]:
    """Return both as float32, after checking their shapes."""
    predicted, wanted = _float(predictions), _float(labels)
    predicted.shape.assert_is_compatible_with(wanted.shape)
    return predicted, wanted


# Losses


def _elementwise_loss(name: str, summary: str, formula: Formula) -> Callable[..., Tensor]:
    """Return a loss function that applies a formula to predictions and labels."""

    def loss(
        labels: Any,
        predictions: Any,
        weights: Any = 1.0,
        scope: str | None = None,
        loss_collection: str | None = GraphKeys.LOSSES,
        reduction: str = BY_NONZERO,
    ) -> Tensor:
        _require(labels=labels, predictions=predictions)
        with op_scope(scope, name, predictions, labels, weights) as inner:
            each = formula(*_float32_pair(predictions, labels))
            return compute_weighted_loss(each, weights, inner, loss_collection, reduction)

    return named(loss, name, f"Return {summary}, weighted and reduced: see `compute_weighted_loss`.")


absolute_difference = _elementwise_loss(
    "absolute_difference",
    "the absolute differences of predictions and labels",
    lambda x, y: apply_op("Abs", apply_op("Sub", x, y)),
)
mean_squared_error = _elementwise_loss(
    "mean_squared_error",
    "the squared differences of predictions and labels",
    lambda x, y: apply_op("SquaredDifference", x, y),
)


def cosine_distance(
    labels: Any,
    predictions: Any,
    axis: int | None = None,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = BY_NONZERO,
    dim: int | None = None,
) -> Tensor:
    """Return 1 minus the dot product of predictions and labels, both unit vectors, along `axis` (formerly `dim`)."""
    along = dim if axis is None else axis
    if along is None:
        raise GraphValueError("You must specify argument `axis`")
    if axis is not None and dim is not None:
        raise GraphValueError("Cannot specify both 'axis' and 'dim'")
    _require(labels=labels, predictions=predictions)
    with op_scope(scope, "cosine_distance_loss", predictions, labels, weights) as inner:
        predicted, wanted = _float32_pair(predictions, labels)
        each = 1 - reduce_sum(apply_op("Mul", predicted, wanted), axis=(along,), keepdims=True)
        return compute_weighted_loss(each, weights, inner, loss_collection, reduction)


def hinge_loss(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = BY_NONZERO,
) -> Tensor:
    """Return the hinge loss max(0, 1 - (2 label - 1) logit)."""
    _require(labels=labels, logits=logits)
    with op_scope(scope, "hinge_loss", logits, labels, weights) as inner:
        given, wanted = _float32_pair(logits, labels)
        one = ones_like(wanted)
        each = relu(one - (2 * wanted - one) * given)
        return compute_weighted_loss(each, weights, inner, loss_collection, reduction)


def huber_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    delta: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = BY_NONZERO,
) -> Tensor:
    """Return half the squared difference up to `delta`, and a linear function beyond."""
    _require(labels=labels, predictions=predictions)
    with op_scope(scope, "huber_loss", predictions, labels, weights) as inner:
        predicted, wanted = _float32_pair(predictions, labels)
        error = apply_op("Abs", predicted - wanted)
        near = apply_op("Minimum", error, delta)
        each = 0.5 * (near * near) + delta * (error - near)
        return compute_weighted_loss(each, weights, inner, loss_collection, reduction)


def log_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    epsilon: Any = 1e-7,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = BY_NONZERO,
) -> Tensor:
    """Return the cross entropy of labels and predictions in [0, 1]; `epsilon` keeps the logarithms finite."""
    _require(labels=labels, predictions=predictions)
    with op_scope(scope, "log_loss", predictions, labels, weights) as inner:
        predicted, wanted = _float32_pair(predictions, labels)
        if_so = wanted * apply_op("Log", predicted + epsilon)
        if_not = (1 - wanted) * apply_op("Log", 1 - predicted + epsilon)
        return compute_weighted_loss(-if_so - if_not, weights, inner, loss_collection, reduction)


def mean_pairwise_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
) -> Tensor:
    """Return the mean over pairs of elements within a batch element of (difference of predictions - difference of labels)²."""
    _require(labels=labels, predictions=predictions)
    with op_scope(scope, "mean_pairwise_squared_error", predictions, labels, weights):
        factors, wanted = _float(weights), _float(labels)
        with get_default_graph().control_dependencies([assert_broadcastable(factors, wanted)]):
            predicted, wanted = _float32_pair(predictions, wanted)
            difference = predicted - wanted
            present = _present(difference, factors, per_batch=True)
            each = _pairwise(difference, present) * factors
            total = reduce_sum(each)
            is_any = apply_op("Greater", reduce_sum(present), 0.0)
            loss = apply_op("Select", is_any, total, zeros_like(total), name="value")
            add_loss(loss, loss_collection)
            return loss


def _pairwise(difference: Tensor, present: Tensor) -> Tensor:
    axes = _inner_axes(difference)
    squares = reduce_sum(apply_op("Square", difference), axis=axes, keepdims=True)
    total = reduce_sum(difference, axis=axes, keepdims=True)
    others = present - 1
    one = div_no_nan(squares, apply_op("Maximum", others, 0.0), name="value")
    other = div_no_nan(apply_op("Square", total), apply_op("Maximum", present * others, 0.0), name="value")
    return 2.0 * one - 2.0 * other


def sigmoid_cross_entropy(
    multi_class_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = BY_NONZERO,
) -> Tensor:
    """Return the cross entropy of labels and sigmoid(logits) for independent classes; smoothing moves labels towards 1/2."""
    _require(multi_class_labels=multi_class_labels, logits=logits)
    with op_scope(scope, "sigmoid_cross_entropy_loss", logits, multi_class_labels, weights) as inner:
        given, wanted = _with_logits(logits, multi_class_labels)
        if label_smoothing > 0:
            wanted = wanted * (1 - label_smoothing) + 0.5 * label_smoothing
        each = sigmoid_cross_entropy_with_logits(labels=wanted, logits=given, name="xentropy")
        return compute_weighted_loss(each, weights, inner, loss_collection, reduction)


def softmax_cross_entropy(
    onehot_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = BY_NONZERO,
) -> Tensor:
    """Return the cross entropy of labels and softmax(logits); smoothing moves labels towards 1 / classes."""
    _require(onehot_labels=onehot_labels, logits=logits)
    with op_scope(scope, "softmax_cross_entropy_loss", logits, onehot_labels, weights) as inner:
        given, wanted = _with_logits(logits, onehot_labels)
        if label_smoothing > 0:
            classes = cast(apply_op("Shape", wanted)[-1], given.dtype.base_dtype)
            wanted = wanted * (1.0 - label_smoothing) + label_smoothing / classes
        fixed = apply_op("StopGradient", wanted, name="labels_stop_gradient")
        each = softmax_cross_entropy_with_logits_v2(labels=fixed, logits=given, name="xentropy")
        return compute_weighted_loss(each, weights, inner, loss_collection, reduction)


def _with_logits(logits: Any, labels: Any) -> tuple[Tensor, Tensor]:
    given = convert_to_tensor(logits)
    wanted = cast(labels, given.dtype.base_dtype)
    given.shape.assert_is_compatible_with(wanted.shape)
    return given, wanted


def sparse_softmax_cross_entropy(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = BY_NONZERO,
) -> Tensor:
    """Return the cross entropy of class indices and softmax(logits); a last dimension of 1 of labels or weights is dropped."""
    _require(labels=labels, logits=logits)
    with op_scope(scope, "sparse_softmax_cross_entropy_loss", logits, labels, weights) as inner:
        classes, given = remove_squeezable_dimensions(labels, logits, expected_rank_diff=1)
        factors = None if weights is None else _with_rank(weights, classes)
        each = sparse_softmax_cross_entropy_with_logits(labels=classes, logits=given, name="xentropy")
        return compute_weighted_loss(each, factors, inner, loss_collection, reduction)


def _with_rank(weights: Any, labels: Tensor) -> Tensor:
    """Drop the last dimension of weights whose rank exceeds that of the labels."""
    given = convert_to_tensor(weights)
    if given.dims is not None and labels.dims is not None:
        return drop_last(given) if len(given.dims) == len(labels.dims) + 1 else given
    return drop_last_where(given, rank(given) - rank(labels), 1)
