"""Ops whose number of result rows depends on data: Where, DynamicPartition and its inverse, DynamicStitch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_list_op, apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.kernels.kernel import Compute, KernelContext, plain
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.ops.common.elementwise import Array, shown
from aioexec.shapes import Dims


def _where(x: Array) -> Array:
    if not x.ndim:
        raise InvalidArgumentError("WhereOp : Unhandled input dimensions: 0")
    return np.argwhere(x).astype(np.int64)


register(
    "Where(input:T) -> (index:int64) [T:type@34=bool]",
    shape=lambda context: [(None, None if context.inputs[0] is None else len(context.inputs[0]))],
    kernel=plain(_where),
    gradient=NOT_DIFFERENTIABLE,
    dynamic_shape=True,
)


def _partition_shape(context: ShapeContext) -> Sequence[Dims]:
    data, partitions = context.inputs
    count = context.attrs["num_partitions"]
    if data is None or partitions is None:
        return [None] * count
    if not shapes.compatible(data[: len(partitions)], partitions):
        raise GraphValueError(
            f"data of shape {shapes.describe(data)} does not begin with that of partitions {shapes.describe(partitions)}"
        )
    return [(None, *data[len(partitions) :])] * count


def _partition(context: KernelContext) -> Compute:
    count = context.attrs["num_partitions"]

    def compute(data: Array, partitions: Array) -> Any:
        if data.shape[: partitions.ndim] != partitions.shape:
            raise InvalidArgumentError(
                f"data.shape must start with partitions.shape, got data.shape = {shown(data.shape)}, "
                f"partitions.shape = {shown(partitions.shape)}"
            )
        if ((partitions < 0) | (partitions >= count)).any():
            bad = partitions[(partitions < 0) | (partitions >= count)][0]
            raise InvalidArgumentError(f"partitions holds {bad}, which is not in [0, {count})")
        parts = tuple(data[partitions == k] for k in range(count))
        return parts[0] if count == 1 else parts

    return compute


def _partition_gradient(op: Operation, *dys: Tensor) -> list[Any]:
    """Partition the row numbers in the same way, and stitch the gradients by them."""
    partitions = op.inputs[1]
    shape = apply_op("Shape", partitions)
    zero, one = (convert_to_tensor(number, dtypes.int32) for number in (0, 1))
    size = apply_op("Size", partitions)
    numbers = apply_op("Reshape", apply_op("Range", zero, size, one), shape)
    count = op.attrs["num_partitions"]
    places = apply_list_op("DynamicPartition", numbers, partitions, num_partitions=count)
    stitched = apply_op("DynamicStitch", places, list(dys), N=count)
    return [apply_op("Reshape", stitched, apply_op("Shape", op.inputs[0])), None]


register(
    "DynamicPartition(data:T, partitions:int32) -> (outputs:num_partitions*T) [num_partitions:int>=1; T:type]",
    shape=_partition_shape,
    kernel=_partition,
    gradient=_partition_gradient,
    dynamic_shape=True,
)


_MOST_ROWS = 2**31 - 1  # stitched


def _stitch_shape(context: ShapeContext) -> Sequence[Dims]:
    half = len(context.inputs) // 2
    rest: Dims = None
    rows: int | None = 0
    for k in range(half):
        indices, data = context.inputs[k], context.inputs[half + k]
        if indices is not None and data is not None:
            shapes.merge(indices, data[: len(indices)])
            rest = shapes.merge(rest, data[len(indices) :])
        value = context.value(k)
        if value is None:
            rows = None
        elif rows is not None and value.size:
            rows = max(rows, int(value.max()) + 1)
    if rows is not None and rows > _MOST_ROWS:
        raise GraphValueError(f"Expected a size of at most {_MOST_ROWS}, got {rows}")
    return [None if rest is None else (rows, *rest)]


def _stitch(*inputs: Array) -> Array:
    half = len(inputs) // 2
    indices, data = inputs[:half], inputs[half:]
    for k in range(half):
        if data[k].shape[: indices[k].ndim] != indices[k].shape:
            raise InvalidArgumentError(
                f"data[{k}].shape = {shown(data[k].shape)} does not start with indices[{k}].shape = {shown(indices[k].shape)}"
            )
        if (indices[k] < 0).any():
            raise InvalidArgumentError(f"indices[{k}] holds {indices[k].min()}, which is negative")
    rest = data[0].shape[indices[0].ndim :]
    for k in range(1, half):
        if data[k].shape[indices[k].ndim :] != rest:
            raise InvalidArgumentError(
                f"rows of data[0] have shape {shown(rest)}, those of data[{k}] {shown(data[k].shape[indices[k].ndim :])}"
            )
    rows = max((int(part.max()) + 1 for part in indices if part.size), default=0)
    if rows > _MOST_ROWS:
        raise InvalidArgumentError(f"Expected a size of at most {_MOST_ROWS}, got {rows}")
    empty = b"" if data[0].dtype == object else 0
    merged = np.full((rows, *rest), empty, data[0].dtype)
    for places, values in zip(indices, data, strict=True):
        merged[places.reshape(-1)] = values.reshape(places.size, *rest)
    return merged


for _name in ("DynamicStitch", "ParallelDynamicStitch"):
    register(
        f"{_name}(indices:N*int32, data:N*T) -> (merged:T) [N:int>=1; T:type]",
        shape=_stitch_shape,
        kernel=plain(_stitch),
        gradient=lambda op, dy: [
            *[None] * op.attrs["N"],
            *(
                apply_op("GatherV2", dy, places, convert_to_tensor(0, dtypes.int32))
                for places in op.inputs[: op.attrs["N"]]
            ),
        ],
        dynamic_shape=True,
    )


# Functions


def dynamic_partition(
    data: Any, partitions: Any, num_partitions: int, name: str | None = None
) -> list[Tensor]:
    """Distribute the rows of `data` over `num_partitions` tensors by their number in `partitions`."""
    outputs = apply_list_op("DynamicPartition", data, partitions, name=name, num_partitions=num_partitions)
    assert isinstance(outputs, list)
    return outputs


def dynamic_stitch(indices: Any, data: Any, name: str | None = None) -> Tensor:
    """Merge tensors: row indices[m][i] of the result is data[m][i]; later ones overwrite earlier ones."""
    return apply_op("DynamicStitch", indices, data, name=name, N=len(indices))
