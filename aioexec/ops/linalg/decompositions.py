"""Matrix decompositions: Cholesky, LU, QR, eigenvalues of Hermitian matrices, singular values.

Signs and phases of singular vectors and eigenvectors are LAPACK's; the decompositions do not determine them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.errors import InvalidArgumentError, UnimplementedError
from aioexec.graph.apply import apply_list_op, apply_op, apply_tuple_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.kernels.kernel import Compute, KernelContext, plain
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops.common.elementwise import Array
from aioexec.ops.linalg.matrices import (
    adjoint,
    band,
    check_matrices,
    column_scale,
    identity_like,
    lower_half,
    product,
    square_dims,
    turned,
    wide,
)
from aioexec.shapes import Dims, with_rank_at_least

# Cholesky


def _cholesky(x: Array) -> Array:
    """Return the factors; NaN for a matrix that is not positive definite."""
    check_matrices(x, square=True)
    try:
        return np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        pass
    result = np.empty(x.shape, x.dtype)
    for index in np.ndindex(x.shape[:-2]):
        try:
            result[index] = np.linalg.cholesky(x[index])
        except np.linalg.LinAlgError:
            result[index] = np.tril(np.full(x.shape[-2:], np.nan, x.dtype))
    return result


def _cholesky_gradient(op: Operation, dy: Tensor) -> list[Tensor]:
    (factor,) = op.outputs
    inverse = apply_op("MatrixTriangularSolve", factor, identity_like(factor))
    middle = lower_half(product(factor, dy, adj_x=True))
    whole = product(product(inverse, middle, adj_x=True), inverse)
    return [0.5 * (whole + turned(whole))]


def _inverse_of_lower(factor: Array) -> Array:
    """Return the inverses of lower triangular matrices; infinity and NaN for singular ones."""
    inverse = np.zeros(factor.shape, factor.dtype)
    size = factor.shape[-1]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for row in range(size):
            known = np.matmul(factor[..., row : row + 1, :row], inverse[..., :row, :])[..., 0, :]
            inverse[..., row, :] = (np.eye(size, dtype=factor.dtype)[row] - known) / factor[
                ..., row, row, None
            ]
    return inverse


def _cholesky_grad(factor: Array, dy: Array) -> Array:
    check_matrices(factor, dy, square=True)
    if factor.shape != dy.shape:
        raise InvalidArgumentError(f"expected a gradient of shape {factor.shape}, got {dy.shape}")
    inverse = _inverse_of_lower(factor)
    middle = np.tril(np.matmul(adjoint(np.tril(factor)), np.tril(dy)))
    diagonal = np.arange(middle.shape[-1])
    middle[..., diagonal, diagonal] *= middle.dtype.type(0.5)
    whole = np.matmul(np.matmul(adjoint(inverse), middle), inverse)
    return np.asarray((whole + adjoint(whole)) * whole.dtype.type(0.5))


register(
    "Cholesky(input:T) -> (output:T) [T:type@19]",
    shape=lambda context: [square_dims(context.inputs[0])],
    kernel=plain(wide(_cholesky)),
    gradient=_cholesky_gradient,
)
register(
    "CholeskyGrad(l:T, grad:T) -> (output:T) [T:type{half|float|double}]",
    shape=lambda context: [square_dims(context.inputs[0])],
    kernel=plain(wide(_cholesky_grad)),
    gradient=undefined_gradient,
)

# LU


def _lu(context: KernelContext) -> Compute:
    dtype = context.attrs["output_idx_type"].numpy

    def compute(x: Array) -> tuple[Array, Array]:
        """Return L and U of each matrix in one matrix, and the row permutation."""
        check_matrices(x, square=True)
        from scipy import linalg

        factors, order = np.empty(x.shape, x.dtype), np.empty(x.shape[:-1], dtype)
        for index in np.ndindex(x.shape[:-2]):
            if not x.shape[-1]:
                continue
            (factor,) = linalg.get_lapack_funcs(("getrf",), (x,))
            factors[index], swaps, singular = factor(x[index])
            if singular:
                raise InvalidArgumentError("Input is not invertible.")
            rows = np.arange(x.shape[-1])
            for k, other in enumerate(swaps):
                rows[[k, other]] = rows[[other, k]]
            order[index] = rows
        return factors, order

    def rounded(x: Array) -> tuple[Array, Array]:
        factors, order = compute(x.astype(np.float32) if x.dtype.itemsize == 2 else x)
        return factors.astype(x.dtype, copy=False), order

    return rounded


def _lu_shape(context: ShapeContext) -> Sequence[Dims]:
    dims = square_dims(context.inputs[0])
    return [dims, None if dims is None else dims[:-1]]


register(
    "Lu(input:T) -> (lu:T, p:output_idx_type) [T:type@19; output_idx_type:type{int32|int64}=int32]",
    shape=_lu_shape,
    kernel=_lu,
    gradient=undefined_gradient,
)

# QR


def _least(rows: int | None, columns: int | None) -> int | None:
    if rows == 0 or columns == 0:
        return 0
    return None if rows is None or columns is None else min(rows, columns)


def _qr_shape(context: ShapeContext) -> Sequence[Dims]:
    dims = with_rank_at_least(context.inputs[0], 2)
    if dims is None:
        return [None, None]
    *batch, rows, columns = dims
    inner = rows if context.attrs["full_matrices"] else _least(rows, columns)
    return [(*batch, rows, inner), (*batch, inner, columns)]


def _qr(context: KernelContext) -> Compute:
    mode: Any = "complete" if context.attrs["full_matrices"] else "reduced"

    def compute(x: Array) -> tuple[Array, Array]:
        check_matrices(x)
        q, r = np.linalg.qr(x, mode)
        return q, r

    return wide(compute)


def _right_divided(x: Tensor, upper: Tensor) -> Tensor:
    """Return x times the inverse adjoint of an upper triangular matrix."""
    return turned(apply_op("MatrixTriangularSolve", upper, turned(x), lower=False))


def _tall_qr_gradient(q: Tensor, r: Tensor, dq: Tensor, dr: Tensor) -> Tensor:
    """Return the QR gradient for rows >= columns: the part within the column space of q, and the part orthogonal to it."""
    inner, outer = product(q, dq, adj_x=True), product(r, dr, adj_y=True)
    lower = band((inner - turned(inner)) + (outer - turned(outer)), -1, 0)
    within = product(q, dr + _right_divided(lower, r))
    total = within + _right_divided(dq - product(q, inner), r)
    if not q.dtype.is_complex:
        return total
    turning = apply_op(
        "MatrixDiagPart", outer - turned(inner)
    )  # the diagonal of r is real, so its phase is fixed
    phase = turning - _complex(apply_op("Real", turning, Tout=q.dtype.real_dtype), q)
    return total + _right_divided(product(q, turned(apply_op("MatrixDiag", phase))), r)


def _complex(x: Tensor, like: Tensor) -> Tensor:
    return apply_op("Complex", x, apply_op("ZerosLike", x), Tout=like.dtype.base_dtype)


def _qr_gradient(op: Operation, dq: Tensor, dr: Tensor) -> list[Tensor]:
    """Return the QR gradient; a wide matrix is split into a square part and the rest, for which r = q' rest."""
    (x,), (q, r) = op.inputs, op.outputs
    if x.dims is None or None in x.dims[-2:]:
        raise UnimplementedError(f"gradient of Qr {op.name!r}: expected a known number of rows and columns")
    rows, columns = int(x.dims[-2] or 0), int(x.dims[-1] or 0)
    if rows > columns and op.attrs["full_matrices"]:
        raise UnimplementedError(
            f"gradient of Qr {op.name!r}: not defined for more rows than columns with full_matrices"
        )
    if rows >= columns:
        return [_tall_qr_gradient(q, r, dq, dr)]
    (_, rest), (square, _), (d_square, d_rest) = (_split_columns(each, rows, columns) for each in (x, r, dr))
    by_square = _tall_qr_gradient(q, square, dq + product(rest, d_rest, adj_y=True), d_square)
    return [apply_op("ConcatV2", [by_square, product(q, d_rest)], convert_to_tensor(-1, dtypes.int32))]


