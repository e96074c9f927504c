"""Cases of the ops that make, rearrange, join and cut tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError
from tests.ops.harness import Case, case

X = [[0.5, -1.25, 2.0], [-3.0, 0.75, 1.5]]
INTEGERS = [[7, 8, 6], [1, 2, 100]]
BITS = [[True, False, True], [False, False, True]]
CUBE = np.arange(24.0).reshape(2, 3, 4) / 4 - 2
EMPTY = np.zeros((0, 3))
KINDS = (X, INTEGERS, BITS, [["a", "b", "c"], ["d", "", "f"]], [[1 + 2j, 0j, -1j]] * 2)


def of_kinds(op_type: str, *rest: Any, expected: Any, kinds: Any = KINDS, **options: Any) -> list[Case]:
    """One case for floats, with its gradient, and one for each other kind of value."""
    gradients = options.pop("gradients", (0,))
    first, *others = kinds
    return [
        case(op_type, first, *rest, expected=expected, gradients=gradients, **options),
        *(case(op_type, value, *rest, expected=expected, **options) for value in others),
    ]


def texts(shape: Any, array: Any) -> Any:
    return np.full(shape, b"", object) if array.dtype == object else np.zeros(shape, array.dtype)


PASSING = [
    *of_kinds("Identity", expected=lambda x: x),
    *(c for name in ("Snapshot", "StopGradient") for c in of_kinds(name, expected=lambda x: x, gradients=())),
    *of_kinds("EnsureShape", attrs={"shape": None}, expected=lambda x: x),
    case("EnsureShape", X, attrs={"shape": (None, 3)}, expected=lambda x: x),
    case("PreventGradient", X, expected=lambda x: x),
    case("PreventGradient", INTEGERS, expected=lambda x: x),
    case("PreventGradient", BITS, expected=lambda x: x),
    case(
        "IdentityN", [X, INTEGERS], expected=(np.asarray(X, np.float32), np.asarray(INTEGERS)), gradients=(0,)
    ),
    case("PlaceholderWithDefault", X, attrs={"shape": (None, 3)}, expected=lambda x: x, gradients=(0,)),
    case("PlaceholderWithDefault", INTEGERS, attrs={"shape": (2, 3)}, expected=lambda x: x),
    case("PlaceholderWithDefault", BITS, attrs={"shape": None}, expected=lambda x: x),
    case("Placeholder", attrs={"dtype": "float32", "shape": (None, 2)}, raises=InvalidArgumentError),
]

SHAPES = [
    *(case("Shape", value, expected=lambda x: np.array(x.shape, np.int32)) for value in (*KINDS, 1.0, EMPTY)),
    case("Shape", X, attrs={"out_type": "int64"}, expected=np.array([2, 3])),
    case("ShapeN", [X, [X]], expected=(np.array([2, 3]), np.array([1, 2, 3]))),
    case("ShapeN", [1.0], attrs={"out_type": "int64"}, expected=np.zeros(0)),
    *(case("Size", value, expected=lambda x: x.size) for value in (X, 1.0, EMPTY)),
    case("Size", X, attrs={"out_type": "int64"}, expected=6),
    *(case("Rank", value, expected=lambda x: x.ndim) for value in (*KINDS, 1.0, CUBE)),
    case("BroadcastArgs", [2, 1, 3], [4, 1], expected=[2, 4, 3]),
    case("BroadcastArgs", [2], [3], raises=InvalidArgumentError),
    case("BroadcastArgs", np.zeros(0, np.int64), [3], expected=[3]),
    case("BroadcastGradientArgs", [2, 1, 3], [4, 1], expected=([1], [0, 2])),
    case("BroadcastGradientArgs", [2, 3], [2, 3], expected=(np.zeros(0), np.zeros(0))),
    case("BroadcastGradientArgs", [5, 3], np.zeros(0, np.int64), expected=(np.zeros(0), [0, 1])),
    case("BroadcastGradientArgs", [2, 3], [3, 2], raises=InvalidArgumentError),
    case("ConcatOffset", 1, [[2, 3], [2, 4], [2, 1]], expected=([0, 0], [0, 3], [0, 7])),
    case("ConcatOffset", -2, [[2, 3], [5, 3]], expected=([0, 0], [2, 0])),
    case("ConcatOffset", 1, [[2, 3], [3, 4]], raises=InvalidArgumentError),
    case("InvertPermutation", [2, 0, 3, 1], expected=[1, 3, 0, 2]),
    case("InvertPermutation", np.zeros(0, np.int64), expected=np.zeros(0)),
    case("InvertPermutation", [0, 0, 1], raises=InvalidArgumentError),
]

FILLING = [
    *(
        case("Fill", [2, 3], value, expected=lambda d, v: np.full((2, 3), v),
             gradients=(1,) if value == 1.5 else (), vary="T")
        for value in (1.5, 7, True)
    ),
    case("Fill", [2], "a", expected=np.array([b"a", b"a"], object), vary="T"),
    case("Fill", np.zeros(0, np.int64), 1.5, expected=1.5, vary="T"),
    case("Fill", [0, 3], 1.5, expected=EMPTY, vary="T"),
    case("Fill", [5], 2.5, expected=[2.5] * 5, vary="index_type", dtypes=("int64",)),
    case("Fill", [-1], 1.0, raises=InvalidArgumentError, vary="T", native=False),
    *of_kinds("ZerosLike", expected=lambda x: texts(x.shape, x), gradients=()),
    *of_kinds("OnesLike", expected=np.ones_like, gradients=(), kinds=(X, INTEGERS, BITS, [1j])),
    *(case(name, value, expected=f)
         for name, f in (("ZerosLike", np.zeros_like), ("OnesLike", np.ones_like)) for value in (1.5, EMPTY)),
    case("Range", 2, 11, 3, expected=[2, 5, 8]),
    case("Range", 5, -2, -3, expected=[5, 2, -1]),
    case("Range", 3, 3, 1, expected=np.zeros(0)),
    case("Range", 0.5, 2.0, 0.5, expected=[0.5, 1.0, 1.5]),
    case("Range", 0.0, 1.0, 0.1, expected=np.arange(10) * 0.1, dtypes=("float64", "float32")),
    case("Range", 1, 2, 0, raises=InvalidArgumentError, native=False),
    case("Range", 2, 1, 1, raises=InvalidArgumentError, native=False),
    case("LinSpace", 1.0, 2.0, 5, expected=[1.0, 1.25, 1.5, 1.75, 2.0]),
    case("LinSpace", 3.0, -1.0, 1, expected=[3.0]),
    case("LinSpace", 3.0, -1.0, 0, raises=InvalidArgumentError, native=False),
    case("OneHot", [0, 2, -1, 5], 3, 1.0, 0.0, expected=[[1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]],
         vary="T"),
    case("OneHot", [0, 2], 3, 7, 2, expected=[[7, 2, 2], [2, 2, 7]], vary="T"),
    case("OneHot", [1], 2, True, False, expected=[[False, True]], vary="T"),
    case("OneHot", [[0, 1], [2, 0]], 3, 1.0, 0.5, attrs={"axis": 1}, vary="T",
         expected=[[[1, 0.5], [0.5, 1], [0.5, 0.5]], [[0.5, 1], [0.5, 0.5], [1, 0.5]]]),
    case("OneHot", [0, 1], 3, 1.0, 0.0, attrs={"axis": 0}, vary="T", expected=[[1, 0], [0, 1], [0, 0]]),
    case("OneHot", 1, 3, 1.0, 0.0, vary="TI", expected=np.array([0, 1, 0])),
    case("OneHot", np.zeros(0, np.int64), 3, 1.0, 0.0, vary="TI", expected=EMPTY),
]  # fmt: skip

REARRANGING = [
    *of_kinds("Reshape", [3, 2], expected=lambda x, s: x.reshape(3, 2)),
    *of_kinds("Reshape", [-1, 2], expected=lambda x, s: x.reshape(3, 2)),
    case("Reshape", X, [6], expected=np.ravel(X), vary="Tshape", dtypes=("int64", "int32")),
    case("Reshape", 1.5, [1, 1], expected=[[1.5]]),
    case("Reshape", [1.5], np.zeros(0, np.int32), expected=1.5, gradients=(0,)),
    case("Reshape", EMPTY, [-1, 0], expected=np.zeros((3, 0))),
    case("Reshape", EMPTY, [0, 5], expected=np.zeros((0, 5))),
    case("Reshape", EMPTY, [3, -1], expected=np.zeros((3, 0))),
    *of_kinds("ExpandDims", 1, expected=lambda x, a: x[:, None]),
    case("ExpandDims", X, -1, expected=lambda x, a: x[..., None]),
    case("ExpandDims", 2.0, 0, expected=[2.0]),
    *of_kinds("Squeeze", expected=lambda x: x[0], kinds=[[kind] for kind in KINDS]),
    case("Squeeze", [[X]], attrs={"squeeze_dims": [0]}, expected=lambda x: x[0], gradients=(0,)),
    case("Squeeze", [[X]], attrs={"squeeze_dims": [-3]}, expected=lambda x: x[:, 0]),
    case("Squeeze", [[2.0]], expected=2.0),
    *of_kinds("Transpose", [1, 0], expected=lambda x, p: x.T),
    case("Transpose", CUBE, [2, 0, 1], expected=lambda x, p: x.transpose(2, 0, 1), gradients=(0,)),
    case("Transpose", CUBE, [0, 2, 1], expected=lambda x, p: x.transpose(0, 2, 1), gradients=(0,)),
    case("Transpose", CUBE, [0, 1, 2], expected=lambda x, p: x),
    case("Transpose", [X], [0, 2, 1], expected=lambda x, p: x.transpose(0, 2, 1)),
    case("Transpose", EMPTY, [1, 0], expected=EMPTY.T),
    case("Transpose", 1.0, np.zeros(0, np.int32), expected=1.0),
    case(
        "Transpose",
        np.arange(35 * 17.0).reshape(35, 17),
        [1, 0],
        expected=lambda x, p: x.T,
        dtypes=("float32", "float64"),
    ),
    case("ConjugateTranspose", [[1 + 2j, 3j]], [1, 0], expected=[[1 - 2j], [-3j]]),
    *(
        case(
            "ConjugateTranspose",
            kind,
            [1, 0],
            expected=lambda x, p: x.T,
            native=kind is X,
            gradients=(0,) if kind is X else (),
        )
        for kind in (X, INTEGERS, BITS)
    ),
    *of_kinds("Tile", [2, 3], expected=lambda x, m: np.tile(x, (2, 3))),
    case("Tile", CUBE, [1, 2, 1], expected=lambda x, m: np.tile(x, (1, 2, 1)), gradients=(0,)),
    case("Tile", X, [0, 2], expected=np.zeros((0, 6))),
    case("Tile", 1.5, np.zeros(0, np.int32), expected=1.5),
    case("Tile", EMPTY, [2, 2], expected=np.zeros((0, 6))),
    *of_kinds("BroadcastTo", [2, 2, 3], expected=lambda x, s: np.broadcast_to(x, (2, 2, 3))),
    case("BroadcastTo", [[1.0], [2.0]], [2, 3], expected=[[1.0] * 3, [2.0] * 3], gradients=(0,)),
    case("BroadcastTo", 2.0, [4], expected=[2.0] * 4, gradients=(0,)),
    case("BroadcastTo", X, [2, 3], expected=X),
    case("BroadcastTo", [1.0], [0, 3], expected=EMPTY),
    *of_kinds("ReverseV2", [1], expected=lambda x, a: x[:, ::-1]),
    case("ReverseV2", CUBE, [0, -1], expected=lambda x, a: x[::-1, :, ::-1], gradients=(0,)),
    case("ReverseV2", CUBE, np.zeros(0, np.int32), expected=lambda x, a: x),
    case("ReverseV2", EMPTY, [0], expected=EMPTY),
]

ORDERS = np.arange(12.0).reshape(3, 4)

JOINING = [
    case("ConcatV2", [X, X], 0, expected=lambda x, y, a: np.concatenate([x, y]), gradients=(0, 1)),
    case("ConcatV2", [X, [[1.0], [2.0]]], 1, expected=lambda x, y, a: np.concatenate([x, y], 1),
         gradients=(0, 1)),
    case("ConcatV2", [CUBE, CUBE[:, :1], CUBE[:, :0]], -2,
         expected=lambda x, y, z, a: np.concatenate([x, y], 1), gradients=(0, 1)),
    *(case("ConcatV2", [kind, kind], 1, expected=lambda x, y, a: np.concatenate([x, y], 1))
         for kind in KINDS[1:]),
    case("ConcatV2", [EMPTY, EMPTY], 0, expected=EMPTY),
    case("ConcatV2", [X, [[1.0]]], 0, raises=InvalidArgumentError, native=False),
    case("Concat", 1, [X, [[1.0], [2.0]]], expected=lambda a, x, y: np.concatenate([x, y], 1),
         gradients=(1, 2)),
    *(case("Concat", 0, [kind, kind], expected=lambda a, x, y: np.concatenate([x, y])) for kind in KINDS[1:]),
    case("Split", 0, CUBE, attrs={"num_split": 2}, expected=lambda a, x: tuple(np.split(x, 2)),
         gradients=(1,)),
    case("Split", -1, CUBE, attrs={"num_split": 2}, expected=lambda a, x: tuple(np.split(x, 2, -1)),
         gradients=(1,)),
    case("Split", 1, X, attrs={"num_split": 1}, expected=lambda a, x: x, gradients=(1,)),
    *(case("Split", 1, kind, attrs={"num_split": 3}, expected=lambda a, x: tuple(np.split(x, 3, 1)))
         for kind in KINDS[1:]),
    case("Split", 0, EMPTY, attrs={"num_split": 2}, expected=(EMPTY, EMPTY)),
    case("SplitV", CUBE, [1, 2], 1, attrs={"num_split": 2}, vary="T",
         expected=lambda x, s, a: (x[:, :1], x[:, 1:]), gradients=(0,)),
    case("SplitV", CUBE, [1, -1, 0], 2, attrs={"num_split": 3}, vary="T",
         expected=lambda x, s, a: (x[..., :1], x[..., 1:], x[..., :0])),
    case("SplitV", X, [1, 1], 0, attrs={"num_split": 2}, vary="Tlen", dtypes=("int32", "int64"),
         expected=([X[0]], [X[1]])),
    *(case("SplitV", k, [2, 1], 1, attrs={"num_split": 2}, vary="T",
         expected=lambda x, s, a: (x[:, :2], x[:, 2:])) for k in KINDS[1:]),
    case("SplitV", X, [1, 1], 1, attrs={"num_split": 2}, raises=InvalidArgumentError, native=False),
    case("Pack", [X, X], expected=lambda x, y: np.stack([x, y]), gradients=(0, 1)),
    case("Pack", [X, X], attrs={"axis": 1}, expected=lambda x, y: np.stack([x, y], 1), gradients=(0, 1)),
    case("Pack", [X, X], attrs={"axis": -1}, expected=lambda x, y: np.stack([x, y], -1), gradients=(0, 1)),
    case("Pack", [X], expected=lambda x: x[None]),
    case("Pack", [1.0, 2.0, 3.0], expected=[1.0, 2.0, 3.0]),
    *(case("Pack", [kind, kind], attrs={"axis": 1}, expected=lambda x, y: np.stack([x, y], 1))
         for kind in KINDS[1:]),
    case("Pack", [X, [1.0]], raises=InvalidArgumentError, native=False),
    case("Unpack", X, attrs={"num": 2}, expected=lambda x: (x[0], x[1]), gradients=(0,)),
    case("Unpack", X, attrs={"num": 3, "axis": -1}, expected=lambda x: tuple(x.T), gradients=(0,)),
    case("Unpack", [X], attrs={"num": 1}, expected=lambda x: x[0], gradients=(0,)),
    case("Unpack", [1.0, 2.0], attrs={"num": 2}, expected=(1.0, 2.0)),
    *(case("Unpack", kind, attrs={"num": 3, "axis": 1}, expected=lambda x: tuple(x.T)) for kind in KINDS[1:]),
]  # fmt: skip
JOINING = [
    c for c in JOINING if not (c.raises and c.op_type in ("ConcatV2", "Pack", "SplitV"))
]  # refused while building
CUBES = (CUBE, np.arange(24).reshape(2, 3, 4), np.arange(24).reshape(2, 3, 4) % 3 == 0)


def strided(
    key: Any, begin: Any, end: Any, strides: Any, values: Any = CUBES[:1], /, **masks: int
) -> list[Case]:
    """A strided slice and its adjoint; the bounds must mean the same to NumPy's `key`."""
    attrs = {f"{name}_mask": value for name, value in masks.items()}
    cases = [
        case(
            "StridedSlice",
            value,
            begin,
            end,
            strides,
            attrs=attrs,
            expected=lambda x, *_: x[key],
            gradients=(0,) if k == 0 else (),
        )
        for k, value in enumerate(values)
    ]

    def adjoint(shape: Any, *rest: Any) -> Any:
        result = np.zeros(tuple(shape), rest[-1].dtype)
        result[key] = rest[-1]
        return result

    for k, value in enumerate(values):
        part = np.asarray(value[key])
        gradients = (4,) if k == 0 else ()
        cases.append(
            case(
                "StridedSliceGrad",
                value.shape,
                begin,
                end,
                strides,
                part,
                attrs=attrs,
                vary="T",
                expected=adjoint,
                gradients=gradients,
            )
        )
    return cases


