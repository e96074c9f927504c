"""Resizing of images: nearest neighbour, bilinear, bicubic, area; and their gradients.

A method is a rule for one axis: the source elements of each new element, and their weights. Images are resized along height,
then width; the gradient uses the transposed weights. Rules and constants are TensorFlow's, as is the table of 1024 cubic
weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.kernels.kernel import Attrs, Compute, KernelContext, Reference
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register, undefined_gradient
from aioexec.shapes import Dims, merge, with_rank

Array = np.ndarray[Any, Any]
MOST_ELEMENTS = 1 << 40
CUBIC_STEPS = 1024


@dataclass(frozen=True, slots=True)
class AxisWeights:
    """The resizing of one axis: source elements [new, k] and their weights."""

    size: int
    places: Array
    weights: Array

    def apply(self, image: Array, axis: int) -> Array:
        """Resize along an axis."""
        shape = [1] * image.ndim
        shape[axis] = len(self.places)
        total = None
        for places, weights in zip(self.places.T, self.weights.T, strict=True):
            part = np.take(image, places, axis=axis) * weights.reshape(shape)
            total = part if total is None else np.add(total, np.where(weights.reshape(shape) == 0, 0, part))
        assert total is not None
        return np.asarray(total)

    def transposed(self, dy: Array, axis: int) -> Array:
        """Apply the adjoint of `apply`."""
        matrix = np.zeros((self.size, len(self.places)), self.weights.dtype)
        columns = np.broadcast_to(np.arange(len(self.places))[:, None], self.places.shape)
        np.add.at(matrix, (self.places, columns), self.weights)
        return np.moveaxis(np.tensordot(matrix, dy, axes=([1], [axis])), 0, axis)


def scale_of(attrs: Attrs, size: int, new: int) -> np.float32:
    """Return the distance between new elements, in source elements."""
    if attrs["align_corners"] and new > 1:
        return np.float32((size - 1) / np.float32(new - 1))
    return np.float32(size / np.float32(new))


def centres(attrs: Attrs, size: int, new: int) -> Array:
    """Return the positions of new elements, in source elements."""
    scale, numbers = scale_of(attrs, size, new), np.arange(new, dtype=np.float32)
    if attrs.get("half_pixel_centers"):
        return (numbers + np.float32(0.5)) * scale - np.float32(0.5)
    return numbers * scale


def nearest(attrs: Attrs, size: int, new: int) -> AxisWeights:
    scale, numbers = scale_of(attrs, size, new), np.arange(new, dtype=np.float32)
    if attrs["half_pixel_centers"]:
        numbers = numbers + np.float32(0.5)
    at = numbers * scale
    rounded = np.floor(at + np.float32(0.5)) if attrs["align_corners"] else np.floor(at)
    places = np.clip(rounded.astype(np.int64), 0, size - 1)[:, None]
    return AxisWeights(size, places, np.ones(places.shape, np.float32))


def bilinear(attrs: Attrs, size: int, new: int) -> AxisWeights:
    at = centres(attrs, size, new)
    upper = np.minimum(np.ceil(at).astype(np.int64), size - 1)
    lower = np.minimum(np.maximum(np.floor(at).astype(np.int64), 0), upper)
    fraction = at - np.floor(at)
    return AxisWeights(size, np.stack([lower, upper], 1), np.stack([np.float32(1) - fraction, fraction], 1))


def cubic_table(a: float) -> Array:
    """Return the cubic weights of elements at a distance below 1 (row 0) and below 2 (row 1), by steps of the distance."""
    x = np.arange(CUBIC_STEPS + 1) / CUBIC_STEPS
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    x = x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.stack([near, far]).astype(np.float32)


def bicubic(attrs: Attrs, size: int, new: int) -> AxisWeights:
    """Cubic convolution. Outside of the image the edge is repeated; with half-pixel centres the weights are renormalised."""
    half = attrs["half_pixel_centers"]
    near, far = cubic_table(-0.5 if half else -0.75)
    at = centres(attrs, size, new)
    base = np.floor(at)
    step = np.rint((at - base) * np.float32(CUBIC_STEPS)).astype(np.int64)
    weights = np.stack([far[step], near[step], near[CUBIC_STEPS - step], far[CUBIC_STEPS - step]], 1)
    places = base.astype(np.int64)[:, None] + np.arange(-1, 3)
    bounded = np.clip(places, 0, size - 1)
    if half:
        weights = np.where(bounded == places, weights, np.float32(0))
        weights = weights / weights.sum(axis=1, keepdims=True, dtype=np.float32)
    return AxisWeights(size, bounded, weights)


def area(attrs: Attrs, size: int, new: int) -> AxisWeights:
    """Average the interval of source elements that each new element covers."""
    scale = scale_of(attrs, size, new)
    begin = np.arange(new, dtype=np.float32) * scale
    end = np.arange(1, new + 1, dtype=np.float32) * scale
    first, last = np.floor(begin).astype(np.int64), np.ceil(end).astype(np.int64)
    places = first[:, None] + np.arange(max(int(np.max(last - first)), 1))
    covered = np.minimum(places + 1, end[:, None]) - np.maximum(places, begin[:, None])
    weights = np.where(places < last[:, None], np.maximum(covered, 0) / scale, 0).astype(np.float32)
    return AxisWeights(size, np.clip(places, 0, size - 1), weights)


Rule = Callable[[Attrs, int, int], AxisWeights]

# Kernels


def check_centres(attrs: Attrs) -> None:
    if attrs.get("half_pixel_centers") and attrs["align_corners"]:
        raise InvalidArgumentError("If half_pixel_centers is True, align_corners must be False")


def checked_size(value: Array, batch: int, depth: int) -> tuple[int, int]:
    if value.shape != (2,):
        raise InvalidArgumentError(
            f"shape_t must be 1-dimensional with 2 elements, got shape {list(value.shape)}"
        )
    height, width = (int(each) for each in value)
    if height <= 0 or width <= 0:
        raise InvalidArgumentError(f"output dimensions must be positive, got {height} x {width}")
    if height * width * max(batch * depth, 1) > MOST_ELEMENTS:
        raise InvalidArgumentError(f"output of {height} x {width} images is too large")
    return height, width


def check_image(image: Array) -> None:
    if image.ndim != 4:
        raise InvalidArgumentError(f"input must be 4-dimensional, got shape {list(image.shape)}")
    if 0 in image.shape[1:3]:
        raise InvalidArgumentError("input image must be of non-zero size")


def resizing(rule: Rule) -> Reference:
    def bind(context: KernelContext) -> Compute:
        attrs, dtype = context.attrs, context.output_dtypes[0].numpy
        check_centres(attrs)

        def compute(image: Array, size: Array) -> Array:
            check_image(image)
            height, width = checked_size(size, image.shape[0], image.shape[3])
            wide = image if dtype == image.dtype and rule is nearest else image.astype(np.float32)
            if rule is nearest:
                rows, columns = (
                    rule(attrs, *each).places[:, 0]
                    for each in ((image.shape[1], height), (image.shape[2], width))
                )
                return np.ascontiguousarray(wide[:, rows][:, :, columns])
            rows_of, columns_of = rule(attrs, image.shape[1], height), rule(attrs, image.shape[2], width)
            return columns_of.apply(rows_of.apply(wide, 1), 2).astype(dtype, copy=False)

        return compute

    return bind


def adjoint(rule: Rule, is_sized: bool) -> Reference:
    """Return the gradient kernel; the size of the images is the value of input 1 (`is_sized`), else its shape."""

    def bind(context: KernelContext) -> Compute:
        attrs, dtype = context.attrs, context.output_dtypes[0].numpy
        check_centres(attrs)

        def compute(dy: Array, original: Array) -> Array:
            if is_sized and dy.ndim == 4:
                height, width = checked_size(original, dy.shape[0], dy.shape[3])
                if not dy.size:
                    return np.zeros((dy.shape[0], height, width, dy.shape[3]), dtype)
            else:
                check_image(dy)
                check_image(original)
                height, width = original.shape[1:3]
            wide = dy.astype(np.float64 if dy.dtype.itemsize == 8 or dy.dtype.kind in "iu" else np.float32)
            rows, columns = rule(attrs, height, dy.shape[1]), rule(attrs, width, dy.shape[2])
            return rows.transposed(columns.transposed(wide, 2), 1).astype(dtype)

        return compute

    return bind


# Shapes and gradients


def resized_shape(context: ShapeContext) -> Sequence[Dims]:
    image = with_rank(context.inputs[0], 4)
    assert image is not None
    merge(context.inputs[1], (2,))
    size = context.value(1)
    height, width = (None, None) if size is None else (int(each) for each in size)
    if min(height or 0, width or 0) < 0:
        raise GraphValueError(f"size must not be negative, got {(height, width)}")
    return [(image[0], height, width, image[3])]


def original_shape(context: ShapeContext) -> Sequence[Dims]:
    """Shape rule: batch and channels of the gradient, height and width of the image; if one is unknown, that of the image."""
    gradient, original = (None if dims is None else with_rank(dims, 4) for dims in context.inputs)
    if gradient is None or original is None:
        return [original]
    return [(gradient[0], original[1], original[2], gradient[3])]


def spatial_shape(image: Tensor) -> Tensor:
    """Return height and width as a vector."""
    return apply_op("StridedSlice", apply_op("Shape", image), [1], [3], [1])


def _flags(op: Operation) -> dict[str, Any]:
    return {name: op.attrs[name] for name in ("align_corners", "half_pixel_centers")}


def nearest_gradient(op: Operation, dy: Tensor) -> Sequence[Tensor | None]:
    return apply_op("ResizeNearestNeighborGrad", dy, spatial_shape(op.inputs[0]), **_flags(op)), None


def image_gradient(op_type: str) -> Callable[[Operation, Tensor], Sequence[Tensor | None]]:
    return lambda op, dy: (apply_op(op_type, dy, op.inputs[0], **_flags(op)), None)


def cubic_gradient(op: Operation, dy: Tensor) -> Sequence[Tensor | None]:
    if op.inputs[0].dtype.base_dtype.name not in ("float32", "float64"):
        return None, None
    return image_gradient("ResizeBicubicGrad")(op, dy)


_FLAGS = "align_corners:bool=false; half_pixel_centers:bool=false"
_IMAGES = "T:type{int8|uint8|int16|uint16|int32|int64|bfloat16|half|float|double}"

register(
    f"ResizeNearestNeighbor(images:T, size:int32) -> (resized_images:T) [{_IMAGES}; {_FLAGS}]",
    shape=resized_shape,
    kernel=resizing(nearest),
    gradient=nearest_gradient,
    shape_operands=(1,),
)
register(
    "ResizeNearestNeighborGrad(grads:T, size:int32) -> (output:T) "
    f"[T:type{{uint8|int8|int32|half|float|double|bfloat16}}; {_FLAGS}]",
    shape=resized_shape,
    kernel=adjoint(nearest, is_sized=True),
    gradient=undefined_gradient,
    shape_operands=(1,),
)
for _name, _rule, _gradient in (
    ("ResizeBilinear", bilinear, image_gradient("ResizeBilinearGrad")),
    ("ResizeBicubic", bicubic, cubic_gradient),
):
    register(
        f"{_name}(images:T, size:int32) -> (resized_images:float) [{_IMAGES}; {_FLAGS}]",
        shape=resized_shape,
        kernel=resizing(_rule),
        gradient=_gradient,
        shape_operands=(1,),
    )
register(
    "ResizeBilinearGrad(grads:float, original_image:T) -> (output:T) "
    f"[T:type{{float|bfloat16|half|double}}; {_FLAGS}]",
    shape=original_shape,
    kernel=adjoint(bilinear, is_sized=False),
    gradient=NOT_DIFFERENTIABLE,
)
register(
    f"ResizeBicubicGrad(grads:float, original_image:T) -> (output:T) [T:type{{float|double}}; {_FLAGS}]",
    shape=original_shape,
    kernel=adjoint(bicubic, is_sized=False),
    gradient=undefined_gradient,
)
register(
    f"ResizeArea(images:T, size:int32) -> (resized_images:float) [{_IMAGES}; align_corners:bool=false]",
    shape=resized_shape,
    kernel=resizing(area),
    gradient=undefined_gradient,
    shape_operands=(1,),
)
