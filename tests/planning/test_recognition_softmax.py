"""Softmax written as exponentials becomes one node, and only where nothing else uses its parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from tests.planning.recognized import count, drawn, planned, run, softmax
from tests.tiers import feed, graph

X = 9 * drawn(2, 3, 5)


def written_out(x: Any, axis: int = -1, of_sum: int = -1) -> tuple[Any, Any]:
    powers = ax.exp(x - ax.reduce_max(x, axis=axis, keepdims=True))
    return powers / ax.reduce_sum(powers, axis=of_sum, keepdims=True), powers


@pytest.mark.parametrize("jit", ["off", "eager"])
@pytest.mark.parametrize("axis", [-1, 2])
async def test_it_is_one_node(axis, jit):
    with graph():
        x = feed([2, 3, 5])
        y, _ = written_out(x, axis, axis)

    made = planned([y], [x])
    (result,) = await run([y], {x: X}, jit)

    assert [count(made, each) for each in ("Softmax", "Exp", "Max", "Sum")] == [1, 0, 0, 0]
    np.testing.assert_allclose(result, softmax(X.astype(np.float64)), rtol=1e-6, atol=1e-7)


async def test_by_reference_kernels_the_bits_are_those_of_the_nodes():
    with graph():
        x = feed([2, 3, 5])
        y, _ = written_out(x)

    np.testing.assert_array_equal(await run([y], {x: X}), await run([y], {x: X}, remapping=False))


def over_another_axis(x: Any) -> list[Any]:
    return [written_out(x, 1, 1)[0]]


def over_two_axes(x: Any) -> list[Any]:
    return [written_out(x, -1, 1)[0]]


def with_fetched_powers(x: Any) -> list[Any]:
    return list(written_out(x))


def trained(x: Any) -> list[Any]:
    y, _ = written_out(x)
    return [y, *ax.gradients(ax.reduce_sum(y * y), [x])]


@pytest.mark.parametrize("build", [over_another_axis, over_two_axes, with_fetched_powers, trained])
async def test_it_is_left_as_it_is_where_its_parts_are_used_or_it_is_something_else(build):
    with graph():
        x = feed([2, 3, 5])
        fetches = build(x)

    assert count(planned(fetches, [x]), "Softmax") == 0
    kept = await run(fetches, {x: X}, remapping=False)
    for one, other in zip(await run(fetches, {x: X}), kept, strict=True):
        np.testing.assert_array_equal(one, other)
