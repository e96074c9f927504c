"""Functions of one number: signs, roots, exponential, logarithm, trigonometric and hyperbolic ones, erf, rounding, sigmoid."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.kernels.kernel import Attrs, Compute
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE
from aioexec.ops.common.elementwise import (
    FLOATS,
    ZERO_DIVISOR,
    Array,
    Gradient,
    binary,
    conjugate,
    function_of,
    in_float32,
    unary,
)

REAL = "bfloat16|half|float|double"


def _is_integer(attrs: Attrs) -> bool:
    return bool(attrs["T"].is_integer)


# Signs and rounding


def _sign(x: Array) -> Array:
    if x.dtype.kind == "c":
        return np.where(x == 0, 0, x / np.abs(x)).astype(x.dtype)
    return np.sign(x)


unary("Neg(x:T) -> (y:T) [T:type@24]", numpy=np.negative, native="x: -x", gradient=lambda op, dy: [-dy])
unary(
    "Abs(x:T) -> (y:T) [T:type@1]",
    numpy=np.abs,
    native="x: abs(x)",
    gradient=lambda op, dy: [dy * apply_op("Sign", op.inputs[0])],
)
unary(
    "Sign(x:T) -> (y:T) [T:type@24]",
    numpy=_sign,
    native="x: sign(x)",
    gradient=lambda op, dy: [apply_op("ZerosLike", dy)],
)


def _rounded(function: Compute) -> Compute:
    return lambda x: x if x.dtype.kind in "iub" else function(x)


_ROUNDINGS: tuple[tuple[str, str, Compute, str], ...] = (
    ("Floor", f"{{{REAL}}}", np.floor, "floor"),
    ("Ceil", f"{{{REAL}}}", np.ceil, "ceil"),
    ("Rint", f"{{{REAL}}}", np.rint, "rint"),
    ("Round", "@24", np.rint, "rint"),
)

for _name, _types, _compute, _text in _ROUNDINGS:
    unary(
        f"{_name}(x:T) -> (y:T) [T:type{_types}]",
        numpy=_rounded(_compute),
        native=f"x: {_text}(x)",
        gradient=NOT_DIFFERENTIABLE,
        dtypes=None if _name == "Round" else FLOATS,
    )

# Powers and roots


def _reciprocal(x: Array) -> Array:
    if x.dtype.kind in "iu":
        if not np.all(x):
            raise InvalidArgumentError("Integer division by zero")
        return np.where(np.abs(x) == 1, x, 0).astype(x.dtype)
    return np.reciprocal(x)


def _reciprocal_text(attrs: Attrs) -> str:
    return "x: truncdiv(1, x)" if _is_integer(attrs) else "x: 1.0 / x"


for _name in ("Reciprocal", "Inv"):
    unary(
        f"{_name}(x:T) -> (y:T) [T:type@24]",
        numpy=_reciprocal,
        native=_reciprocal_text,
        gradient=lambda op, dy: [apply_op("ReciprocalGrad", op.outputs[0], dy)],
        statuses=ZERO_DIVISOR,
    )

unary(
    "Square(x:T) -> (y:T) [T:type@31]",
    numpy=np.square,
    native="x: x * x",
    gradient=lambda op, dy: [dy * (2 * conjugate(op.inputs[0]))],
)


def _square(tensor: Tensor) -> Tensor:
    return tensor * tensor


def _sqrt_grad_gradient(op: Operation, dz: Tensor) -> list[Tensor]:
    over = dz / op.inputs[0]
    return [-conjugate(over) * op.outputs[0], 0.5 * over]


def _rsqrt_grad_gradient(op: Operation, dz: Tensor) -> list[Tensor]:
    y = conjugate(op.inputs[0])
    return [-1.5 * conjugate(dz) * op.inputs[1] * _square(y), apply_op("RsqrtGrad", y, dz)]


def _reciprocal_grad_gradient(op: Operation, dz: Tensor) -> list[Tensor]:
    y = conjugate(op.inputs[0])
    return [-2.0 * conjugate(dz) * op.inputs[1] * y, apply_op("ReciprocalGrad", y, dz)]


def _sigmoid_grad_gradient(op: Operation, dz: Tensor) -> list[Tensor]:
    y, dy = map(conjugate, op.inputs)
    product = dz * dy
    return [product - 2.0 * product * y, apply_op("SigmoidGrad", y, dz)]


def _tanh_grad_gradient(op: Operation, dz: Tensor) -> list[Tensor]:
    y, dy = map(conjugate, op.inputs)
    return [-2.0 * dz * dy * y, apply_op("TanhGrad", y, dz)]


def _of_conjugate(compute: Compute) -> Compute:
    """Conjugate the first argument; where the second is 0 return 0, even if the slope is infinite."""

    def kernel(y: Array, dy: Array) -> Array:
        slope = compute(np.conj(y) if y.dtype.kind == "c" else y, dy)
        return np.asarray(np.where(dy == 0, slope.dtype.type(0), slope))

    return kernel


_RECIPROCAL_GRAD: tuple[Compute, str, Gradient] = (
    _of_conjugate(lambda y, dy: -dy * y * y),
    "y, dy: where(dy == 0, 0, -dy * y * y)",
    _reciprocal_grad_gradient,
)

_POWER_GRADIENTS: dict[str, tuple[Compute, str, Gradient]] = {
    # of y = f(x), given y and dy: NumPy form, native form, gradient function
    "SqrtGrad": (
        _of_conjugate(lambda y, dy: dy * y.dtype.type(0.5) / y),
        "y, dy: where(dy == 0, 0, dy * 0.5 / y)",
        _sqrt_grad_gradient,
    ),
    "RsqrtGrad": (
        _of_conjugate(lambda y, dy: dy * y.dtype.type(-0.5) * y * y * y),
        "y, dy: where(dy == 0, 0, dy * -0.5 * y * y * y)",
        _rsqrt_grad_gradient,
    ),
    "ReciprocalGrad": _RECIPROCAL_GRAD,
    "InvGrad": _RECIPROCAL_GRAD,
    "SigmoidGrad": (
        lambda y, dy: dy * y * (y.dtype.type(1) - y),
        "y, dy: dy * y * (1.0 - y)",
        _sigmoid_grad_gradient,
    ),
    "TanhGrad": (
        lambda y, dy: dy * (y.dtype.type(1) - y * y),
        "y, dy: dy * (1.0 - y * y)",
        _tanh_grad_gradient,
    ),
}

for _name, (_compute, _text, _gradient) in _POWER_GRADIENTS.items():
    binary(
        f"{_name}(y:T, dy:T) -> (z:T) [T:type@2]",
        numpy=in_float32(_compute),
        native=_text,
        gradient=_gradient,
        dtypes=FLOATS,
    )


def _through_output(op_type: str) -> Gradient:
    """Return the gradient function of an op whose gradient op takes (output, dy) and conjugates the output."""
    return lambda op, dy: [apply_op(op_type, op.outputs[0], dy)]


def _through_conjugate(op_type: str) -> Gradient:
    """Return the gradient function of an op whose gradient op takes (conjugate of the output, dy)."""
    return lambda op, dy: [apply_op(op_type, conjugate(op.outputs[0]), dy)]


def _rsqrt(x: Array) -> Array:
    return np.asarray(np.reciprocal(np.sqrt(x)))


def _sigmoid(x: Array) -> Array:
    one = x.dtype.type(1)
    return np.asarray(np.reciprocal(one + np.exp(-x)))


# Exponentials, trigonometry, erf


def _by_element(function: Callable[[float], float]) -> Compute:
    """Return a kernel that applies a function of Python floats to each element."""
    each = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(each(x.astype(np.float64)), np.float64).astype(x.dtype)


def _of_input(slope: Callable[[Tensor], Tensor]) -> Gradient:
    """Return the gradient function for a derivative that is a function of the input."""
    return lambda op, dy: [dy * slope(conjugate(op.inputs[0]))]


def _arc_slope(sign: float) -> Gradient:
    """Return the gradient function of asin (1) and acos (-1): sign / sqrt(1 - x²)."""
    return _of_input(lambda x: sign * apply_op("Rsqrt", 1.0 - _square(x)))


def _gaussian_slope(scale: float) -> Gradient:
    return _of_input(lambda x: scale * apply_op("Exp", -_square(x)))


TWO_OVER_ROOT_PI = 2.0 / math.sqrt(math.pi)

_FUNCTIONS: dict[str, tuple[Compute, str, Gradient]] = {
    "Sqrt": (np.sqrt, "sqrt", _through_output("SqrtGrad")),
    "Rsqrt": (_rsqrt, "rsqrt", _through_output("RsqrtGrad")),
    "Exp": (np.exp, "exp", lambda op, dy: [dy * conjugate(op.outputs[0])]),
    "Expm1": (np.expm1, "expm1", _of_input(lambda x: apply_op("Exp", x))),
    "Log": (np.log, "log", _of_input(lambda x: apply_op("Reciprocal", x))),
    "Log1p": (np.log1p, "log1p", _of_input(lambda x: apply_op("Reciprocal", 1.0 + x))),
    "Sin": (np.sin, "sin", _of_input(lambda x: apply_op("Cos", x))),
    "Cos": (np.cos, "cos", _of_input(lambda x: -apply_op("Sin", x))),
    "Tan": (np.tan, "tan", _of_input(lambda x: _square(apply_op("Reciprocal", apply_op("Cos", x))))),
    "Asin": (np.arcsin, "asin", _arc_slope(1.0)),
    "Acos": (np.arccos, "acos", _arc_slope(-1.0)),
    "Atan": (np.arctan, "atan", _of_input(lambda x: apply_op("Reciprocal", 1.0 + _square(x)))),
    "Sinh": (np.sinh, "sinh", _of_input(lambda x: apply_op("Cosh", x))),
    "Cosh": (np.cosh, "cosh", _of_input(lambda x: apply_op("Sinh", x))),
    "Asinh": (np.arcsinh, "asinh", lambda op, dy: [dy / apply_op("Cosh", conjugate(op.outputs[0]))]),
    "Acosh": (np.arccosh, "acosh", lambda op, dy: [dy / apply_op("Sinh", conjugate(op.outputs[0]))]),
    "Atanh": (np.arctanh, "atanh", _of_input(lambda x: apply_op("Reciprocal", 1.0 - _square(x)))),
    "Tanh": (np.tanh, "tanh", _through_conjugate("TanhGrad")),
    "Sigmoid": (_sigmoid, "sigmoid", _through_conjugate("SigmoidGrad")),
}

_REAL_FUNCTIONS: dict[str, tuple[Compute, str, Gradient]] = {
    "Erf": (_by_element(math.erf), "erf", _gaussian_slope(TWO_OVER_ROOT_PI)),
    "Erfc": (_by_element(math.erfc), "erfc", _gaussian_slope(-TWO_OVER_ROOT_PI)),
}

for _types, _table in (("@2", _FUNCTIONS), (f"{{{REAL}}}", _REAL_FUNCTIONS)):
    for _name, (_compute, _text, _gradient) in _table.items():
        unary(
            f"{_name}(x:T) -> (y:T) [T:type{_types}]",
            numpy=in_float32(_compute),
            native=f"x: {_text}(x)",
            gradient=_gradient,
            dtypes=FLOATS,
        )


# Functions


negative = function_of("Neg", "-x", "negative")
sign = function_of("Sign", "-1, 0 or 1 by the sign of x")
floor = function_of("Floor", "x rounded down")
ceil = function_of("Ceil", "x rounded up")
rint = function_of("Rint", "x rounded to the nearest integer, halves to even")
reciprocal = function_of("Reciprocal", "1 / x")
square = function_of("Square", "x squared")
sqrt = function_of("Sqrt", "the square root of x")
rsqrt = function_of("Rsqrt", "1 over the square root of x")
exp = function_of("Exp", "e to the power of x")
expm1 = function_of("Expm1", "exp(x) - 1, exact near 0")
log = function_of("Log", "the natural logarithm of x")
log1p = function_of("Log1p", "log(1 + x), exact near 0")
sin = function_of("Sin", "the sine of x")
cos = function_of("Cos", "the cosine of x")
tan = function_of("Tan", "the tangent of x")
asin = function_of("Asin", "the arc sine of x")
acos = function_of("Acos", "the arc cosine of x")
atan = function_of("Atan", "the arc tangent of x")
sinh = function_of("Sinh", "the hyperbolic sine of x")
cosh = function_of("Cosh", "the hyperbolic cosine of x")
asinh = function_of("Asinh", "the inverse hyperbolic sine of x")
acosh = function_of("Acosh", "the inverse hyperbolic cosine of x")
atanh = function_of("Atanh", "the inverse hyperbolic tangent of x")
tanh = function_of("Tanh", "the hyperbolic tangent of x")
sigmoid = function_of("Sigmoid", "1 / (1 + exp(-x))")
erf = function_of("Erf", "the error function of x")
erfc = function_of("Erfc", "1 - erf(x)")


def round(x: Any, name: str | None = None) -> Tensor:
    """Round to the nearest integer, half to even; integers unchanged."""
    return apply_op("Round", x, name=name)


def log_sigmoid(x: Any, name: str | None = None) -> Tensor:
    """Return log(1 / (1 + exp(-x))) without overflow."""
    return apply_op("Neg", apply_op("Softplus", -x), name=name or "LogSigmoid")


def abs(x: Any, name: str | None = None) -> Tensor:
    """Return the absolute value of x; of complex numbers the magnitude, in the dtype of their parts."""
    tensor = convert_to_tensor(x)
    if tensor.dtype.base_dtype.is_complex:
        return apply_op("ComplexAbs", tensor, name=name, Tout=tensor.dtype.real_dtype)
    return apply_op("Abs", tensor, name=name)
