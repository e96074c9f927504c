"""Cases of complex numbers, bits, functions of two numbers and special functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from tests.ops.harness import Case, case
from tests.ops.math.cases_elementwise import (
    COLUMN,
    COMPLEX,
    EMPTY,
    ROW,
    SPECIAL,
    X,
    Y,
    binary_cases,
    unary_cases,
)

Z = [[1 + 2j, -0.5j], [3 - 1j, 2 + 0.25j]]
W = [[0.5 - 1j, 2j], [1 + 1j, -0.75 + 0.5j]]
BOTH = ("float64", "float32")

COMPLEX_NUMBERS = [
    case("Conj", COMPLEX, expected=np.conj, gradients=(0,)),
    *(
        case(name, Z, attrs={"Tout": "float64"}, dtypes=("complex128",), expected=function, gradients=(0,))
        for name, function in (
            ("Real", np.real),
            ("Imag", np.imag),
            ("Angle", np.angle),
            ("ComplexAbs", np.abs),
        )
    ),
    *(
        case(name, Z, dtypes=("complex64",), expected=function)
        for name, function in (
            ("Real", np.real),
            ("Imag", np.imag),
            ("Angle", np.angle),
            ("ComplexAbs", np.abs),
        )
    ),
    case("Complex", X, Y, dtypes=("float32",), expected=lambda x, y: x + 1j * y),
    *(
        case(
            "Complex",
            x,
            y,
            attrs={"Tout": "complex128"},
            dtypes=("float64",),
            expected=lambda x, y: x + 1j * y,
            gradients=(0, 1),
        )
        for x, y in ((X, Y), (X, ROW), (COLUMN, Y), (EMPTY, ROW))
    ),
    *(
        case(name, Z, expected=function, gradients=(0,))
        for name, function in (
            ("Exp", np.exp),
            ("Square", np.square),
            ("Sqrt", np.sqrt),
            ("Reciprocal", np.reciprocal),
            ("Sin", np.sin),
            ("Tanh", np.tanh),
            ("Log", np.log),
            ("Asinh", np.arcsinh),
            ("Sigmoid", lambda x: 1 / (1 + np.exp(-x))),
        )
    ),
    *(
        case(name, Z, W, expected=function, gradients=(0, 1))
        for name, function in (
            ("Mul", np.multiply),
            ("RealDiv", np.divide),
            ("Pow", np.power),
            ("DivNoNan", np.divide),
            ("Sub", np.subtract),
        )
    ),
]


def shifted_left(x: Any, y: Any) -> Any:
    return x << np.clip(y, 0, 8 * x.dtype.itemsize - 1).astype(x.dtype)


def shifted_right(x: Any, y: Any) -> Any:
    return x >> np.clip(y, 0, 8 * x.dtype.itemsize - 1).astype(x.dtype)


BITS = [
    *(
        case(name, x, y, expected=function)
        for name, function in (
            ("BitwiseAnd", np.bitwise_and),
            ("BitwiseOr", np.bitwise_or),
            ("BitwiseXor", np.bitwise_xor),
            ("LeftShift", shifted_left),
            ("RightShift", shifted_right),
        )
        for x, y in (
            ([[7, 12, 100]], [[1], [3]]),
            (5, 2),
            ([-7, 6, -128, 127], [1, -3, 2, 40]),
            (np.arange(41), np.arange(41)[::-1]),
        )
    ),
    *(case("Invert", x, expected=np.invert) for x in ([0, 1, 100], [-7, 6], 5, np.arange(41))),
    *(
        case("PopulationCount", x, expected=expected)
        for x, expected in (([0, 1, 7, 100], np.array([0, 1, 3, 3], np.uint8)), (127, np.uint8(7)))
    ),
    case("PopulationCount", [-1, -2], dtypes=("int64",), expected=np.array([64, 63], np.uint8)),
    case("PopulationCount", [-1, -2], dtypes=("int8",), expected=np.array([8, 7], np.uint8)),
]


def guarded(zero_of: int, function: Any) -> Any:
    """By elements: 0 where this argument is 0."""

    def each(x: float, y: float) -> float:
        return 0.0 if (x, y)[zero_of] == 0 else function(x, y)

    return lambda x, y: np.vectorize(each, otypes=[float])(*np.broadcast_arrays(x, y))


ZEROS = [[0.0, 1.5, 0.0], [2.0, 0.0, -1.0]]
PAIRS = [
    *(
        case(name, x, y, expected=guarded(zero_of, function), gradients=gradients)
        for name, zero_of, function in (
            ("MulNoNan", 1, lambda x, y: x * y),
            ("Xdivy", 0, lambda x, y: x / y),
            ("Xlogy", 0, lambda x, y: x * math.log(y)),
            ("Xlog1py", 0, lambda x, y: x * math.log1p(y)),
        )
        for x, y, gradients in (
            (X, [[0.5, 2.0, 1.25], [3.0, 0.75, 1.5]], (0, 1)),
            (X, [0.5, 2.0, 1.25], (0, 1)),
            (ZEROS, [[0.5, 2.0, 1.25], [3.0, 0.75, 1.5]], ()),
            (2.0, 3.0, (0, 1)),
            (EMPTY, [1.0, 2.0, 3.0], ()),
            (np.linspace(-2, 2, 41), np.linspace(0.5, 3, 41), ()),
        )
    ),
    case("MulNoNan", [math.inf, math.nan, 2.0], 0.0, expected=[0.0, 0.0, 0.0]),
    *(
        case(name, 0.0, [math.inf, math.nan, 0.0], expected=[0.0, 0.0, 0.0])
        for name in ("Xdivy", "Xlogy", "Xlog1py")
    ),
    *binary_cases("Atan2", np.arctan2),
    *(
        case("NextAfter", x, y, dtypes=("float64",), expected=np.nextafter)
        for x, y in ((X, Y), (X, 0.0), (SPECIAL, [[1.0], [-2.0]]), (EMPTY, ROW))
    ),
    case("NextAfter", X, Y, gradients=(0,), dtypes=("float64",)),
    case("NextAfter", 1.0, 2.0, dtypes=("float32",), expected=np.float32(1.0000001192092896)),
    case(
        "ApproximateEqual", [1.0, 2.0, 3.0], [1.0, 2.5, 3.000001], expected=[True, False, True], dtypes=BOTH
    ),
    case(
        "ApproximateEqual",
        [1, 2],
        [1, 3],
        attrs={"tolerance": 1.5},
        expected=[True, True],
        dtypes=("int64", "int32"),
    ),
    *unary_cases("Asinh", np.arcsinh),
    *unary_cases("Acosh", np.arccosh, [[1.5, 2.0, 3.5], [1.25, 4.0, 2.5]]),
    *unary_cases("Atanh", np.arctanh, [[0.5, -0.25, 0.75], [0.1, -0.9, 0.0]]),
    case(
        "AccumulateNV2", [X, Y, X], attrs={"shape": (2, 3)}, expected=lambda *xs: sum(xs), gradients=(0, 1, 2)
    ),
    case("AccumulateNV2", [[1, 2], [3, 4]], attrs={"shape": (2,)}, expected=[4, 6]),
    case("AccumulateNV2", [[1, 2]], attrs={"shape": (2,)}, expected=[1, 2]),
]

POSITIVE = [[0.5, 1.25, 2.0], [3.0, 0.75, 1.5]]
INSIDE = [[0.5, -0.25, 0.75], [0.1, -0.9, 0.3]]
FUNCTIONS: dict[str, tuple[Any, Any]] = {
    "Lgamma": (special.gammaln, POSITIVE),
    "Digamma": (special.digamma, POSITIVE),
    "Erfinv": (special.erfinv, INSIDE),
    "Ndtri": (special.ndtri, [0.1, 0.25, 0.5, 0.9]),
    "Dawsn": (special.dawsn, X),
    "Expint": (special.expi, POSITIVE),
    "Spence": (special.spence, POSITIVE),
    "FresnelCos": (lambda x: special.fresnel(x)[1], X),
    "FresnelSin": (lambda x: special.fresnel(x)[0], X),
    "BesselI0": (special.i0, X),
    "BesselI0e": (special.i0e, X),
    "BesselI1": (special.i1, X),
    "BesselI1e": (special.i1e, X),
    "BesselK0": (special.k0, POSITIVE),
    "BesselK0e": (special.k0e, POSITIVE),
    "BesselK1": (special.k1, POSITIVE),
    "BesselK1e": (special.k1e, POSITIVE),
    "BesselJ0": (special.j0, X),
    "BesselJ1": (special.j1, X),
    "BesselY0": (special.y0, POSITIVE),
    "BesselY1": (special.y1, POSITIVE),
}

A = [[0.5, 1.5, 3.0], [2.0, 0.75, 4.0]]


def gamma_slope(a: Any, x: Any) -> Any:
    return (special.gammainc(a + 1e-5, x) - special.gammainc(a - 1e-5, x)) / 2e-5


def sample_slope(a: Any, x: Any) -> Any:
    return -gamma_slope(a, x) / np.exp((a - 1) * np.log(x) - x - special.gammaln(a))


SPECIAL_FUNCTIONS = [
    *(case(name, at, expected=function, gradients=(0,)) for name, (function, at) in FUNCTIONS.items()),
    *(case(name, EMPTY, expected=np.zeros((0, 3))) for name in FUNCTIONS),
    case("Igamma", A, POSITIVE, expected=special.gammainc, gradients=(0, 1)),
    case("Igammac", A, [0.5, 2.0, 5.0], expected=special.gammaincc, gradients=(0, 1)),
    case("Igamma", [2.0, 50.0], [1500.0, 2000.0], expected=special.gammainc),
    case("IgammaGradA", [1.0, 1.0], [0.0, 1e4], expected=[0.0, 0.0]),
    case("IgammaGradA", A, POSITIVE, expected=gamma_slope, tolerance=1e-3, dtypes=("float64",)),
    case("RandomGammaGrad", A, POSITIVE, expected=sample_slope, tolerance=1e-3, dtypes=("float64",)),
    case(
        "Polygamma",
        [0.0, 1.0, 2.0],
        [1.5, 2.5, 3.5],
        expected=[special.polygamma(n, x) for n, x in ((0, 1.5), (1, 2.5), (2, 3.5))],
        gradients=(1,),
    ),
    case("Polygamma", [0.5], [1.5], expected=[math.nan]),
    case("Zeta", [[2.0, 3.5], [1.5, 4.0]], [0.5, 2.0], expected=special.zeta, gradients=(1,)),
    case(
        "Betainc", A, POSITIVE, [[0.1, 0.25, 0.5], [0.75, 0.9, 0.3]], expected=special.betainc, gradients=(2,)
    ),
    case("Betainc", 2.0, [1.0, 3.0], 0.25, expected=special.betainc),
]

CASES: list[Case] = [*COMPLEX_NUMBERS, *BITS, *PAIRS, *SPECIAL_FUNCTIONS]
