"""Cases of the random ops: TensorFlow's values in the first run with given seeds."""

import numpy as np

from aioexec import dtypes
from aioexec.errors import InvalidArgumentError
from tests.ops.harness import case
from tests.ops.random.golden_random import CLASSES, INTEGERS, PROBABILITIES, REAL, SEEDS, SHUFFLED

LIMITS = -1000, 1000

CASES = [
    *(
        case(
            op,
            [2, 3],
            attrs={**SEEDS, "dtype": dtypes.as_dtype(name)},
            expected=np.reshape(first, (2, 3)),
            vary="T",
        )
        for (op, name), (first, _) in REAL.items()
    ),
    *(
        case(op, shape, attrs={**SEEDS, "dtype": dtypes.float32}, expected=np.zeros(shape), dtypes=("int32",))
        for op in ("RandomUniform", "RandomStandardNormal", "TruncatedNormal")
        for shape in ([0], [3, 0])
    ),
    case(
        "RandomUniform",
        np.zeros(0),
        attrs={**SEEDS, "dtype": dtypes.float32},
        expected=0.95227146,
        dtypes=("int32",),
    ),
    *(
        case(
            "RandomUniformInt",
            [3, 2],
            *LIMITS,
            attrs=SEEDS,
            expected=np.reshape(first, (3, 2)),
            vary="Tout",
            dtypes=(name,),
        )
        for name, (first, _) in INTEGERS.items()
    ),
    case("RandomUniformInt", [0], 3, 3, attrs=SEEDS, expected=np.zeros(0), vary="Tout"),
    case("RandomUniformInt", [1], 3, 3, attrs=SEEDS, vary="Tout", raises=InvalidArgumentError),
    case("RandomUniform", [-1], attrs={"dtype": dtypes.float32}, raises=InvalidArgumentError),
    case("RandomShuffle", np.arange(8), attrs=SEEDS, expected=np.array(SHUFFLED[0])),
    case("RandomShuffle", np.arange(16.0).reshape(8, 2), attrs=SEEDS, expected=lambda x: x[SHUFFLED[0]]),
    case(
        "RandomShuffle",
        np.array([b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"]),
        attrs=SEEDS,
        expected=lambda x: x[SHUFFLED[0]],
    ),
    case("RandomShuffle", 3.0, attrs=SEEDS, expected=3.0),
    case("RandomShuffle", np.ones((1, 4)), attrs=SEEDS, expected=np.ones((1, 4))),
    case("RandomShuffle", np.ones((4, 0)), attrs=SEEDS, expected=np.ones((4, 0))),
    case(
        "Multinomial",
        np.log(PROBABILITIES),
        6,
        attrs=SEEDS,
        expected=np.array(CLASSES[0]),
        dtypes=("float32", "float64"),
    ),
    case(
        "Multinomial",
        [[-np.inf, 2.0, -np.inf]],
        3,
        attrs=SEEDS,
        expected=np.ones((1, 3)),
        dtypes=("float32",),
    ),
    case("Multinomial", np.zeros((0, 3)), 2, attrs=SEEDS, expected=np.zeros((0, 2)), dtypes=("float32",)),
    case("Multinomial", np.zeros((1, 0)), 2, attrs=SEEDS, raises=InvalidArgumentError),
]
