"""Cases of ragged tensors; expected values by hand."""

from __future__ import annotations

import numpy as np

from aioexec.errors import InvalidArgumentError
from tests.ops.harness import Case, case

V = [1.0, 2.0, 3.0]
SPLITS = {"row_partition_types": ("ROW_SPLITS",)}
IDS = {"row_partition_types": ("FIRST_DIM_SIZE", "VALUE_ROWIDS")}
FLOATS = ("float64", "float32")
BAD = {"raises": InvalidArgumentError}

CASES: list[Case] = [
    case(
        "RaggedTensorToTensor",
        np.int64(-1),
        V,
        9.0,
        [np.array([0, 2, 2, 3])],
        attrs=SPLITS,
        expected=np.array([[1.0, 2.0], [9.0, 9.0], [3.0, 9.0]]),
        gradients=(1, 2),
        dtypes=FLOATS,
    ),
    case(
        "RaggedTensorToTensor",
        np.array([4, 1]),
        V,
        9.0,
        [np.int64(3), np.array([0, 0, 2])],
        attrs=IDS,
        expected=np.array([[1.0], [9.0], [3.0], [9.0]]),
        gradients=(1, 2),
        dtypes=FLOATS,
    ),
    case(
        "RaggedTensorToTensor",
        np.array([-1, 2, -1, -1]),
        [[1.0, 2.0], [3.0, 4.0]],
        [8.0, 9.0],
        [np.array([0, 1, 2]), np.array([0, 0, 2])],
        attrs={"row_partition_types": ("ROW_SPLITS", "ROW_SPLITS")},
        expected=np.array(
            [[[[8.0, 9.0]] * 2, [[8.0, 9.0]] * 2], [[[1.0, 2.0], [3.0, 4.0]], [[8.0, 9.0]] * 2]]
        ),
        gradients=(1, 2),
        dtypes=FLOATS,
    ),
    case("RaggedTensorToTensor", np.int64(-1), V, 9.0, [np.array([1, 3])], attrs=SPLITS, **BAD),
    case("RaggedTensorToTensor", np.int64(-1), V, 9.0, [np.array([0, 2])], attrs=SPLITS, **BAD),
    case("RaggedTensorToTensor", np.array([1, -2]), V, 9.0, [np.array([0, 3])], attrs=SPLITS, **BAD),
    case("RaggedTensorToTensor", np.int64(-1), V, [1.0, 2.0], [np.array([0, 3])], attrs=SPLITS, **BAD),
    case("RaggedTensorToTensor", np.int64(-1), V, 9.0, [np.int64(2), np.array([0, 1, 2])], attrs=IDS, **BAD),
    *(
        case(
            "RaggedBincount",
            np.array([0, 2, 2, 5]),
            np.array([1, 1, 0, 3, 9]),
            np.int64(4),
            weights,
            attrs={"binary_output": binary},
            vary="T",
            dtypes=("float64", "float32", "int32"),
            expected=expected,
        )
        for weights, binary, expected in (
            (np.zeros(0), False, np.array([[0, 2, 0, 0], [0, 0, 0, 0], [1, 0, 0, 1]])),
            (np.zeros(0), True, np.array([[0, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 1]])),
            (np.array([1.0, 2, 3, 4, 5]), False, np.array([[0, 3, 0, 0], [0, 0, 0, 0], [3, 0, 0, 4]])),
        )
    ),
    *(
        case(
            "RaggedBincount",
            np.array(splits),
            np.array(values),
            np.int64(4),
            np.zeros(0),
            vary="T",
            dtypes=("float64",),
            **BAD,
        )
        for splits, values in (([1, 2], [1, 2]), ([0, 1], [1, 2]), ([0, 2], [1, -2]))
    ),
]
