"""The optimizers of one update op: results of five steps, for dense gradients and for rows, and their slots.

The numbers were printed by the same lines of `tf.compat.v1` of tensorflow 2.21.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphValueError
from aioexec.train import (
    AdadeltaOptimizer,
    AdagradDAOptimizer,
    AdagradOptimizer,
    FtrlOptimizer,
    ProximalAdagradOptimizer,
    ProximalGradientDescentOptimizer,
    RMSPropOptimizer,
)

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "Adagrad": lambda step: AdagradOptimizer(0.3),
    "AdagradDA": lambda step: AdagradDAOptimizer(
        0.3, step, l1_regularization_strength=0.01, l2_regularization_strength=0.1
    ),
    "Adadelta": lambda step: AdadeltaOptimizer(0.5, epsilon=1e-3),
    "RMSProp": lambda step: RMSPropOptimizer(0.1, momentum=0.5),
    "centered RMSProp": lambda step: RMSPropOptimizer(0.1, centered=True, epsilon=0.1),
    "Ftrl": lambda step: FtrlOptimizer(0.3, l1_regularization_strength=0.01),
    "FtrlV2": lambda step: FtrlOptimizer(
        0.3, l2_shrinkage_regularization_strength=0.1, beta=0.2, accum_name="acc"
    ),
    "ProximalGradientDescent": lambda step: ProximalGradientDescentOptimizer(0.3, 0.01, 0.1),
    "ProximalAdagrad": lambda step: ProximalAdagradOptimizer(0.3, 0.1, 0.01, 0.1),
}

# fmt: off
AFTER: dict[str, tuple[list[float], list[float], list[str], list[str]]] = {
    "Adagrad": (
        [-0.1964316, -0.04737164, 0.08755299],
        [-0.1964316, -0.04737164, 0.08755302, 0.3004068, 0.3275173, 0.2966661],
        ["accumulator"],
        ["v/Adagrad:0"],
    ),
    "AdagradDA": (
        [0.2959588, 0.2959846, 0.2961858],
        [0.2959588, 0.2959846, 0.2961858, 0.2999195, 0.3000226, 0.2858845],
        ["gradient_accumulator", "gradient_squared_accumulator"],
        ["v/AdagradDA:0", "v/AdagradDA_1:0"],
    ),
    "Adadelta": (
        [-0.6655583, -0.4881771, -0.3126076],
        [-0.6655583, -0.4881771, -0.3126076, 0.286393, 0.3069611, 0.3019126],
        ["accum", "accum_update"],
        ["v/Adadelta:0", "v/Adadelta_1:0"],
    ),
    "RMSProp": (
        [0.08713654, 0.1674636, 0.2302493],
        [0.08713658, 0.1674636, 0.2302493, 0.3315872, 0.3038022, 0.2774071],
        ["momentum", "rms"],
        ["v/RMSProp:0", "v/RMSProp_1:0"],
    ),
    "centered RMSProp": (
        [-0.2654791, -0.1530716, -0.05207874],
        [-0.2654791, -0.1530716, -0.05207877, 0.2867866, 0.2985041, 0.3091672],
        ["mg", "momentum", "rms"],
        ["v/RMSProp:0", "v/RMSProp_1:0", "v/RMSProp_2:0"],
    ),
    "Ftrl": (
        [-0.1147162, 0.01926576, 0.1376699],
        [-0.1147162, 0.01926576, 0.1376699, 0.3003947, 0.2975841, 0.2996878],
        ["accum", "linear"],
        ["v/Ftrl:0", "v/Ftrl_1:0"],
    ),
    "FtrlV2": (
        [-0.07869117, 0.0393504, 0.1382354],
        [-0.07869117, 0.0393504, 0.1382354, 0.2857089, 0.2857141, 0.2831043],
        ["accum", "linear"],
        ["v/Ftrl:0", "v/acc:0"],
    ),
    "ProximalGradientDescent": (
        [0.2697701, 0.2713761, 0.2729822],
        [0.2697701, 0.2713761, 0.2729822, 0.290299, 0.2902488, 0.2901986],
        [],
        [],
    ),
    "ProximalAdagrad": (
        [-0.1788826, -0.0344542, 0.09064822],
        [-0.1788826, -0.0344542, 0.09064824, 0.2906741, 0.3369157, 0.2880383],
        ["accumulator"],
        ["v/ProximalAdagrad:0"],
    ),
}
# fmt: on
"""First row after five dense steps, first and third after five sparse ones, names of slots, and of their variables."""


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as made:
        yield made


async def trained(name: str, use_resource: bool, sparse: bool) -> tuple[Any, Any]:
    step = ax.Variable(np.array(1, np.int64), trainable=False, name="step")
    start = np.linspace(-1, 1, 12).reshape(4, 3).astype(np.float32)
    variable = ax.Variable(start, use_resource=use_resource, name="v")
    optimizer = OPTIMIZERS[name](step)
    used = ax.gather(variable, [0, 2, 2]) if sparse else variable
    train_op = optimizer.minimize(ax.reduce_sum(ax.square(used - 0.3)))
    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        for _ in range(5):
            await session.run(train_op)
        return optimizer, await session.run(variable)


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
async def test_steps_with_whole_gradients_go_where_tensorflows_go(name, use_resource):
    optimizer, content = await trained(name, use_resource, sparse=False)

    row, _, slots, variables = AFTER[name]
    np.testing.assert_allclose(content[0], row, rtol=1e-5, atol=1e-6)
    assert optimizer.get_slot_names() == slots
    assert [variable.name for variable in optimizer.variables()] == variables


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
async def test_steps_with_rows_go_where_tensorflows_go(name, use_resource):
    _, content = await trained(name, use_resource, sparse=True)

    np.testing.assert_allclose(content[[0, 2]].reshape(-1), AFTER[name][1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "make",
    [
        lambda: AdagradOptimizer(0.1, initial_accumulator_value=0.0),
        lambda: AdagradDAOptimizer(0.1, 1, initial_gradient_squared_accumulator_value=-1.0),
        lambda: ProximalAdagradOptimizer(0.1, initial_accumulator_value=0.0),
        lambda: FtrlOptimizer(0.1, learning_rate_power=0.5),
        lambda: FtrlOptimizer(0.1, initial_accumulator_value=-0.1),
        lambda: FtrlOptimizer(0.1, l1_regularization_strength=-0.1),
        lambda: FtrlOptimizer(0.1, l2_shrinkage_regularization_strength=-0.1),
    ],
)
def test_hyperparameters_out_of_range_are_refused(make):
    with pytest.raises(GraphValueError, match=r"must be|needs to be"):
        make()
