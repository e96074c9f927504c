"""Partial runs: feeds and fetches in any order that dependences allow; nothing is repeated, nothing is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from aioexec.errors import CancelledError, InvalidArgumentError, OpError
from aioexec.planning.subgraph import Signature
from aioexec.sessions.partial_runs.partial_run import PartialRun, needs_of
from tests.sessions.direct_sessions import direct
from tests.tiers import Ops, feed, graph, op, resource, session_on

# The state machine

NEEDS: dict[str, frozenset[str]] = {
    "p:0": frozenset(["a:0"]),
    "q:0": frozenset(["a:0", "b:0"]),
    "r:0": frozenset(),
}


def machine() -> PartialRun:
    return PartialRun(frozenset(["a:0", "b:0"]), frozenset(NEEDS), NEEDS)


@pytest.mark.behaviour(52)
def test_what_cannot_be_computed_yet_is_refused_and_changes_nothing():
    run = machine()

    with pytest.raises(InvalidArgumentError, match=r"Fetch q:0 can't be computed from the feeds.*b:0"):
        run.check(["a:0"], ["p:0", "q:0"])

    run.check(["a:0"], ["p:0"])
    assert not run.fed


@pytest.mark.behaviour(54)
def test_what_was_not_announced_or_comes_twice_is_refused():
    run = machine()
    run.begin(["a:0"], ["p:0"])

    for feeds, fetches, message in [
        (["c:0"], [], "The feed c:0 was not specified"),
        (["a:0"], [], "The feed a:0 has already been fed"),
        (["b:0", "b:0"], [], "The feed b:0 has already been fed"),
        ([], ["c:0"], "The fetch c:0 was not specified"),
        ([], ["p:0"], "The fetch p:0 has already been fetched"),
        ([], ["r:0", "r:0"], "The fetch r:0 has already been fetched"),
    ]:
        with pytest.raises(InvalidArgumentError, match=message):
            run.check(feeds, fetches)


@given(
    st.lists(
        st.tuples(st.sets(st.sampled_from(["a:0", "b:0", "c:0"])), st.sets(st.sampled_from(list(NEEDS))))
    )
)
def test_whatever_is_asked_in_whatever_order_a_run_is_done_when_all_was_fed_and_fetched_once(
    calls: list[tuple[set[str], set[str]]],
):
    run = machine()
    fed: set[str] = set()
    fetched: set[str] = set()
    for feeds, fetches in calls:
        allowed = (
            feeds <= {"a:0", "b:0"} - fed
            and not fetches & fetched
            and all(set(NEEDS[fetch]) <= fed | feeds for fetch in fetches)
        )
        try:
            run.check(sorted(feeds), sorted(fetches))
        except InvalidArgumentError:
            assert not allowed
            continue
        assert allowed
        run.begin(sorted(feeds), sorted(fetches))
        fed |= feeds
        fetched |= fetches
        run.check_invariants()
        assert run.is_done == (fed == {"a:0", "b:0"} and fetched == set(NEEDS))


def test_needs_follow_data_and_control_edges_and_stop_at_feeds():
    with graph() as g:
        a, b, c = (feed([], name=name) for name in "abc")
        above = op("Neg", a)
        cut = op("Neg", above)
        with g.control_dependencies([op("Neg", b).op]):
            last = op("Neg", cut, name="last")
        with g.control_dependencies([c.op]):
            waits = op("NoOp", name="waits")

    needs = needs_of(Signature((b, c, cut), (above, last), (waits,)))

    assert needs == {above.name: frozenset(), "last:0": {"b:0", cut.name}, "waits": {"c:0"}}


# Sessions


def sums() -> tuple[Any, Any, Any, Any, Any]:
    """a, b, c; r1 = a + b; r2 = r1 * c."""
    a, b, c = (feed([], name=name) for name in "abc")
    r1 = op("Add", a, b, name="r1")
    return a, b, c, r1, op("Mul", r1, c, name="r2")


@pytest.mark.behaviour(51)
@pytest.mark.parametrize("jit", ["off", "eager"])
async def test_a_partial_run_is_fed_and_fetched_in_parts(jit: str):
    with graph() as g:
        a, b, c, r1, r2 = sums()

    async with session_on(g, jit) as session:
        for _ in range(3):
            handle = await session.partial_run_setup([r1, r2], [a, b, c])
            assert await session.partial_run(handle, r1, {a: 1, b: 2}) == 3
            assert await session.partial_run(handle, {"r2": r2}, {c: 10}) == {"r2": 30}


async def test_parts_come_in_any_nesting_and_split_and_feeds_may_come_alone():
    with graph() as g:
        a, b, c, r1, r2 = sums()

    async with session_on(g, "off") as session:
        handle = await session.partial_run_setup((r1, [r2]), ["a:0", b, c])
        assert await session.partial_run(handle, [], {c: 4}) == []
        assert await session.partial_run(handle, [], {"b:0": 3}) == []
        assert await session.partial_run(handle, (r2, [r1]), {a: 2}) == (20, [5])


async def test_what_will_be_fed_may_be_one_thing():
    with graph() as g:
        x = feed([], name="x")
        y = op("Neg", x)

    async with session_on(g, "off") as session:
        for key in (x, "x:0"):
            handle = await session.partial_run_setup(y, key)
            assert await session.partial_run(handle, y, {x: 2}) == -2


@pytest.mark.behaviour(52, 54)
async def test_a_refused_call_leaves_the_handle_usable():
    with graph() as g:
        a, b, c, r1, r2 = sums()

    async with session_on(g, "off") as session:
        handle = await session.partial_run_setup([r1, r2], [a, b])
        for fetches, feeds in ((r2, {a: 1}), (r1, {c: 1}), (a, {}), (r1, {a: 1})):
            with pytest.raises(InvalidArgumentError):
                await session.partial_run(handle, fetches, feeds)

        handle = await session.partial_run_setup([r1, r2], [a, b, c])
        with pytest.raises(InvalidArgumentError, match="can't be computed"):
            await session.partial_run(handle, r2, {a: 1, b: 1})
        assert await session.partial_run(handle, r1, {a: 1, b: 1}) == 2
        with pytest.raises(InvalidArgumentError, match="already been fetched"):
            await session.partial_run(handle, r1)
        with pytest.raises(InvalidArgumentError, match="already been fed"):
            await session.partial_run(handle, r2, {a: 5, c: 2})
        assert await session.partial_run(handle, r2, {c: 2}) == 4


async def test_a_run_that_is_done_has_no_handle_any_more():
    with graph() as g:
        a, b, _, r1, _ = sums()

    async with session_on(g, "off") as session:
        handle = await session.partial_run_setup(r1, [a, b])
        await session.partial_run(handle, r1, {a: 1, b: 1})

        for unknown in (handle, "made up"):
            with pytest.raises(
                InvalidArgumentError, match="Must run 'setup' before performing partial runs!"
            ):
                await session.partial_run(unknown, r1, {})


@pytest.mark.behaviour(53)
async def test_one_output_of_several_is_fed():
    with graph() as g:
        x = feed([])
        first, second = op("IdentityN", [x, x])
        y, z = op("Neg", second), op("Neg", first)

    async with session_on(g, "off") as session:
        handle = await session.partial_run_setup([y, z], [second, x])

        assert await session.partial_run(handle, y, {second: 5}) == -5
        assert await session.partial_run(handle, z, {x: 3}) == -3


async def test_an_operation_among_the_fetches_has_run_when_the_call_returns():
    with graph() as g:
        v = resource([])
        x, y = feed([], name="x"), feed([], name="y")
        assign = op("AssignVariableOp", v, x)
        value = op("ReadVariableOp", v, dtype=x.dtype)
        double = op("Add", y, y)

    async with session_on(g, "off") as session:
        handle = await session.partial_run_setup([assign, double], [x, y])
        assert await session.partial_run(handle, assign, {x: 7}) is None
        assert await session.run(value) == 7
        assert await session.partial_run(handle, [double], {y: 4}) == [8]


async def test_a_target_that_is_not_fetched_runs_all_the_same():
    with graph() as g:
        v = resource([])
        x = feed([], name="x")
        assign = op("AssignVariableOp", v, x)
        value = op("ReadVariableOp", v, dtype=x.dtype)
        negated = op("Neg", x)

    async with session_on(g, "off") as session:
        handle = await session.partial_run_setup([negated, assign], [x])
        assert await session.partial_run(handle, negated, {x: 7}) == -7
        await session.partial_run(handle, assign)
        assert await session.run(value) == 7


async def test_partial_runs_of_one_structure_are_apart_and_concurrent():
    with graph() as g:
        a, b, c, r1, r2 = sums()

    async with session_on(g, "off") as session:

        async def one(number: int) -> tuple[Any, Any]:
            handle = await session.partial_run_setup([r1, r2], [a, b, c])
            first = await session.partial_run(handle, r1, {a: number, b: 1})
            await asyncio.sleep(0)
            return first, await session.partial_run(handle, r2, {c: 2})

        results = await asyncio.gather(*(one(number) for number in range(50)))

    assert results == [(number + 1, 2 * (number + 1)) for number in range(50)]


@pytest.mark.parametrize("size", [3, 100_000])
async def test_what_is_fed_is_copied(size: int):
    with graph() as g:
        x, y = feed([size], name="x"), feed([size], name="y")
        z = op("Add", x, y)
    array = np.ones(size, np.float32)

    async with session_on(g, "off") as session:
        handle = await session.partial_run_setup(z, [x, y])
        await session.partial_run(handle, [], {x: array})
        array[:] = 100

        np.testing.assert_array_equal(
            await session.partial_run(handle, z, {y: np.ones(size, np.float32)}), [2] * size
        )


async def test_an_error_of_a_node_ends_the_run(ops: Ops):
    def fail(x: Any) -> Any:
        raise ValueError("odd")

    ops.broken("TestFails", fail)
    with graph() as g:
        x, y = feed([], name="x"), feed([], name="y")
        bad, good = op("TestFails", x), op("Neg", y)

    async with session_on(g, "off") as session:
        handle = await session.partial_run_setup([bad, good], [x, y])
        with pytest.raises(OpError, match="odd"):
            await session.partial_run(handle, bad, {x: 1})
        with pytest.raises(InvalidArgumentError, match="setup"):
            await session.partial_run(handle, good, {y: 1})


async def test_setup_refuses_what_run_refuses():
    with graph() as g:
        a, b, _, r1, _ = sums()

    async with session_on(g, "off") as session:
        with pytest.raises(InvalidArgumentError, match="both fed and fetched"):
            await session.partial_run_setup([r1, a], [a, b])
        with pytest.raises(InvalidArgumentError, match="at least one target"):
            await session.partial_run_setup([], [a, b])
        with pytest.raises(OpError, match="nope"):
            await session.partial_run_setup("nope:0", [a, b])
        with pytest.raises(InvalidArgumentError, match="fed more than once"):
            await session.partial_run_setup(r1, [a, b, a])


@pytest.mark.behaviour(55, 58)
async def test_close_abandons_partial_runs_and_refuses_their_handles():
    with graph() as g:
        a, b, c, r1, r2 = sums()
    session = session_on(g, "off")
    handles = [await session.partial_run_setup([r1, r2], [a, b, c]) for _ in range(3)]
    await session.partial_run(handles[0], r1, {a: 1, b: 2})

    await session.close()

    for handle in handles:
        with pytest.raises(CancelledError, match=r"Session has been closed\."):
            await session.partial_run(handle, r2, {c: 1})


async def test_a_partial_run_works_by_names_alone():
    with graph() as g:
        sums()

    async with direct(graph=g) as session:
        handle = await session.partial_run_setup(["a", "b:0"], ["r1"], [])
        assert await session.partial_run(handle, [("a", 1.0), ("b", 2.0)], ["r1:0"]) == [3]
