"""Ragged tensors."""

from __future__ import annotations

import numpy as np

from tests.interop.parity.sweeps import sample
from tests.interop.parity.table import Case, case, const, unknown

ENDS = np.array([0, 2, 2, 3])
ROWS = np.array([0, 0, 2])
SPLITS = {"row_partition_types": ["ROW_SPLITS"]}
DEEP_SPLITS = {"row_partition_types": ["ROW_SPLITS", "ROW_SPLITS"]}
IDS = {"row_partition_types": ["FIRST_DIM_SIZE", "VALUE_ROWIDS"]}
V = np.array([1, 2, 3], np.float32)
ZERO = np.float32(9)
FREE = const(np.int64(-1))

DENSE = [
    *(
        case("RaggedTensorToTensor", FREE, sample(name, (3,)), sample(name, ()), [ENDS], attrs=SPLITS)
        for name in ("float32", "float64", "int32", "int64", "bool", "string", "float16")
    ),
    *(
        case("RaggedTensorToTensor", const(np.array(dims)), V, ZERO, [ENDS], attrs=SPLITS)
        for dims in ([-1, -1], [3, 2], [2, 1], [5, 4], [0, 0], [-1, 1])
    ),
    case("RaggedTensorToTensor", unknown(np.array([3, 2])), V, ZERO, [ENDS], attrs=SPLITS),
    case("RaggedTensorToTensor", FREE, unknown(V), ZERO, [ENDS], attrs=SPLITS),
    case("RaggedTensorToTensor", const(np.int32(-1)), V, ZERO, [ENDS.astype(np.int32)], attrs=SPLITS),
    *(case("RaggedTensorToTensor", FREE, V, ZERO, [np.int64(rows), ROWS], attrs=IDS) for rows in (3, 4)),
    case("RaggedTensorToTensor", FREE, sample("float32", (3, 2)), ZERO, [ENDS], attrs=SPLITS),
    case(
        "RaggedTensorToTensor", FREE, sample("float32", (3, 2)), np.ones(2, np.float32), [ENDS], attrs=SPLITS
    ),
    case("RaggedTensorToTensor", FREE, V, ZERO, [np.array([0, 1, 3]), ENDS], attrs=DEEP_SPLITS),
    case("RaggedTensorToTensor", FREE, np.zeros(0, np.float32), ZERO, [np.array([0])], attrs=SPLITS),
    case("RaggedTensorToTensor", FREE, np.zeros(0, np.float32), ZERO, [np.array([0, 0, 0])], attrs=SPLITS),
    case("RaggedTensorToTensor", np.array([3]), V, ZERO, [ENDS], attrs=SPLITS, bad=True),
    case("RaggedTensorToTensor", FREE, V, ZERO, [np.array([1, 3])], attrs=SPLITS, bad=True),
    case("RaggedTensorToTensor", FREE, V, np.ones(2, np.float32), [ENDS], attrs=SPLITS, bad=True),
    case("RaggedTensorToTensor", FREE, V, ZERO, [np.int64(3), ENDS], attrs=SPLITS, bad=True),
]

NUMBERS = np.array([1, 1, 0, 3, 9])
FIVE = np.array([0, 2, 2, 5])

COUNTED = [
    *(
        case(
            "RaggedBincount",
            FIVE,
            NUMBERS.astype(kind),
            const(np.array(4, kind)),
            weights.astype(dtype),
            attrs={"binary_output": binary},
        )
        for kind in ("int32", "int64")
        for dtype in ("float32", "int32")
        for weights, binary in ((np.zeros(0), False), (np.zeros(0), True), (np.arange(5), False))
    ),
    case("RaggedBincount", unknown(FIVE), unknown(NUMBERS), unknown(np.int64(4)), np.zeros(0, np.float32)),
    case(
        "RaggedBincount", np.array([0, 0]), np.zeros(0, np.int64), const(np.int64(3)), np.zeros(0, np.float64)
    ),
    case(
        "RaggedBincount",
        np.array([0, 2]),
        np.array([1, -1]),
        const(np.int64(3)),
        np.zeros(0, np.float32),
        bad=True,
    ),
    case(
        "RaggedBincount",
        np.array([0, 1]),
        np.array([1, 1]),
        const(np.int64(3)),
        np.zeros(0, np.float32),
        bad=True,
    ),
    case(
        "RaggedBincount",
        np.array([1, 2]),
        np.array([1, 1]),
        const(np.int64(3)),
        np.zeros(0, np.float32),
        bad=True,
    ),
]

CASES: list[Case] = [*DENSE, *COUNTED]
