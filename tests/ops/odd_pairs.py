"""Odd operands that do not fit each other, and sizes that are inferred for tensors without elements."""

from __future__ import annotations

import numpy as np

from aioexec import dtypes as dt
from tests.ops.odd_operands import (
    INVALID,
    MISSING,
    REFUSED_WHEN_KNOWN,
    ints,
    longs,
    odd,
    one,
    texts,
    variable,
    zeros,
)
from tests.ops.odd_sizes import ODD

__all__ = ["ODD"]

for _kind, _images in (("Image", []), ("Boxes", [zeros(1, 3, 3, 1)])):
    _sizes = [ints(1, 3, 3, 1)] if _kind == "Image" else []
    _typed = {"T": dt.float32} if _kind == "Image" else {}
    for _crop, _boxes in ((zeros(1, 0, 2, 1), 1), (zeros(0, 2, 0, 1), 0)):
        odd(
            f"{_kind} by {_boxes} crops of {_crop.shape}",
            f"CropAndResizeGrad{_kind}",
            [_crop, *_images, zeros(_boxes, 4), np.zeros(_boxes, np.int32), *_sizes],
            INVALID,
            **_typed,
        )
for _rank, _format, _sizes in (
    (4, "NDHWC", ((2, 3, 2, 3), *[(3,)] * 4, ())),
    (5, "NDHWC", ((2, 1, 3, 2, 3), *[(3,)] * 4, ())),
    (5, "NHWC", INVALID),
    (3, "NDHWC", INVALID),
):
    _image = zeros(*(2, 1, 3, 2, 3)[5 - _rank :]) if _rank != 4 else zeros(2, 3, 2, 3)
    odd(
        f"rank {_rank} to normalize as {_format}",
        "FusedBatchNormV3",
        [_image, *[zeros(3)] * 4],
        _sizes,
        U=dt.float32,
        data_format=_format,
    )
REFUSED_WHEN_KNOWN.add("rank 4 to normalize as NDHWC")
for _what, _lengths in (
    ("a matrix", [ints(1, 2), ints([1], [2])]),
    ("a matrix at first", [ints([1, 2])] * 2),
):
    odd(f"{_what} to join", "ConcatOffset", [one(0), _lengths], INVALID)
odd("a vector to join along", "ConcatOffset", [ints(0), [ints(1, 2), ints(1, 2)]], INVALID)
for _shape in (longs(-1), one(2, np.int64)):
    odd(
        f"random numbers of another algorithm, in shape {_shape.tolist()}",
        "StatefulUniform",
        [variable(np.ones(3, np.int64)), one(2, np.int64), _shape],
        INVALID,
        dtype=dt.float32,
    )
for _kind, _delta in (("RngSkip", longs(1)), ("RngReadAndSkip", np.ones(1, np.uint64))):
    _algorithm = one(2, np.int64 if _kind == "RngSkip" else np.int32)
    odd(f"{_kind} by a vector", _kind, [variable(np.ones(3, np.int64)), _algorithm, _delta], INVALID)
odd(
    "no words of a file that is not there",
    "GenerateVocabRemapping",
    [np.array(b"absent", object)] * 2,
    MISSING,
    new_vocab_offset=0,
    num_new_vocab=0,
)
_NOT_FINITE = np.array([[0, np.nan, 1, 1]], np.float32)
for _number, (_crop, _boxes, _expected) in enumerate(
    (
        (zeros(1, 2, 2, 1), _NOT_FINITE, "OutOfRangeError"),
        (zeros(1, 2, 2, 2), zeros(1, 4), INVALID),
        (zeros(2, 2, 2, 1), zeros(1, 4), INVALID),
    )
):
    odd(
        f"a box of no image, {_number}",
        "CropAndResizeGradBoxes",
        [_crop, zeros(1, 3, 3, 1), _boxes, ints(7)],
        _expected,
    )
    odd(
        f"a gradient by a box of no image, {_number}",
        "CropAndResizeGradImage",
        [_crop, _boxes, ints(7), ints(1, 3, 3, 1)],
        _expected,
        T=dt.float32,
    )
odd(
    "crops of a batch of -1 images",
    "CropAndResizeGradImage",
    [zeros(1, 2, 2, 1), zeros(1, 4), ints(0), ints(-1, 3, 3, 1)],
    INVALID,
    T=dt.float32,
)
odd(
    "a crop of no image to NaN",
    "CropAndResize",
    [zeros(1, 3, 3, 1), _NOT_FINITE, ints(7), ints(2, 2)],
    "OutOfRangeError",
)
for _dims, _wanted, _made in (
    ((0, 3), (-1, 0), (3, 0)),
    ((0, 3), (-1, 0, 2), (1, 0, 2)),
    ((3, 0), (0, -1, 0), (0, 3, 0)),
    ((0,), (0, -1), (0, 1)),
    ((0, 3), (-1, 2), (0, 2)),
):
    odd(f"{_dims} as {_wanted}", "Reshape", [zeros(*_dims), ints(*_wanted)], (_made,))
