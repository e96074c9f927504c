"""Matrix products, single and batched, and their gradients."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.errors import FailedPreconditionError, GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.convert import convert_to_tensor, stands_for_tensor, symbolic_dtype
from aioexec.graph.kernels.epilogue import MOST_OTHERS, Epilogue
from aioexec.graph.kernels.kernel import (
    Attrs,
    Compute,
    Handover,
    KernelContext,
    Launch,
    Launches,
    LoopKernel,
    Native,
    Operand,
    Spec,
    Units,
    plain,
)
from aioexec.graph.kernels.launches import collapse
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register
from aioexec.ops.common.elementwise import conjugate, op_scope
from aioexec.ops.common.shares import IN_PLACE, NOT_READ
from aioexec.ops.linalg import panel_launches, product_loops
from aioexec.ops.reduction.launches import fill
from aioexec.shapes import Dims

Array = np.ndarray[Any, Any]

# Shapes


def product_dims(
    x: tuple[int | None, ...], y: tuple[int | None, ...], flip_x: bool, flip_y: bool
) -> tuple[int | None, ...]:
    """Return the last two dimensions of a product."""
    rows, inner_x = (x[-1], x[-2]) if flip_x else (x[-2], x[-1])
    inner_y, columns = (y[-1], y[-2]) if flip_y else (y[-2], y[-1])
    if not shapes.compatible((inner_x,), (inner_y,)):
        raise GraphValueError(f"Dimensions must be equal, but are {inner_x} and {inner_y}")
    return rows, columns


def matmul_dims(context: ShapeContext) -> Sequence[Dims]:
    a, b = (shapes.with_rank(dims, 2) for dims in context.inputs)
    assert a is not None
    assert b is not None
    return [product_dims(a, b, context.attrs["transpose_a"], context.attrs["transpose_b"])]


def batch_dims(context: ShapeContext) -> Sequence[Dims]:
    x, y = (shapes.with_rank_at_least(dims, 2) for dims in context.inputs)
    if x is None or y is None:
        return [None]
    batch = shapes.broadcast(x[:-2], y[:-2])
    return [shapes.concatenate(batch, product_dims(x, y, context.attrs["adj_x"], context.attrs["adj_y"]))]


def equal_batch_dims(context: ShapeContext) -> Sequence[Dims]:
    x, y = context.inputs
    if x is not None and y is not None:
        shapes.merge(x[:-2], y[:-2])
    return batch_dims(context)


# Reference kernels


def multiply(x: Array, y: Array) -> Array:
    """Multiply matrices in the dtype of the operands; 16-bit floats in float32."""
    if x.dtype.itemsize == 2 and x.dtype.kind not in "iu":
        wide = np.matmul(x.astype(np.float32), y.astype(np.float32))
        return np.asarray(wide.astype(x.dtype))
    return np.asarray(np.matmul(x, y))


def checked_product(x: Array, y: Array, given: tuple[Array, Array]) -> Array:
    if x.shape[-1] != y.shape[-2]:
        shown = ", ".join(f"In[{k}]: {list(each.shape)}" for k, each in enumerate(given))
        raise InvalidArgumentError(f"Matrix size-incompatible: {shown}")
    return multiply(x, y)


def matmul_kernel(context: KernelContext) -> Compute:
    flips = (bool(context.attrs["transpose_a"]), bool(context.attrs["transpose_b"]))

    def compute(a: Array, b: Array) -> Array:
        for k, each in enumerate((a, b)):
            if each.ndim != 2:
                raise InvalidArgumentError(f"In[{k}] is not a matrix, its shape is {list(each.shape)}")
        return checked_product(a.T if flips[0] else a, b.T if flips[1] else b, (a, b))

    return compute


def batch_kernel(context: KernelContext) -> Compute:
    flips = (bool(context.attrs["adj_x"]), bool(context.attrs["adj_y"]))

    def compute(x: Array, y: Array) -> Array:
        for k, each in enumerate((x, y)):
            if each.ndim < 2:
                raise InvalidArgumentError(
                    f"In[{k}] must have 2 dimensions or more, its shape is {list(each.shape)}"
                )
        try:
            np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        except ValueError:
            shown = f"In[0]: {list(x.shape)}, In[1]: {list(y.shape)}"
            raise InvalidArgumentError(f"Batch dimensions do not broadcast: {shown}") from None
        left, right = (adjoint(each) if flip else each for each, flip in zip((x, y), flips, strict=True))
        return checked_product(left, right, (x, y))

    return compute


def equal_batch_kernel(context: KernelContext) -> Compute:
    multiply_batch = batch_kernel(context)

    def compute(x: Array, y: Array) -> Array:
        if x.shape[:-2] != y.shape[:-2]:
            shown = f"In[0]: {list(x.shape)}, In[1]: {list(y.shape)}"
            raise InvalidArgumentError(f"Batch dimensions must be the same: {shown}")
        return np.asarray(multiply_batch(x, y))

    return compute


def adjoint(x: Array) -> Array:
    turned = np.swapaxes(x, -1, -2)
    return np.conj(turned) if x.dtype.kind == "c" else turned


# Native forms

BODIES = {
    "float32": product_loops.matmul_real,
    "float64": product_loops.matmul_real,
    "int32": product_loops.matmul_whole,
    "int64": product_loops.matmul_whole,
}
_OPERANDS = (Operand("input", 0), Operand("input", 1), Operand("output", 0))
MOST_LAUNCHES = 64
LARGE = 2**28
"""Multiply-adds from which BLAS (if it has kernels for the processor) is faster, because it also packs the left matrix."""
LARGE_SHARE = 8
"""Tiles of columns (256) or rows (336) in a share that BLAS computes."""
LEAST_COLUMNS = 128
FAR, FAR_COST = 2**19, 0.045
"""Bytes of a matrix from which a step loads it from the L3 cache or memory, and nanoseconds per byte loaded from there."""
LARGE_PRODUCT = 2**18
"""Bytes of a product from which fusing it with its consumer, so that it is not written, pays off."""
MOST_OPERANDS = 15
"""Upper bound for the operands of the elementwise kernel that consumes a product; no optimizer has more."""


def bind_product(
    flip_x: bool,
    flip_y: bool,
    inputs: Sequence[Spec],
    outputs: Sequence[Spec],
    operands: tuple[Operand, ...] = _OPERANDS,
) -> Launches | None:
    """Bind a matrix product. A launch loops over two batch dimensions; others, unless they collapse, take several launches.

    `operands` are the locations of the factors and the product.
    """
    x, y = inputs
    out = outputs[0]
    if x.dtype.name not in BODIES:
        return None
    if 0 in out.shape:
        return Launches(())
    n, k = out.shape[-1], x.shape[-2] if flip_x else x.shape[-1]
    if k == 0:
        row = fill("0", operands[2], out.size, out.dtype.name)
        return Launches(() if row is None else (row,))
    m, outer, step_x, step_y = batch_of(flip_x, x, y, out)
    panels = panel_launches.panels_of(y, k, n, flip_y)
    if not flip_x and prod(outer) == 1 and panel_launches.takes_panels(y, panels):
        return panel_launches.multiply(y, panels, operands[0], operands[2], m)
    if prod(outer[:-2]) > MOST_LAUNCHES:
        return None
    kernel = LoopKernel(BODIES[x.dtype.name], (x.dtype.name,) * (4 + MOST_OTHERS), 18, 0)
    how = method_of(flip_x, m, n, k)
    cost = cost_of(x.dtype, how, outer[-1] * outer[-2], m, n, k)
    lda, ldb = (m if flip_x else k), (k if flip_y else n)
    sizes = (how, int(flip_x), int(flip_y), m, n, k)
    words = (
        *sizes,
        outer[-2],
        step_x[-2],
        step_y[-2],
        outer[-1],
        step_x[-1],
        step_y[-1],
        lda,
        ldb,
        n,
        0,
        0,
        0,
    )
    units = units_of(flip_x, flip_y, words, x.dtype.itemsize) if outer[-2] * outer[-1] == 1 else None
    epilogue = epilogue_of(x.dtype, how, n)
    handover = handover_of(words, x.dtype) if units is not None and how == product_loops.IN_TILES else None
    size = m * n * outer[-1] * outer[-2]
    launches = [
        Launch(kernel, (*places, *NOT_READ), words, (), cost, units, epilogue, handover)
        for places in places_of(operands, outer[:-2], step_x, step_y, size, x.dtype.itemsize)
    ]
    return Launches(tuple(launches))


def batch_of(
    flip_x: bool, x: Spec, y: Spec, out: Spec
) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the rows of each product, the dimensions of the batch (two or more), and the steps of both factors along them."""
    rows, batch = out.shape[-2], out.shape[:-2]
    steps = [batch_steps(spec.shape, batch) for spec in (x, y)]
    if prod(y.shape[:-2]) == 1 and prod(x.shape[:-2]) == prod(batch) and not flip_x:
        # one matrix on the right: the batch is only more rows
        rows, batch, steps = rows * prod(batch), (), [(), ()]
    dims, both = collapse(batch, steps)
    missing = max(0, 2 - len(dims))
    step_x, step_y = ((0,) * missing + step for step in both)
    return rows, (1,) * missing + dims, step_x, step_y


