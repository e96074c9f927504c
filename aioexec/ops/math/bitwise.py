"""Bitwise operations on integers. A negative shift count counts as 0, one beyond the width of the dtype as width - 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec.graph.kernels.kernel import Compute, plain
from aioexec.graph.registry import NOT_DIFFERENTIABLE, register
from aioexec.ops.common.elementwise import Array, binary, function_of, function_of_two, same_shape, unary

INTEGERS = "int8|int16|int32|int64|uint8|uint16|uint32|uint64"
NATIVE = frozenset({"int32", "int64"})


def _shift(function: Compute) -> Compute:
    """Shift by a count clamped to the width of the dtype, for which C defines the result."""
    return lambda x, y: function(x, np.clip(y, 0, 8 * x.dtype.itemsize - 1).astype(x.dtype))


def _shift_text(sign: str) -> Any:
    return lambda attrs: f"x, y: x {sign} minimum(maximum(y, 0), {8 * attrs['T'].size - 1})"


_PAIRS: tuple[tuple[str, Compute, Any, str], ...] = (
    ("BitwiseAnd", np.bitwise_and, "x, y: x & y", " {commutative}"),
    ("BitwiseOr", np.bitwise_or, "x, y: x | y", " {commutative}"),
    ("BitwiseXor", np.bitwise_xor, "x, y: x ^ y", " {commutative}"),
    ("LeftShift", _shift(np.left_shift), _shift_text("<<"), ""),
    ("RightShift", _shift(np.right_shift), _shift_text(">>"), ""),
)

for _name, _compute, _text, _flags in _PAIRS:
    binary(
        f"{_name}(x:T, y:T) -> (z:T) [T:type{{{INTEGERS}}}]{_flags}",
        numpy=_compute,
        native=_text,
        gradient=NOT_DIFFERENTIABLE,
        dtypes=NATIVE,
    )

unary(
    f"Invert(x:T) -> (y:T) [T:type{{{INTEGERS}}}]",
    numpy=np.invert,
    native="x: ~x",
    gradient=NOT_DIFFERENTIABLE,
    dtypes=NATIVE,
)


def _population_count(x: Array) -> Array:
    bits = x.view(f"u{x.dtype.itemsize}")  # NumPy counts the bits of the absolute value
    return np.asarray(np.bitwise_count(bits))


register(
    f"PopulationCount(x:T) -> (y:uint8) [T:type{{{INTEGERS}}}]",
    shape=same_shape,
    kernel=plain(_population_count),
    gradient=NOT_DIFFERENTIABLE,
)

# Functions


bitwise_and = function_of_two("BitwiseAnd", "Return x & y")
bitwise_or = function_of_two("BitwiseOr", "Return x | y")
bitwise_xor = function_of_two("BitwiseXor", "Return x ^ y")
left_shift = function_of_two("LeftShift", "Shift x left by y bits")
right_shift = function_of_two("RightShift", "Shift x right by y bits, arithmetically for signed dtypes")
invert = function_of("Invert", "the bitwise complement of x")
population_count = function_of("PopulationCount", "the number of set bits of x")
