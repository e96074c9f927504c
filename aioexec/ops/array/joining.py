"""Ops that join and divide tensors along a dimension: concat, split, stack, unstack."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_list_op, apply_op
from aioexec.graph.convert import convert_n_to_tensor, convert_to_tensor, symbolic_dtype
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.kernels.kernel import (
    Alias,
    Attrs,
    Compute,
    KernelContext,
    Launches,
    Native,
    Operand,
    Spec,
    plain,
)
from aioexec.graph.kernels.launches import c_strides
from aioexec.graph.node import Tensor
from aioexec.graph.registry import ShapeContext, register
from aioexec.ops.array.arrays import axis_of, run_time
from aioexec.ops.common.elementwise import Array, op_scope
from aioexec.ops.common.strided_copies import Piece, into, movable, rows_of, views
from aioexec.shapes import Dims

# Concat


def joined(parts: Sequence[Dims], axis: Array | None) -> Dims:
    """Return the shape of tensors concatenated along a dimension.

    Raises:
        GraphValueError: other dimensions differ, or the axis is out of range.
    """
    ranks = {len(dims) for dims in parts if dims is not None}
    if len(ranks) > 1:
        raise GraphValueError(
            f"shapes {[shapes.describe(dims) for dims in parts]} of different ranks do not join"
        )
    if not ranks:
        return None
    rank = ranks.pop()
    if axis is None:
        return (None,) * rank
    k = axis_of(int(axis.reshape(-1)[0]), rank)
    rest: Dims = (None,) * rank
    total: int | None = 0
    for dims in parts:
        known = dims if dims is not None else (None,) * rank
        total = None if total is None or known[k] is None else total + (known[k] or 0)
        rest = shapes.merge(rest, (*known[:k], None, *known[k + 1 :]))
    rest = rest or ()
    return (*rest[:k], total, *rest[k + 1 :])


def _joined_shape(context: ShapeContext, position: int) -> Sequence[Dims]:
    """Return the shape of all inputs concatenated along the axis, which is the input at `position`."""
    inputs, axis = list(context.inputs), position % len(context.inputs)
    shapes.with_rank(inputs.pop(axis), 0)
    return [joined(inputs, context.value(axis))]


def _concat(axis: Array, values: Sequence[Array]) -> Array:
    if axis.ndim > 1 or axis.size != 1:
        raise InvalidArgumentError(
            f"axis tensor should be a scalar integer, but got shape {list(axis.shape)}"
        )
    run_time(joined)([value.shape for value in values], axis)
    return np.concatenate(values, int(axis.reshape(-1)[0]))


def _bind_concat(axis: Spec, values: Sequence[tuple[int, Spec]], output: Spec) -> Launches | None:
    """Copy each input into its part of the output."""
    if axis.value is None or not movable(output):
        return None
    size = output.dtype.itemsize
    k = axis_of(int(axis.value.reshape(-1)[0]), len(output.shape))
    strides = c_strides(output.shape, size)
    rows, offset = [], 0
    for position, value in values:
        piece = Piece(position, 0, c_strides(value.shape, size), value.shape)
        rows.append(into(piece, Operand("output", 0, offset), strides, size))
        offset += strides[k] * value.shape[k]
    return rows_of(*rows)


def _concat_gradient(axis: Tensor, values: Sequence[Tensor], dy: Any) -> list[Any]:
    """Return the part of dy that belongs to each value."""
    if isinstance(dy, IndexedSlices):
        dy = convert_to_tensor(dy)
    rank = next((len(tensor.dims) for tensor in values if tensor.dims is not None), None)
    if len(values) == 1:
        return [dy]
    number = axis.op.attrs["value"].item() if axis.op.type == "Const" else None
    if rank is not None and number is not None:
        sizes = [None if tensor.dims is None else tensor.dims[number % rank] for tensor in values]
        if None not in sizes:
            parts = convert_to_tensor(sizes, dtypes.int64)
            outputs = apply_list_op("SplitV", dy, parts, _as_int32(axis), num_split=len(values))
            return list(outputs)
    shapes_of = apply_list_op("ShapeN", list(values))
    positive = apply_op("FloorMod", _as_int32(axis), apply_op("Rank", values[0]))
    offsets = apply_list_op("ConcatOffset", positive, shapes_of)
    return [apply_op("Slice", dy, begin, size) for begin, size in zip(offsets, shapes_of, strict=True)]


def _as_int32(axis: Tensor) -> Tensor:
    if axis.dtype.base_dtype == dtypes.int32:
        return axis
    return apply_op("Cast", axis, DstT=dtypes.int32)


register(
    "ConcatV2(values:N*T, axis:Tidx) -> (output:T) [N:int>=2; T:type; Tidx:type{int32|int64}=int32]",
    shape=lambda context: _joined_shape(context, -1),
    kernel=plain(lambda *inputs: _concat(inputs[-1], inputs[:-1])),
    gradient=lambda op, dy: [*_concat_gradient(op.inputs[-1], op.inputs[:-1], dy), None],
    native=Native(
        lambda attrs, inputs, outputs: _bind_concat(inputs[-1], list(enumerate(inputs))[:-1], outputs[0])
    ),
    shape_operands=(-1,),
)
register(
    "Concat(concat_dim:int32, values:N*T) -> (output:T) [N:int>=2; T:type]",
    shape=lambda context: _joined_shape(context, 0),
    kernel=plain(lambda *inputs: _concat(inputs[0], inputs[1:])),
    gradient=lambda op, dy: [None, *_concat_gradient(op.inputs[0], op.inputs[1:], dy)],
    native=Native(
        lambda attrs, inputs, outputs: _bind_concat(inputs[0], list(enumerate(inputs))[1:], outputs[0])
    ),
    shape_operands=(0,),
)

# Split


def _cut(
    k: int, source: Spec, position: int, sizes: Sequence[int], outputs: Sequence[Spec]
) -> Launches | Alias | None:
    """Return consecutive parts of input `position` along dimension k."""
    strides = c_strides(source.shape, source.dtype.itemsize)
    pieces, offset = [], 0
    for size in sizes:
        shape = (*source.shape[:k], size, *source.shape[k + 1 :])
        pieces.append(Piece(position, offset, strides, shape))
        offset += strides[k] * size
    return views(pieces, outputs)


def _check_scalar(axis: Array | None) -> None:
    """Raise GraphValueError if a static `split_dim` is not a scalar."""
    if axis is not None and axis.ndim:
        raise GraphValueError(
            f"Input must be scalar but has rank {axis.ndim}: split_dim of shape {list(axis.shape)}"
        )


def _split_shape(context: ShapeContext) -> Sequence[Dims]:
    count, dims, axis = context.attrs["num_split"], context.inputs[1], context.value(0)
    _check_scalar(axis)
    if dims is None or axis is None:
        return [None if dims is None else (None,) * len(dims)] * count
    k = axis_of(int(axis), len(dims))
    size = dims[k]
    if size is not None and size % count:
        raise GraphValueError(
            f"Number of ways to split should evenly divide the split dimension: {size} by {count}"
        )
    return [(*dims[:k], None if size is None else size // count, *dims[k + 1 :])] * count


def _split(context: KernelContext) -> Compute:
    count = context.attrs["num_split"]

    @run_time
    def compute(axis: Array, value: Array) -> Any:
        if axis.ndim:
            raise InvalidArgumentError(f"split_dim must be a scalar but has rank {axis.ndim}")
        k = axis_of(int(axis), value.ndim)
        if value.shape[k] % count:
            raise InvalidArgumentError(
                f"Number of ways to split should evenly divide the split dimension, but got split_dim {k} "
                f"(size = {value.shape[k]}) and num_split {count}"
            )
        parts = np.split(value, count, k)
        return parts[0] if count == 1 else tuple(parts)

    return compute


def _bind_split(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | Alias | None:
    axis, value = inputs
    if axis.value is None or axis.shape:
        return None
    k = axis_of(int(axis.value), len(value.shape))
    return _cut(k, value, 1, [value.shape[k] // len(outputs)] * len(outputs), outputs)


register(
    "Split(split_dim:int32, value:T) -> (output:num_split*T) [num_split:int>=1; T:type]",
    shape=_split_shape,
    kernel=_split,
    gradient=lambda op, *dys: [
        None,
        dys[0] if len(dys) == 1 else apply_op("ConcatV2", list(dys), op.inputs[0]),
    ],
    native=Native(_bind_split),
    shape_operands=(0,),
)


def split_sizes(sizes: Sequence[int], whole: int) -> list[int]:
    """Return the sizes of the parts; one of them may be -1 and is then inferred.

    Raises:
        GraphValueError: the sizes do not add up to the dimension.
    """
    given = list(sizes)
    if given.count(-1) == 1:
        given[given.index(-1)] = whole - sum(size for size in given if size != -1)
    if any(size < 0 for size in given) or sum(given) != whole:
        raise GraphValueError(
            f"Determined shape must either match input shape along split_dim: {list(sizes)} of {whole}"
        )
    return given


def _split_v_shape(context: ShapeContext) -> Sequence[Dims]:
    count, dims = context.attrs["num_split"], context.inputs[0]
    sizes, axis = context.value(1), context.value(2)
    _check_scalar(axis)
    if dims is None or axis is None:
        return [None if dims is None else (None,) * len(dims)] * count
    k = axis_of(int(axis), len(dims))
    if sizes is None:
        return [(*dims[:k], None, *dims[k + 1 :])] * count
    if sizes.shape != (count,):
        raise GraphValueError(f"sizes of shape {list(sizes.shape)} for {count} outputs")
    if count == 1 and int(sizes[0]) == -1:
        raise GraphValueError("the size of the only output must be that of the input, got -1")
    given = [None if size < 0 else int(size) for size in sizes.tolist()]
    whole = dims[k]
    if whole is not None:
        given = list(split_sizes(sizes.tolist(), whole))
    return [(*dims[:k], size, *dims[k + 1 :]) for size in given]


def _split_v(count: int, value: Array, sizes: Array, axis: Array) -> Any:
    if axis.size != 1:
        raise InvalidArgumentError(f"split_dim must have exactly one element, got {axis.size}")
    if sizes.shape != (count,):
        raise InvalidArgumentError(
            f"size_splits must be a vector of as many elements as outputs, {count}, got shape {list(sizes.shape)}"
        )
    k = axis_of(int(axis.reshape(-1)[0]), value.ndim)
    if count == 1 and int(sizes[0]) != value.shape[k]:
        raise InvalidArgumentError(
            f"If there is only one output, it must have the same size as the input, {value.shape[k]}, got {int(sizes[0])}"
        )
    ends = np.cumsum(split_sizes(sizes.tolist(), value.shape[k]))
    parts = np.split(value, ends[:-1], k)
    return parts[0] if count == 1 else tuple(parts)


def _split_v_kernel(context: KernelContext) -> Compute:
    return partial(run_time(_split_v), context.attrs["num_split"])


def _bind_split_v(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | Alias | None:
    value, sizes, axis = inputs
    if axis.value is None or sizes.value is None or axis.size != 1:
        return None
    k = axis_of(int(axis.value.reshape(-1)[0]), len(value.shape))
    return _cut(k, value, 0, [spec.shape[k] for spec in outputs], outputs)


register(
    "SplitV(value:T, size_splits:Tlen, split_dim:int32) -> (output:num_split*T) "
    "[num_split:int>=1; T:type; Tlen:type{int8|int32|int64}=int64]",
    shape=_split_v_shape,
    kernel=_split_v_kernel,
    gradient=lambda op, *dys: [
        dys[0] if len(dys) == 1 else apply_op("ConcatV2", list(dys), op.inputs[2]),
        None,
        None,
    ],
    native=Native(_bind_split_v),
    shape_operands=(1, 2),
)

# Pack and unpack


def _pack_shape(context: ShapeContext) -> Sequence[Dims]:
    dims: Dims = None
    for part in context.inputs:
        dims = shapes.merge(dims, part)
    if dims is None:
        return [None]
    k = axis_of(context.attrs["axis"], len(dims) + 1)
    return [(*dims[:k], context.attrs["N"], *dims[k:])]


def _pack(context: KernelContext) -> Compute:
    axis = context.attrs["axis"]

    def compute(*values: Array) -> Array:
        if any(value.shape != values[0].shape for value in values):
            raise InvalidArgumentError(
                f"Shapes of all inputs must match, got {[value.shape for value in values]}"
            )
        return np.stack(values, axis)

    return compute


def _bind_pack(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | Alias | None:
    (output,) = outputs
    if not movable(output):
        return None
    if len(inputs) == 1:
        return Alias((0,), (0,))
    size, k = output.dtype.itemsize, axis_of(attrs["axis"], len(output.shape))
    strides = c_strides(output.shape, size)
    inner = strides[:k] + strides[k + 1 :]
    return rows_of(
        *(
            into(
                Piece(j, 0, c_strides(spec.shape, size), spec.shape),
                Operand("output", 0, j * strides[k]),
                inner,
                size,
            )
            for j, spec in enumerate(inputs)
        )
    )


register(
    "Pack(values:N*T) -> (output:T) [N:int>=1; T:type; axis:int=0]",
    shape=_pack_shape,
    kernel=_pack,
    gradient=lambda op, dy: apply_list_op("Unpack", dy, num=op.attrs["N"], axis=op.attrs["axis"]),
    native=Native(_bind_pack),
)


def _unpack_shape(context: ShapeContext) -> Sequence[Dims]:
    count, dims = context.attrs["num"], context.inputs[0]
    if dims is None:
        return [None] * count
    k = axis_of(context.attrs["axis"], len(dims))
    if dims[k] not in (None, count):
        raise GraphValueError(f"dimension {k} is {dims[k]}, expected {count} (attr num)")
    return [(*dims[:k], *dims[k + 1 :])] * count


def _unpack(context: KernelContext) -> Compute:
    axis, count = context.attrs["axis"], context.attrs["num"]

    @run_time
    def compute(value: Array) -> Any:
        k = axis_of(axis, value.ndim)
        if value.shape[k] != count:
            raise InvalidArgumentError(
                f"dimension {k} of the value is {value.shape[k]}, expected {count} (attr num)"
            )
        parts = tuple(np.moveaxis(value, k, 0))
        return np.asarray(parts[0]) if count == 1 else tuple(np.asarray(part, value.dtype) for part in parts)

    return compute


def _bind_unpack(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | Alias | None:
    (value,) = inputs
    if not outputs:
        return Launches(())
    k = axis_of(attrs["axis"], len(value.shape))
    strides = c_strides(value.shape, value.dtype.itemsize)
    inner = strides[:k] + strides[k + 1 :]
    return views([Piece(0, j * strides[k], inner, spec.shape) for j, spec in enumerate(outputs)], outputs)


register(
    "Unpack(value:T) -> (output:num*T) [num:int>=0; T:type; axis:int=0]",
    shape=_unpack_shape,
    kernel=_unpack,
    gradient=lambda op, *dys: [apply_op("Pack", list(dys), axis=op.attrs["axis"])],
    native=Native(_bind_unpack),
)


# Functions


def concat(values: Any, axis: Any, name: str = "concat") -> Tensor:
    """Concatenate tensors along a dimension."""
    if not isinstance(values, list | tuple):
        values = [values]
    if len(values) == 1:
        with op_scope(name, "concat", *values) as scope:
            return apply_op("Identity", convert_to_tensor(values[0]), name=scope)
    return apply_op("ConcatV2", list(values), axis, name=name)


def split(
    value: Any, num_or_size_splits: Any, axis: Any = 0, num: int | None = None, name: str = "split"
) -> list[Tensor]:
    """Split a tensor along a dimension into that many equal parts, or into parts of the given sizes.

    Args:
        num: the number of sizes, if it is not static.

    Raises:
        GraphValueError: the number of parts is not static.
    """
    if symbolic_dtype(num_or_size_splits) is None and np.ndim(num_or_size_splits) == 0:
        count = int(num_or_size_splits)
        return _listed(apply_list_op("Split", axis, value, name=name, num_split=count))
    sizes = convert_to_tensor(num_or_size_splits)
    known = num if num is not None else sizes.dims[0] if sizes.dims else None
    if known is None:
        raise GraphValueError(f"split: the number of parts does not follow from {sizes!r}: give num")
    return _listed(apply_list_op("SplitV", value, sizes, axis, name=name, num_split=known))


def stack(values: Any, axis: int = 0, name: str = "stack") -> Tensor:
    """Stack tensors of one shape along a new dimension at `axis`."""
    tensors = convert_n_to_tensor(list(values))
    return apply_op("Pack", tensors, name=name, axis=axis)


def unstack(value: Any, num: int | None = None, axis: int = 0, name: str = "unstack") -> list[Tensor]:
    """Split a tensor along a dimension into tensors without that dimension.

    Raises:
        GraphValueError: `num` is None and the size of the dimension is not static.
    """
    tensor = convert_to_tensor(value)
    if num is None:
        if tensor.dims is None:
            raise GraphValueError(f"unstack: cannot infer num from {tensor!r}")
        num = tensor.dims[axis_of(axis, len(tensor.dims))]
    if num is None:
        raise GraphValueError(f"unstack: cannot infer num from {tensor!r}")
    return _listed(apply_list_op("Unpack", tensor, name=name, num=num, axis=axis))


def meshgrid(*args: Any, indexing: str = "xy", name: str = "meshgrid") -> list[Tensor]:
    """Return coordinate grids for the coordinates along each dimension, as `numpy.meshgrid`.

    Raises:
        GraphValueError: `indexing` is neither "xy" nor "ij".
    """
    if indexing not in ("xy", "ij"):
        raise GraphValueError(f'meshgrid: indexing must be "xy" or "ij", got {indexing!r}')
    with op_scope(name, "meshgrid", *args):
        vectors = [
            apply_op("Reshape", convert_to_tensor(arg), convert_to_tensor([-1], dtypes.int32)) for arg in args
        ]
        order = list(range(len(vectors)))
        if indexing == "xy" and len(vectors) > 1:
            order[:2] = [1, 0]
        sizes = [apply_op("Size", vectors[k]) for k in order]
        shape = apply_op("Pack", sizes)
        grids = []
        for k, vector in enumerate(vectors):
            place = order.index(k)
            spread = [1] * len(vectors)
            spread[place] = -1
            column = apply_op("Reshape", vector, convert_to_tensor(spread, dtypes.int32))
            grids.append(apply_op("BroadcastTo", column, shape))
        return grids


def _listed(outputs: Any) -> list[Tensor]:
    assert isinstance(outputs, list)
    return outputs
