"""Gradients of random programs of conditionals and loops, against finite differences."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import aioexec as ax
from tests.gradients.numeric import along, check_derivatives

STEPS = {
    "sine": lambda a, x: ax.sin(a) * x,
    "tanh": lambda a, x: ax.tanh(a + x),
    "product": lambda a, x: 0.5 * a * ax.cos(x),
    "drop": lambda a, x: x * x,
    "keep": lambda a, x: a,
    "constant": lambda a, x: ax.ones_like(a),
    "rows": lambda a, x: 0.5 * a + ax.gather(x, [1, 1]),
}
"""The result of one step for a value and the source; no value grows much."""

PROGRAMS = st.recursive(
    st.sampled_from(sorted(STEPS)),
    lambda inner: st.one_of(
        st.tuples(st.just("sequence"), inner, inner),
        st.tuples(st.just("conditional"), st.booleans(), inner, inner),
        st.tuples(st.just("loop"), st.integers(0, 3), inner),
    ),
    max_leaves=6,
)


def build(program: Any, i: Any, a: Any, x: Any) -> Any:
    """The result of a program for `a`; `i` is the iteration of the innermost loop."""
    if isinstance(program, str):
        return STEPS[program](a, x)
    kind, *parts = program
    if kind == "sequence":
        return build(parts[1], i, build(parts[0], i, a, x), x)
    if kind == "conditional":
        is_odd, then, otherwise = parts
        pred = ax.equal(i % 2, int(is_odd))
        return ax.cond(pred, lambda: build(then, i, a, x), lambda: build(otherwise, i, a, x))
    trips, body = parts
    return ax.while_loop(lambda j, _: j < trips, lambda j, b: (j + 1, build(body, j, b, x)), [i * 0, a])[1]


@pytest.mark.slow
@given(program=PROGRAMS)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
async def test_first_and_second_derivatives_are_what_differences_say(program: Any):
    with ax.Graph().as_default():
        x = ax.placeholder(ax.float64, [2], name="x")
        total = ax.reduce_sum(build(program, ax.constant(0), ax.sin(x), x))
        first = along(total, x)
        chain = [total, first, along(first, x)]

        async with ax.Session() as session:
            await check_derivatives(session, chain, x, [0.7, 1.1])
