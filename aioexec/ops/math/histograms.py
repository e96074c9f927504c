"""Counting: occurrences of each integer, values between bounds, and bucketisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_no_output_op, apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.kernels.kernel import Compute, KernelContext, plain
from aioexec.graph.node import Tensor
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops.common.elementwise import Array, op_scope, same_shape, shown
from aioexec.shapes import Dims

# Numbers


def _bins(context: ShapeContext, position: int) -> int | None:
    shapes.with_rank(context.inputs[position], 0)
    size = context.value(position)
    if size is not None and size < 0:
        raise GraphValueError(f"size ({int(size)}) must be non-negative")
    return None if size is None else int(size)


def _dense_shape(context: ShapeContext) -> Sequence[Dims]:
    dims = shapes.with_rank_at_most(context.inputs[0], 2)
    size = _bins(context, 1)
    if dims is None:
        return [None]
    return [(size,) if len(dims) < 2 else (dims[0], size)]


def _check(numbers: Array, size: Array, weights: Array) -> int:
    if size.ndim or size < 0:
        raise InvalidArgumentError(f"size must be a scalar and non-negative, got {size.tolist()}")
    if (numbers < 0).any():
        raise InvalidArgumentError("Input arr must be non-negative!")
    if weights.size and weights.shape != numbers.shape:
        raise InvalidArgumentError(
            f"weights must be of the shape of the input or empty, got {shown(weights.shape)} for {shown(numbers.shape)}"
        )
    return int(size)


def _counted(numbers: Array, size: int, weights: Array, binary: bool) -> Array:
    """Return the number of occurrences (or sum of weights) of each integer below `size`; with `binary`, whether it occurs."""
    counts = np.zeros(size, weights.dtype)
    inside = numbers < size
    if binary:
        counts[numbers[inside]] = 1
    else:
        np.add.at(counts, numbers[inside], weights[inside] if weights.size else weights.dtype.type(1))
    return counts


def _bincount(numbers: Array, size: Array, weights: Array) -> Array:
    return _counted(numbers, _check(numbers, size, weights), weights, binary=False)


def _dense_bincount(context: KernelContext) -> Compute:
    binary = bool(context.attrs["binary_output"])

    def compute(numbers: Array, size: Array, weights: Array) -> Array:
        if numbers.ndim > 2:
            raise InvalidArgumentError(f"Shape must be at most rank 2 but is rank {numbers.ndim}")
        bins = _check(numbers, size, weights)
        if numbers.ndim < 2:
            return _counted(numbers, bins, weights, binary)
        rows = weights if weights.size else np.zeros((len(numbers), 0), weights.dtype)
        counts = [_counted(row, bins, weight, binary) for row, weight in zip(numbers, rows, strict=True)]
        return np.array(counts, weights.dtype).reshape(len(numbers), bins)

    return compute


_WEIGHTS = "T:type{int32|int64|float|double}"

register(
    f"Bincount(arr:int32, size:int32, weights:T) -> (bins:T) [{_WEIGHTS}]",
    shape=lambda context: [(_bins(context, 1),)],
    kernel=plain(_bincount),
    gradient=undefined_gradient,
    shape_operands=(1,),
)
register(
    "DenseBincount(input:Tidx, size:Tidx, weights:T) -> (output:T) "
    f"[Tidx:type{{int32|int64}}; {_WEIGHTS}; binary_output:bool=false]",
    shape=_dense_shape,
    kernel=_dense_bincount,
    gradient=undefined_gradient,
    shape_operands=(1,),
)

# Values between bounds


def _histogram_shape(context: ShapeContext) -> Sequence[Dims]:
    shapes.merge(shapes.with_rank(context.inputs[1], 1), (2,))
    shapes.with_rank(context.inputs[2], 0)
    bins = context.value(2)
    if bins is not None and bins <= 0:
        raise GraphValueError(f"Requires nbins > 0: {int(bins)}")
    return [(None if bins is None else int(bins),)]


def _histogram(context: KernelContext) -> Compute:
    dtype = context.attrs["dtype"].numpy

    def compute(values: Array, value_range: Array, bins: Array) -> Array:
        if value_range.shape != (2,) or not value_range[0] < value_range[1]:
            raise InvalidArgumentError(
                f"value_range should be two increasing numbers, got {value_range.tolist()}"
            )
        if bins.ndim or bins <= 0:
            raise InvalidArgumentError(f"nbins should be a positive number, got {bins.tolist()}")
        low, high = (float(bound) for bound in value_range)
        count = int(bins)
        above = np.maximum(values.reshape(-1), value_range[0]).astype(np.float64) - low
        places = np.minimum(np.floor(above / ((high - low) / count)), count - 1).astype(np.int64)
        return np.bincount(places, minlength=count).astype(dtype)

    return compute


register(
    "HistogramFixedWidth(values:T, value_range:T, nbins:int32) -> (out:dtype) "
    "[T:type{int32|int64|float|double}; dtype:type{int32|int64}=int32]",
    shape=_histogram_shape,
    kernel=_histogram,
    gradient=undefined_gradient,
    shape_operands=(2,),
)


def _bucketize(context: KernelContext) -> Compute:
    boundaries = np.asarray(context.attrs["boundaries"], np.float32)
    if (boundaries[1:] < boundaries[:-1]).any():
        raise InvalidArgumentError(f"Expected sorted boundaries, got {boundaries.tolist()}")
    return lambda x: np.searchsorted(boundaries, x, side="right").astype(np.int32)


register(
    "Bucketize(input:T) -> (output:int32) [T:type{int32|int64|float|double}; boundaries:list(float)]",
    shape=same_shape,
    kernel=_bucketize,
    gradient=undefined_gradient,
)

# Functions


def histogram_fixed_width(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """Count the values in each of `nbins` equal parts of a range; values outside count in the first and the last bin."""
    with op_scope(name, "histogram_fixed_width", values, value_range, nbins) as scope:
        wanted = dtypes.as_dtype(dtype)
        return apply_op("HistogramFixedWidth", values, value_range, nbins, dtype=wanted, name=scope)


def histogram_fixed_width_bins(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """Return for each value the index (int32) of its part of a range, which has `nbins` equal parts.

    Values before the range are in part 0, those after it in the last one.

    Args:
        value_range: two scalars of the dtype of `values`.
        dtype: as in TensorFlow, accepted and not used.
    """
    with op_scope(name, "histogram_fixed_width_bins", values, value_range, nbins):
        values = convert_to_tensor(values, name="values")
        shape = apply_op("Shape", values)
        flat = apply_op("Reshape", values, [-1])
        value_range = convert_to_tensor(value_range, name="value_range")
        nbins = convert_to_tensor(nbins, dtypes.int32, "nbins")
        check = apply_no_output_op("Assert", nbins > 0, [f"nbins {nbins.name} must > 0"])
        with values.graph.control_dependencies([check]):
            nbins = apply_op("Identity", nbins)
        count = apply_op("Cast", nbins, DstT=values.dtype.base_dtype)
        low, high = value_range[0], value_range[1]
        scaled = apply_op("RealDiv", flat - low, high - low, name="scaled_values")
        parts = apply_op("Floor", count * scaled, name="indices")
        last = count - convert_to_tensor(1, values.dtype.base_dtype)
        inside = apply_op(
            "Maximum", apply_op("Minimum", parts, last), convert_to_tensor(0, values.dtype.base_dtype)
        )
        return apply_op("Reshape", apply_op("Cast", inside, DstT=dtypes.int32), shape)


def bincount(
    arr: Any,
    weights: Any = None,
    minlength: Any = None,
    maxlength: Any = None,
    dtype: Any = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """Count the occurrences of 0, 1, …, or sum their weights.

    Args:
        minlength, maxlength: minimum and maximum length of the result; by default it ends with the largest number.
        dtype: dtype of the counts, without weights.
    """
    with op_scope(name, "bincount", arr) as scope:
        numbers = convert_to_tensor(arr, dtypes.int32, "arr")
        flat = apply_op("Reshape", numbers, [-1])
        size = apply_op("Max", apply_op("ConcatV2", [flat, convert_to_tensor([-1])], 0), [0]) + 1
        for op_type, bound in (("Maximum", minlength), ("Minimum", maxlength)):
            if bound is not None:
                size = apply_op(op_type, convert_to_tensor(bound, dtypes.int32), size)
        if weights is None:
            weights = convert_to_tensor(np.zeros(0, dtypes.as_dtype(dtype).numpy))
        return apply_op("Bincount", numbers, size, weights, name=scope)
