"""Slices of a tensor: Slice, StridedSlice and its gradient, and the meaning of `tensor[...]`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import EllipsisType
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor, stands_for_tensor, symbolic_dtype
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
from aioexec.graph.kernels.launches import c_strides, fill_launch
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register
from aioexec.ops.array.arrays import run_time
from aioexec.ops.array.filling import dims_operand, shape_from
from aioexec.ops.common.elementwise import Array, op_scope
from aioexec.ops.common.strided_copies import Piece, into, movable, rows_of, views
from aioexec.shapes import Dims

# Slice


def _slice_shape(context: ShapeContext) -> Sequence[Dims]:
    for vector in context.inputs[1:]:
        shapes.with_rank(vector, 1)
    dims, begin, size = context.inputs[0], context.value(1), context.value(2)
    if size is None:
        length = next((d[0] for d in context.inputs[1:] if d), None) if dims is None else len(dims)
        return [shapes.of_rank(length)]
    known = shapes.with_rank(dims, size.size) or ()
    found: list[int | None] = []
    for k, count in enumerate(size.tolist()):
        if count == -1:
            found.append(None if begin is None or known[k] is None else (known[k] or 0) - int(begin[k]))
        else:
            found.append(count)
    if begin is not None and shapes.is_fully_defined(known):
        _check_slice([int(dim or 0) for dim in known], begin.tolist(), [int(dim or 0) for dim in found])
    return [tuple(found)]


def _check_slice(dims: Sequence[int], begin: Sequence[int], size: Sequence[int]) -> None:
    for k, (dim, first, count) in enumerate(zip(dims, begin, size, strict=True)):
        if not 0 <= first <= dim:
            raise GraphValueError(f"Expected begin[{k}] in [0, {dim}], but got {first}")
        if not 0 <= count <= dim - first:
            raise GraphValueError(f"Expected size[{k}] in [0, {dim - first}], but got {count}")


@run_time
def _slice(x: Array, begin: Array, size: Array) -> Array:
    if not (x.ndim,) == begin.shape == size.shape:
        raise InvalidArgumentError(
            f"Expected begin and size of length {x.ndim}, got {begin.tolist()} and {size.tolist()}"
        )
    counts = [
        dim - b if s == -1 else s for dim, b, s in zip(x.shape, begin.tolist(), size.tolist(), strict=True)
    ]
    _check_slice(x.shape, begin.tolist(), counts)
    return x[tuple(slice(b, b + s) for b, s in zip(begin.tolist(), counts, strict=True))]


def _slice_gradient(op: Operation, dy: Tensor) -> Sequence[Any]:
    """Pad dy with zeros: the paddings are [begin, shape - begin - size]."""
    x, begin = op.inputs[:2]
    column = apply_op("Pack", [apply_op("Rank", x), convert_to_tensor(1, dtypes.int32)])
    kind = begin.dtype.base_dtype
    after = apply_op("Shape", x, out_type=kind) - apply_op("Shape", dy, out_type=kind) - begin
    paddings = apply_op(
        "ConcatV2",
        [apply_op("Reshape", side, column) for side in (begin, after)],
        convert_to_tensor(1, dtypes.int32),
    )
    return [apply_op("Pad", dy, paddings), None, None]


def _bind_slice(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | Alias | None:
    x, begin = inputs[:2]
    if begin.value is None:
        return None
    strides = c_strides(x.shape, x.dtype.itemsize)
    offset = sum(first * stride for first, stride in zip(begin.value.tolist(), strides, strict=True))
    return views([Piece(0, offset, strides, outputs[0].shape)], outputs)


register(
    "Slice(input:T, begin:Index, size:Index) -> (output:T) [T:type; Index:type{int32|int64}]",
    shape=_slice_shape,
    kernel=plain(_slice),
    gradient=_slice_gradient,
    native=Native(_bind_slice),
    shape_operands=(1, 2),
)

# StridedSlice


@dataclass(frozen=True, slots=True)
class Cut:
    """The part of one dimension that a strided slice takes: `count` elements from `start`, `step` apart; None: not static."""

    start: int | None
    step: int | None
    count: int | None


@dataclass(frozen=True, slots=True)
class Selection:
    """A strided slice resolved for a shape: a cut for each dimension; `kept`: the dimensions of the result (None: a new 1)."""

    cuts: tuple[Cut, ...]
    kept: tuple[int | None, ...]

    @property
    def dims(self) -> tuple[int | None, ...]:
        return tuple(1 if k is None else self.cuts[k].count for k in self.kept)

    def index(self) -> tuple[slice, ...]:
        """Return the NumPy index that takes the cuts."""
        found = []
        for cut in self.cuts:
            if not cut.count:
                found.append(slice(0, 0))
                continue
            assert cut.start is not None, "resolved against a shape that is not known"
            assert cut.step is not None, "resolved without strides"
            stop = cut.start + cut.step * cut.count
            found.append(slice(cut.start, stop if stop >= 0 else None, cut.step))
        return tuple(found)

    def strided(self, shape: tuple[int, ...], itemsize: int) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """Return offset in bytes, strides in bytes and shape of the cuts of an array in C order."""
        offset, strides = 0, []
        for cut, stride in zip(self.cuts, c_strides(shape, itemsize), strict=True):
            offset += (cut.start or 0) * stride if cut.count else 0
            strides.append((cut.step or 1) * stride)
        return offset, tuple(strides), tuple(cut.count or 0 for cut in self.cuts)


Bounds = Sequence[int] | None


def resolve(
    dims: tuple[int | None, ...], begin: Bounds, end: Bounds, strides: Bounds, length: int, attrs: Attrs
) -> Selection:
    """Resolve a strided slice of `length` specifications for a shape.

    Raises:
        GraphValueError: too many specifications, a stride of 0, or an index out of range.
    """
    ellipsis_mask, new_mask, shrink_mask = (
        attrs[f"{what}_mask"] for what in ("ellipsis", "new_axis", "shrink_axis")
    )
    used = _dims_named(len(dims), length, ellipsis_mask, new_mask)
    cuts: list[Cut] = []
    kept: list[int | None] = []

    def whole(count: int) -> None:
        for _ in range(count):
            kept.append(len(cuts))
            cuts.append(Cut(0, 1, dims[len(cuts)]))

    for i in range(length):
        if ellipsis_mask >> i & 1:
            whole(len(dims) - used)
        elif new_mask >> i & 1:
            kept.append(None)
        else:
            spec = [None if bound is None else int(bound[i]) for bound in (begin, end, strides)]
            k = len(cuts)
            if shrink_mask >> i & 1:
                cuts.append(_single(k, dims[k], spec[0], spec[2]))
            else:
                kept.append(k)
                masked = bool(attrs["begin_mask"] >> i & 1), bool(attrs["end_mask"] >> i & 1)
                cuts.append(_range_of(k, dims[k], spec, masked))
    whole(len(dims) - len(cuts))
    return Selection(tuple(cuts), tuple(kept))


def _dims_named(rank: int, length: int, ellipsis_mask: int, new_mask: int) -> int:
    """Return the number of input dimensions that specifications other than the ellipsis index."""
    if ellipsis_mask & (ellipsis_mask - 1):
        raise GraphValueError("Multiple ellipses in slice spec not allowed")
    named = sum(1 for i in range(length) if not (ellipsis_mask | new_mask) >> i & 1)
    if named > rank:
        raise GraphValueError(f"Index out of range using input dim {rank}; input has only {rank} dims")
    return named


def _single(k: int, dim: int | None, index: int | None, stride: int | None) -> Cut:
    if stride is not None and stride <= 0:
        raise GraphValueError("only stride 1 allowed on non-range indexing")
    if dim is None or index is None:
        return Cut(None, 1, 1)
    if not -dim <= index < dim:
        raise GraphValueError(f"slice index {index} of dimension {k} out of bounds")
    return Cut(index % dim, 1, 1)


def _range_of(k: int, dim: int | None, spec: Sequence[int | None], masked: tuple[bool, bool]) -> Cut:
    begin, end, step = spec
    if step == 0:
        raise GraphValueError(f"strides[{k}] must be non-zero")
    if step is None:
        return Cut(None, None, None)
    if (begin is None and not masked[0]) or (end is None and not masked[1]):
        return Cut(None, step, None)
    if dim is None:
        return Cut(None, step, _count_without_dim(begin, end, step, masked))
    low, high = (0, dim) if step > 0 else (-1, dim - 1)

    def bounded(position: int | None, is_masked: bool, default: int) -> int:
        if is_masked or position is None:
            return default
        return min(max(position + dim if position < 0 else position, low), high)

    first = bounded(begin, masked[0], low if step > 0 else high)
    last = bounded(end, masked[1], high if step > 0 else low)
    return Cut(first, step, max(0, -((first - last) // step)))


def _count_without_dim(
    begin: int | None, end: int | None, step: int, masked: tuple[bool, bool]
) -> int | None:
    """Return 0 if the bounds imply an empty range for every size of the dimension, else None."""
    if masked[0] or masked[1] or begin is None or end is None or (begin < 0) != (end < 0):
        return None
    return 0 if (end - begin) * step <= 0 else None


def _selection(shape: tuple[int, ...], begin: Array, end: Array, strides: Array, attrs: Attrs) -> Selection:
    if not begin.ndim == 1 or not begin.shape == end.shape == strides.shape:
        raise InvalidArgumentError(
            f"Expected begin, end, and strides to be 1D equal size tensors, got {begin}, {end}, {strides}"
        )
    return resolve(shape, begin.tolist(), end.tolist(), strides.tolist(), begin.size, attrs)


def _strided_slice_shape(context: ShapeContext) -> Sequence[Dims]:
    dims = context.inputs[0]
    specs = functools.reduce(shapes.merge, context.inputs[1:])
    ranked = shapes.with_rank(specs, 1)
    assert ranked is not None
    length = ranked[0]
    if dims is None or length is None or context.value(3) is None:
        return [None]
    begin, end, strides = (None if (value := context.value(k)) is None else value.tolist() for k in (1, 2, 3))
    return [resolve(dims, begin, end, strides, length, context.attrs).dims]


def _strided_slice(context: KernelContext) -> Compute:
    @run_time
    def compute(x: Array, begin: Array, end: Array, strides: Array) -> Array:
        found = _selection(x.shape, begin, end, strides, context.attrs)
        return x[found.index()].reshape([int(dim or 0) for dim in found.dims])

    return compute


MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


def _strided_slice_gradient(op: Operation, dy: Tensor) -> Sequence[Any]:
    x, begin, end, strides = op.inputs
    shape = apply_op("Shape", x, out_type=begin.dtype.base_dtype)
    masks = {mask: op.attrs[mask] for mask in MASKS}
    dx = apply_op("StridedSliceGrad", shape, begin, end, strides, dy, **masks)
    dx.set_shape(x.dims)
    return [dx, None, None, None]


def _bind_strided_slice(
    attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launches | Alias | None:
    x = inputs[0]
    values = [spec.value for spec in inputs[1:] if spec.value is not None]
    if len(values) < 3:
        return None
    found = _selection(x.shape, values[0], values[1], values[2], attrs)
    offset, strides, shape = found.strided(x.shape, x.dtype.itemsize)
    return views([Piece(0, offset, strides, shape)], outputs)


_MASK_ATTRS = "; ".join(f"{mask}:int=0" for mask in MASKS)

register(
    f"StridedSlice(input:T, begin:Index, end:Index, strides:Index) -> (output:T) "
    f"[T:type; Index:type{{int16|int32|int64}}; {_MASK_ATTRS}]",
    shape=_strided_slice_shape,
    kernel=_strided_slice,
    gradient=_strided_slice_gradient,
    native=Native(_bind_strided_slice),
    shape_operands=(1, 2, 3),
)


def _strided_slice_grad(context: KernelContext) -> Compute:
    @run_time
    def compute(shape: Array, begin: Array, end: Array, strides: Array, dy: Array) -> Array:
        dims = shape_from(shape)
        found = _selection(dims, begin, end, strides, context.attrs)
        if dy.shape != found.dims:
            raise InvalidArgumentError(f"shape of dy was {dy.shape} instead of {found.dims}")
        dx = np.zeros(dims, dy.dtype)
        dx[found.index()] = dy.reshape([cut.count or 0 for cut in found.cuts])
        return dx

    return compute


def _bind_strided_slice_grad(
    attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launches | None:
    (output,), dy = outputs, inputs[4]
    values = [spec.value for spec in inputs[1:4] if spec.value is not None]
    if len(values) < 3 or not movable(output) or output.dtype.name == "float16":
        return None
    size, name = output.dtype.itemsize, output.dtype.name
    found = _selection(output.shape, values[0], values[1], values[2], attrs)
    if dy.shape != found.dims:
        return None  # the reference kernel raises the error
    offset, strides, shape = found.strided(output.shape, size)
    zero = False if name == "bool" else 0
    dense = c_strides(output.shape, size)
    fill = (
        None if dy.size == output.size else fill_launch(zero, Operand("output", 0), dense, output.shape, name)
    )
    return rows_of(
        fill, into(Piece(4, 0, c_strides(shape, size), shape), Operand("output", 0, offset), strides, size)
    )


register(
    f"StridedSliceGrad(shape:Index, begin:Index, end:Index, strides:Index, dy:T) -> (output:T) "
    f"[T:type; Index:type{{int32|int64}}; {_MASK_ATTRS}]",
    shape=lambda context: [dims_operand(context, 0)],
    kernel=_strided_slice_grad,
    gradient=lambda op, dz: (
        [None] * 4
        + [apply_op("StridedSlice", dz, *op.inputs[1:4], **{mask: op.attrs[mask] for mask in MASKS})]
    ),
    native=Native(_bind_strided_slice_grad),
    shape_operands=(0, 1, 2, 3),
)


# Functions


def slice_(input_: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """Take `size[k]` elements (-1: all the rest) from `begin[k]` on, of each dimension k."""
    return apply_op("Slice", input_, _index(begin), _index(size), name=name)


def _index(value: Any) -> Any:
    return convert_to_tensor([], dtypes.int32) if isinstance(value, list | tuple) and not value else value


def strided_slice(
    input_: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: Any = None,
    name: str | None = None,
) -> Tensor:
    """Take the elements begin[k], begin[k] + strides[k], … before end[k] of each dimension k; masks as in TensorFlow.

    Args:
        var: the variable whose content `input_` is: the slice then has a method `assign(value)`.
    """
    begin_tensor = convert_to_tensor(begin)
    if strides is None:
        strides = apply_op("OnesLike", begin_tensor)
    masks = dict(
        zip(MASKS, (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask), strict=True)
    )
    return _sliced(input_, (begin_tensor, end, strides), masks, name, var)


def _sliced(tensor: Any, bounds: Sequence[Any], masks: dict[str, int], name: str | None, var: Any) -> Tensor:
    found = apply_op("StridedSlice", tensor, *bounds, name=name, **masks)
    if var is not None:

        def assign(value: Any, name: str | None = None) -> Any:
            """Assign to the slice of the variable."""
            return var.assign_slice(found.op.inputs[1:], masks, value, name or f"{found.op.name}_assign")

        found.assign = assign
    return found


def getitem(tensor: Tensor, key: Any, name: str | None = None, var: Any = None) -> Tensor:
    """Index a tensor: integers, slices, None (or newaxis), `...`, scalar tensors as bounds.

    Args:
        var: see `strided_slice`.

    Raises:
        GraphTypeError: an index has another type.
    """
    keys = key if isinstance(key, tuple | list) else (key,)
    specs: list[tuple[Any, Any, Any]] = []
    masks = dict.fromkeys(MASKS, 0)
    for i, item in enumerate(keys):
        specs.append(_spec(item, 1 << i, masks))
    with op_scope(name, "strided_slice", tensor) as scope:
        kind = _index_dtype(specs)
        bounds = [
            _vector([spec[k] for spec in specs], kind, what)
            for k, what in enumerate(("stack", "stack_1", "stack_2"))
        ]
        return _sliced(tensor, bounds, masks, scope, var)


def _spec(item: Any, bit: int, masks: dict[str, int]) -> tuple[Any, Any, Any]:
    """Return begin, end and stride of one index; sets its bit in the masks."""
    if isinstance(item, EllipsisType):
        masks["ellipsis_mask"] |= bit
        return 0, 0, 1
    if item is None:
        masks["new_axis_mask"] |= bit
        return 0, 0, 1
    if isinstance(item, slice):
        if item.start is None:
            masks["begin_mask"] |= bit
        if item.stop is None:
            masks["end_mask"] |= bit
        ends = (0 if item.start is None else item.start, 0 if item.stop is None else item.stop)
        return _bound(ends[0]), _bound(ends[1]), _bound(1 if item.step is None else item.step)
    masks["shrink_axis_mask"] |= bit
    start = _bound(item)
    return start, start + 1, 1


def _bound(value: Any) -> Any:
    """Return an index: an int, or an integer tensor."""
    if isinstance(value, shapes.Dimension):
        value = value.value
    if stands_for_tensor(value):
        if symbolic_dtype(value) not in (dtypes.int16, dtypes.int32, dtypes.int64):
            raise GraphTypeError(f"a tensor used as index must be of integers, got {value!r}")
        return value
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise GraphTypeError(f"indices are integers, slices, ..., None or integer tensors, got {value!r}")
    return int(value)


def _index_dtype(specs: Sequence[tuple[Any, Any, Any]]) -> DType:
    found = {symbolic_dtype(bound) for spec in specs for bound in spec}
    return dtypes.int64 if dtypes.int64 in found else dtypes.int32


def _vector(items: list[Any], kind: DType, name: str) -> Tensor:
    """Pack indices into a vector: a constant if all of them are ints."""
    if not any(stands_for_tensor(item) for item in items):
        return convert_to_tensor(np.array(items, kind.numpy), kind, name)
    tensors = [convert_to_tensor(item, None if stands_for_tensor(item) else kind) for item in items]
    tensors = [t if t.dtype.base_dtype == kind else apply_op("Cast", t, DstT=kind) for t in tensors]
    return apply_op("Pack", tensors, name=name)
