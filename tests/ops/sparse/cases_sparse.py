"""Cases of sparse tensors; expected values by hand, or from the dense ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError
from tests.ops.harness import Case, case

PLACES = np.array([[0, 1], [1, 0], [1, 2]])
J = np.array([[0, 1], [2, 2]])
S = np.array([3, 3])
V = [1.0, 2.0, 3.0]
FLOATS = ("float64", "float32")
WIDE = ("float64",)
BAD = {"raises": InvalidArgumentError}


def dense(indices: Any, values: Any, shape: Any) -> Any:
    made = np.zeros(tuple(shape), np.asarray(values).dtype)
    made[tuple(np.asarray(indices).T)] = values
    return made


FULL = dense(PLACES, V, S)

SHAPED = [
    case("SparseToDense", PLACES, S, V, 0.0, expected=FULL, dtypes=FLOATS, gradients=(2, 3)),
    case("SparseToDense", PLACES[::-1], S, V, 0.0, dtypes=WIDE, **BAD),
    case(
        "SparseReorder",
        PLACES[::-1],
        V,
        S,
        expected=(PLACES, np.array(V[::-1])),
        dtypes=FLOATS,
        gradients=(1,),
    ),
    case("SparseReshape", PLACES, S, [9], expected=(np.array([[1], [3], [5]]), np.array([9]))),
    case("SparseReshape", PLACES, S, [2, 2], **BAD),
    case(
        "SparseConcat",
        [PLACES, J],
        [V, [4.0, 5.0]],
        [S, S],
        attrs={"concat_dim": 0},
        dtypes=FLOATS,
        expected=(np.concatenate([PLACES, J + [3, 0]]), np.array([*V, 4.0, 5.0]), np.array([6, 3])),
    ),
    case(
        "SparseSplit",
        0,
        PLACES,
        V,
        S,
        attrs={"num_split": 2},
        dtypes=FLOATS,
        expected=(
            PLACES,
            np.zeros((0, 2), np.int64),
            np.array(V),
            np.zeros(0),
            np.array([2, 3]),
            np.array([1, 3]),
        ),
    ),
    case(
        "SparseSlice",
        PLACES,
        V,
        S,
        [0, 1],
        [2, 9],
        gradients=(1,),
        dtypes=FLOATS,
        expected=(np.array([[0, 0], [1, 1]]), np.array([1.0, 3.0]), np.array([2, 2])),
    ),
    case(
        "SparseSliceGrad",
        [5.0, 6.0],
        PLACES,
        [0, 1],
        [[0, 0], [1, 1]],
        dtypes=FLOATS,
        expected=np.array([5.0, 0.0, 6.0]),
    ),
]

COMPUTED = [
    case(
        "SparseTensorDenseMatMul",
        PLACES,
        V,
        S,
        [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
        dtypes=FLOATS,
        expected=lambda i, v, s, b: FULL @ b,
        gradients=(1, 3),
    ),
    case(
        "SparseTensorDenseMatMul",
        PLACES,
        V,
        S,
        [[1.0, 2.0, 0.5], [3.0, 4.0, 1.5]],
        attrs={"adjoint_a": True, "adjoint_b": True},
        dtypes=FLOATS,
        expected=lambda i, v, s, b: FULL.T @ b.T,
        gradients=(1, 3),
    ),
    case(
        "SparseDenseCwiseAdd",
        PLACES,
        V,
        S,
        [1.0, 2.0, 3.0],
        dtypes=FLOATS,
        expected=np.array([3.0, 3.0, 6.0]),
    ),
    case(
        "SparseDenseCwiseMul",
        PLACES,
        V,
        S,
        [1.0, 2.0, 3.0],
        dtypes=FLOATS,
        expected=np.array([2.0, 2.0, 9.0]),
        gradients=(1, 3),
    ),
    case(
        "SparseDenseCwiseDiv",
        PLACES,
        V,
        S,
        [[1.0], [2.0], [4.0]],
        dtypes=FLOATS,
        expected=np.array([1.0, 1.0, 1.5]),
        gradients=(1, 3),
    ),
    case(
        "SparseTensorDenseAdd",
        PLACES,
        V,
        S,
        np.ones((3, 3)),
        dtypes=FLOATS,
        vary="T",
        expected=FULL + 1,
        gradients=(1, 3),
    ),
    case(
        "SparseAddGrad",
        [1.0, 2.0],
        PLACES,
        J,
        J,
        dtypes=FLOATS,
        expected=(np.array([1.0, 0.0, 0.0]), np.array([1.0, 2.0])),
    ),
    case(
        "SparseSparseMaximum",
        PLACES,
        V,
        S,
        J,
        [-1.0, -5.0],
        S,
        dtypes=FLOATS,
        expected=(np.array([[0, 1], [1, 0], [1, 2], [2, 2]]), np.array([1.0, 2.0, 3.0, 0.0])),
    ),
    case(
        "SparseSparseMinimum",
        PLACES,
        V,
        S,
        J,
        [-1.0, -5.0],
        S,
        dtypes=FLOATS,
        expected=(np.array([[0, 1], [1, 0], [1, 2], [2, 2]]), np.array([-1.0, 0.0, 0.0, -5.0])),
    ),
    case(
        "SparseReduceSum",
        PLACES,
        V,
        S,
        [1],
        dtypes=FLOATS,
        expected=np.array([1.0, 5.0, 0.0]),
        gradients=(1,),
    ),
    case(
        "SparseReduceMax",
        PLACES,
        V,
        S,
        [0],
        attrs={"keep_dims": True},
        dtypes=FLOATS,
        expected=np.array([[2.0, 1.0, 3.0]]),
    ),
    case(
        "SparseReduceSumSparse",
        PLACES,
        V,
        S,
        [1],
        dtypes=FLOATS,
        expected=(np.array([[0], [1]]), np.array([1.0, 5.0]), np.array([3])),
    ),
    case(
        "SparseReduceMaxSparse",
        PLACES,
        V,
        S,
        [1],
        dtypes=FLOATS,
        expected=(np.array([[0], [1]]), np.array([1.0, 3.0]), np.array([3])),
    ),
    case(
        "SparseFillEmptyRows",
        [[1, 0], [0, 1]],
        [1.0, 2.0],
        [3, 2],
        9.0,
        dtypes=FLOATS,
        expected=(
            np.array([[0, 1], [1, 0], [2, 0]]),
            np.array([2.0, 1.0, 9.0]),
            np.array([False, False, True]),
            np.array([1, 0]),
        ),
        gradients=(1, 3),
    ),
    case(
        "SparseFillEmptyRowsGrad",
        [1, 0],
        [1.0, 2.0, 4.0],
        dtypes=FLOATS,
        expected=(np.array([2.0, 1.0]), np.array(4.0)),
    ),
    case(
        "SparseSoftmax",
        PLACES,
        V,
        S,
        dtypes=FLOATS,
        expected=lambda i, v, s: np.array([1.0, *(np.exp([2.0, 3.0]) / np.exp([2.0, 3.0]).sum())]),
        gradients=(1,),
    ),
]

SUMS = [
    case(
        "SparseAdd",
        PLACES,
        V,
        S,
        J,
        [-1.0, 5.0],
        S,
        0.5,
        dtypes=WIDE,
        gradients=(1, 4),
        expected=(np.array([[1, 0], [1, 2], [2, 2]]), np.array([2.0, 3.0, 5.0]), S),
    ),
]

CROSS: dict[str, Any] = {
    "N": 1,
    "sparse_types": ["string"],
    "dense_types": ["string"],
    "internal_type": "string",
}
TEXTS = np.array([b"a", b"b", b"c"], object)
DENSE_TEXTS = np.array([[b"f", b"h"], [b"g", b"i"]], object)
CROSSED = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [1, 2], [1, 3]])
CROSSES = [
    case(
        "SparseCross",
        [np.array([[0, 0], [1, 0], [1, 1]])],
        [TEXTS],
        [np.array([2, 2])],
        [DENSE_TEXTS],
        attrs={**CROSS, "hashed_output": False, "num_buckets": 0, "hash_key": 1, "out_type": "string"},
        expected=(
            CROSSED,
            np.array([b"a_X_f", b"a_X_h", b"b_X_g", b"b_X_i", b"c_X_g", b"c_X_i"], object),
            np.array([2, 4]),
        ),
    ),
    case(
        "SparseCross",
        [np.array([[0, 0], [1, 0], [1, 1]])],
        [np.array([1, -2, 3])],
        [np.array([2, 2])],
        [DENSE_TEXTS],
        attrs={
            **CROSS,
            "sparse_types": ["int64"],
            "internal_type": "int64",
            "hashed_output": True,
            "num_buckets": 100,
            "hash_key": 7,
            "out_type": "int64",
        },
        expected=(CROSSED, np.array([7, 21, 79, 3, 62, 25]), np.array([2, 4])),  # as TensorFlow has them
    ),
    case(
        "SparseCross",
        [np.array([[0, 0]])],
        [TEXTS[:1]],
        [np.array([1, 1])],
        [DENSE_TEXTS],
        attrs={**CROSS, "hashed_output": False, "num_buckets": 0, "hash_key": 1, "out_type": "string"},
        **BAD,
    ),
]

CASES: list[Case] = [*SHAPED, *COMPUTED, *SUMS, *CROSSES]