def _split_columns(x: Tensor, count: int, total: int) -> Any:
    sizes = convert_to_tensor([count, total - count], dtypes.int32)
    return apply_list_op("SplitV", x, sizes, convert_to_tensor(-1, dtypes.int32), num_split=2)


register(
    "Qr(input:T) -> (q:T, r:T) [full_matrices:bool=false; T:type@19]",
    shape=_qr_shape,
    kernel=_qr,
    gradient=_qr_gradient,
)

# Eigenvalues of Hermitian matrices


def _eigen_shape(context: ShapeContext) -> Sequence[Dims]:
    dims = square_dims(context.inputs[0])
    if dims is None:
        return [None, None if context.attrs["compute_v"] else (0,)]
    return [dims[:-1], dims if context.attrs["compute_v"] else (0,)]


def _eigen(context: KernelContext) -> Compute:
    vectors = bool(context.attrs["compute_v"])

    def compute(x: Array) -> tuple[Array, Array]:
        check_matrices(x, square=True)
        if not np.isfinite(np.tril(x)).all():
            raise InvalidArgumentError(
                "Self-adjoint eigen decomposition was not successful: the input is not finite"
            )
        if not vectors:
            return np.linalg.eigvalsh(x).astype(x.dtype), np.zeros(0, x.dtype)
        e, v = np.linalg.eigh(x)
        return e.astype(x.dtype), v

    return wide(compute)


