"""The geometry of sliding windows, shared by convolutions and pooling.

Images have two spatial axes, volumes three; documentation of images applies to both. Along each axis, windows of a size and a
dilation are placed a stride apart over the padded image. `padding` is SAME (ceil(size / stride) windows, padding divided
evenly with the odd element after), VALID (none), or EXPLICIT (given).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError, UnimplementedError
from aioexec.graph.kernels.interruption import check_cancelled
from aioexec.graph.kernels.kernel import Attrs
from aioexec.shapes import Dims, as_size

Array: TypeAlias = np.ndarray[Any, Any]
SPATIAL = {"NHWC": (1, 2), "NCHW": (2, 3), "NDHWC": (1, 2, 3), "NCDHW": (2, 3, 4)}
DEPTH = {"NHWC": 3, "NCHW": 1, "NDHWC": 4, "NCDHW": 1}


@dataclass(frozen=True, slots=True)
class Axis:
    """The windows along one spatial axis.

    Attributes:
        size: size of the image.
        window: number of taps of a window, `dilation` apart.
        before: padding before the image.
        count: number of windows, the size of the output.
    """

    size: int
    window: int
    stride: int
    dilation: int
    before: int
    count: int

    @property
    def reach(self) -> int:
        """Number of elements of the padded image that the windows cover."""
        return (self.count - 1) * self.stride + (self.window - 1) * self.dilation + 1

    @property
    def is_pointwise(self) -> bool:
        """Whether window k is just element k of the image."""
        return self.window == 1 and self.stride == 1 and self.before == 0 and self.count == self.size

    @property
    def is_partition(self) -> bool:
        """Whether each element of the image is in one window."""
        return (
            self.window == self.stride
            and self.dilation == 1
            and self.before == 0
            and self.size == self.count * self.window
        )

    def tap(self, index: int) -> slice:
        """Return a slice of the elements of the padded image that tap `index` reads."""
        if self.count == 0:
            return slice(0, 0)
        start = index * self.dilation
        return slice(start, start + (self.count - 1) * self.stride + 1, self.stride)

    def seen_taps(self) -> range:
        """Return the range of taps without leading and trailing taps that read only padding."""
        if not self.count:
            return range(0)
        end = min(self.window, -(-(self.size + self.before) // self.dilation))
        farthest = (self.count - 1) * self.stride
        return range(min(max((self.before - farthest) // self.dilation, 0), max(end - 1, 0)), end)

    def seen(self) -> Axis:
        """Return the axis restricted to `seen_taps`."""
        taps = self.seen_taps()
        if not taps:
            return self
        before = self.before - taps.start * self.dilation
        return Axis(self.size, len(taps), self.stride, self.dilation, before, self.count)

    def inside(self, index: int) -> Array:
        """Return for each window whether tap `index` is in the image."""
        places = np.arange(self.count) * self.stride + index * self.dilation - self.before
        return (places >= 0) & (places < self.size)


Axes: TypeAlias = tuple[Axis, ...]


def output_size(
    size: int, window: int, stride: int, dilation: int, padding: str, explicit: tuple[int, int]
) -> int:
    """Return the number of windows; raises ValueError if the window exceeds the padded image."""
    extent = (window - 1) * dilation + 1
    if padding == "SAME":
        return -(-size // stride)
    total = size + sum(explicit) if padding == "EXPLICIT" else size
    if total < extent:
        raise ValueError(f"Negative dimension size caused by subtracting {extent} from {total}")
    return (total - extent) // stride + 1


def _along(attrs: Attrs, name: str, axis: int, default: int = 1) -> int:
    values = attrs.get(name)
    return int(values[axis]) if values else default


def _explicit(attrs: Attrs, axis: int) -> tuple[int, int]:
    values = attrs.get("explicit_paddings") or (0,) * 8
    return int(values[2 * axis]), int(values[2 * axis + 1])


def make_axis(attrs: Attrs, axis: int, size: int, window: int) -> Axis:
    """Return the windows along one axis of the image for a node's attributes; raises InvalidArgumentError."""
    stride, dilation = _along(attrs, "strides", axis), _along(attrs, "dilations", axis)
    padding, explicit = attrs["padding"], _explicit(attrs, axis)
    try:
        count = output_size(size, window, stride, dilation, padding, explicit)
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from None
    before = 0
    if padding == "EXPLICIT":
        before = explicit[0]
    elif padding == "SAME":
        before = max((count - 1) * stride + (window - 1) * dilation + 1 - size, 0) // 2
    return Axis(size, window, stride, dilation, before, count)


