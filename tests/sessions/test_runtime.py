"""A user-defined kind of session: a factory with a scheme of its own and a runtime in a few lines."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from aioexec.errors import SessionClosedError, UnimplementedError
from aioexec.formats.protos import RunMetadata, RunOptions
from aioexec.graph.graph import Graph
from aioexec.sessions import factory
from aioexec.sessions.factory import SessionFactory
from aioexec.sessions.options import SessionOptions
from aioexec.sessions.runtime import SessionRuntime
from aioexec.sessions.session import Session
from tests.tiers import constant, feed, graph, op


class EchoSession(SessionRuntime):
    """Answers every fetch with the sum of the feeds; records its arguments."""

    def __init__(self, options: SessionOptions) -> None:
        super().__init__(options)
        self.nodes: list[list[str]] = []
        self.calls: list[tuple[Any, ...]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def create(self, graph_def: Any) -> None:
        self.nodes.append([node.name for node in graph_def.node])

    async def extend(self, graph_def: Any) -> None:
        await self.create(graph_def)

    async def run(
        self, options: Any, feeds: Any, output_names: Any, target_names: Any, metadata: Any = None
    ) -> list[Any]:
        self.calls.append((options, feeds, list(output_names), list(target_names)))
        await self.gate.wait()
        if metadata is not None:
            metadata.partition_graphs.add()
        return [sum(value for _, value in feeds)] * len(output_names)


class EchoSessionFactory(SessionFactory):
    def __init__(self) -> None:
        self.made: list[EchoSession] = []

    def accepts_options(self, options: SessionOptions) -> bool:
        return options.target.startswith("echo://")

    def new_session(self, options: SessionOptions) -> EchoSession:
        self.made.append(EchoSession(options))
        return self.made[-1]


@pytest.fixture
def echo() -> Iterator[EchoSessionFactory]:
    made = EchoSessionFactory()
    factory.register("ECHO_SESSION", made)
    yield made
    factory.deregister("ECHO_SESSION")


def small() -> tuple[Graph, Any, Any]:
    with graph() as g:
        a, b = feed([], name="a"), feed([], name="b")
        op("Add", a, b, name="c")
    return g, a, b


async def test_the_front_works_with_any_runtime(echo: EchoSessionFactory):
    g, a, b = small()
    metadata = RunMetadata()

    async with Session("echo://here", graph=g) as session:
        result = await session.run({"c": "c:0", "again": ["c:0"], "op": "c"}, {a: 1, b: 2})
        assert result == {"c": 3, "again": [3], "op": None}
        await session.run("c", options=RunOptions(timeout_in_ms=1000), run_metadata=metadata)

    (runtime,) = echo.made
    assert runtime.calls[0] == (None, [("a:0", np.float32(1)), ("b:0", np.float32(2))], ["c:0"], ["c"])
    assert runtime.calls[1] == (RunOptions(timeout_in_ms=1000), [], [], ["c"])
    assert len(metadata.partition_graphs) == 1


async def test_a_runtime_is_told_of_each_node_once(echo: EchoSessionFactory):
    g, a, b = small()

    async with Session("echo://here", graph=g) as session:
        await asyncio.gather(session.run("c:0", {a: 1, b: 2}), session.run("c", {a: 1, b: 2}))
        await session.run("c:0", {a: 3, b: 2})
        with g.as_default():
            op("Neg", a, name="d")
        await session.run("d:0", {a: 3})

    assert echo.made[0].nodes == [["a", "b", "c"], ["d"]]


async def test_partial_runs_of_any_runtime_are_fed_by_name(echo: EchoSessionFactory, monkeypatch: Any):
    g, a, b = small()
    calls: list[Any] = []

    async def partial_run_setup(self: Any, *names: Any) -> str:
        calls.append(names)
        return "handle"

    async def partial_run(self: Any, handle: str, feeds: Any, output_names: Any) -> list[Any]:
        calls.append((handle, feeds, output_names))
        return [7]

    monkeypatch.setattr(EchoSession, "partial_run_setup", partial_run_setup)
    monkeypatch.setattr(EchoSession, "partial_run", partial_run)
    async with Session("echo://here", graph=g) as session:
        handle = await session.partial_run_setup("c:0", [a, b])
        assert await session.partial_run(handle, "c:0", {b: 1, a: 2}) == 7

    assert calls == [(("a:0", "b:0"), ("c:0",), ()), ("handle", [("b:0", 1), ("a:0", 2)], ("c:0",))]


async def test_what_a_runtime_does_not_do_is_unimplemented(echo: EchoSessionFactory):
    g, a, _ = small()

    async with Session("echo://here", graph=g) as session:
        for use in (session.partial_run_setup("c:0", [a]), session.list_devices(), session.explain("c:0")):
            with pytest.raises(UnimplementedError):
                await use
    with pytest.raises(UnimplementedError, match=r"Reset\(\)"):
        await Session.reset("echo://here")


async def test_every_verb_of_a_bare_runtime_is_unimplemented():
    runtime = SessionRuntime(SessionOptions("bare://"))

    for use in (
        runtime.create(None),
        runtime.extend(None),
        runtime.run(None, [], [], []),
        runtime.partial_run_setup([], [], []),
        runtime.partial_run("", [], []),
        runtime.make_callable(None),
        runtime.run_callable(0, []),
        runtime.release_callable(0),
        runtime.list_devices(),
        runtime.reset([]),
    ):
        with pytest.raises(UnimplementedError, match="SessionRuntime does not implement"):
            await use
    await runtime.close()


async def test_close_waits_for_the_steps_of_any_runtime_and_cancels_them_without_grace(
    echo: EchoSessionFactory,
):
    g, a, b = small()
    session = Session("echo://here", graph=g)
    await session.run("c:0", {a: 1, b: 2})
    echo.made[0].gate.clear()
    running = asyncio.create_task(session.run("c:0", {a: 1, b: 2}))
    while len(echo.made[0].calls) < 2:
        await asyncio.sleep(0)

    await session.close(0)

    with pytest.raises(SessionClosedError):
        await running


async def test_large_feeds_are_converted_off_the_loop_for_any_runtime(echo: EchoSessionFactory):
    with graph() as g:
        a = feed(None, name="a")
        op("Add", a, constant(1.0), name="c")

    async with Session("echo://here", graph=g) as session:
        result = await session.run("c:0", {a: [1.0] * 100_000})

    np.testing.assert_array_equal(result, np.ones(100_000))
