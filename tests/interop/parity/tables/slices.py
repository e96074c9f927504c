"""Slicing, joining and splitting."""

from __future__ import annotations

import numpy as np

from tests.interop.parity.sweeps import COMPLEX, FLOATS, sample
from tests.interop.parity.table import Case, case, const, partly, unknown

SOME = (*FLOATS, *COMPLEX, "int32", "int64", "uint8", "bool", "string")
X = sample("float32", (2, 3, 4), 1)
Y = sample("float32", (3, 4), 2)
NONE = np.zeros(0, np.int32)


SLICES = [
    *(case("Slice", sample(name, (3, 4)), const([1, 0]), const([2, 3])) for name in SOME),
    *(
        case("Slice", sample("float32", shape), const(begin), const(size))
        for shape, begin, size in (
            ((3,), [0], [-1]),
            ((3,), [3], [0]),
            ((), NONE, NONE),
            ((0, 2), [0, 1], [0, 1]),
            ((2, 3, 4), [0, 1, 2], [2, -1, 1]),
        )
    ),
    case("Slice", Y, [1, 1], [1, -1]),
    case("Slice", unknown(Y), const([1, 1]), const([1, -1])),
    case("Slice", Y, [1, 1], const([1, 2])),
    *(
        case("Slice", Y, const(begin), const(size), bad=True)
        for begin, size in (([4, 0], [1, 1]), ([0, 0], [9, 1]), ([0], [1]), ([-1, 0], [1, 1]))
    ),
    case("Slice", unknown(Y), [4, 0], [1, 1], bad=True),
    *(
        case("StridedSlice", sample(name, (3, 4)), const([0, 1]), const([3, 4]), const([2, 1]))
        for name in SOME
    ),
    *(
        case("StridedSlice", X, const(begin), const(end), const(step), attrs=attrs)
        for begin, end, step, attrs in (
            ([0], [1], [1], {}),
            ([1], [0], [1], {}),
            ([-1], [0], [-1], {"end_mask": 1}),
            ([0, 1], [2, 3], [1, 2], {}),
            ([0, 0], [0, 2], [1, 1], {"begin_mask": 1, "end_mask": 1}),
            ([1], [2], [1], {"shrink_axis_mask": 1}),
            ([-1], [0], [1], {"shrink_axis_mask": 1}),
            ([0, 1], [0, 2], [1, 1], {"ellipsis_mask": 1}),
            (
                [0, 0, 1],
                [0, 0, 2],
                [1, 1, 1],
                {"new_axis_mask": 1, "ellipsis_mask": 2, "shrink_axis_mask": 4},
            ),
            ([0, 0], [2, 9], [1, 1], {}),
            ([-9], [9], [1], {}),
            ([3], [-9], [-2], {}),
            ([0, 0, 0, 0], [2, 3, 4, 0], [1, 1, 1, 1], {"new_axis_mask": 8}),
        )
    ),
    case("StridedSlice", X, [0], [1], [1]),
    case("StridedSlice", X, [0], [1], const([1]), attrs={"shrink_axis_mask": 1}),
    case("StridedSlice", unknown(X), const([0]), const([1]), const([1])),
    case("StridedSlice", partly(X, (None, 3, 4)), const([0]), const([1]), const([1])),
    case("StridedSlice", sample("float32", (0, 2)), const([0]), const([1]), const([1])),
    *(
        case("StridedSlice", X, const(begin), const(end), const(step), attrs=attrs, bad=True)
        for begin, end, step, attrs in (
            ([0], [1], [0], {}),
            ([5], [6], [1], {"shrink_axis_mask": 1}),
            ([0] * 4, [1] * 4, [1] * 4, {}),
            ([0, 0], [1], [1], {}),
            ([0], [1], [-1], {"shrink_axis_mask": 1}),
        )
    ),
    case("StridedSlice", unknown(X), [9], [10], [1], attrs={"shrink_axis_mask": 1}, bad=True),
    *(
        case(
            "StridedSliceGrad",
            const([3, 4]),
            const([0, 1]),
            const([3, 4]),
            const([2, 1]),
            sample(name, (2, 3)),
        )
        for name in SOME
        if name != "string"
    ),
    *(
        case(
            "StridedSliceGrad",
            const(shape),
            const(begin),
            const(end),
            const(step),
            sample("float32", dy),
            attrs=attrs,
        )
        for shape, begin, end, step, dy, attrs in (
            ([5], [3], [0], [-1], (3,), {}),
            ([2, 3], [1], [2], [1], (3,), {"shrink_axis_mask": 1}),
            ([0, 3], [0], [1], [1], (0, 3), {}),
            ([2, 3], [0, 0], [0, 1], [1, 1], (2, 1), {"ellipsis_mask": 1}),
        )
    ),
    case("StridedSliceGrad", [3], [0], [2], [1], [1.0, 2.0]),
    case("StridedSliceGrad", const([3]), const([0]), const([2]), const([1]), unknown([1.0, 2.0])),
    case("StridedSliceGrad", const([3]), const([0]), const([2]), const([1]), [1.0], bad=True),
    *(case("Concat", const(1), [sample(name, (2, 3)), sample(name, (2, 1), 1)]) for name in SOME),
    *(case("ConcatV2", [sample(name, (2, 3)), sample(name, (2, 1), 1)], const(1)) for name in SOME),
    *(
        case("ConcatV2", [sample("float32", shape, k) for k, shape in enumerate(given)], const(axis))
        for given, axis in (
            (((2,), (0,), (3,)), 0),
            (((2, 3), (1, 3)), -2),
            (((0, 2), (0, 2)), 0),
            (((1, 2, 2),) * 5, 2),
        )
    ),
    *(
        case("Concat", const(axis), [sample("float32", shape, k) for k, shape in enumerate(given)])
        for given, axis in (
            (((2,), (0,), (3,)), 0),
            (((2, 3), (1, 3)), -2),
            (((0, 2), (0, 2)), 0),
            (((1, 2, 2),) * 5, 2),
        )
    ),
    *(
        case("ConcatV2", given, axis)
        for given, axis in (
            ([Y, Y], 0),
            ([unknown(Y), Y], const(0)),
            ([partly(Y, (None, 4)), Y], const(1)),
            ([partly(Y, (None, 4)), Y], const(0)),
        )
    ),
    *(
        case("Concat", axis, given)
        for given, axis in (([Y, Y], 0), ([unknown(Y), Y], const(0)), ([partly(Y, (None, 4)), Y], const(1)))
    ),
    *(
        case("ConcatV2", given, const(axis), bad=True)
        for given, axis in (([Y, Y], 2), ([Y, Y[:2]], 1), ([Y, Y[0]], 0), ([1.0, 2.0], 0))
    ),
    *(
        case("Concat", const(axis), given, bad=True)
        for given, axis in (([Y, Y], 2), ([Y, Y[:2]], 1), ([Y, Y[0]], 0), ([1.0, 2.0], 0))
    ),
    case("ConcatV2", [unknown(Y), unknown(Y[:2])], 1, bad=True),
    *(case("Split", const(1), sample(name, (2, 4)), attrs={"num_split": 2}) for name in SOME),
    *(
        case("Split", const(axis), sample("float32", shape), attrs={"num_split": count})
        for shape, axis, count in (((4,), 0, 4), ((4, 2), -2, 2), ((0, 2), 0, 3), ((3, 2), 1, 1))
    ),
    case("Split", 0, Y, attrs={"num_split": 3}),
    case("Split", const(0), unknown(Y), attrs={"num_split": 3}),
    *(
        case("Split", const(axis), Y, attrs={"num_split": count}, bad=True)
        for axis, count in ((2, 1), (0, 2), (0, 0))
    ),
    *(case("SplitV", sample(name, (2, 5)), const([2, 3]), const(1), attrs={"num_split": 2}) for name in SOME),
    *(
        case("SplitV", sample("float32", shape), const(sizes), const(axis), attrs={"num_split": len(sizes)})
        for shape, sizes, axis in (
            ((4,), [1, -1, 2], 0),
            ((4, 2), [4], -2),
            ((0, 2), [0, 0], 0),
            ((3, 2), [0, 3], 0),
        )
    ),
    case("SplitV", Y, [1, 2], 0, attrs={"num_split": 2}),
    case("SplitV", Y, const([1, 2], "int32"), const(0), attrs={"num_split": 2}),
    case("SplitV", unknown(Y), const([1, 2]), const(0), attrs={"num_split": 2}),
    *(
        case("SplitV", Y, const(sizes), const(axis), attrs={"num_split": 2}, bad=True)
        for sizes, axis in (([1, 1], 0), ([1, 2], 2), ([-1, -1], 0), ([4, -1], 0))
    ),
    *(case("Pack", [sample(name, (2, 3)), sample(name, (2, 3), 1)], attrs={"axis": 1}) for name in SOME),
    *(
        case("Pack", [sample("float32", shape, k) for k in range(count)], attrs={"axis": axis})
        for shape, count, axis in (((), 3, 0), ((2,), 1, -1), ((0, 2), 2, 2), ((2, 3), 3, -3))
    ),
    case("Pack", [unknown(Y), Y]),
    case("Pack", [unknown(Y), unknown(Y)]),
    *(
        case("Pack", given, attrs={"axis": axis}, bad=True)
        for given, axis in (([Y, Y[:2]], 0), ([Y, Y], 3), ([Y, Y], -4))
    ),
    case("Pack", [unknown(Y), unknown(Y[0])], bad=True),
    *(case("Unpack", sample(name, (2, 3)), attrs={"num": 3, "axis": 1}) for name in SOME),
    *(
        case("Unpack", sample("float32", shape), attrs={"num": shape[axis], "axis": axis})
        for shape, axis in (((3,), 0), ((2, 0), 0), ((2, 3, 4), -1), ((0, 2), 0))
    ),
    case("Unpack", unknown(Y), attrs={"num": 3}),
    *(
        case("Unpack", Y, attrs={"num": count, "axis": axis}, bad=True)
        for count, axis in ((2, 0), (3, 2), (3, -3))
    ),
    case("Unpack", unknown(Y), attrs={"num": 2}, bad=True),
    *(
        case("ConcatOffset", const(axis), [const(shape) for shape in given])
        for axis, given in (
            (0, ([2, 3], [1, 3])),
            (1, ([2, 3], [2, 1], [2, 5])),
            (-1, ([2, 3], [2, 1])),
            (0, ([0], [4])),
        )
    ),
    *(
        case("ConcatOffset", axis, given)
        for axis, given in (
            (0, ([2, 3], [1, 3])),
            (1, ([2, 3], [2, 1])),
            (0, ([2], [3], [4])),
            (1, ([1, 2, 3], [1, 5, 3])),
            (2, ([1, 2, 3], [1, 2, 5])),
            (-2, ([1, 2], [3, 2])),
        )
    ),
    *(
        case("ConcatOffset", axis, given, bad=True)
        for axis, given in ((0, ([2, 3], [1, 4])), (2, ([2, 3], [2, 3])))
    ),
]

CASES: list[Case] = [*SLICES]
