"""Cases of linear algebra, einsum and Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from aioexec.errors import InvalidArgumentError
from tests.ops.harness import Case, case

A = np.array([[4.0, 1.0, 0.5], [-1.0, 3.0, 1.0], [0.25, -0.5, 2.0]])
B = np.array([[1.0, -2.0], [0.5, 3.0], [2.0, 1.5]])
SYMMETRIC = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, -1.0], [0.5, -1.0, 2.0]])
TALL = np.array([[1.0, 2.0], [-1.0, 0.5], [3.0, 1.0], [0.5, -2.0]])
BATCH = np.stack([A, A.T + np.eye(3)])
EXACT = ("float64", "float32")
DOUBLE = ("float64",)
LOOSE = 1e-4


def triangle(x: Any) -> Any:
    return np.where(np.tril(np.ones(x.shape[-2:])), x, 0)


def adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2))


EQUATIONS = [
    *(
        case("MatrixInverse", x, expected=np.linalg.inv, gradients=(0,), dtypes=EXACT, tolerance=LOOSE)
        for x in (A, BATCH)
    ),
    case(
        "MatrixInverse",
        A,
        attrs={"adjoint": True},
        expected=lambda x: np.linalg.inv(x).T,
        gradients=(0,),
        dtypes=DOUBLE,
    ),
    case(
        "MatrixInverse",
        A + 1j * A.T,
        expected=np.linalg.inv,
        gradients=(0,),
        dtypes=("complex128",),
        tolerance=LOOSE,
    ),
    case("MatrixInverse", np.ones((2, 2)), raises=InvalidArgumentError),
    *(
        case("MatrixDeterminant", x, expected=np.linalg.det, gradients=(0,), dtypes=EXACT, tolerance=LOOSE)
        for x in (A, BATCH)
    ),
    case(
        "LogMatrixDeterminant",
        BATCH,
        expected=lambda x: tuple(np.linalg.slogdet(x)),
        gradients=(0,),
        differentiated=(1,),
        dtypes=DOUBLE,
    ),
    *(
        case(
            "MatrixSolve",
            A,
            B,
            attrs={"adjoint": flip},
            expected=lambda a, b, flip=flip: np.linalg.solve(a.T if flip else a, b),
            gradients=(0, 1),
            dtypes=EXACT,
            tolerance=LOOSE,
        )
        for flip in (False, True)
    ),
    case("MatrixSolve", np.ones((2, 2)), [[1.0], [2.0]], raises=InvalidArgumentError),
    *(
        case(
            "MatrixTriangularSolve",
            A,
            B,
            attrs={"lower": lower, "adjoint": flip},
            gradients=(0, 1),
            dtypes=EXACT,
            tolerance=LOOSE,
            expected=lambda a, b, lower=lower, flip=flip: linalg.solve_triangular(
                a, b, lower=lower, trans=2 if flip else 0
            ),
        )
        for lower in (True, False)
        for flip in (True, False)
    ),
    case(
        "MatrixTriangularSolve",
        BATCH,
        B,
        gradients=(0, 1),
        dtypes=DOUBLE,
        expected=lambda a, b: np.linalg.solve(triangle(a), np.stack([b, b])),
    ),
    *(
        case(
            "MatrixSolveLs",
            x,
            x @ [[1.0], [0.5]] + 0.25 if x is TALL else [[1.0], [2.0]],
            0.5,
            gradients=(0, 1),
            dtypes=DOUBLE,
            tolerance=LOOSE,
            expected=regularised,
        )
        for x, regularised in (
            (TALL, lambda a, b, l2: np.linalg.solve(a.T @ a + 0.5 * np.eye(2), a.T @ b)),
            (TALL.T, lambda a, b, l2: a.T @ np.linalg.solve(a @ a.T + 0.5 * np.eye(2), b)),
        )
    ),
    case(
        "MatrixSolveLs",
        TALL,
        np.ones((4, 1)),
        0.0,
        attrs={"fast": False},
        dtypes=DOUBLE,
        expected=lambda a, b, l2: np.linalg.lstsq(a, b)[0],
    ),
    case(
        "MatrixSolveLs",
        [[1.0, 2.0], [2.0, 4.0]],
        [[1.0], [2.0]],
        0.0,
        dtypes=DOUBLE,
        raises=InvalidArgumentError,
    ),
]


def cholesky_slope(factor: Any, dy: Any) -> Any:
    """By differences: the gradient of the sum of dy times the factor, by a symmetric change of the matrix."""
    at, result = factor @ factor.T, np.zeros(factor.shape)
    for i, j in np.ndindex(at.shape):
        change = np.zeros(at.shape)
        change[i, j] += 5e-6
        change[j, i] += 5e-6
        up, down = np.linalg.cholesky(at + change / 2), np.linalg.cholesky(at - change / 2)
        result[i, j] = ((up - down) * np.tril(dy)).sum() / 5e-6 / 2
    return result


FACTOR = np.linalg.cholesky(SYMMETRIC)
DECOMPOSITIONS = [
    case("Cholesky", SYMMETRIC, expected=np.linalg.cholesky, dtypes=EXACT),
    case("Cholesky", [[1.0, 2.0], [2.0, 1.0]], expected=[[np.nan, 0], [np.nan, np.nan]], dtypes=EXACT),
    case("Cholesky", [[4.0]], expected=[[2.0]], gradients=(0,), dtypes=EXACT),
    case("CholeskyGrad", FACTOR, A, expected=cholesky_slope, dtypes=DOUBLE, tolerance=1.0),
    case("Lu", A, expected=lambda x: (linalg.lu_factor(x)[0], np.arange(3, dtype=np.int32)), dtypes=EXACT),
    case(
        "Lu",
        [[0.0, 1.0], [2.0, 3.0]],
        attrs={"output_idx_type": "int64"},
        expected=([[2, 3], [0, 1]], np.array([1, 0])),
        dtypes=EXACT,
    ),
    case("Lu", np.ones((2, 2)), raises=InvalidArgumentError),
    *(
        case(
            "Qr", x, expected=lambda x: tuple(np.linalg.qr(x)), gradients=(0,), dtypes=EXACT, tolerance=LOOSE
        )
        for x in (A, TALL, TALL.T)
    ),
    case(
        "Qr",
        A + 0.5j * A.T,
        expected=lambda x: tuple(np.linalg.qr(x)),
        gradients=(0,),
        dtypes=("complex128",),
        tolerance=LOOSE,
    ),
    case(
        "Qr",
        TALL,
        attrs={"full_matrices": True},
        expected=lambda x: tuple(np.linalg.qr(x, "complete")),
        dtypes=DOUBLE,
    ),
    case("SelfAdjointEigV2", [[3.0]], expected=([3.0], [[1.0]]), gradients=(0,), dtypes=EXACT),
    case(
        "SelfAdjointEigV2",
        SYMMETRIC,
        expected=lambda x: tuple(np.linalg.eigh(x)),
        dtypes=EXACT,
        tolerance=LOOSE,
    ),
    case(
        "SelfAdjointEigV2",
        SYMMETRIC,
        attrs={"compute_v": False},
        expected=lambda x: (np.linalg.eigvalsh(x), np.zeros(0)),
        dtypes=EXACT,
        tolerance=LOOSE,
    ),
    *(
        case(
            "Svd",
            x,
            gradients=(0,),
            dtypes=DOUBLE,
            tolerance=LOOSE,
            expected=lambda x: (
                np.linalg.svd(x, False)[1],
                np.linalg.svd(x, False)[0],
                np.linalg.svd(x, False)[2].T,
            ),
        )
        for x in (TALL, TALL.T)
    ),
    case("Svd", A, attrs={"full_matrices": True}, gradients=(0,), dtypes=DOUBLE, tolerance=LOOSE),
    case(
        "Svd",
        TALL,
        attrs={"compute_uv": False},
        expected=lambda x: (np.linalg.svd(x)[1], np.zeros(0), np.zeros(0)),
        dtypes=EXACT,
    ),
    case(
        "MatrixExponential",
        BATCH / 4,
        expected=lambda x: np.stack([linalg.expm(each) for each in x]),
        dtypes=EXACT,
    ),
    case("MatrixExponential", np.zeros((2, 2)), expected=np.eye(2), dtypes=EXACT),
    case("MatrixLogarithm", A + 0j, expected=linalg.logm, dtypes=("complex128",)),
    case("MatrixSquareRoot", SYMMETRIC, expected=linalg.sqrtm, gradients=(0,), dtypes=DOUBLE),
    case("MatrixSquareRoot", A, expected=linalg.sqrtm, gradients=(0,), dtypes=DOUBLE),
    case("MatrixSquareRoot", -np.eye(2), expected=np.full((2, 2), np.nan), dtypes=DOUBLE),
]


def logsumexps(x: Any, exclusive: bool, reverse: bool) -> Any:
    """Along the last axis."""
    turned = x[:, ::-1] if reverse else x
    with np.errstate(divide="ignore"):
        sums = np.log(np.cumsum(np.exp(turned), 1) - (np.exp(turned) if exclusive else 0))
    sums = np.where(np.arange(x.shape[1]) == 0, -np.inf, sums) if exclusive else sums
    return sums[:, ::-1] if reverse else sums


X, Y = np.arange(12.0).reshape(2, 2, 3) / 4, np.arange(6.0).reshape(2, 3, 1) - 2
PRODUCTS = [
    case(
        "Cross",
        [[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]],
        [[-2.0, 0.5, 1.0], [3.0, 1.5, -1.0]],
        expected=np.cross,
        gradients=(0, 1),
    ),
    case("Cross", [1, 2, 3], [3, 1, 2], expected=np.cross, dtypes=("int64", "int32")),
    case(
        "BatchMatMulV3",
        X,
        Y,
        attrs={"Tb": "float64", "Tout": "float64"},
        vary="Ta",
        dtypes=DOUBLE,
        expected=np.matmul,
        gradients=(0, 1),
    ),
    case(
        "BatchMatMulV3",
        np.array([[1, 2]], np.int8),
        np.array([[3], [4]], np.int8),
        attrs={"Tb": "int8", "Tout": "int32"},
        vary="Ta",
        dtypes=("int8",),
        expected=np.array([[11]], np.int32),
        native=False,
    ),
    *(
        case(
            "BatchMatMulV3",
            np.array([[1, 2], [3, 4]], name),
            np.array([[3], [4]], name),
            attrs={"Tb": name, "Tout": name},
            vary="Ta",
            dtypes=(name,),
            expected=np.array([[11], [25]], name),
        )
        for name in ("int32", "int64", "float32")
    ),
    case("EuclideanNorm", A, [1], expected=lambda x, axis: np.sqrt((x * x).sum(1)), gradients=(0,)),
    case(
        "EuclideanNorm",
        A,
        [0, 1],
        attrs={"keep_dims": True},
        expected=lambda x, axis: np.sqrt((x * x).sum(keepdims=True)),
        gradients=(0,),
    ),
    case("EuclideanNorm", [3, 4], [0], expected=5, dtypes=("int64", "int32")),
    *(
        case(
            "CumulativeLogsumexp",
            A,
            1,
            attrs={"exclusive": exclusive, "reverse": reverse},
            gradients=() if exclusive else (0,),
            tolerance=1e-4,
            expected=lambda x, axis, e=exclusive, r=reverse: logsumexps(x, e, r),
        )
        for exclusive in (False, True)
        for reverse in (False, True)
    ),
]


M, N = np.arange(6.0).reshape(2, 3) / 2 - 1, np.arange(12.0).reshape(3, 4) / 3
HEADS, KEYS = np.arange(24.0).reshape(1, 3, 2, 4) / 8, np.arange(40.0).reshape(1, 5, 2, 4) / 10
EINSUMS = [
    *(
        case(
            "Einsum",
            operands,
            attrs={"equation": equation},
            gradients=tuple(range(len(operands))),
            native=native,
            expected=lambda *x, equation=equation: np.einsum(equation, *x),
        )
        for equation, native, *operands in (
            ("ij,jk->ik", True, M, N),
            ("ji,jk->ki", True, M.T, N),
            ("ij,kj->ki", True, M, N.T),
            ("ij,jk->ki", True, M, N),
            ("bqhd,bkhd->bhqk", True, HEADS, KEYS),
            ("i,j->ij", True, M[0], N[0]),
            ("ij,ij->", True, M, M),
            ("aij,ajk->aik", True, X, Y),
            ("ij,j->i", True, M, M[0]),
            ("ij->ji", False, M),
            ("ij->j", False, M),
            ("ii->i", False, A),
            ("ii->", False, A),
            ("...ij,jk->...ik", False, X, N),
            ("...i,...i->...", False, X, M),
            ("ij,kl->il", False, M, N),
        )
    ),
    case("Einsum", [M[0]], attrs={"equation": "i->ii"}, native=False, expected=np.diag, gradients=(0,)),
    *(
        case(
            "Einsum",
            [M.astype(int), N.astype(int)],
            attrs={"equation": "ij,jk->ik"},
            dtypes=(name,),
            expected=np.matmul,
        )
        for name in ("int64", "int32")
    ),
    case("Einsum", [np.zeros((0, 3)), N], attrs={"equation": "ij,jk->ik"}, expected=np.zeros((0, 4))),
]

WAVE = np.array([[1 + 2j, -0.5j, 3 - 1j, 2 + 0.25j], [0.5, 1j, -1 - 1j, 2.0]])
REAL = np.array([[[1.0, -0.5, 2.0, 3.0], [0.25, 1.5, -1.0, 0.5], [2.0, 1.0, 0.0, -2.0]]])
AXES = {"": 1, "2D": 2, "3D": 3}


def over(function: Any, rank: int, length: Any = None) -> Any:
    axes = range(-rank, 0)
    return lambda x, *_: function(x, axes=axes) if length is None else function(x, length, axes)


WAVES = [
    *(
        case(
            f"{name}{suffix}",
            WAVE.reshape(shape),
            expected=over(function, rank),
            gradients=(0,),
            tolerance=1e-4,
        )
        for name, function in (("FFT", np.fft.fftn), ("IFFT", np.fft.ifftn))
        for (suffix, rank), shape in zip(AXES.items(), ((2, 4), (2, 4), (2, 2, 2)), strict=True)
    ),
    *(
        case(
            f"RFFT{suffix}",
            REAL,
            [1, 3, 4][-rank:],
            attrs={"Tcomplex": "complex128"},
            dtypes=DOUBLE,
            gradients=(0,) if rank < 3 else (),
            expected=over(np.fft.rfftn, rank, [1, 3, 4][-rank:]),
        )
        for suffix, rank in AXES.items()
    ),
    case(
        "RFFT",
        REAL,
        [3],
        attrs={"Tcomplex": "complex128"},
        dtypes=DOUBLE,
        gradients=(0,),
        expected=over(np.fft.rfftn, 1, [3]),
    ),
    *(
        case(
            f"IRFFT{suffix}",
            WAVE.reshape(1, 2, 4),
            [1, 2, 6][-rank:],
            attrs={"Treal": "float64"},
            dtypes=("complex128",),
            gradients=(0,) if rank < 3 else (),
            expected=over(np.fft.irfftn, rank, [1, 2, 6][-rank:]),
        )
        for suffix, rank in AXES.items()
    ),
    case(
        "IRFFT",
        WAVE,
        [5],
        attrs={"Treal": "float64"},
        dtypes=("complex128",),
        gradients=(0,),
        expected=over(np.fft.irfftn, 1, [5]),
    ),
    *(
        case(f"RFFT{suffix}", REAL, [9] * rank, dtypes=("float32",), raises=InvalidArgumentError)
        for suffix, rank in AXES.items()
    ),
]

CASES: list[Case] = [*EQUATIONS, *DECOMPOSITIONS, *PRODUCTS, *EINSUMS, *WAVES]
