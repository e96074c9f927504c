"""Shared by ops on matrices: shape rules, kernels over batches, products and inverses for gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.kernels.interruption import check_cancelled
from aioexec.graph.kernels.kernel import Compute
from aioexec.graph.node import Tensor
from aioexec.ops.common.elementwise import Array, shown
from aioexec.shapes import Dims

# Shapes


def square_dims(dims: Dims) -> Dims:
    """Shape rule: a batch of square matrices."""
    dims = shapes.with_rank_at_least(dims, 2)
    if dims is None:
        return None
    (side,) = shapes.merge(dims[-1:], dims[-2:-1]) or (None,)
    return (*dims[:-2], side, side)


def solution_dims(matrix: Dims, rhs: Dims, *, square: bool, broadcasts: bool = False) -> Dims:
    """Return the shape of x in matrix x = rhs."""
    matrix = square_dims(matrix) if square else shapes.with_rank_at_least(matrix, 2)
    rhs = shapes.with_rank_at_least(rhs, 2)
    if broadcasts and (matrix is None or rhs is None):
        return None
    given = [dims for dims in (matrix, rhs) if dims is not None]
    if not given:
        return None
    batches: list[Dims] = [dims[:-2] for dims in given]
    heights: list[Dims] = [dims[-2:-1] for dims in given]
    batch = functools.reduce(shapes.broadcast if broadcasts else shapes.merge, batches)
    rows = functools.reduce(shapes.merge, heights)
    inner = rows if square else (None,) if matrix is None else matrix[-1:]
    columns = (None,) if rhs is None else rhs[-1:]
    return shapes.concatenate(batch, shapes.concatenate(inner, columns))


# Kernels


def check_matrices(*arrays: Array, square: bool = False) -> None:
    """Raise InvalidArgumentError unless all inputs are batches of matrices, with `square` the first of square ones."""
    for array in arrays:
        if array.ndim < 2:
            raise InvalidArgumentError(f"Input tensor must have rank >= 2, got shape {shown(array.shape)}")
    if square and arrays[0].shape[-1] != arrays[0].shape[-2]:
        raise InvalidArgumentError(f"Input matrix must be square, got shape {shown(arrays[0].shape)}")


def check_equations(matrix: Array, rhs: Array, *, square: bool, broadcasts: bool = False) -> None:
    """Raise InvalidArgumentError unless the shapes of matrix x = rhs fit."""
    check_matrices(matrix, rhs, square=square)
    try:
        solution_dims(matrix.shape, rhs.shape, square=square, broadcasts=broadcasts)
    except GraphValueError as error:
        raise InvalidArgumentError(
            f"Input matrix and rhs are incompatible, {shown(matrix.shape)} and {shown(rhs.shape)}: {error.message}"
        ) from None


def wide(compute: Compute) -> Compute:
    """Compute 16-bit floats, which LAPACK lacks, in float32 and round the results."""

    def computed(*inputs: Array) -> Any:
        dtype = inputs[0].dtype
        if dtype.itemsize != 2:
            return compute(*inputs)
        results = compute(*(x.astype(np.float32) if x.dtype == dtype else x for x in inputs))
        if isinstance(results, tuple):
            return tuple(result.astype(dtype) for result in results)
        return results.astype(dtype)

    return computed


def each_matrix(function: Callable[[Array], Array], x: Array) -> Array:
    """Apply a function of one matrix, which keeps its shape, to a batch."""
    result = np.empty(x.shape, x.dtype)
    for index in np.ndindex(x.shape[:-2]):
        check_cancelled()
        result[index] = function(x[index])
    return result


def adjoint(x: Array) -> Array:
    """Return the conjugate transposes."""
    turned = np.swapaxes(x, -1, -2)
    return np.conj(turned) if x.dtype.kind == "c" else turned


# In gradients


def product(x: Tensor, y: Tensor, adj_x: bool = False, adj_y: bool = False) -> Tensor:
    return apply_op("BatchMatMulV2", x, y, adj_x=adj_x, adj_y=adj_y)


def turned(x: Tensor) -> Tensor:
    """Return the conjugate transposes of a batch of matrices."""
    if x.dims is not None:
        order: Any = convert_to_tensor(
            np.array([*range(len(x.dims) - 2), len(x.dims) - 1, len(x.dims) - 2], np.int32)
        )
    else:
        rank = apply_op("Rank", x)
        batch = apply_op("Range", 0, rank - 2, 1)
        order = apply_op("ConcatV2", [batch, apply_op("Pack", [rank - 1, rank - 2])], 0)
    return apply_op("ConjugateTranspose" if x.dtype.is_complex else "Transpose", x, order)


def column_scale(x: Tensor, scale: Tensor) -> Tensor:
    """Return x diag(scale)."""
    return x * apply_op("ExpandDims", scale, convert_to_tensor(-2, dtypes.int32))


def band(x: Tensor, lower: int, upper: int) -> Tensor:
    return apply_op(
        "MatrixBandPart", x, convert_to_tensor(lower, dtypes.int64), convert_to_tensor(upper, dtypes.int64)
    )


def lower_half(x: Tensor) -> Tensor:
    """Return the lower triangle, with the diagonal halved."""
    lower = band(x, -1, 0)
    return apply_op("MatrixSetDiag", lower, 0.5 * apply_op("MatrixDiagPart", lower))


def identity_like(x: Tensor) -> Tensor:
    """Return identity matrices of the shape of `x`."""
    return apply_op("MatrixDiag", apply_op("OnesLike", apply_op("MatrixDiagPart", x)))
