"""Partial runs of a direct session, by names."""

from __future__ import annotations

import pytest

from aioexec.errors import InvalidArgumentError, SessionClosedError
from tests.sessions.direct_sessions import direct, new_direct
from tests.tiers import constant, feed, graph, op


@pytest.mark.behaviour(55)
async def test_a_direct_session_that_is_closed_runs_no_part():
    with graph() as g:
        x = feed([], name="x")
        op("Neg", x, name="y")
    session = new_direct(graph=g)
    handle = await session.partial_run_setup(["x:0"], ["y:0"], [])
    await session.close()

    for each in (handle, "unknown"):
        with pytest.raises(SessionClosedError, match="closed"):
            await session.partial_run(each, [("x:0", 1.0)], ["y:0"])


async def test_an_unknown_handle_is_told_before_a_session_is_closed():
    with graph() as g:
        constant(1.0)

    async with direct(graph=g) as session:
        with pytest.raises(InvalidArgumentError, match="Must run 'setup'"):
            await session.partial_run("unknown", [], [])
