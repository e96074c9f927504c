"""Cases of random numbers from a given position in the stream, and of rejection sampling, with TensorFlow's values.

The numbers were printed by tensorflow-cpu 2.21, by `tf.raw_ops.<op>` on these inputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.errors import InvalidArgumentError, UnimplementedError
from aioexec.ops.random import (
    distributions as distributions,  # the rows
    generators as generators,  # the rows
    stateless as stateless,  # the rows
)
from tests.ops.harness import Case, Ref, case
from tests.ops.random.golden_random import SEEDS

ALPHAS, RATES = [0.5, 1.0, 2.5], [0.5, 5.0, 20.0, 200.0]
SEED = np.array([7, -3])
PLACE = np.array([7], np.uint64), np.array([7, 9], np.uint64), 1
LIMITS = -10, 100
WHOLE_NUMBERS = np.array([4181692268747924059, 9300789424354734536], np.uint64)
OTHER_WHOLE_NUMBERS = np.array([8347227486405583360, 1466741838889017058], np.uint64)

GAMMA = [
    [0.3945610737885729, 0.3143208922222196, 4.34601074943487],
    [0.0018992437378565418, 0.31530347552128984, 1.1902263718602037],
]
TRUNCATED = [
    [1.1545431523944287, 1.0906365056316283, 1.1724436817333732],
    [2.9076464747790967, -0.5522334983427657, 0.10941324419669562],
]


def drawn(op_type: str, shape: Any, *inputs: Any, dtype: str, expected: Any, **attrs: Any) -> Case:
    """A case of an op whose attribute `dtype` is that of the result; the dtype of the shape varies."""
    vary = next(name for name in ("T", "Tshape", "S", "shape_dtype") if name in signature_attrs(op_type))
    return case(
        op_type,
        shape,
        *inputs,
        attrs={**attrs, "dtype": dtypes.as_dtype(dtype)},
        expected=expected,
        vary=vary,
        dtypes=("int32", "int64"),
    )


def signature_attrs(op_type: str) -> set[str]:
    from aioexec.graph import registry

    return {attr.name for attr in registry.lookup(op_type).definition.attrs}


CASES: list[Case] = [
    case("RandomGamma", [2], ALPHAS, attrs=SEEDS, expected=GAMMA, vary="T", dtypes=("float64",)),
    case("RandomGamma", [0], ALPHAS, attrs=SEEDS, expected=np.zeros((0, 3)), vary="T", dtypes=("float32",)),
    case("RandomGamma", [2], -1.0, attrs=SEEDS, expected=[np.nan] * 2, vary="T", dtypes=("float32",)),
    case(
        "RandomGamma", [-2], ALPHAS, attrs=SEEDS, vary="T", dtypes=("float32",), raises=InvalidArgumentError
    ),
    case(
        "ParameterizedTruncatedNormal",
        *([2, 3], [0.0, 1.0], 1.0, [1.0, -1.0], [1.25, 4.0]),
        attrs=SEEDS,
        expected=TRUNCATED,
        vary="dtype",
        dtypes=("float64",),
    ),
    *(
        case(
            "ParameterizedTruncatedNormal",
            *wrong,
            attrs=SEEDS,
            vary="dtype",
            dtypes=("float32",),
            raises=InvalidArgumentError,
        )
        for wrong in (
            ([2], 0.0, 0.0, -1.0, 1.0),
            ([2], 0.0, 1.0, 1.0, 1.0),
            ([2], 0.0, 1.0, -np.inf, np.inf),
            ([2], [0.0, 1.0, 2.0], 1.0, -1.0, 1.0),
        )
    ),
    *(
        case(
            op_type,
            [2],
            RATES,
            attrs={**SEEDS, **attrs},
            expected=[[0, 4, 17, 198], [1, 7, 18, 202]],
            vary="R" if attrs else "dtype",
            dtypes=("float64",),
        )
        for op_type, attrs in (("RandomPoissonV2", {"dtype": dtypes.int32}), ("RandomPoisson", {}))
    ),
]

for op_type, dtype, seeded, placed in (
    (
        "StatelessRandomUniform",
        "float64",
        [0.47713778180121613, 0.9809041063278245, 0.7182915943104444],
        [0.3051762127915465, 0.9294148249742835, 0.4483927472794609],
    ),
    (
        "StatelessRandomNormal",
        "float64",
        [-0.1456107780640622, 1.2077654819729078, 0.36099545311012377],
        [-0.6611159311567031, 1.3916384481136326, -0.570879354366787],
    ),
    (
        "StatelessTruncatedNormal",
        "float64",
        [-0.1456107780640622, 1.2077654819729078, -0.28848604561432045],
        [-0.6611159311567031, 1.3916384481136326, -0.39946805091792853],
    ),
    ("StatelessRandomUniformFullInt", "uint64", WHOLE_NUMBERS, OTHER_WHOLE_NUMBERS),
):
    size = [len(seeded)]
    CASES += [
        drawn(op_type, size, SEED, dtype=dtype, expected=seeded),
        drawn(f"{op_type}V2", size, *PLACE, dtype=dtype, expected=placed),
    ]

for op_type, place, whole in (
    ("StatelessRandomUniformInt", (SEED,), [9, 66, 31]),
    ("StatelessRandomUniformIntV2", PLACE, [80, 28, 93]),
):
    CASES += [
        case(op_type, [3], *place, *LIMITS, expected=whole, vary="dtype", dtypes=("int64",)),
        case(op_type, [0], *place, 3, 3, expected=np.zeros(0), vary="dtype", dtypes=("int32",)),
        case(op_type, [1], *place, 3, 3, vary="dtype", dtypes=("int32",), raises=InvalidArgumentError),
    ]

SEEDED_GAMMA = [
    [1.5570355608733515, 0.7506440757967686, 3.8481372165136847],
    [0.9946916518863422, 0.4434295716306229, 1.7996482139847105],
]
PLACED_GAMMA = [
    [0.6851538875931901, 2.251311685648229, 3.5135798190402068],
    [0.016226416372372113, 1.120933297919293, 1.8760761216208115],
]
for op_type, place, gamma in (
    ("StatelessRandomGammaV2", (SEED,), SEEDED_GAMMA),
    ("StatelessRandomGammaV3", PLACE, PLACED_GAMMA),
):
    CASES += [
        case(op_type, [2, 3], *place, ALPHAS, expected=gamma, vary="dtype", dtypes=("float64",)),
        case(op_type, [3, 2], *place, ALPHAS, vary="dtype", dtypes=("float64",), raises=InvalidArgumentError),
    ]

CASES += [
    case(
        "StatelessRandomPoisson",
        *([2, 4], SEED, RATES),
        attrs={"dtype": dtypes.int32},
        expected=[[1, 2, 31, 204], [0, 3, 23, 204]],
        vary="Rtype",
        dtypes=("float64",),
    ),
    case(
        "StatelessMultinomial",
        *([[0.1, 0.2, 0.7], [1.0, 2.0, 3.0]], 4, SEED),
        expected=[[1, 2, 2, 1], [1, 2, 2, 2]],
        vary="T",
        dtypes=("float32", "float64"),
    ),
    case("StatelessRandomGetAlg", expected=1),
    *(
        case(
            f"StatelessRandomGetKeyCounter{suffix}",
            SEED,
            expected=(
                np.array([13399541416664089238], np.uint64),
                np.array([0, 2845039061138926877], np.uint64),
                *more,
            ),
            vary="Tseed",
            dtypes=("int32", "int64"),
        )
        for suffix, more in (("", ()), ("Alg", (1,)))
    ),
]

STATE, AFTER_3 = [5, 6, 7], [773, 6, 7]


def from_generator(op_type: str, shape: Any, *limits: Any, dtype: str, expected: Any, state: Any) -> Case:
    return case(
        op_type,
        *(Ref(STATE, "int64"), 1, shape, *limits),
        attrs={"dtype": dtypes.as_dtype(dtype)},
        expected=expected,
        state=np.array(state),
        vary="shape_dtype",
        dtypes=("int32", "int64"),
    )


CASES += [
    from_generator(
        "StatefulUniform",
        [3],
        dtype="float64",
        expected=[0.7016069458226282, 0.47712027330330775, 0.496765021408452],
        state=AFTER_3,
    ),
    from_generator(
        "StatefulStandardNormalV2",
        [3],
        dtype="float64",
        expected=[0.12061035176148649, -0.8331968669191139, -0.5623006960867758],
        state=AFTER_3,
    ),
    from_generator(
        "StatefulTruncatedNormal",
        [3],
        dtype="float64",
        expected=[0.12061035176148649, -0.8331968669191139, 0.765730615759329],
        state=AFTER_3,
    ),
    from_generator(
        "StatefulUniformFullInt",
        [2],
        dtype="uint64",
        expected=np.array([3778315770679474632, 16006226723579863624], np.uint64),
        state=[517, 6, 7],
    ),
    case(
        "StatefulUniformInt",
        *(Ref(STATE, "int64"), 1, np.array([3]), *(np.array(limit) for limit in LIMITS)),
        expected=[92, 74, 33],
        state=np.array(AFTER_3),
        vary="dtype",
        dtypes=("int64",),
    ),
    case("RngSkip", Ref([-1, 6, 7], "int64"), 1, 5, state=np.array([5 * 256 - 1, 7, 7])),
    case("RngReadAndSkip", Ref(STATE, "int64"), 1, 5, expected=STATE, state=np.array([5 + 5 * 256, 6, 7])),
    case("RngSkip", Ref(STATE, "int64"), 2, 5, raises=UnimplementedError),
    case("RngSkip", Ref(STATE, "int64"), 4, 5, raises=InvalidArgumentError),
    case("RngReadAndSkip", Ref([1, 2], "int64"), 1, 5, raises=InvalidArgumentError),
]
