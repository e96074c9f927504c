"""Odd operands and attributes, with TensorFlow's result: the class of an error, or the shapes of the outputs.

`tests/ops/test_odd_operands.py` runs the calls on every tier, `tests/interop/test_odd_operands_interop.py` in TensorFlow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import dtypes as dt
from tests.campaigns.operand_calls import Call, Leaf, Out
from tests.interop.parity.table import dtype_of

INVALID, MISSING, INTERNAL = "InvalidArgumentError", "NotFoundError", "InternalError"
Expected = str | tuple[tuple[int, ...], ...]

ODD: dict[str, tuple[Call, Expected]] = {}
REFUSED_WHEN_KNOWN: set[str] = set()
"""Calls that run if the shapes are unknown when the graph is built, and are refused then if they are known."""


REFUSED_WHEN_CONSTANT = {"split, an axis of rank 1"}
"""Calls that run, and are refused when the graph is built if their operands are constants."""


def odd(name: str, op_type: str, inputs: Sequence[Any], expected: Expected, **attrs: Any) -> None:
    """Add a call; a list among the inputs is several operands of one entry of the signature."""

    def operand(value: Any) -> Leaf | Out:
        return value if isinstance(value, Out) else Leaf(np.asarray(value))

    arguments = [
        [operand(each) for each in value] if isinstance(value, list) else operand(value) for value in inputs
    ]
    assert name not in ODD, name
    ODD[name] = Call(op_type, arguments, attrs), expected


def zeros(*dims: int) -> Any:
    return np.zeros(dims, np.float32)


def ints(*values: Any) -> Any:
    return np.array(values, np.int32)


def longs(*values: Any) -> Any:
    return np.array(values, np.int64)


def texts(*values: bytes) -> Any:
    return np.array(values, object)


def one(value: Any, dtype: Any = np.int32) -> Any:
    """A scalar."""
    return np.array(value, dtype)


def variable(value: Any) -> Out:
    """The handle of a resource variable, whose value is read after the call."""
    return Out(Call("VarHandleOp", [], {"dtype": dtype_of(value), "shape": value.shape}, initial=value), 0)


IMAGE = zeros(1, 4, 4, 1)
LEAST, MOST = -(2**63), 2**63 - 1

# Attributes out of range

for _radius in (2**31 - 1, 2**31, MOST, -1, -(2**31) - 1):
    odd(f"LRN, radius {_radius}", "LRN", [zeros(1, 2, 2, 3)], INVALID, depth_radius=_radius)
    odd(f"LRNGrad, radius {_radius}", "LRNGrad", [zeros(1, 2, 2, 3)] * 3, INVALID, depth_radius=_radius)
odd("LRN, the largest radius", "LRN", [zeros(1, 2, 2, 3)], ((1, 2, 2, 3),), depth_radius=2**31 - 2)
odd(
    "max pool in vectors of channels",
    "MaxPoolV2",
    [zeros(1, 4, 4, 4), ints(1, 1, 1, 1), ints(1, 1, 1, 1)],
    INVALID,
    padding="VALID",
    data_format="NCHW_VECT_C",
)
for _wrong in ([2, 1, 1, 1], [1, 1, 1, 2]):
    _windows: dict[str, Any] = {"strides": [1, 1, 1, 1], "padding": "SAME", "dilations": _wrong}
    odd(
        f"depthwise, dilations {_wrong}",
        "DepthwiseConv2dNative",
        [IMAGE, zeros(2, 2, 1, 1)],
        INVALID,
        **_windows,
    )
    odd(
        f"depthwise by input, dilations {_wrong}",
        "DepthwiseConv2dNativeBackpropInput",
        [ints(1, 4, 4, 1), zeros(2, 2, 1, 1), IMAGE],
        ((1, 4, 4, 1),),
        **_windows,
    )
    odd(
        f"depthwise by filter, dilations {_wrong}",
        "DepthwiseConv2dNativeBackpropFilter",
        [IMAGE, ints(2, 2, 1, 1), IMAGE],
        ((2, 2, 1, 1),),
        **_windows,
    )
for _which in ("Input", "Filter"):
    for _key, _value in (("strides", [1, 0, 1, 1]), ("strides", [1, -1, 1, 1])):
        _windows = {"strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1], "padding": "SAME", _key: _value}
        odd(
            f"dilation by {_which}, {_key} {_value}",
            f"Dilation2DBackprop{_which}",
            [IMAGE, zeros(2, 2, 1), IMAGE],
            INVALID,
            **_windows,
        )
    for _key in ("strides", "rates"):
        _windows = {"strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1], "padding": "SAME", _key: [1, 2**31, 1, 1]}
        odd(
            f"dilation by {_which}, {_key} beyond 32 bits",
            f"Dilation2DBackprop{_which}",
            [IMAGE, zeros(2, 2, 1), IMAGE],
            INVALID,
            **_windows,
        )
odd("records of less than no bytes", "FixedLengthRecordReaderV2", [], INVALID, record_bytes=-1)

# Axes

odd("join, axes of rank 2", "ReduceJoin", [texts(b"a", b"b"), ints([0])], ((),))
odd("join, an axis twice in rank 2", "ReduceJoin", [texts(b"a", b"b"), ints([0, 0])], INVALID)
for _kind in ("Max", "Sum"):
    for _sparse in ("", "Sparse"):
        odd(
            f"SparseReduce{_kind}{_sparse}, axes of rank 2",
            f"SparseReduce{_kind}{_sparse}",
            [longs([0, 0], [0, 1]), zeros(2), longs(2, 2), ints([0])],
            INVALID,
        )
odd("split, sizes for two of one part", "SplitV", [zeros(3, 2), ints(1, 2), one(0)], INVALID, num_split=1)
odd("split, sizes of rank 2", "SplitV", [zeros(3, 2), ints([1, 2]), one(0)], INVALID, num_split=2)
odd("split, a scalar of sizes", "SplitV", [zeros(3, 2), one(3), one(0)], INVALID, num_split=1)
odd("split, one part of what is left", "SplitV", [zeros(3, 2), ints(-1), one(0)], INVALID, num_split=1)
odd("split, two axes", "SplitV", [zeros(3, 2), ints(1, 2), ints(0, 1)], INVALID, num_split=2)
odd("split, an axis of rank 1", "SplitV", [zeros(3, 2), ints(1, 2), ints(0)], ((1, 2), (2, 2)), num_split=2)
for _axes in ([0], [0, 0], [5], [-5], [[0]]):
    odd(f"reverse a scalar, axes {_axes}", "ReverseV2", [zeros(), ints(*_axes)], ((),))
    odd(f"reverse nothing, axes {_axes}", "ReverseV2", [zeros(0, 2), ints(*_axes)], ((0, 2),))
odd("reverse a scalar, a scalar axis", "ReverseV2", [zeros(), one(0)], ((),))
REFUSED_WHEN_KNOWN |= {
    f"reverse {_what}" for _what in ("a scalar, a scalar axis", "a scalar, axes [[0]]", "nothing, axes [[0]]")
}
odd("reverse, an axis of rank 2", "ReverseV2", [zeros(2, 2), ints([0])], INVALID)
odd("reverse, a scalar axis", "ReverseV2", [zeros(2, 2), one(0)], INVALID)
odd("reverse, an axis twice", "ReverseV2", [zeros(2, 2), ints(0, 0)], INVALID)
odd("reverse a scalar by a mask", "Reverse", [zeros(), np.array([True])], ((),))

# Shapes that do not fit

for _format in ("NHWC", "NCHW"):
    odd(f"bias of a vector, {_format}", "BiasAddGrad", [zeros(3)], INVALID, data_format=_format)
for _value in (zeros(1), zeros(2), zeros(1, 1)):
    odd(f"pad, {_value.shape} values", "PadV2", [zeros(2, 2), ints([1, 1], [0, 0]), _value], INVALID)
odd("pad nothing, a vector of values", "PadV2", [zeros(0, 2), ints([0, 0], [0, 0]), zeros(1)], INVALID)
for _logits, _labels in (((2, 3), ()), ((), (2, 3)), ((2, 3), (3,)), ((3,), (2, 3)), ((2, 3), (2, 1))):
    odd(
        f"cross entropy of {_logits} and {_labels}",
        "SoftmaxCrossEntropyWithLogits",
        [zeros(*_logits), zeros(*_labels)],
        ((2,), (2, 3)),
    )
for _logits, _labels in (((), ()), ((3,), (3,)), ((1, 2, 3), (2, 3)), ((2, 3), (2, 2))):
    odd(
        f"cross entropy of {_logits} and {_labels}",
        "SoftmaxCrossEntropyWithLogits",
        [zeros(*_logits), zeros(*_labels)],
        INVALID,
    )
_SLICED = zeros(1), longs([0, 0], [1, 1]), longs(0, 0), longs([5, 5])
odd("sparse slice, a gradient of no value", "SparseSliceGrad", _SLICED, INTERNAL)
odd(
    "sparse slice, another order",
    "SparseSliceGrad",
    [zeros(2), longs([1, 1], [0, 0]), longs(0, 0), longs([1, 1], [0, 0])],
    ((2,),),
)
odd(
    "sparse slice, another rank",
    "SparseSliceGrad",
    [zeros(1), longs([0, 0]), longs(0, 0), longs([0])],
    INVALID,
)
odd(
    "sparse slice, more values than there were",
    "SparseSliceGrad",
    [zeros(1), longs().reshape(0, 2), longs(0, 0), longs([0, 0])],
    INVALID,
)
odd(
    "sparse slice, a start beyond",
    "SparseSliceGrad",
    [zeros(1), longs([0, 0]), longs(MOST, 0), longs([1, 0])],
    "InternalError",
)
odd("stitch, an index of 2^31 - 1", "DynamicStitch", [[ints(0, 2**31 - 1)], [zeros(2, 3)]], INVALID)
odd("stitch nothing at 2^31 - 1", "DynamicStitch", [[ints(0, 2**31 - 1)], [zeros(2, 0)]], INVALID)
odd(
    "stitch, empty rows of two sizes",
    "DynamicStitch",
    [[ints(), ints()], [zeros(0, 3), zeros(0, 4)]],
    INVALID,
)
odd(
    "Cholesky of a singular factor, its gradient",
    "CholeskyGrad",
    [zeros(2, 2), np.eye(2, dtype=np.float32)],
    ((2, 2),),
)
odd("diagonals of a wrong length", "MatrixSetDiagV3", [zeros(3, 3), zeros(2), one(0)], INVALID)
odd("a diagonal outside", "MatrixSetDiagV3", [zeros(3, 3), zeros(1), one(3)], INVALID)
odd("diagonals from high to low", "MatrixSetDiagV3", [zeros(3, 3), zeros(2, 3), ints(1, 0)], INVALID)
odd("incomplete beta of shapes that broadcast", "Betainc", [zeros(1, 1), zeros(2), zeros()], INVALID)
odd(
    "a box of nothing in no images",
    "CropAndResizeGradImage",
    [zeros(1, 2, 0, 1), zeros(1, 4), ints(0), ints(-1, 3, 3, 1)],
    INVALID,
    T=dt.float32,
)
odd("classes of logits of rank 3", "Multinomial", [zeros(1, 0, 2), ints()], INVALID)
odd("a number of classes of rank 1", "Multinomial", [zeros(1, 2), ints()], INVALID)
odd(
    "a summary of images of no rows",
    "ImageSummary",
    [one(b"t", object), np.zeros((0, 0, 2, 3), np.uint8)],
    INVALID,
)

# The order of checks

_NO_FILE = one(b"no such file", object)
odd(
    "restore, two names of a missing file",
    "RestoreSlice",
    [_NO_FILE, texts(b"a", b"b"), one(b"", object)],
    "NotFoundError",
    dt=dt.float32,
)
odd(
    "restore, no slice of a missing file",
    "RestoreSlice",
    [_NO_FILE, one(b"a", object), texts()],
    "NotFoundError",
    dt=dt.float32,
)
odd(
    "restore, an odd slice of a missing file",
    "RestoreSlice",
    [_NO_FILE, one(b"a", object), one(b"a b c", object)],
    "NotFoundError",
    dt=dt.float32,
)
odd(
    "restore, two files",
    "RestoreSlice",
    [texts(b"a", b"b"), one(b"a", object), one(b"", object)],
    INVALID,
    dt=dt.float32,
)

# Indices outside

for _policy, _expected in (
    ("", INVALID),
    ("DEFAULT", INVALID),
    ("ERROR", INVALID),
    ("IGNORE", ((2,),)),
    ("x", INVALID),
):
    odd(
        f"scatter, policy {_policy!r}",
        "ScatterNd",
        [ints([5]), zeros(1), ints(2)],
        _expected,
        bad_indices_policy=_policy,
    )
for _policy, _expected in (("", INVALID), ("ERROR", INVALID), ("IGNORE", ((1,),)), ("x", INVALID)):
    odd(
        f"gather, policy {_policy!r}",
        "GatherNd",
        [zeros(2), ints([5])],
        _expected,
        bad_indices_policy=_policy,
    )

# Sequences

for _start in (ints([0]), ints(0, 1), ints()):
    odd(f"range from {_start.shape}", "Range", [_start, one(5), one(1)], INVALID)
odd("range to 2^63 - 1", "Range", [one(MOST - 2, np.int64), one(MOST, np.int64), one(1, np.int64)], ((2,),))
odd(
    "range of 2^63 - 1 numbers",
    "Range",
    [one(0, np.int64), one(MOST, np.int64), one(1, np.int64)],
    "ResourceExhaustedError",
)
odd("range of 2^63 numbers", "Range", [one(0, np.int64), one(LEAST, np.int64), one(-1, np.int64)], INVALID)
odd(
    "range of 2^64 - 1 numbers",
    "Range",
    [one(LEAST, np.int64), one(MOST, np.int64), one(1, np.int64)],
    INVALID,
)

# Pairs of operands

for _type in (np.float32, np.float64, np.int32, dt.bfloat16.numpy):
    for _x, _y in (((2, 3), (2, 3, 4)), ((2, 1, 3), (1, 3, 4)), ((1, 2, 3), (3, 4))):
        odd(
            f"products of matrices {_x} and {_y}, {np.dtype(_type).name}",
            "BatchMatMul",
            [zeros(*_x).astype(_type), zeros(*_y).astype(_type)],
            INVALID,
        )
for _kind in ("Maximum", "Minimum"):
    _inside, _outside = (
        [longs([0, 1]), zeros(1), longs(3, 3)],
        [longs([0, 5]), zeros(1), longs(3, 3)],
    )
    odd(f"SparseSparse{_kind}, the first outside", f"SparseSparse{_kind}", [*_outside, *_inside], INVALID)
    odd(f"SparseSparse{_kind}, the second outside", f"SparseSparse{_kind}", [*_inside, *_outside], INVALID)
for _kind in ("Add", "Sub", "Mul", "Div", "Min", "Max", "Update"):
    _inputs = [variable(zeros(3, 2)), longs(), zeros(0, 1)]
    odd(f"ResourceScatter{_kind} of nothing", f"ResourceScatter{_kind}", _inputs, ((3, 2),))
    REFUSED_WHEN_KNOWN.add(f"ResourceScatter{_kind} of nothing")
    _inputs = [variable(zeros(3, 2)), longs(), longs()]
    odd(
        f"ResourceScatter{_kind} of nothing, another rank",
        f"ResourceScatter{_kind}",
        [variable(zeros(3, 2)), longs([]), zeros(0, 1)],
        INVALID,
    )
    odd(f"ResourceScatter{_kind} of nothing, another dtype", f"ResourceScatter{_kind}", _inputs, INVALID)
for _kind in ("Transpose", "ConjugateTranspose"):
    for _x, _perm in (
        (zeros(2, 3), ints([0, 1])),
        (zeros(), np.zeros((1, 0), np.int32)),
        (zeros(3), one(0)),
        (zeros(), one(0)),
    ):
        odd(f"{_kind} {_x.shape}, an order of shape {_perm.shape}", _kind, [_x, _perm], INVALID)
for _kind, _wide in (("RFFT", np.float64), ("IRFFT", np.complex128)):
    _attrs = {"Tcomplex": dt.complex64, "Treal": dt.float64 if _kind == "RFFT" else dt.float32}
    if _kind == "IRFFT":
        _attrs["Tcomplex"] = dt.complex128
    odd(f"{_kind} of numbers of another width", _kind, [np.zeros((2, 3), _wide), ints(3)], INVALID, **_attrs)
    odd(f"{_kind} of nothing of another width", _kind, [np.zeros((0, 3), _wide), ints(3)], INVALID, **_attrs)

# Files and images

odd("read a file, a matrix of names", "ReadFile", [texts([b"no such file"])], INVALID)
for _kind, _more in (("Restore", []), ("RestoreSlice", [texts(b"")])):
    odd(f"{_kind}, no name", _kind, [_NO_FILE, texts(), *_more], INVALID, dt=dt.float32)
for _dims, _expected in (
    ((3, 4, 1, 3), ((3,),)),
    ((2, 1, 2, 2, 4), ((2, 1),)),
    ((0, 4, 1, 3), ((0,),)),
    ((0, 4, 1, 5), INVALID),
    ((1, 2), INVALID),
):
    odd(f"PNG files of {_dims}", "EncodePng", [np.zeros(_dims, np.uint8)], _expected)

# Axes, shapes and windows that are of another rank

for _kind, _first in (("ConcatV2", 1), ("Concat", 0)):
    for _axis, _expected in ((ints(0), ((4, 3),)), (ints([0]), INVALID), (ints(), INVALID)):
        _operands = [[zeros(2, 3), zeros(2, 3)], _axis][:: 1 if _first else -1]
        odd(f"{_kind}, an axis of shape {_axis.shape}", _kind, _operands, _expected)
        REFUSED_WHEN_KNOWN.add(f"{_kind}, an axis of shape {_axis.shape}")
REFUSED_WHEN_KNOWN.add("join, axes of rank 2")
for _shape in (one(2), ints([2])):
    odd(
        f"uninitialized values, a shape of shape {_shape.shape}", "Empty", [_shape], INVALID, dtype=dt.float32
    )
for _kind in ("BroadcastArgs", "BroadcastGradientArgs"):
    odd(f"{_kind} of a matrix", _kind, [ints(), np.zeros((0, 4), np.int32)], INVALID)
    odd(f"{_kind} of a scalar", _kind, [ints(2), one(3)], INVALID)
for _kind, _inputs in (
    ("MaxPoolGradWithArgmax", [IMAGE, zeros(1, 2, 2, 1)]),
    ("MaxPoolGradGradWithArgmax", [IMAGE, IMAGE]),
):
    for _strides in ([1, 2, 2, 1, 4], [1, 2, 0, 1], [1, -1, 2, 1]):
        odd(
            f"{_kind}, strides {_strides}",
            _kind,
            [*_inputs, np.zeros((1, 2, 2, 1), np.int64)],
            INVALID,
            ksize=[1, 2, 2, 1],
            strides=_strides,
            padding="SAME",
        )

# Numbers out of range

for _least, _fast in ((-1, False), (np.nan, True), (-np.inf, True)):
    for _rows in (0, 3):
        odd(
            f"least squares of {_rows} rows, regularized by {_least}",
            "MatrixSolveLs",
            [np.zeros((_rows, 2)), np.zeros((_rows, 1)), np.float64(_least)],
            INVALID,
            fast=_fast,
        )
for _type, _into in ((np.complex64, dt.float64), (np.complex128, dt.float32)):
    odd(f"absolute values in {_into.name}", "ComplexAbs", [np.zeros(2, _type)], INVALID, Tout=_into)
odd("lines behind less than none", "TextLineReaderV2", [], INVALID, skip_header_lines=-2)
for _vectors in (True, False):
    for _number in (np.nan, np.inf):
        _matrix = np.eye(3)
        _matrix[1, 0] = _number
        odd(
            f"eigenvalues of {_number}, {_vectors}",
            "SelfAdjointEigV2",
            [_matrix],
            INVALID,
            compute_v=_vectors,
        )
odd("eigenvalues, nan above", "SelfAdjointEigV2", [np.array([[1, np.nan], [0, 1]])], ((2,), (2, 2)))
_ONE = longs([0, 0]), texts(b"a")
for _ours, _other in (((1, -5), (1, 3)), ((1, 2), (1, -3)), ((-1, 5), (1, 3))):
    odd(
        f"distances, shapes {_ours} and {_other}",
        "EditDistance",
        [*_ONE, longs(*_ours), *_ONE, longs(*_other)],
        INVALID,
    )

# The same index twice

_TWICE = [longs([0, 1], [0, 1]), zeros(2), longs(3, 3)]
_ONCE = [longs([0, 1]), zeros(1), longs(3, 3)]
_ELSEWHERE = [longs([0, 2]), zeros(1), longs(3, 3)]
for _name, _pair, _count in (
    ("in the first", [*_TWICE, *_ONCE], 2),
    ("in the second", [*_ONCE, *_TWICE], 2),
    ("in both", [*_TWICE, *_TWICE], 2),
    ("and another", [*_TWICE, *_ELSEWHERE], 3),
):
    odd(f"sparse sum, twice {_name}", "SparseAdd", [*_pair, zeros()], ((_count, 2), (_count,), (2,)))
    for _kind in ("Maximum", "Minimum"):
        odd(f"SparseSparse{_kind}, twice {_name}", f"SparseSparse{_kind}", _pair, ((_count, 2), (_count,)))

# Scalars that are none, and what has another rank

for _inputs in ([zeros(1), zeros(), one(1)], [zeros(), zeros(1), one(1)], [zeros(), zeros(), ints(1)]):
    odd(f"numbers between {[each.shape for each in _inputs]}", "LinSpace", _inputs, INVALID)
odd(
    "join segments of a scalar",
    "UnsortedSegmentJoin",
    [one(b"a", object), ints(1, 0), one(2)],
    "OutOfRangeError",
)
odd("join segments of another length", "UnsortedSegmentJoin", [texts(b"a"), ints(1, 0), one(2)], INVALID)
for _default in (np.zeros((1, 1), np.int32), np.zeros((0, 1), np.int32)):
    odd(
        f"fields with a default of {_default.shape}",
        "DecodeCSV",
        [texts(b"1"), [_default]],
        INVALID,
        OUT_TYPE=[dt.int32],
    )
for _types, _shapes in (((dt.float32,), ((1,), (1,))), ((dt.float32, dt.float32), ((1,),))):
    odd(
        f"a data set of {len(_types)} components and {len(_shapes)} shapes",
        "TensorSliceDataset",
        [[zeros(1, 1)] * len(_types)],
        INVALID,
        Toutput_types=_types,
        output_shapes=_shapes,
    )
