"""Shapes and rows: reshaping, slicing, joining, gathering, padding, ranges, constants."""

from __future__ import annotations

import numpy as np

from tests.interop.parity.sweeps import COMPLEX, FLOATS, plain_dtypes, sample
from tests.interop.parity.table import Case, case, const, partly, unknown

SOME = (*FLOATS, *COMPLEX, "int32", "int64", "uint8", "bool", "string")
X = sample("float32", (2, 3, 4), 1)
Y = sample("float32", (3, 4), 2)
NONE = np.zeros(0, np.int32)

RESHAPES = [
    *(case("Reshape", sample(name, (2, 3)), const([3, 2])) for name in SOME),
    *(
        case("Reshape", sample("float32", shape), const(wanted))
        for shape, wanted in (((2, 3), [-1]), ((2, 3), [-1, 2]), ((), [1, 1]), ((1,), NONE), ((0, 3), [3, 0]), ((0, 3), [-1, 3]), ((6,), [2, 3]))
    ),
    case("Reshape", X, [4, 6]), case("Reshape", unknown(X), [4, -1]), case("Reshape", unknown(X), const([4, -1])),
    case("Reshape", partly(X, (2, None, 4)), const([-1, 4])), case("Reshape", partly(X, (None, 3, 4)), const([6, -1])),
    *(case("Reshape", X, const(wanted), bad=True) for wanted in ([5, 5], [-1, -1], [-2, 12], [7, -1])),
    case("Reshape", unknown(X), [5, 5], bad=True),
    *(case("ExpandDims", sample(name, (2, 3)), const(1)) for name in SOME),
    *(case("ExpandDims", sample("float32", shape), const(axis)) for shape, axis in (((), 0), ((), -1), ((3,), -1), ((0, 2), 2), ((2, 3), -3), ((2, 3), [1]))),
    case("ExpandDims", X, 1), case("ExpandDims", unknown(X), const(1)),
    *(case("ExpandDims", Y, const(axis), bad=True) for axis in (3, -4)), case("ExpandDims", unknown(Y), 3, bad=True),
    *(case("Squeeze", sample(name, (2, 1, 3, 1))) for name in SOME),
    *(case("Squeeze", sample("float32", shape), attrs={"squeeze_dims": axes}) for shape, axes in (((1, 2, 1), [0]), ((1, 2, 1), [-1]), ((1, 1), [0, 1]), ((1, 0), [0]), ((1,), []))),
    case("Squeeze", unknown(sample("float32", (1, 2)))), case("Squeeze", partly(sample("float32", (1, 2)), (None, 2)), attrs={"squeeze_dims": [0]}),
    *(case("Squeeze", Y, attrs={"squeeze_dims": axes}, bad=True) for axes in ([0], [2], [-3])), case("Squeeze", unknown(Y), attrs={"squeeze_dims": [0]}, bad=True),
    *(case(op, sample(name, (2, 3, 4)), const([2, 0, 1])) for op in ("Transpose", "ConjugateTranspose") for name in SOME),
    *(case(op, sample("float32", shape), const(perm)) for op in ("Transpose", "ConjugateTranspose") for shape, perm in (((), NONE), ((3,), [0]), ((0, 2), [1, 0]), ((2, 3), [-1, 0]), ((2, 3, 1, 2), [3, 1, 0, 2]))),
    *(case(op, unknown(X), perm) for op in ("Transpose", "ConjugateTranspose") for perm in ([1, 0, 2], const([1, 0, 2]))),
    *(case(op, X, const(perm), bad=True) for op in ("Transpose", "ConjugateTranspose") for perm in ([0, 1], [0, 1, 1], [0, 1, 3])),
    *(case("Tile", sample(name, (2, 3)), const([2, 1])) for name in SOME),
    *(case("Tile", sample("float32", shape), const(times)) for shape, times in (((), NONE), ((3,), [0]), ((0, 2), [3, 2]), ((2, 3), [1, 3]), ((2, 1, 2), [1, 2, 3]))),
    case("Tile", Y, [1, 2]), case("Tile", unknown(Y), const([1, 2])),
    *(case("Tile", Y, const(times), bad=True) for times in ([1], [1, -1])), case("Tile", unknown(Y), [1], bad=True),
    *(case("BroadcastTo", sample(name, (3,)), const([2, 3])) for name in SOME),
    *(case("BroadcastTo", sample("float32", shape), const(wanted)) for shape, wanted in (((), [2]), ((), NONE), ((1, 3), [2, 3]), ((2, 1), [3, 2, 4]), ((1,), [0]), ((2, 3), [2, 3]))),
    case("BroadcastTo", Y, [2, 3, 4]), case("BroadcastTo", unknown(Y), const([2, 3, 4])),
    *(case("BroadcastTo", Y, const(wanted), bad=True) for wanted in ([4], [2, 4], [3, 5])), case("BroadcastTo", unknown(Y), [4], bad=True),
    *(case("ReverseV2", sample(name, (2, 3)), const([1])) for name in plain_dtypes("ReverseV2")),
    *(case("ReverseV2", sample("float32", shape), const(axes)) for shape, axes in (((), NONE), ((3,), [-1]), ((0, 2), [0]), ((2, 3, 2), [0, 2]))),
    case("ReverseV2", Y, [0]), case("ReverseV2", unknown(Y), const([0])),
    *(case("ReverseV2", Y, const(axes), bad=True) for axes in ([2], [0, 0], [0, -2])), case("ReverseV2", unknown(Y), [2], bad=True),
]  # fmt: skip

