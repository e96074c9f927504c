"""Functions on images built from several ops: resize_images, greyscale, flips, dtype conversion, colour adjustment."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.reduction.reductions import reduce_mean, reduce_sum

METHODS = ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic", "ResizeArea")
"""The resize ops, in the order of TensorFlow's ResizeMethod numbers."""

NAMES = {"bilinear": 0, "nearest": 1, "bicubic": 2, "area": 3}
LUMINANCE = (0.2989, 0.587, 0.114)


class ResizeMethod:
    """The methods of resizing."""

    BILINEAR = 0
    NEAREST_NEIGHBOR = 1
    BICUBIC = 2
    AREA = 3


def _as_batch(images: Tensor) -> tuple[Tensor, bool]:
    """Return the images as a batch, and whether they were a single image."""
    if images.dims is None:
        raise GraphValueError("'images' contains no shape")
    if len(images.dims) not in (3, 4):
        raise GraphValueError("'images' must have either 3 or 4 dimensions")
    alone = len(images.dims) == 3
    return (apply_op("ExpandDims", images, 0) if alone else images), alone


def resize_images(
    images: Any,
    size: Any,
    method: Any = ResizeMethod.BILINEAR,
    align_corners: bool = False,
    preserve_aspect_ratio: bool = False,
    name: str | None = None,
) -> Tensor:
    """Resize images [batch, height, width, channels] or [height, width, channels] to `size` (height, width).

    Raises:
        GraphValueError: the rank is unknown, the method is unknown, or `preserve_aspect_ratio` is set for images of unknown
            size.
    """
    with op_scope(name, "resize", images, size):
        batch, alone = _as_batch(convert_to_tensor(images))
        number: Any = NAMES.get(method) if isinstance(method, str) else method
        if number not in range(len(METHODS)):
            raise GraphValueError(f"Resize method is not implemented: {method!r}")
        wanted = _within(batch, size) if preserve_aspect_ratio else size
        resized = apply_op(METHODS[number], batch, wanted, align_corners=align_corners)
        return apply_op("Squeeze", resized, squeeze_dims=[0]) if alone else resized


def _within(batch: Tensor, size: Any) -> list[int]:
    dims = batch.dims
    if dims is None or dims[1] is None or dims[2] is None:
        raise GraphValueError("preserve_aspect_ratio needs images of known height and width")
    height, width = (int(each) for each in size)
    scale = min(height / dims[1], width / dims[2])
    return [round(scale * dims[1]), round(scale * dims[2])]


def rgb_to_grayscale(images: Any, name: str | None = None) -> Tensor:
    """Convert images from RGB to one channel, the luminance."""
    with op_scope(name, "rgb_to_grayscale", images) as scope:
        given = convert_to_tensor(images)
        floats = convert_image_dtype(given, dtypes.float32)
        weights = constant(np.array(LUMINANCE, np.float32))
        gray = reduce_sum(apply_op("Mul", floats, weights), -1, keepdims=True)
        return convert_image_dtype(gray, given.dtype.base_dtype, name=scope)


def grayscale_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """Copy one channel to three."""
    with op_scope(name, "grayscale_to_rgb", images) as scope:
        given = convert_to_tensor(images)
        if given.dims is None:
            raise GraphValueError("grayscale_to_rgb: images of unknown rank")
        return apply_op("Tile", given, [1] * (len(given.dims) - 1) + [3], name=scope)


def convert_image_dtype(image: Any, dtype: Any, saturate: bool = False, name: str | None = None) -> Tensor:
    """Convert the dtype of an image, scaling so that the range of integers corresponds to 0 … 1 of floats."""
    wanted = dtypes.as_dtype(dtype)
    with op_scope(name, "convert_image", image) as scope:
        given = convert_to_tensor(image)
        source = given.dtype.base_dtype
        if source == wanted:
            return apply_op("Identity", given, name=scope)
        if source.is_floating and wanted.is_floating:
            return apply_op("Cast", given, DstT=wanted, name=scope)
        if source.is_integer and wanted.is_integer:
            return _between_integers(given, source, wanted, scope)
        if source.is_integer:
            scale = constant(1.0 / source.max, wanted)
            return apply_op("Mul", apply_op("Cast", given, DstT=wanted), scale, name=scope)
        scaled = apply_op("Mul", given, constant(wanted.max + 0.5, source))
        if saturate:
            scaled = apply_op("Minimum", apply_op("Maximum", scaled, float(wanted.min)), float(wanted.max))
        return apply_op("Cast", scaled, DstT=wanted, name=scope)


def _between_integers(given: Tensor, source: dtypes.DType, wanted: dtypes.DType, scope: str) -> Tensor:
    if source.max > wanted.max:
        scale = (int(source.max) + 1) // (int(wanted.max) + 1)
        less = apply_op("FloorDiv", given, constant(scale, source))
        return apply_op("Cast", less, DstT=wanted, name=scope)
    scale = (int(wanted.max) + 1) // (int(source.max) + 1)
    return apply_op("Mul", apply_op("Cast", given, DstT=wanted), constant(scale, wanted), name=scope)


