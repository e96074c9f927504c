"""Elementwise ops: arithmetic, comparison, functions of one and two numbers, complex numbers, bits, special functions."""

from __future__ import annotations

import numpy as np

from tests.interop.parity.sweeps import COMPLEX, FLOATS, binary, sample, unary
from tests.interop.parity.table import Case, case, const, unknown

REALS = ("float32", "float64")

ARITHMETIC = [
    *(
        c
        for name in ("Add", "AddV2", "Sub", "Mul", "SquaredDifference", "Maximum", "Minimum")
        for c in binary(name)
    ),
    *(c for name in ("Div", "RealDiv", "TruncateDiv", "FloorDiv") for c in binary(name, low2=1, high2=5)),
    *(c for name in ("FloorMod", "Mod", "TruncateMod") for c in binary(name, low2=1, high2=5)),
    *(c for name in ("DivNoNan", "MulNoNan", "Xdivy") for c in binary(name)),
    *(c for name in ("Xlogy", "Xlog1py") for c in binary(name, low2=0.5)),
    *(
        case(name, [0.0, 2.0, 0.0], [1.5, 0.0, np.nan])
        for name in ("DivNoNan", "MulNoNan", "Xdivy", "Xlogy", "Xlog1py")
    ),
    *binary("Pow", low=0.5, low2=0.0, high2=4),
    *binary("Atan2"),
    *binary("NextAfter"),
]

FUNCTIONS = [
    *(
        c
        for name in ("Neg", "Abs", "Sign", "Floor", "Ceil", "Rint", "Square", "Exp", "Expm1", "Sin", "Cos")
        for c in unary(name)
    ),
    *(c for name in ("Tan", "Atan", "Sinh", "Cosh", "Tanh", "Sigmoid", "Erfc", "Asinh") for c in unary(name)),
    *unary("Round", dtypes=FLOATS),
    case(
        "Round",
        np.array([1, -2]),
        differs="TensorFlow's Round of int64 is 0 everywhere; here integers are round",
    ),
    *unary("Erf", special=(0.0, -0.0, np.nan, 1e-30, 1.0)),
    case("Erf", np.array([np.inf]), differs="TensorFlow gives NaN in float64, 1 in float32"),
    *(
        c
        for name in ("Sqrt", "Rsqrt", "Log", "Log1p", "Reciprocal", "Inv", "Acosh")
        for c in unary(name, low=1, high=4)
    ),
    *(c for name in ("Asin", "Acos", "Atanh") for c in unary(name, low=-0.9, high=0.9)),
    *(c for name in ("IsNan", "IsInf", "IsFinite") for c in unary(name)),
    *(
        c
        for name in ("SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad", "SigmoidGrad", "TanhGrad")
        for y, dy in (((2, 3), (2, 3)), ((4,), (4,)), ((0, 2), (0, 2)), ((), ()))
        for c in (
            case(name, sample(dtype, y, 1, 0.5, 2.0), sample(dtype, dy, 2)) for dtype in (*FLOATS, *COMPLEX)
        )
    ),
]

COMPARISONS = [
    *(c for name in ("Less", "LessEqual", "Greater", "GreaterEqual") for c in binary(name, whole=True)),
    *(c for name in ("Equal", "NotEqual") for c in binary(name, whole=True)),
    *(
        case(name, sample("bool", a, 1), sample("bool", b, 2))
        for name in ("LogicalAnd", "LogicalOr")
        for a, b in (((), ()), ((3,), ()), ((2, 3), (3,)), ((0, 3), (3,)), ((2, 1), (1, 4)), ((2, 3), (2, 3)))
    ),
    *(
        case(name, sample("bool", a, 1), sample("bool", b, 2), bad=True)
        for name in ("LogicalAnd", "LogicalOr")
        for a, b in (((2,), (3,)), ((2, 3), (2, 4)))
    ),
    *(
        case(name, unknown(sample("bool", a, 1)), unknown(sample("bool", b, 2)))
        for name in ("LogicalAnd", "LogicalOr")
        for a, b in (((2,), (2,)), ((2, 3), (3,)), ((0,), ()), ((1,), (4,)))
    ),
    *(
        case("LogicalNot", sample("bool", shape))
        for shape in ((), (1,), (0,), (5,), (2, 0, 3), (2, 3), (3, 1, 4), (2, 1, 3, 2), (7,), (65,))
    ),
    case("LogicalNot", unknown(sample("bool", (3,)))),
    case("LogicalNot", np.array([1, 0]), bad=True),
    *(
        case("ApproximateEqual", sample(dtype, shape, 1, whole=True), sample(dtype, shape, 2, whole=True))
        for dtype in ("float32", "float64")
        for shape in ((), (3,), (0, 2), (2, 3))
    ),
    case("ApproximateEqual", unknown([1.0, 2.0]), [1.0, 2.5]),
    case("ApproximateEqual", [1.0, 2.0], 1.0, bad=True),
    case("ApproximateEqual", unknown([1.0, 2.0]), unknown([1.0]), bad=True),
    case("ApproximateEqual", [1.0, 2.0], [1.1, 2.3], attrs={"tolerance": 0.2}),
]