NEW = np.newaxis

SLICING = [
    *of_kinds("Slice", [0, 1], [2, 2], expected=lambda x, b, s: x[:, 1:]),
    case("Slice", CUBE, [1, 0, 2], [1, 3, -1], expected=lambda x, b, s: x[1:, :, 2:], gradients=(0,)),
    case("Slice", CUBE, [1, 0, 0], [1, 3, 4], expected=lambda x, b, s: x[1:]),
    case("Slice", X, [0, 3], [2, 0], expected=np.zeros((2, 0))),
    case("Slice", X, [0, 0], [2, -1], vary="Index", dtypes=("int64", "int32"), expected=X),
    *strided(np.s_[1:2, 0:3, 1:3], [1, 0, 1], [2, 3, 3], [1, 1, 1], CUBES),
    *strided(np.s_[:, ::-1, ::2], [0, 0, 0], [0, 0, 0], [1, -1, 2], CUBES, begin=7, end=7),
    *strided(np.s_[1], [1], [2], [1], CUBES, shrink_axis=1),
    *strided(np.s_[-1, :, 0], [-1, 0, 0], [0, 0, 1], [1, 1, 1], begin=2, end=2, shrink_axis=5),
    *strided(np.s_[..., 1], [0, 1], [0, 2], [1, 1], ellipsis=1, shrink_axis=2),
    *strided(np.s_[:, NEW, 0:2], [0, 0, 0], [0, 0, 2], [1, 1, 1], begin=1, end=1, new_axis=2),
    *strided(np.s_[NEW, ..., NEW], [0, 0, 0], [0, 0, 0], [1, 1, 1], new_axis=5, ellipsis=2),
    *strided(np.s_[0, 1, 2], [0, 1, 2], [1, 2, 3], [1, 1, 1], shrink_axis=7),
    *strided(np.s_[5:9], [5], [9], [1]),
    *strided(np.s_[-5:1], [-5], [1], [1]),
    *strided(np.s_[:, 2:0:-1], [0, 2], [0, 0], [1, -1], begin=1, end=1),
    *strided(np.s_[:, 2::-2], [0, 2], [0, 0], [1, -2], begin=1, end=3),
    *strided(np.s_[1:1], [1], [1], [1]),
    *strided(np.s_[...], np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int32)),
    case("StridedSlice", ["a", "b", "c"], [1], [3], [1], expected=np.array([b"b", b"c"], object)),
    case("StridedSlice", X, [0, 1], [2, 3], [1, 1], vary="Index", dtypes=("int16", "int32", "int64"),
         expected=lambda x, *_: x[:, 1:]),
    case("StridedSlice", [1.0, 2.0], [2], [3], [1],
         attrs={"shrink_axis_mask": 1}, raises=InvalidArgumentError, native=False),
    case("StridedSlice", [1.0, 2.0], [0], [2], [0], raises=InvalidArgumentError, native=False),
]  # fmt: skip

