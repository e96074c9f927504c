"""Element-wise arithmetic on two (or N) tensors: sums, products, quotients, remainders, powers."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor, symbolic_dtype
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.kernels.kernel import Alias, Attrs, Launch, Launches, Native, Operand, Spec, plain
from aioexec.graph.kernels.launches import View, c_strides, expression, launch
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, register, undefined_gradient
from aioexec.ops.common.elementwise import (
    FLOATS,
    ZERO_DIVISOR,
    Array,
    binary,
    conjugate,
    convert_pair,
    fitting,
    function_of_two,
    in_float32,
    merged_shape,
    op_scope,
    reduced,
)
from aioexec.resources.tensor_list import add_variants

NEGATIVE_POWER = "Integers to negative integer powers are not allowed"


def is_integer(array: Array) -> bool:
    return array.dtype.kind in "iu"


def _is_floating(attrs: Attrs) -> bool:
    return bool(attrs["T"].is_floating)


def _nonzero(x: Array, y: Array) -> None:
    if x.size and is_integer(y) and not np.all(y):
        raise InvalidArgumentError("Integer division by zero")


# Sums and products

for _name, _types in (("Add", 3), ("AddV2", 5)):
    binary(
        f"{_name}(x:T, y:T) -> (z:T) [T:type@{_types}]"
        + (" {commutative,aggregate}" if _name == "AddV2" else ""),
        numpy=np.add,
        native="x, y: x + y",
        gradient=lambda op, dz: reduced(op, dz, dz),
    )

binary(
    "Sub(x:T, y:T) -> (z:T) [T:type@33]",
    numpy=np.subtract,
    native="x, y: x - y",
    gradient=lambda op, dz: reduced(op, dz, -dz),
)


def _mul_gradient(op: Operation, dz: Tensor) -> Sequence[Any]:
    x, y = map(conjugate, op.inputs)
    return reduced(op, dz * y, x * dz)


binary(
    "Mul(x:T, y:T) -> (z:T) [T:type@15] {commutative}",
    numpy=np.multiply,
    native="x, y: x * y",
    gradient=_mul_gradient,
)


def _squared_difference_gradient(op: Operation, dz: Tensor) -> Sequence[Any]:
    x, y = op.inputs
    dx = 2 * dz * (x - y)
    return reduced(op, dx, -dx)


binary(
    "SquaredDifference(x:T, y:T) -> (z:T) [T:type@14] {commutative}",
    numpy=lambda x, y: np.conj(x - y) * (x - y) if x.dtype.kind == "c" else np.square(x - y),
    native="x, y -> z: d = x - y; z = d * d",
    gradient=_squared_difference_gradient,
)


def _add_n(*inputs: Array) -> Array:
    if len({array.shape for array in inputs}) > 1:
        raise InvalidArgumentError(
            f"Inputs to AddN must have one shape, got {[array.shape for array in inputs]}"
        )
    return functools.reduce(add_variants if inputs[0].dtype == object else np.add, inputs)


def _add_n_text(attrs: Attrs) -> str:
    names = [f"x{k}" for k in range(attrs["N"])]
    return f"{', '.join(names)}: {' + '.join(names)}"


_ADD_N_NATIVE = expression(_add_n_text)
WIDEST_ADD_N = 16
"""Upper bound for the operands of one launch; further operands are added to the sum so far."""


def _bind_add_n(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | Alias | None:
    if len(inputs) == 1:
        return Alias((0,), (0,))
    first = _ADD_N_NATIVE.bind({"N": min(len(inputs), WIDEST_ADD_N)}, inputs[:WIDEST_ADD_N], outputs)
    if len(inputs) <= WIDEST_ADD_N or not isinstance(first, Launches):
        return first
    later = range(WIDEST_ADD_N, len(inputs), WIDEST_ADD_N - 1)
    rows = [_added(range(begin, min(begin + WIDEST_ADD_N - 1, len(inputs))), outputs[0]) for begin in later]
    return Launches((*first.rows, *(row for row in rows if row is not None)))


def _added(terms: range, output: Spec) -> Launch | None:
    """Return a launch that adds some of the inputs to the output."""
    strides = c_strides(output.shape, output.dtype.itemsize)
    places = [("y", Operand("output", 0)), *((f"x{k}", Operand("input", k)) for k in terms)]
    views = [(name, View(place, output.dtype.name, strides)) for name, place in places]
    return launch(f"y = {' + '.join(name for name, _ in views)}", views, views[:1], output.shape)


register(
    "AddN(inputs:N*T) -> (sum:T) [N:int>=1; T:type@4] {commutative,aggregate}",
    shape=merged_shape,
    kernel=plain(_add_n),
    gradient=lambda op, dz: [dz] * len(op.inputs),
    native=Native(_bind_add_n),
)
register(
    "AccumulateNV2(inputs:N*T) -> (sum:T) [N:int>=1; T:type@6; shape:shape] {commutative,aggregate}",
    shape=lambda context: [functools.reduce(shapes.merge, context.inputs, context.attrs["shape"])],
    kernel=plain(_add_n),
    gradient=lambda op, dz: [dz] * len(op.inputs),
    native=Native(_bind_add_n),
)

# Quotients


def _truncated(x: Array, y: Array) -> Array:
    """Divide integers, truncating towards zero."""
    _nonzero(x, y)
    quotient: Array = np.floor_divide(x, y)
    inexact = quotient * y != x
    return np.asarray(quotient + (inexact & ((x < 0) != (y < 0))), x.dtype)


def _divided(x: Array, y: Array) -> Array:
    return _truncated(x, y) if is_integer(x) else np.divide(x, y)


def _division_text(attrs: Attrs) -> str:
    return "x, y: x / y" if _is_floating(attrs) else "x, y: truncdiv(x, y)"


def _quotient_gradient(op: Operation, dz: Tensor) -> Sequence[Any]:
    x, y = map(conjugate, op.inputs)
    return reduced(op, dz / y, dz * (-x / y / y))


for _name in ("Div", "RealDiv"):
    binary(
        f"{_name}(x:T, y:T) -> (z:T) [T:type@15]",
        numpy=_divided,
        native=_division_text,
        gradient=_quotient_gradient,
        statuses=ZERO_DIVISOR,
    )


def _truncate_div(x: Array, y: Array) -> Array:
    return _truncated(x, y) if is_integer(x) else np.trunc(np.divide(x, y))


binary(
    "TruncateDiv(x:T, y:T) -> (z:T) [T:type@15]",
    numpy=_truncate_div,
    native="x, y: truncdiv(x, y)",
    gradient=NOT_DIFFERENTIABLE,
    statuses=ZERO_DIVISOR,
)


def _floor_div(x: Array, y: Array) -> Array:
    _nonzero(x, y)
    return np.floor_divide(x, y) if is_integer(x) else np.floor(np.divide(x, y))


binary(
    "FloorDiv(x:T, y:T) -> (z:T) [T:type@15]",
    numpy=_floor_div,
    native="x, y: floordiv(x, y)",
    gradient=NOT_DIFFERENTIABLE,
    statuses=ZERO_DIVISOR,
)


# Remainders


def _truncate_mod(x: Array, y: Array) -> Array:
    _nonzero(x, y)
    return np.fmod(x, y)


def _floor_mod(x: Array, y: Array) -> Array:
    _nonzero(x, y)
    if is_integer(x):
        return np.mod(x, y)
    remainder = np.fmod(x, y)
    return np.where((remainder != 0) & ((remainder < 0) != (y < 0)), remainder + y, remainder)


def _floor_mod_gradient(op: Operation, dz: Tensor) -> Sequence[Any]:
    x, y = op.inputs
    return reduced(op, dz, -dz * apply_op("FloorDiv", x, y))


binary(
    "FloorMod(x:T, y:T) -> (z:T) [T:type@17]",
    numpy=_floor_mod,
    native="x, y: floormod(x, y)",
    gradient=_floor_mod_gradient,
    statuses=ZERO_DIVISOR,
)

for _name in ("Mod", "TruncateMod"):
    binary(
        f"{_name}(x:T, y:T) -> (z:T) [T:type@23]",
        numpy=_truncate_mod,
        native="x, y: truncmod(x, y)",
        gradient=undefined_gradient,
        statuses=ZERO_DIVISOR,
    )

# Powers


def _pow(x: Array, y: Array) -> Array:
    if is_integer(x) and np.any(y < 0):
        raise InvalidArgumentError(NEGATIVE_POWER)
    return np.power(x, y)


def _pow_gradient(op: Operation, dz: Tensor) -> Sequence[Any]:
    x, y = map(conjugate, op.inputs)
    z = conjugate(op.outputs[0])
    positive = (
        apply_op("Greater", x, _zero_of(x))
        if not x.dtype.is_complex
        else apply_op("NotEqual", x, _zero_of(x))
    )
    safe = apply_op("SelectV2", positive, x, apply_op("OnesLike", x))
    log_x = apply_op("SelectV2", positive, apply_op("Log", safe), apply_op("ZerosLike", x))
    return reduced(op, dz * y * apply_op("Pow", x, y - 1), dz * z * log_x)


def _zero_of(tensor: Tensor) -> Tensor:
    return convert_to_tensor(0, tensor.dtype.base_dtype)


_ANY_POWER = expression("x, y: pow(x, y)")
_KNOWN_POWERS = {2.0: expression("x: x * x"), 3.0: expression("x: x * x * x")}
"""Native forms for constant exponents: a few multiplications, in place of a logarithm and an exponential in float64."""


def _bind_pow(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | Alias | None:
    exponent = inputs[1].value
    if exponent is not None and exponent.size == 1 and exponent.dtype.name in FLOATS:
        known = _KNOWN_POWERS.get(float(exponent.reshape(())))
        if known is not None:
            return known.bind(attrs, inputs[:1], outputs)
    return _ANY_POWER.bind(attrs, inputs, outputs)


register(
    "Pow(x:T, y:T) -> (z:T) [T:type@26]",
    shape=lambda context: [shapes.broadcast(*context.inputs)],
    kernel=fitting(in_float32(_pow)),
    gradient=_pow_gradient,
    native=Native(_bind_pow, FLOATS | {"int32", "int64"}, ((InvalidArgumentError, NEGATIVE_POWER),)),
)


# Functions


def add(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Add x + y element-wise; strings are concatenated."""
    with op_scope(name, "Add", x, y) as scope:
        x, y = convert_pair(x, y)
        return apply_op("Add" if x.dtype.base_dtype is dtypes.string else "AddV2", x, y, name=scope)


