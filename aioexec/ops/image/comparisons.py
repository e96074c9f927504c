"""Comparisons of images (PSNR, SSIM), and the differences between neighbouring pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_list_op, apply_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.scopes import control_dependencies
from aioexec.ops.array.identity import identity
from aioexec.ops.array.joining import concat, stack, unstack
from aioexec.ops.array.padding import pad
from aioexec.ops.array.shapes_of import shape, size
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.control_flow.cond import cond
from aioexec.ops.control_flow.printing import Assert
from aioexec.ops.convolution.depthwise import depthwise_conv2d
from aioexec.ops.image.functions import convert_image_dtype
from aioexec.ops.math.cast import cast
from aioexec.ops.math.comparison import equal, greater_equal, not_equal
from aioexec.ops.pooling.pool2d import avg_pool
from aioexec.ops.reduction.reductions import reduce_all, reduce_any, reduce_mean, reduce_prod, reduce_sum
from aioexec.shapes import compatible

SCALE_WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
"""Exponents of the five scales of MS-SSIM (Wang, Simoncelli and Bovik, 2003)."""


def _check_alike(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor, list[Operation]]:
    """Return the shapes of two images, and assertions that the images have one shape.

    Raises:
        GraphValueError: the shapes are statically incompatible.
    """
    dims = [each.dims for each in (first, second)]
    for each, image in zip(dims, (first, second), strict=True):
        if each is not None and len(each) < 3:
            raise GraphValueError(f"Shape {image.shape} must have rank at least 3")
    one, other = dims
    if one is not None and other is not None:
        pairs = zip(reversed(one[:-3]), reversed(other[:-3]), strict=False)
        fits = compatible(one[-3:], other[-3:]) and all(
            None in pair or 1 in pair or len({*pair}) == 1 for pair in pairs
        )
        if not fits:
            raise GraphValueError(f"Two images are not compatible: {first.shape} and {second.shape}")
    shapes = apply_list_op("ShapeN", [first, second])
    is_image = greater_equal(size(shapes[0]), 3)
    alike = reduce_all(equal(shapes[0][-3:], shapes[1][-3:]))
    checks = [Assert(condition, shapes, summarize=10) for condition in (is_image, alike)]
    return shapes[0], shapes[1], checks


def _as_floats(first: Tensor, second: Tensor, max_val: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return two images and the largest possible value in float32."""
    largest = convert_image_dtype(cast(max_val, first.dtype.base_dtype), dtypes.float32)
    one, other = (convert_image_dtype(each, dtypes.float32) for each in (first, second))
    return one, other, largest


def psnr(a: Any, b: Any, max_val: Any, name: str | None = None) -> Tensor:
    """Return the peak signal-to-noise ratio in dB of images [..., height, width, channels].

    Args:
        max_val: the difference between the largest and smallest possible value.

    Returns:
        A ratio for each pair of images, float32, of shape [...].

    Raises:
        GraphValueError: the shapes are incompatible.
    """
    with op_scope(name, "PSNR", a, b):
        first, second, largest = _as_floats(convert_to_tensor(a), convert_to_tensor(b), max_val)
        error = reduce_mean(apply_op("SquaredDifference", first, second), [-3, -2, -1])
        peak = 20 * apply_op("Log", largest) / apply_op("Log", 10.0)
        ratio = apply_op("Sub", peak, np.float32(10 / np.log(10)) * apply_op("Log", error), name="psnr")
        with control_dependencies(_check_alike(first, second)[2]):
            found: Tensor = identity(ratio)
            return found


# Structural similarity


def _gaussian(side: Tensor, sigma: Tensor) -> Tensor:
    """Return a Gaussian filter [side, side, 1, 1] whose elements sum to 1."""
    dtype = sigma.dtype.base_dtype
    places = cast(apply_op("Range", 0, side, 1), dtype) - cast(side - 1, dtype) / 2.0
    exponents = apply_op("Square", places) * (-0.5 / apply_op("Square", sigma))
    plane = apply_op("Reshape", exponents, [1, -1]) + apply_op("Reshape", exponents, [-1, 1])
    weights = apply_op("Softmax", apply_op("Reshape", plane, [1, -1]))
    return apply_op("Reshape", weights, stack([side, side, 1, 1]))


