"""Resizing of images and crops, and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.parity.sweeps import plain_dtypes, sample
from tests.interop.parity.table import Case, case, const, partly, unknown

IMAGE = sample("float32", (2, 4, 5, 3), 1)
FLAGS: tuple[dict[str, bool], ...] = ({}, {"align_corners": True}, {"half_pixel_centers": True})
SIZES = ([2, 3], [7, 9], [4, 5], [1, 1], [1, 8], [8, 2])
SINGLE: dict[str, Any] = {"tolerance": 1e7, "note": "computed in single precision"}
BOTH = {"align_corners": True, "half_pixel_centers": True}


def single(dtype: str) -> dict[str, Any]:
    return SINGLE if dtype == "float64" else {}


def resize(op_type: str) -> list[Case]:
    flags = FLAGS[:2] if op_type == "ResizeArea" else FLAGS
    some: dict[str, Any] = {} if op_type == "ResizeArea" else {"bad": True, "attrs": BOTH}
    return [
        *(case(op_type, IMAGE, const(size), attrs=dict(flag)) for size in SIZES for flag in flags),
        *(
            case(op_type, sample(name, (1, 3, 4, 2), 2, 0, 100), const([5, 3]), **single(name))
            for name in plain_dtypes(op_type)
        ),
        case(op_type, IMAGE[:0], const([2, 3])),
        case(op_type, unknown(IMAGE), [3, 3]),
        case(op_type, partly(IMAGE, [None, 4, None, 3]), const([3, 3])),
        case(op_type, IMAGE, const([0, 3]), bad=True),
        case(op_type, IMAGE, [2, -3], bad=True),
        case(op_type, IMAGE, [2, 3, 4], bad=True),
        case(op_type, IMAGE[0], [2, 3], bad=True),
        case(op_type, unknown(IMAGE[0]), unknown([2, 3]), bad=True),
        case(op_type, IMAGE[:, :0], const([2, 3]), bad=True),
        *([case(op_type, IMAGE, const([2, 3]), **some)] if some else []),
    ]


def gradient(op_type: str) -> list[Case]:
    """`grads` is of the size resized to; the second input is the image (or its size)."""
    sized = op_type == "ResizeNearestNeighborGrad"
    rows = []
    for height, width in SIZES:
        dy = sample("float32", (2, height, width, 3), 2)
        second = const([4, 5]) if sized else IMAGE
        rows += [case(op_type, dy, second, attrs=dict(flag)) for flag in FLAGS]
    dy = sample("float32", (1, 5, 3, 2), 3)
    for name in plain_dtypes(op_type):
        if sized:
            rows.append(case(op_type, sample(name, dy.shape, 3), const([3, 4])))
        else:
            rows.append(case(op_type, dy, sample(name, (1, 3, 4, 2), 4), **single(name)))
    if sized:
        return [
            *rows,
            case(op_type, dy, [3, 4]),
            case(op_type, dy, [0, 4], bad=True),
            case(op_type, dy[0], [3, 4], bad=True),
        ]
    return [
        *rows,
        case(op_type, unknown(dy), unknown(IMAGE[:1, ..., :2])),
        case(op_type, dy[0], IMAGE[0], bad=True),
    ]


BOXES = np.array(
    [[0.1, 0.2, 0.8, 0.9], [0.0, 0.0, 1.0, 1.0], [-0.3, 0.4, 1.3, 0.6], [0.9, 0.8, 0.1, 0.2]], np.float32
)
WHICH = [0, 1, 1, 0]


def crops() -> list[Case]:
    op = "CropAndResize"
    methods = ("bilinear", "nearest")
    rows = [
        case(op, IMAGE, BOXES, WHICH, const(size), attrs={"method": method, "extrapolation_value": fill})
        for size in ([3, 4], [1, 1], [6, 7])
        for method in methods
        for fill in (0.0, 1.5)
    ]
    rows += [
        case(op, sample(name, (2, 4, 5, 2), 3, 0, 50), BOXES, WHICH, const([3, 2]), **single(name))
        for name in plain_dtypes(op)
    ]
    rows += [
        case(op, unknown(IMAGE), unknown(BOXES), unknown(WHICH), [3, 3]),
        case(op, IMAGE, BOXES[:0], np.zeros(0, np.int32), const([2, 2])),
        case(op, IMAGE, BOXES, [0, 1, 2, 0], const([2, 2]), bad=True),
        case(op, IMAGE, BOXES, WHICH[:2], const([2, 2]), bad=True),
        case(op, IMAGE, BOXES[:, :3], WHICH, const([2, 2]), bad=True),
        case(op, IMAGE, BOXES, WHICH, [0, 2], bad=True),
        case(op, IMAGE[0], BOXES, WHICH, [2, 2], bad=True),
    ]
    shape = np.array(IMAGE.shape, np.int32)
    for size in ((3, 4), (1, 1), (6, 2)):
        dy = sample("float32", (4, *size, 3), 5)
        rows += [
            case(
                f"{op}GradImage",
                dy,
                BOXES,
                WHICH,
                const(shape),
                attrs={"T": name, "method": method},
                **single(name),
            )
            for name in plain_dtypes(f"{op}GradImage")
            for method in methods
        ]
        rows += [
            case(f"{op}GradBoxes", dy, sample(name, IMAGE.shape, 6, 0, 50), BOXES, WHICH)
            for name in plain_dtypes(f"{op}GradBoxes")
        ]
    dy = sample("float32", (4, 3, 4, 3), 5)
    attrs = {"T": "float32"}
    return [
        *rows,
        case(f"{op}GradImage", dy, BOXES, WHICH, shape, attrs=attrs),
        case(f"{op}GradImage", dy, BOXES, [0, 1, 5, 0], shape, attrs=attrs, bad=True),
        case(f"{op}GradImage", dy[:2], BOXES, WHICH, shape, attrs=attrs, bad=True),
        case(f"{op}GradBoxes", dy, IMAGE, BOXES, [0, 1, 5, 0], bad=True),
        case(f"{op}GradBoxes", dy[:2], IMAGE, BOXES, WHICH, bad=True),
    ]


CASES: list[Case] = [
    *(row for name in ("NearestNeighbor", "Bilinear", "Bicubic", "Area") for row in resize(f"Resize{name}")),
    *(row for name in ("NearestNeighbor", "Bilinear", "Bicubic") for row in gradient(f"Resize{name}Grad")),
    *crops(),
]