SLICES = [
    *(case("Slice", sample(name, (3, 4)), const([1, 0]), const([2, 3])) for name in SOME),
    *(case("Slice", sample("float32", shape), const(begin), const(size)) for shape, begin, size in (((3,), [0], [-1]), ((3,), [3], [0]), ((), NONE, NONE), ((0, 2), [0, 1], [0, 1]), ((2, 3, 4), [0, 1, 2], [2, -1, 1]))),
    case("Slice", Y, [1, 1], [1, -1]), case("Slice", unknown(Y), const([1, 1]), const([1, -1])), case("Slice", Y, [1, 1], const([1, 2])),
    *(case("Slice", Y, const(begin), const(size), bad=True) for begin, size in (([4, 0], [1, 1]), ([0, 0], [9, 1]), ([0], [1]), ([-1, 0], [1, 1]))),
    case("Slice", unknown(Y), [4, 0], [1, 1], bad=True),
    *(case("StridedSlice", sample(name, (3, 4)), const([0, 1]), const([3, 4]), const([2, 1])) for name in SOME),
    *(
        case("StridedSlice", X, const(begin), const(end), const(step), attrs=attrs)
        for begin, end, step, attrs in (
            ([0], [1], [1], {}), ([1], [0], [1], {}), ([-1], [0], [-1], {"end_mask": 1}), ([0, 1], [2, 3], [1, 2], {}), ([0, 0], [0, 2], [1, 1], {"begin_mask": 1, "end_mask": 1}),
            ([1], [2], [1], {"shrink_axis_mask": 1}), ([-1], [0], [1], {"shrink_axis_mask": 1}), ([0, 1], [0, 2], [1, 1], {"ellipsis_mask": 1}), ([0, 0, 1], [0, 0, 2], [1, 1, 1], {"new_axis_mask": 1, "ellipsis_mask": 2, "shrink_axis_mask": 4}),
            ([0, 0], [2, 9], [1, 1], {}), ([-9], [9], [1], {}), ([3], [-9], [-2], {}), ([0, 0, 0, 0], [2, 3, 4, 0], [1, 1, 1, 1], {"new_axis_mask": 8}),
        )
    ),
    case("StridedSlice", X, [0], [1], [1]), case("StridedSlice", X, [0], [1], const([1]), attrs={"shrink_axis_mask": 1}), case("StridedSlice", unknown(X), const([0]), const([1]), const([1])),
    case("StridedSlice", partly(X, (None, 3, 4)), const([0]), const([1]), const([1])), case("StridedSlice", sample("float32", (0, 2)), const([0]), const([1]), const([1])),
    *(case("StridedSlice", X, const(begin), const(end), const(step), attrs=attrs, bad=True) for begin, end, step, attrs in (([0], [1], [0], {}), ([5], [6], [1], {"shrink_axis_mask": 1}), ([0] * 4, [1] * 4, [1] * 4, {}), ([0, 0], [1], [1], {}), ([0], [1], [-1], {"shrink_axis_mask": 1}))),
    case("StridedSlice", unknown(X), [9], [10], [1], attrs={"shrink_axis_mask": 1}, bad=True),
    *(case("StridedSliceGrad", const([3, 4]), const([0, 1]), const([3, 4]), const([2, 1]), sample(name, (2, 3))) for name in SOME if name != "string"),
    *(
        case("StridedSliceGrad", const(shape), const(begin), const(end), const(step), sample("float32", dy), attrs=attrs)
        for shape, begin, end, step, dy, attrs in (([5], [3], [0], [-1], (3,), {}), ([2, 3], [1], [2], [1], (3,), {"shrink_axis_mask": 1}), ([0, 3], [0], [1], [1], (0, 3), {}), ([2, 3], [0, 0], [0, 1], [1, 1], (2, 1), {"ellipsis_mask": 1}))
    ),
    case("StridedSliceGrad", [3], [0], [2], [1], [1.0, 2.0]), case("StridedSliceGrad", const([3]), const([0]), const([2]), const([1]), unknown([1.0, 2.0])),
    case("StridedSliceGrad", const([3]), const([0]), const([2]), const([1]), [1.0], bad=True),
    *(case("Concat", const(1), [sample(name, (2, 3)), sample(name, (2, 1), 1)]) for name in SOME),
    *(case("ConcatV2", [sample(name, (2, 3)), sample(name, (2, 1), 1)], const(1)) for name in SOME),
    *(case("ConcatV2", [sample("float32", shape, k) for k, shape in enumerate(given)], const(axis)) for given, axis in ((((2,), (0,), (3,)), 0), (((2, 3), (1, 3)), -2), (((0, 2), (0, 2)), 0), (((1, 2, 2),) * 5, 2))),
    *(case("Concat", const(axis), [sample("float32", shape, k) for k, shape in enumerate(given)]) for given, axis in ((((2,), (0,), (3,)), 0), (((2, 3), (1, 3)), -2), (((0, 2), (0, 2)), 0), (((1, 2, 2),) * 5, 2))),
    *(case("ConcatV2", given, axis) for given, axis in (([Y, Y], 0), ([unknown(Y), Y], const(0)), ([partly(Y, (None, 4)), Y], const(1)), ([partly(Y, (None, 4)), Y], const(0)))),
    *(case("Concat", axis, given) for given, axis in (([Y, Y], 0), ([unknown(Y), Y], const(0)), ([partly(Y, (None, 4)), Y], const(1)))),
    *(case("ConcatV2", given, const(axis), bad=True) for given, axis in (([Y, Y], 2), ([Y, Y[:2]], 1), ([Y, Y[0]], 0), ([1.0, 2.0], 0))),
    *(case("Concat", const(axis), given, bad=True) for given, axis in (([Y, Y], 2), ([Y, Y[:2]], 1), ([Y, Y[0]], 0), ([1.0, 2.0], 0))),
    case("ConcatV2", [unknown(Y), unknown(Y[:2])], 1, bad=True),
    *(case("Split", const(1), sample(name, (2, 4)), attrs={"num_split": 2}) for name in SOME),
    *(case("Split", const(axis), sample("float32", shape), attrs={"num_split": count}) for shape, axis, count in (((4,), 0, 4), ((4, 2), -2, 2), ((0, 2), 0, 3), ((3, 2), 1, 1))),
    case("Split", 0, Y, attrs={"num_split": 3}), case("Split", const(0), unknown(Y), attrs={"num_split": 3}), *(case("Split", const(axis), Y, attrs={"num_split": count}, bad=True) for axis, count in ((2, 1), (0, 2), (0, 0))),
    *(case("SplitV", sample(name, (2, 5)), const([2, 3]), const(1), attrs={"num_split": 2}) for name in SOME),
    *(case("SplitV", sample("float32", shape), const(sizes), const(axis), attrs={"num_split": len(sizes)}) for shape, sizes, axis in (((4,), [1, -1, 2], 0), ((4, 2), [4], -2), ((0, 2), [0, 0], 0), ((3, 2), [0, 3], 0))),
    case("SplitV", Y, [1, 2], 0, attrs={"num_split": 2}), case("SplitV", Y, const([1, 2], "int32"), const(0), attrs={"num_split": 2}), case("SplitV", unknown(Y), const([1, 2]), const(0), attrs={"num_split": 2}),
    *(case("SplitV", Y, const(sizes), const(axis), attrs={"num_split": 2}, bad=True) for sizes, axis in (([1, 1], 0), ([1, 2], 2), ([-1, -1], 0), ([4, -1], 0))),
    *(case("Pack", [sample(name, (2, 3)), sample(name, (2, 3), 1)], attrs={"axis": 1}) for name in SOME),
    *(case("Pack", [sample("float32", shape, k) for k in range(count)], attrs={"axis": axis}) for shape, count, axis in (((), 3, 0), ((2,), 1, -1), ((0, 2), 2, 2), ((2, 3), 3, -3))),
    case("Pack", [unknown(Y), Y]), case("Pack", [unknown(Y), unknown(Y)]), *(case("Pack", given, attrs={"axis": axis}, bad=True) for given, axis in (([Y, Y[:2]], 0), ([Y, Y], 3), ([Y, Y], -4))), case("Pack", [unknown(Y), unknown(Y[0])], bad=True),
    *(case("Unpack", sample(name, (2, 3)), attrs={"num": 3, "axis": 1}) for name in SOME),
    *(case("Unpack", sample("float32", shape), attrs={"num": shape[axis], "axis": axis}) for shape, axis in (((3,), 0), ((2, 0), 0), ((2, 3, 4), -1), ((0, 2), 0))),
    case("Unpack", unknown(Y), attrs={"num": 3}), *(case("Unpack", Y, attrs={"num": count, "axis": axis}, bad=True) for count, axis in ((2, 0), (3, 2), (3, -3))), case("Unpack", unknown(Y), attrs={"num": 2}, bad=True),
    *(case("ConcatOffset", const(axis), [const(shape) for shape in given]) for axis, given in ((0, ([2, 3], [1, 3])), (1, ([2, 3], [2, 1], [2, 5])), (-1, ([2, 3], [2, 1])), (0, ([0], [4])))),
    *(case("ConcatOffset", axis, given) for axis, given in ((0, ([2, 3], [1, 3])), (1, ([2, 3], [2, 1])), (0, ([2], [3], [4])), (1, ([1, 2, 3], [1, 5, 3])), (2, ([1, 2, 3], [1, 2, 5])), (-2, ([1, 2], [3, 2])))),
    *(case("ConcatOffset", axis, given, bad=True) for axis, given in ((0, ([2, 3], [1, 4])), (2, ([2, 3], [2, 3])))),
]  # fmt: skip

