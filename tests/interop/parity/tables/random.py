"""Random numbers: the same stream for the same seeds."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.parity.sweeps import FLOATS, sample
from tests.interop.parity.table import Case, case, const, node, resource, unknown

SEEDS: dict[str, Any] = {"seed": 87654321, "seed2": 42}
OTHER_SEEDS: dict[str, Any] = {"seed": 3, "seed2": -17}
SHAPES: tuple[Any, ...] = ([6], [2, 3], [1], [0], [3, 0, 2], [1000], [7, 5, 3])


def int32(value: Any) -> Any:
    return np.array(value, np.int32)


def drawn(op_type: str, *inputs: Any, attrs: dict[str, Any] | None = None, **more: Any) -> list[Case]:
    """A distribution without parameters by its dtypes, in many shapes, in two steps."""
    attrs = attrs or {}
    found = [
        case(op_type, const(int32([2, 5])), *inputs, attrs={**attrs, "dtype": name}, **more)
        for name in FLOATS
    ]
    found += [
        case(op_type, const(int32(shape)), *inputs, attrs={**attrs, "dtype": "float32"}, **more)
        for shape in SHAPES
    ]
    found += [
        case(
            op_type, const(np.array([4, 2], np.int64)), *inputs, attrs={**attrs, "dtype": "float64"}, **more
        ),
        case(op_type, int32([4, 2]), *inputs, attrs={**attrs, "dtype": "float32"}, **more),
        case(op_type, unknown(int32([4, 2])), *inputs, attrs={**attrs, "dtype": "float32"}, **more),
        case(op_type, int32([4, -2]), *inputs, attrs={**attrs, "dtype": "float32"}, bad=True, **more),
        case(
            op_type, unknown(int32([[4, 2]])), *inputs, attrs={**attrs, "dtype": "float32"}, bad=True, **more
        ),
        case(op_type, const(int32([2])), *inputs, attrs={**attrs, "dtype": "int32"}, bad=True, **more),
    ]
    return found


CASES: list[Case] = []
for op in ("RandomUniform", "RandomStandardNormal", "TruncatedNormal"):
    CASES += drawn(op, attrs=SEEDS)
    CASES += [
        case(
            op,
            const(int32([5])),
            attrs={**OTHER_SEEDS, "dtype": name},
            steps=lambda draw: [[draw], [draw], [draw]],
        )
        for name in FLOATS
    ]

for kind in ("int32", "int64"):
    low, high = np.array(-1000, kind), np.array(1000, kind)
    CASES += [case("RandomUniformInt", const(int32(shape)), low, high, attrs=SEEDS) for shape in SHAPES]
    CASES += [
        case(
            "RandomUniformInt", int32([3]), low, high, attrs=OTHER_SEEDS, steps=lambda draw: [[draw], [draw]]
        ),
        case("RandomUniformInt", unknown(int32([3, 2])), low, high, attrs=SEEDS),
        case("RandomUniformInt", int32([3]), high, low, attrs=SEEDS, bad=True),
        case("RandomUniformInt", int32([3]), unknown(np.array([1], kind)), high, attrs=SEEDS, bad=True),
        case(
            "RandomUniformInt",
            int32([3]),
            np.array(np.iinfo(kind).min),
            np.array(np.iinfo(kind).max),
            attrs=SEEDS,
        ),
    ]

CASES += [
    case("RandomShuffle", sample(name, (7, 2)), attrs=SEEDS, grad=False)
    for name in (
        "float32",
        "float64",
        "float16",
        "bfloat16",
        "int32",
        "int64",
        "uint8",
        "bool",
        "string",
        "complex64",
    )
]
CASES += [
    case("RandomShuffle", sample("float32", shape), attrs=SEEDS, grad=False)
    for shape in ((), (1,), (0,), (1, 4), (4, 0), (50,), (3, 2, 2))
]
CASES.append(
    case("RandomShuffle", unknown(sample("float32", (5,))), attrs=OTHER_SEEDS, steps=lambda x: [[x], [x]])
)

for name in FLOATS:
    CASES.append(case("Multinomial", sample(name, (3, 5)), 7, attrs=SEEDS))
for kind in ("int32", "int64"):
    CASES.append(case("Multinomial", sample("float32", (2, 3)), 100, attrs={**SEEDS, "output_dtype": kind}))
CASES += [
    case("Multinomial", sample("float32", (0, 3)), 4, attrs=SEEDS),
    case("Multinomial", sample("float32", (2, 3)), 0, attrs=SEEDS),
    case("Multinomial", sample("float32", (1, 1)), 3, attrs=SEEDS),
    case("Multinomial", np.array([[-np.inf, 1.0, 2.0]], np.float32), 9, attrs=SEEDS),
    case(
        "Multinomial",
        unknown(sample("float32", (2, 3))),
        const(int32(3)),
        attrs=OTHER_SEEDS,
        steps=lambda x: [[x]] * 3,
    ),
    case("Multinomial", unknown(sample("float32", (3,))), 4, attrs=SEEDS, bad=True),
    case("Multinomial", sample("float32", (2, 3)), -1, attrs=SEEDS, bad=True),
    case("Multinomial", sample("float32", (2, 0)), 2, attrs=SEEDS, bad=True),
]

ALPHAS = [0.25, 1.0, 0.75, 2.5, 100.0]
for name in ("float32", "float64", "float16"):
    alpha = np.array(ALPHAS, name)
    CASES += [
        case("RandomGamma", const(int32([3])), alpha, attrs=SEEDS, grad=name != "float16"),
        case(
            "RandomGamma", int32([2, 2]), alpha[:2], attrs=OTHER_SEEDS, grad=False, steps=lambda x: [[x], [x]]
        ),
    ]
CASES += [
    case("RandomGamma", const(int32(shape)), np.array(2.5, np.float32), attrs=SEEDS, grad=False)
    for shape in SHAPES
]
CASES += [
    case("RandomGamma", unknown(int32([2])), unknown(np.array([[1.5, 2.5]], np.float32)), attrs=SEEDS),
    case("RandomGamma", const(int32([2])), np.zeros((0,), np.float32), attrs=SEEDS, grad=False),
    case("RandomGamma", int32([-2]), np.array([1.5], np.float32), attrs=SEEDS, bad=True),
]

RATES = [0.0, 0.5, 3.0, 9.5, 10.0, 35.0, 1000.0]
for rate in ("float16", "float32", "float64", "int32", "int64"):
    for out in ("float16", "float32", "float64", "int32", "int64"):
        CASES.append(
            case(
                "RandomPoissonV2",
                const(int32([4])),
                np.array(RATES).astype(rate),
                attrs={**SEEDS, "dtype": out},
            )
        )
CASES += [
    case("RandomPoissonV2", const(int32(shape)), np.array(4.5), attrs={**SEEDS, "dtype": "int64"})
    for shape in SHAPES
]
CASES += [
    case(
        "RandomPoissonV2",
        unknown(int32([2])),
        unknown(np.array([[1.5, 22.5]])),
        attrs={**SEEDS, "dtype": "int32"},
    ),
    case("RandomPoissonV2", int32([2]), np.array([12.5]), attrs=OTHER_SEEDS, steps=lambda x: [[x], [x]]),
    case("RandomPoissonV2", int32([-2]), np.array([12.5]), attrs=OTHER_SEEDS, bad=True),
]

LIMITS = (  # means, deviations, least, greatest: the ways to draw, and both sides
    (0.0, 1.0, -1.0, 2.0),
    (0.0, 1.0, -3.0, 4.0),
    (0.0, 1.0, 1.0, 1.25),
    (0.0, 1.0, 3.0, 9.0),
    (0.0, 1.0, -9.0, -3.0),
    (0.5, 2.0, -np.inf, 0.0),
    (0.5, 2.0, 0.75, np.inf),
    (2.0, 0.25, -0.5, 0.5),
)
for limits in LIMITS:
    for name in ("float32", "float64"):
        CASES.append(
            case(
                "ParameterizedTruncatedNormal",
                const(int32([4, 3])),
                *(np.array(each, name) for each in limits),
                attrs=SEEDS,
            )
        )
CASES += [
    case(
        "ParameterizedTruncatedNormal",
        int32([3, 5]),
        *(np.array(each, np.float32) for each in ([0.0, 1.0, 2.0], [1.0], [1.0, -1.0, 0.0], 4.0)),
        attrs=SEEDS,
        steps=lambda x: [[x], [x]],
    ),
    case(
        "ParameterizedTruncatedNormal", int32([250]), 0.0, 1.0, -1.0, 1.5, attrs={**SEEDS, "dtype": "float32"}
    ),
    case(
        "ParameterizedTruncatedNormal", int32([0]), 0.0, 1.0, -1.0, 1.5, attrs={**SEEDS, "dtype": "float32"}
    ),
    case(
        "ParameterizedTruncatedNormal",
        int32([2]),
        0.0,
        0.0,
        -1.0,
        1.5,
        attrs={**SEEDS, "dtype": "float32"},
        bad=True,
    ),
    case(
        "ParameterizedTruncatedNormal",
        int32([2]),
        0.0,
        1.0,
        2.0,
        1.5,
        attrs={**SEEDS, "dtype": "float32"},
        bad=True,
    ),
    case(
        "ParameterizedTruncatedNormal",
        int32([2]),
        np.array([0.0, 1.0, 2.0], np.float32),
        *(np.array(each, np.float32) for each in (1.0, -2.0, 1.5)),
        attrs=SEEDS,
        bad=True,
    ),
]

# Without state

SEED = np.array([7, -3], np.int64)
KEY = np.array([7], np.uint64)
COUNTER = np.array([2**64 - 2, 9], np.uint64)
PHILOX, AUTO, NONE = int32(1), int32(3), int32(9)
BAD_PLACES: tuple[tuple[Any, ...], ...] = (
    (unknown(np.array([7, 8], np.uint64)), COUNTER, PHILOX),
    (KEY, unknown(np.array([[7, 8]], np.uint64)), PHILOX),
    (KEY, COUNTER, int32(2)),
)

for op in ("StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal"):
    CASES += drawn(op, SEED)
    CASES += drawn(f"{op}V2", KEY, COUNTER, PHILOX)
    CASES += [
        case(op, int32([3]), np.array([2**31 - 1, 5], np.int32), attrs={"dtype": "float32"}),
        case(op, int32([3]), unknown(np.array([1, 2, 3])), attrs={"dtype": "float32"}, bad=True),
        case(op, int32([3]), np.array([1, 2, 3]), attrs={"dtype": "float32"}, bad=True),
        case(f"{op}V2", int32([3]), KEY, COUNTER, AUTO, attrs={"dtype": "float32"}),
    ]
    CASES += [case(f"{op}V2", int32([3]), *bad, attrs={"dtype": "float32"}, bad=True) for bad in BAD_PLACES]

for name in ("int32", "int64", "uint32", "uint64"):
    for shape in ([5], [2, 3], [0]):
        attrs = {"dtype": name}
        CASES += [
            case("StatelessRandomUniformFullInt", const(int32(shape)), SEED, attrs=attrs),
            case("StatelessRandomUniformFullIntV2", const(int32(shape)), KEY, COUNTER, PHILOX, attrs=attrs),
        ]
for name in ("int32", "int64"):
    low, high = np.array(-10, name), np.array(100, name)
    for shape in ([5], [2, 3], [0], [333]):
        CASES += [
            case("StatelessRandomUniformInt", const(int32(shape)), SEED, low, high),
            case("StatelessRandomUniformIntV2", const(int32(shape)), KEY, COUNTER, PHILOX, low, high),
        ]
    CASES += [
        case("StatelessRandomUniformInt", unknown(int32([4])), SEED, low, high),
        case("StatelessRandomUniformInt", int32([4]), SEED, high, low, bad=True),
        case("StatelessRandomUniformInt", int32([4]), SEED, low, unknown(np.array([4], name)), bad=True),
        case("StatelessRandomUniformIntV2", unknown(int32([4])), KEY, COUNTER, AUTO, low, high),
        case("StatelessRandomUniformIntV2", int32([4]), KEY, COUNTER, PHILOX, high, low, bad=True),
    ]

for name in FLOATS:
    CASES.append(case("StatelessMultinomial", sample(name, (3, 5)), 7, SEED))
for kind in ("int32", "int64"):
    CASES += [
        case("StatelessMultinomial", sample("float32", (2, 3)), 50, SEED, attrs={"output_dtype": kind}),
        case("StatelessMultinomial", sample("float32", (2, 3)), 0, SEED.astype(kind)),
    ]
CASES += [
    case("StatelessMultinomial", unknown(sample("float32", (4, 3))), const(int32(3)), SEED),
    case("StatelessMultinomial", sample("float32", (0, 3)), 3, SEED),
    case("StatelessMultinomial", unknown(sample("float32", (3,))), 3, SEED, bad=True),
    case("StatelessMultinomial", sample("float32", (2, 3)), -3, SEED, bad=True),
]

for name in ("float32", "float64", "float16"):
    alpha = np.array(ALPHAS, name)
    grad = name != "float16"
    CASES += [
        case("StatelessRandomGammaV2", const(int32([3, 5])), SEED, alpha, grad=grad),
        case("StatelessRandomGammaV3", const(int32([3, 5])), KEY, COUNTER, PHILOX, alpha, grad=grad),
    ]
for shape in SHAPES:
    alpha = np.array(2.5, np.float32)
    CASES += [
        case("StatelessRandomGammaV2", const(int32(shape)), SEED, alpha, grad=False),
        case("StatelessRandomGammaV3", const(int32(shape)), KEY, COUNTER, PHILOX, alpha, grad=False),
        case("StatelessRandomPoisson", const(int32(shape)), SEED, np.array(12.5), attrs={"dtype": "int32"}),
    ]
CASES += [
    case("StatelessRandomGammaV2", int32([3, 2]), SEED, np.array(ALPHAS, np.float32), bad=True, grad=False),
    case("StatelessRandomGammaV2", unknown(int32([3, 5])), SEED, unknown(np.array(ALPHAS, np.float32))),
    case(
        "StatelessRandomGammaV3", int32([3, 2]), KEY, COUNTER, PHILOX, np.array(ALPHAS, np.float32), bad=True
    ),
    case("StatelessRandomGammaV3", unknown(int32([3, 5])), KEY, COUNTER, AUTO, np.array(ALPHAS, np.float32)),
    case("StatelessRandomPoisson", int32([3, 2]), SEED, np.array(RATES), attrs={"dtype": "int32"}, bad=True),
]
for out in ("float16", "float32", "float64", "int32", "int64"):
    CASES.append(
        case("StatelessRandomPoisson", const(int32([3, 7])), SEED, np.array(RATES), attrs={"dtype": out})
    )

SEED_VALUES = ([7, -3], [0, 0], [2**31 - 1, 1], [-1, -1], [5, 6])
for op in ("StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg"):
    for kind in ("int32", "int64"):
        CASES += [case(op, np.array(seed, kind)) for seed in SEED_VALUES]
    CASES += [
        case(op, unknown(SEED)),
        case(op, np.array([1]), bad=True),
        case(op, unknown(np.array([1])), bad=True),
    ]
CASES += [case("StatelessRandomGetAlg")] * 12

# Generators

STATE = np.array([5, 2**63 - 1, 7], np.int64)
ALGORITHM = np.array(1, np.int64)


def shape64(shape: Any) -> Any:
    return const(np.array(shape, np.int64))


for op in ("StatefulUniform", "StatefulStandardNormalV2", "StatefulTruncatedNormal"):
    for name in FLOATS:
        CASES.append(case(op, resource(STATE), ALGORITHM, shape64([2, 5]), attrs={"dtype": name}))
    for shape in SHAPES:
        CASES.append(case(op, resource(STATE), ALGORITHM, shape64(shape), attrs={"dtype": "float32"}))
    CASES += [
        case(op, resource(STATE), ALGORITHM, shape64([3]), steps=lambda draw: [[draw], [draw]]),
        case(op, resource(STATE), np.array(2), shape64([3]), bad=True),
        case(op, resource(STATE), np.array(7), shape64([3]), bad=True),
        case(op, resource(STATE[:2]), ALGORITHM, shape64([3]), bad=True),
        case(op, resource(STATE.astype(np.int32)), ALGORITHM, shape64([3]), bad=True),
    ]
for name in ("int32", "int64", "uint32", "uint64"):
    for shape in ([5], [2, 3], [0]):
        CASES.append(
            case("StatefulUniformFullInt", resource(STATE), ALGORITHM, shape64(shape), attrs={"dtype": name})
        )
for name in ("int32", "int64"):
    low, high = np.array(-10, name), np.array(100, name)
    for shape in ([5], [2, 3], [0], [100]):
        CASES.append(case("StatefulUniformInt", resource(STATE), ALGORITHM, shape64(shape), low, high))
    CASES += [
        case("StatefulUniformInt", resource(STATE), ALGORITHM, shape64([3]), high, low, bad=True),
        case("StatefulUniformInt", resource(STATE), np.array(2), shape64([3]), low, high, bad=True),
        case(
            "StatefulUniformInt",
            resource(STATE),
            ALGORITHM,
            shape64([3]),
            low,
            high,
            steps=lambda x: [[x], [x]],
        ),
    ]
for delta in (0, 1, 5, 1000, 2**40, 2**54):
    CASES += [
        case("RngSkip", resource(STATE), ALGORITHM, np.array(delta)),
        case("RngSkip", resource(STATE), ALGORITHM, np.array(delta), steps=lambda skip: [[skip], [skip]]),
        case("RngReadAndSkip", resource(STATE), PHILOX, np.array(delta, np.uint64)),
        case(
            "RngReadAndSkip", resource(STATE), PHILOX, np.array(delta, np.uint64), steps=lambda x: [[x], [x]]
        ),
    ]
CASES += [
    case("RngSkip", resource(STATE), np.array(2), np.array(3), bad=True),
    case("RngReadAndSkip", resource(STATE), NONE, np.array(3, np.uint64), bad=True),
    case("RngReadAndSkip", resource(STATE[:1]), PHILOX, np.array(3, np.uint64), bad=True),
    case("RandomUniform", node("Shape", sample("float32", (3, 2))), attrs={**SEEDS, "dtype": "float32"}),
]
