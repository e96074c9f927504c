"""Shapes of labels, predictions and weights: squeezing of trailing dimensions, and broadcasting of weights.

A trailing dimension of 1 is dropped if the ranks require it, at run time if they are not static. Weights broadcast more
strictly than operands: they are scalars, or have the rank of the values, and each dimension is equal or 1.
"""

from __future__ import annotations

from typing import Any

from aioexec import shapes
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Operation, Tensor
from aioexec.ops.array.filling import ones_like
from aioexec.ops.array.shapes_of import rank, shape
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.control_flow.cond import cond
from aioexec.ops.control_flow.dependencies import no_op
from aioexec.ops.control_flow.printing import Assert
from aioexec.ops.reduction.reductions import reduce_all

UNFIT = "weights can not be broadcast to values."


# Trailing dimensions of 1


def drop_last(x: Tensor) -> Tensor:
    return apply_op("Squeeze", x, squeeze_dims=[-1])


def may_drop_last(x: Tensor) -> bool:
    """Return whether the last dimension can be 1."""
    return x.dims is None or (bool(x.dims) and x.dims[-1] in (None, 1))


def drop_last_where(x: Tensor, difference: Tensor, wanted: int) -> Tensor:
    """Drop the last dimension if the difference of ranks is, at run time, as given."""
    if not may_drop_last(x):
        return x
    dropped: Tensor = cond(apply_op("Equal", wanted, difference), lambda: drop_last(x), lambda: x)
    return dropped


def remove_squeezable_dimensions(
    labels: Any, predictions: Any, expected_rank_diff: int = 0, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Drop a last dimension of 1 of labels or predictions if the ranks then differ by `expected_rank_diff`.

    Args:
        expected_rank_diff: the rank of predictions minus that of labels.
    """
    with op_scope(name, "remove_squeezable_dimensions", labels, predictions):
        predicted, wanted = convert_to_tensor(predictions), convert_to_tensor(labels)
        if predicted.dims is None or wanted.dims is None:
            difference = rank(predicted) - rank(wanted)
            predicted = drop_last_where(predicted, difference, expected_rank_diff + 1)
            return drop_last_where(wanted, difference, expected_rank_diff - 1), predicted
        known = len(predicted.dims) - len(wanted.dims)
        if known == expected_rank_diff + 1 and may_drop_last(predicted):
            predicted = drop_last(predicted)
        elif known == expected_rank_diff - 1 and may_drop_last(wanted):
            wanted = drop_last(wanted)
        return wanted, predicted


def with_rank_of(weights: Any, values: Tensor) -> Tensor:
    """Add or drop a last dimension of 1 of weights whose rank is off by one; scalars are unchanged."""
    given = convert_to_tensor(weights)
    if given.dims == ():
        return given

    def longer() -> Tensor:
        return apply_op("ExpandDims", given, -1)

    if given.dims is not None and values.dims is not None:
        known = len(given.dims) - len(values.dims)
        return drop_last(given) if known == 1 else longer() if known == -1 else given
    own = rank(given)
    difference = own - rank(values)
    fitted: Tensor = cond(
        apply_op("Equal", own, 0),
        lambda: given,
        lambda: cond(
            apply_op("Equal", difference, -1), longer, lambda: drop_last_where(given, difference, 1)
        ),
    )
    return fitted


# Broadcasting


def assert_broadcastable(weights: Any, values: Any) -> Operation:
    """Return an operation that fails unless the weights broadcast to the values.

    Raises:
        GraphValueError: the shapes are statically incompatible.
    """
    with op_scope(None, "assert_broadcastable", weights, values) as scope:
        given, wanted = _named(weights, "weights"), _named(values, "values")
        one, other = given.dims, wanted.dims
        if one is not None and other is not None:
            if not one:
                return no_op(name="static_scalar_check_success")
            if len(one) != len(other):
                raise GraphValueError(
                    f"{UNFIT} values.rank={len(other)}. weights.rank={len(one)}. values.shape={wanted.shape}. "
                    f"weights.shape={given.shape}"
                )
            if shapes.is_fully_defined(one) and shapes.is_fully_defined(other):
                _check_dims(given, wanted)
                return no_op(name="static_dims_check_success")
        return _checked_in_a_run(given, wanted, scope)


def _named(value: Any, name: str) -> Tensor:
    with op_scope(None, name, value) as scope:
        return convert_to_tensor(value, name=scope.rstrip("/"))


def _check_dims(weights: Tensor, values: Tensor) -> None:
    assert weights.dims is not None
    assert values.dims is not None
    for k, (given, wanted) in enumerate(zip(weights.dims, values.dims, strict=True)):
        if given not in (1, wanted):
            raise GraphValueError(
                f"{UNFIT} Mismatch at dim {k}. values.shape={values.shape}, weights.shape={weights.shape}"
            )


def _checked_in_a_run(weights: Tensor, values: Tensor, scope: str) -> Operation:
    given, wanted = shape(weights), shape(values)
    is_scalar = apply_op("Equal", 0, rank(weights), name="is_scalar")
    same_rank = apply_op("Equal", rank(values), rank(weights), name="is_same_rank")

    def fits() -> Tensor:
        return reduce_all(
            apply_op("LogicalOr", apply_op("Equal", given, 1), apply_op("Equal", given, wanted))
        )

    fit = cond(same_rank, fits, lambda: is_scalar, name="is_valid_shape")
    data = (UNFIT, "weights.shape=", weights.name, given, "values.shape=", values.name, wanted)
    return Assert(fit, data, name=scope)


def broadcast_weights(weights: Any, values: Any) -> Tensor:
    """Broadcast the weights to the shape of the values.

    Raises:
        GraphValueError: the shapes are statically incompatible.
    """
    with op_scope(None, "broadcast_weights", weights, values) as scope:
        wanted = convert_to_tensor(values, name="values")
        given = convert_to_tensor(weights, wanted.dtype.base_dtype, "weights")
        if given.dims == wanted.dims and shapes.is_fully_defined(given.dims):
            return given
        with get_default_graph().control_dependencies([assert_broadcastable(given, wanted)]):
            return apply_op("Mul", given, ones_like(wanted), name=scope)
