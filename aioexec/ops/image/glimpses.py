"""Glimpses: windows of one size out of images at given places, with noise where a window is outside of its image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.kernels.kernel import Attrs, Compute, KernelContext
from aioexec.graph.node import Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register, undefined_gradient
from aioexec.shapes import Dims, compatible, merge, with_rank

Array = np.ndarray[Any, Any]


def first_pixel(offset: float, image: int, window: int, attrs: Attrs, version: int) -> int:
    """Return the first row (or column) of a window: an offset in pixels or in shares of the image, from its edge or middle.

    Offsets from the middle of the image are in half pixels or half images, and offsets are those of the middle of the window;
    in the second version of the op, only if they are normalised and from the middle of the image.
    """
    place = np.float32(offset)
    normalized, centered = attrs["normalized"], attrs["centered"]
    if normalized:
        place *= np.float32(image)
    if centered:
        is_halved = normalized or version == 1
        place = (place / np.float32(2) if is_halved else place) + np.float32(image) / np.float32(2)
    if (normalized and centered) or version == 1:
        place -= np.float32(window) / np.float32(2)
    return int(place)


def noise_like(image: Array, shape: tuple[int, ...], kind: str, draw: np.random.Generator) -> Array:
    """Return noise in the range of the image, or with the moments of each of its channels."""
    if kind == "zero":
        return np.zeros(shape, np.float32)
    if kind == "uniform":
        return draw.uniform(image.min(), image.max(), shape).astype(np.float32)
    drawn = draw.normal(image.mean((0, 1)), image.std((0, 1)), shape)
    return np.clip(drawn, image.min((0, 1)), image.max((0, 1))).astype(np.float32)


def noise_of(attrs: Attrs) -> str:
    noise, uniform = attrs["noise"], attrs["uniform_noise"]
    if uniform and noise not in ("", "uniform"):
        raise InvalidArgumentError("The uniform_noise and noise could not be specified at the same time")
    if noise not in ("", "uniform", "gaussian", "zero"):
        raise InvalidArgumentError(f"The noise could only be uniform, gaussian, or zero, got {noise!r}")
    return str(noise) or ("uniform" if uniform else "gaussian")


def glimpse_kernel(version: int) -> Any:
    def bind(context: KernelContext) -> Compute:
        attrs, kind, draw = context.attrs, noise_of(context.attrs), np.random.default_rng()

        def compute(images: Array, size: Array, offsets: Array) -> Array:
            if images.ndim != 4 or size.shape != (2,):
                raise InvalidArgumentError(
                    f"input must be 4-D and size of 2 elements, got shapes {list(images.shape)}, {list(size.shape)}"
                )
            if offsets.shape != (len(images), 2):
                raise InvalidArgumentError(
                    f"offsets must be [{len(images)}, 2], got shape {list(offsets.shape)}"
                )
            if (size < 0).any():
                raise InvalidArgumentError(f"size must not be negative, got {size.tolist()}")
            height, width = (int(each) for each in size)
            result = np.empty((len(images), height, width, images.shape[3]), np.float32)
            for image, glimpse, offset in zip(images, result, offsets, strict=True):
                places = [
                    first_pixel(offset[axis], image.shape[axis], glimpse.shape[axis], attrs, version)
                    for axis in (0, 1)
                ]
                copy_window(image, glimpse, places, kind, draw)
            return result

        return compute

    return bind


def copy_window(
    image: Array, glimpse: Array, places: Sequence[int], kind: str, draw: np.random.Generator
) -> None:
    """Copy the window at `places` out of the image, and set what is outside to noise."""
    inside, source = [], []
    for place, size, window in zip(places, image.shape, glimpse.shape, strict=False):
        first, last = max(place, 0), max(min(place + window, size), place, 0)
        source.append(slice(first, last))
        inside.append(slice(first - place, last - place))
    if any(each.stop - each.start < window for each, window in zip(inside, glimpse.shape, strict=False)):
        glimpse[...] = noise_like(image, glimpse.shape, kind, draw)
    glimpse[tuple(inside)] = image[tuple(source)]


def glimpse_shape(context: ShapeContext) -> Sequence[Dims]:
    images, offsets = with_rank(context.inputs[0], 4), with_rank(context.inputs[2], 2)
    merge(context.inputs[1], (2,))
    assert images is not None
    assert offsets is not None
    if not compatible(offsets[1:], (2,)):
        raise GraphValueError(f"offsets must have 2 columns, got shape {offsets}")
    batch = merge(images[:1], offsets[:1])
    height, width = merge(context.partial(1), (None, None)) or (None, None)
    assert batch is not None
    return [(*batch, height, width, images[3])]


for _version, _name in ((1, "ExtractGlimpse"), (2, "ExtractGlimpseV2")):
    register(
        f"{_name}(input:float, size:int32, offsets:float) -> (glimpse:float) "
        "[centered:bool=true; normalized:bool=true; uniform_noise:bool=true; noise:string='uniform']",
        shape=glimpse_shape,
        kernel=glimpse_kernel(_version),
        gradient=NOT_DIFFERENTIABLE if _version == 1 else undefined_gradient,
        shape_operands=(1,),
    )


def extract_glimpse(
    input: Any,
    size: Any,
    offsets: Any,
    centered: bool = True,
    normalized: bool = True,
    uniform_noise: bool = True,
    name: str | None = None,
) -> Tensor:
    """Cut windows out of images, with noise where a window is outside of its image.

    Args:
        input: float32 [batch, height, width, channels].
        size: height and width of the windows.
        offsets: float32 [batch, 2], the rows and columns of the windows.
        centered: offsets count from the middle of the image, else from its first pixel.
        normalized: offsets are shares of the size of the image, -1 … 1 if centred and 0 … 1 if not; else pixels.
        uniform_noise: has no effect, as in TensorFlow: noise is uniform in the range of the image. Its numbers are not
            TensorFlow's.

    Returns:
        float32 [batch, *size, channels].
    """
    flags = {"centered": centered, "normalized": normalized, "uniform_noise": uniform_noise}
    return apply_op("ExtractGlimpse", input, size, offsets, name=name, **flags)
