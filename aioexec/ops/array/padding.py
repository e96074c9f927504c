"""Ops that pad a tensor with zeros, a constant or its mirror image."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.kernels.kernel import (
    Attrs,
    Compute,
    KernelContext,
    Launch,
    Launches,
    Native,
    Operand,
    Spec,
    plain,
)
from aioexec.graph.kernels.launches import c_strides, copy_launch, fill_launch
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register
from aioexec.ops.array.arrays import run_time
from aioexec.ops.common.elementwise import Array
from aioexec.ops.common.strided_copies import Piece, into, movable, rows_of
from aioexec.shapes import Dims

Pair = Sequence[int]


def padded(dims: Dims, paddings: Array | None, pairs: Dims) -> Dims:
    """Return a shape with (before, after) elements added to each dimension.

    Raises:
        GraphValueError: `paddings` is not a pair of non-negative numbers for each dimension.
    """
    if paddings is None:
        rank = len(dims) if dims is not None else pairs[0] if pairs else None
        return shapes.of_rank(rank)
    if paddings.ndim != 2 or paddings.shape[1] != 2 or (dims is not None and len(paddings) != len(dims)):
        raise GraphValueError(
            f"paddings must be a matrix with 2 columns and a row for each dimension, got {paddings.tolist()}"
        )
    if (paddings < 0).any():
        raise GraphValueError(f"Paddings must be non-negative: {paddings.tolist()}")
    known = dims if dims is not None else (None,) * len(paddings)
    return tuple(
        None if d is None else d + int(a) + int(b) for d, (a, b) in zip(known, paddings.tolist(), strict=True)
    )


def _shape(context: ShapeContext) -> Sequence[Dims]:
    return [padded(context.inputs[0], context.value(1), context.inputs[1])]


@run_time
def _pad(x: Array, paddings: Array, value: Any = None) -> Array:
    shape = padded(x.shape, paddings, None)
    if value is not None and value.ndim:
        raise InvalidArgumentError(f"constant_values must be a scalar. Found: {list(value.shape)}")
    if value is None:
        value = b"" if x.dtype == object else 0
    result = np.full([int(dim or 0) for dim in shape or ()], value, x.dtype)
    result[_inside(x.shape, paddings)] = x
    return result


def _inside(shape: Sequence[int], paddings: Array) -> tuple[slice, ...]:
    return tuple(
        slice(before, before + dim) for dim, (before, _) in zip(shape, paddings.tolist(), strict=True)
    )


def _gradient(op: Operation, dy: Tensor) -> list[Any]:
    """Return the part of dy inside the padding."""
    x, paddings = op.inputs[:2]
    column = apply_op("Slice", paddings, _vector(0, 0), apply_op("Pack", [apply_op("Rank", x), _scalar(1)]))
    begin = apply_op("Reshape", column, _vector(-1))
    part = apply_op("Slice", dy, begin, apply_op("Shape", x, out_type=paddings.dtype.base_dtype))
    return [part, *[None] * (len(op.inputs) - 1)]


def _scalar(value: int) -> Tensor:
    return convert_to_tensor(value, dtypes.int32)


def _vector(*values: int) -> Tensor:
    return convert_to_tensor(list(values), dtypes.int32)


def _bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    (output,), (x, paddings) = outputs, inputs[:2]
    if paddings.value is None or not movable(output) or output.dtype.name == "float16":
        return None
    if len(inputs) == 3 and inputs[2].shape:
        return None
    size, target = output.dtype.itemsize, Operand("output", 0)
    strides = c_strides(output.shape, size)
    offset = sum(
        before * stride for (before, _), stride in zip(paddings.value.tolist(), strides, strict=True)
    )
    around: Launch | None
    if x.size == output.size:
        around = None
    elif len(inputs) == 3:
        around = copy_launch(Operand("input", 2), (0,) * len(strides), target, strides, output.shape, size)
    else:
        zero = False if output.dtype.kind == "b" else 0
        around = fill_launch(zero, target, strides, output.shape, output.dtype.name)
    return rows_of(
        around,
        into(Piece(0, 0, c_strides(x.shape, size), x.shape), Operand("output", 0, offset), strides, size),
    )


register(
    "Pad(input:T, paddings:Tpaddings) -> (output:T) [T:type; Tpaddings:type{int32|int64}=int32]",
    shape=_shape,
    kernel=plain(_pad),
    gradient=_gradient,
    native=Native(_bind),
    shape_operands=(1,),
)
register(
    "PadV2(input:T, paddings:Tpaddings, constant_values:T) -> (output:T) [T:type; Tpaddings:type{int32|int64}=int32]",
    shape=_shape,
    kernel=plain(_pad),
    gradient=_gradient,
    native=Native(_bind),
    shape_operands=(1,),
)

# Mirrors


def mirror_segments(dim: int, pair: Pair, shared: int) -> list[tuple[int, int, int, int]]:
    """(first source, step, first target, count) of the mirror before, the content, and the mirror after.

    `shared` is 1 if the edge element is not repeated (REFLECT), else 0.
    """
    before, after = pair
    return [
        (before - 1 + shared, -1, 0, before),
        (0, 1, before, dim),
        (dim - 1 - shared, -1, before + dim, after),
    ]


def _check_mirror(shape: Sequence[int], paddings: Array, shared: int) -> None:
    for dim, pair in zip(shape, paddings.tolist(), strict=True):
        if max(pair) > dim - shared:
            raise InvalidArgumentError(
                f"paddings must be no greater than the dimension size: {pair} for {dim}"
            )


def _mirror_pad(context: KernelContext) -> Compute:
    mode = context.attrs["mode"].lower()
    shared = int(mode == "reflect")

    @run_time
    def compute(x: Array, paddings: Array) -> Array:
        padded(x.shape, paddings, None)
        _check_mirror(x.shape, paddings, shared)
        index = [_mirror_index(d, pair, shared) for d, pair in zip(x.shape, paddings.tolist(), strict=True)]
        return np.asarray(x[np.ix_(*index)])

    return compute


def _mirror_index(dim: int, pair: Pair, shared: int) -> Array:
    parts = [first + step * np.arange(count) for first, step, _, count in mirror_segments(dim, pair, shared)]
    return np.concatenate(parts).astype(np.intp)


def _bind_mirror(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    (output,), (x, paddings) = outputs, inputs
    shared = int(attrs["mode"] == "REFLECT")
    if paddings.value is None or not movable(output):
        return None
    try:
        _check_mirror(x.shape, paddings.value, shared)
    except InvalidArgumentError:
        return None  # the reference kernel raises the error
    size = output.dtype.itemsize
    from_strides, to_strides = c_strides(x.shape, size), c_strides(output.shape, size)
    segments = [
        mirror_segments(d, pair, shared) for d, pair in zip(x.shape, paddings.value.tolist(), strict=True)
    ]
    rows = []
    for part in product(*segments):
        shape = tuple(count for _, _, _, count in part)
        if 0 in shape:
            continue
        source = sum(first * stride for (first, _, _, _), stride in zip(part, from_strides, strict=True))
        target = sum(first * stride for (_, _, first, _), stride in zip(part, to_strides, strict=True))
        steps = tuple(step * stride for (_, step, _, _), stride in zip(part, from_strides, strict=True))
        rows.append(into(Piece(0, source, steps, shape), Operand("output", 0, target), to_strides, size))
    return rows_of(*rows)


def _mirror_gradient(op: Operation, dy: Tensor) -> list[Any]:
    return [apply_op("MirrorPadGrad", dy, op.inputs[1], mode=op.attrs["mode"]), None]


_MIRROR_ATTRS = "[T:type; Tpaddings:type{int32|int64}=int32; mode:string{REFLECT|SYMMETRIC}]"

register(
    f"MirrorPad(input:T, paddings:Tpaddings) -> (output:T) {_MIRROR_ATTRS}",
    shape=_shape,
    kernel=_mirror_pad,
    gradient=_mirror_gradient,
    native=Native(_bind_mirror),
    shape_operands=(1,),
)


def _unpadded(context: ShapeContext) -> Sequence[Dims]:
    dims, paddings = context.inputs[0], context.value(1)
    if dims is None or paddings is None:
        return [None if dims is None else (None,) * len(dims)]
    padded(dims, paddings, None)
    return [
        tuple(
            None if d is None else d - int(sum(pair)) for d, pair in zip(dims, paddings.tolist(), strict=True)
        )
    ]


def _mirror_pad_grad(context: KernelContext) -> Compute:
    shared = int(context.attrs["mode"] == "REFLECT")

    @run_time
    def compute(dy: Array, paddings: Array) -> Array:
        padded(dy.shape, paddings, None)
        shape = [dim - sum(pair) for dim, pair in zip(dy.shape, paddings.tolist(), strict=True)]
        _check_mirror(shape, paddings, shared)
        dx = np.zeros(shape, dy.dtype)
        index = [_mirror_index(d, pair, shared) for d, pair in zip(shape, paddings.tolist(), strict=True)]
        np.add.at(dx, np.ix_(*index), dy)
        return dx

    return compute


register(
    f"MirrorPadGrad(input:T, paddings:Tpaddings) -> (output:T) {_MIRROR_ATTRS}",
    shape=_unpadded,
    kernel=_mirror_pad_grad,
    gradient=lambda op, dz: [apply_op("MirrorPad", dz, op.inputs[1], mode=op.attrs["mode"]), None],
    shape_operands=(1,),
)


# Functions


def pad(
    tensor: Any, paddings: Any, mode: str = "CONSTANT", name: str | None = None, constant_values: Any = 0
) -> Tensor:
    """Pad dimension k with paddings[k] = (before, after) elements.

    Args:
        mode: "CONSTANT", "REFLECT" (the edge is not repeated) or "SYMMETRIC" (it is).

    Raises:
        GraphValueError: the mode is unknown.
    """
    mode = mode.upper()
    if mode not in ("CONSTANT", "REFLECT", "SYMMETRIC"):
        raise GraphValueError(f"pad: mode must be CONSTANT, REFLECT or SYMMETRIC, got {mode!r}")
    if mode != "CONSTANT":
        result = apply_op("MirrorPad", tensor, paddings, name=name, mode=mode)
    elif not isinstance(constant_values, Tensor) and not np.any(constant_values):
        result = apply_op("Pad", tensor, paddings, name=name)
    else:
        result = apply_op("PadV2", tensor, paddings, constant_values, name=name)
    assert isinstance(result, Tensor)
    return result
