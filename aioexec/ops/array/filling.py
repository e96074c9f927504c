"""Ops that generate tensors: constants, fill, zeros and ones, ranges, one-hot rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant, convert_to_tensor, symbolic_dtype
from aioexec.graph.kernels.kernel import (
    Attrs,
    Compute,
    KernelContext,
    Launch,
    Launches,
    LoopKernel,
    Native,
    Operand,
    Role,
    Spec,
    plain,
)
from aioexec.graph.kernels.launches import c_strides, copy_launch, fill_launch
from aioexec.graph.kernels.loop_language import float64, int64
from aioexec.graph.node import Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.ops.common.elementwise import Array, op_scope, room_for, same_shape
from aioexec.ops.common.strided_copies import movable, rows_of
from aioexec.resources.tensor_list import zeros_like_variant
from aioexec.shapes import Dims

# Constants and fills


def _constant(context: KernelContext) -> Compute:
    value = context.attrs["value"]
    return lambda: value


register(
    "Const() -> (output:dtype) [value:tensor; dtype:type]",
    shape=lambda context: [np.shape(context.attrs["value"])],
    kernel=_constant,
    gradient=NOT_DIFFERENTIABLE,
    role=Role.CONSTANT,
)


def dims_operand(context: ShapeContext, position: int) -> Dims:
    """Return the shape that a shape operand holds, as far as it is known.

    Raises:
        GraphValueError: the operand is not a vector, or has a negative element.
    """
    shapes.with_rank(context.inputs[position], 1)
    value = context.value(position)
    if value is not None and (value < 0).any():
        raise GraphValueError(f"Dimensions must be a vector of values >= 0, got {value.tolist()}")
    return context.partial(position)


def shape_from(value: Array) -> tuple[int, ...]:
    """Return the shape that a shape operand holds; for kernels.

    Raises:
        InvalidArgumentError: the operand is not a vector, or has a negative element.
    """
    if value.ndim != 1 or (value < 0).any():
        raise InvalidArgumentError(f"Dimensions must be a vector of values >= 0, got {value.tolist()}")
    return tuple(value.tolist())


def _filled_shape(context: ShapeContext) -> Sequence[Dims]:
    shapes.with_rank(context.inputs[1], 0)
    return [dims_operand(context, 0)]


def _fill(dims: Array, value: Array) -> Array:
    if value.shape not in ((), (1,)):
        raise InvalidArgumentError(f"value must be a scalar, got shape {value.shape}")
    return np.full(shape_from(np.atleast_1d(dims)), value, value.dtype)


def _bind_fill(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    (output,) = outputs
    if not movable(output):
        return None
    size, dims = output.dtype.itemsize, output.shape
    broadcast, dense = (0,) * len(dims), c_strides(dims, size)
    return rows_of(copy_launch(Operand("input", 1), broadcast, Operand("output", 0), dense, dims, size))


register(
    "Fill(dims:index_type, value:T) -> (output:T) [T:type; index_type:type{int32|int64}=int32]",
    shape=_filled_shape,
    kernel=plain(_fill),
    gradient=lambda op, dy: [None, _sum_of_all(dy)],
    native=Native(_bind_fill),
    shape_operands=(0,),
)


def _sum_of_all(tensor: Tensor) -> Tensor:
    zero, one = (convert_to_tensor(number, dtypes.int32) for number in (0, 1))
    return apply_op("Sum", tensor, apply_op("Range", zero, apply_op("Rank", tensor), one))


def _likeness(number: int) -> Any:
    def bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
        (output,) = outputs
        if not movable(output) or output.dtype.name == "float16":
            return None
        size = output.dtype.itemsize
        value = bool(number) if output.dtype.kind == "b" else number
        row = fill_launch(
            value, Operand("output", 0), c_strides(output.shape, size), output.shape, output.dtype.name
        )
        return rows_of(row)

    return bind


def _zeros_like(x: Array) -> Array:
    if x.dtype == object:
        return np.full(x.shape, b"", object)
    return np.zeros(x.shape, x.dtype)


register(
    "ZerosLike(x:T) -> (y:T) [T:type]",
    shape=same_shape,
    kernel=lambda context: zeros_like_variant if context.output_dtypes[0] == dtypes.variant else _zeros_like,
    gradient=NOT_DIFFERENTIABLE,
    native=Native(_likeness(0)),
    shape_only=True,
)
register(
    "OnesLike(x:T) -> (y:T) [T:type@25]",
    shape=same_shape,
    kernel=plain(lambda x: np.ones(x.shape, x.dtype)),
    gradient=NOT_DIFFERENTIABLE,
    native=Native(_likeness(1)),
    shape_only=True,
)

# Ranges


_LONGEST = 2**63 - 1


def range_size(start: Any, limit: Any, delta: Any) -> int:
    """Return the number of elements of a range.

    Raises:
        InvalidArgumentError: delta is 0 or has the wrong sign, or the range is too long.
    """
    if delta == 0:
        raise InvalidArgumentError("Requires delta != 0: 0")
    if (delta > 0 and start > limit) or (delta < 0 and start < limit):
        relation = "<=" if delta > 0 else ">="
        raise InvalidArgumentError(
            f"Requires start {relation} limit when delta {relation[0]} 0: {start}/{limit}"
        )
    if isinstance(delta, int):
        count = int(-(-abs(limit - start) // abs(delta)))
    else:
        count = int(np.ceil(abs((limit - start) / delta)))
    if count > _LONGEST:
        raise InvalidArgumentError(f"Requires ((limit - start) / delta) <= {_LONGEST}")
    return count


def _range_shape(context: ShapeContext) -> Sequence[Dims]:
    for dims in context.inputs:
        shapes.with_rank(dims, 0)
    values = [context.value(k) for k in range(3)]
    known = [value.item() for value in values if value is not None]
    if len(known) < 3:
        return [(None,)]
    try:
        return [(range_size(*known),)]
    except InvalidArgumentError as error:
        raise GraphValueError(error.message) from error


def _range(start: Array, limit: Array, delta: Array) -> Array:
    for name, value in (("start", start), ("limit", limit), ("delta", delta)):
        if value.ndim > 1 or value.size != 1:  # a vector of one element is accepted as a scalar
            raise InvalidArgumentError(f"{name} must be a scalar, not shape {list(value.shape)}")
    first, step = start.item(), delta.item()
    count = range_size(first, limit.item(), step)
    room_for((count,), start.dtype.itemsize)
    if start.dtype.kind in "iu":
        return np.asarray(first + step * np.arange(count)).astype(start.dtype)
    return np.asarray(first + step * np.arange(count, dtype=np.float64)).astype(start.dtype)


def range_of_reals(start: Any, delta: Any, out: Any, count: int) -> int:
    """out[i] = start + i delta, rounded once."""
    first, step = float64(start[0]), float64(delta[0])
    for i in range(count):
        out[i] = first + i * step
    return 0


def range_of_integers(start: Any, delta: Any, out: Any, count: int) -> int:
    """out[i] = start + i delta."""
    for i in range(count):
        out[i] = int64(start[0]) + i * int64(delta[0])
    return 0


def _bind_range(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    (output,) = outputs
    body = range_of_reals if output.dtype.kind == "f" else range_of_integers
    return _counting_launches(body, inputs, (0, 2), output)


def _counting_launches(
    body: Any, inputs: Sequence[Spec], used: tuple[int, ...], output: Spec
) -> Launches | None:
    """Launch a loop over the elements of the output, with scalar operands."""
    if output.dtype.name not in _COUNTED:
        return None
    operands = (*(Operand("input", k) for k in used), Operand("output", 0))
    kernel = LoopKernel(body, (output.dtype.name,) * len(operands), 1, 0)
    return Launches((Launch(kernel, operands, (output.size,), cost=10 + output.size),))


_COUNTED = frozenset({"float32", "float64", "int32", "int64"})

register(
    "Range(start:Tidx, limit:Tidx, delta:Tidx) -> (output:Tidx) [Tidx:type@27=int32]",
    shape=_range_shape,
    kernel=plain(_range),
    gradient=NOT_DIFFERENTIABLE,
    native=Native(_bind_range, _COUNTED),
    shape_operands=(0, 1, 2),
)


def _linspace_shape(context: ShapeContext) -> Sequence[Dims]:
    shapes.with_rank(context.inputs[0], 0)
    shapes.with_rank(context.inputs[1], 0)
    count = context.value(2)
    if count is not None and count <= 0:
        raise GraphValueError(f"Requires num > 0: {int(count)}")
    return [(None if count is None else int(count),)]


def _linspace(start: Array, stop: Array, num: Array) -> Array:
    if start.ndim or stop.ndim or num.ndim or num <= 0:
        raise InvalidArgumentError(f"Requires scalars and num > 0, got {num.tolist()}")
    return np.linspace(start.astype(np.float64), stop.astype(np.float64), int(num)).astype(start.dtype)


def evenly_spaced(start: Any, stop: Any, out: Any, count: int) -> int:
    """Return `num` values from start to stop, both included; a single one is start."""
    first, last = float64(start[0]), float64(stop[0])
    step = (last - first) / max(count - 1, 1)
    for i in range(count):
        out[i] = last if i == count - 1 and count > 1 else first + i * step
    return 0


def _bind_linspace(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    return _counting_launches(evenly_spaced, inputs, (0, 1), outputs[0])


register(
    "LinSpace(start:T, stop:T, num:Tidx) -> (output:T) [T:type{bfloat16|half|float|double}; Tidx:type{int32|int64}=int32]",
    shape=_linspace_shape,
    kernel=plain(_linspace),
    gradient=NOT_DIFFERENTIABLE,
    native=Native(_bind_linspace, frozenset({"float32", "float64"})),
    shape_operands=(2,),
)

# One-hot


def _one_hot_axis(attrs: Attrs, rank: int) -> int:
    axis = attrs["axis"]
    if not -1 <= axis <= rank:
        raise GraphValueError(f"Expected axis to be -1 or between [0, {rank}], got {axis}")
    return rank if axis == -1 else int(axis)


def _one_hot_shape(context: ShapeContext) -> Sequence[Dims]:
    indices, depth = context.inputs[0], context.value(1)
    for dims in context.inputs[1:]:
        shapes.with_rank(dims, 0)
    if depth is not None and depth < 0:
        raise GraphValueError(f"depth must be >= 0, got {int(depth)}")
    if indices is None:
        return [None]
    axis = _one_hot_axis(context.attrs, len(indices))
    return [(*indices[:axis], None if depth is None else int(depth), *indices[axis:])]


def _one_hot(context: KernelContext) -> Compute:
    def compute(indices: Array, depth: Array, on_value: Array, off_value: Array) -> Array:
        for name, value in (("depth", depth), ("on_value", on_value), ("off_value", off_value)):
            if value.ndim:
                raise InvalidArgumentError(f"{name} must be a scalar, but got: {list(value.shape)}")
        if depth < 0:
            raise InvalidArgumentError(f"depth must be non-negative, got: {int(depth)}")
        axis = _one_hot_axis(context.attrs, indices.ndim)
        if not indices.size:
            return np.empty((*indices.shape[:axis], int(depth), *indices.shape[axis:]), on_value.dtype)
        places = np.arange(int(depth)).reshape([-1 if k == axis else 1 for k in range(indices.ndim + 1)])
        hot = np.expand_dims(indices.astype(np.int64), axis) == places
        return np.where(hot, on_value, off_value)

    return compute


def one_hot_rows(indices: Any, on: Any, out: Any, prefix: int, depth: int, suffix: int) -> int:
    """Set the element each index points at; the rest is filled already."""
    for i in range(prefix):
        for j in range(suffix):
            k = indices[i * suffix + j]
            if k >= 0 and k < depth:
                out[(i * depth + k) * suffix + j] = on[0]
    return 0


def _bind_one_hot(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    (output,) = outputs
    if not movable(output) or output.dtype.name == "float16":
        return None
    indices, size = inputs[0], output.dtype.itemsize
    axis = _one_hot_axis(attrs, len(indices.shape))
    prefix = int(np.prod(indices.shape[:axis], dtype=np.int64))
    suffix = int(np.prod(indices.shape[axis:], dtype=np.int64))
    if output.size == 0:
        return rows_of()
    target = Operand("output", 0)
    fill = copy_launch(
        Operand("input", 3),
        (0,) * len(output.shape),
        target,
        c_strides(output.shape, size),
        output.shape,
        size,
    )
    name = output.dtype.name
    kernel = LoopKernel(one_hot_rows, (indices.dtype.name, name, name), 3, 0)
    operands = (Operand("input", 0), Operand("input", 2), target)
    return rows_of(
        fill, Launch(kernel, operands, (prefix, output.shape[axis], suffix), cost=10 + 2 * prefix * suffix)
    )


register(
    "OneHot(indices:TI, depth:int32, on_value:T, off_value:T) -> (output:T) "
    "[axis:int=-1; T:type; TI:type{uint8|int8|int32|int64}=int64]",
    shape=_one_hot_shape,
    kernel=_one_hot,
    gradient=NOT_DIFFERENTIABLE,
    native=Native(_bind_one_hot),
    shape_operands=(1,),
)


# Functions


def fill(dims: Any, value: Any, name: str | None = None) -> Tensor:
    """Create a tensor of shape `dims` filled with `value`."""
    return apply_op("Fill", dims, value, name=name)


def zeros(shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """Create a tensor of zeros (empty strings, False); the shape may be a tensor."""
    return _filled(shape, dtype, name, "zeros", 0)


def ones(shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """Create a tensor of ones (True); the shape may be a tensor."""
    return _filled(shape, dtype, name, "ones", 1)


LARGEST_CONSTANT = 1000
"""Upper bound for the elements of zeros and ones that become a Const node."""


def _filled(shape: Any, dtype: Any, name: str | None, default_name: str, number: int) -> Tensor:
    wanted = dtypes.as_dtype(dtype).base_dtype
    value: Any = bool(number) if wanted == dtypes.bool_ else "" if wanted == dtypes.string else number
    with op_scope(name, default_name, shape) as scope:
        if symbolic_dtype(shape) is None:
            dims = shapes.as_dims(shape)
            count = shapes.num_elements(dims)
            if count is not None and count < LARGEST_CONSTANT:
                return constant(value, wanted, shape=list(dims or ()), name=scope)
            shape = convert_to_tensor(list(dims or ()), dtypes.int32)
        shape = convert_to_tensor(shape, name="shape")
        if shape.dims == ():
            shape = apply_op("Reshape", shape, convert_to_tensor([-1], dtypes.int32))
        return apply_op("Fill", shape, convert_to_tensor(value, wanted), name=scope)


def zeros_like(tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Tensor:
    """Create zeros of the shape of `tensor`, with its dtype or `dtype`."""
    return _alike(tensor, dtype, name, "ZerosLike", zeros, optimize)


def ones_like(tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Tensor:
    """Create ones of the shape of `tensor`, with its dtype or `dtype`."""
    return _alike(tensor, dtype, name, "OnesLike", ones, optimize)


def _alike(
    tensor: Any, dtype: Any, name: str | None, op_type: str, maker: Callable[..., Tensor], optimize: bool
) -> Tensor:
    default_name = "zeros_like" if op_type == "ZerosLike" else "ones_like"
    with op_scope(name, default_name, tensor) as scope:
        given = convert_to_tensor(tensor, name="tensor")
        wanted = given.dtype.base_dtype if dtype is None else dtypes.as_dtype(dtype).base_dtype
        if optimize and shapes.is_fully_defined(given.dims):
            return maker(given.dims, wanted, name=scope)
        if wanted == given.dtype.base_dtype:
            return apply_op(op_type, given, name=scope)
        made = maker(apply_op("Shape", given), wanted, name=scope)
        made.set_shape(given.dims)
        return made


def range_(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = "range") -> Tensor:
    """Create the sequence start, start + delta, … up to but not including limit; `range(n)` starts at 0.

    The dtype is `dtype`, or the widest of the arguments.
    """
    if limit is None:
        start, limit = 0, start
    with op_scope(name, "range", start, limit, delta) as scope:
        given = [convert_to_tensor(value, dtype, what) for value, what in _named(start, limit, delta)]
        order = [dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64]
        if dtype is None:
            held = [tensor.dtype.base_dtype for tensor in given]
            widest = max(held, key=lambda item: order.index(item) if item in order else -1)
            given = [
                tensor if tensor.dtype.base_dtype == widest else apply_op("Cast", tensor, DstT=widest)
                for tensor in given
            ]
        return apply_op("Range", *given, name=scope)


def _named(start: Any, limit: Any, delta: Any) -> list[tuple[Any, str]]:
    return [(start, "start"), (limit, "limit"), (delta, "delta")]


def linspace(start: Any, stop: Any, num: Any, name: str | None = None) -> Tensor:
    """Create `num` evenly spaced values from start to stop, both included."""
    return apply_op("LinSpace", start, stop, num, name=name)


lin_space = linspace


def one_hot(
    indices: Any,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: int | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """Create rows of `depth` elements along a new dimension `axis`: `on_value` at the index, `off_value` elsewhere.

    The values default to 1 and 0 of `dtype`, which defaults to that of the values or float32.
    """
    with op_scope(name, "one_hot", indices, depth, on_value, off_value) as scope:
        held = symbolic_dtype(on_value) or symbolic_dtype(off_value)
        given = next((value for value in (on_value, off_value) if value is not None), None)
        if dtype is None and held is None and given is not None:
            held = dtypes.infer_dtype(given)
        wanted = dtypes.as_dtype(dtype) if dtype is not None else held or dtypes.float32
        on, off = (
            convert_to_tensor(default if value is None else value, wanted, what)
            for value, default, what in (
                (on_value, wanted == dtypes.bool_ or 1, "on_value"),
                (off_value, 0 if wanted != dtypes.bool_ else False, "off_value"),
            )
        )
        return apply_op("OneHot", indices, depth, on, off, name=scope, axis=-1 if axis is None else axis)
