"""RaggedTensorToTensor: a ragged tensor, padded to a dense one.

A ragged tensor is a tensor of values and a partition for each ragged dimension, from the outermost in. A partition is given by
the ends of its rows (ROW_SPLITS) or by the row of each value (VALUE_ROWIDS); the number of rows of the outermost one is then
given first (FIRST_DIM_SIZE).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aioexec import shapes
from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register
from aioexec.ops.common.elementwise import Array, room_for, shown
from aioexec.shapes import Dims

_ROW_SPLITS, _ROW_IDS, _ROWS = b"ROW_SPLITS", b"VALUE_ROWIDS", b"FIRST_DIM_SIZE"


def _ragged_rank(kinds: Sequence[bytes], given: int) -> int:
    """The number of ragged dimensions.

    Raises:
        InvalidArgumentError: the partitions are of kinds that do not go together.
    """
    if len(kinds) != given:
        raise InvalidArgumentError(f"row_partition_types lists {len(kinds)} types for {given} partitions")
    if kinds and all(kind == _ROW_SPLITS for kind in kinds):
        return given
    if len(kinds) > 1 and kinds[0] == _ROWS and all(kind == _ROW_IDS for kind in kinds[1:]):
        return given - 1
    shown_kinds = [kind.decode(errors="replace") for kind in kinds]
    raise InvalidArgumentError(
        f"row_partition_types must be ROW_SPLITS only, or FIRST_DIM_SIZE and VALUE_ROWIDS only, got {shown_kinds}"
    )


def _shape(context: ShapeContext) -> Sequence[Dims]:
    kinds = [_bytes(kind) for kind in context.attrs["row_partition_types"]]
    ragged = _ragged_rank(kinds, len(context.inputs) - 3)
    values = context.inputs[1]
    given = None if context.inputs[0] == () else context.partial(0)
    if values is None:
        return [given]
    return [shapes.merge((*((None,) * (1 + ragged)), *values[1:]), given)]


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _rows_of(partition: Array, is_splits: bool, rows: int) -> tuple[Array, int]:
    """The row of each value of a partition, and the number of rows."""
    if partition.ndim != 1:
        raise InvalidArgumentError(f"a row partition must be a vector, got shape {shown(partition.shape)}")
    if not is_splits:
        if len(partition) and (partition[0] < 0 or partition[-1] >= rows or (np.diff(partition) < 0).any()):
            raise InvalidArgumentError(f"VALUE_ROWIDS must ascend from at least 0 to below {rows}")
        return partition, rows
    if not len(partition) or partition[0] != 0 or (np.diff(partition) < 0).any():
        raise InvalidArgumentError("ROW_SPLITS must begin with 0 and ascend")
    if rows >= 0 and len(partition) - 1 != rows:
        raise InvalidArgumentError(
            f"ROW_SPLITS has {len(partition) - 1} rows, but there are {rows} values outside"
        )
    room_for((int(partition[-1]),), 8)
    return np.repeat(np.arange(len(partition) - 1), np.diff(partition)), len(partition) - 1


def _positions(row_of: Array, rows: int) -> tuple[Array, int]:
    """The position of each value in its row, and the length of the longest row."""
    lengths = np.bincount(row_of, minlength=rows) if len(row_of) else np.zeros(rows, np.int64)
    starts = np.cumsum(lengths) - lengths
    return np.arange(len(row_of)) - starts[row_of], int(lengths.max(initial=0))


def _output_dims(shape: Array, sizes: Sequence[int], inner: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the result: what `shape` gives, and elsewhere the sizes of the ragged tensor."""
    whole = (*sizes, *inner)
    if not shape.ndim:
        if shape != -1:
            raise InvalidArgumentError(f"shape must be -1 or a vector, got {shape}")
        return whole
    if shape.ndim != 1 or len(shape) != len(whole) or (shape < -1).any():
        raise InvalidArgumentError(
            f"shape {shape.tolist()} does not fit a ragged tensor of rank {len(whole)}"
        )
    given = tuple(own if wanted == -1 else wanted for own, wanted in zip(whole, shape.tolist(), strict=True))
    if given[len(sizes) :] != inner:
        raise InvalidArgumentError(f"shape {shape.tolist()} does not fit values of shape {shown(inner)}")
    return given


