"""Decaying learning rates: their formulas, in NumPy, step by step; errors. Against TensorFlow: the interop suite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec import train
from aioexec.errors import GraphValueError

STEPS = np.array([0, 1, 5, 9, 10, 11, 25, 40])
Formula = Callable[[Any], Any]


def half_cosine(part: Any) -> Any:
    return 0.5 * (1 + np.cos(np.pi * part))


def restarted(t: int) -> float:
    """Of 10 steps, then 20, then 40."""
    begin, length = (0, 10) if t < 10 else (10, 20) if t < 30 else (30, 40)
    return float(half_cosine((t - begin) / length))


DECAYS: dict[str, tuple[Callable[[Any], Any], Formula]] = {
    "exponential": (lambda t: train.exponential_decay(0.5, t, 10, 0.9), lambda t: 0.5 * 0.9 ** (t / 10)),
    "exponential in stairs": (
        lambda t: train.exponential_decay(0.5, t, 10, 0.9, staircase=True),
        lambda t: 0.5 * 0.9 ** (t // 10),
    ),
    "natural": (lambda t: train.natural_exp_decay(0.5, t, 10, 0.9), lambda t: 0.5 * np.exp(-0.9 * t / 10)),
    "inverse": (lambda t: train.inverse_time_decay(0.5, t, 10, 2.0), lambda t: 0.5 / (1 + 2 * t / 10)),
    "polynomial": (
        lambda t: train.polynomial_decay(0.5, t, 10, 0.1, 2.0),
        lambda t: 0.4 * (1 - np.minimum(t, 10) / 10) ** 2 + 0.1,
    ),
    "polynomial in cycles": (
        lambda t: train.polynomial_decay(0.5, t, 10, 0.1, cycle=True),
        lambda t: 0.4 * (1 - t / (10 * max(1, np.ceil(t / 10)))) + 0.1,
    ),
    "cosine": (
        lambda t: train.cosine_decay(0.5, t, 10, alpha=0.2),
        lambda t: 0.5 * (0.8 * half_cosine(np.minimum(t, 10) / 10) + 0.2),
    ),
    "cosine with restarts": (
        lambda t: train.cosine_decay_restarts(0.5, t, 10),
        lambda t: 0.5 * restarted(t),
    ),
    "cosine with equal restarts": (
        lambda t: train.cosine_decay_restarts(0.5, t, 10, ax.constant(1.0)),
        lambda t: 0.5 * half_cosine(t % 10 / 10),
    ),
    "linear cosine": (
        lambda t: train.linear_cosine_decay(0.5, t, 10, alpha=0.1),
        lambda t: 0.5 * ((0.1 + 1 - np.minimum(t, 10) / 10) * half_cosine(np.minimum(t, 10) / 10) + 0.001),
    ),
    "piecewise constant": (
        lambda t: train.piecewise_constant(t, [5, 10], [1.0, 0.5, 0.1]),
        lambda t: 1.0 if t <= 5 else 0.5 if t <= 10 else 0.1,
    ),
}


@pytest.mark.parametrize("name", DECAYS)
async def test_a_rate_follows_its_formula(name: str):
    make, formula = DECAYS[name]
    with ax.Graph().as_default():
        step = ax.placeholder(ax.int64, [])
        rate = make(step)
        async with ax.Session() as session:
            found = [await session.run(rate, {step: t}) for t in STEPS]

    np.testing.assert_allclose(found, [formula(t) for t in STEPS], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "make",
    [
        lambda: train.cosine_decay(0.1, None, 10),
        lambda: train.piecewise_constant(ax.constant(1), [1, 2], [1.0, 2.0]),
        lambda: train.piecewise_constant(ax.constant(1), [1.5], [1.0, 2.0]),
        lambda: train.piecewise_constant(ax.constant(1), [1], [1.0, 2]),
    ],
)
def test_arguments_that_do_not_fit_are_refused(make: Callable[[], Any]):
    with ax.Graph().as_default(), pytest.raises(GraphValueError):
        make()
