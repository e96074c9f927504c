"""Cases of diagonals, blocks, rolls, reversals, bitcasts and rows replaced."""

from __future__ import annotations

import numpy as np

from aioexec.errors import InvalidArgumentError
from tests.ops.harness import Case, case

X = [[0.5, -1.25, 2.0], [-3.0, 0.75, 1.5]]
SQUARE = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]
WIDE = [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 10.0, 11.0, 12.0]]
ROW = [1.0, 2.0, 3.0]

DIAGONALS = [
    case("Diag", ROW, expected=np.diag, gradients=(0,)),
    case("Diag", [[1, 2], [3, 4]], expected=lambda x: np.diag(x.reshape(-1)).reshape(2, 2, 2, 2)),
    case("DiagPart", SQUARE, expected=np.diag, gradients=(0,)),
    case("MatrixBandPart", WIDE, 1, 0, expected=lambda x, low, high: np.tril(np.triu(x, -1)), gradients=(0,)),
    case("MatrixBandPart", WIDE, -1, 1, expected=lambda x, low, high: np.tril(x, 1)),
    case("MatrixBandPart", WIDE, 9, 1, raises=InvalidArgumentError),
    case("MatrixDiag", X, expected=lambda x: np.stack([np.diag(row) for row in x]), gradients=(0,)),
    case("MatrixDiagPart", WIDE, expected=lambda x: np.diagonal(x).copy(), gradients=(0,)),
    case(
        "MatrixSetDiag",
        SQUARE,
        [-1.0, -2.0, -3.0],
        expected=[[-1, 2, 3], [4, -2, 6], [7, 8, -3]],
        gradients=(0, 1),
    ),
    # a band of diagonals: the highest first, shorter ones padded on the side their half of the matrix aligns to
    *(
        case(f"MatrixDiagPart{version}", WIDE, [-1, 1], 0.5, attrs=attrs, expected=expected, gradients=(0,))
        for version, attrs, expected in (
            ("V2", {}, [[2, 7, 12], [1, 6, 11], [5, 10, 0.5]]),
            ("V3", {}, [[2, 7, 12], [1, 6, 11], [5, 10, 0.5]]),
            ("V3", {"align": "RIGHT_RIGHT"}, [[2, 7, 12], [1, 6, 11], [0.5, 5, 10]]),
        )
    ),
    case("MatrixDiagPartV3", SQUARE, [1, 2], 0.0, expected=[[0, 3], [2, 6]]),
    case("MatrixDiagPartV3", WIDE, 7, 0.0, raises=InvalidArgumentError),
    *(
        case(
            f"MatrixSetDiag{version}",
            SQUARE,
            [[-1.0, -2.0, -3.0], [-4.0, -5.0, 0.0]],
            [-1, 0],
            gradients=(0, 1),
            expected=[[-1, 2, 3], [-4, -2, 6], [7, -5, -3]],
        )
        for version in ("V2", "V3")
    ),
    case("MatrixSetDiagV3", SQUARE, [1.0], 0, raises=InvalidArgumentError),
    *(
        case(
            f"MatrixDiag{version}",
            [1.0, 2.0],
            1,
            -1,
            -1,
            0.5,
            gradients=(0,),
            expected=[[0.5, 1, 0.5], [0.5, 0.5, 2], [0.5, 0.5, 0.5]],
        )
        for version in ("V2", "V3")
    ),
    case(
        "MatrixDiagV3",
        [[1.0, 2.0], [3.0, 0.0]],
        [-1, 0],
        2,
        2,
        0.0,
        attrs={"align": "LEFT_LEFT"},
        expected=[[1, 0], [3, 2]],
    ),
    case("MatrixDiagV3", [1.0, 2.0], 0, 1, 2, 0.0, raises=InvalidArgumentError),
    case(
        "MatrixDiagV3",
        [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
        [0, 2],
        -1,
        -1,
        0.0,
        attrs={"align": "RIGHT_LEFT"},
        expected=[[5, 4], [0, 6]],
        dtypes=["float32", "float64", "int32"],
    ),
]

IMAGE = np.arange(2 * 4 * 6, dtype=np.float64).reshape(2, 4, 6, 1)
SMALL = np.arange(16, dtype=np.float64).reshape(1, 4, 4, 1) / 4


def blocks(x: np.ndarray, sizes: tuple[int, int]) -> np.ndarray:
    """The images of every position within a block, one after the other."""
    return np.concatenate(
        [x[:, i :: sizes[0], j :: sizes[1]] for i in range(sizes[0]) for j in range(sizes[1])]
    )


def in_depth(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x[:, i::2, j::2] for i in range(2) for j in range(2)], -1)