def _channel_similarities(
    first: Tensor, second: Tensor, max_val: Tensor, settings: Sequence[Any], per_pixel: bool = False
) -> tuple[Tensor, Tensor]:
    """Return SSIM and its part of contrast and structure for each channel: [..., channels].

    Args:
        settings: filter_size, filter_sigma, k1, k2.
        per_pixel: return SSIM for each place of the window: [..., rows, columns, channels].
    """
    filter_size, filter_sigma, k1, k2 = settings
    side = constant(filter_size, dtypes.int32)
    shapes = apply_list_op("ShapeN", [first, second])
    checks = [
        Assert(reduce_all(greater_equal(each[-3:-1], side)), [each, side], summarize=8) for each in shapes
    ]
    with control_dependencies(checks):
        first = identity(first)
    window = _gaussian(side, constant(filter_sigma, first.dtype.base_dtype))
    window = apply_op("Tile", window, stack([1, 1, shapes[0][-1], 1]))

    def windowed(x: Tensor) -> Tensor:
        """Return the weighted mean in each window."""
        whole = shape(x)
        flat = apply_op("Reshape", x, concat([[-1], whole[-3:]], 0))
        means = depthwise_conv2d(flat, window, strides=[1, 1, 1, 1], padding="VALID")
        return apply_op("Reshape", means, concat([whole[:-3], shape(means)[1:]], 0))

    c1, c2 = (k1 * max_val) ** 2, (k2 * max_val) ** 2
    means = windowed(first), windowed(second)
    product = means[0] * means[1] * 2.0
    squares = apply_op("Square", means[0]) + apply_op("Square", means[1])
    luminance = (product + c1) / (squares + c1)
    joint = windowed(first * second) * 2.0
    own = windowed(apply_op("Square", first) + apply_op("Square", second))
    structure = (joint - product + c2) / (own - squares + c2)
    if per_pixel:
        return luminance * structure, structure
    return reduce_mean(luminance * structure, [-3, -2]), reduce_mean(structure, [-3, -2])


def ssim(
    img1: Any,
    img2: Any,
    max_val: Any,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
    return_index_map: bool = False,
) -> Tensor:
    """Return the structural similarity of images [..., height, width, channels], at most 1.

    Args:
        max_val: the difference between the largest and smallest possible value.
        filter_size, filter_sigma: side and standard deviation of the Gaussian window.
        k1, k2: constants of luminance and of contrast.
        return_index_map: return the similarity at each place of the window.

    Returns:
        float32 of shape [...], or [..., height - filter_size + 1, width - filter_size + 1].

    Raises:
        GraphValueError: the shapes are incompatible.
        InvalidArgumentError: (in a run) the images are smaller than the window, or their shapes differ.
    """
    with op_scope(None, "SSIM", img1, img2):
        first, second = convert_to_tensor(img1, name="img1"), convert_to_tensor(img2, name="img2")
        with control_dependencies(_check_alike(first, second)[2]):
            first = identity(first)
        images = _as_floats(first, second, max_val)
        settings = filter_size, filter_sigma, k1, k2
        return reduce_mean(_channel_similarities(*images, settings, return_index_map)[0], [-1])


def ssim_multiscale(
    img1: Any,
    img2: Any,
    max_val: Any,
    power_factors: Any = SCALE_WEIGHTS,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
) -> Tensor:
    """Return the multi-scale structural similarity (MS-SSIM) of images [..., height, width, channels].

    Args:
        power_factors: the exponent of each scale; the images are halved between one and the next.

    Returns:
        float32 of shape [...].

    Raises:
        GraphValueError, InvalidArgumentError: as `ssim`.
    """
    with op_scope(None, "MS-SSIM", img1, img2):
        first, second = convert_to_tensor(img1, name="img1"), convert_to_tensor(img2, name="img2")
        *shapes, checks = _check_alike(first, second)
        with control_dependencies(checks):
            first = identity(first)
        first, second, largest = _as_floats(first, second, max_val)
        images, heads, tails = [first, second], [each[:-3] for each in shapes], [each[-3:] for each in shapes]
        parts, whole = [], None
        for scale in range(len(power_factors)):
            with op_scope(None, f"Scale{scale}", images):
                if scale:
                    images, tails = _halved(images, heads, tails)
                whole, part = _channel_similarities(
                    images[0], images[1], largest, (filter_size, filter_sigma, k1, k2)
                )
                parts.append(apply_op("Relu", part))
        assert whole is not None
        kept = stack([*parts[:-1], apply_op("Relu", whole)], axis=-1)
        return reduce_mean(reduce_prod(kept ** np.asarray(power_factors, np.float32), [-1]), [-1])


