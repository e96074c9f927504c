"""Ops that move blocks of spatial positions into the batch or the depth dimension, and back.

With one block size b along a dimension, position p becomes element p % b of its block and position p // b of the result. Moved
into the batch the blocks come first, padding is put around before and taken off after; moved into the depth they come last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from aioexec import shapes
from aioexec.errors import GraphValueError, UnimplementedError
from aioexec.graph.apply import apply_op
from aioexec.graph.kernels.kernel import (
    Alias,
    Attrs,
    Compute,
    KernelContext,
    Launch,
    Launches,
    Native,
    Operand,
    Spec,
)
from aioexec.graph.kernels.launches import c_strides, copy_launch, fill_launch
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register
from aioexec.ops.array.arrays import run_time
from aioexec.ops.common.elementwise import Array
from aioexec.ops.common.strided_copies import Piece, movable, rows_of, views
from aioexec.shapes import Dims

# Batch


def _block(context: ShapeContext) -> tuple[Array | None, int]:
    """Return the block sizes and the position of the paddings: both are inputs, or an attribute and an input."""
    size = context.attrs.get("block_size")
    if size is not None:
        return np.array([size, size]), 1
    return context.value(1), 2


Plan = list[tuple[int, int, int]]
"""For each blocked axis: block size, paddings (or crops) before and after."""

Rule = Callable[[tuple[int | None, ...], Plan], tuple[int | None, ...]]
"""Maps input dimensions to output dimensions."""


def _checked(block: Array, paddings: Array) -> Plan:
    """Return (block size, before, after) for each blocked dimension.

    Raises:
        GraphValueError: a size is below 1, a padding negative, or the numbers of sizes and pairs differ.
    """
    if block.ndim != 1:
        raise GraphValueError(f"block_shape must be a vector, got {block.tolist()}")
    if paddings.shape != (block.size, 2):
        raise GraphValueError(f"expected {block.size} pairs of paddings or crops, got {paddings.tolist()}")
    if (block < 1).any():
        raise GraphValueError(f"All values in block_shape must be positive, got {block.tolist()}")
    if (paddings < 0).any():
        raise GraphValueError(f"paddings and crops must be non-negative, got {paddings.tolist()}")
    return [(int(b), int(lo), int(hi)) for b, (lo, hi) in zip(block, paddings.tolist(), strict=True)]


def _to_batch_dims(dims: tuple[int | None, ...], plan: Plan) -> tuple[int | None, ...]:
    sizes = []
    for dim, (size, before, after) in zip(dims[1:], plan, strict=False):
        whole = None if dim is None else dim + before + after
        if whole is not None and whole % size:
            raise GraphValueError(f"padded dimension {whole} is not divisible by block size {size}")
        sizes.append(None if whole is None else whole // size)
    batch = None if dims[0] is None else dims[0] * prod(size for size, _, _ in plan)
    return (batch, *sizes, *dims[1 + len(plan) :])


def _from_batch_dims(dims: tuple[int | None, ...], plan: Plan) -> tuple[int | None, ...]:
    sizes = []
    for dim, (size, before, after) in zip(dims[1:], plan, strict=False):
        left = None if dim is None else dim * size - before - after
        if left is not None and left < 0:
            raise GraphValueError(f"cropped dimension is negative: {dim} * {size} - {before} - {after}")
        sizes.append(left)
    blocks = prod(size for size, _, _ in plan)
    if dims[0] is not None and dims[0] % blocks:
        raise GraphValueError(
            f"Input batch dimension {dims[0]} should be divisible by the product of block sizes {blocks}"
        )
    return (None if dims[0] is None else dims[0] // blocks, *sizes, *dims[1 + len(plan) :])


def _batch_shape(rule: Rule) -> Any:
    def shape(context: ShapeContext) -> Sequence[Dims]:
        block, position = _block(context)
        dims, paddings = context.inputs[0], context.value(position)
        if "block_size" in context.attrs:
            dims = shapes.with_rank(dims, 4)
        if block is None or paddings is None:
            return [_static_part(context, dims, block, rule)]
        plan = _checked(block, paddings)
        if dims is None:
            return [None]
        shapes.with_rank_at_least(dims, 1 + len(plan))
        return [rule(dims, plan)]

    return shape


def _static_part(context: ShapeContext, dims: Dims, block: Array | None, rule: Rule) -> Dims:
    """Return what is static of the shape if block sizes or paddings are not: dimensions after the blocks, perhaps the batch."""
    sizes = context.inputs[1] if block is None else block.shape
    if dims is None or sizes is None or sizes[0] is None:
        return None if dims is None else (None,) * len(dims)
    shapes.with_rank_at_least(dims, 1 + sizes[0])
    inner, rest = (None,) * sizes[0], dims[1 + sizes[0] :]
    if block is None:
        return (None, *inner, *rest)
    plan = _checked(block, np.zeros((sizes[0], 2), np.int64))
    return rule((dims[0], *inner, *rest), plan)


def _to_batch(x: Array, plan: Plan) -> Array:
    rank = len(plan)
    widths = [(0, 0), *((before, after) for _, before, after in plan), *[(0, 0)] * (x.ndim - 1 - rank)]
    filler = b"" if x.dtype == object else np.zeros((), x.dtype)
    padded = np.full([n + lo + hi for n, (lo, hi) in zip(x.shape, widths, strict=True)], filler, x.dtype)
    padded[tuple(slice(lo, lo + n) for n, (lo, _) in zip(x.shape, widths, strict=True))] = x
    split = [(dim // size, size) for dim, (size, _, _) in zip(padded.shape[1:], plan, strict=False)]
    apart = padded.reshape(x.shape[0], *(n for pair in split for n in pair), *padded.shape[1 + rank :])
    order = [*range(2, 2 * rank + 1, 2), 0, *range(1, 2 * rank, 2), *range(2 * rank + 1, apart.ndim)]
    return np.transpose(apart, order).reshape(_known(_to_batch_dims(x.shape, plan)))


def _from_batch(x: Array, plan: Plan) -> Array:
    rank, target = len(plan), _known(_from_batch_dims(x.shape, plan))
    apart = x.reshape(*(size for size, _, _ in plan), target[0], *x.shape[1:])
    order = [rank, *(n for k in range(rank) for n in (rank + 1 + k, k)), *range(2 * rank + 1, apart.ndim)]
    whole = [dim * size for dim, (size, _, _) in zip(x.shape[1:], plan, strict=False)]
    joined = np.transpose(apart, order).reshape(target[0], *whole, *x.shape[1 + rank :])
    crops = [slice(before, before + dim) for dim, (_, before, _) in zip(target[1:], plan, strict=False)]
    return joined[(slice(None), *crops)]


def _known(dims: tuple[int | None, ...]) -> tuple[int, ...]:
    return tuple(int(dim or 0) for dim in dims)


def _batch_kernel(move: Callable[[Array, Plan], Array], rule: Rule) -> Any:
    def bind(context: KernelContext) -> Compute:
        size = context.attrs.get("block_size")

        @run_time
        def compute(x: Array, *rest: Array) -> Array:
            block, paddings = rest if size is None else (np.array([size, size]), rest[0])
            plan = _checked(block, paddings)
            if x.ndim < 1 + len(plan) or (size is not None and x.ndim != 4):
                raise GraphValueError(f"input rank should be at least {1 + len(plan)}, got {x.ndim}")
            rule(x.shape, plan)
            return move(x, plan)

        return compute

    return bind


class _Run(NamedTuple):
    """Phases r of a blocked axis, `phases` of them from `phase` on, and what they share with the image.

    Element i of phase r is position i b + r - margin of the image: those from `first` on, `elements` of them,
    are inside of the image; `start` is the position of the first.
    """

    phase: int
    phases: int
    first: int
    elements: int
    start: int


_MOST_COPIES = 64
"""The most copies of one op; the reference kernel runs if it takes more."""


def _runs(dim: int, size: int, before: int, after: int) -> list[_Run]:
    """The runs of an axis of an image: one for all phases without paddings, one for each with them."""
    if not before and not after:
        return [_Run(0, size, 0, dim // size, 0)]
    runs = []
    for phase in range(size):
        first = max(0, -((phase - before) // size))
        start = first * size + phase - before
        runs.append(_Run(phase, 1, first, max(0, -((start - dim) // size)), start))
    return runs


def _copies(image: Spec, phased: Spec, plan: Plan, to_batch: bool) -> list[Launch | None] | None:
    """The launches that copy an image to its phases or back; None if they are too many."""
    itemsize, rank = image.dtype.itemsize, len(plan)
    n, sizes = image.shape[0], [size for size, _, _ in plan]
    batch, *inner = c_strides(image.shape, itemsize)
    strides = c_strides((*sizes, n, *phased.shape[1:]), itemsize)
    by_phase, by_image, by_element = strides[:rank], strides[rank], strides[rank + 1 :]
    runs = [_runs(dim, *each) for dim, each in zip(image.shape[1:], plan, strict=False)]
    if prod(map(len, runs)) > _MOST_COPIES:
        return None
    launches = []
    for chosen in product(*runs):
        dims = (
            *(run.phases for run in chosen),
            n,
            *(run.elements for run in chosen),
            *image.shape[1 + rank :],
        )
        spread = [stride * size for stride, size in zip(inner, sizes, strict=False)]
        of_image = (*inner[:rank], batch, *spread, *inner[rank:])
        of_phases = (*by_phase, by_image, *by_element)
        image_at = sum(run.start * stride for run, stride in zip(chosen, inner, strict=False))
        phases_at = sum(
            run.phase * phase + run.first * element
            for run, phase, element in zip(chosen, by_phase, by_element, strict=False)
        )
        source, target = (
            Operand("input", 0, image_at if to_batch else phases_at),
            Operand("output", 0, phases_at if to_batch else image_at),
        )
        ends = (of_image, of_phases) if to_batch else (of_phases, of_image)
        launches.append(copy_launch(source, ends[0], target, ends[1], dims, itemsize))
    return launches


def _bind_batch(to_batch: bool) -> Any:
    def bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
        size = attrs.get("block_size")
        block = inputs[1].value if size is None else np.array([size, size])
        margins = inputs[-1].value
        (output,) = outputs
        if block is None or margins is None or not movable(output) or output.dtype.name == "float16":
            return None
        plan = _checked(block, margins)
        image, phased = (inputs[0], output) if to_batch else (output, inputs[0])
        launches = _copies(image, phased, plan, to_batch)
        if launches is None:
            return None
        if to_batch and image.size < phased.size:
            strides = c_strides(output.shape, output.dtype.itemsize)
            zero = False if output.dtype.kind == "b" else 0
            filled = fill_launch(zero, Operand("output", 0), strides, output.shape, output.dtype.name)
            launches = [filled, *launches]
        return rows_of(*launches)

    return bind


def _opposite_gradient(op_type: str) -> Any:
    """Return the gradient: the opposite op with the same operands."""

    def gradient(op: Operation, dy: Tensor) -> list[Any]:
        attrs = {"block_size": op.attrs["block_size"]} if "block_size" in op.attrs else {}
        return [apply_op(op_type, dy, *op.inputs[1:], **attrs), *[None] * (len(op.inputs) - 1)]

    return gradient


_BATCH_MOVES = (
    # op name, other inputs, their name in the ops on images, shape rule, kernel, opposite op
    ("SpaceToBatch", "paddings", "Tpaddings", _to_batch_dims, _to_batch, "BatchToSpace"),
    ("BatchToSpace", "crops", "Tidx", _from_batch_dims, _from_batch, "SpaceToBatch"),
)

for _name, _margins, _type, _rule, _move, _back in _BATCH_MOVES:
    register(
        f"{_name}ND(input:T, block_shape:Tblock_shape, {_margins}:T{_margins}) -> (output:T) "
        f"[T:type; Tblock_shape:type{{int32|int64}}=int32; T{_margins}:type{{int32|int64}}=int32]",
        shape=_batch_shape(_rule),
        kernel=_batch_kernel(_move, _rule),
        gradient=_opposite_gradient(f"{_back}ND"),
        native=Native(_bind_batch(_name == "SpaceToBatch")),
        shape_operands=(1, 2),
    )
    register(
        f"{_name}(input:T, {_margins}:{_type}) -> (output:T) "
        f"[T:type; {_type}:type{{int32|int64}}=int32; block_size:int>=2]",
        shape=_batch_shape(_rule),
        kernel=_batch_kernel(_move, _rule),
        gradient=_opposite_gradient(_back),
        native=Native(_bind_batch(_name == "SpaceToBatch")),
        shape_operands=(1,),
    )

# Depth


def _split_dims(
    attrs: Attrs, dims: tuple[int | None, ...], to_depth: bool
) -> tuple[list[int | None], list[int]]:
    """Return the dimensions after splitting (merged last), and the permutation; they are batch, height, width, depth.

    `to_depth` takes height and width apart into (positions, block), else the depth into (block, block, rest).
    """
    size = attrs["block_size"]
    channels_last = attrs["data_format"] == "NHWC"
    n, h, w, c = dims if channels_last else (dims[0], dims[2], dims[3], dims[1])
    for what, dim, unit in (
        (("height", h, size), ("width", w, size)) if to_depth else (("depth", c, size * size),)
    ):
        if dim is not None and dim % unit:
            raise GraphValueError(f"{what} {dim} should be divisible by {unit}")
    if to_depth:
        apart = [n, _over(h, size), size, _over(w, size), size, c]
        order = [0, 1, 3, 2, 4, 5] if channels_last else [0, 3, 5, 1, 2, 4]
        stored = apart if channels_last else [n, c, _over(h, size), size, _over(w, size), size]
    else:
        rest = _over(c, size * size)
        stored = [n, h, w, size, size, rest] if channels_last else [n, size, size, rest, h, w]
        order = [0, 1, 3, 2, 4, 5] if channels_last else [0, 3, 4, 1, 5, 2]
    return stored, order


def _over(dim: int | None, size: int) -> int | None:
    return None if dim is None else dim // size


def _times(*dims: int | None) -> int | None:
    return None if None in dims else prod(dim for dim in dims if dim is not None)


def _depth_dims(attrs: Attrs, dims: tuple[int | None, ...], to_depth: bool) -> tuple[int | None, ...]:
    stored, order = _split_dims(attrs, dims, to_depth)
    n, *moved = [stored[axis] for axis in order]
    if attrs["data_format"] == "NHWC":
        a, b, c, d, e = moved
        return (n, a, b, _times(c, d, e)) if to_depth else (n, _times(a, b), _times(c, d), e)
    a, b, c, d, e = moved
    if to_depth:
        return (n, _times(a, b, c), d, e)
    return (n, a, _times(b, c), _times(d, e))


def _depth_shape(to_depth: bool) -> Any:
    def shape(context: ShapeContext) -> Sequence[Dims]:
        if context.attrs["data_format"] == "NCHW_VECT_C":
            return [None]
        dims = shapes.with_rank(context.inputs[0], 4)
        return [_depth_dims(context.attrs, dims or (), to_depth)]

    return shape


def _depth_kernel(to_depth: bool) -> Any:
    def bind(context: KernelContext) -> Compute:
        attrs = context.attrs
        if attrs["data_format"] == "NCHW_VECT_C":
            raise UnimplementedError(
                f"{context.node_name!r}: data_format NCHW_VECT_C is not supported on this device"
            )

        @run_time
        def compute(x: Array) -> Array:
            if x.ndim != 4:
                raise GraphValueError(f"Input rank should be: 4 instead of: {x.ndim}")
            stored, order = _split_dims(attrs, x.shape, to_depth)
            moved = np.transpose(x.reshape(_known(tuple(stored))), order)
            return moved.reshape(_known(_depth_dims(attrs, x.shape, to_depth)))

        return compute

    return bind


def _bind_depth(to_depth: bool) -> Any:
    def bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | Alias | None:
        (x,) = inputs
        if attrs["data_format"] == "NCHW_VECT_C":
            return None
        stored, order = _split_dims(attrs, x.shape, to_depth)
        strides = c_strides(_known(tuple(stored)), x.dtype.itemsize)
        moved = tuple(strides[axis] for axis in order)
        return views([Piece(0, 0, moved, tuple(int(stored[axis] or 0) for axis in order))], outputs)

    return bind


def _depth_gradient(op_type: str) -> Any:
    def gradient(op: Operation, dy: Tensor) -> list[Any]:
        attrs = {name: op.attrs[name] for name in ("block_size", "data_format")}
        return [apply_op(op_type, dy, **attrs)]

    return gradient


for _name, _back, _to_depth in (
    ("SpaceToDepth", "DepthToSpace", True),
    ("DepthToSpace", "SpaceToDepth", False),
):
    register(
        f"{_name}(input:T) -> (output:T) [T:type; block_size:int>=2; data_format:string{{NHWC|NCHW|NCHW_VECT_C}}='NHWC']",
        shape=_depth_shape(_to_depth),
        kernel=_depth_kernel(_to_depth),
        gradient=_depth_gradient(_back),
        native=Native(_bind_depth(_to_depth)),
    )

# Functions


def space_to_batch_nd(input: Any, block_shape: Any, paddings: Any, name: str | None = None) -> Tensor:
    """Zero-pad the dimensions after the first, and move blocks of them into the batch."""
    return apply_op("SpaceToBatchND", input, block_shape, paddings, name=name)


def batch_to_space_nd(input: Any, block_shape: Any, crops: Any, name: str | None = None) -> Tensor:
    """Move blocks from the batch back into the dimensions after it, and crop."""
    return apply_op("BatchToSpaceND", input, block_shape, crops, name=name)


def space_to_batch(
    input: Any, paddings: Any, block_size: Any = None, name: str | None = None, block_shape: Any = None
) -> Tensor:
    """Zero-pad height and width of images, and move blocks of block_size × block_size into the batch.

    `block_shape` is another name of `block_size`.
    """
    size = block_size if block_shape is None else block_shape
    sizes = [size, size] if np.ndim(size) == 0 else size
    return space_to_batch_nd(input, sizes, paddings, name)


def batch_to_space(
    input: Any, crops: Any, block_size: Any, name: str | None = None, block_shape: Any = None
) -> Tensor:
    """Move blocks of block_size × block_size from the batch back into height and width of images, and crop."""
    size = block_size if block_shape is None else block_shape
    sizes = [size, size] if np.ndim(size) == 0 else size
    return batch_to_space_nd(input, sizes, crops, name)


def space_to_depth(input: Any, block_size: int, name: str | None = None, data_format: str = "NHWC") -> Tensor:
    """Move blocks of block_size × block_size of height and width into the depth."""
    return apply_op("SpaceToDepth", input, block_size=block_size, data_format=data_format, name=name)


def depth_to_space(input: Any, block_size: int, name: str | None = None, data_format: str = "NHWC") -> Tensor:
    """Move depth into blocks of block_size × block_size of height and width."""
    return apply_op("DepthToSpace", input, block_size=block_size, data_format=data_format, name=name)
