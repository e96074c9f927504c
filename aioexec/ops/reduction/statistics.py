"""Statistics composed of several reductions: log-sum-exp, variance, counts, moments."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.errors import GraphTypeError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.reduction.reductions import keeps_dims, reduce_max, reduce_mean, reduce_sum, reduction_axes


def reduce_logsumexp(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """Return log(sum(exp(input_tensor))) over `axis`, as `reduce_sum`, without overflow."""
    keep = keeps_dims(keepdims, keep_dims)
    with op_scope(name, "ReduceLogSumExp", input_tensor) as scope:
        x = convert_to_tensor(input_tensor)
        axes = reduction_axes(x, axis, reduction_indices)
        largest = reduce_max(x, axes, keepdims=True)
        finite = apply_op("IsFinite", largest)
        shift = apply_op("StopGradient", apply_op("Select", finite, largest, apply_op("ZerosLike", largest)))
        result = apply_op("Log", reduce_sum(apply_op("Exp", apply_op("Sub", x, shift)), axes, keepdims=keep))
        if not keep:
            shift = apply_op("Reshape", shift, apply_op("Shape", result))
        return apply_op("AddV2", result, shift, name=scope)


def reduce_variance(
    input_tensor: Any, axis: Any = None, keepdims: bool | None = None, name: str | None = None
) -> Tensor:
    """Return the variance over `axis`, as `reduce_sum`.

    Raises:
        GraphTypeError: the input is of an integer dtype.
    """
    with op_scope(name, "reduce_variance", input_tensor):
        x = convert_to_tensor(input_tensor)
        if not (x.dtype.is_floating or x.dtype.is_complex):
            raise GraphTypeError(
                f"reduce_variance: expected floating-point input, got {x.dtype.base_dtype.name}"
            )
        distance = apply_op("Sub", x, reduce_mean(x, axis, keepdims=True))
        return reduce_mean(apply_op("Square", distance), axis, keepdims=bool(keepdims))


def reduce_std(
    input_tensor: Any, axis: Any = None, keepdims: bool | None = None, name: str | None = None
) -> Tensor:
    """Return the standard deviation, the square root of `reduce_variance`."""
    with op_scope(name, "reduce_std", input_tensor):
        return apply_op("Sqrt", reduce_variance(input_tensor, axis, keepdims))


def count_nonzero(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    dtype: Any = dtypes.int64,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """Return the number of non-zero elements over `axis`, as `reduce_sum`."""
    with op_scope(name, "count_nonzero", input_tensor):
        x = convert_to_tensor(input_tensor)
        zero = constant(False if x.dtype.is_bool else 0, x.dtype.base_dtype)
        found = apply_op("Cast", apply_op("NotEqual", x, zero), DstT=dtypes.int64)
        total = reduce_sum(found, axis, keepdims, None, reduction_indices, keep_dims)
        wanted = dtypes.as_dtype(dtype)
        return total if wanted is dtypes.int64 else apply_op("Cast", total, DstT=wanted)


def zero_fraction(value: Any, name: str | None = None) -> Tensor:
    """Return the fraction of elements that are zero, as float32."""
    with op_scope(name, "zero_fraction", value):
        x = convert_to_tensor(value)
        is_zero = apply_op("Equal", x, constant(0, x.dtype.base_dtype))
        return reduce_mean(apply_op("Cast", is_zero, DstT=dtypes.float32), name="fraction")


def moments(
    x: Any,
    axes: Any,
    shift: Any = None,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Return mean and variance over `axes`, Python ints; 16-bit floats are reduced in float32.

    `shift` is ignored, as in TensorFlow.
    """
    keep = keeps_dims(keepdims, keep_dims)
    with op_scope(name, "moments", x):
        value = convert_to_tensor(x)
        given = value.dtype.base_dtype
        narrow = given in (dtypes.float16, dtypes.bfloat16)
        wide = apply_op("Cast", value, DstT=dtypes.float32) if narrow else value
        mean = reduce_mean(wide, axes, keepdims=True, name="mean")
        distance = apply_op("SquaredDifference", wide, apply_op("StopGradient", mean))
        variance = reduce_mean(distance, axes, keepdims=True, name="variance")
        pair = [mean, variance]
        if not keep:
            squeezed = [int(axis) for axis in np.asarray(axes).reshape(-1)]
            pair = [apply_op("Squeeze", each, squeeze_dims=squeezed) for each in pair]
        if narrow:
            pair = [apply_op("Cast", each, DstT=given) for each in pair]
        return pair[0], pair[1]
