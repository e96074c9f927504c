"""Normalisation functions: batch normalisation with given or batch moments, and moments from sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.normalization import batch_norm as batch_norm  # registers ops
from aioexec.ops.reduction.reductions import keeps_dims, reduce_sum

LEAST_EPSILON = 1.001e-5
"""Minimum epsilon of TensorFlow's cuDNN kernels; as in TensorFlow, the function enforces it on all devices."""


def batch_normalization(
    x: Any, mean: Any, variance: Any, offset: Any, scale: Any, variance_epsilon: Any, name: str | None = None
) -> Tensor:
    """Return (x - mean) / sqrt(variance + variance_epsilon) * scale + offset, broadcast; scale and offset may be None."""
    with op_scope(name, "batchnorm", x, mean, variance, scale, offset):
        value = convert_to_tensor(x)
        dtype = value.dtype.base_dtype
        inverse = apply_op("Rsqrt", apply_op("AddV2", variance, variance_epsilon, name="add"))
        if scale is not None:
            inverse = apply_op("Mul", inverse, scale, name="mul")
        product = apply_op("Mul", value, in_dtype(inverse, dtype), name="mul")
        shift = apply_op("Mul", mean, inverse, name="mul")
        shift = apply_op("Neg", shift) if offset is None else apply_op("Sub", offset, shift, name="sub")
        return apply_op("AddV2", product, in_dtype(shift, dtype), name="add")


def in_dtype(value: Tensor, dtype: dtypes.DType) -> Tensor:
    return value if value.dtype.base_dtype is dtype else apply_op("Cast", value, DstT=dtype)


def fused_batch_norm(
    x: Any,
    scale: Any,
    offset: Any,
    mean: Any = None,
    variance: Any = None,
    epsilon: float = 0.001,
    data_format: str = "NHWC",
    is_training: bool = True,
    name: str | None = None,
    exponential_avg_factor: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalise each channel of images: by the moments of the batch in training, else by the given ones.

    Returns:
        The images, and the running mean and variance.

    Raises:
        GraphValueError: mean or variance is missing outside of training.
    """
    if (not is_training or exponential_avg_factor != 1.0) and (mean is None or variance is None):
        raise GraphValueError("Both `mean` and `variance` must be a 1D tensor when `is_training` is False")
    value = convert_to_tensor(x)
    moments = [constant(np.zeros(0, np.float32)) if each is None else each for each in (mean, variance)]
    y, running_mean, running_variance, *_ = apply_tuple_op(
        "FusedBatchNormV3",
        value,
        scale,
        offset,
        *moments,
        name=name,
        epsilon=max(epsilon, LEAST_EPSILON),
        exponential_avg_factor=exponential_avg_factor,
        data_format=data_format,
        is_training=is_training,
    )
    return y, running_mean, running_variance


def batch_norm_with_global_normalization(
    t: Any = None,
    m: Any = None,
    v: Any = None,
    beta: Any = None,
    gamma: Any = None,
    variance_epsilon: Any = None,
    scale_after_normalization: bool | None = None,
    name: str | None = None,
    input: Any = None,
    mean: Any = None,
    variance: Any = None,
) -> Tensor:
    """As `batch_normalization`, scaled by `gamma` if `scale_after_normalization`."""
    t, m, v = (old if new is None else new for old, new in ((t, input), (m, mean), (v, variance)))
    return batch_normalization(
        t, m, v, beta, gamma if scale_after_normalization else None, variance_epsilon, name
    )


def sufficient_statistics(
    x: Any,
    axes: Any,
    shift: Any = None,
    keep_dims: bool | None = None,
    name: str | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return count, sum and sum of squares over `axes` of `x - shift`, and the shift."""
    axes = [int(axis) for axis in np.asarray(axes).reshape(-1)]
    keep = keeps_dims(keepdims, keep_dims)
    with op_scope(name, "sufficient_statistics", x, shift):
        value = convert_to_tensor(x)
        dims = value.dims
        if dims is not None and all(dims[axis] is not None for axis in axes):
            count = constant(float(np.prod([dims[axis] or 0 for axis in axes])), value.dtype.base_dtype)
        else:
            picked = apply_op("Gather", apply_op("Shape", value), constant(np.array(axes, np.int32)))
            product = apply_op("Prod", apply_op("Cast", picked, DstT=value.dtype.base_dtype), 0)
            count = apply_op("Identity", product, name="count")
        given = None if shift is None else convert_to_tensor(shift, value.dtype.base_dtype)
        moved = value if given is None else apply_op("Sub", value, given)
        squares = apply_op("Square", value) if given is None else apply_op("SquaredDifference", value, given)
        total = reduce_sum(moved, axes, keepdims=keep, name="mean_ss")
        return count, total, reduce_sum(squares, axes, keepdims=keep, name="var_ss"), given


def normalize_moments(
    counts: Any, mean_ss: Any, variance_ss: Any, shift: Any, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Return mean and variance for the result of `sufficient_statistics`."""
    with op_scope(name, "normalize", counts, mean_ss, variance_ss, shift):
        divisor = apply_op("Reciprocal", counts, name="divisor")
        moved = apply_op("Mul", mean_ss, divisor)
        mean = moved if shift is None else apply_op("AddV2", moved, shift, name="mean")
        squares = apply_op("Mul", variance_ss, divisor)
        return mean, apply_op("Sub", squares, apply_op("Square", moved), name="variance")


def weighted_moments(
    x: Any,
    axes: Any,
    frequency_weights: Any,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the mean and variance over `axes` of elements weighted by `frequency_weights`."""
    keep = keeps_dims(keepdims, keep_dims)
    with op_scope(name, "weighted_moments", x, frequency_weights):
        value = convert_to_tensor(x)
        weights = convert_to_tensor(frequency_weights)
        weights = in_dtype(weights, value.dtype.base_dtype)
        weighted = apply_op("Mul", weights, value)
        total = reduce_sum(weighted, axes, keepdims=True)
        counts = reduce_sum(
            apply_op("AddV2", weights, apply_op("ZerosLike", value)), axes, keepdims=True, name="counts"
        )
        mean = apply_op("Div", total, counts)
        squares = apply_op("Mul", weights, apply_op("SquaredDifference", value, mean))
        variance = apply_op("Div", reduce_sum(squares, axes, keepdims=True), counts)
        if keep:
            return mean, variance
        squeezed = [int(axis) for axis in np.asarray(axes).reshape(-1)]
        return apply_op("Squeeze", mean, squeeze_dims=squeezed), apply_op(
            "Squeeze", variance, squeeze_dims=squeezed
        )
