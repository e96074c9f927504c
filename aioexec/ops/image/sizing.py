"""Crops of images and padding around them: at given places, around the centre, and to a given size."""

from __future__ import annotations

from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor, stands_for_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.static_values import constant_value
from aioexec.ops.array.joining import stack
from aioexec.ops.array.padding import pad
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.array.slicing import slice_
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.control_flow.dependencies import with_dependencies
from aioexec.ops.image.functions import ResizeMethod, resize_images
from aioexec.ops.image.shape_checks import as_batch, at_least_3d, checked, require, sizes_of, without_batch
from aioexec.ops.math.cast import cast
from aioexec.ops.math.comparison import equal, logical_or
from aioexec.ops.math.extremes import maximum, minimum


def _known(*sizes: Any) -> list[Any]:
    """Return sizes as static ones: None for a tensor."""
    return [None if stands_for_tensor(size) else size for size in sizes]


def _larger(x: Any, y: Any) -> Any:
    return maximum(x, y) if stands_for_tensor(x) or stands_for_tensor(y) else max(x, y)


def _smaller(x: Any, y: Any) -> Any:
    return minimum(x, y) if stands_for_tensor(x) or stands_for_tensor(y) else min(x, y)


def _equal(x: Any, y: Any) -> Any:
    return equal(x, y) if stands_for_tensor(x) or stands_for_tensor(y) else x == y


