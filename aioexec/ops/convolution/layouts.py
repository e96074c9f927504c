"""Native forms for channels-first images (NCHW): those for channels-last images (NHWC) with transposing copies around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from aioexec.graph.kernels.kernel import Alias, Attrs, Bind, Launch, Launches, Operand, Spec
from aioexec.graph.kernels.launches import c_strides, copy_launch

_ALONG_AXES = ("strides", "dilations", "ksize")


def _turned_attrs(attrs: Attrs) -> dict[str, Any]:
    """Return the attributes of the same op for channels-last images."""
    turned = dict(attrs)
    data_format = attrs["data_format"]
    turned["data_format"] = f"N{data_format[2:]}C"
    for name in _ALONG_AXES:
        values = attrs.get(name)
        if values:
            turned[name] = (values[0], *values[2:], values[1])
    explicit = attrs.get("explicit_paddings")
    if explicit:
        turned["explicit_paddings"] = (*explicit[:2], *explicit[4:], *explicit[2:4])
    return turned


def _turned(spec: Spec) -> Spec:
    return replace(spec, shape=(spec.shape[0], *spec.shape[2:], spec.shape[1]))


def either_layout(bind: Bind, *, images: tuple[int, ...] = (), makes_image: bool = True) -> Bind:
    """Return a native form for both layouts.

    Args:
        bind: the form for channels-last; it must not use values of inputs.
        images: positions of the inputs that are images.
        makes_image: whether output 0 is an image.
    """

    def bound(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | Alias | None:
        if not attrs["data_format"].startswith("NC"):
            return bind(attrs, inputs, outputs)
        if any(len(inputs[k].shape) != len(attrs["data_format"]) for k in images):
            return None
        turned_inputs = [_turned(spec) if k in images else spec for k, spec in enumerate(inputs)]
        turned_outputs = [_turned(outputs[0]), *outputs[1:]] if makes_image else outputs
        inner = bind(_turned_attrs(attrs), turned_inputs, turned_outputs)
        if not isinstance(inner, Launches) or not inner.rows:
            return inner
        return _with_copies(inner, inputs, outputs[0] if makes_image else None, images)

    return bound


def _with_copies(
    inner: Launches, inputs: Sequence[Spec], image: Spec | None, images: Sequence[int]
) -> Launches:
    """Run the launches on transposed copies of the images in scratch memory."""
    used = {(at.kind, at.index) for row in inner.rows for at in row.operands}
    sizes = list(inner.scratch)
    places: dict[tuple[str, int], int] = {}
    before: list[Launch | None] = []
    after: list[Launch | None] = []
    for k in images:
        if ("input", k) in used:
            places["input", k] = len(sizes)
            sizes.append(max(inputs[k].nbytes, 1))
            before.append(
                _channels_last(inputs[k], Operand("input", k), Operand("scratch", places["input", k]))
            )
    if image is not None:
        places["output", 0] = len(sizes)
        sizes.append(max(image.nbytes, 1))
        after.append(_channels_first(image, Operand("scratch", places["output", 0]), Operand("output", 0)))
    rows = [
        replace(row, operands=tuple(_moved(operand, places) for operand in row.operands))
        for row in inner.rows
    ]
    return Launches(tuple(row for row in (*before, *rows, *after) if row is not None), tuple(sizes))


def _moved(operand: Operand, places: dict[tuple[str, int], int]) -> Operand:
    place = places.get((operand.kind, operand.index))
    return operand if place is None else replace(operand, kind="scratch", index=place)


def _strides(spec: Spec) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the shape [batch, places, channels], and its strides for channels-first and channels-last."""
    batch, channels = spec.shape[:2]
    size = spec.dtype.itemsize
    places = spec.size // max(batch * channels, 1)
    first = (channels * places * size, size, places * size)
    shape = (batch, places, channels)
    return shape, first, c_strides(shape, size)


def _channels_last(spec: Spec, source: Operand, target: Operand) -> Launch | None:
    shape, first, last = _strides(spec)
    return copy_launch(source, first, target, last, shape, spec.dtype.itemsize)


def _channels_first(spec: Spec, source: Operand, target: Operand) -> Launch | None:
    shape, first, last = _strides(spec)
    return copy_launch(source, last, target, first, shape, spec.dtype.itemsize)
