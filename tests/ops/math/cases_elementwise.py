"""Cases of the elementwise ops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError
from tests.ops.harness import Case, case

X = [[0.5, -1.25, 2.0], [-3.0, 0.75, 1.5]]
Y = [[1.5, 2.0, -0.5], [0.25, -4.0, 3.0]]
ROW = [0.625, -2.125, 3.25]
COLUMN = [[1.375], [-0.875]]
EMPTY = np.zeros((0, 3))
LONG = np.linspace(-4, 4, 41)
SPECIAL = [math.inf, -math.inf, math.nan, 0.0, -0.0, 1.0]
INTEGERS = [[7, -7, 6], [1, -2, 100]]
J = [[2, 3, -4], [5, -2, 7]]
U = [[7, 8, 6], [1, 2, 100]]
V = [[2, 3, 4], [5, 2, 7]]
WHOLE = ("int64", "int32", "int16", "int8")
COMPLEX = [[1 + 2j, -0.5j], [3 - 1j, 2 + 0j]]


def binary_cases(
    op_type: str, expected: Any, *, gradients: bool = True, special: bool = True, **options: Any
) -> list[Case]:
    """Equal shapes, broadcasting in each direction, scalars, nothing, and many."""
    checked = (0, 1) if gradients else ()
    cases = [
        case(op_type, X, Y, expected=expected, gradients=checked, **options),
        case(op_type, X, ROW, expected=expected, gradients=checked, **options),
        case(op_type, COLUMN, Y, expected=expected, gradients=checked, **options),
        case(op_type, 2.5, -0.5, expected=expected, gradients=checked, **options),
        case(op_type, X, 1.375, expected=expected, gradients=checked, **options),
        case(op_type, EMPTY, ROW, expected=expected, **options),
        case(op_type, LONG, LONG[::-1] + 0.0625, expected=expected, **options),
    ]
    if special:
        cases.append(
            case(op_type, SPECIAL, [[1.0], [-2.0], [math.inf], [math.nan]], expected=expected, **options)
        )
    return cases


def integer_cases(op_type: str, expected: Any, *, unsigned: bool = True) -> list[Case]:
    cases = [
        case(op_type, INTEGERS, J, expected=expected, dtypes=WHOLE),
        case(op_type, INTEGERS, [3, -1, 2], expected=expected, dtypes=("int64", "int32")),
        case(op_type, 7, 2, expected=expected, dtypes=("int64", "int32")),
        case(op_type, np.arange(-20, 21), 3, expected=expected, dtypes=("int64", "int32")),
    ]
    return [*cases, case(op_type, U, V, expected=expected)] if unsigned else cases


def unary_cases(
    op_type: str,
    expected: Any,
    inputs: Any = X,
    *,
    gradients: bool = True,
    special: bool = True,
    **options: Any,
) -> list[Case]:
    values = np.asarray(inputs)
    many = np.linspace(values.min(), values.max(), 67)
    cases = [
        case(op_type, inputs, expected=expected, gradients=(0,) if gradients else (), **options),
        case(op_type, values.flat[0], expected=expected, **options),
        case(op_type, EMPTY, expected=expected, **options),
        case(op_type, many, expected=expected, **options),
    ]
    if special:
        cases.append(case(op_type, SPECIAL, expected=expected, **options))
    return cases


def truncated(x: Any, y: Any) -> Any:
    return np.trunc(x.astype(np.float64) / y).astype(x.dtype)


def floor_mod(x: Any, y: Any) -> Any:
    return np.where(
        np.isinf(y) & np.isfinite(x), np.where((x < 0) != (y < 0), np.where(x == 0, x, y), x), np.mod(x, y)
    )


def power_integers(x: Any, y: Any) -> Any:
    return np.array([int(a) ** int(b) for a, b in zip(x.flat, y.flat, strict=True)]).reshape(x.shape)


ARITHMETIC = [
    *binary_cases("Add", np.add),
    *binary_cases("AddV2", np.add),
    *binary_cases("Sub", np.subtract),
    *binary_cases("Mul", np.multiply),
    *binary_cases("Div", np.divide),
    *binary_cases("RealDiv", np.divide),
    *binary_cases("SquaredDifference", lambda x, y: (x - y) ** 2),
    *binary_cases("Maximum", np.maximum),
    *binary_cases("Minimum", np.minimum),
    *binary_cases("FloorDiv", lambda x, y: np.floor(x / y), gradients=False),
    *binary_cases("TruncateDiv", lambda x, y: np.trunc(x / y), gradients=False),
    *binary_cases("FloorMod", floor_mod, gradients=False, special=False, dtypes=("float64", "float32")),
    *binary_cases("Mod", np.fmod, gradients=False, special=False, dtypes=("float64", "float32")),
    *binary_cases("TruncateMod", np.fmod, gradients=False, special=False, dtypes=("float64", "float32")),
    *binary_cases("DivNoNan", np.divide),
    case("DivNoNan", [1.0, 0.0, math.nan, math.inf], 0.0, expected=[0.0, 0.0, 0.0, 0.0]),
    case("DivNoNan", [1.0, 2.0], [0.0, 4.0], expected=[0.0, 0.5], gradients=(0,)),
    *(c for name in ("Add", "AddV2") for c in integer_cases(name, np.add)),
    *integer_cases("Sub", np.subtract),
    *integer_cases("Mul", np.multiply),
    *integer_cases("SquaredDifference", lambda x, y: (x - y) * (x - y), unsigned=False),
    *integer_cases("Maximum", np.maximum),
    *integer_cases("Minimum", np.minimum),
    *integer_cases("Div", truncated),
    *integer_cases("RealDiv", truncated),
    *integer_cases("TruncateDiv", truncated),
    *integer_cases("FloorDiv", np.floor_divide),
    *integer_cases("FloorMod", np.mod),
    *integer_cases("Mod", np.fmod, unsigned=False),
    *integer_cases("TruncateMod", np.fmod, unsigned=False),
    case(
        "FloorMod",
        [[1.5, -1.5], [5.25, -5.25]],
        [2.0, -2.0],
        expected=[[1.5, -1.5], [1.25, -1.25]],
        gradients=(0, 1),
    ),
    case(
        "FloorMod", [[1.5, -1.5], [5.25, -5.25]], 2.0, expected=[[1.5, 0.5], [1.25, 0.75]], gradients=(0, 1)
    ),
    case("FloorMod", [-7.0, 7.0, -6.0], [3.0, -3.0, 3.0], expected=[2.0, -2.0, 0.0]),
    case("FloorDiv", [-7, 7, -7, 7], [2, -2, -2, 2], expected=[-4, -4, 3, 3], dtypes=WHOLE),
    case("FloorMod", [-7, 7, -7, 7], [2, -2, -2, 2], expected=[1, -1, -1, 1], dtypes=WHOLE),
    case("TruncateDiv", [-7, 7, -7, 7], [2, -2, -2, 2], expected=[-3, -3, 3, 3], dtypes=WHOLE),
    *(
        case(name, [1, 2], [1, 0], raises=InvalidArgumentError)
        for name in ("Div", "RealDiv", "FloorDiv", "TruncateDiv", "FloorMod", "Mod", "TruncateMod")
    ),
    case("Add", COMPLEX, 1 + 1j, expected=np.add),
    case("AddV2", COMPLEX, 1 + 1j, expected=np.add),
    case("Sub", COMPLEX, 1 + 1j, expected=np.subtract),
    case("Mul", COMPLEX, 1 + 1j, expected=np.multiply),
    case("RealDiv", COMPLEX, 1 + 1j, expected=np.divide),
    case("Add", ["a", "b"], "c", expected=np.array([b"ac", b"bc"], object)),
    case("AddN", [X, Y, X], expected=lambda *x: sum(x), gradients=(0, 1, 2)),
    case("AddN", [X], expected=np.asarray(X), gradients=(0,)),
    case("AddN", [INTEGERS, J], expected=lambda x, y: x + y),
    case("AddN", [U, V], expected=lambda x, y: x + y),
    case("AddN", [EMPTY, EMPTY], expected=EMPTY),
    case("AddN", [X] * 40, expected=lambda *x: 40 * x[0]),
    case("AddN", [INTEGERS] * 17, expected=lambda *x: 17 * x[0], dtypes=("int64", "int32")),
]

POWERS = [
    case("Pow", [[0.5, 1.25, 2.0], [3.0, 0.75, 1.5]], Y, expected=np.power, gradients=(0, 1)),
    case("Pow", [[0.5, 1.25, 2.0], [3.0, 0.75, 1.5]], 2.0, expected=np.power, gradients=(0, 1)),
    case("Pow", X, 2.0, expected=np.power, gradients=(0,)),
    case("Pow", X, 3.0, expected=np.power, gradients=(0,)),
    *(
        case("Pow", [math.inf, -math.inf, math.nan, -0.0, 0.0, -1e-30, 1e30], exponent, expected=np.power)
        for exponent in (2.0, 3.0)
    ),
    case("Pow", X, [2.0, 3.0, -1.0], expected=np.power, gradients=(0,)),
    case("Pow", 2.0, X, expected=np.power, gradients=(0, 1)),
    case("Pow", [0.0, 0.0, 1.0, -1.0, 2.0, math.inf], [[0.0], [1.0], [math.nan], [-1.0]], expected=np.power),
    case("Pow", EMPTY, ROW, expected=np.power),
    case("Pow", np.linspace(0.1, 5, 37), np.linspace(-3, 3, 37), expected=np.power),
    case("Pow", [[2, -3], [1, 5]], [[3, 2], [0, 1]], expected=[[8, 9], [1, 5]]),
    case("Pow", [2, 3], [1, -1], raises=InvalidArgumentError, native=False),
    case("ClipByValue", X, -1.0, 1.0, expected=np.clip, gradients=(0, 1, 2)),
    case(
        "ClipByValue", X, np.full((2, 3), -1.0), np.full((2, 3), 1.0), expected=np.clip, gradients=(0, 1, 2)
    ),
    case("ClipByValue", INTEGERS, -2, 6, expected=np.clip),
    case("ClipByValue", U, 2, 6, expected=np.clip),
]

POSITIVE = [[0.5, 1.25, 2.0], [3.0, 0.75, 1.5]]
UNIT = [[0.5, -0.25, 0.125], [-0.875, 0.75, 0.0625]]


def by_element(function: Any) -> Any:
    return np.vectorize(function, otypes=[np.float64])


FUNCTIONS = [
    *unary_cases("Neg", np.negative),
    *unary_cases("Abs", np.abs),
    *unary_cases("Sign", np.sign),
    *unary_cases("Floor", np.floor, gradients=False),
    *unary_cases("Ceil", np.ceil, gradients=False),
    *unary_cases("Rint", np.rint, gradients=False),
    *unary_cases("Round", np.rint, gradients=False),
    case("Round", [0.5, 1.5, 2.5, -0.5, -1.5, 2.4999], expected=[0.0, 2.0, 2.0, -0.0, -2.0, 2.0]),
    *(
        case(name, value, expected=f)
        for name, f in (("Neg", np.negative), ("Abs", np.abs), ("Sign", np.sign))
        for value in (INTEGERS, -5)
    ),
    case("Round", INTEGERS, expected=lambda x: x),
    case("Square", INTEGERS, expected=lambda x: x * x),
    case("Square", U, expected=lambda x: x * x),
    *unary_cases("Reciprocal", np.reciprocal),
    *unary_cases("Inv", np.reciprocal),
    *(case(name, [1, -1, 2, -3], expected=[1, -1, 0, 0]) for name in ("Reciprocal", "Inv")),
    case("Reciprocal", [1, 0], raises=InvalidArgumentError),
    *unary_cases("Square", np.square),
    *unary_cases("Sqrt", np.sqrt, POSITIVE),
    *unary_cases("Rsqrt", lambda x: 1 / np.sqrt(x), POSITIVE),
    *unary_cases("Exp", np.exp),
    case("Exp", [88.0, -87.0, 100.0, -104.0, 1e-8], expected=np.exp, dtypes=("float32", "float64")),
    *unary_cases("Expm1", np.expm1),
    case("Expm1", [1e-7, -1e-7, 20.0, -20.0], expected=np.expm1),
    *unary_cases("Log", np.log, POSITIVE),
    case("Log", [1e-30, 1e30, 0.999, 1.001], expected=np.log, dtypes=("float32", "float64")),
    *unary_cases("Log1p", np.log1p, POSITIVE),
    case("Log1p", [1e-7, -1e-7, 1e10, -0.5], expected=np.log1p, dtypes=("float32", "float64")),
    *unary_cases("Sin", np.sin),
    *unary_cases("Cos", np.cos),
    *unary_cases("Tan", np.tan),
    *(
        case(name, [100.0, -1000.0, 12345.0, 3e6], expected=f, dtypes=("float32", "float64"))
        for name, f in (("Sin", np.sin), ("Cos", np.cos))
    ),
    *unary_cases("Asin", np.arcsin, UNIT),
    *unary_cases("Acos", np.arccos, UNIT),
    *unary_cases("Atan", np.arctan),
    *unary_cases("Sinh", np.sinh),
    *unary_cases("Cosh", np.cosh),
    *unary_cases("Tanh", np.tanh),
    case("Tanh", [1e-7, -1e-7, 30.0, -30.0], expected=np.tanh),
    *unary_cases("Sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    case(
        "Sigmoid",
        [-80.0, 80.0, -200.0],
        expected=lambda x: 1 / (1 + np.exp(-x)),
        dtypes=("float32", "float64"),
    ),
    *unary_cases("Erf", by_element(math.erf), gradients=True),
    *unary_cases("Erfc", by_element(math.erfc)),
    *(
        case(name, COMPLEX, expected=f)
        for name, f in (("Neg", np.negative), ("Exp", np.exp), ("Square", np.square), ("Sqrt", np.sqrt))
    ),
    *binary_cases("SqrtGrad", lambda y, dy: dy * 0.5 / y, special=False),
    *binary_cases("RsqrtGrad", lambda y, dy: dy * -0.5 * y**3, special=False),
    *binary_cases("ReciprocalGrad", lambda y, dy: -dy * y * y, special=False),
    *binary_cases("InvGrad", lambda y, dy: -dy * y * y, special=False),
    *binary_cases("SigmoidGrad", lambda y, dy: dy * y * (1 - y), special=False),
    *binary_cases("TanhGrad", lambda y, dy: dy * (1 - y * y), special=False),
]

# The adjoints take values of one shape only; broadcasting is not theirs to differentiate.
FUNCTIONS = [
    c
    for c in FUNCTIONS
    if not (c.op_type.endswith("Grad") and np.shape(c.inputs[0]) != np.shape(c.inputs[1]))
]


def comparison_cases(op_type: str, expected: Any) -> list[Case]:
    return [
        *binary_cases(op_type, expected, gradients=False),
        case(op_type, [1.0, 2.0, 3.0], [3.0, 2.0, 1.0], expected=expected),
        case(op_type, INTEGERS, J, expected=expected),
        case(op_type, U, V, expected=expected),
        case(op_type, np.arange(40), 20, expected=expected),
    ]


BITS = [[True, False, True], [False, False, True]]
MORE = [[True, True, False], [False, True, True]]

COMPARISONS = [
    *comparison_cases("Less", np.less),
    *comparison_cases("LessEqual", np.less_equal),
    *comparison_cases("Greater", np.greater),
    *comparison_cases("GreaterEqual", np.greater_equal),
    *comparison_cases("Equal", np.equal),
    *comparison_cases("NotEqual", np.not_equal),
    case("Equal", BITS, MORE, expected=np.equal),
    case("NotEqual", BITS, [True, False, True], expected=np.not_equal),
    case("Equal", ["a", "b"], ["a", "c"], expected=[True, False]),
    case("NotEqual", ["a", "b"], "a", expected=[False, True]),
    case("Equal", COMPLEX, COMPLEX[0], expected=np.equal),
    case(
        "Equal",
        [1.0, 2.0],
        [1.0, 2.0, 3.0],
        attrs={"incompatible_shape_error": False},
        expected=False,
        native=False,
    ),
    case(
        "NotEqual",
        [1.0, 2.0],
        [1.0, 2.0, 3.0],
        attrs={"incompatible_shape_error": False},
        expected=True,
        native=False,
    ),
    *(
        case(name, *inputs, expected=f)
        for name, f in (("LogicalAnd", np.logical_and), ("LogicalOr", np.logical_or))
        for inputs in (
            (BITS, MORE),
            (BITS, [True, False, True]),
            (True, False),
            (np.zeros((0, 2), bool), True),
        )
    ),
    *(case("LogicalNot", value, expected=np.logical_not) for value in (BITS, True, np.zeros(0, bool))),
    *(
        case(name, value, expected=f)
        for name, f in (("IsNan", np.isnan), ("IsInf", np.isinf), ("IsFinite", np.isfinite))
        for value in (X, SPECIAL, 1.0, EMPTY, [math.nan] * 40)
    ),
]

CHOICES = [
    case("Select", BITS, X, Y, expected=np.where, gradients=(1, 2)),
    case("Select", True, X, Y, expected=np.where, gradients=(1, 2)),
    case("Select", [True, False], X, Y, expected=np.asarray([X[0], Y[1]]), gradients=(1, 2)),
    case("Select", False, 1.0, 2.0, expected=2.0),
    case("Select", np.zeros((0, 3), bool), EMPTY, EMPTY, expected=EMPTY),
    case("Select", BITS, INTEGERS, J, expected=np.where),
    case("Select", [True, False], U, V, expected=np.asarray([U[0], V[1]])),
    case("Select", BITS, BITS, MORE, expected=np.where),
    case("Select", [True, False], ["a", "b"], ["c", "d"], expected=np.array([b"a", b"d"], object)),
    case("SelectV2", BITS, X, Y, expected=np.where, gradients=(1, 2)),
    case("SelectV2", BITS, X, 1.0, expected=np.where, gradients=(1, 2)),
    case("SelectV2", BITS, COLUMN, ROW, expected=np.where, gradients=(1, 2)),
    case("SelectV2", True, X, ROW, expected=np.where, gradients=(1, 2)),
    case("SelectV2", BITS, INTEGERS, 5, expected=np.where),
    case("SelectV2", BITS, BITS, False, expected=np.where),
    case("SelectV2", np.zeros((0, 3), bool), 1.0, EMPTY, expected=EMPTY),
]

NUMBERS = ("float64", "float32", "int64", "int32")
CASTS = [
    *(
        case("Cast", [[1.75, -2.5, 0.0], [100.0, -100.25, 3.0]], attrs={"DstT": to}, vary="SrcT", expected=f, native=native)
        for to, f, native in (
            ("int32", lambda x: np.trunc(x).astype(np.int32), True),
            ("int64", lambda x: np.trunc(x).astype(np.int64), True),
            ("bool", lambda x: x != 0, True),
            ("float16", lambda x: x, False),
            ("complex64", lambda x: x.astype(np.complex64), False),
        )
    ),
    case("Cast", X, attrs={"DstT": "float64"}, vary="SrcT", expected=lambda x: x, gradients=(0,)),
    case("Cast", X, attrs={"DstT": "float32"}, vary="SrcT", expected=lambda x: x),
    *(
        case("Cast", INTEGERS, attrs={"DstT": to}, vary="SrcT", dtypes=WHOLE, expected=lambda x, to=to: x.astype(to))
        for to in (*NUMBERS, "bool", "uint8")
    ),
    case("Cast", INTEGERS, attrs={"DstT": "bfloat16"}, vary="SrcT", dtypes=WHOLE, expected=lambda x: x, native=False),
    *(case("Cast", BITS, attrs={"DstT": to}, vary="SrcT", expected=lambda x, to=to: x.astype(to)) for to in (*NUMBERS, "bool")),
    case("Cast", U, attrs={"DstT": "float32"}, vary="SrcT", expected=lambda x: x.astype(np.float32)),
    case("Cast", COMPLEX, attrs={"DstT": "complex128"}, vary="SrcT", expected=lambda x: x),
    case("Cast", COMPLEX, attrs={"DstT": "float32"}, vary="SrcT", expected=lambda x: x.real),
    case("Cast", [math.nan, 1e30, -1e30, math.inf], attrs={"DstT": "int32"}, vary="SrcT", dtypes=("float64", "float32"),
         expected=[0, 2**31 - 1, -(2**31), 2**31 - 1]),
    case("Cast", EMPTY, attrs={"DstT": "int32"}, vary="SrcT", expected=lambda x: x.astype(np.int32)),
    case("Cast", 2.5, attrs={"DstT": "int64"}, vary="SrcT", expected=2),
]  # fmt: skip

CASES = [*ARITHMETIC, *POWERS, *FUNCTIONS, *COMPARISONS, *CHOICES, *CASTS]