ROWS = [
    *(case("Gather", sample(name, (4, 2)), [3, 0, 3]) for name in SOME),
    *(case("Gather", sample("float32", shape), const(indices, "int64")) for shape, indices in (((3,), 1), ((3, 2), [[0, 2], [1, 1]]), ((3, 0), [1]), ((2, 2), NONE))),
    case("Gather", unknown(Y), [1]), case("Gather", Y, unknown([1])), *(case("Gather", Y, indices, bad=True) for indices in ([3], [-1])), case("Gather", 1.0, [0], bad=True),
    *(case("GatherV2", sample(name, (4, 2)), [3, 0, 3], const(0)) for name in SOME),
    *(
        case("GatherV2", sample("float32", shape), const(indices), const(axis), attrs={"batch_dims": batch}, grad=not batch)
        for shape, indices, axis, batch in (((3, 4), [1, 1], 1, 0), ((3, 4), 2, -1, 0), ((2, 3, 4), [[0], [2]], 1, 1), ((2, 3, 4), [[0, 1], [3, 2]], 2, 1), ((2, 3), [[0, 1], [2, 2]], 1, -1), ((0, 3), [2, 1], 1, 0), ((2, 3, 2), [[1, 0], [0, 0]], 1, 0))
    ),
    case("GatherV2", Y, [1], 1), case("GatherV2", unknown(Y), [1], const(0)), case("GatherV2", Y, unknown([1]), const(1), grad=False),
    *(case("GatherV2", Y, const(indices), const(axis), bad=True) for indices, axis in (([3], 0), ([-1], 0), ([0], 2), ([0], -3))), case("GatherV2", X, const([[0, 1]]), const(1), attrs={"batch_dims": 1}, bad=True),
    *(case("GatherNd", sample(name, (3, 4)), [[0, 1], [2, 3]]) for name in SOME),
    *(case("GatherNd", sample("float32", shape), const(indices)) for shape, indices in (((3, 4), [[1], [0]]), ((3,), np.zeros((0, 1), np.int32)), ((2, 3, 2), [[[0, 1]], [[1, 2]]]))),
    *(case("GatherNd", sample("float32", shape), const(indices), grad=False, note="TensorFlow's gradient fails") for shape, indices in (((3, 4), [1]), ((3, 4), [1, 2]), ((2, 3), np.zeros((2, 0), np.int32)))),
    case("GatherNd", unknown(Y), [[1]]), case("GatherNd", Y, unknown([[1]])), *(case("GatherNd", Y, indices, bad=True) for indices in ([[3]], [[0, -1]])), case("GatherNd", Y, const([[0, 1, 2]]), bad=True),
    *(case("ScatterNd", [[0], [2], [0]], sample(name, (3, 2)), const([3, 2])) for name in SOME if name not in ("string", "bool")),
    *(case("ScatterNd", const(indices), sample("float32", updates), const(shape)) for indices, updates, shape in (([[0, 1]], (1,), [2, 2]), ([[1]], (1, 2), [3, 2]), (np.zeros((0, 1), np.int32), (0, 2), [3, 2]), ([[[0], [1]]], (1, 2), [2]))),
    case("ScatterNd", [[0]], [1.0], [3]), case("ScatterNd", unknown([[0]]), [1.0], const([3])),
    *(case("ScatterNd", indices, sample("float32", updates), const(shape), bad=True) for indices, updates, shape in (([[3]], (1,), [3]), ([[-1]], (1,), [3]), ([[0]], (2,), [3]), ([[0, 0]], (1,), [3]))), case("ScatterNd", [[0]], [1.0], const([-3]), bad=True),
    *(case("Where", sample(name, (3, 4))) for name in plain_dtypes("Where") if name != "float16"),
    *(case("Where", sample("bool", shape)) for shape in ((5,), (0,), (2, 0), (2, 3, 2))), case("Where", True, bad=True), case("Where", unknown([True, False])),
    *(case("DynamicPartition", sample(name, (4, 2)), [1, 0, 1, 2], attrs={"num_partitions": 3}) for name in SOME),
    *(case("DynamicPartition", sample("float32", shape), const(parts), attrs={"num_partitions": 2}) for shape, parts in (((2, 2), [[0, 1], [1, 0]]), ((0,), NONE), ((3,), [0, 0, 0]))), case("DynamicPartition", unknown(Y), [0, 1, 0], attrs={"num_partitions": 2}),
    *(case("DynamicPartition", Y, parts, attrs={"num_partitions": 2}, bad=True) for parts in ([0, 2, 0], [0, -1, 0], [0, 1])),
    *(case(op, [[0, 2], [1]], [sample(name, (2, 2)), sample(name, (1, 2), 1)]) for op in ("DynamicStitch", "ParallelDynamicStitch") for name in SOME),
    *(case(op, [const(i) for i in indices], [sample("float32", s, k) for k, s in enumerate(data)]) for op in ("DynamicStitch", "ParallelDynamicStitch") for indices, data in ((([0], [1]), ((1,), (1,))), (([[0, 1], [2, 3]], 4), ((2, 2, 3), (3,))), ((NONE, [0]), ((0, 2), (1, 2))))),
    *(case(op, [unknown([0]), [1]], [[1.0], [2.0]]) for op in ("DynamicStitch", "ParallelDynamicStitch")),
    *(case(op, indices, data, bad=True) for op in ("DynamicStitch", "ParallelDynamicStitch") for indices, data in (([[0], [1]], [[1.0], [2.0, 3.0]]), ([[-1]], [[1.0]]))),
    *(case("InvertPermutation", const(perm, name)) for name in ("int32", "int64") for perm in ([0], [2, 0, 1], [1, 0], NONE, [3, 2, 1, 0])),
    case("InvertPermutation", [1, 0]), case("InvertPermutation", unknown([1, 0])), *(case("InvertPermutation", perm, bad=True) for perm in ([0, 0], [1, 2], [-1, 0])),
    *(case("OneHot", [0, 2, -1], const(3), sample(name, (), 1), sample(name, (), 2), attrs={"axis": axis}) for name in SOME for axis in (-1,)),
    *(case("OneHot", const(indices), const(depth), 1.0, 0.0, attrs={"axis": axis}) for indices, depth, axis in ((1, 3, -1), ([[0, 1], [2, 5]], 3, 0), ([[0, 1], [2, 5]], 3, 1), (NONE, 2, -1), ([0], 0, 0))),
    case("OneHot", [1], 3, 1.0, 0.0), case("OneHot", unknown([1]), const(3), 1.0, 0.0), case("OneHot", const([1], "uint8"), const(2), 1.0, 0.0), *(case("OneHot", [1], const(depth), 1.0, 0.0, attrs={"axis": axis}, bad=True) for depth, axis in ((-1, -1), (2, 2))),
]  # fmt: skip

