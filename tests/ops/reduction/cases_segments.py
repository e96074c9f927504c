"""Cases of segments: sorted, unsorted, and of rows picked by index."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError
from tests.ops.harness import Case, case

D = [[0.5, -1.25], [2.0, 3.0], [-3.0, 0.75], [1.5, 4.0]]
WHOLE = [[5, 1], [2, 3], [7, 4], [1, 6]]
NONE = np.zeros(0, np.int32)


def by_rows(function: Any, absent: Any) -> Any:
    """Row s of the result: `function` of the rows with id s, `absent` of none."""

    def compute(data: Any, ids: Any, count: Any = None) -> Any:
        total = int(ids[-1]) + 1 if count is None else int(count)
        rows = [data[ids == s] for s in range(total)]
        return np.array(
            [function(r) if len(r) else np.full(data.shape[1:], absent(data)) for r in rows]
        ).astype(data.dtype)

    return compute


def largest(data: Any) -> Any:
    return np.iinfo(data.dtype).max if data.dtype.kind in "iu" else np.finfo(data.dtype).max


def least(data: Any) -> Any:
    return np.iinfo(data.dtype).min if data.dtype.kind in "iu" else np.finfo(data.dtype).min


KINDS: dict[str, tuple[Any, int, Any]] = {
    "Sum": (lambda r: r.sum(0), 0, lambda data: 0),
    "Prod": (lambda r: r.prod(0), 1, lambda data: 1),
    "Min": (lambda r: r.min(0), 0, largest),
    "Max": (lambda r: r.max(0), 0, least),
}

SORTED = [
    *(
        case(
            f"Segment{kind}",
            data,
            [0, 0, 2, 2],
            expected=by_rows(function, lambda data, absent=absent: absent),
            gradients=(0,) if data is D else (),
        )
        for kind, (function, absent, _) in KINDS.items()
        for data in (D, WHOLE)
    ),
    case(
        "SegmentMean", D, [0, 0, 2, 2], expected=by_rows(lambda r: r.mean(0), lambda data: 0), gradients=(0,)
    ),
    case("SegmentMean", [[-5], [2]], [0, 0], expected=[[-1]], dtypes=("int32", "int64")),
    *(
        case(f"Segment{kind}", np.zeros((0, 2)), NONE, expected=np.zeros((0, 2)), dtypes=("float64",))
        for kind in (*KINDS, "Mean")
    ),
    *(
        case(f"Segment{kind}", D, ids, raises=InvalidArgumentError)
        for kind in (*KINDS, "Mean")
        for ids in ([0, 1, 0, 1], [-1, 0, 0, 0], [0, 0, 0])
    ),
    case("SegmentProd", [[0.0, 2.0], [3.0, 0.0], [0.0, 5.0], [0.0, 7.0]], [0, 0, 1, 1], gradients=(0,)),
]

UNSORTED = [
    *(
        case(
            f"UnsortedSegment{kind}",
            D,
            [1, 0, -1, 1],
            2,
            expected=by_rows(function, absent),
            gradients=(0,),
            dtypes=("float64",),
        )
        for kind, (function, _, absent) in KINDS.items()
        if kind != "Sum"
    ),
    *(
        case(
            f"UnsortedSegment{kind}",
            WHOLE,
            [2, 0, -1, 2],
            4,
            expected=by_rows(function, absent),
            dtypes=("int32", "int64"),
        )
        for kind, (function, _, absent) in KINDS.items()
        if kind != "Sum"
    ),
    *(
        case(f"Segment{kind}V2", D, [0, 0, 1, 2], 3, expected=by_rows(function, absent), dtypes=("float64",))
        for kind, (function, _, absent) in KINDS.items()
    ),
    *(
        case(f"UnsortedSegment{kind}", D, ids, count, raises=InvalidArgumentError)
        for kind in KINDS
        for ids, count in (([0, 0, 2, 9], 4), ([0, 0, 4, 1], 4))
    ),
]


def picked(scale: Any, count: int | None = None) -> Any:
    def compute(data: Any, indices: Any, ids: Any, *_: Any) -> Any:
        total = int(ids[-1]) + 1 if count is None else count
        rows = [data[indices[ids == s]] for s in range(total)]
        return np.array([r.sum(0) / scale(len(r)) if len(r) else np.zeros(data.shape[1:]) for r in rows])

    return compute


def spread(scale: Any) -> Any:
    def compute(dy: Any, indices: Any, ids: Any, count: Any) -> Any:
        result = np.zeros((int(count), *dy.shape[1:]))
        for index, s in zip(indices, ids, strict=True):
            result[index] += dy[s] / scale((ids == s).sum())
        return result

    return compute


SCALES = {"Sum": lambda n: 1, "Mean": lambda n: n, "SqrtN": lambda n: n**0.5}
SPARSE = [
    *(
        case(f"SparseSegment{kind}", D, [3, 0, 3], [0, 0, 2], expected=picked(scale), gradients=(0,))
        for kind, scale in SCALES.items()
    ),
    *(
        case(
            f"SparseSegment{kind}WithNumSegments",
            D,
            [3, 0, 3],
            [0, 0, 2],
            5,
            expected=picked(scale, 5),
            gradients=(0,),
        )
        for kind, scale in SCALES.items()
    ),
    *(
        case(f"SparseSegment{kind}Grad", D, [3, 0, 3], [0, 0, 2], 6, expected=spread(scale))
        for kind, scale in SCALES.items()
    ),
    *(
        case(f"SparseSegment{kind}", D, indices, ids, raises=InvalidArgumentError)
        for kind in SCALES
        for indices, ids in (([0, 9], [0, 0]), ([0, -1], [0, 0]), ([0, 1], [1, 0]), ([0, 1], [-1, 0]))
    ),
    *(
        case(f"SparseSegment{kind}WithNumSegments", D, [0, 1], [0, 3], 3, raises=InvalidArgumentError)
        for kind in SCALES
    ),
    *(case(f"SparseSegment{kind}Grad", D, [0, 1], [0, 9], 3, raises=InvalidArgumentError) for kind in SCALES),
]

CASES: list[Case] = [*SORTED, *UNSORTED, *SPARSE]