def make_axes(attrs: Attrs, image: Sequence[int], window: Sequence[int]) -> Axes:
    """Return the windows along the spatial axes of an image of this shape, in the order of `data_format`."""
    spatial = SPATIAL[attrs["data_format"]]
    return tuple(
        make_axis(attrs, axis, image[axis], taps) for axis, taps in zip(spatial, window, strict=False)
    )


def taps(axes: Axes, seen: bool = False) -> Iterator[tuple[int, ...]]:
    """Yield the taps of a window in order, each as its index along each axis.

    Args:
        seen: leave out leading and trailing taps that read only padding.
    """
    for tap in itertools.product(*(axis.seen_taps() if seen else range(axis.window) for axis in axes)):
        check_cancelled()
        yield tap


def sees_all(axes: Axes) -> bool:
    """Return whether no tap reads only padding."""
    return all(len(axis.seen_taps()) == axis.window for axis in axes)


def seen_by(axes: Axes, tap: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the NumPy index of the elements of padded images that a tap reads."""
    return (slice(None), *(axis.tap(index) for axis, index in zip(axes, tap, strict=True)))


def counts(axes: Axes) -> tuple[int, ...]:
    """Return the number of windows along each axis."""
    return tuple(axis.count for axis in axes)


def inside(axes: Axes, tap: tuple[int, ...]) -> Array:
    """Return for each window whether a tap is in the image, with batch and channel dimensions of 1."""
    along = [axis.inside(index) for axis, index in zip(axes, tap, strict=True)]
    return functools.reduce(np.logical_and.outer, along)[None, ..., None]


def infer_windows(attrs: Attrs, image: Dims, window: Dims, depth: int | None) -> Dims:
    """Return the static output shape: one element per window, `depth` channels.

    Raises:
        GraphValueError: a window exceeds the padded image.
    """
    assert image is not None
    assert window is not None
    result: list[int | None] = [image[0]] + [None] * (len(image) - 1)
    result[DEPTH[attrs["data_format"]]] = depth
    for axis, taps in zip(SPATIAL[attrs["data_format"]], window, strict=True):
        size, stride, dilation = image[axis], _along(attrs, "strides", axis), _along(attrs, "dilations", axis)
        if size is not None and (taps is not None or attrs["padding"] == "SAME"):
            try:
                result[axis] = output_size(
                    size,
                    1 if taps is None else taps,
                    stride,
                    dilation,
                    attrs["padding"],
                    _explicit(attrs, axis),
                )
            except ValueError as error:
                raise GraphValueError(str(error)) from None
    return tuple(result)


def check_attrs(attrs: Attrs) -> None:
    """Check attributes of a node; raises GraphValueError."""
    if attrs["data_format"] not in SPATIAL:
        raise GraphValueError(f"data_format {attrs['data_format']!r} is not supported here")
    rank = len(attrs["data_format"])
    for name in ("strides", "dilations", "ksize"):
        values = attrs.get(name)
        if values is not None and len(values) != rank:
            raise GraphValueError(f"attr {name!r} must specify {rank} dimensions, got {values!r}")
        if values is not None and min(values) <= 0:
            raise GraphValueError(f"attr {name!r} must be positive, got {values!r}")
    explicit = attrs.get("explicit_paddings") or ()
    if attrs["padding"] == "EXPLICIT" and (len(explicit) != 8 or min(explicit) < 0):
        raise GraphValueError(f"explicit_paddings must hold 8 values of at least 0, got {explicit!r}")
    if attrs["padding"] != "EXPLICIT" and explicit:
        raise GraphValueError(
            f"explicit_paddings is for padding 'EXPLICIT', got {explicit!r} with {attrs['padding']!r}"
        )


def check_spatial_only(attrs: Attrs, names: Sequence[str]) -> None:
    """Check that windows do not move along batch or channels; raises UnimplementedError."""
    for name in names:
        values = attrs.get(name)
        if values and len(values) != len(attrs["data_format"]):
            raise GraphValueError(
                f"attr {name!r} must specify {len(attrs['data_format'])} dimensions, got {values!r}"
            )
        if values and (values[0] != 1 or values[DEPTH[attrs["data_format"]]] != 1):
            raise UnimplementedError(f"{name} in the batch and channel dimensions must be 1, got {values!r}")


def channels_last(attrs: Attrs, value: Array) -> Array:
    """Return a view with the channels after the spatial axes."""
    return np.moveaxis(value, 1, -1) if attrs["data_format"].startswith("NC") else value


def as_given(attrs: Attrs, value: Array) -> Array:
    """Return a view of a channels-last image in the order of `data_format`."""
    return np.moveaxis(value, -1, 1) if attrs["data_format"].startswith("NC") else value


def finish(attrs: Attrs, result: Array, dtype: np.dtype[Any]) -> Array:
    """Return a channels-last result in the order of `data_format`, contiguous, in a dtype."""
    return np.ascontiguousarray(as_given(attrs, result)).astype(dtype, copy=False)


def pad(value: Array, axes: Axes, fill: Any = 0) -> Array:
    """Pad a channels-last image as far as its windows reach."""
    edges = [(axis.before, max(axis.reach - axis.before - axis.size, 0)) for axis in axes]
    if not np.any(edges):
        return value
    return np.pad(value, ((0, 0), *edges, (0, 0)), constant_values=fill)


def crop(padded: Array, axes: Axes) -> Array:
    """Return the image inside a padded one."""
    return padded[(slice(None), *(slice(axis.before, axis.before + axis.size) for axis in axes))]


def padded_shape(batch: int, axes: Axes, depth: int) -> tuple[int, ...]:
    """Return the shape of a padded image."""
    return batch, *(max(axis.reach, axis.before + axis.size) for axis in axes), depth


# Arguments of the public functions


def per_axis(value: Any, name: str, data_format: str) -> list[int]:
    """Expand strides, dilations or a window size (an int, one value, one per spatial axis, or all) to all dimensions.

    Raises:
        GraphValueError: the number of values is different.
    """
    values = [value] if isinstance(value, int) or not hasattr(value, "__iter__") else list(value)
    sizes = [as_size(each) for each in values]
    spatial, rank = SPATIAL[data_format], len(data_format)
    if len(sizes) == rank:
        return [int(each or 0) for each in sizes]
    if len(sizes) not in (1, len(spatial)):
        raise GraphValueError(f"{name} should be of length 1, {len(spatial)} or {rank}, got {value!r}")
    result = [1] * rank
    for axis, size in zip(spatial, sizes if len(sizes) > 1 else sizes * len(spatial), strict=True):
        result[axis] = int(size or 0)
    return result


def padding_attrs(padding: Any) -> dict[str, Any]:
    """Return the attributes for a padding given by name or as four pairs (before, after)."""
    if padding is None:
        raise GraphValueError("padding must be given")
    if isinstance(padding, str):
        name = padding.upper()
        if name not in ("SAME", "VALID"):
            raise GraphValueError(
                f"padding must be 'SAME', 'VALID' or four pairs of integers, got {padding!r}"
            )
        return {"padding": name}
    pairs = [tuple(pair) for pair in padding]
    if len(pairs) != 4 or any(len(pair) != 2 for pair in pairs):
        raise GraphValueError(f"explicit padding must be four pairs of integers, got {padding!r}")
    return {"padding": "EXPLICIT", "explicit_paddings": [int(size) for pair in pairs for size in pair]}


def format_name(data_format: str | None, default: str = "NHWC") -> str:
    """Check the name of a data format; None means the default."""
    if data_format is None:
        return default
    if data_format not in SPATIAL or len(data_format) != len(default):
        names = [repr(name) for name in SPATIAL if len(name) == len(default)]
        raise GraphValueError(f"data_format must be {' or '.join(names)}, got {data_format!r}")
    return data_format


def renamed(old: Any, new: Any, old_name: str, new_name: str) -> Any:
    """Return the argument that was given; one is a newer name of the other."""
    if old is not None and new is not None:
        raise GraphTypeError(f"give either {old_name!r} or {new_name!r}, not both")
    value = old if new is None else new
    if value is None:
        raise GraphTypeError(f"{old_name!r} must be given")
    return value
