"""Ops of neural networks other than activations and losses: bias, L2 loss, top-k, L2 normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from aioexec import shapes
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.kernels.kernel import (
    Alias,
    Attrs,
    Compute,
    KernelContext,
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
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.ops.common.elementwise import FLOATS, in_float32, op_scope
from aioexec.ops.nn import loops
from aioexec.ops.reduction.launches import Scratch, fill, reduce_launches, sum_of
from aioexec.ops.reduction.reductions import reduce_sum
from aioexec.shapes import Dims

Array = np.ndarray[Any, Any]
NUMBERS = frozenset({"float32", "float64", "int32", "int64"})
_MOST_TOP = 64
"""The largest k of the compiled TopKV2, which inserts elements into a sorted list; a larger one is better served by sorting."""
_FORMAT = "data_format:string{NHWC|NCHW}='NHWC'"

# Bias


def channel_axis(attrs: Attrs, rank: int) -> int:
    return 1 if attrs["data_format"] == "NCHW" else rank - 1


def _least_rank(attrs: Attrs) -> int:
    return 3 if attrs["data_format"] == "NCHW" else 2


def biased_dims(context: ShapeContext) -> Sequence[Dims]:
    value = shapes.with_rank_at_least(context.inputs[0], _least_rank(context.attrs))
    bias = shapes.with_rank(context.inputs[1], 1)
    if value is None or bias is None:
        return [value]
    axis = channel_axis(context.attrs, len(value))
    if not shapes.compatible((value[axis],), bias):
        raise GraphValueError(f"Dimensions must be equal, but are {value[axis]} and {bias[0]}")
    return [(*value[:axis], *(shapes.merge((value[axis],), bias) or ()), *value[axis + 1 :])]


def bias_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs

    def compute(value: Array, bias: Array) -> Array:
        if value.ndim < 2:
            raise InvalidArgumentError(f"Input tensor must be at least 2D: {list(value.shape)}")
        axis = channel_axis(attrs, value.ndim)
        if bias.shape != (value.shape[axis],):
            raise InvalidArgumentError(
                f"Must provide as many biases as there are channels: {list(bias.shape)} vs. {value.shape[axis]}"
            )
        return np.asarray(value + bias.reshape((-1,) + (1,) * (value.ndim - 1 - axis)))

    return compute


def bind_bias(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    value = inputs[0]
    shape, dtype = value.shape, value.dtype
    if dtype.name not in NUMBERS or len(shape) < 2:
        return None
    axis = channel_axis(attrs, len(shape))
    whole = c_strides(shape, dtype.itemsize)
    along = tuple(dtype.itemsize if k == axis else 0 for k in range(len(shape)))
    row = launch(
        "z = x + b",
        [
            ("x", View(Operand("input", 0), dtype.name, whole)),
            ("b", View(Operand("input", 1), dtype.name, along)),
        ],
        [("z", View(Operand("output", 0), dtype.name, whole))],
        shape,
    )
    return Launches(() if row is None else (row,), inplace=(0,))


def bias_gradient(op: Operation, dy: Tensor) -> tuple[Tensor, Tensor]:
    return dy, apply_op("BiasAddGrad", dy, data_format=op.attrs["data_format"])


def channel_dims(context: ShapeContext) -> Sequence[Dims]:
    dims = shapes.with_rank_at_least(context.inputs[0], _least_rank(context.attrs))
    return [(None,) if dims is None else (dims[channel_axis(context.attrs, len(dims))],)]


def bias_gradient_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs

    def sum_channels(dy: Array) -> Array:
        axis = channel_axis(attrs, dy.ndim)
        return np.asarray(np.sum(dy, axis=tuple(k for k in range(dy.ndim) if k != axis), dtype=dy.dtype))

    def compute(dy: Array) -> Array:
        if dy.ndim < 2:
            raise InvalidArgumentError(f"Input tensor must be at least 2D: {list(dy.shape)}")
        result: Array = in_float32(sum_channels)(dy)
        return result

    return compute


def bind_bias_gradient(
    attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launches | Alias | None:
    dy = inputs[0]
    if dy.dtype.name not in NUMBERS or len(dy.shape) < 2:
        return None
    axis = channel_axis(attrs, len(dy.shape))
    others = [k for k in range(len(dy.shape)) if k != axis]
    if all(dy.shape[k] == 1 for k in others):
        return Alias((0,), (0,))
    scratch = Scratch()
    rows = reduce_launches(
        sum_of(dy.dtype), dy.dtype, dy.shape, others, Operand("input", 0), Operand("output", 0), scratch
    )
    return Launches(tuple(rows), tuple(scratch.sizes))


def bias_gradient_gradient(op: Operation, dy: Tensor) -> tuple[Tensor]:
    """Broadcast the gradient of a channel's bias to all elements of the channel."""
    source = op.inputs[0]
    if op.attrs["data_format"] == "NCHW":
        rank = 4 if source.dims is None else len(source.dims)
        dy = apply_op("Reshape", dy, constant(np.array([-1] + [1] * (rank - 2), np.int32)))
    return (apply_op("BroadcastTo", dy, apply_op("Shape", source)),)


