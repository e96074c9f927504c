"""InteractiveSession: the default from its construction until it is closed."""

from __future__ import annotations

import aioexec as ax
from aioexec.graph.defaults import get_default_session
from aioexec.graph.graph import Graph, get_default_graph
from tests.tiers import constant, op, session_on


async def test_an_interactive_session_is_the_default_until_it_is_closed():
    g, outer = Graph(), get_default_graph()
    session = ax.InteractiveSession(graph=g)

    assert get_default_session() is session
    assert get_default_graph() is g
    a = constant(3.0)
    assert await op("Neg", a).eval() == -3
    assert await a.op.run() is None

    await session.close()
    await session.close()
    assert get_default_session() is None
    assert get_default_graph() is outer


async def test_interactive_sessions_are_closed_in_any_order():
    first, second = ax.InteractiveSession(graph=Graph()), ax.InteractiveSession(graph=Graph())

    await first.close()

    assert get_default_session() is second
    assert get_default_graph() is second.graph
    with session_on(Graph(), "off").as_default() as inner:
        assert get_default_session() is inner
    await second.close()
    assert get_default_session() is None