PADS = [
    *(case("Pad", sample(name, (2, 3)), const([[1, 0], [0, 2]])) for name in SOME),
    *(case("Pad", sample("float32", shape), const(np.array(p, np.int32).reshape(-1, 2))) for shape, p in (((), []), ((3,), [[2, 2]]), ((0, 2), [[1, 1], [0, 0]]), ((1, 2, 2), [[0, 0], [1, 0], [0, 1]]))),
    case("Pad", Y, [[1, 1], [0, 0]]), case("Pad", unknown(Y), const([[1, 1], [0, 0]])), *(case("Pad", Y, const(p), bad=True) for p in ([[1, 1]], [[-1, 0], [0, 0]], [[1], [1]])),
    *(case("PadV2", sample(name, (2, 3)), const([[1, 0], [0, 2]]), sample(name, (), 7)) for name in SOME),
    *(case("PadV2", sample("float32", shape), const(np.array(p, np.int32).reshape(-1, 2)), 2.5) for shape, p in (((), []), ((3,), [[2, 2]]), ((0, 2), [[1, 1], [0, 0]]))),
    case("PadV2", Y, [[1, 1], [0, 0]], 0.5), case("PadV2", unknown(Y), const([[1, 1], [0, 0]]), 0.5), *(case("PadV2", Y, const(p), 0.5, bad=True) for p in ([[1, 1]], [[-1, 0], [0, 0]])),
    *(case("MirrorPad", sample(name, (3, 3)), const([[1, 0], [0, 2]]), attrs={"mode": mode}) for name in SOME for mode in ("REFLECT", "SYMMETRIC")),
    *(case("MirrorPad", sample("float32", shape), const(p), attrs={"mode": "SYMMETRIC"}) for shape, p in (((3,), [[3, 3]]), ((2, 2), [[0, 0], [0, 0]]))),
    case("MirrorPad", Y, [[1, 1], [0, 0]], attrs={"mode": "REFLECT"}), *(case("MirrorPad", Y, const(p), attrs={"mode": mode}, bad=True) for p, mode in (([[3, 0], [0, 0]], "REFLECT"), ([[4, 0], [0, 0]], "SYMMETRIC"), ([[1, 1]], "REFLECT"))),
]  # fmt: skip

