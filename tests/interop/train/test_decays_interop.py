"""Learning rates that decay, step by step over a grid of arguments, against TensorFlow's."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.interop.building import Builder, Built
from tests.interop.train.engines import compare, table

pytestmark = pytest.mark.interop

STEPS = [0, 1, 2, 3, 7, 9, 10, 11, 14, 20, 29, 31, 75, 110]
ROWS, add = table()


def decayed(function: str, rate: Any, dtype: str, *arguments: Any, **options: Any) -> Builder:
    """The rates of the steps above."""

    def build(tf: Any) -> Built:
        step = tf.placeholder(getattr(tf, dtype), [])
        decayed = getattr(tf.train, function)(rate, step, *arguments, **options)
        return Built([decayed], [{step: np.array(each, dtype)} for each in STEPS])

    return build


def without_step(function: str) -> Builder:
    return lambda tf: Built([getattr(tf.train, function)(0.1, None, 10, 0.9)])


GRID: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "exponential_decay": [((10, 0.9), {}), ((10, 0.9), {"staircase": True}), ((3.5, 2.0), {"name": "mine"})],
    "natural_exp_decay": [((10, 0.9), {}), ((10, 0.1), {"staircase": True})],
    "inverse_time_decay": [((10, 0.9), {}), ((10, 0.5), {"staircase": True}), ((7, 0.0), {})],
    "polynomial_decay": [
        ((10,), {}),
        ((10, 0.01, 2.0), {}),
        ((10, 0.01, 0.5), {"cycle": True}),
        ((7,), {"cycle": True, "power": 1.0}),
        ((10, 0.01, 1.0, False), {}),
    ],
    "cosine_decay": [((10,), {}), ((10, 0.1), {}), ((30,), {"alpha": 0.5})],
    "cosine_decay_restarts": [
        ((10,), {}),
        ((10, 1.0), {}),
        ((9, 1.5, 0.5), {}),
        ((10, 3.0, 0.9, 0.1), {}),
        ((9, 1, 0.5), {}),
    ],
    "linear_cosine_decay": [((10,), {}), ((10, 2.0, 0.1, 0.01), {}), ((20,), {"beta": 0.0})],
    "noisy_linear_cosine_decay": [((10, 0.0), {}), ((10, 0.0, 0.3, 2.0, 0.1, 0.01), {})],
}

for function, rows in GRID.items():
    for k, (arguments, options) in enumerate(rows):
        for dtype, rate in itertools.product(("int32", "int64", "float32"), (0.1, 3.0)):
            add(f"{function} {k} {dtype} {rate}", decayed(function, rate, dtype, *arguments, **options))
    add(f"{function} without step", without_step(function))


def piecewise(dtype: str, boundaries: Any, values: Any) -> Builder:
    def build(tf: Any) -> Built:
        x = tf.placeholder(getattr(tf, dtype), [])
        rates = tf.train.piecewise_constant(x, boundaries, values)
        return Built([rates], [{x: np.array(each, dtype)} for each in STEPS])

    return build


for dtype, boundaries, values in [
    ("int32", [9, 20], [1.0, 0.5, 0.1]),
    ("int64", [9, 20], [1.0, 0.5, 0.1]),
    ("int64", [9], [1, 2]),
    ("float32", [9.0, 10.5, 29.0, 30.0], [1.0, 0.5, 0.25, 0.1, 0.0]),
    ("float32", [9, 20], [1.0, 0.5, 0.1]),
    ("int32", [9.0], [1.0, 0.5]),
    ("int32", [9], [1.0]),
    ("int32", [9], [1.0, 2]),
    ("int32", [np.int64(9)], [1.0, 2.0]),
    ("int32", (9, 20), (1.0, 0.5, np.float32(0.1))),
]:
    add(f"piecewise_constant {dtype} {boundaries} {values}", piecewise(dtype, boundaries, values))


def with_variables(tf: Any) -> Built:
    """The step is a variable that training counts up, and further arguments are tensors."""
    step = tf.train.get_or_create_global_step()
    steps = tf.placeholder(tf.int32, [])
    rates = [
        tf.train.exponential_decay(tf.constant(0.5), step, steps, tf.constant(0.7)),
        tf.train.polynomial_decay(tf.constant(0.5), step, 3, cycle=True),
        tf.train.cosine_decay_restarts(0.5, step, steps, tf.constant(1.0)),
        tf.train.cosine_decay_restarts(0.5, step, steps, tf.constant(1.5)),
        tf.train.piecewise_constant(step, [1, 2], [1.0, 2.0, 3.0]),
    ]
    with tf.control_dependencies(rates):
        count = tf.assign_add(step, 1)
    return Built(rates, [{steps: 3}] * 9, tf.global_variables_initializer(), count.op)


add("arguments that are tensors", with_variables)


@pytest.mark.parametrize("name", ROWS)
async def test_a_rate_decays_as_tensorflows(tf: Any, name: str):
    assert await compare(tf, ROWS[name], tolerance=2) == []  # powers and cosines are rounded differently


async def test_noise_has_the_variance_asked_for():
    import aioexec as ax

    with ax.Graph().as_default() as graph:
        graph.seed = 7
        rate = ax.train.noisy_linear_cosine_decay(1.0, ax.constant(2), 10, 0.5, 0.0, beta=0.0)
        plain = ax.train.linear_cosine_decay(1.0, ax.constant(2), 10, beta=0.0)
        async with ax.Session() as session:
            drawn = np.array([await session.run(rate / plain) for _ in range(400)])

    assert abs(np.mean(drawn) - 1) < 0.15
    assert abs(np.var(drawn * 0.8) - 0.5) < 0.15