PADS = [[1, 0], [2, 1]]

PADDING = [
    *of_kinds("Pad", PADS,
         expected=lambda x, p: np.pad(x, PADS, constant_values=b"" if x.dtype == object else 0)),
    case("Pad", X, [[0, 0], [0, 0]], expected=X),
    case("Pad", EMPTY, [[1, 1], [0, 0]], expected=np.zeros((2, 3))),
    case("Pad", 1.5, np.zeros((0, 2), np.int32), expected=1.5),
    case("Pad", CUBE, [[0, 0], [1, 2], [0, 0]], expected=lambda x, p: np.pad(x, [(0, 0), (1, 2), (0, 0)]),
         gradients=(0,)),
    case("PadV2", X, PADS, 2.5, expected=lambda x, p, v: np.pad(x, PADS, constant_values=v), gradients=(0,)),
    case("PadV2", INTEGERS, PADS, 9, expected=lambda x, p, v: np.pad(x, PADS, constant_values=v)),
    case("PadV2", BITS, PADS, True, expected=lambda x, p, v: np.pad(x, PADS, constant_values=v)),
    *(
        case(name, kind, pads, attrs={"mode": mode.upper()}, expected=f,
             gradients=gradients if kind is X else ())
        for mode, pads in (("reflect", [[1, 0], [2, 1]]), ("symmetric", [[2, 1], [0, 3]]))
        for name, f, gradients in (("MirrorPad", lambda x, p, m=mode, q=pads: np.pad(x, q, mode=m), (0,)),)
        for kind in (X, INTEGERS, BITS)
    ),
    case("MirrorPad", X, [[2, 0], [0, 0]], attrs={"mode": "REFLECT"}, raises=InvalidArgumentError),
    case("MirrorPadGrad", [[1.0, 2.0, 3.0, 4.0]], [[0, 0], [1, 1]], attrs={"mode": "SYMMETRIC"},
         expected=[[3.0, 7.0]], gradients=(0,)),
    case("MirrorPadGrad", [1.0, 2.0, 3.0, 4.0], [[1, 1]], attrs={"mode": "REFLECT"},
         expected=[2.0 + 4.0, 3.0 + 1.0], gradients=(0,)),
]  # fmt: skip