register(
    f"BiasAdd(value:T, bias:T) -> (output:T) [T:type@6; {_FORMAT}]",
    shape=biased_dims,
    kernel=bias_kernel,
    native=Native(bind_bias, NUMBERS),
    gradient=bias_gradient,
)
register(
    f"BiasAddGrad(out_backprop:T) -> (output:T) [T:type@6; {_FORMAT}]",
    shape=channel_dims,
    kernel=bias_gradient_kernel,
    native=Native(bind_bias_gradient, NUMBERS),
    gradient=bias_gradient_gradient,
)

# L2 loss


def half_square_sum(t: Array) -> Array:
    return np.asarray(np.sum(np.square(t)) / t.dtype.type(2), t.dtype)


def bind_l2_loss(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    t = inputs[0]
    if t.dtype.name not in FLOATS:
        return None
    if t.size == 0:
        row = fill("0", Operand("output", 0), 1, t.dtype.name)
        return Launches(() if row is None else (row,))
    kernel = LoopKernel(loops.half_square_sum, (t.dtype.name, t.dtype.name), 1, 0)
    places = (Operand("input", 0), Operand("output", 0))
    return Launches((Launch(kernel, places, (t.size,), cost=10 + int(0.06 * t.size)),))


register(
    "L2Loss(t:T) -> (output:T) [T:type{half|bfloat16|float|double}]",
    shape=lambda context: [()],
    kernel=plain(in_float32(half_square_sum)),
    native=Native(bind_l2_loss, FLOATS),
    gradient=lambda op, dy: (apply_op("Mul", op.inputs[0], dy),),
)

# Top k


def hit_dims(context: ShapeContext) -> Sequence[Dims]:
    predictions, targets = shapes.with_rank(context.inputs[0], 2), shapes.with_rank(context.inputs[1], 1)
    assert predictions is not None
    return [shapes.merge(predictions[:1], targets)]


def hits(predictions: Array, targets: Array, k: int) -> Array:
    """Return whether fewer than k classes of a row exceed the target; False for invalid targets and non-finite rows."""
    if predictions.ndim != 2 or targets.shape != predictions.shape[:1]:
        raise InvalidArgumentError(
            f"First dimension of predictions {list(predictions.shape)} must match length of targets {list(targets.shape)}"
        )
    classes = predictions.shape[1]
    valid = (targets >= 0) & (targets < classes)
    if classes == 0:
        return np.zeros(targets.shape, bool)
    chosen = np.take_along_axis(predictions, np.where(valid, targets, 0)[:, None].astype(np.int64), axis=1)
    better = np.sum(predictions > chosen, axis=1)
    return np.asarray(valid & np.isfinite(predictions).all(axis=1) & (better < k))


def in_top_k_kernel(context: KernelContext) -> Compute:
    k = int(context.attrs["k"])
    return lambda predictions, targets: hits(predictions, targets, k)


register(
    "InTopK(predictions:float, targets:T) -> (precision:bool) [k:int; T:type{int32|int64}=int32]",
    shape=hit_dims,
    kernel=in_top_k_kernel,
    gradient=NOT_DIFFERENTIABLE,
)
register(
    "InTopKV2(predictions:float, targets:T, k:T) -> (precision:bool) [T:type{int32|int64}=int32]",
    shape=hit_dims,
    kernel=plain(lambda predictions, targets, k: hits(predictions, targets, int(k))),
    gradient=NOT_DIFFERENTIABLE,
)


def top_dims(context: ShapeContext) -> Sequence[Dims]:
    dims, k = shapes.with_rank_at_least(context.inputs[0], 1), context.value(1)
    shapes.with_rank(context.inputs[1], 0)
    if dims is None:
        return [None, None]
    count = None if k is None else int(k)
    if count is not None and count < 0:
        raise GraphValueError(f"Need k >= 0, got {count}")
    if count is not None and dims[-1] is not None and dims[-1] < count:
        raise GraphValueError(f"input must have last dimension >= k = {count} but is {dims[-1]}")
    return [(*dims[:-1], count)] * 2


def top_kernel(context: KernelContext) -> Compute:
    """Return the k largest elements of each row, descending; equal ones in order of position, NaN first."""
    index_dtype = context.output_dtypes[1].numpy

    def compute(x: Array, k: Array) -> tuple[Array, Array]:
        count = int(k)
        if x.ndim == 0:
            raise InvalidArgumentError("input must be >= 1-D, got shape []")
        if not 0 <= count <= x.shape[-1]:
            raise InvalidArgumentError(f"input must have at least k={count} columns, had {x.shape[-1]}")
        wide = x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x
        backwards = wide[..., ::-1]
        order = np.argsort(backwards, axis=-1, kind="stable")[..., ::-1][..., :count]
        indices = x.shape[-1] - 1 - order
        return np.take_along_axis(x, indices, axis=-1), indices.astype(index_dtype)

    return compute


def bind_top(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    x, k = inputs
    if k.value is None or k.shape or not x.shape or x.dtype.name not in NUMBERS:
        return None
    n, count = x.shape[-1], int(k.value)
    if not 0 <= count <= min(n, _MOST_TOP):
        return None
    if not x.size or not count:
        return Launches(())
    rows = x.size // n
    kernel = LoopKernel(loops.top_elements, (x.dtype.name, x.dtype.name, outputs[1].dtype.name), 3, 0)
    operands = (Operand("input", 0), Operand("output", 0), Operand("output", 1))
    return Launches((Launch(kernel, operands, (rows, n, count), cost=10 + 2 * x.size),))


def top_gradient(op: Operation, dy: Tensor, _: Any) -> tuple[Tensor, None]:
    """Scatter the gradient of each value to its original position."""
    x, indices = op.inputs[0], op.outputs[1]
    known = None if x.dims is None else x.dims[-1]
    depth = apply_op("Squeeze", last_dim(x)) if known is None else constant(known, "int32")
    on, off = constant(1, x.dtype.base_dtype), constant(0, x.dtype.base_dtype)
    places = apply_op("OneHot", indices, depth, on, off)
    parts = apply_op("Mul", places, apply_op("ExpandDims", dy, constant(-1)))
    return apply_op("Sum", parts, constant(np.array([-2], np.int32))), None


def last_dim(x: Tensor) -> Tensor:
    """Return the size of the last dimension as a vector of one element."""
    return apply_op("StridedSlice", apply_op("Shape", x), [-1], [0], [1], end_mask=1)


register(
    "TopKV2(input:T, k:Tk) -> (values:T, indices:index_type) [sorted:bool=true; T:type@12; "
    "Tk:type{int16|int32|int64}=int32; index_type:type{int16|int32|int64}=int32]",
    shape=top_dims,
    kernel=top_kernel,
    native=Native(bind_top),
    gradient=top_gradient,
    shape_operands=(1,),
)


# Wrappers


def bias_add(value: Any, bias: Any, data_format: str | None = None, name: str | None = None) -> Tensor:
    """Add a vector to the last dimension of `value`, or to dimension 1 if `data_format` starts with "NC".

    Raises:
        GraphValueError: `value` has fewer than 2 dimensions, or the numbers of channels and of `bias` elements differ.
    """
    layout = "NCHW" if data_format is not None and data_format.startswith("NC") else "NHWC"
    return apply_op("BiasAdd", value, bias, name=name, data_format=layout)


def xw_plus_b(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """Return x @ weights + biases."""
    with op_scope(name, "xw_plus_b", x, weights, biases) as scope:
        return bias_add(apply_op("MatMul", x, weights), biases, name=scope)


def relu_layer(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """Return relu(x @ weights + biases)."""
    with op_scope(name, "relu_layer", x, weights, biases) as scope:
        return apply_op("Relu", bias_add(apply_op("MatMul", x, weights), biases), name=scope)


def l2_loss(t: Any, name: str | None = None) -> Tensor:
    """Return sum(t ** 2) / 2."""
    return apply_op("L2Loss", t, name=name)


def l2_normalize(
    x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None, dim: Any = None
) -> Tensor:
    """Return x / sqrt(max(sum(x ** 2), epsilon)), the sum over `axis`."""
    if axis is not None and dim is not None:
        raise GraphValueError("Cannot specify both 'axis' and 'dim'")
    with op_scope(name, "l2_normalize", x) as scope:
        tensor = convert_to_tensor(x)
        total = reduce_sum(apply_op("Square", tensor), dim if axis is None else axis, keepdims=True)
        inverse = apply_op("Rsqrt", apply_op("Maximum", total, epsilon))
        return apply_op("Mul", tensor, inverse, name=scope)


def in_top_k(predictions: Any, targets: Any, k: Any, name: str | None = None) -> Tensor:
    """Return whether class `targets[i]` is among the k best of row i of `predictions`; ties count, non-finite rows do not."""
    with op_scope(name, "in_top_k", predictions, targets):
        return apply_op("InTopKV2", predictions, targets, k)


class TopKV2(NamedTuple):
    """The k largest elements along the last dimension, descending, and their indices."""

    values: Tensor
    indices: Tensor


def top_k(input: Any, k: Any = 1, sorted: bool = True, name: str | None = None) -> TopKV2:
    """Return the `k` largest elements along the last dimension and their indices; equal ones in order of position."""
    return TopKV2(*apply_tuple_op("TopKV2", input, k, name=name, sorted=sorted))
