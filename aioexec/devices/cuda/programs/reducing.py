"""Programs of the ops that reduce: sums, means, extremes, norms, and the positions of extremes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec.devices.cuda.programs.program import OUTPUT, Binder, Program, full, wide
from aioexec.devices.cuda.ptx.reductions import Reduction
from aioexec.graph.kernels.kernel import Attrs, Operand, Spec
from aioexec.graph.kernels.launches import View

SUM, PRODUCT, LEAST, LARGEST = "c = a + b", "c = a * b", "c = minimum(a, b)", "c = maximum(a, b)"
X = Operand("input", 0)


def lowest(dtype: str) -> float | int:
    """The least value of a dtype."""
    return float("-inf") if np.dtype(dtype).kind == "f" else int(np.iinfo(dtype).min)


def highest(dtype: str) -> float | int:
    """The largest value of a dtype."""
    return float("inf") if np.dtype(dtype).kind == "f" else int(np.iinfo(dtype).max)


def lowest_finite(dtype: np.dtype[Any]) -> float | int:
    """The lowest finite number of a dtype."""
    if dtype.name == "bfloat16":
        return -float(np.uint32(0x7F7F0000).view(np.float32))
    return float(np.finfo(dtype).min) if dtype.kind == "f" else int(np.iinfo(dtype).min)


def highest_finite(dtype: np.dtype[Any]) -> float | int:
    """The highest finite number of a dtype."""
    return int(np.iinfo(dtype).max) if dtype.kind in "iu" else -lowest_finite(dtype)


def zero(dtype: str) -> float | int:
    return 0.0 if np.dtype(dtype).kind == "f" else 0


def one(dtype: str) -> float | int:
    return 1.0 if np.dtype(dtype).kind == "f" else 1


def axes_of(spec: Spec, rank: int) -> frozenset[int] | None:
    """The axes that an input names; None if its content is not known."""
    if spec.value is None:
        return None
    return frozenset(int(axis) % rank for axis in spec.value.reshape(-1)) if rank else frozenset()


def over_axes(combine: str, identity: Callable[[str], float | int], *, divides: bool = False) -> Binder:
    """A reduction of input 0 over the axes in input 1; if it divides, by the number of elements."""

    def bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program | None:
        x, given = inputs
        axes = axes_of(given, len(x.shape))
        if axes is None:
            return None
        dtype = x.dtype.name
        kind = "uint8" if dtype == "bool" else wide(dtype)
        if divides and np.dtype(kind).kind == "i":
            kind = "int64"
        elif divides and np.dtype(kind).kind == "u":
            kind = "uint64"
        result = "c"
        if divides and np.dtype(kind).kind == "f":
            result = f"c / cast(count, {kind!r})"
        elif divides:
            result = f"truncdiv(c, maximum(cast(count, {kind!r}), 1))"
        reduction = Reduction(
            f"z = cast(x, {kind!r})",
            combine,
            f"r = {result}; y = cast(r, {dtype!r})",
            (("x", dtype),),
            kind,
            dtype,
            identity(kind),
        )
        return reduced(reduction, x, axes, outputs[0])

    return bind


def reduced(reduction: Reduction, x: Spec, axes: frozenset[int], output: Spec) -> Program:
    """A reduction of input 0 over some axes into output 0."""
    program = Program()
    kept = tuple(dim for axis, dim in enumerate(x.shape) if axis not in axes)
    program.reduce(
        reduction,
        [full(X, x.dtype.name, x.shape)],
        full(OUTPUT, reduction.output, kept),
        x.shape,
        axes,
    )
    return program


def bind_l2_loss(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program:
    """Half the sum of squares."""
    x = inputs[0]
    dtype, kind = x.dtype.name, wide(x.dtype.name)
    reduction = Reduction(
        f"w = cast(x, {kind!r}); z = w * w",
        SUM,
        f"h = c * 0.5; y = cast(h, {dtype!r})",
        (("x", dtype),),
        kind,
        dtype,
        0.0,
    )
    return reduced(reduction, x, frozenset(range(len(x.shape))), outputs[0])


def bind_euclidean_norm(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program | None:
    """The square root of the sum of squares; of integers truncated, after squares and sums in their dtype."""
    x, axes = inputs[0], axes_of(inputs[1], len(inputs[0].shape))
    if axes is None:
        return None
    dtype, kind = x.dtype.name, wide(x.dtype.name)
    root = "sqrt(c)" if np.dtype(kind).kind == "f" else "sqrt(cast(c, 'float64'))"
    reduction = Reduction(
        f"w = cast(x, {kind!r}); z = w * w",
        SUM,
        f"h = {root}; y = cast(h, {dtype!r})",
        (("x", dtype),),
        kind,
        dtype,
        zero(kind),
    )
    return reduced(reduction, x, axes, outputs[0])


def bind_bias_gradient(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program:
    """The sum over all axes but that of the channels."""
    x = inputs[0]
    dtype, kind, rank = x.dtype.name, wide(x.dtype.name), len(x.shape)
    channels = 1 if attrs["data_format"] == b"NCHW" or attrs["data_format"] == "NCHW" else rank - 1
    reduction = Reduction(
        f"z = cast(x, {kind!r})", SUM, f"y = cast(c, {dtype!r})", (("x", dtype),), kind, dtype, zero(kind)
    )
    return reduced(reduction, x, frozenset(range(rank)) - {channels}, outputs[0])


def extreme_position(largest: bool) -> Binder:
    """The position of the first extreme element along the axis in input 1; NaN is less extreme than any number.

    First the extreme of each line, then the least position at which it stands.
    """

    def bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program | None:
        x, dimension = inputs
        program = Program()
        if dimension.value is None:
            return None
        if not x.shape:
            program.zeros(outputs[0])
            return program
        axis = int(dimension.value) % len(x.shape)
        dtype, target = x.dtype.name, outputs[0].dtype.name
        kind = "uint8" if dtype == "bool" else wide(dtype)
        identity = lowest(kind) if largest else highest(kind)
        is_float = np.dtype(kind).kind == "f"
        value = (
            f"v = cast(x, {kind!r}); w = where(is_nan(v), {identity}, v)"
            if is_float
            else f"w = cast(x, {kind!r})"
        )
        combine = LARGEST if largest else LEAST
        kept = tuple(dim for k, dim in enumerate(x.shape) if k != axis)
        view = full(X, dtype, x.shape)
        extreme = program.space(kind, kept)
        find = Reduction(f"{value}; z = w", combine, "y = c", (("x", dtype),), kind, kind, identity)
        program.reduce(find, [view], extreme, x.shape, {axis})
        strides = [*extreme.strides[:axis], 0, *extreme.strides[axis:]]
        place = Reduction(
            f"{value}; z = where(w == m, position, {(1 << 63) - 1})",
            LEAST,
            f"y = cast(c, {target!r})",
            (("x", dtype), ("m", kind)),
            "int64",
            target,
            (1 << 63) - 1,
        )
        program.reduce(
            place,
            [view, View(extreme.operand, kind, tuple(strides))],
            full(OUTPUT, target, kept),
            x.shape,
            {axis},
        )
        return program

    return bind


BINDERS: dict[str, Binder] = {
    "Sum": over_axes(SUM, zero),
    "Mean": over_axes(SUM, zero, divides=True),
    "Prod": over_axes(PRODUCT, one),
    "Max": over_axes(LARGEST, lowest),
    "Min": over_axes(LEAST, highest),
    "All": over_axes(LEAST, one),
    "Any": over_axes(LARGEST, zero),
    "L2Loss": bind_l2_loss,
    "EuclideanNorm": bind_euclidean_norm,
    "BiasAddGrad": bind_bias_gradient,
    "ArgMax": extreme_position(largest=True),
    "ArgMin": extreme_position(largest=False),
}
