"""More odd operands: negative or impossibly large sizes, other ranks, and operands without elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec import dtypes as dt
from tests.campaigns.operand_calls import Call, Leaf, Out
from tests.ops.image.cases_neighbourhoods import encoded
from tests.ops.odd_operands import (
    IMAGE,
    INVALID,
    ODD,
    REFUSED_WHEN_KNOWN,
    ints,
    longs,
    odd,
    one,
    texts,
    zeros,
)

__all__ = ["ACCEPTED_BY_ONEDNN", "ODD"]

# Empty operands

ACCEPTED_BY_ONEDNN: list[str] = []
"""Calls that TensorFlow's own kernels refuse; oneDNN's, which a build may have, take empty operands of any shape."""
_STRIDES: dict[str, Any] = {"strides": [1, 1, 1, 1], "padding": "SAME"}
for _kind in ("Conv2D", "DepthwiseConv2dNative"):
    for _sizes, _above in (
        ((1, 4, 4, 1), (1, 0, 4, 1)),
        ((1, 0, 4, 1), (1, 4, 4, 1)),
        ((0, 4, 4, 1), (2, 4, 4, 1)),
    ):
        ACCEPTED_BY_ONEDNN += (
            f"{_kind} by input {_sizes} of {_above}",
            f"{_kind} by filter of {_sizes} and {_above}",
        )
        odd(
            ACCEPTED_BY_ONEDNN[-2],
            f"{_kind}BackpropInput",
            [ints(*_sizes), zeros(3, 3, 1, 1), zeros(*_above)],
            INVALID,
            **_STRIDES,
        )
        odd(
            ACCEPTED_BY_ONEDNN[-1],
            f"{_kind}BackpropFilter",
            [zeros(*_sizes), ints(3, 3, 1, 1), zeros(*_above)],
            INVALID,
            **_STRIDES,
        )
ACCEPTED_BY_ONEDNN.append("Conv2D by input, a filter of no depth")
odd(
    ACCEPTED_BY_ONEDNN[-1],
    "Conv2DBackpropInput",
    [ints(2, 5, 6, 2), zeros(3, 2, 0, 1), zeros(2, 5, 6, 1)],
    INVALID,
    **_STRIDES,
)
for _kind in ("Conv2D", "DepthwiseConv2dNative"):
    ACCEPTED_BY_ONEDNN.append(f"{_kind} by input, a batch of -1")
    odd(
        ACCEPTED_BY_ONEDNN[-1],
        f"{_kind}BackpropInput",
        [ints(-1, 4, 4, 1), zeros(3, 3, 1, 1), zeros(2, 4, 4, 1)],
        INVALID,
        **_STRIDES,
    )
ACCEPTED_BY_ONEDNN.append("Conv2D by filter, an image of no depth")
odd(
    ACCEPTED_BY_ONEDNN[-1],
    "Conv2DBackpropFilter",
    [zeros(2, 4, 4, 0), ints(3, 3, 2, 2), zeros(2, 4, 4, 2)],
    INVALID,
    **_STRIDES,
)
odd("reshape to -1 and 0", "Reshape", [zeros(2, 3), ints(-1, 0)], INVALID)
odd("reshape nothing to -1 and 3", "Reshape", [zeros(0, 3), ints(-1, 3)], ((0, 3),))
odd("tile a scalar, multiples of rank 2", "Tile", [zeros(), np.zeros((0, 1), np.int32)], INVALID)
odd("tile a vector, multiples of rank 2", "Tile", [zeros(2), ints([1])], INVALID)
odd(
    "scatter nothing, a scalar of a shape",
    "ScatterNd",
    [np.zeros((2, 0), np.int32), zeros(2, 0), one(0)],
    INVALID,
)
odd("scatter nothing", "ScatterNd", [np.zeros((2, 0), np.int32), zeros(2, 0), ints(0)], ((0,),))
for _strength in (np.ones(1), np.ones((1,) * 9), np.ones(0)):
    odd(
        f"least squares, a regularizer of {_strength.shape}",
        "MatrixSolveLs",
        [np.ones((2, 4)), np.ones((2, 1)), _strength],
        INVALID,
    )
odd("a shape of rank 2 to broadcast", "BroadcastArgs", [np.zeros((0, 1), np.int32), ints(1, 1)], INVALID)
odd("shapes of 70 dimensions", "BroadcastArgs", [ints(), np.ones(70, np.int32)], ((70,),))
odd("shapes with a dimension of -5", "BroadcastArgs", [ints(-5), ints(1)], ((1,),))
odd("an empty dimension and another", "BroadcastArgs", [ints(0), ints(5)], INVALID)

# Impossible sizes

_MANY = 2**31 - 1
odd(
    "pad with a vector to what no memory holds",
    "PadV2",
    [zeros(2, 2), ints([0, _MANY], [0, _MANY]), zeros(1)],
    INVALID,
)
odd(
    "a slice's gradient in what no memory holds",
    "StridedSliceGrad",
    [ints(_MANY, _MANY), ints(0, 0), ints(1, 1), ints(1, 1), zeros(2, 2)],
    INVALID,
)

# Lengths, sizes and rates out of range

for _op_type, _length in (("RFFT2D", ints(3, -4)), ("RFFT3D", ints(-1, 4, 1)), ("RFFT", ints(-4))):
    odd(f"{_op_type} of lengths {_length.tolist()}", _op_type, [zeros(1, 4, 4, 4), _length], INVALID)
for _op_type in ("ResizeBicubic", "ResizeArea", "ResizeBilinear", "ResizeNearestNeighbor"):
    odd(f"{_op_type} to a height of -1", _op_type, [IMAGE, ints(-1, 4)], INVALID)
for _op_type in ("ResizeBicubicGrad", "ResizeBilinearGrad"):
    for _dims in ((0, 2, 1, 1), (2, 2, 1, 1), (1, 2, 1, 2)):
        _made = (_dims[0], 4, 4, _dims[3])
        odd(f"{_op_type} of {_dims} and one image", _op_type, [zeros(*_dims), IMAGE], (_made,))
for _rate, _expected in (
    (2.0**31, ((),)),
    (4294967040.0, ((),)),
    (2.0**32, INVALID),
    (np.inf, INVALID),
    (np.nan, INVALID),
    (-1.0, INVALID),
):
    odd(
        f"a sound at a rate of {_rate}",
        "AudioSummaryV2",
        [one(b"s", object), zeros(1, 2, 2), one(_rate, np.float32)],
        _expected,
    )
odd(
    "a sound of 2^16 channels",
    "AudioSummaryV2",
    [one(b"s", object), zeros(1, 2, 2**16), one(44100, np.float32)],
    INVALID,
)

# Operands of another rank

odd("fill, a shape of rank 0", "Fill", [one(0), zeros()], ((0,),))
REFUSED_WHEN_KNOWN.add("fill, a shape of rank 0")
odd("reshape, a shape of rank 2", "Reshape", [zeros(0), ints([0, 3])], INVALID)
odd("reshape, a shape of rank 0", "Reshape", [zeros(1), one(1)], ((1,),))
REFUSED_WHEN_KNOWN.add("reshape, a shape of rank 0")
odd("choose among no classes for no rows", "Multinomial", [zeros(0, 0), one(2)], INVALID)
_SPARSE = [longs([0, 1]), zeros(1), longs(2, 2)]
"""A sparse tensor of one element."""
_LIST = Out(Call("TensorListReserve", [Leaf(ints()), Leaf(one(2))], {"element_dtype": dt.float32}), 0)
_INDICES = [np.array(each, np.int64) for each in ([[0, 1, 1], [1, 0, 2]], [[7, 1], [2, 2]], [[9, 9], [9, 8]])]
odd("gradients of a sparse sum, indices of other ranks", "SparseAddGrad", [zeros(2), *_INDICES], INVALID)
odd(
    "a data set of slices of another shape",
    "TensorSliceDataset",
    [[zeros(2)]],
    INVALID,
    Toutput_types=(dt.float32,),
    output_shapes=((0, 5),),
)
for _kind, _count in (("AvgPoolGrad", 2), ("AvgPool3DGrad", 3)):
    _each = {"ksize": [1, *[2] * _count, 1], "strides": [1, *[2] * _count, 1], "padding": "VALID"}
    odd(
        f"{_kind}, sizes of rank 2",
        _kind,
        [ints([1, *[4] * _count, 2]), np.zeros((1, *[2] * _count, 2), np.float16)],
        INVALID,
        **_each,
    )
odd("a slice of a negative size", "SparseSlice", [*_SPARSE, longs(0, 1), longs(2, -1)], INVALID)
odd("a slice that begins outside", "SparseSlice", [*_SPARSE, longs(0, 9), longs(2, 1)], ((0, 2), (0,), (2,)))
for _axis in (0, 1):
    odd(
        f"a split along {_axis} of what is outside",
        "SparseSplit",
        [np.array(_axis, np.int64), longs([0, 5]), zeros(1), longs(2, 2)],
        INVALID,
        num_split=2,
    )
for _filling in (zeros(1), texts(b"a")):
    _name = f"fill with a vector of one {_filling.dtype}"
    odd(_name, "Fill", [ints(2, 3), _filling], ((2, 3),))
    REFUSED_WHEN_KNOWN.add(_name)
odd("fill with a vector of two", "Fill", [ints(2, 3), zeros(2)], INVALID)
for _dtype in (np.float32, np.int32):
    odd(
        f"a sparse quotient by zero, {_dtype.__name__}",
        "SparseDenseCwiseDiv",
        [_SPARSE[0], np.ones(1, _dtype), _SPARSE[2], np.zeros(2, _dtype)],
        INVALID,
    )
    odd(
        f"a sparse quotient by a zero that is not used, {_dtype.__name__}",
        "SparseDenseCwiseDiv",
        [_SPARSE[0], np.ones(1, _dtype), _SPARSE[2], np.array([0, 1], _dtype)],
        ((1,),),
    )
for _file in (texts(b"a"), np.full((1,) * 9, b"a", object)):
    odd(
        f"words of files of shape {_file.shape}",
        "GenerateVocabRemapping",
        [_file, _file],
        INVALID,
        new_vocab_offset=0,
        num_new_vocab=1,
    )
for _lengths in (longs(), longs(1, 2)):
    odd(
        f"a list of {len(_lengths)} scalars from a split",
        "TensorListSplit",
        [zeros(3 if _lengths.size else 0), ints(), _lengths],
        INVALID,
        shape_type=dt.int32,
    )
for _places in (one(0), ints([0])):
    odd(
        f"elements into a list at places of shape {_places.shape}",
        "TensorListScatterIntoExistingList",
        [_LIST, zeros(1), _places],
        INVALID,
        element_dtype=dt.float32,
    )
for _kind in ("MatrixDiagV2", "MatrixDiagV3"):
    for _place, _what in ((2, "rows"), (3, "columns"), (4, "padding")):
        _inputs = [zeros(2), one(0), one(-1), one(-1), zeros()]
        _inputs[_place] = _inputs[_place].reshape(1)
        odd(f"{_kind}, {_what} in a vector", _kind, _inputs, INVALID)
    _part = _kind.replace("Diag", "DiagPart")
    odd(f"{_part}, padding in a vector", _part, [zeros(2, 2), one(0), zeros(1)], ((2,),))
    REFUSED_WHEN_KNOWN.add(f"{_part}, padding in a vector")
    for _k, _dims, _size in (
        ([1], (0,), 1),
        ([-2], (0,), 2),
        ([0, 5], (6, 2), 2),
        ([-5, 0], (6, 2), 2),
        ([2, 3], (2, 0), 2),
        ([-3, 3], (7, 1), 1),
    ):
        odd(
            f"{_kind}, diagonals {_k} of {_dims}",
            _kind,
            [zeros(*_dims), ints(*_k), one(-1), one(-1), zeros()],
            ((_size, _size),),
        )
for _mode in ("SYMMETRIC", "REFLECT"):
    for _pairs, _made in (
        (ints([-1, 0], [1, 1]), INVALID),
        (ints([0, 0], [3, 2]), INVALID),
        (ints([0, 0], [3, 0]), INVALID),
        (ints([0, 0]), INVALID),
        (ints([0, 0], [1, 1], [0, 0]), INVALID),
        (ints([0], [0]), INVALID),
        (ints(0, 0), INVALID),
        (ints([0, 0], [1, 1]), ((1, 2),)),
    ):
        odd(
            f"gradient of a mirror, {_mode.lower()}, paddings {_pairs.tolist()}",
            "MirrorPadGrad",
            [zeros(1, 4), _pairs],
            _made,
            mode=_mode,
        )
odd("gradients of rows that are strings", "SparseFillEmptyRowsGrad", [longs(0), texts(b"a")], INVALID)
for _dtype, _sides in ((np.int32, (2**30, 2)), (np.int64, (2**61, 2**40))):
    odd(
        f"coordinates in more elements than {_dtype.__name__} counts",
        "UnravelIndex",
        [np.array([3, 2], _dtype), np.array(_sides, _dtype)],
        INVALID,
    )
odd("the most elements that int32 counts", "UnravelIndex", [ints(3), ints(2**31 - 1, 1)], ((2, 1),))
_JPEG = encoded(np.zeros((8, 8, 3), np.uint8), "JPEG")
odd("a JPEG by no transform", "DecodeJpeg", [_JPEG], INVALID, dct_method="a")
odd("a JPEG by the fast transform", "DecodeJpeg", [_JPEG], ((8, 8, 3),), dct_method="INTEGER_FAST")
for _corner in (np.nan, np.inf, -np.inf):
    _boxes = np.array([[0, 0, 1, _corner]], np.float32)
    odd(f"a crop to {_corner}", "CropAndResize", [IMAGE, _boxes, ints(0), ints(2, 2)], INVALID)
for _place, _what in ((3, "mean"), (4, "variance")):
    _inputs = [zeros(2, 3, 2, 3), *[zeros(3)] * 4]
    _inputs[_place] = zeros(3, 1)
    odd(f"a {_what} of rank 2 to normalize by", "FusedBatchNormV2", _inputs, INVALID, U=dt.float32)
odd("a vector of complex numbers as a condition", "ToBool", [np.zeros(1, np.complex64)], ((),))

# Windows along batch or channels, and larger than the padding

_POOLED = [IMAGE, IMAGE, np.zeros((1, 4, 4, 1), np.int64)]
for _kind in ("MaxPoolWithArgmax", "MaxPoolGradWithArgmax"):
    for _key, _value in (
        ("ksize", [2, 1, 1, 1]),
        ("ksize", [1, 2, 2, 2]),
        ("strides", [2, 1, 1, 1]),
        ("strides", [2, 1, 1, 2]),
    ):
        odd(
            f"{_kind}, {_key} {_value}",
            _kind,
            _POOLED if _kind.endswith("GradWithArgmax") else _POOLED[:1],
            "UnimplementedError",
            **{"ksize": [1, 1, 1, 1], "strides": [1, 1, 1, 1], "padding": "SAME", _key: _value},
        )
_WIDE = ints(1, 2**31 - 1, 2**21 + 1, 1)
_STEPS = ints(1, 1, 1, 1)
for _kind, _inputs in (
    ("MaxPoolV2", [IMAGE]),
    ("MaxPoolGradV2", [IMAGE] * 3),
    ("MaxPoolGradGradV2", [IMAGE] * 3),
):
    odd(f"{_kind}, windows of 2^52", _kind, [*_inputs, _WIDE, _STEPS], ((1, 4, 4, 1),), padding="SAME")
for _kind, _inputs in (
    ("MaxPool", [IMAGE]),
    ("MaxPoolGrad", [IMAGE] * 3),
    ("AvgPool", [IMAGE]),
    ("AvgPoolGrad", [ints(1, 4, 4, 1), IMAGE]),
):
    odd(
        f"{_kind}, windows of 2^52",
        _kind,
        _inputs,
        ((1, 4, 4, 1),),
        ksize=_WIDE.tolist(),
        strides=_STEPS.tolist(),
        padding="SAME",
    )
