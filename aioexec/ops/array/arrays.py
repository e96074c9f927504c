"""Ops that change the shape or layout of a tensor: reshape, squeeze, transpose, tile, broadcast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.convert import convert_to_tensor
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
from aioexec.graph.kernels.launches import broadcast_strides, c_strides
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register
from aioexec.ops.array.filling import dims_operand, shape_from
from aioexec.ops.array.identity import ALIAS
from aioexec.ops.common.elementwise import Array, op_scope, shown
from aioexec.ops.common.strided_copies import Piece, into, movable, rows_of, views
from aioexec.shapes import Dims


def to_shape_of(op: Operation, dy: Tensor) -> Tensor:
    """Reshape a gradient to the shape of the op's first input."""
    return apply_op("Reshape", dy, apply_op("Shape", op.inputs[0]))


def axis_of(axis: int, rank: int) -> int:
    """Return a dimension number in [0, rank).

    Raises:
        GraphValueError: `axis` is not in [-rank, rank).
    """
    if not -rank <= axis < rank:
        raise GraphValueError(f"dimension {axis} is not in the range [{-rank}, {rank})")
    return axis % rank if rank else 0


def run_time(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a shape rule for use by kernels: its GraphValueError becomes an InvalidArgumentError."""

    def called(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except GraphValueError as error:
            raise InvalidArgumentError(error.message) from None

    return called


# Reshape


def reshaped(dims: Dims, wanted: tuple[int | None, ...]) -> Dims:
    """Return the shape after a reshape. In `wanted`, None stands for an unknown size or one to be inferred (-1)."""
    count = shapes.num_elements(dims)
    known = prod(dim for dim in wanted if dim is not None)
    missing = wanted.count(None)
    if count is None or missing > 1:
        return wanted
    if missing == 0:
        if known != count:
            raise GraphValueError(
                f"Cannot reshape {count} elements to {shapes.describe(wanted)} ({known} elements)"
            )
        return wanted
    if known == 0 and count == 0:
        return wanted
    if known == 0 or count % known:
        raise GraphValueError(
            f"Cannot reshape {count} elements to {shapes.describe(wanted)}: {known} does not divide it"
        )
    return tuple(count // known if dim is None else dim for dim in wanted)


def _infer_of_empty(dims: Sequence[int | None], wanted: Sequence[int]) -> list[int]:
    """Infer the size -1 for a tensor without elements as if no size were 0, as TensorFlow does."""
    left = prod(dim for dim in dims if dim) // prod(dim for dim in wanted if dim > 0)
    return [left if dim == -1 else dim for dim in wanted]


def _reshape_shape(context: ShapeContext) -> Sequence[Dims]:
    shapes.with_rank(context.inputs[1], 1)
    value = context.value(1)
    if value is None:
        wanted = context.partial(1)
        return [wanted if wanted is None else _infer(context.inputs[0], wanted)]
    dims = value.reshape(-1).tolist()
    if dims.count(-1) > 1 or any(dim < -1 for dim in dims):
        raise GraphValueError(f"expected sizes >= 0 and at most one -1, got {dims}")
    given = context.inputs[0]
    done = reshaped(given, tuple(None if dim == -1 else dim for dim in dims))
    if done is not None and None in done and given is not None and None not in given:
        return [tuple(_infer_of_empty(given, dims))]
    return [done]


def _infer(dims: Dims, wanted: tuple[int | None, ...]) -> Dims:
    """Infer the unknown size if it is the only one."""
    return reshaped(dims, wanted) if wanted.count(None) <= 1 else wanted


def _reshape(x: Array, shape: Array) -> Array:
    if shape.ndim > 1:
        raise InvalidArgumentError(f"sizes input must be 1-D, not {list(shape.shape)}")
    dims = shape.reshape(-1).tolist()
    known = prod(dim for dim in dims if dim != -1)
    if dims.count(-1) > 1 or any(dim < -1 for dim in dims):
        raise InvalidArgumentError(f"Expected sizes >= 0 and at most one -1, got {shown(dims)}")
    if -1 in dims:
        if known == 0 and x.size == 0:
            dims = _infer_of_empty(x.shape, dims)
        elif known == 0 or x.size % known:
            raise InvalidArgumentError(
                f"Input has {x.size} values, requested shape {shown(dims)} needs a multiple of {known}"
            )
    elif known != x.size:
        raise InvalidArgumentError(
            f"Input has {x.size} values, but the requested shape {shown(dims)} has {known}"
        )
    return x.reshape(dims)


def _alias_first(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Alias:
    return Alias((0,), (0,))


FIRST = Native(_alias_first)

register(
    "Reshape(tensor:T, shape:Tshape) -> (output:T) [T:type; Tshape:type{int32|int64}=int32]",
    shape=_reshape_shape,
    kernel=plain(_reshape),
    gradient=lambda op, dy: [to_shape_of(op, dy), None],
    native=FIRST,
    shape_operands=(1,),
)


def _expanded_shape(context: ShapeContext) -> Sequence[Dims]:
    dims, axis = context.inputs[0], context.value(1)
    if dims is None or axis is None:
        return [None]
    k = axis_of(_single(axis), len(dims) + 1)
    return [(*dims[:k], 1, *dims[k:])]


def _single(dim: Array) -> int:
    if dim.size != 1:
        raise GraphValueError(f"'dim' must be a tensor with a single value, got shape {shown(dim.shape)}")
    return int(dim.reshape(-1)[0])


@run_time
def _expand(x: Array, axis: Array) -> Array:
    return np.expand_dims(x, axis_of(_single(axis), x.ndim + 1))


register(
    "ExpandDims(input:T, dim:Tdim) -> (output:T) [T:type; Tdim:type{int32|int64}=int32]",
    shape=_expanded_shape,
    kernel=plain(_expand),
    gradient=lambda op, dy: [to_shape_of(op, dy), None],
    native=FIRST,
    shape_operands=(1,),
)


def squeezed(dims: tuple[int | None, ...], axes: Sequence[int]) -> Dims:
    """Return a shape without its dimensions of 1, or without those at `axes`."""
    if not axes:
        return None if None in dims else tuple(dim for dim in dims if dim != 1)
    dropped = {axis_of(axis, len(dims)) for axis in axes}
    for k in dropped:
        if dims[k] not in (1, None):
            raise GraphValueError(f"Can not squeeze dim[{k}], expected a dimension of 1, got {dims[k]}")
    return tuple(dim for k, dim in enumerate(dims) if k not in dropped)


def _squeeze(context: KernelContext) -> Compute:
    axes = context.attrs["squeeze_dims"]
    return run_time(lambda x: x.reshape(squeezed(x.shape, axes)))


register(
    "Squeeze(input:T) -> (output:T) [T:type; squeeze_dims:list(int)>=0=[]]",
    shape=lambda c: [None if c.inputs[0] is None else squeezed(c.inputs[0], c.attrs["squeeze_dims"])],
    kernel=_squeeze,
    gradient=lambda op, dy: [to_shape_of(op, dy)],
    native=ALIAS,
)

# Transpose


def permuted(dims: Dims, perm: Array | None) -> Dims:
    """Return a shape with its dimensions in the order of `perm`.

    Raises:
        GraphValueError: `perm` is not a permutation of the dimensions.
    """
    if perm is None:
        return None if dims is None else (None,) * len(dims)
    order = perm.reshape(-1).tolist()
    rank = len(order)
    if dims is not None and len(dims) != rank:
        raise GraphValueError(f"transpose expects a vector of size {len(dims)}, got one of size {rank}")
    if sorted(axis % rank if -rank <= axis < rank else rank for axis in order) != list(range(rank)):
        raise GraphValueError(f"{order} is not a permutation of 0, …, {rank - 1}")
    return (None,) * rank if dims is None else tuple(dims[axis] for axis in order)


def _transposed_shape(context: ShapeContext) -> Sequence[Dims]:
    dims, perm = context.inputs[0], context.value(1)
    (length,) = shapes.with_rank(context.inputs[1], 1) or (None,)
    if dims is None and perm is None and length is not None:
        return [shapes.of_rank(length)]
    return [permuted(dims, perm)]


@run_time
def _transpose(x: Array, perm: Array) -> Array:
    if perm.ndim != 1:
        raise InvalidArgumentError(f"perm must be rank 1, got shape {list(perm.shape)}")
    permuted(x.shape, perm)
    return np.transpose(x, perm)


def _conjugate_transpose(x: Array, perm: Array) -> Array:
    moved: Array = _transpose(x, perm)
    return np.conj(moved) if moved.dtype.kind == "c" else moved


def _bind_transpose(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | Alias | None:
    x, perm = inputs
    if perm.value is None:
        return None
    strides = c_strides(x.shape, x.dtype.itemsize)
    moved = tuple(strides[axis] for axis in perm.value.reshape(-1).tolist())
    return views([Piece(0, 0, moved, outputs[0].shape)], outputs)


for _name in ("Transpose", "ConjugateTranspose"):
    register(
        f"{_name}(x:T, perm:Tperm) -> (y:T) [T:type; Tperm:type{{int32|int64}}=int32]",
        shape=_transposed_shape,
        kernel=plain(_transpose if _name == "Transpose" else _conjugate_transpose),
        gradient=lambda op, dy: [apply_op(op.type, dy, apply_op("InvertPermutation", op.inputs[1])), None],
        native=Native(_bind_transpose),
        shape_operands=(1,),
    )

# Tile and broadcast


def _tiled_shape(context: ShapeContext) -> Sequence[Dims]:
    shapes.with_rank(context.inputs[1], 1)
    dims, times = context.inputs[0], context.value(1)
    if times is None:
        length = len(dims) if dims is not None else context.inputs[1][0] if context.inputs[1] else None
        return [shapes.of_rank(length)]
    if dims is not None and len(dims) != times.size:
        raise GraphValueError(f"Expected multiples of length {len(dims)}, got {times.tolist()}")
    if (times < 0).any():
        raise GraphValueError(f"multiples must be >= 0, got {times.tolist()}")
    dims = shapes.with_rank(dims, times.size) or ()
    return [
        tuple(
            None if d is None and t else int(t) * (d or 0) for d, t in zip(dims, times.tolist(), strict=True)
        )
    ]


def _tile(x: Array, multiples: Array) -> Array:
    times = shape_from(multiples)
    if len(times) != x.ndim:
        raise InvalidArgumentError(
            f"Expected multiples argument to be a vector of length {x.ndim} but got {shown(multiples)}"
        )
    return np.tile(x, times)


def _tile_gradient(op: Operation, dy: Tensor) -> Sequence[Any]:
    """Split each dimension into (copies, size), and sum over the copies."""
    x, multiples = op.inputs
    shape = apply_op("Shape", x, out_type=multiples.dtype.base_dtype)
    flat = convert_to_tensor([-1], dtypes.int32)
    pairs = apply_op(
        "Transpose", apply_op("Pack", [multiples, shape]), convert_to_tensor([1, 0], dtypes.int32)
    )
    split = apply_op("Reshape", dy, apply_op("Reshape", pairs, flat))
    zero, two = (convert_to_tensor(number, dtypes.int32) for number in (0, 2))
    axes = apply_op("Range", zero, apply_op("Mul", apply_op("Rank", x), two), two)
    summed = apply_op("Sum", split, axes)
    summed.set_shape(x.dims)
    return [summed, None]


def _bind_tile(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | Alias | None:
    x, multiples = inputs
    if multiples.value is None:
        return None
    strides, shape = [], []
    pairs = zip(multiples.value.tolist(), x.shape, c_strides(x.shape, x.dtype.itemsize), strict=True)
    for times, dim, stride in pairs:
        strides += [0, stride]
        shape += [times, dim]
    size = x.dtype.itemsize
    if not movable(x):
        return None
    piece = Piece(0, 0, tuple(strides), tuple(shape))
    return rows_of(into(piece, Operand("output", 0), c_strides(piece.shape, size), size))


register(
    "Tile(input:T, multiples:Tmultiples) -> (output:T) [T:type; Tmultiples:type{int32|int64}=int32]",
    shape=_tiled_shape,
    kernel=plain(_tile),
    gradient=_tile_gradient,
    native=Native(_bind_tile),
    shape_operands=(1,),
)


def _broadcast_to_shape(context: ShapeContext) -> Sequence[Dims]:
    wanted, dims = dims_operand(context, 1), context.inputs[0]
    if shapes.is_fully_defined(wanted) and dims is not None:
        _check_broadcast(dims, wanted or ())
    if wanted is None or dims is None or len(dims) > len(wanted):
        return [wanted]
    padded = (1,) * (len(wanted) - len(dims)) + dims
    return [tuple(b if a in (1, None) else a for a, b in zip(padded, wanted, strict=True))]


def _check_broadcast(dims: Sequence[int | None], wanted: Sequence[int | None]) -> None:
    padded = (1,) * (len(wanted) - len(dims)) + tuple(dims)
    if len(dims) > len(wanted) or any(
        a not in (1, None) and a != b for a, b in zip(padded, wanted, strict=True)
    ):
        raise GraphValueError(
            f"shape {shapes.describe(tuple(dims))} does not broadcast to {shapes.describe(tuple(wanted))}"
        )


@run_time
def _broadcast_to(x: Array, shape: Array) -> Array:
    wanted = shape_from(shape)
    _check_broadcast(x.shape, wanted)
    return np.broadcast_to(x, wanted).copy()


def _broadcast_to_gradient(op: Operation, dy: Tensor) -> Sequence[Any]:
    x, wanted = op.inputs
    shape = apply_op("Shape", x, out_type=wanted.dtype.base_dtype)
    axes, _ = apply_tuple_op("BroadcastGradientArgs", shape, wanted)
    return [apply_op("Reshape", apply_op("Sum", dy, axes), shape), None]


def _bind_broadcast(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | Alias | None:
    (output,) = outputs
    strides = broadcast_strides(inputs[0].shape, output.dtype.itemsize, output.shape)
    return views([Piece(0, 0, strides, output.shape)], outputs)


register(
    "BroadcastTo(input:T, shape:Tidx) -> (output:T) [T:type; Tidx:type{int32|int64}=int32]",
    shape=_broadcast_to_shape,
    kernel=plain(_broadcast_to),
    gradient=_broadcast_to_gradient,
    native=Native(_bind_broadcast),
    shape_operands=(1,),
)

# Functions


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """Reshape a tensor; one size of the new shape may be -1 and is then inferred."""
    return apply_op("Reshape", tensor, shape_argument(shape), name=name)


def shape_argument(shape: Any) -> Any:
    """Convert a shape to an argument of an op; an empty list becomes int32, not float32."""
    if isinstance(shape, shapes.TensorShape):
        shape = shape.as_list()
    if isinstance(shape, list | tuple) and not shape:
        return convert_to_tensor([], dtypes.int32)
    if isinstance(shape, list | tuple):
        return [item.value if isinstance(item, shapes.Dimension) else item for item in shape]
    return shape


def expand_dims(input: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Tensor:
    """Insert a dimension of 1 at `axis`.

    Raises:
        GraphValueError: both `axis` and its old name `dim` are given, or neither.
    """
    if (axis is None) == (dim is None):
        raise GraphValueError("expand_dims takes axis (or dim, its old name), and not both")
    return apply_op("ExpandDims", input, dim if axis is None else axis, name=name)


def squeeze(input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None) -> Tensor:
    """Remove the dimensions of 1, or only those in `axis`."""
    axes = squeeze_dims if axis is None else axis
    if axes is None:
        axes = []
    return apply_op("Squeeze", input, name=name, squeeze_dims=[axes] if np.isscalar(axes) else axes)


def transpose(a: Any, perm: Any = None, name: str = "transpose", conjugate: bool = False) -> Tensor:
    """Permute the dimensions of `a` by `perm`; by default reverse their order."""
    with op_scope(name, "transpose", a) as scope:
        tensor = convert_to_tensor(a, name="a")
        op_type = "ConjugateTranspose" if conjugate and tensor.dtype.is_complex else "Transpose"
        if perm is None and tensor.dims is not None:
            perm = convert_to_tensor(list(range(len(tensor.dims)))[::-1], dtypes.int32, "perm")
        elif perm is None:
            one, zero = convert_to_tensor(1, dtypes.int32), convert_to_tensor(0, dtypes.int32)
            last = apply_op("Sub", apply_op("Rank", tensor), one)
            perm = apply_op("Sub", last, apply_op("Range", zero, apply_op("Rank", tensor), one))
        elif isinstance(perm, list | tuple) and not perm:
            perm = convert_to_tensor([], dtypes.int32)
        return apply_op(op_type, tensor, perm, name=scope)


def matrix_transpose(a: Any, name: str = "matrix_transpose", conjugate: bool = False) -> Tensor:
    """Exchange the last two dimensions of `a`."""
    tensor = convert_to_tensor(a, name="a")
    rank = len(shapes.with_rank_at_least(tensor.dims, 2) or ())
    if not rank:
        raise GraphValueError("matrix_transpose needs a tensor of known rank")
    return transpose(tensor, [*range(rank - 2), rank - 1, rank - 2], name, conjugate)


def tile(input: Any, multiples: Any, name: str | None = None) -> Tensor:
    """Repeat `input` `multiples[k]` times along dimension k."""
    return apply_op("Tile", input, shape_argument(multiples), name=name)


def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """Broadcast `input` to a shape."""
    return apply_op("BroadcastTo", input, shape_argument(shape), name=name)