CHOICE = [
    *(
        case(name, sample("bool", (2, 3)), sample(dtype, (2, 3), 1), sample(dtype, (2, 3), 2))
        for name in ("Select", "SelectV2")
        for dtype in (*FLOATS, *COMPLEX, "int32", "uint8", "bool", "string")
    ),
    *(
        case("Select", sample("bool", c), sample("float32", shape, 1), sample("float32", shape, 2))
        for c, shape in (
            ((), ()),
            ((), (2, 3)),
            ((2,), (2, 3)),
            ((0,), (0, 3)),
            ((3,), (3,)),
            ((2,), (2, 3, 4)),
        )
    ),
    *(
        case("Select", sample("bool", c), sample("float32", a, 1), sample("float32", b, 2), bad=True)
        for c, a, b in (
            ((3,), (2, 3), (2, 3)),
            ((2,), (2,), (3,)),
            ((2, 3), (2,), (2,)),
            ((), (2, 1), (2, 3)),
        )
    ),
    *(
        case("SelectV2", sample("bool", c), sample("float32", a, 1), sample("float32", b, 2))
        for c, a, b in (
            ((), (2,), ()),
            ((2, 1), (3,), (2, 3)),
            ((0,), (1,), ()),
            ((4, 1, 1), (2, 1), (3,)),
            ((3,), (), (1,)),
        )
    ),
    case("SelectV2", [True, False], [1.0, 2.0], [1.0, 2.0, 3.0], bad=True),
    *(
        case("ClipByValue", sample(dtype, (3, 4)), np.asarray(0).astype(dtype), np.asarray(2).astype(dtype))
        for dtype in ("float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "int8")
    ),
    case(
        "ClipByValue",
        sample("float32", (2, 3)),
        sample("float32", (2, 3), 2, -2, 0),
        sample("float32", (2, 3), 3, 0, 1),
    ),
    case("ClipByValue", sample("float32", (0, 3)), 0.0, 1.0),
    case("ClipByValue", unknown(sample("float32", (4,))), 0.0, 1.0),
    case("ClipByValue", sample("float32", (4,)), [0.0, 1.0], 1.0, bad=True),
    case("ClipByValue", sample("float32", (4,)), -np.inf, 0.5),
]

SUMS = [
    *(
        case("AddN", [sample(dtype, (2, 3), k) for k in range(3)])
        for dtype in (*FLOATS, *COMPLEX, "int32", "int64", "uint8", "int16")
    ),
    *(
        case("AddN", [sample("float32", shape, k) for k in range(n)])
        for shape, n in (((), 1), ((0, 2), 4), ((5,), 40))
    ),
    case("AddN", [unknown([1.0, 2.0]), [3.0, 4.0]]),
    case("AddN", [[1.0, 2.0], [3.0]], bad=True),
    case("AddN", [unknown([1.0, 2.0]), unknown([3.0])], bad=True),
    *(
        case("AccumulateNV2", [sample(dtype, (2, 3), k) for k in range(3)], attrs={"shape": (2, 3)})
        for dtype in (*FLOATS, *COMPLEX, "int32", "int64")
    ),
    *(
        case("AccumulateNV2", [sample("float32", shape, k) for k in range(n)], attrs={"shape": shape})
        for shape, n in (((), 1), ((0, 2), 4), ((5,), 20))
    ),
    case("AccumulateNV2", [[1.0, 2.0], [3.0]], attrs={"shape": (2,)}, bad=True),
]

COMPLEX_NUMBERS = [
    *(
        case(name, sample(dtype, shape, 1), attrs={} if dtype == "complex64" else {"Tout": "float64"})
        for name in ("Real", "Imag", "Angle", "ComplexAbs")
        for dtype in COMPLEX
        for shape in ((), (3,), (0,), (2, 3), (2, 0, 3), (1,))
    ),
    *(
        case(name, unknown(sample("complex64", (2,), 1)))
        for name in ("Real", "Imag", "Angle", "ComplexAbs", "Conj")
    ),
    *(case(name, np.array([1.0]), bad=True) for name in ("Real", "Imag", "Angle", "ComplexAbs", "Conj")),
    *(
        case(name, np.array([0, 1j, -1, np.inf, 3 - 4j], "complex64"), grad=False)
        for name in ("Angle", "ComplexAbs")
    ),
    *(
        case("Conj", sample(dtype, shape, 1))
        for dtype in COMPLEX
        for shape in ((), (3,), (0,), (2, 3), (2, 0, 3))
    ),
    *(
        case("Complex", sample(part, a, 1), sample(part, b, 2), attrs={"Tout": whole})
        for part, whole in zip(REALS, COMPLEX, strict=True)
        for a, b in (((), ()), ((3,), ()), ((2, 3), (3,)), ((0,), (1,)), ((2, 1), (1, 2)), ((4,), (4,)))
    ),
    case("Complex", unknown([1.0]), unknown([2.0])),
    case("Complex", [1.0, 2.0], [1.0, 2.0, 3.0], bad=True),
    case("Complex", np.array([1, 2]), np.array([3, 4]), bad=True),
]

BITS = [
    *(
        c
        for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift")
        for c in binary(name, low=-9, high=9)
    ),
    *(case(name, [1, -1, 5], [40, -3, 31]) for name in ("LeftShift", "RightShift")),
    *(c for name in ("Invert", "PopulationCount") for c in unary(name, low=-100, high=100)),
]

SPECIAL_OF_ONE = {
    "Lgamma": (0.2, 6.0), "Digamma": (0.2, 6.0), "Erfinv": (-0.9, 0.9), "Ndtri": (0.05, 0.95), "Dawsn": (-3.0, 3.0),
    "Expint": (0.1, 4.0), "Spence": (0.1, 4.0), "FresnelCos": (-2.0, 2.0), "FresnelSin": (-2.0, 2.0),
    "BesselI0": (-3.0, 3.0), "BesselI0e": (-3.0, 3.0), "BesselI1": (-3.0, 3.0), "BesselI1e": (-3.0, 3.0),
    "BesselK0": (0.2, 4.0), "BesselK0e": (0.2, 4.0), "BesselK1": (0.2, 4.0), "BesselK1e": (0.2, 4.0),
    "BesselJ0": (-4.0, 4.0), "BesselJ1": (-4.0, 4.0), "BesselY0": (0.2, 4.0), "BesselY1": (0.2, 4.0),
}  # fmt: skip

SPECIAL = [
    *(
        c
        for name, (low, high) in SPECIAL_OF_ONE.items()
        for c in unary(name, low=low, high=high, special=(0.0, 1.0, np.nan) if low < 0 else (1.0, np.nan))
    ),
    *(
        c
        for name in ("Igamma", "Igammac", "IgammaGradA")
        for c in binary(name, low=0.3, high=5, low2=0.3, high2=5)
    ),
    *binary("RandomGammaGrad", low=0.3, high=5, low2=0.3, high2=5),
    *binary("Polygamma", low=0, high=4, low2=0.3, high2=5, whole=False),
    *(case("Polygamma", np.array([0.0, 1, 2, 3], dtype), sample(dtype, (4,), 1, 0.5, 4)) for dtype in REALS),
    *binary("Zeta", low=1.2, high=5, low2=0.3, high2=5),
    *(
        case(
            "Betainc",
            sample(dtype, a, 1, 0.3, 4),
            sample(dtype, b, 2, 0.3, 4),
            sample(dtype, x, 3, 0.05, 0.95),
        )
        for dtype in REALS
        for a, b, x in (
            ((), (), ()),
            ((3,), (3,), (3,)),
            ((), (), (2, 3)),
            ((2, 3), (), (2, 3)),
            ((0,), (0,), (0,)),
        )
    ),
    case("Betainc", [1.0, 2.0], [1.0, 2.0, 3.0], 0.5, bad=True),
    case("Betainc", unknown([1.0, 2.0]), [1.0, 2.0], unknown(0.5)),
]

CONVERSIONS = [
    *(
        case(
            "Cast",
            sample(source, (2, 3), 1, low=0.0 if target.startswith("u") else -3.0),
            attrs={"DstT": target},
        )
        for source in (
            *FLOATS,
            *COMPLEX,
            "int8",
            "int16",
            "int32",
            "int64",
            "uint8",
            "uint16",
            "uint32",
            "uint64",
            "bool",
        )
        for target in (*FLOATS, *COMPLEX, "int8", "int32", "int64", "uint8", "uint16", "bool")
    ),
    *(
        case(
            "Cast", np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 1.7, -1.7], source), attrs={"DstT": target}
        )
        for source in REALS
        for target in ("bool", "float16", "bfloat16", "float32")
    ),
    *(case("Cast", sample("float32", shape), attrs={"DstT": "int32"}) for shape in ((), (0, 2), (65,))),
    case(
        "Cast",
        [-1.5],
        attrs={"DstT": "uint8"},
        differs="a negative float as an unsigned integer is undefined in C++; here it is 0 on every machine",
    ),
    case("Cast", unknown([1.5, 2.5]), attrs={"DstT": "int64"}),
    case("Cast", np.array([b"1"], object), attrs={"DstT": "int32"}, bad=True),
    case("Cast", np.array([1]), attrs={"DstT": "string"}, bad=True),
    case("Cast", const([1.5]), attrs={"DstT": "float64", "Truncate": True}),
]

CASES: list[Case] = [
    *ARITHMETIC,
    *FUNCTIONS,
    *COMPARISONS,
    *CHOICE,
    *SUMS,
    *COMPLEX_NUMBERS,
    *BITS,
    *SPECIAL,
    *CONVERSIONS,
]