def _reciprocal_gaps(x: Tensor) -> Tensor:
    """Return 1 / (x[j] - x[i]) off the diagonal, 0 where x[j] == x[i]."""
    gaps = apply_op("ExpandDims", x, convert_to_tensor(-2, dtypes.int32)) - apply_op(
        "ExpandDims", x, convert_to_tensor(-1, dtypes.int32)
    )
    return apply_op("DivNoNan", convert_to_tensor(1, x.dtype.base_dtype), gaps)


def _eigen_gradient(op: Operation, de: Tensor, dv: Tensor) -> list[Tensor]:
    """Return the gradient of the lower triangle, the only part that the op reads: it stands for both triangles."""
    e, v = op.outputs
    if op.attrs["compute_v"]:
        middle = apply_op("MatrixDiag", de) + _reciprocal_gaps(e) * product(v, dv, adj_x=True)
        whole = product(v, product(middle, v, adj_y=True))
    else:
        _, v = apply_tuple_op("SelfAdjointEigV2", op.inputs[0])
        whole = product(column_scale(v, de), v, adj_y=True)
    return [lower_half(whole + turned(whole))]


register(
    "SelfAdjointEigV2(input:T) -> (e:T, v:T) [compute_v:bool=true; T:type@19]",
    shape=_eigen_shape,
    kernel=_eigen,
    gradient=_eigen_gradient,
)

# Singular values


def _svd_shape(context: ShapeContext) -> Sequence[Dims]:
    dims = with_rank_at_least(context.inputs[0], 2)
    wanted = context.attrs["compute_uv"]
    if dims is None:
        return [None, *([None] * 2 if wanted else [(0,)] * 2)]
    *batch, rows, columns = dims
    least = _least(rows, columns)
    if not wanted:
        return [(*batch, least), (0,), (0,)]
    full = context.attrs["full_matrices"]
    return [
        (*batch, least),
        (*batch, rows, rows if full else least),
        (*batch, columns, columns if full else least),
    ]


