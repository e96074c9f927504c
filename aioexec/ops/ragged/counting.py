"""RaggedBincount: the occurrences of each integer in each row of a ragged matrix."""

from __future__ import annotations

import numpy as np

from aioexec.errors import InvalidArgumentError
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.graph.registry import register, undefined_gradient
from aioexec.ops.common.elementwise import Array, room_for, shown


def _check(splits: Array, values: Array, size: Array, weights: Array) -> None:
    if size.ndim or size < 0:
        raise InvalidArgumentError(f"size must be a scalar and non-negative, got {size.tolist()}")
    if values.ndim != 1 or splits.ndim != 1 or not len(splits):
        raise InvalidArgumentError(
            f"splits and values must be vectors, got {shown(splits.shape)}, {shown(values.shape)}"
        )
    if splits[0] != 0 or splits[-1] != len(values) or (np.diff(splits) < 0).any():
        raise InvalidArgumentError(f"Splits must ascend from 0 to the number of values, {len(values)}")
    if (values < 0).any():
        raise InvalidArgumentError("Input must be non-negative")
    if weights.size and weights.shape != values.shape:
        raise InvalidArgumentError(
            f"weights must be of the shape of the values or empty, got {shown(weights.shape)} for {shown(values.shape)}"
        )


def _kernel(context: KernelContext) -> Compute:
    binary = bool(context.attrs["binary_output"])

    def compute(splits: Array, values: Array, size: Array, weights: Array) -> Array:
        _check(splits, values, size, weights)
        rows, bins = len(splits) - 1, int(size)
        room_for((rows, bins), weights.dtype.itemsize)
        counts = np.zeros((rows, bins), weights.dtype)
        inside = values < bins
        places = np.repeat(np.arange(rows), np.diff(splits))[inside], values[inside]
        if binary:
            counts[places] = 1
        else:
            np.add.at(counts, places, weights[inside] if weights.size else weights.dtype.type(1))
        return counts

    return compute


register(
    "RaggedBincount(splits:int64, values:Tidx, size:Tidx, weights:T) -> (output:T) "
    "[Tidx:type{int32|int64}; T:type{int32|int64|float|double}; binary_output:bool=false]",
    shape=lambda context: [None],  # as in TensorFlow
    kernel=_kernel,
    gradient=undefined_gradient,
    dynamic_shape=True,
)
