"""ExtractImagePatches, and morphological dilation (Dilation2D), which reduces the same patches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_list_op, apply_op
from aioexec.graph.convert import constant
from aioexec.graph.kernels.kernel import Attrs, Compute, KernelContext
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops.convolution.windows import (
    Array,
    Axes,
    check_attrs,
    check_spatial_only,
    counts,
    crop,
    infer_windows,
    inside,
    make_axes,
    pad,
    padded_shape,
    seen_by,
    taps,
)
from aioexec.ops.pooling.pool2d import lowest
from aioexec.shapes import Dims, merge, with_rank


def windows_of(attrs: Attrs) -> dict[str, Any]:
    """Return the attributes under the names that convolutions use."""
    found = {
        "strides": attrs["strides"],
        "dilations": attrs["rates"],
        "padding": attrs["padding"],
        "data_format": "NHWC",
    }
    return found | {"ksize": attrs["ksizes"]} if "ksizes" in attrs else found


def _check_image(image: Array) -> None:
    if image.ndim != 4:
        raise InvalidArgumentError(f"input must be 4-dimensional, got shape {list(image.shape)}")


# Patches


def _patches_shape(context: ShapeContext) -> Sequence[Dims]:
    attrs = windows_of(context.attrs)
    check_attrs(attrs)
    image = with_rank(context.inputs[0], 4)
    assert image is not None
    _, height, width, _ = attrs["ksize"]
    depth = None if image[3] is None else image[3] * height * width
    return [infer_windows(attrs, image, (height, width), depth)]


def _patches_kernel(context: KernelContext) -> Compute:
    attrs = windows_of(context.attrs)
    check_spatial_only(attrs, ("ksize", "strides", "dilations"))
    window = attrs["ksize"][1:3]

    def compute(image: Array) -> Array:
        _check_image(image)
        axes = make_axes(attrs, image.shape, window)
        padded = pad(image, axes)
        return np.concatenate([padded[seen_by(axes, tap)] for tap in taps(axes)], axis=3)

    return compute


def _patches_gradient(op: Operation, dy: Tensor) -> Sequence[Tensor]:
    if not dy.dtype.base_dtype.is_complex:
        return (_patches_adjoint(op, dy),)
    parts = [
        _patches_adjoint(op, apply_op(part, dy, Tout=dy.dtype.base_dtype.real_dtype))
        for part in ("Real", "Imag")
    ]
    return (apply_op("Complex", *parts, Tout=dy.dtype.base_dtype),)


def _patches_adjoint(op: Operation, dy: Tensor) -> Tensor:
    """The gradient: patches are a convolution with one-hot filters, applied to each channel as an image of its own."""
    attrs = windows_of(op.attrs)
    _, height, width, _ = attrs.pop("ksize")
    picked = height * width
    batch, rows, columns, depth = apply_list_op("Unpack", apply_op("Shape", op.inputs[0]), num=4)
    out_rows, out_columns = apply_list_op("Unpack", apply_op("Shape", dy), num=4)[1:3]
    split = apply_op("Reshape", dy, apply_op("Pack", [batch, out_rows, out_columns, picked, depth]))
    apart = apply_op("Transpose", split, constant(np.array([0, 4, 1, 2, 3], np.int32)))
    images = apply_op("Mul", batch, depth)
    above = apply_op("Reshape", apart, apply_op("Pack", [images, out_rows, out_columns, picked]))
    filters = constant(np.eye(picked).reshape(height, width, 1, picked), dy.dtype.base_dtype)
    dx = apply_op(
        "Conv2DBackpropInput", apply_op("Pack", [images, rows, columns, 1]), filters, above, **attrs
    )
    joined = apply_op("Reshape", dx, apply_op("Pack", [batch, depth, rows, columns]))
    return apply_op("Transpose", joined, constant(np.array([0, 2, 3, 1], np.int32)))


register(
    "ExtractImagePatches(images:T) -> (patches:T) [ksizes:list(int)>=4; strides:list(int)>=4; rates:list(int)>=4; "
    "T:type@25; padding:string{SAME|VALID}]",
    shape=_patches_shape,
    kernel=_patches_kernel,
    gradient=_patches_gradient,
)

# Dilation: the maximum over a window of image plus filter


def _dilation_shape(context: ShapeContext) -> Sequence[Dims]:
    attrs = windows_of(context.attrs)
    check_attrs(attrs)
    image, filters = with_rank(context.inputs[0], 4), with_rank(context.inputs[1], 3)
    assert image is not None
    assert filters is not None
    depth = merge(image[3:], filters[2:])
    assert depth is not None
    return [infer_windows(attrs, image, filters[:2], depth[0])]


def _axes_of(attrs: Attrs, image: Array, filters: Array) -> Axes:
    _check_image(image)
    if filters.ndim != 3 or filters.shape[2] != image.shape[3]:
        raise InvalidArgumentError(
            f"filter must be 3-dimensional and as deep as the input, got shapes {list(filters.shape)} and {list(image.shape)}"
        )
    return make_axes(attrs, image.shape, filters.shape[:2])


def _best_taps(image: Array, filters: Array, axes: Axes) -> tuple[Array, Array]:
    """Return the maximum of each window and its first tap; taps outside of the image are excluded."""
    padded, least = pad(image, axes), lowest(image.dtype)
    shape = (len(image), *counts(axes), image.shape[3])
    best, found = np.full(shape, least, image.dtype), np.zeros(shape, np.int64)
    if not found.size:  # NumPy's copyto reads an element even of empty bfloat16 arrays
        return best, found
    for number, tap in enumerate(taps(axes)):
        value = padded[seen_by(axes, tap)] + filters[tap]
        better = inside(axes, tap) & (value > best)
        np.copyto(best, value, where=better)
        np.copyto(found, number, where=better)
    return best, found


def _checked_windows(attrs: Attrs) -> Attrs:
    windows = windows_of(attrs)
    check_spatial_only(windows, ("strides", "dilations"))
    for name, least in (("strides", 1), ("dilations", 0)):
        if min(windows[name]) < least or max(windows[name]) >= 2**31:
            raise InvalidArgumentError(f"{name} must be in [{least}, 2^31), got {windows[name]}")
    return windows


def _dilation_kernel(context: KernelContext) -> Compute:
    attrs = _checked_windows(context.attrs)
    return lambda image, filters: _best_taps(image, filters, _axes_of(attrs, image, filters))[0]


def _check_dy(dy: Array, image: Array, axes: Axes) -> None:
    expected = (len(image), *counts(axes), image.shape[3])
    if dy.shape != expected:
        raise InvalidArgumentError(f"out_backprop has shape {list(dy.shape)}, expected {list(expected)}")


def _by_input_kernel(context: KernelContext) -> Compute:
    attrs = _checked_windows(context.attrs)

    def compute(image: Array, filters: Array, dy: Array) -> Array:
        axes = _axes_of(attrs, image, filters)
        _check_dy(dy, image, axes)
        _, found = _best_taps(image, filters, axes)
        padded = np.zeros(padded_shape(len(image), axes, image.shape[3]), dy.dtype)
        for number, tap in enumerate(taps(axes)):
            padded[seen_by(axes, tap)] += np.where(found == number, dy, np.zeros((), dy.dtype))
        return np.ascontiguousarray(crop(padded, axes))

    return compute


def _by_filter_kernel(context: KernelContext) -> Compute:
    attrs = _checked_windows(context.attrs)

    def compute(image: Array, filters: Array, dy: Array) -> Array:
        axes = _axes_of(attrs, image, filters)
        _check_dy(dy, image, axes)
        _, found = _best_taps(image, filters, axes)
        result = np.zeros(filters.shape, dy.dtype)
        for number, tap in enumerate(taps(axes)):
            chosen = np.where(found == number, dy, np.zeros((), dy.dtype))
            result[tap] = np.sum(chosen, axis=(0, 1, 2), dtype=dy.dtype)
        return result

    return compute


def _dilation_gradient(op: Operation, dy: Tensor) -> Sequence[Tensor]:
    same = {name: op.attrs[name] for name in ("strides", "rates", "padding")}
    return tuple(
        apply_op(f"Dilation2DBackprop{which}", *op.inputs, dy, **same) for which in ("Input", "Filter")
    )


_WINDOWS = "T:type@12; strides:list(int)>=4; rates:list(int)>=4; padding:string{SAME|VALID}"

register(
    f"Dilation2D(input:T, filter:T) -> (output:T) [{_WINDOWS}]",
    shape=_dilation_shape,
    kernel=_dilation_kernel,
    gradient=_dilation_gradient,
)
for _name, _output, _shape, _kernel in (
    ("Input", "in_backprop", lambda context: [context.inputs[0]], _by_input_kernel),
    ("Filter", "filter_backprop", lambda context: [context.inputs[1]], _by_filter_kernel),
):
    register(
        f"Dilation2DBackprop{_name}(input:T, filter:T, out_backprop:T) -> ({_output}:T) [{_WINDOWS}]",
        shape=_shape,
        kernel=_kernel,
        gradient=undefined_gradient,
    )

# Public functions


def extract_image_patches(
    images: Any,
    ksizes: Any = None,
    strides: Any = None,
    rates: Any = None,
    padding: str | None = None,
    name: str | None = None,
    sizes: Any = None,
) -> Tensor:
    """Extract patches of images [batch, height, width, channels] and flatten each into the depth."""
    given = ksizes if sizes is None else sizes
    if given is None or padding is None:
        raise GraphValueError("extract_image_patches: sizes and padding must be given")
    windows = {"ksizes": list(given), "strides": list(strides), "rates": list(rates), "padding": padding}
    return apply_op("ExtractImagePatches", images, name=name, **windows)


def extract_patches(
    images: Any, sizes: Any, strides: Any, rates: Any, padding: str, name: str | None = None
) -> Tensor:
    """Extract patches as `extract_image_patches`."""
    return extract_image_patches(images, sizes, strides, rates, padding, name)


def dilation2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    rates: Any = None,
    padding: str | None = None,
    name: str | None = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    """Return the maximum over each window of image plus filter [height, width, channels], per channel."""
    taken, apart = filter if filters is None else filters, rates if dilations is None else dilations
    windows = {"strides": list(strides), "rates": list(apart), "padding": padding}
    return apply_op("Dilation2D", input, taken, name=name, **windows)
