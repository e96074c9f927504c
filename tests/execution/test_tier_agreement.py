"""A function of an element depends neither on the tier, within the stated ulps, nor, to the bit, on the array around it."""

import numpy as np
import pytest

from tests.devices.jit.elementwise import ulps
from tests.tiers import feed, graph, op, session_on

FUNCTIONS = [
    "Exp",
    "Expm1",
    "Log",
    "Log1p",
    "Tanh",
    "Sigmoid",
    "Softplus",
    "Sin",
    "Cos",
    "Tan",
    "Atan",
    "Erf",
    "Erfc",
    "Rsqrt",
]
BOUND = 4
"""Ours are within 4 ulp of the exact value, NumPy's within 1; nowhere are they that far apart on opposite sides."""


@pytest.mark.slow
@pytest.mark.parametrize("op_type", FUNCTIONS)
async def test_a_large_array_has_the_bits_of_its_parts_and_the_reference_is_near(op_type):
    x = np.random.default_rng(4).uniform(0.001, 8, 300_001).astype(np.float32)
    starts = [0, 1, 63, 4096, 149_999, 150_001, len(x) - 64]
    with graph() as made:
        whole, part = feed(len(x)), feed(64)
        both = op("Mul", op(op_type, whole), 2.0), op("Mul", op(op_type, part), 2.0)

    async with session_on(made, "eager") as session:
        found = await session.run(both[0], {whole: x})
        parts = [await session.run(both[1], {part: x[start : start + 64]}) for start in starts]
    async with session_on(made, "off") as session:
        reference = await session.run(both[0], {whole: x})

    for start, each in zip(starts, parts, strict=True):
        assert each.tobytes() == found[start : start + 64].tobytes()
    assert ulps(found, reference.astype(np.float64)).max() <= BOUND
