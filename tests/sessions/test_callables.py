"""Callables of a session: of fetches and feeds, and of CallableOptions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aioexec.errors import (
    CancelledError,
    GraphTypeError,
    GraphValueError,
    InvalidArgumentError,
    OpError,
)
from aioexec.formats.protos import CallableOptions, RunMetadata, RunOptions
from aioexec.graph.indexed_slices import IndexedSlices, IndexedSlicesValue
from tests.tiers import Ops, constant, feed, graph, op, session_on


def two() -> tuple[Any, Any, Any, Any]:
    with graph() as g:
        a, b = feed([], name="a"), feed([], name="b")
        c = op("Sub", a, b, name="c")
    return g, a, b, c


@pytest.mark.behaviour(44)
@pytest.mark.parametrize("jit", ["off", "eager"])
async def test_a_callable_runs_one_step_with_values_in_the_order_of_its_feeds(jit: str):
    g, a, b, c = two()

    async with session_on(g, jit) as session:
        forwards = session.make_callable(c, [a, b])
        backwards = session.make_callable({"c": [c, c.op]}, ["b:0", a])
        for _ in range(5):
            assert await forwards(np.float32(5), np.float32(2)) == 3
            assert await backwards(5.0, 2.0) == {"c": [-3, None]}


@pytest.mark.behaviour(47)
async def test_a_callable_takes_one_value_for_each_feed():
    g, a, b, c = two()

    async with session_on(g, "off") as session:
        function = session.make_callable(c, [a, b])
        for values in ((), (1.0,), (1.0, 2.0, 3.0)):
            with pytest.raises(InvalidArgumentError, match="Expected 2 feed tensors, but got"):
                await function(*values)


async def test_a_callable_takes_options_if_it_says_so():
    g, a, b, c = two()
    metadata = RunMetadata()
    options = RunOptions(trace_level=RunOptions.FULL_TRACE)

    async with session_on(g, "off") as session:
        accepting = session.make_callable(c, [a, b], accept_options=True)
        assert await accepting(5.0, 2.0, options=options, run_metadata=metadata) == 3
        assert metadata.step_stats.dev_stats
        with pytest.raises(GraphTypeError, match="accept_options"):
            await session.make_callable(c, [a, b])(5.0, 2.0, options=options)


async def test_a_callable_that_cannot_be_is_refused_when_it_is_made():
    g, a, _, c = two()

    async with session_on(g, "off") as session:
        cases: list[tuple[Any, Any]] = [
            (None, [a]),
            ("nope:0", [a]),
            (c, ["nope:0"]),
            (c, [a, a]),
            (c, a),
            (c, {a: 1}),
        ]
        for fetches, feeds in cases:
            with pytest.raises((OpError, TypeError, ValueError)):
                session.make_callable(fetches, feeds)


async def test_slices_are_fed_to_a_callable_as_one_value():
    with graph() as g:
        values, indices = feed([None], name="values"), feed([None], "int64", name="indices")
        doubled = IndexedSlices(op("Add", values, values), indices)
        slices = IndexedSlices(values, indices)
    given = IndexedSlicesValue(np.array([1, 2], np.float32), np.array([4, 6], np.int64), None)

    async with session_on(g, "off") as session:
        result = await session.make_callable(doubled, [slices])(given)

    np.testing.assert_array_equal(result.values, [2, 4])
    np.testing.assert_array_equal(result.indices, [4, 6])


@pytest.mark.behaviour(46, 58)
async def test_callables_of_a_closed_session_are_refused():
    g, a, b, c = two()
    session = session_on(g, "off")
    function = session.make_callable(c, [a, b])
    prepared = await session._make_callable_from_options(CallableOptions(feed=["a:0", "b:0"], fetch=["c:0"]))
    assert await function(5.0, 2.0) == 3

    await session.close()

    for use in (function(5.0, 2.0), prepared(5.0, 2.0)):
        with pytest.raises(CancelledError, match=r"Session has been closed\."):
            await use
    with pytest.raises(CancelledError, match=r"Session has been closed\."):
        session.make_callable(c)


@pytest.mark.behaviour(44, 45)
async def test_a_callable_from_options_is_run_and_released():
    g, _, _, _ = two()
    options = CallableOptions(feed=["b:0", "a:0"], fetch=["c:0", "c:0"], target=["c"])
    traced = CallableOptions(fetch=["one:0"], run_options=RunOptions(trace_level=RunOptions.FULL_TRACE))
    with g.as_default():
        op("Neg", constant(-1.0), name="one")
    metadata = RunMetadata()

    async with session_on(g, "off") as session:
        function = await session._make_callable_from_options(options)
        for _ in range(3):
            assert await function(5.0, 2.0) == [-3, -3]
        await (await session._make_callable_from_options(traced))(run_metadata=metadata)
        await function.release()
        await function.release()
        with pytest.raises(InvalidArgumentError, match="Attempted to run callable after handle was released"):
            await function(5.0, 2.0)
        with pytest.raises(GraphTypeError, match="CallableOptions"):
            await session._make_callable_from_options(RunOptions())

    assert metadata.step_stats.dev_stats


async def test_an_error_of_a_callables_node_is_the_steps(ops: Ops):
    def fail(x: Any) -> Any:
        raise ValueError("odd")

    ops.broken("TestFails", fail)
    with graph() as g:
        x = feed([], name="x")
        y = op("TestFails", x, name="y")

    async with session_on(g, "off") as session:
        with pytest.raises(GraphValueError):
            await session.make_callable(y, [x])()
        with pytest.raises(InvalidArgumentError, match=r"'y'.*odd"):
            await session.make_callable(y, [x])(1.0)