def _svd(context: KernelContext) -> Compute:
    wanted, full = bool(context.attrs["compute_uv"]), bool(context.attrs["full_matrices"])

    def compute(x: Array) -> tuple[Array, Array, Array]:
        check_matrices(x)
        finite = np.asarray(np.isfinite(x).all((-1, -2)))
        if finite.all():
            return decomposed(x)
        parts = decomposed(np.where(finite[..., None, None], x, x.dtype.type(0)))
        for part in parts if wanted else parts[:1]:  # as TensorFlow does; LAPACK might not converge
            part[~finite] = np.nan
        return parts

    def decomposed(x: Array) -> tuple[Array, Array, Array]:
        if not wanted:
            nothing = np.zeros(0, x.dtype)
            return np.linalg.svd(x, compute_uv=False).astype(x.dtype), nothing, nothing
        u, s, v = np.linalg.svd(x, full)
        return s.astype(x.dtype), u, adjoint(v)

    return wide(compute)


def _svd_gradient(op: Operation, ds: Tensor, du: Tensor, dv: Tensor) -> list[Tensor]:
    """Return the SVD gradient: u diag(ds) v' for s, plus the rotations of u and v within and out of their column spaces."""
    (x,), (s, u, v) = op.inputs, op.outputs
    if not op.attrs["compute_uv"]:
        _, u, v = apply_tuple_op("Svd", x)
        return [product(column_scale(u, ds), v, adj_y=True)]
    if x.dtype.is_complex:
        raise UnimplementedError(
            f"gradient of Svd {op.name!r}: not defined for complex matrices with compute_uv"
        )
    if op.attrs["full_matrices"] and (x.dims is None or x.dims[-1] is None or x.dims[-1] != x.dims[-2]):
        raise UnimplementedError(f"gradient of Svd {op.name!r}: not defined with full_matrices unless square")
    gaps, inverse = _reciprocal_gaps(s * s), apply_op("DivNoNan", convert_to_tensor(1, s.dtype.base_dtype), s)
    left, right = (product(a, b, adj_x=True) for a, b in ((u, du), (v, dv)))
    middle = apply_op("MatrixDiag", ds) + column_scale(gaps * (left - turned(left)), s)
    middle = middle + turned(column_scale(gaps * (right - turned(right)), s))
    out_of_u = product(column_scale(du - product(u, left), inverse), v, adj_y=True)
    out_of_v = product(u, column_scale(dv - product(v, right), inverse), adj_y=True)
    return [product(product(u, middle), v, adj_y=True) + out_of_u + out_of_v]


register(
    "Svd(input:T) -> (s:T, u:T, v:T) [compute_uv:bool=true; full_matrices:bool=false; T:type@19]",
    shape=_svd_shape,
    kernel=_svd,
    gradient=_svd_gradient,
)

# Functions


def cholesky(input: Any, name: str | None = None) -> Tensor:
    """Return the lower triangular L with L L' = input for Hermitian positive definite matrices."""
    return apply_op("Cholesky", input, name=name)


def lu(input: Any, output_idx_type: Any = dtypes.int32, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return L and U in one matrix, and the row permutation."""
    factors, order = apply_tuple_op("Lu", input, output_idx_type=dtypes.as_dtype(output_idx_type), name=name)
    return factors, order


def qr(input: Any, full_matrices: bool = False, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return orthonormal columns q and upper triangular r with q r = input."""
    q, r = apply_tuple_op("Qr", input, full_matrices=full_matrices, name=name)
    return q, r


def self_adjoint_eig(tensor: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return eigenvalues, ascending, and eigenvectors (columns) of Hermitian matrices."""
    e, v = apply_tuple_op("SelfAdjointEigV2", tensor, compute_v=True, name=name)
    return e, v


def self_adjoint_eigvals(tensor: Any, name: str | None = None) -> Tensor:
    """Return the eigenvalues, ascending, of Hermitian matrices."""
    return apply_tuple_op("SelfAdjointEigV2", tensor, compute_v=False, name=name)[0]


def svd(tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None) -> Any:
    """Return singular values, descending, and with `compute_uv` the singular vectors: (s, u, v) with u diag(s) v' = tensor."""
    s, u, v = apply_tuple_op("Svd", tensor, compute_uv=compute_uv, full_matrices=full_matrices, name=name)
    real = apply_op("Real", s, Tout=s.dtype.real_dtype) if s.dtype.is_complex else s
    return (real, u, v) if compute_uv else real
