"""Inverses, determinants, and solvers of linear equations, exact or by least squares, for batches of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.kernels.kernel import Compute, KernelContext, plain
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register
from aioexec.ops.common.elementwise import Array
from aioexec.ops.linalg.matrices import (
    adjoint,
    band,
    check_equations,
    check_matrices,
    identity_like,
    product,
    solution_dims,
    square_dims,
    turned,
    wide,
)
from aioexec.shapes import Dims, with_rank

SINGULAR = "Input is not invertible."


def _invertible(function: Any, *arguments: Array) -> Array:
    try:
        return np.asarray(function(*arguments))
    except np.linalg.LinAlgError:
        raise InvalidArgumentError(SINGULAR) from None


# Inverse


def _inverse(context: KernelContext) -> Compute:
    flips = bool(context.attrs["adjoint"])

    def compute(x: Array) -> Array:
        check_matrices(x, square=True)
        return _invertible(np.linalg.inv, adjoint(x) if flips else x)

    return wide(compute)


def _inverse_gradient(op: Operation, dy: Tensor) -> list[Tensor]:
    (y,) = op.outputs
    if op.attrs["adjoint"]:
        return [-product(y, product(dy, y, adj_x=True))]
    return [-product(y, product(dy, y, adj_y=True), adj_x=True)]


register(
    "MatrixInverse(input:T) -> (output:T) [adjoint:bool=false; T:type@19]",
    shape=lambda context: [square_dims(context.inputs[0])],
    kernel=_inverse,
    gradient=_inverse_gradient,
)

# Determinant


def _determinant(x: Array) -> Array:
    check_matrices(x, square=True)
    return np.asarray(np.linalg.det(x)).astype(x.dtype)


def _log_determinant(x: Array) -> tuple[Array, Array]:
    check_matrices(x, square=True)
    sign, logarithm = np.linalg.slogdet(x)
    return np.asarray(sign).astype(x.dtype), np.asarray(logarithm).astype(x.dtype)


def _batch(context: ShapeContext) -> Dims:
    dims = square_dims(context.inputs[0])
    return None if dims is None else dims[:-2]


def _spread(values: Tensor) -> Tensor:
    """Broadcast one number per matrix to the shape of the matrices."""
    last = convert_to_tensor(-1, dtypes.int32)
    return apply_op("ExpandDims", apply_op("ExpandDims", values, last), last)


def _determinant_gradient(op: Operation, dy: Tensor) -> list[Tensor]:
    inverse = apply_op("MatrixInverse", op.inputs[0], adjoint=True)
    return [_spread(dy * op.outputs[0]) * inverse]


def _log_determinant_gradient(op: Operation, sign: Tensor, dy: Tensor) -> list[Tensor]:
    return [_spread(dy) * apply_op("MatrixInverse", op.inputs[0], adjoint=True)]


register(
    "MatrixDeterminant(input:T) -> (output:T) [T:type@19]",
    shape=lambda context: [_batch(context)],
    kernel=plain(wide(_determinant)),
    gradient=_determinant_gradient,
)
register(
    "LogMatrixDeterminant(input:T) -> (sign:T, log_abs_determinant:T) [T:type@19]",
    shape=lambda context: [_batch(context)] * 2,
    kernel=plain(wide(_log_determinant)),
    gradient=_log_determinant_gradient,
)

# Solutions


def _solve(context: KernelContext) -> Compute:
    flips = bool(context.attrs["adjoint"])

    def compute(matrix: Array, rhs: Array) -> Array:
        check_equations(matrix, rhs, square=True)
        return _invertible(np.linalg.solve, adjoint(matrix) if flips else matrix, rhs)

    return wide(compute)


def _solution_gradients(op: Operation, dy: Tensor, **attrs: Any) -> tuple[Tensor, Tensor]:
    flips = bool(op.attrs["adjoint"])
    (x,) = op.outputs
    by_rhs = apply_op(op.type, op.inputs[0], dy, adjoint=not flips, **attrs)
    by_matrix = product(x, by_rhs, adj_y=True) if flips else product(by_rhs, x, adj_y=True)
    return -by_matrix, by_rhs


register(
    "MatrixSolve(matrix:T, rhs:T) -> (output:T) [adjoint:bool=false; T:type@19]",
    shape=lambda context: [solution_dims(*context.inputs, square=True)],
    kernel=_solve,
    gradient=_solution_gradients,
)


def _substituted(matrix: Array, rhs: Array, lower: bool) -> Array:
    """Solve row by row by substitution; a zero on the diagonal yields infinity or NaN."""
    size = matrix.shape[-1]
    batch = np.broadcast_shapes(matrix.shape[:-2], rhs.shape[:-2])
    x = np.array(np.broadcast_to(rhs, (*batch, *rhs.shape[-2:])))
    for row in range(size) if lower else range(size - 1, -1, -1):
        done = slice(0, row) if lower else slice(row + 1, size)
        known = np.matmul(matrix[..., row : row + 1, done], x[..., done, :])
        x[..., row : row + 1, :] -= known
        x[..., row, :] /= matrix[..., row, row, np.newaxis]
    return x


def _triangular_solve(context: KernelContext) -> Compute:
    lower, flips = bool(context.attrs["lower"]), bool(context.attrs["adjoint"])

    def compute(matrix: Array, rhs: Array) -> Array:
        check_equations(matrix, rhs, square=True, broadcasts=True)
        if flips:
            return _substituted(adjoint(matrix), rhs, not lower)
        return _substituted(matrix, rhs, lower)

    return wide(compute)


def _triangular_gradient(op: Operation, dy: Tensor) -> list[Tensor]:
    by_matrix, by_rhs = _solution_gradients(op, dy, lower=op.attrs["lower"])
    by_matrix = band(by_matrix, -1, 0) if op.attrs["lower"] else band(by_matrix, 0, -1)
    matrix, rhs = op.inputs
    if matrix.dims is not None and rhs.dims is not None and matrix.dims[:-2] == rhs.dims[:-2]:
        return [by_matrix, by_rhs]
    whole = [apply_op("Shape", each) for each in (matrix, rhs)]
    batch = [apply_op("StridedSlice", shape, [0], [-2], [1], begin_mask=1) for shape in whole]
    axes = apply_tuple_op("BroadcastGradientArgs", *batch)
    return [
        apply_op("Reshape", apply_op("Sum", each, over), shape)
        for each, over, shape in zip((by_matrix, by_rhs), axes, whole, strict=True)
    ]


register(
    "MatrixTriangularSolve(matrix:T, rhs:T) -> (output:T) [lower:bool=true; adjoint:bool=false; T:type@2]",
    shape=lambda context: [solution_dims(*context.inputs, square=True, broadcasts=True)],
    kernel=_triangular_solve,
    gradient=_triangular_gradient,
)

# Least squares


def _least_squares(context: KernelContext) -> Compute:
    fast = bool(context.attrs["fast"])

    def compute(matrix: Array, rhs: Array, regularizer: Array) -> Array:
        check_equations(matrix, rhs, square=False)
        if regularizer.ndim or not regularizer >= 0:
            raise InvalidArgumentError(f"l2_regularizer must be a scalar >= 0, got {regularizer.tolist()}")
        if not fast:
            finite = np.isfinite(matrix).all(axis=(-2, -1), keepdims=True)
            solved = np.matmul(np.linalg.pinv(np.where(finite, matrix, 0)), rhs)
            return np.where(finite, solved, np.nan).astype(matrix.dtype)  # `pinv` refuses NaN
        turned_matrix, (rows, columns) = adjoint(matrix), matrix.shape[-2:]
        tall = rows >= columns
        normal = np.matmul(turned_matrix, matrix) if tall else np.matmul(matrix, turned_matrix)
        normal = normal + regularizer.astype(matrix.real.dtype) * np.eye(
            min(rows, columns), dtype=matrix.dtype
        )
        try:
            np.linalg.cholesky(normal)
        except np.linalg.LinAlgError:
            raise InvalidArgumentError(
                "Input matrix was rank deficient or ill-conditioned. Try setting fast=False or provide a larger "
                "l2_regularizer > 0."
            ) from None
        if tall:
            return np.asarray(np.linalg.solve(normal, np.matmul(turned_matrix, rhs)))
        return np.asarray(np.matmul(turned_matrix, np.linalg.solve(normal, rhs)))

    return wide(compute)


def _least_squares_gradient(op: Operation, dy: Tensor) -> list[Any]:
    """Return the gradient of the regularised solution by normal equations, for both ways of solving."""
    matrix, rhs, regularizer = op.inputs
    (x,) = op.outputs
    dims = matrix.dims
    strength = apply_op("Cast", regularizer, DstT=matrix.dtype.base_dtype)
    tall = dims is None or dims[-2] is None or dims[-1] is None or dims[-2] >= dims[-1]
    normal = product(matrix, matrix, adj_x=tall, adj_y=not tall)
    normal = normal + strength * identity_like(normal)
    if tall:
        z = apply_op("MatrixSolve", normal, dy)
        both = product(x, z, adj_y=True)
        by_matrix = product(rhs, z, adj_y=True) - product(matrix, both + turned(both))
        return [by_matrix, product(matrix, z), None]
    by_rhs, inner = apply_op("MatrixSolve", normal, product(matrix, dy)), apply_op("MatrixSolve", normal, rhs)
    direct = product(inner, dy - product(matrix, by_rhs, adj_x=True), adj_y=True)
    return [direct - product(by_rhs, product(inner, matrix, adj_x=True)), by_rhs, None]


def _least_squares_shape(context: ShapeContext) -> Sequence[Dims]:
    matrix, rhs, regularizer = context.inputs
    with_rank(regularizer, 0)
    return [solution_dims(matrix, rhs, square=False)]


register(
    "MatrixSolveLs(matrix:T, rhs:T, l2_regularizer:double) -> (output:T) [T:type@19; fast:bool=true]",
    shape=_least_squares_shape,
    kernel=_least_squares,
    gradient=_least_squares_gradient,
)

# Functions


def matrix_inverse(input: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """Return the inverses of square matrices, or of their adjoints."""
    return apply_op("MatrixInverse", input, adjoint=adjoint, name=name)


def matrix_determinant(input: Any, name: str | None = None) -> Tensor:
    """Return the determinants of square matrices."""
    return apply_op("MatrixDeterminant", input, name=name)


def slogdet(input: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the signs of the determinants, and the logarithms of their absolute values."""
    sign, logarithm = apply_tuple_op("LogMatrixDeterminant", input, name=name)
    return sign, logarithm


