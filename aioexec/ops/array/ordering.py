"""Ops that reorder elements along a dimension: roll, reverse by a mask, reverse the start of each sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.kernels.kernel import Attrs, Compute, KernelContext, Launches, Native, Operand, Spec, plain
from aioexec.graph.kernels.launches import c_strides
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register
from aioexec.ops.array.arrays import axis_of, run_time
from aioexec.ops.common.elementwise import Array, shown
from aioexec.ops.common.strided_copies import Piece, into, movable, rows_of
from aioexec.shapes import Dims

# Roll


def _shifts(shape: Sequence[int], shift: Array, axis: Array) -> list[int]:
    """Return the shift of each dimension; several shifts of one dimension add up.

    Raises:
        GraphValueError: an axis is out of range, or shift and axis differ in size.
    """
    if shift.ndim > 1 or shift.shape != axis.shape:
        raise GraphValueError(
            f"shift and axis must have one size, got {shown(shift.shape)} and {shown(axis.shape)}"
        )
    total = [0] * len(shape)
    for count, k in zip(shift.reshape(-1).tolist(), axis.reshape(-1).tolist(), strict=True):
        total[axis_of(k, len(shape))] += count
    return [count % dim if dim else 0 for count, dim in zip(total, shape, strict=True)]


@run_time
def _roll(x: Array, shift: Array, axis: Array) -> Array:
    if not x.ndim:
        raise GraphValueError("input must be 1-D or higher")
    return np.roll(x, _shifts(x.shape, shift, axis), range(x.ndim))


def _roll_shape(context: ShapeContext) -> Sequence[Dims]:
    dims = shapes.with_rank_at_least(context.inputs[0], 1)
    shapes.with_rank_at_most(context.inputs[1], 1)
    shapes.with_rank_at_most(context.inputs[2], 1)
    return [dims]


def _bind_roll(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    """Copy two strided parts along each rolled dimension: elements that shift, and elements that wrap around."""
    x, shift, axis = inputs
    if shift.value is None or axis.value is None or not movable(x):
        return None
    shifts = run_time(_shifts)(x.shape, shift.value, axis.value)
    strides = c_strides(x.shape, x.dtype.itemsize)
    parts = [(0, 0, x.shape)]  # offsets of source and target in bytes, and the shape
    for k, count in enumerate(shifts):
        if count:
            stays = x.shape[k] - count
            parts = [
                (source + begin * strides[k], target + end * strides[k], (*shape[:k], size, *shape[k + 1 :]))
                for source, target, shape in parts
                for begin, end, size in ((0, count, stays), (stays, 0, count))
            ]
    return rows_of(
        *(
            into(Piece(0, source, strides, shape), Operand("output", 0, target), strides, x.dtype.itemsize)
            for source, target, shape in parts
        )
    )


register(
    "Roll(input:T, shift:Tshift, axis:Taxis) -> (output:T) [T:type; Tshift:type{int32|int64}; Taxis:type{int32|int64}]",
    shape=_roll_shape,
    kernel=plain(_roll),
    gradient=lambda op, dy: [apply_op("Roll", dy, -op.inputs[1], op.inputs[2]), None, None],
    native=Native(_bind_roll),
    shape_operands=(1, 2),
)

# Reverse by a mask


def _reverse_shape(context: ShapeContext) -> Sequence[Dims]:
    dims, mask = context.inputs[0], shapes.with_rank(context.inputs[1], 1)
    if mask is not None and mask[0] is not None and dims != ():  # a scalar is reversed by any mask
        dims = shapes.with_rank(dims, mask[0])
    if dims is not None and len(dims) > 8:
        raise GraphValueError(f"reverse is not for tensors of more than 8 dimensions, got {len(dims)}")
    return [dims]


def _reverse(x: Array, mask: Array) -> Array:
    if not x.ndim:
        return x
    if mask.shape != (x.ndim,):
        raise InvalidArgumentError(
            f"'dims' must be a vector of {x.ndim} bools, got shape {shown(mask.shape)}"
        )
    return np.flip(x, tuple(np.flatnonzero(mask)))


register(
    "Reverse(tensor:T, dims:bool) -> (output:T) [T:type@30]",
    shape=_reverse_shape,
    kernel=plain(_reverse),
    gradient=lambda op, dy: [apply_op("Reverse", dy, op.inputs[1]), None],
)

# Sequences


def _sequence_axes(attrs: Attrs, rank: int) -> tuple[int, int]:
    """Return the dimension along the sequences and the dimension across them.

    Raises:
        GraphValueError: both are the same, or one is out of range.
    """
    along, across = attrs["seq_dim"], attrs["batch_dim"]
    for what, axis in (("seq_dim", along), ("batch_dim", across)):
        if not 0 <= axis < rank:
            raise GraphValueError(f"{what} must be < input rank ({axis} vs. {rank}) and not negative")
    if along == across:
        raise GraphValueError(f"batch_dim == seq_dim == {along}")
    return along, across


def _sequence_shape(context: ShapeContext) -> Sequence[Dims]:
    dims, lengths = context.inputs[0], shapes.with_rank(context.inputs[1], 1)
    if dims is None:
        return [None]
    _, across = _sequence_axes(context.attrs, len(dims))
    size = shapes.merge((dims[across],), lengths) or (None,)
    return [(*dims[:across], *size, *dims[across + 1 :])]


def _reverse_sequence(context: KernelContext) -> Compute:
    attrs = context.attrs

    @run_time
    def compute(x: Array, lengths: Array) -> Array:
        along, across = _sequence_axes(attrs, x.ndim)
        count = x.shape[along]
        if lengths.shape != (x.shape[across],):
            raise GraphValueError(f"Length of seq_lengths != input.dims({across}): {shown(lengths.shape)}")
        if ((lengths < 0) | (lengths > count)).any():
            raise GraphValueError(f"seq_lengths must be in [0, {count}], got {lengths.tolist()}")
        places, ends = np.arange(count), lengths.reshape(-1, 1)
        source = np.where(places < ends, ends - 1 - places, places)  # [across, along]
        if along < across:
            source = source.T
        wide = [count if k == along else x.shape[across] if k == across else 1 for k in range(x.ndim)]
        return np.take_along_axis(x, source.reshape(wide).astype(np.intp), along)

    return compute


def _sequence_gradient(op: Operation, dy: Tensor) -> list[Any]:
    axes = {name: op.attrs[name] for name in ("seq_dim", "batch_dim")}
    return [apply_op("ReverseSequence", dy, op.inputs[1], **axes), None]


register(
    "ReverseSequence(input:T, seq_lengths:Tlen) -> (output:T) "
    "[seq_dim:int; batch_dim:int=0; T:type; Tlen:type{int32|int64}=int64]",
    shape=_sequence_shape,
    kernel=_reverse_sequence,
    gradient=_sequence_gradient,
)

# Functions


def roll(input: Any, shift: Any, axis: Any, name: str | None = None) -> Tensor:
    """Shift elements by `shift` places along `axis`; elements past the last position wrap around to the first."""
    return apply_op("Roll", input, shift, axis, name=name)


def reverse_sequence(
    input: Any,
    seq_lengths: Any,
    seq_axis: int | None = None,
    batch_axis: int | None = None,
    name: str | None = None,
    seq_dim: int | None = None,
    batch_dim: int | None = None,
) -> Tensor:
    """Reverse the first seq_lengths[b] elements along `seq_axis` in each slice b along `batch_axis`.

    `seq_dim` and `batch_dim` are older names of the axes.

    Raises:
        GraphValueError: neither `seq_axis` nor `seq_dim` is given.
    """
    along = seq_axis if seq_axis is not None else seq_dim
    across = batch_axis if batch_axis is not None else batch_dim
    if along is None:
        raise GraphValueError("reverse_sequence: expected seq_axis, got None")
    return apply_op("ReverseSequence", input, seq_lengths, seq_dim=along, batch_dim=across or 0, name=name)