def pad_to_bounding_box(
    image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Tensor:
    """Add zeros around images, to `target_height` × `target_width` with the images at the offset.

    Raises:
        GraphValueError: the rank is neither 3 nor 4, or the images do not fit.
        InvalidArgumentError: (in a run) likewise, where sizes are not static.
    """
    with op_scope(None, "pad_to_bounding_box", image):
        images, was_added = as_batch(convert_to_tensor(image, name="image"))
        batch, height, width, depth = sizes_of(images, 4)
        right = target_width - offset_width - width
        below = target_height - offset_height - height
        checks = at_least_3d(images)
        for value, message in (
            (offset_height, "offset_height must be >= 0"),
            (offset_width, "offset_width must be >= 0"),
            (right, "width must be <= target - offset"),
            (below, "height must be <= target - offset"),
        ):
            checks += require(value >= 0, message)
        images = with_dependencies(checks, images)
        around = stack([0, 0, offset_height, below, offset_width, right, 0, 0])
        padded = pad(images, apply_op("Reshape", around, [4, 2]))
        padded.set_shape(_known(batch, target_height, target_width, depth))
        return without_batch(padded, was_added)


def crop_to_bounding_box(
    image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Tensor:
    """Cut `target_height` × `target_width` pixels at the offset out of images.

    Raises:
        GraphValueError: the rank is neither 3 nor 4, or the images are smaller.
        InvalidArgumentError: (in a run) likewise, where sizes are not static.
    """
    with op_scope(None, "crop_to_bounding_box", image):
        images, was_added = as_batch(convert_to_tensor(image, name="image"))
        checks = at_least_3d(images)
        batch, height, width, depth = sizes_of(images, 4)
        checks += require(offset_width >= 0, "offset_width must be >= 0.")
        checks += require(offset_height >= 0, "offset_height must be >= 0.")
        checks += require(target_width > 0, "target_width must be > 0.")
        checks += require(target_height > 0, "target_height must be > 0.")
        checks += require(width >= target_width + offset_width, "width must be >= target + offset.")
        checks += require(height >= target_height + offset_height, "height must be >= target + offset.")
        images = with_dependencies(checks, images)
        sizes = shape(images)
        cropped = slice_(
            images,
            stack([0, offset_height, offset_width, 0]),
            stack([sizes[0], target_height, target_width, sizes[3]]),
        )
        cropped.set_shape(_known(batch, target_height, target_width, depth))
        return without_batch(cropped, was_added)


def resize_image_with_crop_or_pad(image: Any, target_height: Any, target_width: Any) -> Tensor:
    """Cut images around their centre, or add zeros around them, to `target_height` × `target_width`.

    Raises:
        GraphValueError: the rank is neither 3 nor 4, or a size is not positive.
        InvalidArgumentError: (in a run) likewise, where sizes are not static.
    """
    with op_scope(None, "resize_image_with_crop_or_pad", image):
        images, was_added = as_batch(convert_to_tensor(image, name="image"))
        checks = at_least_3d(images)
        checks += require(target_width > 0, "target_width must be > 0.")
        checks += require(target_height > 0, "target_height must be > 0.")
        images = with_dependencies(checks, images)
        target_height, target_width = (
            with_dependencies(checks, size) if stands_for_tensor(size) else size
            for size in (target_height, target_width)
        )
        _, height, width, _ = sizes_of(images, 4)
        wider, higher = target_width - width, target_height - height
        cropped = crop_to_bounding_box(
            images,
            _larger(-higher // 2, 0),
            _larger(-wider // 2, 0),
            _smaller(target_height, height),
            _smaller(target_width, width),
        )
        resized = pad_to_bounding_box(
            cropped, _larger(higher // 2, 0), _larger(wider // 2, 0), target_height, target_width
        )
        _, new_height, new_width, _ = sizes_of(resized, 4)
        checks = require(_equal(new_height, target_height), "resized height is not correct.")
        checks += require(_equal(new_width, target_width), "resized width is not correct.")
        return without_batch(with_dependencies(checks, resized), was_added)


def central_crop(image: Any, central_fraction: Any) -> Tensor:
    """Cut the middle of images out: `central_fraction` of their height and width.

    Raises:
        GraphValueError: the rank is neither 3 nor 4, or the fraction is outside of (0, 1].
    """
    with op_scope(None, "central_crop", image):
        images = convert_to_tensor(image, name="image")
        fraction = (
            constant_value(central_fraction) if stands_for_tensor(central_fraction) else central_fraction
        )
        if fraction is None:
            message = "central_fraction must be within (0, 1]"
            images = with_dependencies(
                require(logical_or(central_fraction > 0.0, central_fraction <= 1.0), message), images
            )
        elif not 0.0 < fraction <= 1.0:
            raise GraphValueError("central_fraction must be within (0, 1]")
        elif fraction == 1.0:
            return images
        checked(images)
        if images.dims is None or len(images.dims) not in (3, 4):
            raise GraphValueError(
                f"`image` should either be a Tensor with rank = 3 or rank = 4. Had shape {images.shape}."
            )
        rows = len(images.dims) - 3
        starts, sizes = zip(
            *(_middle(images, axis, central_fraction, fraction) for axis in (rows, rows + 1)), strict=True
        )
        cropped = slice_(images, stack([0] * rows + [*starts, 0]), stack([-1] * rows + [*sizes, -1]))
        cropped.set_shape([*images.dims[:rows], *_known(*sizes), images.dims[-1]])
        return cropped


def _middle(images: Tensor, axis: int, fraction: Any, static: Any) -> tuple[Any, Any]:
    """Return the start and size of the middle part of an axis: ints if both are static, else tensors."""
    assert images.dims is not None
    size = images.dims[axis]
    if size is not None and static is not None:
        start = int((float(size) - float(size) * float(static)) / 2)
        return start, size - 2 * start
    whole = shape(images)[axis] if size is None else size
    length = cast(whole, dtypes.float64)
    start = cast((length - length * cast(fraction, dtypes.float64)) / 2, dtypes.int32)
    return start, whole - start * 2


def resize_image_with_pad(
    image: Any,
    target_height: Any,
    target_width: Any,
    method: Any = ResizeMethod.BILINEAR,
    align_corners: bool = False,
) -> Tensor:
    """Resize images to fit in `target_height` × `target_width` without distortion, and add zeros around them.

    Raises:
        GraphValueError: the rank is neither 3 nor 4, or a size is not positive.
        InvalidArgumentError: (in a run) likewise, where sizes are not static.
    """
    with op_scope(None, "resize_image_with_pad", image):
        images, was_added = as_batch(convert_to_tensor(image, name="image"))
        checks = at_least_3d(images)
        checks += require(target_width > 0, "target_width must be > 0.")
        checks += require(target_height > 0, "target_height must be > 0.")
        images = with_dependencies(checks, images)
        _, *own = sizes_of(images, 4)
        given = [cast(size, dtypes.float32) for size in own[:2]]
        wanted = [cast(size, dtypes.float32) for size in (target_height, target_width)]
        ratio = maximum(given[1] / wanted[1], given[0] / wanted[0])
        exact = [size / ratio for size in given]
        sizes = [cast(apply_op("Floor", size), dtypes.int32) for size in exact]
        above, left = (
            maximum(0, cast(apply_op("Floor", (whole - size) / 2), dtypes.int32))
            for whole, size in zip(wanted, exact, strict=True)
        )
        resized = resize_images(images, sizes, method, align_corners=align_corners)
        return without_batch(
            pad_to_bounding_box(resized, above, left, target_height, target_width), was_added
        )