def logdet(matrix: Any, name: str | None = None) -> Tensor:
    """Return the logarithms of the determinants of Hermitian positive definite matrices."""
    diagonal = apply_op("MatrixDiagPart", apply_op("Cholesky", convert_to_tensor(matrix)))
    real = apply_op("Real", diagonal) if diagonal.dtype.is_complex else diagonal
    total = apply_op("Sum", apply_op("Log", real), convert_to_tensor([-1], dtypes.int32))
    return apply_op("Mul", convert_to_tensor(2, total.dtype.base_dtype), total, name=name)


def matrix_solve(matrix: Any, rhs: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """Solve matrix x = rhs."""
    return apply_op("MatrixSolve", matrix, rhs, adjoint=adjoint, name=name)


def matrix_triangular_solve(
    matrix: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """Solve matrix x = rhs for triangular matrices; the other triangle is not read."""
    return apply_op("MatrixTriangularSolve", matrix, rhs, lower=lower, adjoint=adjoint, name=name)


def cholesky_solve(chol: Any, rhs: Any, name: str | None = None) -> Tensor:
    """Solve A x = rhs, given the Cholesky factor of A."""
    half = matrix_triangular_solve(chol, rhs, adjoint=False, lower=True)
    return matrix_triangular_solve(chol, half, adjoint=True, lower=True, name=name)


def matrix_solve_ls(
    matrix: Any, rhs: Any, l2_regularizer: Any = 0.0, fast: bool = True, name: str | None = None
) -> Tensor:
    """Solve matrix x = rhs by least squares, with minimum norm; `fast` uses normal equations."""
    strength = convert_to_tensor(l2_regularizer, dtypes.float64)
    return apply_op("MatrixSolveLs", matrix, rhs, strength, fast=fast, name=name)