def _flipped(image: Any, axis: int, name: str) -> Tensor:
    """Reverse along `axis`, counted from the end so that batches are allowed."""
    given = convert_to_tensor(image)
    if given.dims is None:
        raise GraphValueError(f"{name}: images of unknown rank")
    return apply_op("ReverseV2", given, [len(given.dims) + axis], name=name)


def flip_left_right(image: Any) -> Tensor:
    """Mirror an image, or a batch of images, horizontally."""
    return _flipped(image, -2, "flip_left_right")


def flip_up_down(image: Any) -> Tensor:
    """Mirror an image, or a batch of images, vertically."""
    return _flipped(image, -3, "flip_up_down")


def per_image_standardization(image: Any) -> Tensor:
    """Scale an image to mean 0 and variance 1, dividing by max(stddev, 1 / sqrt(number of elements))."""
    with op_scope(None, "per_image_standardization", image) as scope:
        values = convert_to_tensor(image)
        values = values if values.dtype.is_floating else apply_op("Cast", values, DstT=dtypes.float32)
        shape = apply_op("StridedSlice", apply_op("Shape", values), [-3], [0], [1], end_mask=1)
        count = apply_op("Cast", apply_op("Prod", shape, 0), DstT=values.dtype.base_dtype)
        axes = [-1, -2, -3]
        mean = reduce_mean(values, axes, keepdims=True)
        distance = apply_op("Sub", values, mean)
        deviation = apply_op("Sqrt", reduce_mean(apply_op("Square", distance), axes, keepdims=True))
        least = apply_op("Rsqrt", count)
        return apply_op("Div", distance, apply_op("Maximum", deviation, least), name=scope)


def adjust_brightness(image: Any, delta: Any) -> Tensor:
    """Add `delta`, on the scale 0 … 1, to all elements of an image."""
    with op_scope(None, "adjust_brightness", image, delta) as scope:
        given = convert_to_tensor(image)
        source = given.dtype.base_dtype
        floats = given if source.is_floating else convert_image_dtype(given, dtypes.float32)
        moved = apply_op("AddV2", floats, apply_op("Cast", delta, DstT=floats.dtype.base_dtype))
        return convert_image_dtype(moved, source, saturate=True, name=scope)


def _adjusted(op_type: str, image: Any, amount: Any, name: str | None) -> Tensor:
    """Apply an op on float32 images to images of any dtype."""
    with op_scope(name, op_type, image, amount) as scope:
        given = convert_to_tensor(image)
        source = given.dtype.base_dtype
        floats = (
            given if source.name in ("float16", "float32") else convert_image_dtype(given, dtypes.float32)
        )
        return convert_image_dtype(apply_op(op_type, floats, amount), source, saturate=True, name=scope)


def adjust_contrast(images: Any, contrast_factor: Any) -> Tensor:
    """Multiply the distance of each element from the mean of its channel by `contrast_factor`."""
    return _adjusted("AdjustContrastv2", images, contrast_factor, None)


def adjust_hue(image: Any, delta: Any, name: str | None = None) -> Tensor:
    """Add `delta`, on the scale 0 … 1, to the hue of images."""
    return _adjusted("AdjustHue", image, delta, name)


def adjust_saturation(image: Any, saturation_factor: Any, name: str | None = None) -> Tensor:
    """Multiply the saturation of images by `saturation_factor`."""
    return _adjusted("AdjustSaturation", image, saturation_factor, name)


def rgb_to_hsv(images: Any, name: str | None = None) -> Tensor:
    """Convert images from RGB to HSV, all in 0 … 1."""
    return apply_op("RGBToHSV", images, name=name)


def hsv_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """Convert images from HSV to RGB, all in 0 … 1."""
    return apply_op("HSVToRGB", images, name=name)


def _resizer(op_type: str) -> Any:
    def resize(
        images: Any,
        size: Any,
        align_corners: bool = False,
        name: str | None = None,
        half_pixel_centers: bool = False,
    ) -> Tensor:
        flags = {"align_corners": align_corners}
        if op_type != "ResizeArea":
            flags["half_pixel_centers"] = half_pixel_centers
        return apply_op(op_type, images, size, name=name, **flags)

    resize.__doc__ = f"Resize images [batch, height, width, channels] to `size` by {op_type}."
    return resize


resize_bilinear, resize_nearest_neighbor, resize_bicubic, resize_area = map(_resizer, METHODS)


def crop_and_resize(
    image: Any,
    boxes: Any,
    box_ind: Any = None,
    crop_size: Any = None,
    method: str = "bilinear",
    extrapolation_value: float = 0,
    name: str | None = None,
    box_indices: Any = None,
) -> Tensor:
    """Crop `boxes` (top, left, bottom, right in 0 … 1) from images and resize them to `crop_size`."""
    which = box_ind if box_indices is None else box_indices
    return apply_op(
        "CropAndResize",
        image,
        boxes,
        which,
        crop_size,
        name=name,
        method=method,
        extrapolation_value=float(extrapolation_value),
    )
