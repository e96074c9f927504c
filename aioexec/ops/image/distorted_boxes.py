"""Random boxes for crops that keep a part of an object, with TensorFlow's numbers for given seeds.

An attempt draws an aspect ratio, a height within the bounds of the area, and a place. The first box that covers enough of an
object is taken; after `max_attempts` attempts the whole image. Sizes are computed in single precision, as in TensorFlow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_tuple_op
from aioexec.graph.kernels.kernel import Attrs, Compute, KernelContext
from aioexec.graph.node import Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.random import philox
from aioexec.ops.random.random_ops import stream_of
from aioexec.shapes import Dims, compatible, merge, with_rank

Array = np.ndarray[Any, Any]
Float = np.float32


class Draws:
    """Words of a random stream, one after another."""

    def __init__(self, key: int, start: int) -> None:
        self._key, self._start, self._used = key, start, 0
        self._words: list[int] = []

    def word(self) -> int:
        """The next number of 32 bits."""
        if not self._words:
            offsets = np.arange(self._used, self._used + 16, dtype=np.uint64)
            self._words = philox.words(self._key, self._start, offsets).reshape(-1).tolist()[::-1]
            self._used += 16
        return self._words.pop()

    def fraction(self) -> Float:
        """The next number in [0, 1) of single precision."""
        bits = np.array([(127 << 23) | (self.word() & 0x7FFFFF)], np.uint32)
        return Float(bits.view(np.float32)[0] - Float(1))

    def below(self, bound: int) -> int:
        """The next whole number in [0, bound), without bias."""
        if bound & (bound - 1) == 0:
            return self.word() & (bound - 1)
        rest = (0xFFFFFFFF % bound) + 1
        while (drawn := self.word()) < rest:
            pass
        return drawn % bound


class Box(NamedTuple):
    """A box in pixels: its first and last row and column, the last ones excluded."""

    top: int
    left: int
    bottom: int
    right: int

    @property
    def area(self) -> int:
        return (self.bottom - self.top) * (self.right - self.left)

    def shared(self, other: Box) -> int:
        """The area of the intersection."""
        top, left = max(self.top, other.top), max(self.left, other.left)
        bottom, right = min(self.bottom, other.bottom), min(self.right, other.right)
        return 0 if top > bottom or left > right else Box(top, left, bottom, right).area


def rounded(value: Any) -> int:
    return int(np.rint(Float(value)))


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of crops of an image of `height` × `width` pixels."""

    height: int
    width: int
    areas: tuple[Float, Float]
    ratios: tuple[Float, Float]

    def draw(self, draws: Draws) -> Box | None:
        """Draw a crop; None if the bounds of its area cannot be met."""
        low, high = self.ratios
        ratio = Float(draws.fraction() * (high - low) + low)
        least, most = (Float(Float(part * Float(self.width)) * Float(self.height)) for part in self.areas)
        if least > most or self.width <= 0 or self.height <= 0:
            return None
        height = self._height(draws, ratio, least, most)
        width = rounded(height * ratio)
        if Float(width * height) < least:
            height += 1
            width = rounded(height * ratio)
        if Float(width * height) > most:
            height -= 1
            width = rounded(height * ratio)
        area = Float(width * height)
        if not (least <= area <= most and 0 < width <= self.width and 0 < height <= self.height):
            return None
        top = draws.below(self.height - height) if height < self.height else 0
        left = draws.below(self.width - width) if width < self.width else 0
        return Box(top, left, top + height, left + width)

    def _height(self, draws: Draws, ratio: Float, least: Float, most: Float) -> int:
        """Draw a height between those of the least and the largest area that fit the image."""
        low, high = (rounded(np.sqrt(Float(area / ratio))) for area in (least, most))
        if rounded(high * ratio) > self.width:
            high = int((self.width + 0.5 - float(Float(1e-7))) / float(ratio))
            high -= rounded(high * ratio) > self.width
        high = min(high, self.height)
        return low + draws.below(high - low + 1) if low < high else high


def objects_in(boxes: Array, height: int, width: int, uses_image: bool) -> list[Box]:
    """Return the boxes in pixels.

    Raises:
        InvalidArgumentError: a coordinate is outside of 0 … 1, or there is no box.
    """
    flat = boxes.reshape(-1, 4)
    if not np.all((flat >= 0) & (flat <= 1)):
        raise InvalidArgumentError(f"All bounding box coordinates must be in [0.0, 1.0]: {flat.tolist()}")
    sizes = np.array([height, width, height, width], np.float32)
    found = [Box(*row) for row in (flat * sizes).astype(np.int64).tolist()]
    if not found and not uses_image:
        raise InvalidArgumentError(
            "No bounding boxes provided as input. One must enable use_image_if_no_bounding_boxes if you wish "
            "to not provide any bounding boxes."
        )
    return found or [Box(0, 0, height, width)]


def covers(crop: Box, objects: Sequence[Box], share: Float) -> bool:
    """Return whether a crop covers at least a share of one of the objects."""
    return crop.area >= 1 and any(
        Float(crop.shared(each)) / Float(each.area) >= share for each in objects if each.area >= 1
    )


def check_attrs(attrs: Attrs) -> None:
    for name, least in (("aspect_ratio_range", "Aspect ratio range"), ("area_range", "Area range")):
        bounds = attrs[name]
        if len(bounds) != 2:
            raise InvalidArgumentError(f"{least} field must specify 2 dimensions")
        if min(bounds) <= 0:
            raise InvalidArgumentError(f"{least} must be non-negative: {list(bounds)}")
    if max(attrs["area_range"]) > 1:
        raise InvalidArgumentError(
            f"Area range must be less then or equal to 1.0: {list(attrs['area_range'])}"
        )
    if attrs["max_attempts"] <= 0:
        raise InvalidArgumentError(f"Max attempts must be non-negative: {attrs['max_attempts']}")


