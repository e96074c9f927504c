"""Numerical derivatives by finite differences, as expected values of gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import aioexec as ax

DIRECTION = np.array([1.0, 0.7])
STEP = 1e-6


def along(total: Any, x: Any) -> Any:
    """The derivative of a scalar in DIRECTION, by `gradients`."""
    (gradient,) = ax.gradients(total, [x], unconnected_gradients="zero")
    return ax.reduce_sum(ax.convert_to_tensor(gradient) * DIRECTION)


def summed(result: Any) -> Any:
    parts = result if isinstance(result, list | tuple) else [result]
    return ax.add_n([ax.reduce_sum(part) for part in parts])


async def check_derivatives(session: Any, chain: Sequence[Any], x: Any, value: Any) -> None:
    """Check that each of `chain` is the derivative of the one before it in DIRECTION."""
    point = np.asarray(value)
    here = await session.run(chain, {x: point})
    above = await session.run(chain[:-1], {x: point + STEP * DIRECTION})
    below = await session.run(chain[:-1], {x: point - STEP * DIRECTION})

    expected = (np.array(above) - np.array(below)) / (2 * STEP)
    np.testing.assert_allclose(here[1:], expected, rtol=1e-5, atol=1e-6)