PADDED = np.pad(IMAGE, ((0, 0), (0, 0), (1, 2), (0, 0)))
MOVED = ("float32", "float64", "int32", "int64", "bool")
BLOCKS = [
    case(
        "SpaceToBatchND",
        IMAGE,
        [2, 3],
        [[0, 0], [1, 2]],
        expected=blocks(PADDED, (2, 3)),
        dtypes=MOVED,
    ),
    case(
        "SpaceToBatchND",
        SMALL,
        [2, 2],
        [[0, 0], [0, 0]],
        expected=lambda x, b, p: blocks(x, (2, 2)),
        gradients=(0,),
    ),
    case("SpaceToBatchND", IMAGE, [3, 1], [[0, 0], [0, 0]], raises=InvalidArgumentError, native=False),
    case(
        "BatchToSpaceND",
        blocks(PADDED, (2, 3)),
        [2, 3],
        [[0, 0], [1, 2]],
        expected=IMAGE,
        dtypes=MOVED,
    ),
    case(
        "BatchToSpaceND",
        blocks(SMALL, (2, 2)),
        [2, 2],
        [[0, 1], [0, 0]],
        expected=SMALL[:, :3],
        gradients=(0,),
        dtypes=MOVED,
    ),
    case("BatchToSpaceND", IMAGE, [3, 1], [[0, 0], [0, 0]], raises=InvalidArgumentError, native=False),
    case(
        "SpaceToBatch",
        SMALL,
        [[0, 0], [0, 0]],
        attrs={"block_size": 2},
        expected=lambda x, p: blocks(x, (2, 2)),
        gradients=(0,),
        dtypes=MOVED,
    ),
    case(  # 65 or more phases with paddings: the reference kernel's
        "SpaceToBatchND",
        IMAGE[:1, :1],
        [1, 67],
        [[0, 0], [60, 67 - (60 + IMAGE.shape[2]) % 67]],
        expected=lambda x, b, p: blocks(np.pad(x, ((0, 0), (0, 0), (60, p[1][1]), (0, 0))), (1, 67)),
        native=False,
    ),
    case(
        "BatchToSpace",
        blocks(SMALL, (2, 2)),
        [[0, 0], [0, 0]],
        attrs={"block_size": 2},
        expected=SMALL,
        gradients=(0,),
        dtypes=MOVED,
    ),
    case("SpaceToDepth", SMALL, attrs={"block_size": 2}, expected=in_depth, gradients=(0,)),
    case(
        "SpaceToDepth",
        np.arange(48).reshape(1, 2, 4, 6),
        attrs={"block_size": 2, "data_format": "NHWC"},
        expected=in_depth,
        dtypes=("int32", "int64"),
    ),
    case(
        "SpaceToDepth",
        np.arange(48).reshape(1, 2, 4, 6),
        attrs={"block_size": 2, "data_format": "NCHW"},
        dtypes=("int32", "int64"),
        expected=lambda x: np.transpose(in_depth(np.transpose(x, (0, 2, 3, 1))), (0, 3, 1, 2)),
    ),
    case(
        "SpaceToDepth",
        [[[[True], [False]], [[False], [True]]]],
        attrs={"block_size": 2},
        expected=[[[[True, False, False, True]]]],
    ),
    case("DepthToSpace", in_depth(SMALL), attrs={"block_size": 2}, expected=SMALL, gradients=(0,)),
    case(
        "DepthToSpace",
        in_depth(np.arange(48).reshape(1, 2, 4, 6)),
        attrs={"block_size": 2},
        expected=np.arange(48).reshape(1, 2, 4, 6),
        dtypes=("int32", "int64"),
    ),
    case(
        "DepthToSpace",
        [[[[True, False, False, True]]]],
        attrs={"block_size": 2},
        expected=[[[[True], [False]], [[False], [True]]]],
    ),
]