for _dims, _wanted in ((longs(0, 3), longs(-1)), (longs(3, 0), longs(0)), (longs(0, 0), longs(-1, 2))):
    _inputs = [np.zeros((1, 2), np.int64), _dims, _wanted]
    odd(f"a value in shape {_dims} reshaped to {_wanted}", "SparseReshape", _inputs, INVALID)
odd(
    "a queue that always keeps all it may have",
    "RandomShuffleQueueV2",
    [],
    INVALID,
    component_types=[dt.int64],
    min_after_dequeue=2**31 - 1,
)
for _columns, _boxes in ((0, 1), (2, 1), (2, 0)):
    for _rows in (0, 1):
        odd(
            f"{_boxes} boxes in {_rows} colours of {_columns} channels",
            "DrawBoundingBoxesV2",
            [zeros(1, 4, 5, 3), zeros(1, _boxes, 4), zeros(_rows, _columns)],
            INVALID,
        )
for _kind, _typed in (("RandomGamma", {}), ("RandomPoissonV2", {"dtype": dt.int32})):
    odd(f"one number of {_kind}", _kind, [np.zeros(0, np.int32), one(1.0, np.float32)], ((),), **_typed)
for _count, _most, _expected in (
    (5, 1, ((5, 0),)),
    (2, 1, INVALID),
    (0, 1, INVALID),
    (5, -1, INVALID),
    (1, -1, ((5, 0),)),
):
    odd(
        f"{_count} means of 5 rows without numbers, up to {_most}",
        "ParameterizedTruncatedNormal",
        [ints(5, 0), zeros(_count), *(one(each, np.float32) for each in (1, 0, _most))],
        _expected,
    )
_TWO_BOXES = [np.array([[0, 0, 1, 1], [0, 0, 0.5, 0.5]], np.float32), zeros(2), one(2)]
odd(
    "boxes suppressed by a deviation of NaN",
    "NonMaxSuppressionV5",
    [*_TWO_BOXES, *(one(each, np.float32) for each in (0.5, 0, np.nan))],
    INVALID,
)
for _number in (np.nan, np.inf):
    _matrix = np.array([[_number, 1], [2, 3], [4, 5]])
    odd(
        f"least squares of {_number}",
        "MatrixSolveLs",
        [_matrix, np.ones((3, 1)), one(0.0, np.float64)],
        ((2, 1),),
        fast=False,
    )
odd(
    "a sparse tensor split along a vector",
    "SparseSplit",
    [longs(0), longs([0, 1]), zeros(1), longs(3, 3)],
    INVALID,
    num_split=2,
)
odd("texts joined by one segment", "UnsortedSegmentJoin", [texts(b"a", b"b"), one(1), one(3)], INVALID)
for _kind in ("Restore", "RestoreSlice"):
    _names = [np.array(each, object) for each in (b"absent", b"a", b"")]
    odd(
        f"{_kind} of shard -2 first",
        _kind,
        _names[: 2 if _kind == "Restore" else 3],
        INVALID,
        dt=dt.float32,
        preferred_shard=-2,
    )
    odd(
        f"{_kind} of a file that is not there",
        _kind,
        _names[: 2 if _kind == "Restore" else 3],
        MISSING,
        dt=dt.float32,
    )
for _new, _expected in ((b"", INVALID), (b"absent", MISSING)):
    odd(
        f"words of a file of the name {_new!r}",
        "GenerateVocabRemapping",
        [np.array(_new, object), np.array(b"", object)],
        _expected,
        new_vocab_offset=0,
        num_new_vocab=1,
    )
for _kind in ("SerializeManySparse", "AddManySparseToTensorsMap"):
    odd(f"{_kind} of an index twice", _kind, [longs([0, 0], [0, 0]), zeros(2), longs(3, 4)], INVALID)
_NO_NUMBERS = np.zeros((0, 1), np.int32)
odd("a scalar sliced by matrices", "Slice", [one(1.0, np.float32), _NO_NUMBERS, _NO_NUMBERS], INVALID)
odd("a broadcast to a scalar for a shape", "BroadcastTo", [one(1.0, np.float32), one(0)], INVALID)
_SLICED = [one(3), ints(0), ints(2), ints(1), zeros(2)]
odd("the gradient of a slice of a scalar for a shape", "StridedSliceGrad", _SLICED, INVALID)
_LIMITS = [one(each, np.float32) for each in (1e-45, -1, 1)]
odd("a normal of almost no width", "ParameterizedTruncatedNormal", [ints(3), zeros(1), *_LIMITS], INVALID)
_SEQUENCE = longs([0, 0]), longs(1)
odd(
    "the distance of texts longer than counted",
    "EditDistance",
    [*_SEQUENCE, longs(2, 1), *_SEQUENCE, longs(2, 2**62)],
    INVALID,
)
