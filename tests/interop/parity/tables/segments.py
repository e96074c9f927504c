"""Segments of rows: sorted, unsorted, and of rows picked by index."""

from __future__ import annotations

import numpy as np

from tests.interop.parity.sweeps import plain_dtypes, sample
from tests.interop.parity.table import Case, case, const, unknown

NONE = np.zeros(0, np.int32)

D = sample("float32", (4, 2), 9)

SEGMENTS = [
    *(
        case(f"Segment{kind}", sample(name, (4, 2), 9), [0, 0, 2, 2])
        for kind in ("Sum", "Mean", "Prod", "Min", "Max")
        for name in plain_dtypes(f"Segment{kind}")
    ),
    *(
        case(f"Segment{kind}", sample("float32", shape), const(ids, "int64"))
        for kind in ("Sum", "Mean", "Prod", "Min", "Max")
        for shape, ids in (((3,), [0, 1, 1]), ((0, 2), NONE), ((3, 0), [0, 0, 0]), ((3, 2, 2), [1, 1, 3]))
    ),
    *(
        case(f"Segment{kind}", unknown(D), unknown([0, 1, 1, 1]))
        for kind in ("Sum", "Mean", "Prod", "Min", "Max")
    ),
    *(
        case(f"Segment{kind}", np.array([1.0, 0.0, 3.0, 0.0, 0.0, 3.0, 3.0]), [0, 0, 0, 1, 1, 2, 2])
        for kind in ("Prod", "Min", "Max")
    ),
    *(
        case(f"Segment{kind}", D, ids, bad=True)
        for kind in ("Sum", "Mean", "Prod", "Min", "Max")
        for ids in ([0, 1, 0, 1], [-1, 0, 0, 0], [0, 0, 0], [[0, 0, 1, 1]])
    ),
    *(case(f"Segment{kind}", 1.0, [0], bad=True) for kind in ("Sum", "Mean", "Prod", "Min", "Max")),
    *(
        case(f"UnsortedSegment{kind}", sample(name, (4, 2), 9), [2, 0, -1, 2], const(4))
        for kind in ("Sum", "Prod", "Min", "Max")
        for name in plain_dtypes(f"UnsortedSegment{kind}")
    ),
    *(
        case(f"UnsortedSegment{kind}", sample("float32", shape), const(ids, "int64"), const(3))
        for kind in ("Sum", "Prod", "Min", "Max")
        for shape, ids in (
            ((3,), [0, 1, 1]),
            ((0, 2), NONE),
            ((3, 0), [0, 0, 0]),
            ((2, 2, 2), [[1, 1], [0, 2]]),
            ((2,), 1),
        )
    ),
    *(
        case(f"UnsortedSegment{kind}", unknown(D), unknown([0, 1, 1, 1]), const(2))
        for kind in ("Sum", "Prod", "Min", "Max")
    ),
    *(case(f"UnsortedSegment{kind}", D, [0, 1, 1, 1], 2) for kind in ("Sum", "Prod", "Min", "Max")),
    *(
        case(
            f"UnsortedSegment{kind}",
            np.array([1.0, 0.0, 3.0, 0.0, 0.0, 3.0, 3.0]),
            [0, 0, 0, 1, 1, 2, 2],
            const(3),
        )
        for kind in ("Prod", "Min", "Max")
    ),
    *(
        case(f"UnsortedSegment{kind}", D, const(ids), const(n), bad=True)
        for kind in ("Sum", "Prod", "Min", "Max")
        for ids, n in (([0, 0, 2, 9], 4), ([0, 0, 2, 2], -4), ([0, 0, 2], 3))
    ),
    *(
        case(f"SparseSegment{kind}", sample(name, (4, 2), 9), [0, 1, 3], [0, 0, 2])
        for kind in ("Sum", "Mean", "SqrtN")
        for name in plain_dtypes(f"SparseSegment{kind}")
    ),
    *(
        case(f"SparseSegment{kind}", sample("float32", shape, 4), const(indices), const(ids))
        for kind in ("Sum", "Mean", "SqrtN")
        for shape, indices, ids in (
            ((4,), [1, 1, 0], [0, 1, 1]),
            ((0, 2), NONE, NONE),
            ((4, 0), [0], [0]),
            ((3, 2, 2), [2, 0], [0, 0]),
        )
    ),
    *(
        case(f"SparseSegment{kind}", unknown(D), unknown([1, 0]), unknown([0, 1]))
        for kind in ("Sum", "Mean", "SqrtN")
    ),
    *(
        case(f"SparseSegment{kind}", D, const(indices), const(ids), bad=True)
        for kind in ("Sum", "Mean", "SqrtN")
        for indices, ids in (
            ([0, 9], [0, 0]),
            ([0, -1], [0, 0]),
            ([0, 1], [1, 0]),
            ([0, 1], [-1, 0]),
            ([0, 1], [0]),
        )
    ),
    *(
        case(f"SparseSegment{kind}WithNumSegments", sample(name, (4, 2), 9), [0, 1, 3], [0, 0, 2], const(5))
        for kind in ("Sum", "Mean", "SqrtN")
        for name in plain_dtypes(f"SparseSegment{kind}")
    ),
    *(
        case(
            f"SparseSegment{kind}WithNumSegments",
            sample("float32", shape, 4),
            const(indices),
            const(ids),
            const(3),
        )
        for kind in ("Sum", "Mean", "SqrtN")
        for shape, indices, ids in (
            ((4,), [1, 1, 0], [0, 1, 1]),
            ((0, 2), NONE, NONE),
            ((4, 0), [0], [0]),
            ((3, 2, 2), [2, 0], [0, 2]),
        )
    ),
    *(
        case(f"SparseSegment{kind}WithNumSegments", unknown(D), [1, 0], [0, 1], 3)
        for kind in ("Sum", "Mean", "SqrtN")
    ),
    *(
        case(f"SparseSegment{kind}WithNumSegments", D, const(indices), const(ids), const(n), bad=True)
        for kind in ("Sum", "Mean", "SqrtN")
        for indices, ids, n in (
            ([0, 9], [0, 0], 3),
            ([0, 1], [0, 3], 3),
            ([0, 1], [1, 0], 3),
            ([0, 1], [0, 0], -3),
        )
    ),
    *(
        case(f"SparseSegment{kind}Grad", sample(name, (3, 2), 9), [0, 1, 3], [0, 0, 2], const(5), grad=False)
        for kind in ("Sum", "Mean", "SqrtN")
        for name in plain_dtypes(f"SparseSegment{kind}Grad")
    ),
    *(
        case(
            f"SparseSegment{kind}Grad",
            sample("float32", shape, 4),
            const(indices),
            const(ids),
            const(4),
            grad=False,
        )
        for kind in ("Sum", "Mean", "SqrtN")
        for shape, indices, ids in (
            ((3,), [1, 1, 0], [0, 1, 1]),
            ((3, 0), [0], [0]),
            ((3, 2, 2), [2, 0], [0, 2]),
        )
    ),
    *(
        case(f"SparseSegment{kind}Grad", unknown(D), [1, 0], [0, 1], 3, grad=False)
        for kind in ("Sum", "Mean", "SqrtN")
    ),
    *(
        case(f"SparseSegment{kind}Grad", D, const(indices), const(ids), const(n), bad=True)
        for kind in ("Sum", "Mean", "SqrtN")
        for indices, ids, n in (([0, 9], [0, 0], 3), ([0, 1], [0, 7], 3), ([0, 1], [0, 0], -3))
    ),
]


CASES: list[Case] = [*SEGMENTS]
