"""Numerical derivatives by finite differences, as expected values of gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import aioexec as ax

POINTS = ([0.7, 1.1], [0.2, 0.3])
"""On both sides of the conditions of programs."""

DIRECTION = np.array([1.0, 0.7])
STEP = 1e-6


def along(total: Any, x: Any) -> Any:
    """The derivative of a scalar in DIRECTION, by `gradients`."""
    (gradient,) = ax.gradients(total, [x], unconnected_gradients="zero")
    return ax.reduce_sum(ax.convert_to_tensor(gradient) * DIRECTION)


def summed(result: Any) -> Any:
    parts = result if isinstance(result, list | tuple) else [result]
    return ax.add_n([ax.reduce_sum(part) for part in parts])


async def check_program(build: Any, x: Any, order: int) -> None:
    """Check the derivatives of a program up to an order, at each of POINTS."""
    chain = [summed(build(ax, x))]
    for _ in range(order):
        chain.append(along(chain[-1], x))

    async with ax.Session() as session:
        for point in POINTS:
            await check_derivatives(session, chain, x, point)


async def check_derivatives(session: Any, chain: Sequence[Any], x: Any, value: Any) -> None:
    """Check that each of `chain` is the derivative of the one before it in DIRECTION."""
    point = np.asarray(value)
    here = await session.run(chain, {x: point})
    above = await session.run(chain[:-1], {x: point + STEP * DIRECTION})
    below = await session.run(chain[:-1], {x: point - STEP * DIRECTION})

    expected = (np.array(above) - np.array(below)) / (2 * STEP)
    np.testing.assert_allclose(here[1:], expected, rtol=1e-5, atol=1e-6)
