"""Programs of pooling: reductions over the windows of an image.

The gradient of an average goes to all elements of its window, that of a maximum to the first largest: so an element sums up
what the windows it is in have for it. NaN is skipped, unless it is the first element of a window of which none is padding.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aioexec.devices.cuda.programs.program import OUTPUT, Binder, Program, full, wide
from aioexec.devices.cuda.programs.reducing import LARGEST, LEAST, SUM, lowest, lowest_finite, zero
from aioexec.devices.cuda.programs.windows import Windows, padded, spread_out, step_strides, windows
from aioexec.devices.cuda.ptx.reductions import Reduction
from aioexec.graph.kernels.kernel import Attrs, Operand, Spec
from aioexec.graph.kernels.launches import View

Shape = tuple[int, ...]
X = Operand("input", 0)


def pool(attrs: Attrs, image: Shape, outputs: Shape) -> Windows | None:
    """The windows; None if they are over images or channels too."""
    if attrs["data_format"] not in ("NHWC", "NCHW"):
        return None
    axes = (0, 2, 3, 1) if attrs["data_format"] == "NCHW" else (0, 1, 2, 3)
    size, strides = attrs["ksize"], attrs["strides"]
    if any(each[axes[k]] != 1 for each in (size, strides) for k in (0, 3)):
        return None
    return windows(attrs, (size[axes[1]], size[axes[2]]), image, outputs)


def over_windows(at: Windows, view: View) -> View:
    """An image with strides for images, rows and columns of windows, channels, and rows and columns in a window."""
    image, _, _, channel = at.of(view.strides)
    down, right, row, column = step_strides(at, view)
    return View(view.operand, view.dtype, (image, down, right, channel, row, column))


def combine(
    program: Program, reduction: Reduction, inputs: Sequence[View], target: View, at: Windows, outputs: Shape
) -> None:
    """Add a reduction over windows: inputs as `over_windows` gives them, and a result of this shape."""
    result = View(target.operand, target.dtype, at.of(target.strides))
    program.reduce(reduction, inputs, result, (*at.of(outputs), *at.size), {4, 5})


def bind_largest(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program | None:
    x, out = inputs[0], outputs[0]
    at = pool(attrs, x.shape, out.shape)
    if at is None:
        return None
    program, dtype = Program(), x.dtype.name
    if 0 in out.shape:
        return program
    kind = wide(dtype)
    least = lowest_finite(x.dtype)
    image = padded(program, X, dtype, x.shape, at, out.shape, str(least))
    find = Reduction(
        f"v = cast(x, {kind!r}); z = where(v > {least}, v, {least})",
        LARGEST,
        f"y = cast(c, {dtype!r})",
        (("x", dtype),),
        kind,
        dtype,
        lowest(kind),
    )
    combine(program, find, [over_windows(at, image)], full(OUTPUT, dtype, out.shape), at, out.shape)
    return program


def elements(program: Program, at: Windows, image: Shape, outputs: Shape) -> View:
    """How many elements of the image each window has, by row and column of windows: float32."""
    rows, columns = at.axes[1:3]
    flat = tuple(dim if axis in (rows, columns) else 1 for axis, dim in enumerate(image))
    ones = program.space("float32", flat)
    program.elementwise("y = 1.0", [], [("y", ones)], flat)
    shape = tuple(dim if axis in (rows, columns) else 1 for axis, dim in enumerate(outputs))
    inside = padded(program, ones.operand, "float32", flat, at, outputs)
    counts = program.space("float32", shape)
    count = Reduction("z = x", SUM, "y = c", (("x", "float32"),), "float32", "float32", 0.0)
    combine(program, count, [over_windows(at, inside)], counts, at, shape)
    strides = tuple(step if axis in (rows, columns) else 0 for axis, step in enumerate(counts.strides))
    return View(counts.operand, "float32", strides)


def bind_average(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program | None:
    x, out = inputs[0], outputs[0]
    at = pool(attrs, x.shape, out.shape)
    if at is None:
        return None
    program, dtype = Program(), x.dtype.name
    if 0 in out.shape:
        return program
    kind = wide(dtype)
    image = padded(program, X, dtype, x.shape, at, out.shape)
    total = program.space(kind, out.shape)
    add = Reduction(f"z = cast(x, {kind!r})", SUM, "y = c", (("x", dtype),), kind, kind, 0.0)
    combine(program, add, [over_windows(at, image)], total, at, out.shape)
    program.elementwise(
        f"r = t / cast(n, {kind!r}); y = cast(r, {dtype!r})",
        [("t", total), ("n", elements(program, at, x.shape, out.shape))],
        [("y", full(OUTPUT, dtype, out.shape))],
        out.shape,
    )
    return program


def bind_average_gradient(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program | None:
    dy, out = inputs[1], outputs[0]
    at = pool(attrs, out.shape, dy.shape)
    if at is None:
        return None
    program, dtype = Program(), dy.dtype.name
    if 0 in dy.shape or 0 in out.shape:
        program.zeros(out)
        return program
    kind = wide(dtype)
    shares = program.space(kind, dy.shape)
    program.elementwise(
        f"s = cast(d, {kind!r}) / cast(n, {kind!r})",
        [
            ("d", full(Operand("input", 1), dtype, dy.shape)),
            ("n", elements(program, at, out.shape, dy.shape)),
        ],
        [("s", shares)],
        dy.shape,
    )
    spread = spread_out(program, shares, dy.shape, at, out.shape)
    add = Reduction("z = x", SUM, f"y = cast(c, {dtype!r})", (("x", kind),), kind, dtype, 0.0)
    gather(program, add, [spread], at, out, dtype)
    return program


def gather(
    program: Program, reduction: Reduction, spread: Sequence[View], at: Windows, out: Spec, dtype: str
) -> None:
    """Add a reduction of the values of windows, spread out, over the windows that each element of the image is in."""
    views = []
    for each in spread:
        image, rows, columns, channel = at.of(each.strides)
        inner = (at.dilation[0] * rows, at.dilation[1] * columns)
        views.append(View(each.operand, each.dtype, (image, rows, columns, channel, *inner)))
    combine(program, reduction, views, full(OUTPUT, dtype, out.shape), at, out.shape)


def bind_largest_gradient(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program | None:
    """First the position of the first largest element of each window, then the sum for each element of the image."""
    x, y, dy = inputs
    out = outputs[0]
    at = pool(attrs, x.shape, y.shape)
    if at is None:
        return None
    program, dtype = Program(), x.dtype.name
    if 0 in dy.shape or 0 in out.shape:
        program.zeros(out)
        return program
    kind = wide(dtype)
    count = at.size[0] * at.size[1]
    image = padded(program, X, dtype, x.shape, at, y.shape, str(lowest(kind)))
    is_float = np.dtype(kind).kind == "f"
    value = (
        f"v = cast(x, {kind!r}); w = where(v > {lowest(kind)}, v, {lowest(kind)})" if is_float else "w = x"
    )
    find = Reduction(f"{value}; z = w", LARGEST, "y = c", (("x", dtype),), kind, kind, lowest(kind))
    largest = program.space(kind, dy.shape)
    seen = over_windows(at, image)
    combine(program, find, [seen], largest, at, y.shape)
    first = " | ((position == 0) & is_nan(x))" if is_float else ""
    place = Reduction(
        f"{value}; z = where((w == m){first}, cast(position, 'int32'), {count})",
        LEAST,
        "y = c",
        (("x", dtype), ("m", kind)),
        "int32",
        "int32",
        count,
    )
    positions = program.space("int32", dy.shape)
    known = View(largest.operand, kind, (*at.of(largest.strides), 0, 0))
    combine(program, place, [seen, known], positions, at, y.shape)
    gradients = full(Operand("input", 2), dtype, dy.shape)
    spread = [
        spread_out(program, gradients, dy.shape, at, out.shape),
        spread_out(program, positions, dy.shape, at, out.shape, str(count)),
    ]
    add = Reduction(
        f"p = {count - 1} - cast(position, 'int32'); w = cast(d, {kind!r}); z = where(q == p, w, {zero(kind)})",
        SUM,
        f"y = cast(c, {dtype!r})",
        (("d", dtype), ("q", "int32")),
        kind,
        dtype,
        zero(kind),
    )
    gather(program, add, spread, at, out, dtype)
    return program


BINDERS: dict[str, Binder] = {
    "MaxPool": bind_largest,
    "MaxPoolGrad": bind_largest_gradient,
    "AvgPool": bind_average,
    "AvgPoolGrad": bind_average_gradient,
}
