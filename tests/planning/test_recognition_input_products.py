"""The products of a loop's inputs move out of the loop, where each row is read once and used for one product."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.planning.recognition import input_products
from tests.planning.recognized import count, drawn, planned, run
from tests.tiers import feed, graph

STEPS, BATCH, FEATURES, UNITS = 5, 3, 4, 6
X = drawn(STEPS, BATCH, FEATURES)
WEIGHTS = drawn(FEATURES + UNITS, UNITS)


@pytest.fixture(autouse=True)
def any_size(monkeypatch):
    """Products move however small they are."""
    monkeypatch.setattr(input_products, "LEAST_STATE_ELEMENTS", 0)


def loop(x: Any, cell: Any, step: int = 1, steps: int = STEPS) -> Any:
    """The states after a loop over the rows of x, and all of them."""
    rows = ax.TensorArray(ax.float32, STEPS).unstack(x)
    states = ax.TensorArray(ax.float32, STEPS, clear_after_read=False)

    def body(t: Any, h: Any, written: Any) -> Any:
        h = cell(rows.read(t), h)
        return t + step, h, written.write(t, h)

    _, last, written = ax.while_loop(lambda t, *_: t < steps, body, [0, ax.zeros([BATCH, UNITS]), states])
    return last, written.stack()


def inputs_first(weights: Any) -> Any:
    return lambda x, h: ax.tanh(ax.matmul(ax.concat([x, h], 1), weights))


def states_first(weights: Any) -> Any:
    return lambda x, h: ax.tanh(ax.matmul(ax.concat([h, x], -1), weights))


def expected(order: Any) -> Any:
    h, states = np.zeros((BATCH, UNITS)), []
    for x in X.astype(np.float64):
        h = np.tanh(np.concatenate(order(x, h), 1) @ WEIGHTS)
        states.append(h)
    return np.stack(states)


@pytest.mark.parametrize("jit", ["off", "eager"])
@pytest.mark.parametrize(
    ("cell", "order"), [(inputs_first, lambda x, h: (x, h)), (states_first, lambda x, h: (h, x))]
)
@pytest.mark.parametrize("is_frozen", [True, False])
async def test_the_product_of_all_inputs_is_computed_before_the_loop(cell, order, is_frozen, jit):
    with graph():
        x, fed = feed([STEPS, None, FEATURES]), feed(list(WEIGHTS.shape))
        _, states = loop(x, cell(ax.constant(WEIGHTS) if is_frozen else fed))

    made = planned([states], [x, fed])
    (result,) = await run([states], {x: X, fed: WEIGHTS}, jit)

    assert [count(made, each) for each in ("BatchMatMulV2", "MatMul", "ConcatV2", "TensorArrayReadV3")] == [
        1,
        1,
        0,
        0,
    ]
    np.testing.assert_allclose(result, expected(order), rtol=1e-5, atol=1e-6)


async def test_a_product_of_the_inputs_alone_moves_as_a_whole():
    with graph():
        x = feed([STEPS, BATCH, FEATURES])
        weights = ax.constant(WEIGHTS[:FEATURES])
        _, states = loop(x, lambda row, h: ax.tanh(ax.matmul(row, weights) + h))

    made = planned([states], [x])
    (result,) = await run([states], {x: X}, "eager")

    assert [count(made, each) for each in ("BatchMatMulV2", "MatMul", "TensorArrayReadV3")] == [1, 0, 0]
    h, wanted = np.zeros((BATCH, UNITS)), []
    for row in X.astype(np.float64):
        h = np.tanh(row @ WEIGHTS[:FEATURES] + h)
        wanted.append(h)
    np.testing.assert_allclose(result, np.stack(wanted), rtol=1e-5, atol=1e-6)


async def test_states_of_several_tensors_stay_concatenated():
    with graph():
        x = feed([STEPS, BATCH, FEATURES])
        weights = ax.constant(drawn(FEATURES + 2 * UNITS, UNITS))
        _, states = loop(x, lambda row, h: ax.tanh(ax.matmul(ax.concat([row, h, h * 2.0], 1), weights)))

    kept = await run([states], {x: X}, remapping=False)

    assert [count(planned([states], [x]), each) for each in ("BatchMatMulV2", "ConcatV2")] == [1, 1]
    np.testing.assert_allclose(await run([states], {x: X}), kept, rtol=1e-5, atol=1e-6)


async def test_the_bits_are_the_same_each_time():
    with graph():
        x = feed([STEPS, BATCH, FEATURES])
        _, states = loop(x, inputs_first(ax.constant(WEIGHTS)))

    first, second = [(await run([states], {x: X}, "eager"))[0] for _ in range(2)]

    np.testing.assert_array_equal(first, second)


async def test_rows_may_be_used_by_several_products_and_otherwise():
    with graph():
        x, weights = feed([STEPS, BATCH, FEATURES]), ax.constant(WEIGHTS)

        def cell(row: Any, h: Any) -> Any:
            gate = ax.sigmoid(ax.matmul(ax.concat([row, h], 1), weights))
            return gate * ax.tanh(ax.matmul(ax.concat([row, gate * h], 1), weights)) + row[:, :1]

        _, states = loop(x, cell)

    kept = await run([states], {x: X}, remapping=False)

    made = planned([states], [x])
    assert [count(made, each) for each in ("BatchMatMulV2", "ConcatV2", "TensorArrayReadV3")] == [2, 0, 1]
    np.testing.assert_allclose(await run([states], {x: X}), kept, rtol=1e-5, atol=1e-6)


def trained(x: Any, weights: Any) -> Any:
    last, _ = loop(x, inputs_first(weights))
    return last, ax.gradients(ax.reduce_sum(last), [weights])[0]


def with_a_matrix_that_changes(x: Any, weights: Any) -> Any:
    rows = ax.TensorArray(ax.float32, STEPS).unstack(x)

    def body(t: Any, h: Any, w: Any) -> Any:
        return t + 1, ax.tanh(ax.matmul(ax.concat([rows.read(t), h], 1), w)), w * 0.5

    _, last, w = ax.while_loop(lambda t, *_: t < STEPS, body, [0, ax.zeros([BATCH, UNITS]), weights])
    return last, w


def with_rows_in_another_order(x: Any, weights: Any) -> Any:
    order = np.array([3, 0, 4, 1, 2], np.int32)
    rows = ax.TensorArray(ax.float32, STEPS).scatter(order, x)

    def body(t: Any, h: Any) -> Any:
        return t + 1, ax.tanh(ax.matmul(ax.concat([rows.read(t), h], 1), weights))

    return ax.while_loop(lambda t, _: t < STEPS, body, [0, ax.zeros([BATCH, UNITS])])


@pytest.mark.parametrize("build", [trained, with_a_matrix_that_changes, with_rows_in_another_order])
async def test_it_stays_in_the_loop_where_rows_are_used_otherwise_or_something_changes(build):
    with graph():
        x = feed([STEPS, BATCH, FEATURES])
        fetches = build(x, ax.constant(WEIGHTS))

    kept = await run(fetches, {x: X}, remapping=False)

    assert count(planned(fetches, [x]), "BatchMatMulV2") == 0
    for one, other in zip(await run(fetches, {x: X}), kept, strict=True):
        np.testing.assert_array_equal(one, other)


async def test_a_number_beyond_the_rows_is_refused_with_the_name_of_the_product():
    with graph():
        x = feed([STEPS, BATCH, FEATURES])
        last, _ = loop(x, inputs_first(ax.constant(WEIGHTS)), steps=STEPS + 1)

    for jit in ("off", "eager"):
        with pytest.raises(ax.errors.InvalidArgumentError, match="MatMul"):
            await run([last], {x: X}, jit)
