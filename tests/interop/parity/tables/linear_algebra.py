"""Products, equations, decompositions and functions of matrices, einsum."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.parity.sweeps import COMPLEX, FLOATS, plain_dtypes, sample
from tests.interop.parity.table import Case, case, partly, unknown

EXACT = ("float32", "float64", *COMPLEX)
SQUARES = ((3, 3), (1, 1), (0, 0), (2, 3, 3), (0, 2, 2), (2, 1, 2, 2))


def regular(dtype: str, shape: tuple[int, ...], seed: int = 1) -> Any:
    """Matrices far from singular."""
    x = sample(dtype, shape, seed)
    return (x + 5 * np.eye(shape[-2], shape[-1])).astype(x.dtype)


def positive(dtype: str, shape: tuple[int, ...]) -> Any:
    """Hermitian positive definite matrices."""
    x = sample(dtype, shape, 2)
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + 3 * np.eye(shape[-1])).astype(x.dtype)


PRODUCTS = [
    *(case("MatMul", sample(name, (2, 3)), sample(name, (3, 4), 1)) for name in plain_dtypes("MatMul")),
    *(
        case(
            "MatMul",
            sample("float32", a),
            sample("float32", b, 1),
            attrs={"transpose_a": f, "transpose_b": g},
        )
        for a, b, f, g in (
            ((3, 2), (3, 4), True, False),
            ((2, 3), (4, 3), False, True),
            ((3, 2), (4, 3), True, True),
            ((0, 3), (3, 2), False, False),
            ((2, 0), (0, 3), False, False),
            ((1, 1), (1, 1), False, False),
        )
    ),
    *(
        case(
            "MatMul",
            sample("complex64", (3, 3)),
            sample("complex64", (3, 3), 1),
            attrs={"transpose_a": f, "transpose_b": g},
        )
        for f in (True, False)
        for g in (True, False)
    ),
    case("MatMul", unknown(sample("float32", (2, 3))), sample("float32", (3, 2))),
    case("MatMul", sample("float32", (2, 3)), sample("float32", (2, 3)), bad=True),
    case("MatMul", unknown(sample("float32", (2, 3))), unknown(sample("float32", (2, 3))), bad=True),
    case("MatMul", sample("float32", (3,)), sample("float32", (3, 2)), bad=True),
    *(
        case(op, sample(name, (2, 2, 3)), sample(name, (2, 3, 4), 1))
        for op in ("BatchMatMul", "BatchMatMulV2")
        for name in plain_dtypes(op)
    ),
    *(
        case(op, sample(name, a), sample(name, b, 1), attrs={"adj_x": f, "adj_y": g})
        for op in ("BatchMatMul", "BatchMatMulV2")
        for name in ("float32", "complex64")
        for a, b, f, g in (
            ((2, 3, 2), (2, 3, 4), True, False),
            ((2, 2, 3), (2, 4, 3), False, True),
            ((3, 2), (4, 3), True, True),
            ((0, 2, 3), (0, 3, 2), False, False),
            ((2, 0, 3), (2, 3, 2), False, False),
        )
    ),
    *(
        case(op, sample("float32", a), sample("float32", b, 1))
        for op in ("BatchMatMulV2",)
        for a, b in (
            ((2, 3), (4, 3, 2)),
            ((2, 1, 2, 3), (3, 3, 2)),
            ((1, 2, 3), (5, 3, 2)),
            ((5, 2, 3), (3, 2)),
        )
    ),
    *(
        case(op, sample("float32", (2, 2, 3)), sample("float32", (3, 3, 2)), bad=True)
        for op in ("BatchMatMul", "BatchMatMulV2")
    ),
    *(
        case(op, sample("float32", (2, 2, 3)), sample("float32", (2, 2, 2)), bad=True)
        for op in ("BatchMatMul", "BatchMatMulV2")
    ),
    *(
        case(op, unknown(sample("float32", (2, 2, 3))), unknown(sample("float32", (2, 3, 1))))
        for op in ("BatchMatMul", "BatchMatMulV2")
    ),
    *(
        case("BatchMatMulV3", sample(a, (2, 2, 3)), sample(b, (2, 3, 2), 1), attrs={"Tout": out})
        for a, b, out in (
            ("float32", "float32", "float32"),
            ("float64", "float64", "float64"),
            ("complex64", "complex64", "complex64"),
            ("int32", "int32", "int32"),
            ("int8", "int8", "int32"),
            ("uint8", "int8", "int32"),
            ("bfloat16", "bfloat16", "bfloat16"),
            ("float16", "float16", "float16"),
            ("int64", "int64", "int64"),
            ("bfloat16", "bfloat16", "float32"),
        )
    ),
    *(
        case(
            "BatchMatMulV3",
            sample("float32", a),
            sample("float32", b, 1),
            attrs={"adj_x": f, "adj_y": g, "Tout": "float32"},
        )
        for a, b, f, g in (
            ((3, 2), (3, 4), True, False),
            ((2, 1, 2, 3), (3, 2, 3), False, True),
            ((0, 2), (2, 3), False, False),
        )
    ),
    case(
        "BatchMatMulV3",
        sample("float32", (2, 3)),
        sample("float32", (2, 3)),
        attrs={"Tout": "float32"},
        bad=True,
    ),
    *(case("Cross", sample(name, (2, 3)), sample(name, (2, 3), 1)) for name in plain_dtypes("Cross")),
    *(
        case("Cross", sample("float32", shape), sample("float32", shape, 1))
        for shape in ((3,), (0, 3), (2, 2, 3))
    ),
    case("Cross", unknown([1.0, 2.0, 3.0]), [0.5, 0.25, 1.0]),
    case("Cross", [1.0, 2.0], [3.0, 4.0], bad=True),
    case("Cross", sample("float32", (2, 3)), sample("float32", (1, 3)), bad=True),
    case("Cross", unknown([1.0, 2.0]), unknown([3.0, 4.0]), bad=True),
]

NOTE = "a polynomial of the elements, computed in another order"
EQUATIONS = [
    *(
        case("MatrixInverse", regular(name, (3, 3)), attrs={"adjoint": flip}, tolerance=20, note=NOTE)
        for name in EXACT
        for flip in (False, True)
    ),
    *(
        case(op, regular("float64", shape))
        for op in ("MatrixInverse", "MatrixDeterminant")
        for shape in SQUARES
    ),
    *(
        case(op, regular(name, (2, 3, 3)), tolerance=20, note=NOTE)
        for op in ("MatrixDeterminant",)
        for name in EXACT
    ),
    *(case(op, unknown(regular("float64", (2, 2)))) for op in ("MatrixInverse", "MatrixDeterminant")),
    *(
        case(op, sample("float32", (2, 3)), bad=True)
        for op in ("MatrixInverse", "MatrixDeterminant", "Cholesky", "Lu")
    ),
    *(
        case(op, unknown(sample("float32", (2, 3))), bad=True)
        for op in ("MatrixInverse", "MatrixDeterminant", "Cholesky", "Lu")
    ),
    *(
        case(op, sample("float32", (2,)), bad=True)
        for op in ("MatrixInverse", "MatrixDeterminant", "Cholesky", "Lu")
    ),
    case("MatrixInverse", np.ones((2, 2)), bad=True),
    case("MatrixDeterminant", np.ones((2, 2)), grad=False),
    *(
        case("LogMatrixDeterminant", regular(name, (2, 3, 3)), differentiated=[1], tolerance=20, note=NOTE)
        for name in ("float32", "float64")
    ),
    *(
        case("LogMatrixDeterminant", regular(name, (2, 2)), grad=False, tolerance=20, note=NOTE)
        for name in COMPLEX
    ),
    *(case("LogMatrixDeterminant", regular("float64", shape), differentiated=[1]) for shape in SQUARES),
    case("LogMatrixDeterminant", unknown(-regular("float64", (3, 3))), differentiated=[1]),
    case("LogMatrixDeterminant", sample("float64", (2, 3)), bad=True),
    *(
        case(
            "MatrixSolve",
            regular(name, (3, 3)),
            sample(name, (3, 2), 3),
            attrs={"adjoint": flip},
            tolerance=20,
            note=NOTE,
        )
        for name in EXACT
        for flip in (False, True)
    ),
    *(
        case("MatrixSolve", regular("float64", a), sample("float64", b, 3))
        for a, b in (((2, 3, 3), (2, 3, 1)), ((0, 2, 2), (0, 2, 2)), ((2, 2), (2, 0)), ((0, 0), (0, 3)))
    ),
    case("MatrixSolve", unknown(regular("float64", (2, 2))), sample("float64", (2, 2))),
    case("MatrixSolve", np.ones((2, 2)), np.ones((2, 1)), bad=True),
    case("MatrixSolve", np.eye(3), np.ones((2, 1)), bad=True),
    case("MatrixSolve", np.eye(3), np.ones(3), bad=True),
    case("MatrixSolve", np.ones((1, 2, 2)), np.ones((2, 2, 1)), bad=True),
    *(
        case(
            "MatrixTriangularSolve",
            regular(name, (3, 3)),
            sample(name, (3, 2), 3),
            attrs={"lower": lower, "adjoint": flip},
            tolerance=20,
            note=NOTE,
        )
        for name in EXACT
        for lower in (False, True)
        for flip in (False, True)
    ),
    *(
        case("MatrixTriangularSolve", regular("float64", a), sample("float64", b, 3))
        for a, b in (
            ((2, 3, 3), (2, 3, 1)),
            ((0, 2, 2), (0, 2, 2)),
            ((1, 3, 3), (4, 3, 2)),
            ((3, 3), (2, 3, 1)),
            ((2, 3, 3), (3, 2)),
        )
    ),
    case("MatrixTriangularSolve", unknown(regular("float64", (2, 2))), sample("float64", (2, 2))),
    case("MatrixTriangularSolve", np.eye(3), np.ones((2, 1)), bad=True),
    case("MatrixTriangularSolve", np.ones((2, 3)), np.ones((2, 1)), bad=True),
    *(
        case(
            "MatrixSolveLs",
            sample(name, a, 1),
            sample(name, b, 2),
            l2,
            attrs={"fast": fast},
            tolerance=100,
            note=NOTE,
        )
        for name in ("float64", "float32")
        for a, b, l2 in (((4, 2), (4, 1), 0.1), ((2, 4), (2, 3), 0.1), ((3, 3), (3, 1), 0.5))
        for fast in (True,)
    ),
    *(
        case(
            "MatrixSolveLs",
            sample("float64", a, 1),
            sample("float64", b, 2),
            0.0,
            attrs={"fast": False},
            grad=False,
        )
        for a, b in (((4, 2), (4, 1)), ((2, 4), (2, 3)), ((2, 3, 2), (2, 3, 1)))
    ),
    *(
        case("MatrixSolveLs", sample("complex128", a, 1), sample("complex128", b, 2), 0.25, grad=False)
        for a, b in (((4, 2), (4, 1)), ((2, 4), (2, 3)), ((2, 3, 2), (2, 3, 1)))
    ),
    case("MatrixSolveLs", np.ones((3, 2)), np.ones((2, 1)), 0.0, bad=True),
    case("MatrixSolveLs", np.array([[1.0, 2], [2, 4]]), np.ones((2, 1)), 0.0, bad=True),
]

SIGNS = "vectors are defined up to sign or phase"
DECOMPOSITIONS = [
    *(case("Cholesky", positive(name, (2, 3, 3)), tolerance=50, note=NOTE) for name in EXACT),
    *(case("Cholesky", positive("float64", shape), tolerance=10, note=NOTE) for shape in SQUARES),
    case("Cholesky", unknown(positive("float64", (2, 2))), tolerance=10, note=NOTE),
    *(
        case(
            "CholeskyGrad",
            np.linalg.cholesky(positive(name, shape)),
            sample(name, shape),
            grad=False,
            tolerance=50,
            note=NOTE,
        )
        for name in ("float32", "float64")
        for shape in ((3, 3), (1, 1), (2, 2, 2), (4, 4), (0, 3, 3))
    ),
    case("CholeskyGrad", np.eye(3), np.ones((2, 2)), bad=True),
    case("CholeskyGrad", np.ones((2, 3)), np.ones((2, 3)), bad=True),
    *(case("Lu", regular(name, (2, 3, 3)), grad=False, tolerance=20, note=NOTE) for name in EXACT),
    *(case("Lu", sample("float64", shape, 5), grad=False) for shape in SQUARES if shape != (0, 2, 2)),
    case("Lu", sample("float64", (3, 3), 5), attrs={"output_idx_type": "int64"}, grad=False),
    case("Lu", np.zeros((2, 2)), bad=True),
    *(case("Qr", sample(name, (4, 3)), tolerance=100, note=NOTE) for name in EXACT),
    *(
        case(
            "Qr",
            sample("float64", shape, 1),
            attrs={"full_matrices": full},
            grad=grad,
            tolerance=10,
            note=NOTE,
        )
        for shape, full, grad in (
            ((3, 3), False, True),
            ((3, 5), False, True),
            ((2, 4, 2), False, True),
            ((4, 2), True, False),
            ((2, 4), True, True),
            ((0, 3), False, False),
            ((3, 0), True, False),
            ((2, 0, 0), False, False),
        )
    ),
    case("Qr", unknown(sample("float64", (3, 2))), grad=False),
    case("Qr", partly(sample("float64", (3, 2)), (None, 2)), grad=False),
    case("Qr", [1.0, 2.0], bad=True),
    *(
        case(
            "SelfAdjointEigV2",
            positive(name, (2, 3, 3)),
            compared=[0],
            differentiated=[0],
            tolerance=50,
            note=SIGNS,
        )
        for name in EXACT
    ),
    *(
        case(
            "SelfAdjointEigV2",
            positive("float64", shape),
            compared=[0],
            differentiated=[0],
            tolerance=10,
            note=SIGNS,
        )
        for shape in SQUARES
    ),
    *(
        case(
            "SelfAdjointEigV2",
            positive("float64", shape),
            attrs={"compute_v": False},
            compared=[0],
            note=SIGNS,
            grad=False,
        )
        for shape in SQUARES[:4]
    ),
    case("SelfAdjointEigV2", sample("float64", (2, 3)), bad=True),
    *(
        case("Svd", sample(name, (4, 3)), compared=[0], differentiated=[0], tolerance=50, note=SIGNS)
        for name in EXACT[:2]
    ),
    *(
        case("Svd", sample(name, (4, 3)), compared=[0], grad=False, tolerance=50, note=SIGNS)
        for name in COMPLEX
    ),
    *(
        case(
            "Svd",
            sample("float64", shape, 1),
            attrs={"full_matrices": full, "compute_uv": uv},
            compared=[0],
            grad=False,
            note=SIGNS,
        )
        for shape, full, uv in (
            ((3, 3), False, True),
            ((3, 5), False, True),
            ((2, 4, 2), False, True),
            ((4, 2), True, True),
            ((2, 4), True, False),
            ((0, 3), False, True),
            ((3, 0), True, True),
            ((2, 3, 2), False, False),
        )
    ),
    case(
        "Svd",
        sample("float64", (4, 3)),
        attrs={"compute_uv": False},
        compared=[0],
        differentiated=[0],
        note=SIGNS,
    ),
    case("Svd", unknown(sample("float64", (3, 2))), compared=[0], grad=False, note=SIGNS),
    case("Svd", [1.0, 2.0], bad=True),
]

FUNCTIONS = [
    *(case("MatrixSquareRoot", positive(name, (2, 3, 3)), tolerance=200, note=NOTE) for name in EXACT),
    *(case("MatrixSquareRoot", positive("float64", shape), tolerance=100, note=NOTE) for shape in SQUARES),
    case("MatrixSquareRoot", unknown(positive("float64", (2, 2))), grad=False, tolerance=100, note=NOTE),
    case("MatrixSquareRoot", sample("float64", (2, 3)), bad=True),
    *(
        case("MatrixLogarithm", positive(name, (2, 3, 3)), grad=False, tolerance=200, note=NOTE)
        for name in COMPLEX
    ),
    *(
        case("MatrixLogarithm", positive("complex128", shape), grad=False, tolerance=100, note=NOTE)
        for shape in SQUARES
    ),
    *(
        case("MatrixLogarithm", regular("complex128", shape), grad=False, tolerance=100, note=NOTE)
        for shape in SQUARES[:4]
    ),
    case("MatrixLogarithm", unknown(positive("complex128", (2, 2))), grad=False, tolerance=100, note=NOTE),
    case("MatrixLogarithm", sample("complex128", (2, 3)), bad=True),
]

EINSUMS = [
    *(
        case("Einsum", [sample(name, (2, 3)), sample(name, (3, 4), 1)], attrs={"equation": "ij,jk->ik"})
        for name in (*FLOATS, *COMPLEX, "int32", "int64")
    ),
    *(
        case(
            "Einsum", [sample(name, shape, k) for k, shape in enumerate(given)], attrs={"equation": equation}
        )
        for name in ("float32", "complex64")
        for equation, *given in (
            ("ij->ji", (2, 3)),
            ("ij->j", (2, 3)),
            ("ij->", (2, 3)),
            ("ii->i", (3, 3)),
            ("ii->", (3, 3)),
            ("iij->ji", (2, 2, 3)),
            ("...ij->...ji", (2, 2, 3)),
            ("i...->...", (2, 3)),
            ("ij,kj->ik", (2, 3), (4, 3)),
            ("bij,bjk->bik", (2, 2, 3), (2, 3, 2)),
            ("bqhd,bkhd->bhqk", (2, 3, 2, 4), (2, 5, 2, 4)),
            ("bhqk,bkhd->bqhd", (2, 2, 3, 5), (2, 5, 2, 4)),
            ("...ij,...jk->...ik", (2, 1, 2, 3), (4, 3, 2)),
            ("...ij,jk->...ik", (2, 2, 3), (3, 2)),
            ("i,j->ij", (2,), (3,)),
            ("ij,ij->", (2, 3), (2, 3)),
            ("ij,j->i", (2, 3), (3,)),
            ("ij,kl->", (2, 2), (2, 2)),
            ("abc,cde->abde", (2, 2, 3), (3, 2, 2)),
            ("i->ii", (3,)),
            ("ab...,b...->a...", (2, 3, 2), (3, 2)),
            ("ij,jk->ik", (0, 3), (3, 2)),
            ("ij,jk->ik", (2, 0), (0, 2)),
        )
    ),
    case(
        "Einsum",
        [unknown(sample("float32", (2, 3))), sample("float32", (3, 2))],
        attrs={"equation": "ij,jk->ik"},
    ),
    *(
        case("Einsum", [sample("float32", shape) for shape in given], attrs={"equation": equation}, bad=True)
        for equation, *given in (
            ("ij,jk->ik", (2, 3), (2, 3)),
            ("ij->k", (2, 3)),
            ("ij,jk", (2, 3), (3, 2)),
            ("ij,jk->ik", (2, 3)),
            ("ij->ij", (2, 3, 4)),
        )
    ),
]


CASES: list[Case] = [*PRODUCTS, *EQUATIONS, *DECOMPOSITIONS, *FUNCTIONS, *EINSUMS]
