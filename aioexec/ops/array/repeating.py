"""`repeat` and `batch_gather`."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.ops.array.gathering import gather
from aioexec.ops.common.elementwise import op_scope


def repeat(input: Any, repeats: Any, axis: int | None = None, name: str | None = None) -> Tensor:
    """Repeat the elements of a tensor along a dimension.

    Args:
        repeats: how often each element is repeated: a scalar, or a vector with a number for each element.
        axis: the dimension; by default the tensor is flattened.

    Raises:
        GraphValueError: `repeats` is no scalar or vector of known rank, or the axis out of range.
    """
    with op_scope(name, "Repeat"):
        tensor = convert_to_tensor(input)
        if axis is None:
            tensor, axis = apply_op("Reshape", tensor, [-1]), 0
        if tensor.dims is not None and not -len(tensor.dims) <= axis < len(tensor.dims):
            raise GraphValueError(f"repeat: axis {axis} is out of range for rank {len(tensor.dims)}")
        counts = convert_to_tensor(repeats, name="repeats")
        if counts.dims is None or len(counts.dims) > 1:
            raise GraphValueError(f"repeat: expected a scalar or vector of repeats, got shape {counts.shape}")
        counts = apply_op("Cast", counts, DstT=dtypes.int32)
        size = apply_op("Shape", tensor)[axis]
        each = apply_op("BroadcastTo", counts, apply_op("ExpandDims", size, 0))
        # Element k of the result comes from the first element whose end, the sum of the repeats up to it, is after k.
        ends = apply_op("Cumsum", each, 0)
        total = apply_op("Sum", each, np.zeros(1, np.int32))
        places = apply_op("Range", 0, total, 1)
        sources = apply_op("UpperBound", apply_op("ExpandDims", ends, 0), apply_op("ExpandDims", places, 0))
        return gather(tensor, apply_op("Squeeze", sources, squeeze_dims=[0]), axis=axis)


def batch_gather(params: Any, indices: Any, name: str | None = None) -> Tensor:
    """Gather elements along the last dimension of `indices`, whose other dimensions are those of a batch in both.

    Raises:
        GraphValueError: the rank of `indices` is unknown or 0.
    """
    with op_scope(name, "BatchGather"):
        places = convert_to_tensor(indices, name="indices")
        if not places.dims:
            raise GraphValueError(
                "batch_gather does not allow indices with unknown shape."
                if places.dims is None
                else "batch_gather: indices must have a dimension"
            )
        return gather(convert_to_tensor(params, name="params"), places, batch_dims=len(places.dims) - 1)