MADE = [
    *(case("Fill", const([2, 3]), sample(name, (), 3)) for name in SOME), *(case("Fill", const(shape), 1.5) for shape in (NONE, [0], [2, 0, 3])),
    case("Fill", [2, 3], 1.5), case("Fill", unknown([2, 3]), 1.5), case("Fill", const([2], "int64"), 1.5), case("Fill", const([-2]), 1.5, bad=True), case("Fill", [-2], 1.5, bad=True), case("Fill", const([2]), [1.5], bad=True),
    *(case("ZerosLike", sample(name, (2, 3))) for name in SOME), *(case("ZerosLike", sample("float32", shape)) for shape in ((), (0,), (2, 0, 3))), case("ZerosLike", unknown(Y)),
    *(case("OnesLike", sample(name, (2, 3))) for name in SOME if name != "string"), *(case("OnesLike", sample("float32", shape)) for shape in ((), (0,), (2, 0, 3))), case("OnesLike", unknown(Y)), case("OnesLike", np.array([b"a"], object), bad=True),
    *(case("Range", *(const(v, name) for v in (1, 9, 3))) for name in plain_dtypes("Range", "Tidx") if name != "float16"),
    *(case("Range", *map(const, bounds)) for bounds in ((0, 5, 1), (5, 0, -2), (0, 0, 1), (0.5, 2.0, 0.25), (1.0, 0.0, -0.3), (0.0, 1.0, 0.1))),
    case("Range", 0, 4, 1), case("Range", unknown(0), 4, 1), *(case("Range", *map(const, bounds), bad=True) for bounds in ((0, 5, 0), (5, 0, 1), (0, 5, -1))), case("Range", 0, 5, 0, bad=True), case("Range", const([0]), const(5), const(1), bad=True),
    *(case("LinSpace", np.asarray(0.5).astype(sample(name, ()).dtype), np.asarray(3).astype(sample(name, ()).dtype), const(5)) for name in FLOATS),
    *(case("LinSpace", *bounds, const(count)) for bounds, count in (((0.0, 1.0), 1), ((1.0, 0.0), 3), ((2.0, 2.0), 2), ((0.0, 10.0), 11))), case("LinSpace", 0.0, 1.0, 4), case("LinSpace", unknown(0.0), 1.0, const(4)), case("LinSpace", 0.0, 1.0, const(3, "int64")),
    *(case("LinSpace", 0.0, 1.0, const(count), bad=True) for count in (0, -1)), case("LinSpace", 0.0, 1.0, 0, bad=True), case("LinSpace", const([0.0]), 1.0, const(2), bad=True),
    *(case(op, sample(name, (2, 3))) for op in ("Shape", "Size", "Rank") for name in SOME), *(case(op, sample("float32", shape)) for op in ("Shape", "Size", "Rank") for shape in ((), (0,), (2, 0, 3))), *(case(op, unknown(Y)) for op in ("Shape", "Size", "Rank")),
    *(case(op, Y, attrs={"out_type": "int64"}) for op in ("Shape", "Size")),
    *(case("ShapeN", [sample(name, (2, 3)), sample(name, ())]) for name in SOME), case("ShapeN", [Y, Y], attrs={"out_type": "int64"}), case("ShapeN", [unknown(Y)]),
    *(case("BroadcastArgs", const(a), const(b)) for a, b in (([2, 3], [3]), ([1], [4]), (NONE, [2]), ([2, 1], [1, 3]), ([0], [1]), ([2], [2]))),
    *(case("BroadcastArgs", a, b) for a, b in (([2, 3], [3]), ([1], [4]), (unknown([2, 1]), [3]), (np.array([2, 1], np.int64), np.array([3], np.int64)))), *(case("BroadcastArgs", a, b, bad=True) for a, b in (([2], [3]), ([2, 3], [2, 2]))),
    *(case("BroadcastGradientArgs", np.array(a, np.int32), np.array(b, np.int32)) for a, b in (([2, 3], [3]), ([1], [4]), (NONE, [2]), ([2, 1], [1, 3]), ([0], [1]), ([2], [2]))),
    *(case("BroadcastGradientArgs", a, b) for a, b in (([2, 3], [3]), ([1], [4]), (unknown([2, 1]), [3]), (np.array([2, 1], np.int64), np.array([3], np.int64)))), *(case("BroadcastGradientArgs", a, b, bad=True) for a, b in (([2], [3]), ([2, 3], [2, 2]))),
    *(case(op, sample(name, (2, 3))) for op in ("Identity", "StopGradient", "Snapshot", "PreventGradient") for name in SOME if op != "PreventGradient" or not name.startswith(("float", "bfloat", "complex"))),
    *(case("PreventGradient", sample(name, (2, 3)), grad=False) for name in (*FLOATS, *COMPLEX)),
    *(case(op, sample("float32", shape), grad=op != "PreventGradient") for op in ("Identity", "StopGradient", "Snapshot", "PreventGradient") for shape in ((), (0,), (2, 0, 3))), *(case(op, unknown(Y), grad=op != "PreventGradient") for op in ("Identity", "StopGradient", "Snapshot", "PreventGradient")),
    *(case("IdentityN", [sample(name, (2, 3)), sample("int32", ())]) for name in SOME), case("IdentityN", [unknown(Y)]), case("IdentityN", [Y, Y, Y]),
]  # fmt: skip

