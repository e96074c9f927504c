"""Programs of convolutions: products whose left matrix is the windows of an image, read where they are (implicit gemm).

The gradient of the image is a convolution too: of the gradients, with zeros between and around them, with the reversed filter.
That of the filter sums products over all windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from aioexec.devices.cuda.programs.products import Contraction, contract, sum_dtype
from aioexec.devices.cuda.programs.program import OUTPUT, Binder, Program, full
from aioexec.devices.cuda.programs.reducing import SUM, zero
from aioexec.devices.cuda.programs.windows import padded, spread_out, step_strides, windows
from aioexec.devices.cuda.ptx.reductions import Reduction
from aioexec.graph.kernels.kernel import Attrs, Operand, Spec
from aioexec.graph.kernels.launches import View, c_strides


class Sliding(NamedTuple):
    """Windows that slide over an image, and values of which there is one for each window and filter.

    Attributes:
        image: the image, with padding around it if windows reach beyond it.
        strides, value_strides: of the image and of the values, for image, rows, columns and channels.
        counts: images, and rows and columns of windows.
        steps: see `step_strides`.
        groups: of channels.
    """

    image: View
    strides: tuple[int, int, int, int]
    value_strides: tuple[int, int, int, int]
    counts: tuple[int, int, int]
    steps: tuple[int, int, int, int]
    groups: int


def slide(program: Program, attrs: Attrs, x: Spec, filter_shape: Sequence[int], values: Spec) -> Sliding:
    """The windows of filters over input 0, which is padded if they reach beyond it."""
    rows, columns, depth, _ = filter_shape
    at = windows(attrs, (rows, columns), x.shape, values.shape)
    image = padded(program, Operand("input", 0), x.dtype.name, x.shape, at, values.shape)
    value_strides = at.of(c_strides(values.shape, values.dtype.itemsize))
    groups = at.of(x.shape)[3] // max(depth, 1) or 1
    return Sliding(
        image,
        at.of(image.strides),
        value_strides,
        at.of(values.shape)[:3],
        step_strides(at, image),
        groups,
    )


def bind_forward(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program | None:
    """m: the windows; k: what is in one of them; n: the filters; batch: groups of channels."""
    x, filter_, out = inputs[0], inputs[1], outputs[0]
    dtype, program = x.dtype.name, Program()
    if len(x.shape) != 4:
        return None
    rows, columns, depth, filters = filter_.shape
    if 0 in out.shape:
        return program
    image, a, c, (images, height, width), steps, groups = slide(program, attrs, x, filter_.shape, out)
    down, right, row, column = steps
    b = c_strides(filter_.shape, filter_.dtype.itemsize)
    group = filters // groups
    contract(
        program,
        Contraction(
            (image.operand, dtype),
            (Operand("input", 1), dtype),
            (OUTPUT, dtype),
            ((groups, depth * a[3], group * b[3], group * c[3]),),
            ((images, a[0], c[0]), (height, down, c[1]), (width, right, c[2])),
            ((group, b[3], c[3]),),
            ((rows, row, b[0]), (columns, column, b[1]), (depth, a[3], b[2])),
        ),
    )
    return program


def bind_filter_gradient(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program | None:
    """m: a place in the filter; k: the windows; n: the filters; batch: groups of channels."""
    x, dy, out = inputs[0], inputs[2], outputs[0]
    dtype, program = x.dtype.name, Program()
    if len(x.shape) != 4:
        return None
    rows, columns, depth, filters = out.shape
    if 0 in dy.shape or 0 in x.shape:
        program.zeros(out)
        return program
    image, a, b, (images, height, width), steps, groups = slide(program, attrs, x, out.shape, dy)
    down, right, row, column = steps
    c = c_strides(out.shape, out.dtype.itemsize)
    group = filters // groups
    contract(
        program,
        Contraction(
            (image.operand, dtype),
            (Operand("input", 2), dtype),
            (OUTPUT, dtype),
            ((groups, depth * a[3], group * b[3], group * c[3]),),
            ((rows, row, c[0]), (columns, column, c[1]), (depth, a[3], c[2])),
            ((group, b[3], c[3]),),
            ((images, a[0], b[0]), (height, down, b[1]), (width, right, b[2])),
        ),
    )
    return program


def bind_input_gradient(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program | None:
    """m: the elements of the image; k: places in the filter, reversed, and filters; n: channels; batch: groups of channels."""
    filter_, dy, out = inputs[1], inputs[2], outputs[0]
    dtype, program = dy.dtype.name, Program()
    if len(dy.shape) != 4 or len(out.shape) != 4:
        return None
    rows, columns, depth, filters = filter_.shape
    at = windows(attrs, (rows, columns), out.shape, dy.shape)
    if 0 in dy.shape or 0 in out.shape or 0 in filter_.shape:
        program.zeros(out)
        return program
    spread = spread_out(program, full(Operand("input", 2), dtype, dy.shape), dy.shape, at, out.shape)
    a, c = at.of(spread.strides), at.of(c_strides(out.shape, out.dtype.itemsize))
    b = c_strides(filter_.shape, filter_.dtype.itemsize)
    images, height, width, channels = at.of(out.shape)
    groups = channels // depth
    group = filters // groups
    contract(
        program,
        Contraction(
            (spread.operand, dtype),
            (Operand("input", 1, (rows - 1) * b[0] + (columns - 1) * b[1]), dtype),
            (OUTPUT, dtype),
            ((groups, group * a[3], group * b[3], depth * c[3]),),
            ((images, a[0], c[0]), (height, a[1], c[1]), (width, a[2], c[2])),
            ((depth, b[2], c[3]),),
            (
                (rows, at.dilation[0] * a[1], -b[0]),
                (columns, at.dilation[1] * a[2], -b[1]),
                (group, a[3], b[3]),
            ),
        ),
    )
    return program


def bind_depthwise(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program | None:
    """A sum over each window for each channel and multiplier."""
    x, filter_, out = inputs[0], inputs[1], outputs[0]
    dtype, program = x.dtype.name, Program()
    rows, columns, depth, multiplier = filter_.shape
    if 0 in out.shape:
        return program
    image, a, c, (images, height, width), steps, _ = slide(program, attrs, x, filter_.shape, out)
    down, right, row, column = steps
    b = c_strides(filter_.shape, filter_.dtype.itemsize)
    program.reduce(
        product_sum(dtype),
        [
            View(image.operand, dtype, (a[0], down, right, a[3], 0, row, column)),
            View(Operand("input", 1), dtype, (0, 0, 0, b[2], b[3], b[0], b[1])),
        ],
        View(OUTPUT, dtype, (c[0], c[1], c[2], multiplier * c[3], c[3])),
        (images, height, width, depth, multiplier, rows, columns),
        {5, 6},
    )
    return program


def product_sum(dtype: str) -> Reduction:
    """The sum of products of two operands."""
    kind = sum_dtype(dtype)
    return Reduction(
        f"z = cast(x, {kind!r}) * cast(f, {kind!r})",
        SUM,
        f"y = cast(c, {dtype!r})",
        (("x", dtype), ("f", dtype)),
        kind,
        dtype,
        zero(kind),
    )


def bind_depthwise_input_gradient(
    attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Program | None:
    """A sum over places in the filter, reversed, and multipliers."""
    filter_, dy, out = inputs[1], inputs[2], outputs[0]
    dtype, program = dy.dtype.name, Program()
    rows, columns, depth, multiplier = filter_.shape
    at = windows(attrs, (rows, columns), out.shape, dy.shape)
    if 0 in dy.shape or 0 in out.shape or 0 in filter_.shape:
        program.zeros(out)
        return program
    spread = spread_out(program, full(Operand("input", 2), dtype, dy.shape), dy.shape, at, out.shape)
    a, c = at.of(spread.strides), at.of(c_strides(out.shape, out.dtype.itemsize))
    b = c_strides(filter_.shape, filter_.dtype.itemsize)
    images, height, width, _ = at.of(out.shape)
    down, right = at.dilation[0] * a[1], at.dilation[1] * a[2]
    last = Operand("input", 1, (rows - 1) * b[0] + (columns - 1) * b[1])
    program.reduce(
        product_sum(dtype),
        [
            View(spread.operand, dtype, (a[0], a[1], a[2], multiplier * a[3], down, right, a[3])),
            View(last, dtype, (0, 0, 0, b[2], -b[0], -b[1], b[3])),
        ],
        View(OUTPUT, dtype, c),
        (images, height, width, depth, rows, columns, multiplier),
        {4, 5, 6},
    )
    return program


def bind_depthwise_filter_gradient(
    attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Program | None:
    """A sum over the windows for each place in the filter, channel and multiplier."""
    x, dy, out = inputs[0], inputs[2], outputs[0]
    dtype, program = x.dtype.name, Program()
    rows, columns, depth, multiplier = out.shape
    if 0 in dy.shape or 0 in x.shape:
        program.zeros(out)
        return program
    image, a, b, (images, height, width), steps, _ = slide(program, attrs, x, out.shape, dy)
    down, right, row, column = steps
    program.reduce(
        product_sum(dtype),
        [
            View(image.operand, dtype, (row, column, a[3], 0, a[0], down, right)),
            View(Operand("input", 2), dtype, (0, 0, multiplier * b[3], b[3], *b[:3])),
        ],
        full(OUTPUT, dtype, out.shape),
        (rows, columns, depth, multiplier, images, height, width),
        {4, 5, 6},
    )
    return program


BINDERS: dict[str, Binder] = {
    "Conv2D": bind_forward,
    "Conv2DBackpropInput": bind_input_gradient,
    "Conv2DBackpropFilter": bind_filter_gradient,
    "DepthwiseConv2dNative": bind_depthwise,
    "DepthwiseConv2dNativeBackpropInput": bind_depthwise_input_gradient,
    "DepthwiseConv2dNativeBackpropFilter": bind_depthwise_filter_gradient,
}