def handover_of(words: tuple[int, ...], dtype: np.dtype[Any]) -> Handover | None:
    """Return how an elementwise kernel can consume the product, if that pays off; the work is shared by rows."""
    _, flip_x, _, m, n, k = words[:6]
    lda, ldb, _ = words[12:15]
    if dtype.kind != "f" or k > product_loops.MOST_TERMS or m * n * dtype.itemsize < LARGE_PRODUCT:
        return None
    kernel = LoopKernel(product_loops.product_handed_over, (dtype.name,) * (2 + MOST_OPERANDS), 11, 0)
    units = Units(2, ((1 if flip_x else lda) * dtype.itemsize, 0, n * dtype.itemsize), 42)
    return Handover(kernel, (*words[1:6], lda, ldb), units, MOST_OPERANDS)


def epilogue_of(dtype: np.dtype[Any], how: int, n: int) -> Epilogue | None:
    """Return the epilogue of a product of n columns; that of integers calls nothing, since their kernels may fail."""
    has_one = how in (product_loops.IN_TILES, product_loops.LARGE)
    if not has_one or dtype.kind != "f":
        return Epilogue(16, 2, 3, n, clips=True) if has_one else None
    return Epilogue(16, 2, 3, n, clips=True, others=4, adds=15, pitch=14)


