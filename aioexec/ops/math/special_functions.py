"""Special functions: gamma, beta, zeta and Bessel functions, and integrals without closed form.

SciPy computes them in double precision; it is imported when the first of them runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.kernels.kernel import Compute, plain
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops.common.elementwise import Array, Gradient, binary, function_of, op_scope, reduced, unary
from aioexec.shapes import Dims

REAL = "bfloat16|half|float|double"


def by_scipy(name: str) -> Compute:
    """Return a kernel that calls a function of `scipy.special` in double precision and rounds the result."""

    def compute(*inputs: Array) -> Array:
        from scipy import special

        wide = (array.astype(np.float64) for array in inputs)
        return np.asarray(getattr(special, name)(*wide)).astype(inputs[0].dtype)

    return compute


# Functions of one number

Slope = Callable[[Tensor, Tensor], Tensor]
"""The derivative as a function of x and y = f(x)."""


def _at(point: float, value: float, slope: Slope) -> Slope:
    """Return a slope with a given value at one point, where its formula is undefined."""

    def repaired(x: Tensor, y: Tensor) -> Tensor:
        there = apply_op("Equal", x, convert_to_tensor(point, x.dtype.base_dtype))
        known = convert_to_tensor(value, x.dtype.base_dtype)
        return apply_op("SelectV2", there, known, slope(x, y))

    return repaired


def _over(numerator: Tensor, denominator: Tensor) -> Tensor:
    return apply_op("RealDiv", numerator, denominator)


_HALF_PI, _ROOT_HALF_PI, _HALF_ROOT_PI = math.pi / 2, math.sqrt(2 * math.pi), math.sqrt(math.pi) / 2

_FUNCTIONS: dict[str, tuple[str, Slope]] = {
    "Lgamma": ("gammaln", lambda x, y: apply_op("Digamma", x)),
    "Digamma": ("digamma", lambda x, y: apply_op("Polygamma", _one(x), x)),
    "Erfinv": ("erfinv", lambda x, y: _HALF_ROOT_PI * apply_op("Exp", y * y)),
    "Ndtri": ("ndtri", lambda x, y: _ROOT_HALF_PI * apply_op("Exp", y * y / 2.0)),
    "Dawsn": ("dawsn", lambda x, y: 1.0 - 2.0 * x * y),
    "Expint": ("expi", lambda x, y: _over(apply_op("Exp", x), x)),
    "Spence": ("spence", _at(1.0, -1.0, lambda x, y: _over(apply_op("Log", x), 1.0 - x))),
    "FresnelCos": ("fresnel", lambda x, y: apply_op("Cos", _HALF_PI * (x * x))),
    "FresnelSin": ("fresnel", lambda x, y: apply_op("Sin", _HALF_PI * (x * x))),
    "BesselI0": ("i0", lambda x, y: apply_op("BesselI1", x)),
    "BesselI0e": ("i0e", lambda x, y: apply_op("BesselI1e", x) - apply_op("Sign", x) * y),
    "BesselI1": ("i1", _at(0.0, 1.0, lambda x, y: apply_op("BesselI0", x) - _over(y, x))),
    "BesselI1e": (
        "i1e",
        _at(
            0.0,
            0.5,
            lambda x, y: apply_op("BesselI0e", x) - y * (apply_op("Sign", x) + apply_op("Reciprocal", x)),
        ),
    ),
    "BesselK0": ("k0", lambda x, y: -apply_op("BesselK1", x)),
    "BesselK0e": ("k0e", lambda x, y: y - apply_op("BesselK1e", x)),
    "BesselK1": ("k1", lambda x, y: -apply_op("BesselK0", x) - _over(y, x)),
    "BesselK1e": ("k1e", lambda x, y: y * (1.0 - apply_op("Reciprocal", x)) - apply_op("BesselK0e", x)),
    "BesselJ0": ("j0", lambda x, y: -apply_op("BesselJ1", x)),
    "BesselJ1": ("j1", _at(0.0, 0.5, lambda x, y: apply_op("BesselJ0", x) - _over(y, x))),
    "BesselY0": ("y0", lambda x, y: -apply_op("BesselY1", x)),
    "BesselY1": ("y1", lambda x, y: apply_op("BesselY0", x) - _over(y, x)),
}


def _one(x: Tensor) -> Tensor:
    return convert_to_tensor(1, x.dtype.base_dtype)


def _fresnel(which: int) -> Compute:
    def compute(x: Array) -> Array:
        from scipy import special

        return np.asarray(special.fresnel(x.astype(np.float64))[which]).astype(x.dtype)

    return compute


_PAIRED = {"FresnelSin": _fresnel(0), "FresnelCos": _fresnel(1)}

for _name, (_scipy, _slope) in _FUNCTIONS.items():
    unary(
        f"{_name}(x:T) -> (y:T) [T:type{{{REAL}}}]",
        numpy=_PAIRED.get(_name) or by_scipy(_scipy),
        native=None,
        gradient=lambda op, dy, slope=_slope: [dy * slope(op.inputs[0], op.outputs[0])],
    )

# Functions of two and three


_SERIES_END = 1000.0
"""Arguments above which the series needs too many terms; differences of P are accurate enough there."""


def gamma_slope(a: Array, x: Array) -> Array:
    """Return the derivative with respect to a of the regularised lower incomplete gamma function P(a, x).

    P(a, x) = x^a e^-x / gamma(a + 1) sum over n of x^n / ((a + 1) ... (a + n)); the series is differentiated term by term.
    """
    from scipy import special

    a, x = np.broadcast_arrays(a.astype(np.float64), x.astype(np.float64))
    near = np.where(x < _SERIES_END, x, 1.0)
    with np.errstate(all="ignore"):
        term = np.exp(a * np.log(near) - near - special.gammaln(a + 1))
        slope = np.log(near) - special.digamma(a + 1)
        total = np.zeros(a.shape)
        last = near.max(initial=0.0)
        for n in range(1, int(last + 12 * math.sqrt(last) + 60)):
            total += term * slope
            term = term * near / (a + n)
            slope = slope - 1 / (a + n)
        step = 1e-4 * np.sqrt(np.maximum(a, 1.0))
        far = (special.gammainc(a + step, x) - special.gammainc(a - step, x)) / (2 * step)
        inside = np.where(x == 0, 0.0, np.where(x < _SERIES_END, total, far))
        return np.where((a <= 0) | (x < 0) | np.isnan(a + x), np.nan, inside)


def _gamma_density(a: Tensor, x: Tensor) -> Tensor:
    return apply_op("Exp", (a - 1.0) * apply_op("Log", x) - x - apply_op("Lgamma", a))


def _incomplete_gamma_gradient(sign: float) -> Gradient:
    def gradient(op: Operation, dz: Tensor) -> Sequence[Any]:
        a, x = op.inputs
        return reduced(op, sign * apply_op("IgammaGradA", a, x) * dz, sign * _gamma_density(a, x) * dz)

    return gradient


def _polygamma_gradient(op: Operation, dz: Tensor) -> Sequence[Any]:
    a, x = op.inputs
    return reduced(op, None, dz * apply_op("Polygamma", a + 1.0, x))


def _zeta_gradient(op: Operation, dz: Tensor) -> Sequence[Any]:
    x, q = op.inputs
    return reduced(op, None, dz * (-x * apply_op("Zeta", x + 1.0, q)))


def _polygamma(n: Array, x: Array) -> Array:
    """Return the n-th derivative of digamma; NaN unless n is an integer >= 0."""
    from scipy import special

    order, at = np.broadcast_arrays(n.astype(np.float64), x.astype(np.float64))
    whole = (order >= 0) & (np.floor(order) == order)
    value = special.polygamma(np.where(whole, order, 0).astype(np.int64), at)
    return np.asarray(np.where(whole, value, np.nan)).astype(x.dtype)


_PAIRS: tuple[tuple[str, str, Compute, Gradient], ...] = (
    ("Igamma(a:T, x:T)", REAL, by_scipy("gammainc"), _incomplete_gamma_gradient(1.0)),
    ("Igammac(a:T, x:T)", REAL, by_scipy("gammaincc"), _incomplete_gamma_gradient(-1.0)),
    (
        "IgammaGradA(a:T, x:T)",
        "float|double",
        lambda a, x: gamma_slope(a, x).astype(a.dtype),
        undefined_gradient,
    ),
    ("Polygamma(a:T, x:T)", "float|double", _polygamma, _polygamma_gradient),
    ("Zeta(x:T, q:T)", "float|double", by_scipy("zeta"), _zeta_gradient),
)

for _head, _types, _compute, _gradient in _PAIRS:
    binary(f"{_head} -> (z:T) [T:type{{{_types}}}]", numpy=_compute, native=None, gradient=_gradient)


def _gamma_sample_slope(alpha: Array, sample: Array) -> Array:
    """Return the derivative of a gamma sample with respect to the shape: -(dP/da) / density (implicit reparameterisation)."""
    from scipy import special

    a, x = alpha.astype(np.float64), sample.astype(np.float64)
    density = np.exp((a - 1) * np.log(x) - x - special.gammaln(a))
    return np.asarray(-gamma_slope(a, x) / density).astype(alpha.dtype)


binary(
    "RandomGammaGrad(alpha:T, sample:T) -> (output:T) [T:type{float|double}]",
    numpy=_gamma_sample_slope,
    native=None,
    gradient=undefined_gradient,
)


def _betainc_shape(context: ShapeContext) -> Sequence[Dims]:
    """Shape rule: scalars broadcast; other inputs have one shape."""
    known: Dims = ()
    for dims in context.inputs:
        if dims and known:
            try:
                known = shapes.merge(known, dims)
            except GraphValueError as error:
                raise GraphValueError(
                    f"a, b and x must have one shape or be scalars: {error.message}"
                ) from None
        known = dims or known
    return [known if known or None not in context.inputs else None]


_betainc_by_broadcast = by_scipy("betainc")


def _betainc(a: Array, b: Array, x: Array) -> Array:
    dims = {each.shape for each in (a, b, x)} - {()}
    if len(dims) > 1:
        raise InvalidArgumentError(f"a, b and x must have one shape or be scalars, got {sorted(dims)}")
    found: Array = _betainc_by_broadcast(a, b, x)
    return found


def _betainc_gradient(op: Operation, dz: Tensor) -> Sequence[Any]:
    a, b, x = op.inputs
    log_beta = apply_op("Lgamma", a) + apply_op("Lgamma", b) - apply_op("Lgamma", a + b)
    density = apply_op("Exp", (b - 1.0) * apply_op("Log1p", -x) + (a - 1.0) * apply_op("Log", x) - log_beta)
    return [None, None, _summed_to(x, density * dz)]


def _summed_to(x: Tensor, gradient: Tensor) -> Tensor:
    shape = apply_op("Shape", x)
    axes, _ = apply_tuple_op("BroadcastGradientArgs", shape, apply_op("Shape", gradient))
    return apply_op("Reshape", apply_op("Sum", gradient, axes), shape)


register(
    "Betainc(a:T, b:T, x:T) -> (z:T) [T:type{float|double}]",
    shape=_betainc_shape,
    kernel=plain(_betainc),
    gradient=_betainc_gradient,
)

# Functions

lgamma = function_of("Lgamma", "the logarithm of the absolute value of gamma(x)")
digamma = function_of("Digamma", "the derivative of lgamma")
erfinv = function_of("Erfinv", "the inverse error function of x")
ndtri = function_of("Ndtri", "the x-quantile of the standard normal distribution")
bessel_i0 = function_of("BesselI0", "the modified Bessel function of order 0")
bessel_i0e = function_of("BesselI0e", "exp(-|x|) bessel_i0(x)")
bessel_i1 = function_of("BesselI1", "the modified Bessel function of order 1")
bessel_i1e = function_of("BesselI1e", "exp(-|x|) bessel_i1(x)")


def igamma(a: Any, x: Any, name: str | None = None) -> Tensor:
    """Return the regularised lower incomplete gamma function P(a, x)."""
    return apply_op("Igamma", a, x, name=name)


def igammac(a: Any, x: Any, name: str | None = None) -> Tensor:
    """Return the regularised upper incomplete gamma function 1 - P(a, x)."""
    return apply_op("Igammac", a, x, name=name)


def polygamma(a: Any, x: Any, name: str | None = None) -> Tensor:
    """Return the a-th derivative of digamma at x, for integers a."""
    return apply_op("Polygamma", a, x, name=name)


def zeta(x: Any, q: Any, name: str | None = None) -> Tensor:
    """Return Hurwitz's zeta function: the sum over n of (q + n) ** -x."""
    return apply_op("Zeta", x, q, name=name)


def betainc(a: Any, b: Any, x: Any, name: str | None = None) -> Tensor:
    """Return the regularised incomplete beta function."""
    return apply_op("Betainc", a, b, x, name=name)


def lbeta(x: Any, name: str | None = None) -> Tensor:
    """Return the logarithm of the absolute value of the beta function along the last dimension; -inf if that is empty."""
    with op_scope(name, "lbeta", x):
        tensor = convert_to_tensor(x, name="x")
        last = convert_to_tensor([-1], "int32")
        gammas = apply_op("Sum", apply_op("Lgamma", tensor), last)
        return gammas - apply_op("Lgamma", apply_op("Sum", tensor, last))
