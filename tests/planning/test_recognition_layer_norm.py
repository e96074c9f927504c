"""Layer normalisation becomes one node, in the forms in which programs write it, and only where nothing else uses its parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from tests.planning.recognized import count, drawn, layer_norm_values, planned, run
from tests.tiers import feed, graph

N = 6
X, RESIDUAL = drawn(2, 3, N), drawn(2, 3, N)
SCALE, SHIFT = drawn(N) + 2, drawn(N)
EPSILON = 0.125


def by_batch_normalization(x: Any) -> Any:
    mean, variance = ax.nn.moments(x, [-1], keep_dims=True)
    return ax.nn.batch_normalization(x, mean, variance, ax.constant(SHIFT), ax.constant(SCALE), EPSILON)


def by_squares(x: Any) -> Any:
    centred = x - ax.reduce_mean(x, -1, keepdims=True)
    variance = ax.reduce_mean(ax.square(centred), 2, keepdims=True)
    return centred * ax.rsqrt(variance + EPSILON) * SCALE + SHIFT


def by_quotient(x: Any) -> Any:
    mean = ax.reduce_mean(x, [2], keepdims=True)
    variance = ax.reduce_mean(ax.squared_difference(x, mean), [-1], keepdims=True)
    return SHIFT + SCALE * ((x - mean) / ax.sqrt(EPSILON + variance))


def by_scaled_factor(x: Any) -> Any:
    centred = x - ax.reduce_mean(x, -1, keepdims=True)
    variance = ax.reduce_mean(centred * centred, -1, keepdims=True)
    return centred * (ax.rsqrt(variance + EPSILON) * SCALE) + SHIFT


FORMS = [by_batch_normalization, by_squares, by_quotient, by_scaled_factor]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("jit", ["off", "eager"])
async def test_it_is_one_node_with_the_sum_before_it(form, jit):
    with graph():
        x, residual = feed([2, 3, N]), feed([2, 3, N])
        alone, summed = form(x), form(x + residual)

    made = planned([alone, summed], [x, residual])
    results = await run([alone, summed], {x: X, residual: RESIDUAL}, jit)

    assert [count(made, each) for each in ("_LayerNorm", "Mean", "AddV2", "Mul")] == [2, 0, 0, 0]
    for result, value in zip(results, (X, X + RESIDUAL), strict=True):
        wanted = layer_norm_values(value, SCALE, SHIFT, EPSILON)
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
async def test_a_sum_that_others_use_stays_a_node(form):
    with graph():
        x, residual = feed([2, 3, N]), feed([2, 3, N])
        total = x + residual
        y = form(total)

    made = planned([y, total], [x, residual])

    assert [count(made, each) for each in ("_LayerNorm", "AddV2")] == [1, 1]


async def test_a_sum_that_broadcasts_stays_a_node():
    with graph():
        x, position = feed([2, 3, N]), feed([1, 3, N])
        y = by_squares(x + position)

    made = planned([y], [x, position])
    (result,) = await run([y], {x: X, position: RESIDUAL[:1]}, "eager")

    assert [count(made, each) for each in ("_LayerNorm", "AddV2")] == [1, 1]
    wanted = layer_norm_values(X + RESIDUAL[:1], SCALE, SHIFT, EPSILON)
    np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)


async def test_the_bits_are_the_same_each_time_and_differ_little_from_the_nodes():
    with graph():
        x = feed([2, 3, N])
        y = by_batch_normalization(x)

    apart = (await run([y], {x: X}, "eager", remapping=False))[0]
    first, second = [(await run([y], {x: X}, "eager"))[0] for _ in range(2)]

    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, apart, rtol=2e-6, atol=2e-6)


def trained(x: Any) -> list[Any]:
    y = by_batch_normalization(x)
    return [y, *ax.gradients(ax.reduce_sum(y * y), [x])]


def with_fetched_mean(x: Any) -> list[Any]:
    mean, variance = ax.nn.moments(x, [-1], keep_dims=True)
    y = ax.nn.batch_normalization(x, mean, variance, ax.constant(SHIFT), ax.constant(SCALE), EPSILON)
    return [y, mean]


def over_all_axes(x: Any) -> list[Any]:
    mean, variance = ax.nn.moments(x, [1, 2], keep_dims=True)
    return [ax.nn.batch_normalization(x, mean, variance, ax.constant(SHIFT), ax.constant(SCALE), EPSILON)]


def with_another_mean(x: Any) -> list[Any]:
    mean, other = ax.reduce_mean(x, -1, keepdims=True), ax.reduce_mean(x * x, -1, keepdims=True)
    variance = ax.reduce_mean(ax.squared_difference(x, other), -1, keepdims=True)
    return [(x - mean) * ax.rsqrt(variance + EPSILON) * SCALE + SHIFT]


def with_a_matrix_of_scales(x: Any) -> list[Any]:
    centred = x - ax.reduce_mean(x, -1, keepdims=True)
    variance = ax.reduce_mean(ax.square(centred), -1, keepdims=True)
    return [centred * ax.rsqrt(variance + EPSILON) * drawn(3, N) + SHIFT]


def with_a_vector_added_to_the_variance(x: Any) -> list[Any]:
    centred = x - ax.reduce_mean(x, -1, keepdims=True)
    variance = ax.reduce_mean(ax.square(centred), -1, keepdims=True)
    return [centred * ax.rsqrt(variance + np.abs(SHIFT)) * SCALE + SHIFT]


@pytest.mark.parametrize(
    "build",
    [
        trained,
        with_fetched_mean,
        over_all_axes,
        with_another_mean,
        with_a_matrix_of_scales,
        with_a_vector_added_to_the_variance,
    ],
)
async def test_it_is_left_as_it_is_where_its_parts_are_used_or_it_is_something_else(build):
    with graph():
        x = feed([2, 3, N])
        fetches = build(x)

    kept = await run(fetches, {x: X}, remapping=False)

    assert count(planned(fetches, [x]), "_LayerNorm") == 0
    for one, other in zip(await run(fetches, {x: X}), kept, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("epsilon", "found"), [(0.125, 1), (0.1, 0)])
def test_in_float64_it_is_recognized_if_float32_holds_its_epsilon(epsilon, found):
    with graph():
        x = feed([2, N], "float64")
        centred = x - ax.reduce_mean(x, -1, keepdims=True)
        variance = ax.reduce_mean(ax.square(centred), -1, keepdims=True)
        scale, shift = SCALE.astype(np.float64), SHIFT.astype(np.float64)
        y = centred * ax.rsqrt(variance + np.float64(epsilon)) * scale + shift

    assert count(planned([y], [x]), "_LayerNorm") == found