def method_of(flip_x: bool, m: int, n: int, k: int) -> int:
    """Return how the loop computes a product of floats."""
    if n == 1:
        return product_loops.COLUMN
    if m == 1:
        return product_loops.ROWS
    return product_loops.LARGE if m * n * k >= LARGE else product_loops.IN_TILES


def cost_of(dtype: np.dtype[Any], how: int, count: int, m: int, n: int, k: int) -> int:
    """Return the nanoseconds of a launch of `count` products."""
    cost = 40 + int(m * n * k * count * element_cost(dtype, how))
    matrix = n * k * dtype.itemsize
    loads = how in (product_loops.ROWS, product_loops.COLUMN) and matrix >= FAR
    return cost + int(matrix * FAR_COST) if loads else cost


def element_cost(dtype: np.dtype[Any], how: int) -> float:
    """Return the nanoseconds of a multiply-add; for vectors, the time to load a matrix element."""
    if dtype.kind != "f":
        return 0.05
    return (0.05 if how in (product_loops.ROWS, product_loops.COLUMN) else 0.02) * dtype.itemsize / 4


def units_of(flip_x: bool, flip_y: bool, words: tuple[int, ...], itemsize: int) -> Units | None:
    """Return how workers share a product: by columns, each of which packs its own part of the right matrix; by rows if columns
    are few, or if the left matrix is transposed and at least as large, and is then packed.

    Sums are never divided, so tiled results do not depend on the number of workers; those of BLAS may, since BLAS treats the
    last columns of a share differently and packs the other matrix for each share. Shares are multiples of the tiles of every
    processor, and exceed the rows that the vector loop takes. The operands after the product are those of an epilogue.
    """
    how, m, n = words[0], *words[3:5]
    lda, ldb, ldc = words[12:15]
    tiles = LARGE_SHARE if how == product_loops.LARGE else 1
    if m == 1 or (n >= LEAST_COLUMNS and not (flip_x and m >= n)):
        return Units(4, (0, (ldb if flip_y else 1) * itemsize, itemsize, itemsize, *IN_PLACE[1:]), 32 * tiles)
    return Units(3, ((1 if flip_x else lda) * itemsize, 0, ldc * itemsize, *IN_PLACE), 42 * tiles)


def batch_steps(shape: tuple[int, ...], batch: tuple[int, ...]) -> tuple[int, ...]:
    """Return the stride in elements between an operand's matrices along each batch dimension; 0 where it broadcasts."""
    own = (1,) * (len(batch) - len(shape) + 2) + shape[:-2]
    step, steps = shape[-2] * shape[-1], []
    for dim, wide in zip(reversed(own), reversed(batch), strict=True):
        steps.append(0 if dim == 1 and wide != 1 else step)
        step *= dim
    return tuple(reversed(steps))