def _kernel(context: KernelContext) -> Compute:
    kinds = [_bytes(kind) for kind in context.attrs["row_partition_types"]]

    def compute(shape: Array, values: Array, default: Array, *partitions: Array) -> Array:
        ragged, is_splits = _ragged_rank(kinds, len(partitions)), kinds[0] == _ROW_SPLITS
        if not is_splits and partitions[0].ndim:
            raise InvalidArgumentError("FIRST_DIM_SIZE must be a scalar")
        rows = -1 if is_splits else int(partitions[0])
        room_for((max(rows, 0),), 8)
        levels: list[tuple[Array, Array]] = []
        sizes: list[int] = []
        for partition in partitions[-ragged:]:
            row_of, rows = _rows_of(partition, is_splits, rows)
            positions, longest = _positions(row_of, rows)
            sizes = [*(sizes or [rows]), longest]
            levels.append((row_of, positions))
            rows = len(row_of)
        if not values.ndim or len(values) != rows:
            raise InvalidArgumentError(
                f"the partitions are those of {rows} values, got {shown(values.shape)}"
            )
        dims = _output_dims(shape, sizes, values.shape[1:])
        return _fill(dims, levels, sizes[0], values, default)

    return compute


def _fill(
    dims: tuple[int, ...], levels: Sequence[tuple[Array, Array]], rows: int, values: Array, default: Array
) -> Array:
    """The dense tensor; values outside of `dims` are left out."""
    room_for(dims, values.dtype.itemsize)
    inner = values.shape[1:]
    filled = np.empty(dims, values.dtype)
    try:
        filled[...] = np.broadcast_to(default, inner)
    except ValueError:
        raise InvalidArgumentError(
            f"default_value of shape {shown(default.shape)} cannot be broadcast to values of shape {shown(inner)}"
        ) from None
    place = np.where(np.arange(rows) < dims[0], np.arange(rows), -1)
    for size, (row_of, positions) in zip(dims[1:], levels, strict=False):
        outer = place[row_of]
        place = np.where((outer >= 0) & (positions < size), outer * size + positions, -1)
    kept = place >= 0
    filled.reshape(-1, *inner)[place[kept]] = values[kept]
    return filled


def _gradient(op: Operation, dy: Tensor) -> Sequence[Tensor | IndexedSlices | None]:
    values, default, partitions = op.inputs[1], op.inputs[2], op.inputs[3:]
    kinds = op.attrs["row_partition_types"]
    rank = 1 + _ragged_rank([_bytes(kind) for kind in kinds], len(partitions))
    outer = apply_op("Shape", dy)[:rank]
    count = apply_op("Shape", values)[0]
    source = apply_op(
        "RaggedTensorToTensor",
        outer,
        apply_op("Range", 0, count, 1),
        -1,
        list(partitions),
        row_partition_types=kinds,
    )
    flat = apply_op("Reshape", source, np.array([-1], np.int32))
    inner = apply_op("Shape", values)[1:]
    cells = apply_op("Reshape", dy, apply_op("ConcatV2", [apply_op("Shape", flat), inner], 0))
    is_padding = apply_op("Less", flat, 0)
    held = apply_op(
        "Reshape", apply_op("Where", apply_op("LogicalNot", is_padding)), np.array([-1], np.int32)
    )
    by_value = IndexedSlices(
        apply_op("GatherV2", cells, held, 0), apply_op("GatherV2", flat, held, 0), apply_op("Shape", values)
    )
    padding = apply_op("Reshape", apply_op("Where", is_padding), np.array([-1], np.int32))
    summed = apply_op("Sum", apply_op("GatherV2", cells, padding, 0), 0)
    size = apply_op("Shape", default)
    axes, _ = apply_tuple_op("BroadcastGradientArgs", size, apply_op("Shape", summed))
    by_default = apply_op("Reshape", apply_op("Sum", summed, axes), size)
    return [None, by_value, by_default, *([None] * len(partitions))]


register(
    "RaggedTensorToTensor(shape:Tshape, values:T, default_value:T, row_partition_tensors:num_row_partition_tensors*Tindex)"
    " -> (result:T) [T:type; Tindex:type{int64|int32}; Tshape:type{int64|int32}; num_row_partition_tensors:int>=1;"
    " row_partition_types:list(string)]",
    shape=_shape,
    kernel=_kernel,
    gradient=_gradient,
    dynamic_shape=True,
)
