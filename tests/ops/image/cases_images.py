"""Cases of image ops: resizing and crops computed by hand, on small images."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from aioexec.errors import InvalidArgumentError, OutOfRangeError
from tests.ops.harness import Case, case

ROW = np.arange(4.0).reshape(1, 1, 4, 1)  # a ramp, which every way to interpolate keeps


def line(*values: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.array(values).reshape(1, 1, -1, 1)


def resizing() -> Iterator[Case]:
    size = [1, 8]
    nearest, linear = "ResizeNearestNeighbor", "ResizeBilinear"
    yield case(nearest, ROW, size, expected=line(0, 0, 1, 1, 2, 2, 3, 3), gradients=(0,))
    yield case(nearest, ROW, [1, 2], attrs={"align_corners": True}, expected=line(0, 3))
    yield case(nearest, ROW, [1, 2], attrs={"half_pixel_centers": True}, expected=line(1, 3))
    yield case(
        linear, ROW, size, expected=line(0, 0.5, 1, 1.5, 2, 2.5, 3, 3), gradients=(0,), dtypes=["float32"]
    )
    yield case(linear, ROW, [1, 7], attrs={"align_corners": True}, expected=line(0, 0.5, 1, 1.5, 2, 2.5, 3))
    yield case(
        linear,
        ROW,
        size,
        attrs={"half_pixel_centers": True},
        expected=line(0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3),
    )
    yield case(
        "ResizeBicubic", line(1, 1, 1, 1), size, expected=line(*[1] * 8), gradients=(0,), dtypes=["float32"]
    )
    yield case("ResizeBicubic", ROW, [1, 4], attrs={"half_pixel_centers": True}, expected=ROW)
    yield case("ResizeArea", ROW, [1, 2], expected=line(0.5, 2.5))
    yield case("ResizeArea", np.arange(16.0).reshape(1, 4, 4, 1), [1, 1], expected=np.full((1, 1, 1, 1), 7.5))
    yield case(f"{nearest}Grad", line(1, 2, 3, 4), [1, 2], expected=line(3, 7))
    yield case("ResizeBilinearGrad", line(1, 2, 3, 4), line(0, 0), expected=line(2, 8), dtypes=["float32"])
    yield case("ResizeBicubicGrad", line(1, 2), line(0, 0), expected=line(1, 2))
    yield case(nearest, ROW, [0, 3], raises=InvalidArgumentError)


def crops() -> Iterator[Case]:
    image = np.arange(9.0).reshape(1, 3, 3, 1)
    boxes, which = [[0.0, 0.0, 1.0, 1.0], [0.0, 0.5, 0.5, 1.0]], [0, 0]
    expected = np.array([[[0, 2], [6, 8]], [[1, 2], [4, 5]]], float)[..., None]
    yield case(
        "CropAndResize", image, boxes, which, [2, 2], expected=expected, gradients=(0,), dtypes=["float32"]
    )
    outside = [[0.0, 0.0, 0.0, 2.0]]
    row = np.array([[[[0], [2], [9]]]], float)
    yield case("CropAndResize", image, outside, [0], [1, 3], attrs={"extrapolation_value": 9.0}, expected=row)
    yield case("CropAndResize", image, boxes, [0, 1], [2, 2], raises=OutOfRangeError)
    back = np.zeros((1, 3, 3, 1))
    back[0, ::2, ::2, 0] = [[1, 2], [3, 4]]
    dy = np.array([[1.0, 2.0], [3.0, 4.0]]).reshape(1, 2, 2, 1)
    yield case(
        "CropAndResizeGradImage",
        dy,
        boxes[:1],
        [0],
        [1, 3, 3, 1],
        attrs={"T": "float32"},
        dtypes=["float32"],
        expected=back,
    )
    yield case(
        "CropAndResizeGradBoxes",
        dy,
        image,
        [[0.25, 0.25, 0.75, 0.75]],
        [0],
        expected=[[18.0, 8.0, 42.0, 12.0]],
        dtypes=["float32"],
    )


def distorted_boxes() -> Iterator[Case]:
    op, size = "SampleDistortedBoundingBox", [8, 6, 3]
    box, whole = [[[0.0, 0.0, 1.0, 1.0]]], ([0, 0, 0], [8, 6, -1], [[[0.0, 0.0, 1.0, 1.0]]])
    everything = {"min_object_covered": 1.0, "max_attempts": 1, "area_range": [0.1, 0.2], "seed": 1}
    yield case(op, size, box, attrs=everything, expected=whole, dtypes=["int32"])
    del everything["min_object_covered"]
    yield case(f"{op}V2", size, box, 1.0, attrs=everything, expected=whole, dtypes=["int32"])
    yield case(f"{op}V2", size, box, -1.0, raises=InvalidArgumentError)
    yield case(op, size, np.zeros((1, 0, 4)), raises=InvalidArgumentError)
    yield case(op, size, [[[0.0, 0.0, 2.0, 1.0]]], raises=InvalidArgumentError)


def glimpses() -> Iterator[Case]:
    image = np.arange(12.0).reshape(1, 3, 4, 1)
    pixels = {"centered": False, "normalized": False, "uniform_noise": False, "noise": "zero"}
    inner = image[:, 1:3, 1:3]
    outside = np.array([0, 0, 0, 11.0]).reshape(1, 2, 2, 1)[:, ::-1, ::-1]
    yield case("ExtractGlimpse", image, [2, 2], [[2.0, 2.0]], attrs=pixels, expected=inner)
    yield case("ExtractGlimpseV2", image, [2, 2], [[1.0, 1.0]], attrs=pixels, expected=inner)
    yield case("ExtractGlimpseV2", image, [2, 2], [[2.0, 3.0]], attrs=pixels, expected=outside)
    yield case("ExtractGlimpse", image, [3, 4], [[0.0, 0.0]], expected=image)
    yield case("ExtractGlimpse", image, [2, -2], [[0.0, 0.0]], raises=InvalidArgumentError)


CASES = [*resizing(), *crops(), *distorted_boxes(), *glimpses()]