def places_of(
    operands: tuple[Operand, ...],
    outer: tuple[int, ...],
    step_x: Sequence[int],
    step_y: Sequence[int],
    size: int,
    itemsize: int,
) -> Iterator[tuple[Operand, ...]]:
    """Yield the operands of each launch."""
    for number, index in enumerate(itertools.product(*map(range, outer))):
        begins = (
            sum(i * step for i, step in zip(index, step_x, strict=False)),
            sum(i * step for i, step in zip(index, step_y, strict=False)),
            number * size,
        )
        yield tuple(
            Operand(each.kind, each.index, each.offset + begin * itemsize)
            for each, begin in zip(operands, begins, strict=True)
        )


def bind_matmul(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    return bind_product(attrs["transpose_a"], attrs["transpose_b"], inputs, outputs)


def bind_batch(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    return bind_product(attrs["adj_x"], attrs["adj_y"], inputs, outputs)


# Gradients


def matmul_gradient(op: Operation, dy: Tensor) -> tuple[Tensor, Tensor]:
    a, b = (conjugate(x) for x in op.inputs)
    return operand_gradients("MatMul", "transpose_a", "transpose_b", op, a, b, dy)


def operand_gradients(
    op_type: str, first: str, second: str, op: Operation, a: Tensor, b: Tensor, dy: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the gradients of op(a) @ op(b) as products without extra transpositions."""

    def product(x: Tensor, y: Tensor, flip_x: bool, flip_y: bool) -> Tensor:
        flips: dict[str, Any] = {first: flip_x, second: flip_y}
        return apply_op(op_type, x, y, **flips)

    match bool(op.attrs[first]), bool(op.attrs[second]):
        case False, False:
            return product(dy, b, False, True), product(a, dy, True, False)
        case False, True:
            return product(dy, b, False, False), product(dy, a, True, False)
        case True, False:
            return product(b, dy, False, True), product(a, dy, False, False)
        case _:
            return product(b, dy, True, True), product(dy, a, True, True)


def batch_gradient(op: Operation, dy: Tensor) -> tuple[Tensor, Tensor]:
    x, y = op.inputs
    gx, gy = operand_gradients(op.type, "adj_x", "adj_y", op, x, y, dy)
    if x.dims is not None and y.dims is not None and x.dims[:-2] == y.dims[:-2] and None not in x.dims[:-2]:
        return gx, gy
    whole = [apply_op("Shape", each) for each in (x, y)]
    batch = [apply_op("StridedSlice", shape, [0], [-2], [1], begin_mask=1) for shape in whole]
    axes = apply_tuple_op("BroadcastGradientArgs", *batch)
    summed = [apply_op("Sum", each, over) for each, over in zip((gx, gy), axes, strict=True)]
    left, right = (apply_op("Reshape", each, shape) for each, shape in zip(summed, whole, strict=True))
    return left, right


# Rows

register(
    "MatMul(a:T, b:T) -> (product:T) "
    "[transpose_a:bool=false; transpose_b:bool=false; T:type@18; grad_a:bool=false; grad_b:bool=false]",
    shape=matmul_dims,
    kernel=matmul_kernel,
    native=Native(bind_matmul, frozenset(BODIES)),
    gradient=matmul_gradient,
)
register(
    "BatchMatMul(x:T, y:T) -> (output:T) "
    "[T:type@14; adj_x:bool=false; adj_y:bool=false; grad_x:bool=false; grad_y:bool=false]",
    shape=equal_batch_dims,
    kernel=equal_batch_kernel,
    native=Native(bind_batch, frozenset(BODIES)),
    gradient=batch_gradient,
)
register(
    "BatchMatMulV2(x:T, y:T) -> (output:T) "
    "[T:type@9; adj_x:bool=false; adj_y:bool=false; grad_x:bool=false; grad_y:bool=false]",
    shape=batch_dims,
    kernel=batch_kernel,
    native=Native(bind_batch, frozenset(BODIES)),
    gradient=batch_gradient,
)


def mixed_kernel(context: KernelContext) -> Compute:
    multiply_batch, dtype = batch_kernel(context), context.attrs["Tout"].numpy
    return lambda x, y: multiply_batch(x.astype(dtype, copy=False), y.astype(dtype, copy=False))


def bind_mixed(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    alike = all(spec.dtype == outputs[0].dtype for spec in inputs)
    return bind_batch(attrs, inputs, outputs) if alike else None


def mixed_gradient(op: Operation, dy: Tensor) -> list[Tensor]:
    """As `operand_gradients`, for operands that are cast to the dtype of the product."""
    wanted = dy.dtype.base_dtype
    x, y = (apply_op("Cast", each, DstT=wanted) for each in op.inputs)
    flips = {name: op.attrs[name] for name in ("adj_x", "adj_y")}
    found = batch_gradient(apply_op("BatchMatMulV2", x, y, **flips).op, dy)
    return [
        apply_op("Cast", each, DstT=into.dtype.base_dtype)
        for each, into in zip(found, op.inputs, strict=True)
    ]


_MIXED = "bfloat16|half|float|double|uint8|int8|int16|int32|int64|complex64|complex128"

register(
    "BatchMatMulV3(x:Ta, y:Tb) -> (output:Tout) "
    f"[Ta:type{{{_MIXED}}}; Tb:type{{{_MIXED}}}; Tout:type{{{_MIXED.replace('|uint8|int8', '')}}}; "
    "adj_x:bool=false; adj_y:bool=false; grad_x:bool=false; grad_y:bool=false]",
    shape=batch_dims,
    kernel=mixed_kernel,
    native=Native(bind_mixed, frozenset(BODIES)),
    gradient=mixed_gradient,
)


def _cross_dims(context: ShapeContext) -> Sequence[Dims]:
    dims = shapes.merge(*(shapes.with_rank_at_least(each, 1) for each in context.inputs))
    return [None if dims is None else (*dims[:-1], *(shapes.merge(dims[-1:], (3,)) or ()))]


def _cross(a: Array, b: Array) -> Array:
    if a.shape != b.shape:
        raise InvalidArgumentError(f"Both inputs must be of same shape: {list(a.shape)} vs. {list(b.shape)}")
    if a.shape[-1:] != (3,):
        raise FailedPreconditionError(
            f"Cross-products are only defined for 3-element vectors, got {list(a.shape)}"
        )
    forth, back = [1, 2, 0], [2, 0, 1]
    return np.asarray(a[..., forth] * b[..., back] - a[..., back] * b[..., forth])


def _cross_gradient(op: Operation, dy: Tensor) -> list[Tensor]:
    a, b = op.inputs
    return [apply_op("Cross", b, dy), apply_op("Cross", dy, a)]


register(
    "Cross(a:T, b:T) -> (product:T) [T:type@12]",
    shape=_cross_dims,
    kernel=plain(_cross),
    gradient=_cross_gradient,
)


# Wrappers


def cross(a: Any, b: Any, name: str | None = None) -> Tensor:
    """Return the cross products of 3-vectors along the last dimension."""
    return apply_op("Cross", a, b, name=name)


def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Multiply the matrices in the last two dimensions; leading dimensions are a batch and broadcast.

    Args:
        transpose_a, transpose_b: transpose an operand first.
        adjoint_a, adjoint_b: conjugate and transpose an operand first.
        a_is_sparse, b_is_sparse: ignored hints.

    Raises:
        GraphValueError: the inner dimensions differ, or an operand is both transposed and adjoint.
    """
    if (transpose_a and adjoint_a) or (transpose_b and adjoint_b):
        raise GraphValueError("matmul: only one of transpose and adjoint can be True for an operand")
    with op_scope(name, "MatMul", a, b) as scope:
        left = convert_to_tensor(a, None if stands_for_tensor(a) else symbolic_dtype(b), "a")
        right = convert_to_tensor(b, left.dtype.base_dtype, "b")
        if any(each.dims is None or len(each.dims) > 2 for each in (left, right)):
            left = conjugate(left) if transpose_a else left
            right = conjugate(right) if transpose_b else right
            flips = {"adj_x": transpose_a or adjoint_a, "adj_y": transpose_b or adjoint_b}
            return apply_op("BatchMatMulV2", left, right, name=scope, **flips)
        left = conjugate(left) if adjoint_a else left
        right = conjugate(right) if adjoint_b else right
        flips = {"transpose_a": transpose_a or adjoint_a, "transpose_b": transpose_b or adjoint_b}
        return apply_op("MatMul", left, right, name=scope, **flips)
