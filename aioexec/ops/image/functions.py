"""Functions on images built from several ops: resize_images, conversion of dtypes and between colour spaces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant, convert_to_tensor, stands_for_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.static_values import constant_value
from aioexec.ops.common.elementwise import named, op_scope, snake_case
from aioexec.ops.image.shape_checks import checked, checked_grayscale, sizes_of
from aioexec.ops.linalg.tensordot import tensordot
from aioexec.ops.math.cast import cast, saturate_cast
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
        GraphValueError: the rank or the method is unknown.
    """
    with op_scope(name, "resize", images, size):
        batch, alone = _as_batch(convert_to_tensor(images))
        number: Any = NAMES.get(method) if isinstance(method, str) else method
        if number not in range(len(METHODS)):
            raise GraphValueError(f"Resize method is not implemented: {method!r}")
        wanted = convert_to_tensor(_within(batch, size) if preserve_aspect_ratio else size, dtypes.int32)
        known = constant_value(wanted)
        if known is not None and batch.dims is not None and batch.dims[1:3] == tuple(known):
            resized = batch
        else:
            resized = apply_op(METHODS[number], batch, wanted, align_corners=align_corners)
        return apply_op("Squeeze", resized, squeeze_dims=[0]) if alone else resized


def _within(batch: Tensor, size: Any) -> Any:
    """Return the largest size of the images' proportions that fits in `size`; a list if all sizes are static."""
    _, *own = sizes_of(batch, 4)
    static = size if isinstance(size, list | tuple) else (size[0], size[1])
    if not any(stands_for_tensor(each) for each in (*own[:2], *static)):
        least = min(np.float32(new) / np.float32(old) for new, old in zip(static, own, strict=False))
        return [int(np.rint(least * np.float32(old))) for old in own[:2]]
    floats = [cast(each, dtypes.float32) for each in own[:2]]
    wanted = [cast(each, dtypes.float32) for each in static]
    scale = apply_op("Minimum", wanted[0] / floats[0], wanted[1] / floats[1])
    return [cast(apply_op("Round", scale * each), dtypes.int32) for each in floats]


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
        given = checked_grayscale(convert_to_tensor(images))
        last = apply_op("ExpandDims", apply_op("Sub", apply_op("Rank", given), 1), 0)
        ones = apply_op("Fill", last, 1)
        tiled = apply_op("Tile", given, apply_op("ConcatV2", [ones, [3]], 0), name=scope)
        tiled.set_shape(None if given.dims is None else [*given.dims[:-1], 3])
        return tiled


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
            return _between_integers(given, wanted, saturate_cast if saturate else cast, scope)
        if source.is_integer:
            scale = constant(1.0 / source.max, wanted)
            return apply_op("Mul", apply_op("Cast", given, DstT=wanted), scale, name=scope)
        scaled = apply_op("Mul", given, constant(wanted.max + 0.5, source))
        return (saturate_cast if saturate else cast)(scaled, wanted, name=scope)


def _between_integers(given: Tensor, wanted: dtypes.DType, convert: Callable[..., Any], scope: str) -> Tensor:
    source = given.dtype.base_dtype
    if source.max > wanted.max:
        scale = (int(source.max) + 1) // (int(wanted.max) + 1)
        narrowed: Tensor = convert(apply_op("FloorDiv", given, constant(scale, source)), wanted, name=scope)
        return narrowed
    scale = (int(wanted.max) + 1) // (int(source.max) + 1)
    return apply_op("Mul", convert(given, wanted), constant(scale, wanted), name=scope)


def per_image_standardization(image: Any) -> Tensor:
    """Scale an image to mean 0 and variance 1, dividing by max(stddev, 1 / sqrt(number of elements))."""
    with op_scope(None, "per_image_standardization", image) as scope:
        values = cast(checked(convert_to_tensor(image)), dtypes.float32)
        shape = apply_op("StridedSlice", apply_op("Shape", values), [-3], [0], [1], end_mask=1)
        count = apply_op("Cast", apply_op("Prod", shape, 0), DstT=values.dtype.base_dtype)
        axes = [-1, -2, -3]
        mean = reduce_mean(values, axes, keepdims=True)
        distance = apply_op("Sub", values, mean)
        deviation = apply_op("Sqrt", reduce_mean(apply_op("Square", distance), axes, keepdims=True))
        least = apply_op("Rsqrt", count)
        return apply_op("Div", distance, apply_op("Maximum", deviation, least), name=scope)


def rgb_to_hsv(images: Any, name: str | None = None) -> Tensor:
    """Convert images from RGB to HSV, all in 0 … 1."""
    return apply_op("RGBToHSV", images, name=name)


def hsv_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """Convert images from HSV to RGB, all in 0 … 1."""
    return apply_op("HSVToRGB", images, name=name)


_YIQ = [
    [0.299, 0.59590059, 0.2115],
    [0.587, -0.27455667, -0.52273617],
    [0.114, -0.32134392, 0.31119955],
]
_FROM_YIQ = [[1.0, 1.0, 1.0], [0.95598634, -0.27201283, -1.10674021], [0.6208248, -0.64720424, 1.70423049]]
_YUV = [
    [0.299, -0.14714119, 0.61497538],
    [0.587, -0.28886916, -0.51496512],
    [0.114, 0.43601035, -0.10001026],
]
_FROM_YUV = [[1.0, 1.0, 1.0], [0.0, -0.394642334, 2.03206185], [1.13988303, -0.58062185, 0.0]]


def _linear_conversion(name: str, matrix: Sequence[Sequence[float]]) -> Callable[[Any], Tensor]:
    def convert(images: Any) -> Tensor:
        given = convert_to_tensor(images, name="images")
        return tensordot(given, constant(matrix, given.dtype.base_dtype, name="kernel"), [[-1], [0]])

    source, _, target = name.upper().split("_")
    doc = f"Convert images of floats, their last dimension {source} in 0 … 1, to {target}."
    return named(convert, name, doc)


rgb_to_yiq = _linear_conversion("rgb_to_yiq", _YIQ)
yiq_to_rgb = _linear_conversion("yiq_to_rgb", _FROM_YIQ)
rgb_to_yuv = _linear_conversion("rgb_to_yuv", _YUV)
yuv_to_rgb = _linear_conversion("yuv_to_rgb", _FROM_YUV)


class ResizingFunction(Protocol):
    """The function of one method of resizing that has centres of pixels at halves or at whole numbers."""

    def __call__(
        self,
        images: Any,
        size: Any,
        align_corners: bool = False,
        name: str | None = None,
        half_pixel_centers: bool = False,
    ) -> Tensor: ...


def _resizer(op_type: str) -> ResizingFunction:
    def resize(
        images: Any,
        size: Any,
        align_corners: bool = False,
        name: str | None = None,
        half_pixel_centers: bool = False,
    ) -> Tensor:
        flags = {"align_corners": align_corners, "half_pixel_centers": half_pixel_centers}
        return apply_op(op_type, images, size, name=name, **flags)

    doc = f"Resize images [batch, height, width, channels] to `size` (height, width) by {op_type}."
    return named(resize, snake_case(op_type), doc)


resize_bilinear, resize_nearest_neighbor, resize_bicubic = map(_resizer, METHODS[:3])


def resize_area(images: Any, size: Any, align_corners: bool = False, name: str | None = None) -> Tensor:
    """Resize images [batch, height, width, channels] to `size` (height, width) by the means of areas."""
    return apply_op("ResizeArea", images, size, name=name, align_corners=align_corners)


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
