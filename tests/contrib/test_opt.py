"""The optimizers of `ax.contrib.opt`: steps by NumPy, on dense and sparse gradients, of both kinds of variables."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphValueError
from aioexec.train.errors import TrainingStateError
from tests.contrib.values import drawn

opt = ax.contrib.opt
START, STEPS = drawn(4, 2) + 2, 3
DENSE = [drawn(4, 2, seed=seed) for seed in range(1, STEPS + 1)]
ROWS = np.array([2, 0])
SPARSE = [drawn(2, 2, seed=seed) for seed in range(1, STEPS + 1)]


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


async def trained(optimizer: Any, *, is_sparse: bool, use_resource: bool, **options: Any) -> Any:
    """The variable after a few steps with given gradients."""
    variable = ax.get_variable("v", initializer=START, use_resource=use_resource)
    fed = ax.placeholder(ax.float32, SPARSE[0].shape if is_sparse else START.shape)
    gradient: Any = ax.IndexedSlices(fed, ax.constant(ROWS), ax.constant(START.shape)) if is_sparse else fed
    step = optimizer.apply_gradients([(gradient, variable)], **options)
    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        for value in SPARSE if is_sparse else DENSE:
            await session.run(step, {fed: value})
        return await session.run(variable)


def expected(update: Any, *, is_sparse: bool) -> Any:
    """The variable after `update(rows, number, gradient, state)` of each step, on all rows or the given ones."""
    value, state = START.copy(), {name: np.zeros_like(START) for name in "mv"}
    rows = ROWS if is_sparse else np.arange(4)
    for number, gradient in enumerate(SPARSE if is_sparse else DENSE, 1):
        update(value, rows, number, gradient, state)
    return value


def mean(state: Any, name: str, rows: Any, beta: float, addend: Any) -> Any:
    state[name][rows] = beta * state[name][rows] + (1 - beta) * addend
    return state[name][rows]


def adam_rate(number: int, rate: float = 0.1) -> float:
    return rate * math.sqrt(1 - 0.999**number) / (1 - 0.9**number)


def lazy_adam(value: Any, rows: Any, number: int, g: Any, state: Any) -> None:
    m, v = mean(state, "m", rows, 0.9, g), mean(state, "v", rows, 0.999, g**2)
    value[rows] -= adam_rate(number) * m / (np.sqrt(v) + 1e-8)


def nadam(value: Any, rows: Any, number: int, g: Any, state: Any) -> None:
    m, v = mean(state, "m", rows, 0.9, g), mean(state, "v", rows, 0.999, g**2)
    value[rows] -= adam_rate(number) * (0.9 * m + 0.1 * g) / (np.sqrt(v) + 1e-8)


def adamax(value: Any, rows: Any, number: int, g: Any, state: Any) -> None:
    m = mean(state, "m", rows, 0.9, g)
    state["v"][rows] = np.maximum(0.999 * state["v"][rows], np.abs(g))
    value[rows] -= 0.1 / (1 - 0.9**number) * m / (state["v"][rows] + 1e-8)


def decayed(update: Any) -> Any:
    def both(value: Any, rows: Any, number: int, g: Any, state: Any) -> None:
        value[rows] -= 0.01 * value[rows]
        update(value, rows, number, g, state)

    return both


def momentum(value: Any, rows: Any, number: int, g: Any, state: Any) -> None:
    state["m"][rows] = 0.9 * state["m"][rows] + g
    value[rows] -= 0.1 * state["m"][rows]


def descent(value: Any, rows: Any, number: int, g: Any, state: Any) -> None:
    value[rows] -= 0.1 * g


def add_sign(value: Any, rows: Any, number: int, g: Any, state: Any) -> None:
    m = mean(state, "m", rows, 0.9, g)
    value[rows] -= 0.1 * (1 + np.sign(g) * np.sign(m)) * g


def power_sign(value: Any, rows: Any, number: int, g: Any, state: Any) -> None:
    m = mean(state, "m", rows, 0.9, g)
    value[rows] -= 0.1 * np.exp(np.sign(g) * np.sign(m)) * g


OPTIMIZERS = {
    "lazy": (lambda: opt.LazyAdamOptimizer(0.1), lazy_adam),
    "nadam": (lambda: opt.NadamOptimizer(0.1), nadam),
    "adamax": (lambda: opt.AdaMaxOptimizer(0.1), adamax),
    "momentumw": (lambda: opt.MomentumWOptimizer(0.01, 0.1, 0.9), decayed(momentum)),
    "descentw": (
        lambda: opt.extend_with_decoupled_weight_decay(ax.train.GradientDescentOptimizer)(
            0.01, learning_rate=0.1
        ),
        decayed(descent),
    ),
    "addsign": (lambda: opt.AddSignOptimizer(), add_sign),
    "powersign": (lambda: opt.PowerSignOptimizer(), power_sign),
}


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("name", [*OPTIMIZERS, "adamw"])
async def test_dense_gradients_move_all_rows(name: str, use_resource: bool):
    make, update = {**OPTIMIZERS, "adamw": (lambda: opt.AdamWOptimizer(0.01, 0.1), decayed(lazy_adam))}[name]

    found = await trained(make(), is_sparse=False, use_resource=use_resource)
    np.testing.assert_allclose(found, expected(update, is_sparse=False), rtol=1e-4)


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("name", ["lazy", "nadam", "adamax", "momentumw"])
async def test_sparse_gradients_move_their_rows(name: str, use_resource: bool):
    make, update = OPTIMIZERS[name]

    found = await trained(make(), is_sparse=True, use_resource=use_resource)
    np.testing.assert_allclose(found, expected(update, is_sparse=True), rtol=1e-4)


async def test_only_listed_variables_decay():
    optimizer = opt.AdamWOptimizer(0.5, 0.0)
    a, b = (ax.get_variable(name, initializer=1.0) for name in "ab")
    step = optimizer.minimize(a + b, decay_var_list=[a])

    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        await session.run(step)
        assert await session.run([a, b]) == [0.5, 1.0]


async def test_signs_decay_with_the_steps():
    step = ax.train.get_or_create_global_step()
    optimizer = opt.AddSignOptimizer(sign_decay_fn=lambda count: ax.cast(count, ax.float32) * 0.0)

    found = await trained(optimizer, is_sparse=False, use_resource=False, global_step=step)
    np.testing.assert_allclose(found, expected(descent, is_sparse=False), rtol=1e-4)


@pytest.mark.parametrize("is_sequential", [True, False])
async def test_averages_are_saved_in_place_of_variables(tmp_path: Path, is_sequential: bool):
    w = ax.get_variable("w", initializer=1.0)
    other = ax.get_variable("other", initializer=7.0, trainable=False)
    optimizer = opt.MovingAverageOptimizer(
        ax.train.GradientDescentOptimizer(1.0), 0.5, sequential_update=is_sequential
    )
    with pytest.raises(TrainingStateError, match="Must call"):
        optimizer.swapping_saver()
    step = optimizer.minimize(w * 2.0)
    saver = optimizer.swapping_saver()

    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        await session.run(step)
        path: Any = await saver.save(session, tmp_path / "model")
        assert await session.run(w) == -1.0
    load = ax.train.load_variable
    saved = [
        await asyncio.to_thread(load, path, name) for name in ("w", "w/ExponentialMovingAverage", "other")
    ]
    assert saved[1:] == [-1.0, 7.0]
    if is_sequential:
        assert saved[0] == 0.0
    assert other.op.name == "other"


async def test_scipy_minimizes_a_loss():
    x = ax.get_variable("x", initializer=np.array([7.0, 7.0], np.float32))
    y = ax.get_variable("y", initializer=np.float32(3.0))
    ax.get_variable("unused", initializer=5.0)
    loss = ax.reduce_sum(ax.square(x - [1.0, 2.0])) + ax.square(y)
    seen: list[Any] = []
    steps: list[Any] = []

    async def step(vector: Any) -> None:
        steps.append(vector)

    optimizer = opt.ScipyOptimizerInterface(loss, options={"maxiter": 50})
    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        await optimizer.minimize(session, fetches=[loss], loss_callback=seen.append, step_callback=step)
        found = await session.run([x, y])
    np.testing.assert_allclose(found[0], [1, 2], atol=1e-4)
    np.testing.assert_allclose(found[1], 0, atol=1e-4)
    assert seen[0] == 6**2 + 5**2 + 3**2
    assert len(steps) <= len(seen)
    assert steps[0].shape == (4,)


async def test_scipy_keeps_bounds_and_constraints():
    x = ax.get_variable("x", initializer=np.array([7.0, 7.0], np.float32))
    loss = ax.reduce_sum(ax.square(x))
    bounded = opt.ScipyOptimizerInterface(loss, var_to_bounds={x: ([1, 2], np.inf)})
    constrained = opt.ScipyOptimizerInterface(
        loss, equalities=[x[1] - 1.0], inequalities=[x[0] - 3.0], method="SLSQP"
    )
    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        await bounded.minimize(session)
        np.testing.assert_allclose(await session.run(x), [1, 2], atol=1e-4)
        with session.as_default():
            await constrained.minimize()
        np.testing.assert_allclose(await session.run(x), [3, 1], atol=1e-3)


async def test_a_cancelled_minimization_ends():
    x = ax.get_variable("x", initializer=np.float32(7.0))
    optimizer = opt.ScipyOptimizerInterface(ax.square(x))
    begun = asyncio.Event()
    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())

        def begin() -> None:
            begun.set()

        running = asyncio.ensure_future(optimizer.minimize(session, loss_callback=begin))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await session.run(x) == 7.0


async def test_arguments_that_are_set_here_are_refused():
    x = ax.get_variable("x", initializer=np.float32(7.0))
    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        for name, message in (("bounds", "var_to_bounds"), ("jac", "set automatically")):
            given: dict[str, Any] = {name: 1}
            with pytest.raises(GraphValueError, match=message):
                await opt.ScipyOptimizerInterface(ax.square(x), **given).minimize(session)
        with pytest.raises(NotImplementedError, match="subclass"):
            await opt.ExternalOptimizerInterface(ax.square(x)).minimize(session)
