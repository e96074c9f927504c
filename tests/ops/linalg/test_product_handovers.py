"""Optimizer steps fused with the product that is their gradient yield the bits of separate rows, on any threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.graph.registry import registered
from aioexec.ops.linalg.product_launches import MOST_OPERANDS
from aioexec.planning.layout import variant_builder
from tests.tiers import graph, op_of_each_row, programs, share_all, with_slow

Array = np.ndarray[Any, Any]

RATE = 0.25
STEPS = 3
CASES = {
    "rows": ((64, 300), 256, False, "float32"),
    "transposed": ((64, 300), 256, True, "float32"),
    "few terms": ((3, 270), 301, False, "float32"),
    "doubles": ((40, 190), 201, False, "float64"),
}


def values(case: str) -> tuple[Array, Array, Array]:
    """Inputs, labels and weights; NaN in a row of the gradient."""
    (batch, inputs), outputs, _, dtype = CASES[case]
    random = np.random.default_rng(3)
    x, y, w = (
        random.standard_normal(shape).astype(dtype)
        for shape in ((batch, inputs), (batch, outputs), (inputs, outputs))
    )
    x[1, 7] = np.nan
    return x, y, w


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "GradientDescent": lambda: ax.train.GradientDescentOptimizer(RATE),
    "Momentum": lambda: ax.train.MomentumOptimizer(RATE, 0.9, use_nesterov=True),
    "Adam": lambda: ax.train.AdamOptimizer(RATE),
    "Adagrad": lambda: ax.train.AdagradOptimizer(RATE),
    "Ftrl": lambda: ax.train.FtrlOptimizer(RATE, l1_regularization_strength=0.01),
    "CenteredRMSProp": lambda: ax.train.RMSPropOptimizer(RATE, centered=True, momentum=0.5),
}


async def result(case: str, workers: int, optimizer: str = "GradientDescent") -> tuple[Array, list[str]]:
    """The weights after some steps, and the kinds of the nodes that rows of the step do."""
    x, y, w = values(case)
    config = ax.ConfigProto(intra_op_parallelism_threads=workers, use_per_session_threads=True)
    config.aioexec.jit = "eager"
    with graph() as made:
        inputs, slope = ax.placeholder(x.dtype, x.shape), ax.placeholder(y.dtype, y.shape)
        flips = CASES[case][2]
        weights = ax.Variable(w.T if flips else w)
        product = ax.matmul(inputs, weights, transpose_b=flips)
        train = OPTIMIZERS[optimizer]().minimize(ax.reduce_sum(product * slope))
        initializer = ax.global_variables_initializer()
    async with ax.Session(graph=made, config=config) as session:
        await session.run(initializer)
        before = set(programs(session))
        for _ in range(STEPS):
            await session.run(train, {inputs: x, slope: y})
        (program,) = set(programs(session)) - before
        found = await session.run(weights)
    return (found.T if flips else found), op_of_each_row(program)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("case", with_slow(CASES, "doubles"))
async def test_a_step_makes_its_gradient(monkeypatch, case, workers):
    share_all(monkeypatch)

    found, kinds = await result(case, workers)
    monkeypatch.setattr(variant_builder, "fuse_epilogues", lambda layout: None)
    apart, others = await result(case, 1)

    assert "ApplyGradientDescent" not in kinds  # a row that does several nodes is named by the first
    assert "ApplyGradientDescent" in others
    assert found.tobytes() == apart.tobytes()
    x, y, w = values(case)
    assert np.isnan(found[7]).all()
    rest = np.arange(len(w)) != 7
    expected = w.astype(np.float64) - STEPS * RATE * (x.astype(np.float64).T @ y)
    np.testing.assert_allclose(found[rest], expected[rest], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
async def test_whatever_an_optimizer_does_with_it(monkeypatch, optimizer):
    share_all(monkeypatch)

    found, kinds = await result("rows", 3, optimizer)
    monkeypatch.setattr(variant_builder, "fuse_epilogues", lambda layout: None)
    apart, others = await result("rows", 1, optimizer)

    assert f"Apply{optimizer}" not in kinds
    assert f"Apply{optimizer}" in others
    assert not np.array_equal(found[0], values("rows")[2][0])
    assert found.tobytes() == apart.tobytes()


def test_no_optimizer_has_more_operands_than_are_handed_over():
    counts = {
        row.name: len(row.definition.inputs) + len(row.writes)
        for row in registered()
        if row.name.startswith("ResourceApply") and row.writes
    }

    assert max(counts.values()) == counts["ResourceApplyAdamWithAmsgrad"] == MOST_OPERANDS
