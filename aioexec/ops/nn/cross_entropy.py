"""Cross entropies of logits with distributions, class indices, and independent probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.kernels.kernel import (
    Attrs,
    Compute,
    Launch,
    Launches,
    LoopKernel,
    Native,
    Operand,
    Spec,
    plain,
)
from aioexec.graph.kernels.launches import broadcast_strides, c_strides, copy_launch
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register
from aioexec.graph.static_values import constant_value
from aioexec.ops.common.elementwise import FLOATS, op_scope
from aioexec.ops.nn.softmax import exp_launch, shift_launch, shifted_values
from aioexec.ops.nn.softmax_loops import cross_entropy, sparse_cross_entropy
from aioexec.ops.reduction.launches import fill
from aioexec.shapes import Dims

Array = np.ndarray[Any, Any]

# Shapes


def dense_dims(context: ShapeContext) -> Sequence[Dims]:
    both = shapes.with_rank(shapes.broadcast(*context.inputs), 2)
    assert both is not None
    return [both[:1], both]


def sparse_dims(context: ShapeContext) -> Sequence[Dims]:
    features, labels = shapes.with_rank(context.inputs[0], 2), shapes.with_rank(context.inputs[1], 1)
    assert features is not None
    assert labels is not None
    if not shapes.compatible(features[:1], labels):
        raise GraphValueError(f"Dimensions must be equal, but are {features[0]} and {labels[0]}")
    rows = shapes.merge(features[:1], labels)
    assert rows is not None
    return [rows, rows + features[1:]]


# Reference kernels


def narrow(compute: Callable[..., tuple[Array, Array]]) -> Compute:
    """Compute 16-bit floats in float32."""

    def kernel(features: Array, labels: Array) -> tuple[Array, Array]:
        dtype = features.dtype
        if dtype.itemsize > 2:
            return compute(features, labels)
        wide = labels.astype(np.float32) if labels.dtype == dtype else labels
        loss, backprop = compute(features.astype(np.float32), wide)
        return loss.astype(dtype), backprop.astype(dtype)

    return kernel


def dense_values(features: Array, labels: Array) -> tuple[Array, Array]:
    try:
        features, labels = np.broadcast_arrays(features, labels)
    except ValueError:
        raise InvalidArgumentError(
            f"logits and labels must be broadcastable: logits_size={list(features.shape)} labels_size={list(labels.shape)}"
        ) from None
    if features.ndim != 2:
        raise InvalidArgumentError(
            "logits and labels must be either 2-dimensional, or broadcasted to be 2-dimensional, "
            f"got shape {list(features.shape)}"
        )
    shifted = shifted_values(features)
    powers = np.exp(shifted)
    total = np.sum(powers, axis=-1, keepdims=True)
    loss = np.sum(labels * (np.log(total) - shifted), axis=-1)
    return loss, powers / total - labels


def sparse_values(features: Array, labels: Array) -> tuple[Array, Array]:
    if features.ndim != 2:
        raise InvalidArgumentError(f"logits must be 2-D, but got shape {list(features.shape)}")
    rows, classes = features.shape
    if labels.shape != (rows,):
        raise InvalidArgumentError(
            f"logits and labels must have the same first dimension, got {features.shape}, {labels.shape}"
        )
    if classes == 0:
        raise InvalidArgumentError(
            f"Must have at least one class, but got logits shape {list(features.shape)}"
        )
    bad = labels[(labels < 0) | (labels >= classes)]
    if bad.size:
        raise InvalidArgumentError(
            f"Received a label value of {bad[0]} which is outside the valid range of [0, {classes})"
        )
    shifted = shifted_values(features)
    powers = np.exp(shifted)
    total = np.sum(powers, axis=-1, keepdims=True)
    backprop = powers / total
    loss = np.log(total[:, 0]) - shifted[np.arange(rows), labels]
    backprop[np.arange(rows), labels] -= backprop.dtype.type(1)
    return loss, backprop


# Native forms


def bind_dense(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    dtype, (rows, n) = outputs[1].dtype, outputs[1].shape
    if dtype.name not in FLOATS:
        return None
    if rows * n == 0:
        row = fill("0", Operand("output", 0), rows, dtype.name)
        return Launches(() if row is None else (row,))
    scratch = [dtype.itemsize, outputs[1].nbytes]
    copies: list[Launch | None] = []
    places = []
    for k, spec in enumerate(inputs):
        place = Operand("input", k)
        if spec.shape != outputs[1].shape:
            place = Operand("scratch", len(scratch))
            scratch.append(outputs[1].nbytes)
            source = broadcast_strides(spec.shape, dtype.itemsize, (rows, n))
            target = c_strides((rows, n), dtype.itemsize)
            copies.append(copy_launch(Operand("input", k), source, place, target, (rows, n), dtype.itemsize))
        places.append(place)
    last = entropy_launches(cross_entropy, places[0], places[1], rows, n, dtype, dtype.name)
    return Launches((*(row for row in copies if row is not None), *last), tuple(scratch))


def bind_sparse(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    dtype, (rows, n) = outputs[1].dtype, outputs[1].shape
    if dtype.name not in FLOATS or n == 0:
        return None
    if rows == 0:
        return Launches(())
    label_dtype = inputs[1].dtype.name
    features, labels = Operand("input", 0), Operand("input", 1)
    last = entropy_launches(sparse_cross_entropy, features, labels, rows, n, dtype, label_dtype)
    return Launches(tuple(last), (dtype.itemsize, outputs[1].nbytes))


def entropy_launches(
    body: Callable[..., int],
    features: Operand,
    labels: Operand,
    rows: int,
    n: int,
    dtype: np.dtype[Any],
    label_dtype: str,
) -> list[Launch]:
    """Launch the maximum, the exponentials, then losses and gradients; scratch 0 is one element, scratch 1 a matrix."""
    unit, shifted = Operand("scratch", 0), Operand("scratch", 1)
    loss, backprop = Operand("output", 0), Operand("output", 1)
    name = dtype.name
    kernel = LoopKernel(body, (name, label_dtype, name, name, name), 2, 0)
    operands = (shifted, labels, loss, backprop, unit)
    return [
        shift_launch(features, shifted, rows, n, name),
        exp_launch(shifted, backprop, rows * n, dtype),
        Launch(kernel, operands, (rows, n), cost=10 + 15 * rows + int(0.2 * rows * n)),
    ]


# Gradients


def is_zero(gradient: Tensor | None) -> bool:
    """Return whether a gradient is the zeros created for an unused second output."""
    if gradient is None or gradient.op.type == "ZerosLike":
        return True
    if gradient.op.type == "Fill":
        value = constant_value(gradient.op.inputs[1])
        return value is not None and not value.any()
    return gradient.op.type == "Const" and not gradient.op.attrs["value"].any()


def scaled_rows(factors: Tensor, rows: Tensor) -> Tensor:
    return apply_op("Mul", apply_op("ExpandDims", factors, -1), rows)


def logits_gradient(op: Operation, d_loss: Tensor, d_backprop: Tensor | None) -> Tensor:
    """Return the gradient of the logits: output 1 is the derivative of output 0, and has the gradient of softmax."""
    gradient = scaled_rows(d_loss, op.outputs[1])
    if is_zero(d_backprop):
        return gradient
    y = apply_op("Softmax", op.inputs[0])
    along = apply_op("Sum", apply_op("Mul", d_backprop, y), constant(np.array([1], np.int32)), keep_dims=True)
    second = apply_op("Mul", apply_op("Sub", d_backprop, along), y)
    return apply_op("AddV2", gradient, second)


def dense_gradient(op: Operation, d_loss: Tensor, d_backprop: Tensor | None) -> tuple[Tensor, Tensor]:
    by_labels = apply_op("Neg", apply_op("LogSoftmax", op.inputs[0]))
    return logits_gradient(op, d_loss, d_backprop), scaled_rows(d_loss, by_labels)


def sparse_gradient(op: Operation, d_loss: Tensor, d_backprop: Tensor | None) -> tuple[Tensor, None]:
    return logits_gradient(op, d_loss, d_backprop), None


_TYPE = "T:type{half|bfloat16|float|double}"
register(
    f"SoftmaxCrossEntropyWithLogits(features:T, labels:T) -> (loss:T, backprop:T) [{_TYPE}]",
    shape=dense_dims,
    kernel=plain(narrow(dense_values)),
    native=Native(bind_dense, FLOATS),
    gradient=dense_gradient,
)
register(
    "SparseSoftmaxCrossEntropyWithLogits(features:T, labels:Tlabels) -> (loss:T, backprop:T) "
    f"[{_TYPE}; Tlabels:type{{int32|int64}}=int64]",
    shape=sparse_dims,
    kernel=plain(narrow(sparse_values)),
    native=Native(
        bind_sparse, FLOATS, ((InvalidArgumentError, "a label is outside the range of the classes"),)
    ),
    gradient=sparse_gradient,
)


# Wrappers


def require_named(function: str, sentinel: Any, labels: Any, logits: Any) -> None:
    if sentinel is not None:
        raise GraphValueError(f"Only call `{function}` with named arguments (labels=..., logits=..., ...)")
    if labels is None or logits is None:
        raise GraphValueError(f"{function}: both labels and logits must be provided")


def widened(logits: Tensor) -> Tensor:
    """Convert 16-bit logits to float32."""
    if logits.dtype.base_dtype in (dtypes.float16, dtypes.bfloat16):
        return apply_op("Cast", logits, DstT=dtypes.float32)
    return logits


def as_matrix(x: Tensor) -> Tensor:
    """Merge all dimensions but the last."""
    if x.dims is not None and x.dims[-1]:
        return apply_op("Reshape", x, constant(np.array([-1, x.dims[-1]], np.int32)))
    last = apply_op("StridedSlice", apply_op("Shape", x), [-1], [0], [1], end_mask=1)
    return apply_op("Reshape", x, apply_op("ConcatV2", [constant(np.array([-1], np.int32)), last], 0))


def without_last(x: Tensor) -> Tensor:
    """Return the shape without its last dimension."""
    return apply_op("StridedSlice", apply_op("Shape", x), [0], [-1], [1], begin_mask=1)


def moved_last(x: Tensor, axis: int) -> Tensor:
    """Move a dimension to the end."""
    if axis == -1 or (x.dims is not None and axis == len(x.dims) - 1):
        return x
    if x.dims is None:
        raise GraphValueError(f"expected a tensor of known rank to use axis {axis}, got {x!r}")
    rank = len(x.dims)
    if not -rank <= axis < rank:
        raise GraphValueError(f"axis must be in the range [{-rank}, {rank}), got {axis}")
    order = [k for k in range(rank) if k != axis % rank] + [axis % rank]
    return apply_op("Transpose", x, constant(np.array(order, np.int32)))


def softmax_cross_entropy_with_logits_v2(
    labels: Any, logits: Any, axis: Any = None, name: str | None = None, dim: Any = None
) -> Tensor:
    """Return the cross entropy of `labels`, probabilities along `axis` (default: last), and softmax(logits), one loss per row.

    Gradients flow to both; `softmax_cross_entropy_with_logits` stops them at the labels.

    Raises:
        GraphValueError: the shapes do not fit, or an argument is missing.
    """
    require_named("softmax_cross_entropy_with_logits", None, labels, logits)
    if axis is not None and dim is not None:
        raise GraphValueError("Cannot specify both 'axis' and 'dim'")
    along = -1 if axis is None and dim is None else int(dim if axis is None else axis)
    with op_scope(name, "softmax_cross_entropy_with_logits", logits, labels) as scope:
        given = convert_to_tensor(logits, name="logits")
        precise = moved_last(widened(given), along)
        targets = convert_to_tensor(
            labels, precise.dtype.base_dtype if not isinstance(labels, Tensor) else None, "labels"
        )
        if targets.dtype.base_dtype != precise.dtype.base_dtype:
            targets = apply_op("Cast", targets, DstT=precise.dtype.base_dtype)
        targets = moved_last(targets, along)
        is_matrix = precise.dims is not None and len(precise.dims) == 2
        left, right = (precise, targets) if is_matrix else (as_matrix(precise), as_matrix(targets))
        loss, _ = apply_tuple_op("SoftmaxCrossEntropyWithLogits", left, right, name=scope)
        if not is_matrix:
            loss = apply_op("Reshape", loss, without_last(precise))
            loss.set_shape(None if precise.dims is None else precise.dims[:-1])
        return narrowed(loss, given)


def narrowed(loss: Tensor, given: Tensor) -> Tensor:
    """Convert a loss to the dtype of the original logits."""
    if loss.dtype.base_dtype == given.dtype.base_dtype:
        return loss
    return apply_op("Cast", loss, DstT=given.dtype.base_dtype)


def softmax_cross_entropy_with_logits(
    _sentinel: Any = None,
    labels: Any = None,
    logits: Any = None,
    dim: Any = -1,
    name: str | None = None,
    axis: Any = None,
) -> Tensor:
    """As `softmax_cross_entropy_with_logits_v2`, without gradient to the labels; arguments must be named."""
    require_named("softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    along = dim if axis is None else axis
    with op_scope(name, "softmax_cross_entropy_with_logits_sg", logits, labels) as scope:
        fixed = apply_op("StopGradient", labels, name="labels_stop_gradient")
        return softmax_cross_entropy_with_logits_v2(fixed, logits, axis=along, name=scope)


def sparse_softmax_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None
) -> Tensor:
    """Return the cross entropy of class indices and softmax(logits); `labels` lacks the last dimension of `logits`.

    Raises:
        GraphValueError: the ranks do not fit, or an argument is missing.
        InvalidArgumentError: (in a run) a label is not in [0, classes).
    """
    function = "sparse_softmax_cross_entropy_with_logits"
    require_named(function, _sentinel, labels, logits)
    with op_scope(name, "SparseSoftmaxCrossEntropyWithLogits", labels, logits):
        given, classes = convert_to_tensor(logits), convert_to_tensor(labels)
        precise = widened(given)
        if (
            precise.dims is not None
            and classes.dims is not None
            and len(classes.dims) != len(precise.dims) - 1
        ):
            raise GraphValueError(
                f"{function}: expected labels of the rank of logits minus 1, got shapes {classes.shape} and {precise.shape}"
            )
        op_type = "SparseSoftmaxCrossEntropyWithLogits"
        if precise.dims is not None and len(precise.dims) == 2:
            return narrowed(apply_tuple_op(op_type, precise, classes)[0], given)
        flat = apply_op("Reshape", classes, constant(np.array([-1], np.int32)))
        loss = apply_op(
            "Reshape", apply_tuple_op(op_type, as_matrix(precise), flat)[0], apply_op("Shape", classes)
        )
        loss.set_shape(classes.dims)
        return narrowed(loss, given)


def sigmoid_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None
) -> Tensor:
    """Return the loss of independent classes: max(x, 0) - x * z + log(1 + exp(-|x|)) for logits x and labels z.

    Raises:
        GraphValueError: the shapes differ, or an argument is missing.
    """
    require_named("sigmoid_cross_entropy_with_logits", _sentinel, labels, logits)
    with op_scope(name, "logistic_loss", logits, labels) as scope:
        x = convert_to_tensor(logits, name="logits")
        z = convert_to_tensor(labels, x.dtype.base_dtype, "labels")
        if not shapes.compatible(x.dims, z.dims):
            raise GraphValueError(f"logits and labels must have the same shape, got {x.shape} vs {z.shape}")
        zeros = apply_op("ZerosLike", x)
        is_positive = apply_op("GreaterEqual", x, zeros)
        positive = apply_op("Select", is_positive, x, zeros)
        negative = apply_op("Select", is_positive, apply_op("Neg", x), x)
        linear = apply_op("Sub", positive, apply_op("Mul", x, z))
        return apply_op("AddV2", linear, apply_op("Log1p", apply_op("Exp", negative)), name=scope)


def weighted_cross_entropy_with_logits(
    labels: Any = None,
    logits: Any = None,
    pos_weight: Any = None,
    name: str | None = None,
    targets: Any = None,
) -> Tensor:
    """As `sigmoid_cross_entropy_with_logits`, with the loss of positive labels multiplied by `pos_weight`.

    `targets` is an older name of `labels`.

    Raises:
        GraphValueError: the shapes differ, or an argument is missing.
    """
    if (labels is None) == (targets is None) or logits is None or pos_weight is None:
        raise GraphValueError("weighted_cross_entropy_with_logits needs labels, logits and pos_weight")
    labels = targets if labels is None else labels
    with op_scope(name, "logistic_loss", logits, labels) as scope:
        x = convert_to_tensor(logits, name="logits")
        z = convert_to_tensor(labels, x.dtype.base_dtype, "labels")
        if not shapes.compatible(x.dims, z.dims):
            raise GraphValueError(f"logits and labels must have the same shape, got {x.shape} vs {z.shape}")
        one = constant(1, x.dtype.base_dtype)
        weight = apply_op("AddV2", one, apply_op("Mul", apply_op("Sub", pos_weight, one), z))
        smooth = apply_op("Log1p", apply_op("Exp", apply_op("Neg", apply_op("Abs", x))))
        smooth = apply_op("AddV2", smooth, apply_op("Relu", apply_op("Neg", x)))
        linear = apply_op("Mul", apply_op("Sub", one, z), x)
        return apply_op("AddV2", linear, apply_op("Mul", weight, smooth), name=scope)


def log_poisson_loss(
    targets: Any, log_input: Any, compute_full_loss: bool = False, name: str | None = None
) -> Tensor:
    """Return exp(log_input) - log_input · targets, the log-likelihood loss of counts under a Poisson distribution.

    Args:
        compute_full_loss: add Stirling's approximation of log(targets!), 0 for targets in 0 … 1.

    Raises:
        GraphValueError: the shapes differ.
    """
    with op_scope(name, "log_poisson_loss", log_input, targets):
        logs, counts = (
            convert_to_tensor(log_input, name="log_input"),
            convert_to_tensor(targets, name="targets"),
        )
        if not shapes.compatible(logs.dims, counts.dims):
            raise GraphValueError(
                "`log_input` and `targets` must have the same shape, "
                f"received ({logs.shape} vs {counts.shape})."
            )
        loss = apply_op("Sub", apply_op("Exp", logs), apply_op("Mul", logs, counts))
        if not compute_full_loss:
            return loss
        approximation = (
            counts * apply_op("Log", counts) - counts + 0.5 * apply_op("Log", 2 * math.pi * counts)
        )
        zeros = apply_op("ZerosLike", counts)
        is_small = apply_op("LogicalAnd", counts >= zeros, counts <= apply_op("OnesLike", counts))
        return loss + apply_op("Select", is_small, zeros, approximation)