ARGUMENTS = [
    *(case(op, sample(name, (3, 4)), const(1)) for op in ("ArgMax", "ArgMin") for name in plain_dtypes(op)),
    *(case(op, sample("float32", shape), const(axis)) for op in ("ArgMax", "ArgMin") for shape, axis in (((3,), 0), ((2, 3), -1), ((2, 3, 4), 1), ((0, 3), 1))),
    *(case(op, Y, const(0), attrs={"output_type": "int32"}) for op in ("ArgMax", "ArgMin")), *(case(op, Y, 0) for op in ("ArgMax", "ArgMin")), *(case(op, unknown(Y), const(0)) for op in ("ArgMax", "ArgMin")),
    *(case(op, np.array([1.0, np.nan, 3.0, 3.0]), const(0)) for op in ("ArgMax", "ArgMin")),
    *(case(op, Y, const(axis), bad=True) for op in ("ArgMax", "ArgMin") for axis in (2, -3)), *(case(op, sample("float32", (0, 2)), const(0), bad=True) for op in ("ArgMax", "ArgMin")),
    *(case("NthElement", sample(name, (3, 4)), const(1)) for name in plain_dtypes("NthElement")),
    *(case("NthElement", Y, const(n), attrs={"reverse": reverse}) for n in (0, 3) for reverse in (False, True)), case("NthElement", sample("float32", (0, 3)), const(1)), case("NthElement", Y, 2), case("NthElement", unknown(Y), const(1)),
    *(case("NthElement", x, const(n), bad=True) for x, n in ((Y, 4), (Y, -1), (1.0, 0))), case("NthElement", unknown(Y), 4, bad=True),
    *(case("TopKV2", sample(name, (3, 4)), const(2)) for name in plain_dtypes("TopKV2")), *(case("TopKV2", Y, const(k), attrs={"sorted": True}) for k in (0, 1, 4)), case("TopKV2", Y, 2), case("TopKV2", unknown(Y), const(2)), case("TopKV2", sample("float32", (0, 3)), const(2)),
    *(case("TopKV2", x, const(k), bad=True) for x, k in ((Y, 5), (Y, -1), (1.0, 1))),
    *(case("LowerBound", np.sort(sample(name, (2, 5)), -1), sample(name, (2, 3), 1)) for name in ("float32", "float64", "int32", "int64", "uint8", "int8")),
    *(case("UpperBound", np.sort(sample(name, (2, 5)), -1), sample(name, (2, 3), 1)) for name in ("float32", "float64", "int32", "int64", "uint8", "int8")),
    *(case(op, const([[1.0, 2.0, 2.0]]), const([[2.0, 5.0, 0.0]]), attrs={"out_type": "int64"}) for op in ("LowerBound", "UpperBound")),
    *(case(op, a, b) for op in ("LowerBound", "UpperBound") for a, b in ((unknown([[1.0, 2.0]]), unknown([[1.5]])), (sample("float32", (0, 3)), sample("float32", (0, 2))), (sample("float32", (2, 0)), sample("float32", (2, 1))), (np.array([[1.0]]), np.zeros((1, 0))))),
    *(case(op, a, b, bad=True) for op in ("LowerBound", "UpperBound") for a, b in ((np.array([1.0]), np.array([[1.0]])), (np.array([[1.0]]), np.array([[1.0], [2.0]])), (unknown([1.0]), unknown([[1.0]])))),
    *(case("UnravelIndex", const(i, name), const(d, name)) for name in ("int32", "int64") for i, d in (([5, 2], [2, 3]), (5, [2, 3]), ([7], [8]), ([[1]][0], [1, 1, 2]))),
    case("UnravelIndex", [5, 2], [2, 3]), case("UnravelIndex", unknown([5]), unknown([2, 3])), *(case("UnravelIndex", i, [2, 3], bad=True) for i in ([6], 7, NONE)),
]  # fmt: skip

