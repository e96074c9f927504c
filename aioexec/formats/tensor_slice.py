"""Slices of tensors in checkpoints: a start and a length for each dimension.

The text form, used in attributes and inputs of nodes, is "0,3:-:2,1": start and length, or "-" for a full dimension. In a
table, the keys of slices sort by name and extents.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aioexec.data_classes import dataclass
from aioexec.errors import InvalidArgumentError

if TYPE_CHECKING:
    from aioexec.formats.protos import TensorSliceProto

Box = tuple[tuple[int, int], ...]
"""(start, stop) of each dimension."""

_ALL: Final = (0, -1)
_MAX_DIM: Final = (1 << 63) - 1
_MOST_COMPARISONS: Final = 1 << 17
"""Upper bound for comparisons of two boxes when checking that slices cover a tensor: about a second."""


@dataclass(frozen=True, slots=True)
class TensorSlice:
    """A slice of a tensor: (start, length) of each dimension; (0, -1) is a full dimension."""

    extents: tuple[tuple[int, int], ...]

    @classmethod
    def whole(cls, rank: int) -> TensorSlice:
        return cls((_ALL,) * rank)

    @classmethod
    def parse(cls, text: str) -> TensorSlice:
        """Parse the text form "start,length:-".

        Raises:
            InvalidArgumentError: the text has another form.
        """
        return cls(tuple(_extent(item, text) for item in text.split(":")) if text else ())

    @classmethod
    def from_proto(cls, proto: TensorSliceProto) -> TensorSlice:
        return cls(
            tuple(
                (extent.start, extent.length) if extent.HasField("length") else _ALL
                for extent in proto.extent
            )
        )

    def to_proto(self, proto: TensorSliceProto) -> None:
        """Fill an empty proto."""
        for start, length in self.extents:
            extent = proto.extent.add()
            if length >= 0:
                extent.start, extent.length = start, length

    @property
    def is_whole(self) -> bool:
        return all(length < 0 for _, length in self.extents)

    def __str__(self) -> str:
        return ":".join("-" if length < 0 else f"{start},{length}" for start, length in self.extents)

    def box(self, shape: Sequence[int]) -> Box:
        """Return the box of the slice in a tensor of a shape.

        Raises:
            InvalidArgumentError: rank or bounds do not fit the shape.
        """
        listed = ",".join(map(str, shape))
        if len(shape) != len(self.extents):
            raise InvalidArgumentError(f"Mismatching ranks: shape = [{listed}], slice = {self}")
        box = []
        for k, (size, (start, length)) in enumerate(zip(shape, self.extents, strict=True)):
            stop = size if length < 0 else start + length
            if start < 0 or stop > size:
                raise InvalidArgumentError(
                    f"Extent in dimension {k} out of bounds: shape = [{listed}], slice = {self}"
                )
            box.append((start, stop))
        return tuple(box)

    def key(self, name: str) -> bytes:
        """Return the table key of this slice of the tensor `name` (TensorFlow's EncodeTensorNameSlice)."""
        raw = name.encode(errors="surrogateescape")
        escaped = re.sub(rb"[\0\xff]", lambda byte: byte[0] + bytes([0xFF - byte[0][0]]), raw)
        numbers = b"".join(map(_ordered, itertools.chain.from_iterable(self.extents)))
        rank = len(self.extents)
        return b"\0" + escaped + b"\0\x01" + (bytes([1, rank]) if rank else b"\0") + numbers


def _extent(item: str, text: str) -> tuple[int, int]:
    if item == "-":
        return _ALL
    start, comma, length = item.partition(",")
    if not comma or not start.isdecimal() or not length.isdecimal():
        raise InvalidArgumentError(f"Expected a pair of numbers or '-' but got '{item}': string = {text}")
    if int(length) == 0 or int(start) + int(length) > _MAX_DIM:
        raise InvalidArgumentError(
            f"Expected non-negative start and positive length but got start = {start}, length = {length}: "
            f"string = {text}"
        )
    return int(start), int(length)


def _ordered(value: int) -> bytes:
    """Encode a signed number so that the bytes sort as the numbers do, in few bytes if it is small (OrderedCode)."""
    magnitude = value if value >= 0 else ~value
    length = next(n for n in range(1, 11) if magnitude < 1 << (7 * n - 1))
    marks = ((1 << length) - 1) << (8 * length - length)  # the number of leading ones is the number of bytes
    return ((value & (1 << 8 * length) - 1) ^ marks).to_bytes(length, "big")


class ShapeAndSlice(NamedTuple):
    """The full shape, the slice and the box that a node saves or restores."""

    shape: tuple[int, ...]
    part: TensorSlice
    box: Box

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape of the slice."""
        return sizes_of(self.box)


def parse_shape_and_slice(text: str) -> ShapeAndSlice:
    """Parse a `shape_and_slice` string: "5 4 0,3:-" is the slice "0,3:-" of a tensor of shape (5, 4).

    Raises:
        InvalidArgumentError: the text has another form, or the slice is out of bounds.
    """
    *dims, part = text.split(" ")
    if not dims:
        raise InvalidArgumentError(f"Need least two elements in shape_and_slice specification: {text}")
    if not all(dim.isdecimal() and int(dim) <= _MAX_DIM for dim in dims):
        raise InvalidArgumentError(f"Non numerical dimension in shape_and_slice: {text}")
    shape, parsed = tuple(map(int, dims)), TensorSlice.parse(part)
    return ShapeAndSlice(shape, parsed, parsed.box(shape))


# Boxes


def sizes_of(box: Box) -> tuple[int, ...]:
    return tuple(stop - start for start, stop in box)


def volume(box: Box) -> int:
    """Return the number of elements in a box."""
    return math.prod(sizes_of(box))


def intersection(a: Box, b: Box) -> Box | None:
    """Return the intersection of two boxes, or None if it is empty."""
    both = tuple((max(x[0], y[0]), min(x[1], y[1])) for x, y in zip(a, b, strict=True))
    return both if all(start < stop for start, stop in both) else None


def within(box: Box, outer: Box) -> Box:
    """Return a box relative to the start of `outer`."""
    return tuple((start - at, stop - at) for (start, stop), (at, _) in zip(box, outer, strict=True))


def index(box: Box) -> Any:
    """Return an index that takes a box out of an array; the result is an array even for rank 0."""
    return (..., *(slice(start, stop) for start, stop in box))


def covers(boxes: Iterable[Box], wanted: Box) -> bool:
    """Return whether the union of boxes, which may overlap, contains the box `wanted`.

    For slices that partition a tensor along its dimensions the time is about linear in their number.

    Raises:
        InvalidArgumentError: the overlaps are too many to decide in about a second.
    """
    inner = sorted(both for box in boxes if (both := intersection(box, wanted)) is not None)
    if sum(map(volume, inner)) < volume(wanted):
        return False
    missing = [wanted] if volume(wanted) else []
    compared = 0
    for box in inner:
        compared += len(missing)
        if compared > _MOST_COMPARISONS:
            raise InvalidArgumentError(f"{len(inner)} slices of a tensor overlap in too many ways")
        missing = [rest for each in missing for rest in _difference(each, box)]
    return not missing


def _difference(box: Box, taken: Box) -> list[Box]:
    """Return the difference of two boxes: at most two boxes per dimension."""
    both = intersection(box, taken)
    if both is None:
        return [box]
    left = []
    for k, (start, stop) in enumerate(both):
        for low, high in ((box[k][0], start), (stop, box[k][1])):
            if low < high:
                left.append((*both[:k], (low, high), *box[k + 1 :]))
    return left
