"""CropAndResize: crops of images, resized to one size, with gradients for the images and the boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.errors import InvalidArgumentError, OutOfRangeError
from aioexec.graph.apply import apply_op
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops.image.resize import checked_size
from aioexec.shapes import Dims, merge, with_rank

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Samples:
    """The sampling positions of each box along one axis; arrays of shape [boxes, samples].

    Attributes:
        inside: whether the position is in the image.
        low, high: the elements on both sides, 0 outside of the image.
        fraction: the distance from `low`, in [0, 1).
        nearest: the nearest element.
        weights: derivatives of the position with respect to the begin and the end of the box.
    """

    inside: Array
    low: Array
    high: Array
    fraction: Array
    nearest: Array
    weights: tuple[Array, Array]


def samples(begin: Array, end: Array, size: int, count: int) -> Samples:
    last = np.float32(size - 1)
    numbers = np.arange(count, dtype=np.float32)
    if count > 1:
        ratio = np.float32(last / np.float32(count - 1))
        at = begin[:, None] * last + numbers * ((end - begin)[:, None] * last / np.float32(count - 1))
        weights = last - numbers * ratio, numbers * ratio
    else:
        at = np.float32(0.5) * (begin + end)[:, None] * last
        half = np.full(1, np.float32(0.5) * last)
        weights = half, half
    inside = (at >= 0) & (at <= last)
    safe = np.where(inside, at, np.float32(0))
    low, high = np.floor(safe), np.ceil(safe)
    nearest = np.floor(safe + np.float32(0.5)).astype(np.int64)
    return Samples(inside, low.astype(np.int64), high.astype(np.int64), safe - low, nearest, weights)


def check_boxes(boxes: Array, box_ind: Array, batch: int) -> None:
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise InvalidArgumentError(f"boxes must be 2-D with 4 columns, got shape {list(boxes.shape)}")
    if box_ind.shape != boxes.shape[:1]:
        raise InvalidArgumentError(
            f"box_index has incompatible shape {list(box_ind.shape)} for {len(boxes)} boxes"
        )
    if box_ind.size and (box_ind.min() < 0 or box_ind.max() >= batch):
        raise OutOfRangeError(f"box_index has values outside [0, batch_size) of {batch} images")
    if not np.isfinite(boxes).all():
        raise InvalidArgumentError("Boxes contains at least one element that is not finite")


def sample_positions(boxes: Array, image: Sequence[int], crop: tuple[int, int]) -> tuple[Samples, Samples]:
    """Return the sampling positions of each box in images of this height and width."""
    rows = samples(boxes[:, 0], boxes[:, 2], image[0], crop[0])
    return rows, samples(boxes[:, 1], boxes[:, 3], image[1], crop[1])


def corners(rows: Samples, columns: Samples) -> list[tuple[Array, Array, Array]]:
    """Return the four elements around each sample, and their bilinear weights: [boxes, height, width]."""
    found = []
    for row, row_fraction in ((rows.low, 1 - rows.fraction), (rows.high, rows.fraction)):
        for column, fraction in ((columns.low, 1 - columns.fraction), (columns.high, columns.fraction)):
            weight = row_fraction[:, :, None] * fraction[:, None, :]
            found.append((row[:, :, None], column[:, None, :], weight))
    return found


def contributions(rows: Samples, columns: Samples, method: str) -> list[tuple[Array, Array, Array]]:
    """Return the elements that contribute to each sample: rows, columns and weights, 0 outside of the image."""
    inside = (rows.inside[:, :, None] & columns.inside[:, None, :]).astype(np.float32)
    if method == "nearest":
        return [(rows.nearest[:, :, None], columns.nearest[:, None, :], inside)]
    return [(row, column, weight * inside) for row, column, weight in corners(rows, columns)]


def check_gradient(dy: Array, boxes: Array, depth: int) -> None:
    if dy.ndim != 4:
        raise InvalidArgumentError(f"grads image must be 4-D, got shape {list(dy.shape)}")
    if 0 in dy.shape[1:3]:
        raise InvalidArgumentError("grads dimensions must be positive")
    if dy.shape[:1] != boxes.shape[:1] or dy.shape[3] != depth:
        raise InvalidArgumentError(
            f"boxes and grads have incompatible shape: {list(boxes.shape)} and {list(dy.shape)} of images of depth {depth}"
        )


def check_image(image: Array) -> None:
    if image.ndim != 4:
        raise InvalidArgumentError(f"input image must be 4-D, got shape {list(image.shape)}")
    if 0 in image.shape[1:3]:
        raise InvalidArgumentError("image dimensions must be positive")


def crop_kernel(context: KernelContext) -> Compute:
    method, fill = context.attrs["method"], np.float32(context.attrs["extrapolation_value"])

    def compute(image: Array, boxes: Array, box_ind: Array, crop_size: Array) -> Array:
        check_image(image)
        crop = checked_size(crop_size, len(boxes), image.shape[3])
        check_boxes(boxes, box_ind, len(image))
        rows, columns = sample_positions(boxes, image.shape[1:3], crop)
        which = box_ind[:, None, None]
        inside = (rows.inside[:, :, None] & columns.inside[:, None, :])[..., None]
        total = np.zeros((len(boxes), *crop, image.shape[3]), np.float32)
        for row, column, weight in contributions(rows, columns, method):
            total += image[which, row, column].astype(np.float32) * weight[..., None]
        return np.where(inside, total, fill)

    return compute


def image_kernel(context: KernelContext) -> Compute:
    method, dtype = context.attrs["method"], context.output_dtypes[0].numpy

    def compute(dy: Array, boxes: Array, box_ind: Array, image_size: Array) -> Array:
        if image_size.shape != (4,):
            raise InvalidArgumentError(f"image_size must have 4 elements, got shape {list(image_size.shape)}")
        shape = tuple(int(each) for each in image_size)
        checked_size(image_size[1:3], max(shape[0], 1), max(shape[3], 1))
        if min(shape) < 0:
            raise InvalidArgumentError(f"Expected a non-negative size, got {min(shape)}")
        check_gradient(dy, boxes, shape[3])
        check_boxes(boxes, box_ind, shape[0])
        rows, columns = sample_positions(boxes, shape[1:3], (dy.shape[1], dy.shape[2]))
        dx = np.zeros(shape, np.float64 if dtype == np.float64 else np.float32)
        for row, column, weight in contributions(rows, columns, method):
            np.add.at(dx, (box_ind[:, None, None], row, column), dy * weight[..., None])
        return dx.astype(dtype, copy=False)

    return compute


def boxes_kernel(context: KernelContext) -> Compute:
    def compute(dy: Array, image: Array, boxes: Array, box_ind: Array) -> Array:
        check_image(image)
        check_gradient(dy, boxes, image.shape[3])
        check_boxes(boxes, box_ind, len(image))
        rows, columns = sample_positions(boxes, image.shape[1:3], (dy.shape[1], dy.shape[2]))
        inside = (rows.inside[:, :, None] & columns.inside[:, None, :])[..., None]
        around = [
            image[box_ind[:, None, None], row, column].astype(np.float32)
            for row, column, _ in corners(rows, columns)
        ]
        top_left, top_right, bottom_left, bottom_right = around
        x, y = columns.fraction[:, None, :, None], rows.fraction[:, :, None, None]
        by_row = (1 - x) * (bottom_left - top_left) + x * (bottom_right - top_right)
        by_column = (1 - y) * (top_right - top_left) + y * (bottom_right - bottom_left)
        by_row, by_column = ((each * dy * inside).sum(axis=3) for each in (by_row, by_column))
        parts = [
            *((by_row * weight[:, None]).sum(axis=(1, 2)) for weight in rows.weights),
            *((by_column * weight).sum(axis=(1, 2)) for weight in columns.weights),
        ]
        first, third, second, fourth = parts
        return np.stack([first, second, third, fourth], axis=1).astype(np.float32)

    return compute


# Rows


def crop_shape(context: ShapeContext) -> Sequence[Dims]:
    image, boxes = with_rank(context.inputs[0], 4), with_rank(context.inputs[1], 2)
    assert image is not None
    assert boxes is not None
    merge((boxes[1],), (4,))
    count = merge(boxes[:1], context.inputs[2])
    merge(context.inputs[3], (2,))
    size = context.value(3)
    height, width = (None, None) if size is None else (int(each) for each in size)
    assert count is not None
    return [(count[0], height, width, image[3])]


def image_shape(context: ShapeContext) -> Sequence[Dims]:
    merge(context.inputs[3], (4,))
    return [merge(context.partial(3), (None,) * 4)]


def crop_gradient(op: Operation, dy: Tensor) -> Sequence[Tensor | None]:
    image, boxes, box_ind, _ = op.inputs
    dtype = image.dtype.base_dtype
    d_image = None
    if dtype.is_floating:
        shape = apply_op("Shape", image)
        d_image = apply_op(
            "CropAndResizeGradImage", dy, boxes, box_ind, shape, T=dtype, method=op.attrs["method"]
        )
    return d_image, apply_op("CropAndResizeGradBoxes", dy, image, boxes, box_ind), None, None


_IMAGES = "T:type{uint8|uint16|int8|int16|int32|int64|half|float|double}"
_METHOD = "method:string{bilinear|nearest}='bilinear'"

register(
    "CropAndResize(image:T, boxes:float, box_ind:int32, crop_size:int32) -> (crops:float) "
    f"[{_IMAGES}; {_METHOD}; extrapolation_value:float=0.0]",
    shape=crop_shape,
    kernel=crop_kernel,
    gradient=crop_gradient,
    shape_operands=(3,),
)
register(
    "CropAndResizeGradImage(grads:float, boxes:float, box_ind:int32, image_size:int32) -> (output:T) "
    f"[T:type{{float|half|double}}; {_METHOD}]",
    shape=image_shape,
    kernel=image_kernel,
    gradient=undefined_gradient,
    shape_operands=(3,),
)
register(
    "CropAndResizeGradBoxes(grads:float, image:T, boxes:float, box_ind:int32) -> (output:float) "
    f"[{_IMAGES}; method:string{{bilinear}}='bilinear']",
    shape=lambda context: [with_rank(context.inputs[2], 2)],
    kernel=boxes_kernel,
    gradient=undefined_gradient,
)
