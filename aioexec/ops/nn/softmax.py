"""Softmax and log-softmax over the last dimension, or over another one by transposition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op
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
from aioexec.graph.kernels.launches import View, c_strides, launch
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register
from aioexec.ops.common.elementwise import FLOATS, in_float32
from aioexec.ops.nn.softmax_loops import normalise_rows, shift_rows, subtract_logs
from aioexec.shapes import Dims

Array = np.ndarray[Any, Any]


def vector_dims(context: ShapeContext) -> Sequence[Dims]:
    return [shapes.with_rank_at_least(context.inputs[0], 1)]


def checked(compute: Callable[[Array], Array]) -> Compute:
    def kernel(x: Array) -> Array:
        if x.ndim == 0:
            raise InvalidArgumentError("logits must have >= 1 dimension, got a scalar")
        result: Array = in_float32(compute)(x)
        return result

    return kernel


def shifted_values(x: Array) -> Array:
    """Subtract the maximum of each row."""
    return np.asarray(x - np.max(x, axis=-1, keepdims=True, initial=-np.inf))


def softmax_values(x: Array) -> Array:
    e = np.exp(shifted_values(x))
    return np.asarray(e / np.sum(e, axis=-1, keepdims=True))


def log_softmax_values(x: Array) -> Array:
    shifted = shifted_values(x)
    return np.asarray(shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True)))


# Native forms


def exp_launch(source: Operand, target: Operand, count: int, dtype: np.dtype[Any]) -> Launch:
    view = c_strides((count,), dtype.itemsize)
    row = launch(
        "y = exp(x)",
        [("x", View(source, dtype.name, view))],
        [("y", View(target, dtype.name, view))],
        (count,),
    )
    assert row is not None
    return row


def shift_launch(source: Operand, target: Operand, rows: int, n: int, dtype: str) -> Launch:
    kernel = LoopKernel(shift_rows, (dtype, dtype), 2, 0)
    return Launch(kernel, (source, target), (rows, n), cost=10 + 4 * rows + int(0.25 * rows * n))


def bind_softmax(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    x = inputs[0]
    if x.dtype.name not in FLOATS or not x.shape:
        return None
    if x.size == 0:
        return Launches(())
    n, rows, name = x.shape[-1], x.size // x.shape[-1], x.dtype.name
    out, unit = Operand("output", 0), Operand("scratch", 0)
    normalise = LoopKernel(normalise_rows, (name, name), 2, 0)
    cost = 10 + 5 * rows + int(0.07 * x.size)
    return Launches(
        (
            shift_launch(Operand("input", 0), out, rows, n, name),
            exp_launch(out, out, x.size, x.dtype),
            Launch(normalise, (out, unit), (rows, n), cost=cost),
        ),
        scratch=(x.dtype.itemsize,),
    )


def bind_log_softmax(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    x = inputs[0]
    if x.dtype.name not in FLOATS or not x.shape:
        return None
    if x.size == 0:
        return Launches(())
    n, rows, name = x.shape[-1], x.size // x.shape[-1], x.dtype.name
    out, unit, powers = Operand("output", 0), Operand("scratch", 0), Operand("scratch", 1)
    subtract = LoopKernel(subtract_logs, (name, name, name), 2, 0)
    cost = 10 + 12 * rows + int(0.08 * x.size)
    return Launches(
        (
            shift_launch(Operand("input", 0), out, rows, n, name),
            exp_launch(out, powers, x.size, x.dtype),
            Launch(subtract, (powers, out, unit), (rows, n), cost=cost),
        ),
        scratch=(x.dtype.itemsize, x.nbytes),
    )


# Gradients


def last_axis() -> Tensor:
    return constant(np.array([-1], np.int32))


def softmax_gradient(op: Operation, dy: Tensor) -> tuple[Tensor]:
    y = op.outputs[0]
    along = apply_op("Sum", apply_op("Mul", dy, y), last_axis(), keep_dims=True)
    return (apply_op("Mul", apply_op("Sub", dy, along), y),)


def log_softmax_gradient(op: Operation, dy: Tensor) -> tuple[Tensor]:
    total = apply_op("Sum", dy, last_axis(), keep_dims=True)
    return (apply_op("Sub", dy, apply_op("Mul", total, apply_op("Exp", op.outputs[0]))),)


register(
    "Softmax(logits:T) -> (softmax:T) [T:type{half|bfloat16|float|double}]",
    shape=vector_dims,
    kernel=plain(checked(softmax_values)),
    native=Native(bind_softmax, FLOATS),
    gradient=softmax_gradient,
)
register(
    "LogSoftmax(logits:T) -> (logsoftmax:T) [T:type{half|bfloat16|float|double}]",
    shape=vector_dims,
    kernel=plain(checked(log_softmax_values)),
    native=Native(bind_log_softmax, FLOATS),
    gradient=log_softmax_gradient,
)


# Wrappers


def along_axis(op_type: str, logits: Any, axis: Any, dim: Any, name: str | None) -> Tensor:
    """Apply an op on the last dimension to another one by exchanging the two."""
    if axis is not None and dim is not None:
        raise GraphValueError("Cannot specify both 'axis' and 'dim'")
    chosen = -1 if axis is None and dim is None else int(dim if axis is None else axis)
    x = convert_to_tensor(logits)
    if chosen == -1 or (x.dims is not None and chosen == len(x.dims) - 1):
        return apply_op(op_type, x, name=name)
    if x.dims is None:
        raise GraphValueError(f"{op_type}: expected logits of known rank to use axis {chosen}, got {x!r}")
    rank = len(x.dims)
    if not -rank <= chosen < rank:
        raise GraphValueError(
            f"{op_type}: axis must be in the range [{-rank}, {rank}) where {rank} is the rank, got {chosen}"
        )
    order = list(range(rank))
    order[chosen], order[-1] = order[-1], order[chosen]
    swapped = apply_op("Transpose", x, np.array(order, np.int32), name="transpose")
    result = apply_op(op_type, swapped)
    return apply_op("Transpose", result, np.array(order, np.int32), name=name or "transpose")


def softmax(logits: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Tensor:
    """Return exp(logits) / sum(exp(logits)) along `axis`, by default the last.

    Raises:
        GraphValueError: the axis is out of range, or the rank is unknown and the axis is not the last.
    """
    return along_axis("Softmax", logits, axis, dim, name)


def log_softmax(logits: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Tensor:
    """Return logits - log(sum(exp(logits))) along `axis`, as `softmax`."""
    return along_axis("LogSoftmax", logits, axis, dim, name)
