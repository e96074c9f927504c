"""Matrix products, single and batched, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.errors import FailedPreconditionError, GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.convert import convert_to_tensor, stands_for_tensor, symbolic_dtype
from aioexec.graph.kernels.kernel import (
    Attrs,
    Compute,
    KernelContext,
    Launches,
    Native,
    Spec,
    plain,
)
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register
from aioexec.ops.common.elementwise import conjugate, op_scope
from aioexec.ops.linalg.product_launches import BODIES, bind_product
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
