"""Coordinates of batches, which make indices within batches indices into the whole."""

from __future__ import annotations

from aioexec.graph.apply import apply_list_op, apply_op
from aioexec.graph.convert import constant
from aioexec.graph.node import Tensor


def batch_coordinates(indices: Tensor, batch_dims: int) -> list[Tensor]:
    """Return for each batch dimension the numbers of the batches: tensors like `indices`, but of 1 in the last dimension."""
    assert indices.dims is not None
    kind, rank = indices.dtype.base_dtype, len(indices.dims)
    sizes = apply_list_op("Unpack", apply_op("Shape", indices, out_type=kind), num=rank)
    zero, one = constant(0, kind), constant(1, kind)
    shape = apply_op("Pack", [*sizes[:-1], one])
    return [
        apply_op(
            "BroadcastTo",
            apply_op(
                "Reshape",
                apply_op("Range", zero, sizes[axis], one),
                apply_op("Pack", [sizes[axis] if place == axis else one for place in range(rank)]),
            ),
            shape,
        )
        for axis in range(batch_dims)
    ]