def _pair(bounds: Sequence[float]) -> tuple[Float, Float]:
    low, high = bounds
    return Float(low), Float(high)


def box_kernel(context: KernelContext) -> Compute:
    attrs, stream = context.attrs, stream_of(context)
    check_attrs(attrs)
    areas, ratios = _pair(attrs["area_range"]), _pair(attrs["aspect_ratio_range"])
    attempts, dtype = int(attrs["max_attempts"]), context.output_dtypes[0].numpy

    def compute(image_size: Array, boxes: Array, covered: Array | None = None) -> tuple[Array, ...]:
        if image_size.shape != (3,):
            raise InvalidArgumentError(
                f"image_size must contain 3 elements, got shape {list(image_size.shape)}"
            )
        if boxes.ndim != 3 or boxes.shape[2] != 4:
            raise InvalidArgumentError(
                f"input boxes must be 3-dimensional [batch, num_boxes, coords], got shape {list(boxes.shape)}"
            )
        share = Float(attrs["min_object_covered"] if covered is None else covered)
        if share < 0:
            raise InvalidArgumentError(f"Min object covered must be non-negative: {share}")
        height, width = (int(size) for size in image_size[:2])
        if not (0 <= height < 2**31 and 0 <= width < 2**31):
            raise InvalidArgumentError(f"image size {height} x {width} must be in [0, int32 max)")
        objects = objects_in(boxes, height, width, attrs["use_image_if_no_bounding_boxes"])
        bounds = Bounds(height, width, areas, ratios)
        draws = Draws(stream.key, stream.reserve(attempts))
        drawn = (bounds.draw(draws) for _ in range(attempts))
        whole = Box(0, 0, height, width)
        crop = next((each for each in drawn if each is not None and covers(each, objects, share)), whole)
        begin = np.array([crop.top, crop.left, 0]).astype(dtype)
        size = np.array([crop.bottom - crop.top, crop.right - crop.left, -1]).astype(dtype)
        with np.errstate(invalid="ignore"):
            place = np.array(crop, np.float32) / np.array([height, width] * 2, np.float32)
        return begin, size, place.reshape(1, 1, 4)

    return compute


def box_shape(context: ShapeContext) -> Sequence[Dims]:
    merge(context.inputs[0], (3,))
    boxes = with_rank(context.inputs[1], 3)
    if boxes is not None and not compatible(boxes[2:], (4,)):
        raise GraphValueError(f"bounding boxes must have 4 coordinates, got shape {boxes}")
    for scalar in context.inputs[2:]:
        with_rank(scalar, 0)
    return [(3,), (3,), (1, 1, 4)]


_OUTPUTS = "(begin:T, size:T, bboxes:float)"
_ATTRS = (
    "T:type{uint8|int8|int16|int32|int64}; seed:int=0; seed2:int=0; aspect_ratio_range:list(float)=[0.75, 1.33]; "
    "area_range:list(float)=[0.05, 1]; max_attempts:int=100; use_image_if_no_bounding_boxes:bool=false"
)
for _signature in (
    f"SampleDistortedBoundingBox(image_size:T, bounding_boxes:float) -> {_OUTPUTS} [{_ATTRS}; min_object_covered:float=0.1]",
    "SampleDistortedBoundingBoxV2(image_size:T, bounding_boxes:float, min_object_covered:float) -> "
    f"{_OUTPUTS} [{_ATTRS}]",
):
    register(
        f"{_signature} {{stateful}}",
        shape=box_shape,
        kernel=box_kernel,
        gradient=NOT_DIFFERENTIABLE,
    )


class SampleDistortedBoundingBox(NamedTuple):
    """Where to crop an image: arguments of `slice`, and the box as float32 [1, 1, 4] in 0 … 1."""

    begin: Tensor
    size: Tensor
    bboxes: Tensor


def sample_distorted_bounding_box(
    image_size: Any,
    bounding_boxes: Any,
    seed: int | None = None,
    seed2: int | None = None,
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = None,
    area_range: Any = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: str | None = None,
) -> SampleDistortedBoundingBox:
    """Draw a random box that covers a part of one of some objects.

    Args:
        image_size: integers [height, width, channels].
        bounding_boxes: the objects, float32 [batch, count, (top, left, bottom, right) in 0 … 1].
        seed, seed2: of the random stream; by default another one in each session.
        min_object_covered: the share of an object that the box covers at least.
        aspect_ratio_range: bounds of width / height of the box, by default 0.75 and 1.33.
        area_range: bounds of its share of the image, by default 0.05 and 1.
        max_attempts: the number of boxes to try, by default 100; then the whole image is taken.
        use_image_if_no_bounding_boxes: take the image for an object if there is none, instead of an error in the run.

    Returns:
        `(begin, size, bboxes)`: for `slice`, and for `draw_bounding_boxes`.
    """
    with op_scope(name, "sample_distorted_bounding_box", image_size, bounding_boxes):
        return SampleDistortedBoundingBox(
            *apply_tuple_op(
                "SampleDistortedBoundingBoxV2",
                image_size,
                bounding_boxes,
                min_object_covered,
                seed=seed,
                seed2=seed2,
                aspect_ratio_range=aspect_ratio_range,
                area_range=area_range,
                max_attempts=max_attempts,
                use_image_if_no_bounding_boxes=use_image_if_no_bounding_boxes,
            )
        )