PLACES = sample("int32", (6,), 3, 0, 4)
COUNTS = [
    *(case("Unique", sample(name, (8,), whole=True)) for name in SOME), case("Unique", const(PLACES), attrs={"out_idx": "int64"}), case("Unique", NONE), case("Unique", unknown(PLACES)), case("Unique", [[1, 2]], bad=True), case("Unique", unknown([[1, 2]]), bad=True),
    *(case("UniqueWithCounts", sample(name, (8,), whole=True)) for name in SOME if not name.startswith(("complex", "bool"))), case("UniqueWithCounts", PLACES, attrs={"out_idx": "int64"}), case("UniqueWithCounts", NONE), case("UniqueWithCounts", unknown(PLACES)), case("UniqueWithCounts", [[1, 2]], bad=True),
    *(case(op, sample(name, (4, 3), whole=True, high=0), const([axis], "int64")) for op in ("UniqueV2", "UniqueWithCountsV2") for name in ("float32", "float64", "int32", "int64", "string", "bool") for axis in (0, 1)),
    *(case(op, x, const(axis, "int64")) for op in ("UniqueV2", "UniqueWithCountsV2") for x, axis in ((PLACES, NONE), (PLACES, [0]), (sample("int32", (2, 2, 2), high=0), [-1]), (np.zeros((0, 2), np.int32), [0]))),
    *(case(op, unknown(PLACES), np.array([0])) for op in ("UniqueV2", "UniqueWithCountsV2")),
    *(case(op, sample("int32", (2, 3)), const(axis, "int64"), bad=True) for op in ("UniqueV2", "UniqueWithCountsV2") for axis in (NONE, [2], 0)),
    *(case("ListDiff", sample(name, (8,), 1, whole=True), sample(name, (4,), 2, whole=True)) for name in SOME if not name.startswith(("complex", "bool"))), case("ListDiff", [1, 2], NONE), case("ListDiff", NONE, [1]), case("ListDiff", unknown([1, 2]), [1]), case("ListDiff", [1, 2], [1], attrs={"out_idx": "int64"}), case("ListDiff", [[1]], [1], bad=True),
    *(case("Bincount", const(numbers), const(size), np.array(weights, kind)) for kind in ("float32", "float64", "int32", "int64") for numbers, size, weights in (([1, 1, 3, 9], 5, []), ([[1, 1], [3, 9]], 5, [[1, 2], [3, 4]]), (NONE, 3, []))),
    case("Bincount", [1], 3, NONE.astype("float32")), case("Bincount", unknown([1]), unknown(3), unknown(NONE.astype("float32"))), *(case("Bincount", const(n), const(s), np.zeros(0, "float32"), bad=True) for n, s in (([-1], 3), ([1], -3))),
    *(case("DenseBincount", const(numbers), const(size), np.array(weights, kind), attrs={"binary_output": binary}) for kind in ("float32", "int64") for binary in (False, True) for numbers, size, weights in (([1, 1, 3, 9], 5, []), ([[1, 1], [3, 9]], 5, []), (NONE, 3, []))),
    *(case("DenseBincount", const(numbers, "int64"), const(size, "int64"), np.array(weights)) for numbers, size, weights in (([1, 1], 5, [0.5, 2.0]), ([[1, 1], [3, 9]], 5, [[1.0, 2], [3, 4]]))), case("DenseBincount", unknown([1]), unknown(3), unknown(NONE.astype("float32"))),
    *(case("DenseBincount", const(n), const(s), np.zeros(0, "float32"), bad=True) for n, s in (([-1], 3), ([1], -3), ([[[1]]], 3))),
    *(case("HistogramFixedWidth", sample(name, (7,), 1), const(np.array([-2, 2], name)), const(4), attrs={"dtype": out}) for name in ("float32", "float64", "int32", "int64") for out in ("int32", "int64")),
    *(case("HistogramFixedWidth", sample("float32", shape), const([0.0, 1.0]), const(3)) for shape in ((), (0,), (2, 3))), case("HistogramFixedWidth", Y, [0.0, 1.0], 3), case("HistogramFixedWidth", unknown(Y), const([0.0, 1.0]), const(3)),
    *(case("HistogramFixedWidth", Y, const(bounds), const(n), bad=True) for bounds, n in (([1.0, 1.0], 3), ([0.0, 1.0], 0), ([0.0, 1.0, 2.0], 3))),
    *(case("Bucketize", sample(name, shape, 1), attrs={"boundaries": [-1.0, 0.0, 2.0]}) for name in ("float32", "float64", "int32", "int64") for shape in ((), (5,), (0, 2))), case("Bucketize", unknown(Y), attrs={"boundaries": [0.0]}), case("Bucketize", Y, attrs={"boundaries": []}), case("Bucketize", Y, attrs={"boundaries": [1.0, 0.0]}, bad=True),
]  # fmt: skip


def sparse(places: list[list[int]], values: object, shape: list[int]) -> tuple[object, ...]:
    return (np.array(places, np.int64).reshape(-1, len(shape)), np.array(values), np.array(shape, np.int64))


A = sparse([[0, 0], [0, 1], [1, 0]], [1, 2, 3], [2, 2])
B = sparse([[0, 0], [0, 1], [1, 0]], [1, 3, 3], [2, 2])
DISTANCES = [
    *(
        case("EditDistance", *hypothesis, *truth, attrs={"normalize": normalize})
        for normalize in (True, False)
        for hypothesis, truth in (
            (A, B), (A, sparse([[1, 0]], [1], [2, 2])), (sparse([[1, 0]], [1], [2, 2]), A), (A, sparse([[2, 0], [2, 1]], [1, 1], [3, 3])),
            (sparse([], NONE, [2, 2]), sparse([], NONE, [2, 2])), (sparse([[0, 0, 0], [0, 0, 1]], [1, 2], [1, 2, 3]), sparse([[0, 0, 0]], [2], [1, 2, 3])),
        )
    ),
    *(case("EditDistance", *map(const, A), *map(const, B)) for _ in range(1)), case("EditDistance", *map(unknown, A), *map(unknown, B)),
    case("EditDistance", *A[:2], np.array([2, 2, 2]), *B, bad=True), case("EditDistance", A[0], A[1][:2], A[2], *B, bad=True),
    case("EditDistance", *sparse([[5, 0]], [1], [2, 2]), *B, bad=True),
]  # fmt: skip

