"""Solutions and inverses from LU factors, and the pseudo-inverse and the rank from singular values."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.ops.array.arrays import matrix_transpose
from aioexec.ops.array.filling import one_hot, ones
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.linalg.decompositions import svd
from aioexec.ops.linalg.linear_equations import matrix_triangular_solve
from aioexec.ops.linalg.matrix_diagonals import eye, matrix_band_part, matrix_set_diag
from aioexec.ops.linalg.products import matmul
from aioexec.ops.math.cast import cast
from aioexec.ops.math.comparison import where_v2
from aioexec.ops.reduction.reductions import reduce_max, reduce_sum


def adjoint(matrix: Any, name: str | None = None) -> Tensor:
    """Transpose the last two dimensions, and take the complex conjugate."""
    with op_scope(name, "adjoint", matrix):
        return matrix_transpose(convert_to_tensor(matrix, name="matrix"), conjugate=True)


def matvec(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Multiply matrices [..., n, m] with vectors [..., m]; the flags are those of `matmul`."""
    with op_scope(name, "MatVec", a, b):
        column = apply_op("ExpandDims", b, -1)
        product = matmul(
            a,
            column,
            transpose_a=transpose_a,
            adjoint_a=adjoint_a,
            a_is_sparse=a_is_sparse,
            b_is_sparse=b_is_sparse,
        )
        return apply_op("Squeeze", product, squeeze_dims=[-1])


# LU factors


def _factors(lower_upper: Tensor) -> tuple[Tensor, Tensor]:
    """Return the lower factor, with ones on its diagonal, and the upper factor."""
    diagonal = ones(shape(lower_upper)[:-1], lower_upper.dtype.base_dtype)
    lower = matrix_set_diag(matrix_band_part(lower_upper, -1, 0), diagonal)
    return lower, matrix_band_part(lower_upper, 0, -1)


def _permutation(perm: Tensor, dtype: dtypes.DType) -> Tensor:
    """Return the matrices whose products have the rows of the second factor in the order `perm`."""
    return one_hot(perm, shape(perm)[-1], dtype=dtype)


def _given(lower_upper: Any, perm: Any) -> tuple[Tensor, Tensor]:
    """Convert LU factors; raises GraphValueError for ranks that do not fit."""
    factors = convert_to_tensor(lower_upper, name="lower_upper", preferred_dtype=dtypes.float32)
    order = convert_to_tensor(perm, name="perm", preferred_dtype=dtypes.int32)
    if factors.dims is not None and len(factors.dims) < 2:
        raise GraphValueError("Input `lower_upper` must have at least 2 dimensions.")
    if order.dims is not None and len(order.dims) < 1:
        raise GraphValueError("Input `perm` must have at least 1 dimension.")
    return factors, order


def lu_solve(
    lower_upper: Any, perm: Any, rhs: Any, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """Solve x = matrix⁻¹ rhs for the matrix of `lu_reconstruct(lower_upper, perm)`.

    Args:
        lower_upper, perm: the results of `lu`: [..., n, n] and [..., n].
        rhs: [..., n, m].
        validate_args: has no effect: shapes are checked in any case.

    Raises:
        GraphValueError: a rank does not fit.
    """
    with op_scope(name, "lu_solve", lower_upper, perm, rhs):
        factors, order = _given(lower_upper, perm)
        right = convert_to_tensor(rhs, factors.dtype.base_dtype, name="rhs")
        if right.dims is not None and len(right.dims) < 2:
            raise GraphValueError("Input `rhs` must have at least 2 dimensions.")
        lower, upper = _factors(factors)
        permuted = matmul(_permutation(order, factors.dtype.base_dtype), right)
        return matrix_triangular_solve(upper, matrix_triangular_solve(lower, permuted), lower=False)


def lu_matrix_inverse(
    lower_upper: Any, perm: Any, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """Return the inverse of the matrix of `lu_reconstruct(lower_upper, perm)`; arguments as of `lu_solve`."""
    with op_scope(name, "lu_matrix_inverse", lower_upper, perm):
        factors, order = _given(lower_upper, perm)
        identity = eye(shape(factors)[-1], dtype=factors.dtype.base_dtype)
        if factors.dims is None or len(factors.dims) > 2:
            identity = apply_op("BroadcastTo", identity, shape(factors))
        return lu_solve(factors, order, identity)


def lu_reconstruct(
    lower_upper: Any, perm: Any, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """Return the matrices [..., n, n] from their LU factors and permutation; arguments as of `lu_solve`."""
    with op_scope(name, "lu_reconstruct", lower_upper, perm):
        factors, order = _given(lower_upper, perm)
        lower, upper = _factors(factors)
        back = _permutation(order, factors.dtype.base_dtype)
        matrix = matmul(back, matmul(lower, upper), transpose_a=True)
        matrix.set_shape(factors.dims)
        return matrix


# Singular values


def _matrix(a: Any) -> Tensor:
    """Convert a matrix; raises GraphTypeError, GraphValueError."""
    given = convert_to_tensor(a, name="a", preferred_dtype=dtypes.float32)
    if not given.dtype.is_floating:
        raise GraphTypeError(f"Input `a` must have `float`-like `dtype` (saw {given.dtype.name}).")
    if given.dims is not None and len(given.dims) < 2:
        raise GraphValueError(f"Input `a` must have at least 2 dimensions (saw: {len(given.dims)}).")
    return given


def _rounding(given: Tensor) -> Tensor:
    """Return the larger size of the matrices times the rounding of their dtype."""
    largest = cast(reduce_max(shape(given)[-2:]), given.dtype.base_dtype)
    epsilon = constant(np.finfo(given.dtype.numpy).eps, given.dtype.base_dtype)
    return apply_op("Mul", epsilon, largest)


def matrix_rank(a: Any, tol: Any = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """Return the number of singular values greater than `tol`, by default max(n, m) · epsilon · the largest of them.

    Args:
        a: floats [..., n, m].
        validate_args: has no effect: shapes are checked in any case.

    Returns:
        int32 [...].

    Raises:
        GraphTypeError, GraphValueError: `a` is not floating, or no matrix.
    """
    with op_scope(name, "matrix_rank", a):
        given = _matrix(a)
        values = svd(given, compute_uv=False)
        if tol is None:
            tol = _rounding(given) * reduce_max(values, axis=-1, keepdims=True)
        return reduce_sum(cast(values > tol, dtypes.int32), axis=-1)


def pinv(a: Any, rcond: Any = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """Return the Moore-Penrose pseudo-inverse [..., m, n] of matrices [..., n, m].

    Args:
        rcond: singular values up to this share of the largest count as 0; by default 10 · max(n, m) · epsilon.
        validate_args: has no effect: shapes are checked in any case.

    Raises:
        GraphTypeError, GraphValueError: `a` is not floating, or no matrix.
    """
    with op_scope(name, "pinv", a):
        given = _matrix(a)
        share = 10.0 * _rounding(given) if rcond is None else convert_to_tensor(rcond, given.dtype.base_dtype)
        values, left, right = svd(given, full_matrices=False, compute_uv=True)
        cutoff = apply_op("ExpandDims", apply_op("Mul", share, reduce_max(values, axis=-1)), -1)
        kept = where_v2(values > cutoff, values, constant(np.inf, given.dtype.base_dtype))
        inverse = matmul(right / apply_op("ExpandDims", kept, -2), left, adjoint_b=True)
        if given.dims is not None:
            inverse.set_shape([*given.dims[:-2], given.dims[-1], given.dims[-2]])
        return inverse