def _halved(
    images: Sequence[Tensor], heads: Sequence[Tensor], tails: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Return images of half the height and width, and their shapes without the batch; odd sizes are padded by one."""
    flat = [
        apply_op("Reshape", image, concat([[-1], tail], 0)) for image, tail in zip(images, tails, strict=True)
    ]
    rest = tails[0] % constant([2, 2, 1], dtypes.int32)

    def padded() -> list[Tensor]:
        after = pad(apply_op("ExpandDims", rest, -1), [[1, 0], [1, 0]])
        return [pad(each, after, mode="SYMMETRIC") for each in flat]

    even = cond(reduce_any(not_equal(rest, 0)), padded, lambda: flat)
    half = [avg_pool(each, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID") for each in even]
    new = [each[1:] for each in apply_list_op("ShapeN", half)]
    shaped = [
        apply_op("Reshape", image, concat([head, tail], 0))
        for image, head, tail in zip(half, heads, new, strict=True)
    ]
    return shaped, new


# Neighbouring pixels


def total_variation(images: Any, name: str | None = None) -> Tensor:
    """Return the sum of the absolute differences of neighbouring pixels: a scalar for one image, a vector for a batch.

    Raises:
        GraphValueError: the rank is neither 3 nor 4.
    """
    with op_scope(name, "total_variation", images):
        given = convert_to_tensor(images)
        if given.dims is None or len(given.dims) not in (3, 4):
            raise GraphValueError("'images' must be either 3 or 4-dimensional.")
        axes = None if len(given.dims) == 3 else [1, 2, 3]
        below = given[..., 1:, :, :] - given[..., :-1, :, :]
        right = given[..., :, 1:, :] - given[..., :, :-1, :]
        return reduce_sum(abs(below), axes) + reduce_sum(abs(right), axes)


def image_gradients(image: Any) -> tuple[Tensor, Tensor]:
    """Return the differences to the pixel below and to the pixel on the right, 0 in the last row or column.

    Args:
        image: [batch, height, width, channels].

    Returns:
        `(dy, dx)`, of the shape and dtype of the image.

    Raises:
        GraphValueError: the rank is not 4.
    """
    given = convert_to_tensor(image)
    if given.dims is None or len(given.dims) != 4:
        raise GraphValueError(
            f"image_gradients expects a 4D tensor [batch_size, h, w, d], not {given.shape}."
        )
    whole = shape(given)
    batch, height, width, depth = unstack(whole, 4)
    zero = constant(0, given.dtype.base_dtype)
    below = given[:, 1:, :, :] - given[:, :-1, :, :]
    right = given[:, :, 1:, :] - given[:, :, :-1, :]
    dy = concat([below, apply_op("Fill", stack([batch, 1, width, depth]), zero)], 1)
    dx = concat([right, apply_op("Fill", stack([batch, height, 1, depth]), zero)], 2)
    return apply_op("Reshape", dy, whole), apply_op("Reshape", dx, whole)


_SOBEL = np.array([[[-1, -2, -1], [0, 0, 0], [1, 2, 1]], [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]])


def sobel_edges(image: Any) -> Tensor:
    """Return the vertical and horizontal derivatives of images by Sobel's filters.

    Args:
        image: [batch, height, width, channels], of floats.

    Returns:
        [batch, height, width, channels, 2]: dy and dx.
    """
    given = convert_to_tensor(image)
    whole = shape(given)
    filters = constant(np.transpose(_SOBEL, (1, 2, 0))[:, :, None, :], given.dtype.base_dtype)
    filters = apply_op("Tile", filters, stack([1, 1, whole[-1], 1]), name="sobel_filters")
    around = pad(given, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="REFLECT")
    edges = depthwise_conv2d(around, filters, [1, 1, 1, 1], "VALID")
    result = apply_op("Reshape", edges, concat([whole, [2]], 0))
    result.set_shape(None if given.dims is None else [*given.dims, 2])
    return result
