"""Functions of two numbers beyond arithmetic: atan2, nextafter, and products and quotients in which a zero dominates NaN and
infinity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec.graph.apply import apply_op
from aioexec.graph.kernels.kernel import Compute
from aioexec.graph.node import Operation, Tensor
from aioexec.ops.common.elementwise import (
    FLOATS,
    Array,
    Gradient,
    binary,
    conjugate,
    function_of_two,
    in_float32,
    reduced,
)

REAL = "bfloat16|half|float|double"

# Products and quotients in which a zero dominates


def _zero_where(guard: int, compute: Compute) -> Compute:
    """Return `compute(x, y)`, with 0 where argument `guard` is 0."""

    def guarded(x: Array, y: Array) -> Array:
        zero = (x, y)[guard] == 0
        value = compute(x, np.where(zero, y.dtype.type(1), y))
        return np.asarray(np.where(zero, x.dtype.type(0), value))

    return guarded


def _div_no_nan_gradient(op: Operation, dz: Tensor) -> Sequence[Any]:
    x, y = map(conjugate, op.inputs)
    over = _of("DivNoNan", dz, y)
    return reduced(op, over, dz * _of("DivNoNan", _of("DivNoNan", -x, y), y))


def _mul_no_nan_gradient(op: Operation, dz: Tensor) -> Sequence[Any]:
    x, y = op.inputs
    return reduced(op, _of("MulNoNan", dz, y), _of("MulNoNan", x, dz))


def _x_times_gradient(slope_of_y: Any) -> Gradient:
    """Return the gradient function of x f(y), 0 where x is 0: f(y) where x is not 0, and `slope_of_y(x, y)`."""

    def gradient(op: Operation, dz: Tensor) -> Sequence[Any]:
        x, y = op.inputs
        counts = apply_op("Cast", apply_op("NotEqual", x, apply_op("ZerosLike", x)), DstT=x.dtype.base_dtype)
        return reduced(op, _of(op.type, counts, y) * dz, slope_of_y(x, y) * dz)

    return gradient


def _of(op_type: str, x: Any, y: Any) -> Tensor:
    return apply_op(op_type, x, y)


_GUARDED: tuple[tuple[str, Compute, str, Gradient], ...] = (
    ("DivNoNan", _zero_where(1, np.divide), "where(y == 0, 0.0, x / y)", _div_no_nan_gradient),
    ("MulNoNan", _zero_where(1, np.multiply), "where(y == 0, 0.0, x * y)", _mul_no_nan_gradient),
    (
        "Xdivy",
        _zero_where(0, np.divide),
        "xdivy(x, y)",
        _x_times_gradient(lambda x, y: _of("Xdivy", -x, y * y)),
    ),
    (
        "Xlogy",
        _zero_where(0, lambda x, y: x * np.log(y)),
        "xlogy(x, y)",
        _x_times_gradient(lambda x, y: _of("Xdivy", x, y)),
    ),
    (
        "Xlog1py",
        _zero_where(0, lambda x, y: x * np.log1p(y)),
        "xlog1py(x, y)",
        _x_times_gradient(lambda x, y: _of("Xdivy", x, y + 1.0)),
    ),
)

for _name, _compute, _text, _gradient in _GUARDED:
    binary(
        f"{_name}(x:T, y:T) -> (z:T) [T:type@{16 if _name == 'DivNoNan' else 2}]",
        numpy=in_float32(_compute),
        native=f"x, y: {_text}",
        gradient=_gradient,
        dtypes=FLOATS,
    )

# Angles and neighbours


def _atan2_gradient(op: Operation, dz: Tensor) -> Sequence[Any]:
    y, x = op.inputs
    over = dz / (x * x + y * y)
    return reduced(op, x * over, -y * over)


binary(
    f"Atan2(y:T, x:T) -> (z:T) [T:type{{{REAL}}}]",
    numpy=in_float32(np.arctan2),
    native="y, x: atan2(y, x)",
    gradient=_atan2_gradient,
    dtypes=FLOATS,
)


def _next_after_gradient(op: Operation, dz: Tensor) -> Sequence[Any]:
    return reduced(op, dz, apply_op("ZerosLike", dz))


binary(
    "NextAfter(x1:T, x2:T) -> (output:T) [T:type{double|float}=float]",
    numpy=np.nextafter,
    native=None,
    gradient=_next_after_gradient,
)

# Functions


def div_no_nan(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Divide x / y, with 0 where y is 0."""
    return apply_op("DivNoNan", x, y, name=name or "div_no_nan")


def multiply_no_nan(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Multiply x * y, with 0 where y is 0 even if x is infinite or NaN."""
    return apply_op("MulNoNan", x, y, name=name or "multiply_no_nan")


def xdivy(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Divide x / y, with 0 where x is 0 even if y is 0 or NaN."""
    return apply_op("Xdivy", x, y, name=name or "xdivy")


xlogy = function_of_two("Xlogy", "Return x log(y), with 0 where x is 0")


def xlog1py(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Return x log(1 + y), with 0 where x is 0."""
    return apply_op("Xlog1py", x, y, name=name or "xlog1py")


def atan2(y: Any, x: Any, name: str | None = None) -> Tensor:
    """Return the angle of the point (x, y), in [-pi, pi]."""
    return apply_op("Atan2", y, x, name=name)


def nextafter(x1: Any, x2: Any, name: str | None = None) -> Tensor:
    """Return the next representable number after x1 in the direction of x2."""
    return apply_op("NextAfter", x1, x2, name=name)