subtract = function_of_two("Sub", "Subtract x - y element-wise", "subtract")
multiply = function_of_two("Mul", "Multiply x * y element-wise", "multiply")


def scalar_mul(scalar: Any, x: Any, name: str | None = None) -> Any:
    """Multiply a tensor or IndexedSlices by a scalar.

    Raises:
        GraphValueError: `scalar` is not a scalar.
    """
    base = symbolic_dtype(x)
    factor = convert_to_tensor(scalar, base)
    if factor.dims not in ((), None):
        raise GraphValueError(f"scalar_mul takes a scalar, got shape {factor.shape}")
    if isinstance(x, IndexedSlices):
        return IndexedSlices(apply_op("Mul", factor, x.values, name=name), x.indices, x.dense_shape)
    return apply_op("Mul", factor, x, name=name)


def div(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Divide x / y as Python 2 does: the quotient of integers is rounded down."""
    with op_scope(name, "div", x, y) as scope:
        x, y = convert_pair(x, y)
        return apply_op("FloorDiv" if x.dtype.is_integer else "RealDiv", x, y, name=scope)


def divide(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Divide x / y as Python 3 does."""
    return truediv(x, y, name)


def truediv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Divide x / y; integers are first converted to float32 (8 and 16 bits) or float64.

    Raises:
        GraphTypeError: the dtypes differ.
    """
    with op_scope(name, "truediv", x, y) as scope:
        x, y = convert_pair(x, y)
        base = x.dtype.base_dtype
        if base.is_integer:
            wide = dtypes.float32 if base.size < 4 else dtypes.float64
            x, y = (apply_op("Cast", tensor, name="Cast", DstT=wide) for tensor in (x, y))
        return apply_op("RealDiv", x, y, name=scope)


realdiv = function_of_two("RealDiv", "Divide floating-point tensors x / y", "realdiv")


def floordiv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Divide x / y and round down, also for floats."""
    with op_scope(name, "floordiv", x, y) as scope:
        return apply_op("FloorDiv", x, y, name=scope)


floor_div = function_of_two("FloorDiv", "Divide x / y and round down")
truncatediv = function_of_two("TruncateDiv", "Divide x / y and truncate towards zero", "truncatediv")
floormod = function_of_two(
    "FloorMod", "Return the remainder of `floordiv`, which has the sign of y", "floormod"
)
mod = floormod


truncatemod = function_of_two(
    "TruncateMod", "Return the remainder of `truncatediv`, which has the sign of x", "truncatemod"
)


def pow(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Raise x to the power of y element-wise."""
    return apply_op("Pow", x, y, name=name or "Pow")


squared_difference = function_of_two("SquaredDifference", "Return (x - y)² element-wise")


def add_n(inputs: Sequence[Any], name: str | None = None) -> Tensor:
    """Sum tensors of one shape and dtype.

    Raises:
        GraphValueError: the list is empty, or the shapes differ.
    """
    if not isinstance(inputs, list | tuple) or not inputs:
        raise GraphValueError(f"add_n takes a non-empty list of tensors, got {inputs!r}")
    if len(inputs) == 1:
        only = convert_to_tensor(inputs[0])
        return only if name is None else apply_op("Identity", only, name=name)
    return apply_op("AddN", inputs, name=name)


def accumulate_n(
    inputs: Sequence[Any], shape: Any = None, tensor_dtype: Any = None, name: str | None = None
) -> Tensor:
    """Sum tensors of one shape and dtype; `shape` and `tensor_dtype` are checked."""
    total = add_n(inputs, name or "AccumulateNV2")
    if tensor_dtype is not None and total.dtype.base_dtype != dtypes.as_dtype(tensor_dtype):
        raise GraphTypeError(f"accumulate_n: expected tensors of {tensor_dtype!r}, got {total.dtype.name}")
    if shape is not None:
        total.set_shape(shape)
    return total
