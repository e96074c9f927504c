"""Changes of the brightness, contrast, hue, saturation, gamma and JPEG quality of images, given or at random."""

from __future__ import annotations

from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.control_flow.dependencies import with_dependencies
from aioexec.ops.image.functions import convert_image_dtype
from aioexec.ops.image.shape_checks import require
from aioexec.ops.math.cast import cast
from aioexec.ops.random.random_ops import random_uniform


def as_floats(image: Tensor) -> Tensor:
    """Return an image in float16 or float32; one of another dtype is converted to float32."""
    if image.dtype.base_dtype in (dtypes.float16, dtypes.float32):
        return image
    return convert_image_dtype(image, dtypes.float32)


def adjust_brightness(image: Any, delta: Any) -> Tensor:
    """Add `delta`, on the scale 0 … 1, to all elements of an image."""
    with op_scope(None, "adjust_brightness", image, delta) as scope:
        given = convert_to_tensor(image, name="image")
        floats = as_floats(given)
        moved = apply_op("AddV2", floats, cast(delta, floats.dtype.base_dtype), name=scope)
        return convert_image_dtype(moved, given.dtype.base_dtype, saturate=True)


def adjust_contrast(images: Any, contrast_factor: Any) -> Tensor:
    """Multiply the distance of each element from the mean of its channel by `contrast_factor`."""
    with op_scope(None, "adjust_contrast", images, contrast_factor) as scope:
        given = convert_to_tensor(images, name="images")
        adjusted = apply_op("AdjustContrastv2", as_floats(given), contrast_factor, name=scope)
        return convert_image_dtype(adjusted, given.dtype.base_dtype, saturate=True)


def _adjusted(op_type: str, default_name: str, image: Any, amount: Any, name: str | None) -> Tensor:
    with op_scope(name, default_name, image):
        given = convert_to_tensor(image, name="image")
        return convert_image_dtype(apply_op(op_type, as_floats(given), amount), given.dtype.base_dtype)


def adjust_hue(image: Any, delta: Any, name: str | None = None) -> Tensor:
    """Add `delta`, on the scale 0 … 1, to the hue of images."""
    return _adjusted("AdjustHue", "adjust_hue", image, delta, name)


def adjust_saturation(image: Any, saturation_factor: Any, name: str | None = None) -> Tensor:
    """Multiply the saturation of images by `saturation_factor`."""
    return _adjusted("AdjustSaturation", "adjust_saturation", image, saturation_factor, name)


def adjust_gamma(image: Any, gamma: Any = 1, gain: Any = 1) -> Tensor:
    """Return gain · image ** gamma, with images on the scale 0 … 1.

    Raises:
        GraphValueError: gamma is negative.
        InvalidArgumentError: (in a run) likewise, if gamma is a tensor.
    """
    with op_scope(None, "adjust_gamma", image, gamma, gain):
        given = convert_to_tensor(image, name="image")
        floats = as_floats(given)
        checks = require(gamma >= 0, "Gamma should be a non-negative real number.")
        exponent = with_dependencies(checks, gamma) if checks else gamma
        return convert_image_dtype(gain * floats**exponent, given.dtype.base_dtype, saturate=True)


def adjust_jpeg_quality(
    image: Any, jpeg_quality: Any, dct_method: str = "", name: str | None = None
) -> Tensor:
    """Encode an image [height, width, 1 or 3] as JPEG with `jpeg_quality`, 0 … 100, and decode it."""
    with op_scope(name, "adjust_jpeg_quality", image):
        given = convert_to_tensor(image, name="image")
        channels = None if given.dims is None else given.dims[-1]
        pixels = convert_image_dtype(given, dtypes.uint8, saturate=True)
        encoded = apply_op("EncodeJpegVariableQuality", pixels, jpeg_quality)
        decoded = apply_op("DecodeJpeg", encoded, channels=channels, dct_method=dct_method)
        return convert_image_dtype(decoded, given.dtype.base_dtype, saturate=True)


# At random


def _symmetric(max_delta: float, seed: int | None) -> Tensor:
    """Draw a number between -max_delta and max_delta.

    Raises:
        GraphValueError: max_delta is negative.
    """
    if max_delta < 0:
        raise GraphValueError("max_delta must be non-negative.")
    return random_uniform([], -max_delta, max_delta, seed=seed)


def _factor(lower: float, upper: float, seed: int | None) -> Tensor:
    """Draw a number between lower and upper.

    Raises:
        GraphValueError: the bounds are negative, or in the wrong order.
    """
    if upper <= lower:
        raise GraphValueError("upper must be > lower.")
    if lower < 0:
        raise GraphValueError("lower must be non-negative.")
    return random_uniform([], lower, upper, seed=seed)


def random_brightness(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """Add one random number in [-max_delta, max_delta) to all elements of images.

    Raises:
        GraphValueError: max_delta is negative.
    """
    return adjust_brightness(image, _symmetric(max_delta, seed))


def random_contrast(image: Any, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """Adjust the contrast of images by one random factor in [lower, upper).

    Raises:
        GraphValueError: the bounds are negative, or in the wrong order.
    """
    return adjust_contrast(image, _factor(lower, upper, seed))


def random_saturation(image: Any, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """Adjust the saturation of images by one random factor in [lower, upper).

    Raises:
        GraphValueError: the bounds are negative, or in the wrong order.
    """
    return adjust_saturation(image, _factor(lower, upper, seed))


def random_hue(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """Add one random number in [-max_delta, max_delta) to the hue of images.

    Raises:
        GraphValueError: max_delta is outside of [0, 0.5].
    """
    if max_delta > 0.5:
        raise GraphValueError("max_delta must be <= 0.5.")
    return adjust_hue(image, _symmetric(max_delta, seed))


def random_jpeg_quality(
    image: Any, min_jpeg_quality: int, max_jpeg_quality: int, seed: int | None = None
) -> Tensor:
    """Adjust the JPEG quality of an image to a random integer in [min_jpeg_quality, max_jpeg_quality).

    Raises:
        GraphValueError: the bounds are outside of 0 … 100, or in the wrong order.
    """
    if not (0 <= min_jpeg_quality <= 100 and 0 <= max_jpeg_quality <= 100):
        raise GraphValueError("jpeg encoding range must be between 0 and 100.")
    if min_jpeg_quality >= max_jpeg_quality:
        raise GraphValueError("`min_jpeg_quality` must be less than `max_jpeg_quality`.")
    quality = random_uniform([], min_jpeg_quality, max_jpeg_quality, dtype=dtypes.int32, seed=seed)
    return adjust_jpeg_quality(image, quality)