PAIRS = [[0, 2], [1, 1], [0, 2]]

GATHERING = [
    *of_kinds("Gather", [1, 0, 1], expected=lambda x, i: x[i], vary="Tparams"),
    case("Gather", CUBE, [[1, 1], [0, 1]], expected=lambda x, i: x[i], gradients=(0,), vary="Tparams"),
    case("Gather", CUBE, 1, expected=lambda x, i: x[1], gradients=(0,), vary="Tparams"),
    case("Gather", X, np.zeros(0, np.int32), expected=EMPTY, vary="Tparams"),
    case("Gather", X, [0, 2], raises=InvalidArgumentError, vary="Tparams"),
    case("Gather", X, [-1], raises=InvalidArgumentError, vary="Tindices"),
    *of_kinds("GatherV2", [1, 0], 0, expected=lambda x, i, a: x[i], vary="Tparams"),
    case("GatherV2", CUBE, [3, 1], 2, expected=lambda x, i, a: x[:, :, i], gradients=(0,), vary="Tparams"),
    case("GatherV2", CUBE, [[2, 0], [1, 1]], -2, expected=lambda x, i, a: x[:, i], gradients=(0,),
         vary="Tparams"),
    case("GatherV2", X, [0, 1], 0, expected=X, vary="Tindices", dtypes=("int16", "int32", "int64")),
    case("GatherV2", CUBE, [[2], [0]], 1, attrs={"batch_dims": 1}, vary="Tparams",
         expected=lambda x, i, a: np.stack([x[0, [2]], x[1, [0]]])),
    case("GatherV2", [1.0, 2.0], [5], 0, raises=InvalidArgumentError, vary="Tparams"),
    *of_kinds("GatherNd", PAIRS, expected=lambda x, i: x[i[:, 0], i[:, 1]], vary="Tparams"),
    case("GatherNd", CUBE, [[1], [0], [1]], expected=lambda x, i: x[[1, 0, 1]], gradients=(0,),
         vary="Tparams"),
    case("GatherNd", CUBE, [[[1, 2]], [[0, 0]]], expected=lambda x, i: x[i[..., 0], i[..., 1]],
         gradients=(0,), vary="Tparams"),
    case("GatherNd", CUBE, [1, 2, 3], expected=CUBE[1, 2, 3], vary="Tparams"),
    case("GatherNd", X, [[0, 3]], raises=InvalidArgumentError, vary="Tparams"),
    case("GatherNd", X, 1, raises=InvalidArgumentError, vary="Tparams", native=False),
    case("ScatterNd", [[4], [1], [4]], [1.5, 2.0, 0.25], [6], vary="T", expected=[0, 2.0, 0, 0, 1.75, 0],
         gradients=(1,)),
    case("ScatterNd", [[0, 1], [1, 0]], [[1.0, 2.0], [3.0, 4.0]], [2, 2, 2], vary="T",
         expected=[[[0, 0], [1, 2]], [[3, 4], [0, 0]]], gradients=(1,)),
    case("ScatterNd", [[1]], [5], [3], vary="T", expected=[0, 5, 0]),
    case("ScatterNd", np.zeros((2, 0), np.int32), [[0, 1, 2], [3, 4, 5]], [3], vary="T", expected=[3, 5, 7]),
    case("ScatterNd", [[3]], [5], [3], vary="T", raises=InvalidArgumentError),
    case("UnsortedSegmentSum", [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [1, 0, 1], 3, vary="T",
         expected=[[3, 4], [6, 8], [0, 0]], gradients=(0,)),
    case("UnsortedSegmentSum", [1, 2, 3], [1, -1, 1], 2, vary="T", expected=[0, 4]),
    case("UnsortedSegmentSum", X, [[0, 1, 0], [2, 1, -1]], 3, vary="T",
         expected=[0.5 + 2.0, -1.25 + 0.75, -3.0], gradients=(0,)),
    case("UnsortedSegmentSum", EMPTY, np.zeros(0, np.int32), 2, vary="T", expected=np.zeros((2, 3))),
    case("UnsortedSegmentSum", [1.0], [2], 2, vary="T", raises=InvalidArgumentError),
    case("Where", BITS, expected=[[0, 0], [0, 2], [1, 2]]),
    case("Where", [0.0, 1.5, math.nan], expected=[[1], [2]]),
    case("Where", [0, 3, 0, -1][:2], expected=[[1]]),
    case("Where", True, raises=InvalidArgumentError),
    case("Where", [False, False], expected=np.zeros((0, 1))),
    case("DynamicPartition", [1.0, 2.0, 3.0], [1, 0, 1], attrs={"num_partitions": 2},
         expected=([2.0], [1.0, 3.0]), gradients=(0,)),
    case("DynamicPartition", X, [0, 0], attrs={"num_partitions": 2}, expected=(X, EMPTY), gradients=(0,)),
    case("DynamicPartition", ["a", "b"], [1, 0], attrs={"num_partitions": 2},
         expected=(np.array([b"b"], object), np.array([b"a"], object))),
    case("DynamicPartition", [1.0], [2], attrs={"num_partitions": 2}, raises=InvalidArgumentError),
    *(
        case(name, [[2, 0], [1]], [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]],
             expected=[[3, 4], [5, 6], [1, 2]], gradients=(2, 3))
        for name in ("DynamicStitch", "ParallelDynamicStitch")
    ),
    case("DynamicStitch", [0, [2, 1]], [7, [8, 9]], expected=[7, 9, 8]),
    case("DynamicStitch", [[0], [0]], [[1.0], [2.0]], expected=[2.0]),
]  # fmt: skip

CASES = [
    case("Const", attrs={"value": np.array([1.5, 2.0], np.float32), "dtype": "float32"}, expected=[1.5, 2.0]),
    *PASSING,
    *SHAPES,
    *FILLING,
    *REARRANGING,
    *JOINING,
    *SLICING,
    *PADDING,
    *GATHERING,
]