D = sample("float32", (4, 2), 9)
SEGMENTS = [
    *(case(f"Segment{kind}", sample(name, (4, 2), 9), [0, 0, 2, 2]) for kind in ("Sum", "Mean", "Prod", "Min", "Max") for name in plain_dtypes(f"Segment{kind}")),
    *(case(f"Segment{kind}", sample("float32", shape), const(ids, "int64")) for kind in ("Sum", "Mean", "Prod", "Min", "Max") for shape, ids in (((3,), [0, 1, 1]), ((0, 2), NONE), ((3, 0), [0, 0, 0]), ((3, 2, 2), [1, 1, 3]))),
    *(case(f"Segment{kind}", unknown(D), unknown([0, 1, 1, 1])) for kind in ("Sum", "Mean", "Prod", "Min", "Max")),
    *(case(f"Segment{kind}", np.array([1.0, 0.0, 3.0, 0.0, 0.0, 3.0, 3.0]), [0, 0, 0, 1, 1, 2, 2]) for kind in ("Prod", "Min", "Max")),
    *(case(f"Segment{kind}", D, ids, bad=True) for kind in ("Sum", "Mean", "Prod", "Min", "Max") for ids in ([0, 1, 0, 1], [-1, 0, 0, 0], [0, 0, 0], [[0, 0, 1, 1]])),
    *(case(f"Segment{kind}", 1.0, [0], bad=True) for kind in ("Sum", "Mean", "Prod", "Min", "Max")),
    *(case(f"UnsortedSegment{kind}", sample(name, (4, 2), 9), [2, 0, -1, 2], const(4)) for kind in ("Sum", "Prod", "Min", "Max") for name in plain_dtypes(f"UnsortedSegment{kind}")),
    *(case(f"UnsortedSegment{kind}", sample("float32", shape), const(ids, "int64"), const(3)) for kind in ("Sum", "Prod", "Min", "Max") for shape, ids in (((3,), [0, 1, 1]), ((0, 2), NONE), ((3, 0), [0, 0, 0]), ((2, 2, 2), [[1, 1], [0, 2]]), ((2,), 1))),
    *(case(f"UnsortedSegment{kind}", unknown(D), unknown([0, 1, 1, 1]), const(2)) for kind in ("Sum", "Prod", "Min", "Max")), *(case(f"UnsortedSegment{kind}", D, [0, 1, 1, 1], 2) for kind in ("Sum", "Prod", "Min", "Max")),
    *(case(f"UnsortedSegment{kind}", np.array([1.0, 0.0, 3.0, 0.0, 0.0, 3.0, 3.0]), [0, 0, 0, 1, 1, 2, 2], const(3)) for kind in ("Prod", "Min", "Max")),
    *(case(f"UnsortedSegment{kind}", D, const(ids), const(n), bad=True) for kind in ("Sum", "Prod", "Min", "Max") for ids, n in (([0, 0, 2, 9], 4), ([0, 0, 2, 2], -4), ([0, 0, 2], 3))),
    *(
        case(f"SparseSegment{kind}", sample(name, (4, 2), 9), [0, 1, 3], [0, 0, 2])
        for kind in ("Sum", "Mean", "SqrtN")
        for name in plain_dtypes(f"SparseSegment{kind}")
    ),
    *(
        case(f"SparseSegment{kind}", sample("float32", shape, 4), const(indices), const(ids))
        for kind in ("Sum", "Mean", "SqrtN")
        for shape, indices, ids in (((4,), [1, 1, 0], [0, 1, 1]), ((0, 2), NONE, NONE), ((4, 0), [0], [0]), ((3, 2, 2), [2, 0], [0, 0]))
    ),
    *(case(f"SparseSegment{kind}", unknown(D), unknown([1, 0]), unknown([0, 1])) for kind in ("Sum", "Mean", "SqrtN")),
    *(
        case(f"SparseSegment{kind}", D, const(indices), const(ids), bad=True)
        for kind in ("Sum", "Mean", "SqrtN")
        for indices, ids in (([0, 9], [0, 0]), ([0, -1], [0, 0]), ([0, 1], [1, 0]), ([0, 1], [-1, 0]), ([0, 1], [0]))
    ),
    *(
        case(f"SparseSegment{kind}WithNumSegments", sample(name, (4, 2), 9), [0, 1, 3], [0, 0, 2], const(5))
        for kind in ("Sum", "Mean", "SqrtN")
        for name in plain_dtypes(f"SparseSegment{kind}")
    ),
    *(
        case(f"SparseSegment{kind}WithNumSegments", sample("float32", shape, 4), const(indices), const(ids), const(3))
        for kind in ("Sum", "Mean", "SqrtN")
        for shape, indices, ids in (((4,), [1, 1, 0], [0, 1, 1]), ((0, 2), NONE, NONE), ((4, 0), [0], [0]), ((3, 2, 2), [2, 0], [0, 2]))
    ),
    *(case(f"SparseSegment{kind}WithNumSegments", unknown(D), [1, 0], [0, 1], 3) for kind in ("Sum", "Mean", "SqrtN")),
    *(
        case(f"SparseSegment{kind}WithNumSegments", D, const(indices), const(ids), const(n), bad=True)
        for kind in ("Sum", "Mean", "SqrtN")
        for indices, ids, n in (([0, 9], [0, 0], 3), ([0, 1], [0, 3], 3), ([0, 1], [1, 0], 3), ([0, 1], [0, 0], -3))
    ),
    *(
        case(f"SparseSegment{kind}Grad", sample(name, (3, 2), 9), [0, 1, 3], [0, 0, 2], const(5), grad=False)
        for kind in ("Sum", "Mean", "SqrtN")
        for name in plain_dtypes(f"SparseSegment{kind}Grad")
    ),
    *(
        case(f"SparseSegment{kind}Grad", sample("float32", shape, 4), const(indices), const(ids), const(4), grad=False)
        for kind in ("Sum", "Mean", "SqrtN")
        for shape, indices, ids in (((3,), [1, 1, 0], [0, 1, 1]), ((3, 0), [0], [0]), ((3, 2, 2), [2, 0], [0, 2]))
    ),
    *(case(f"SparseSegment{kind}Grad", unknown(D), [1, 0], [0, 1], 3, grad=False) for kind in ("Sum", "Mean", "SqrtN")),
    *(
        case(f"SparseSegment{kind}Grad", D, const(indices), const(ids), const(n), bad=True)
        for kind in ("Sum", "Mean", "SqrtN")
        for indices, ids, n in (([0, 9], [0, 0], 3), ([0, 1], [0, 7], 3), ([0, 1], [0, 0], -3))
    ),
]  # fmt: skip

CASES: list[Case] = [*RESHAPES, *SLICES, *ROWS, *PADS, *MADE, *ARGUMENTS, *COUNTS, *DISTANCES, *SEGMENTS]