ORDER = [
    *(
        case(
            "Roll",
            x,
            shift,
            axis,
            expected=lambda x, shift, axis: np.roll(x, shift, axis),
            gradients=(0,) if x is X else (),
        )
        for x, shift, axis in (
            (X, 1, 0),
            (X, [1, -5], [0, 1]),
            ([1, 2, 3, 4, 5], 2, 0),
            (X, [1, 1], [1, 1]),
            ([True, False, True], 1, 0),
            (np.zeros((0, 2)), 1, 0),
        )
    ),
    case("Roll", X, 1, 2, raises=InvalidArgumentError, native=False),
    case("Reverse", X, [False, True], expected=lambda x, mask: x[:, ::-1], gradients=(0,)),
    case("Reverse", [1, 2, 3], [True], expected=[3, 2, 1]),
    case(
        "ReverseSequence",
        WIDE,
        [2, 0, 4],
        attrs={"seq_dim": 1},
        expected=[[2, 1, 3, 4], [5, 6, 7, 8], [12, 11, 10, 9]],
        gradients=(0,),
    ),
    case(
        "ReverseSequence",
        WIDE,
        [1, 2, 3, 0],
        attrs={"seq_dim": 0, "batch_dim": 1},
        expected=[[1, 6, 11, 4], [5, 2, 7, 8], [9, 10, 3, 12]],
    ),
    case("ReverseSequence", WIDE, [2, 0, 5], attrs={"seq_dim": 1}, raises=InvalidArgumentError),
]

BYTES = [
    case(
        "Bitcast",
        [1.0, -2.0],
        attrs={"type": "int32"},
        dtypes=("float32",),
        expected=np.array([0x3F800000, -0x40000000], np.int32),
    ),
    case(
        "Bitcast",
        [1.0, -2.0],
        attrs={"type": "int64"},
        dtypes=("float64",),
        expected=np.array([0x3FF0000000000000, -0x4000000000000000]),
    ),
    case("Bitcast", [[1, 0], [0, 1]], attrs={"type": "int64"}, dtypes=("int32",), expected=[1, 1 << 32]),
    case(
        "Bitcast",
        [1],
        attrs={"type": "uint8"},
        dtypes=("int64",),
        expected=np.array([[1, 0, 0, 0, 0, 0, 0, 0]], np.uint8),
    ),
    case("InplaceUpdate", WIDE, [2, 0], [[0.0] * 4, [1.0] * 4], expected=[[1] * 4, WIDE[1], [0] * 4]),
    case("InplaceAdd", [[1, 2], [3, 4]], [1, 1], [[10, 20], [5, 5]], expected=[[1, 2], [18, 29]]),
    case("InplaceSub", [[1, 2], [3, 4]], [-1], [[1, 1]], expected=[[1, 2], [2, 3]], dtypes=("int32",)),
    case("InplaceUpdate", WIDE, [2], [[0.0]], raises=InvalidArgumentError),
    case("DeepCopy", X, expected=lambda x: x),
    case("Empty", [2, 3], attrs={"dtype": "float32", "init": True}, expected=np.zeros((2, 3), np.float32)),
    case("ParallelConcat", [[[1, 2]], [[3, 4]]], attrs={"shape": (2, 2)}, expected=[[1, 2], [3, 4]]),
]

CASES: list[Case] = [*DIAGONALS, *BLOCKS, *ORDER, *BYTES]
