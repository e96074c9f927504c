"""The lifecycle of a session: opened at first use, in one loop and process, closed once; its graph may grow."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import warnings
from typing import Any

import numpy as np
import pytest

from aioexec.errors import (
    CancelledError,
    FailedPreconditionError,
    GraphTypeError,
    GraphValueError,
    OpError,
    SessionClosedError,
)
from aioexec.formats.protos import ConfigProto
from aioexec.graph.defaults import get_default_session
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.sessions.session import Session
from tests.tiers import Ops, Tier, constant, executors, feed, graph, op, session_on

# Life


async def test_a_session_opens_at_its_first_run_and_is_closed_by_hand(tier: Tier):
    with graph() as g:
        a = constant(2.0)
    session = tier.session(g)

    assert await session.run(a) == 2
    await session.close()

    with pytest.raises(SessionClosedError):
        await session.run(a)


async def test_a_session_never_used_needs_no_closing():
    with graph() as g:
        a = constant(1.0)
    session = session_on(g, "off")

    await session.close()

    with pytest.raises(SessionClosedError):
        await session.run(a)


async def test_a_closed_session_refuses_in_tensorflows_terms():
    with graph() as g:
        a = constant(1.0)
    async with session_on(g, "eager") as session:
        await session.run(a)
    await session.close()

    for use in (session.run(a), session.explain(a), session.native_share(a), session.run("nope:0")):
        with pytest.raises(SessionClosedError) as raised:
            await use
        assert isinstance(raised.value, CancelledError)
        assert isinstance(raised.value, RuntimeError)
        assert "closed" in str(raised.value)
    with pytest.raises(SessionClosedError):
        async with session:
            pass


async def test_close_without_a_limit_waits_for_the_runs_under_way_and_refuses_others(ops: Ops):
    gate, entered = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    ops.broken("TestGate", lambda x: (loop.call_soon_threadsafe(entered.set), gate.wait(), x + 1)[2])
    with graph() as g:
        x = feed([None])
        y = op("TestGate", x)
    session = session_on(g, "off")
    running = asyncio.create_task(session.run(y, {x: np.zeros(10**6, np.float32)}))
    await entered.wait()

    closing = [asyncio.create_task(session.close(grace=None)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(SessionClosedError):
        await session.run(y, {x: np.zeros(2, np.float32)})
    assert not closing[0].done()
    gate.set()

    assert (await running)[0] == 1
    await asyncio.gather(*closing)


async def test_a_close_that_is_cancelled_can_be_done_again(ops: Ops):
    gate, entered = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    ops.broken("TestGate", lambda x: (loop.call_soon_threadsafe(entered.set), gate.wait(), x)[2])
    with graph() as g:
        x = feed([None])
        y = op("TestGate", x)
    session = session_on(g, "off")
    running = asyncio.create_task(session.run(y, {x: np.zeros(10**6, np.float32)}))
    await entered.wait()
    closing = asyncio.create_task(session.close(grace=None))
    await asyncio.sleep(0)

    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)
    assert closing.cancelled()
    gate.set()
    await running

    await session.close()  # the leak check sees whether the threads are gone


async def test_an_unclosed_session_warns():
    with graph() as g:
        a = constant(1.0)
    held = [session_on(g, "off")]
    await held[0].run(a)
    direct = held[0]._runtime

    with pytest.warns(ResourceWarning, match="unclosed"):
        held.clear()

    assert direct is not None
    await direct.close()


async def test_inside_its_block_a_session_and_its_graph_are_the_defaults():
    with graph() as g:
        a = constant(3.0)

    async with session_on(g, "off") as session:
        assert get_default_session() is session
        assert get_default_graph() is g
        assert await a.eval() == 3
        assert await a.op.run() is None
        with session_on(g, "off").as_default() as inner:
            assert get_default_session() is inner
        assert get_default_session() is session
    assert get_default_session() is None
    assert get_default_graph() is not g


async def test_eval_takes_a_session_and_refuses_to_guess_one():
    with graph() as g:
        x = feed([])
        y = op("Mul", x, x)
    with graph() as other:
        pass

    async with session_on(g, "off") as session:
        with graph():
            assert await y.eval({x: 3.0}, session) == 9
            assert await y.op.run({x: 3.0}, session=session) is None
    with pytest.raises(ValueError, match="No default session is registered"):
        await y.eval({x: 3.0})
    async with session_on(other, "off"):
        with pytest.raises(ValueError, match="graph is another"):
            await y.eval({x: 3.0})


def test_a_session_belongs_to_one_loop():
    with graph() as g:
        a = constant(1.0)
    session = session_on(g, "off")
    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
    try:
        assert first.run_until_complete(session.run(a)) == 1
        for use in (session.run, session.explain):
            with pytest.raises(FailedPreconditionError, match="belongs to the event loop"):
                second.run_until_complete(use(a))
        with pytest.raises(FailedPreconditionError, match="belongs to the event loop"):
            second.run_until_complete(session.close())
        assert first.run_until_complete(session.run(a)) == 1
        first.run_until_complete(session.close())
        first.run_until_complete(first.shutdown_default_executor())
    finally:
        first.close()
        second.close()


def test_a_session_is_of_no_use_in_a_forked_process():
    with graph() as g:
        a = constant(1.0)
    session = session_on(g, "off")
    loop = asyncio.new_event_loop()
    loop.run_until_complete(session.run(a))

    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # 3.12 warns of fork beside threads, which is what is tested
        child = os.fork()
    if child == 0:
        status = 1
        try:
            asyncio.new_event_loop().run_until_complete(session.run(a))
        except FailedPreconditionError as error:
            status = 0 if "fork" in str(error) else 2
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    loop.run_until_complete(session.close())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


def test_wrong_arguments_are_refused_where_they_are_given():
    not_a_graph: Any = "graph"
    config = ConfigProto()
    config.aioexec.jit = "sometimes"

    with pytest.raises(GraphTypeError, match="graph must be a Graph"):
        Session(graph=not_a_graph)
    with pytest.raises(GraphValueError, match=r"expected one of.*'sometimes'"):
        Session(config=config)
    with pytest.raises(OpError, match="grpc://nowhere"):
        Session("grpc://nowhere")


# Growing graphs, many runs


async def test_the_graph_may_grow_between_runs(tier: Tier):
    with graph() as g:
        x = feed([4])
        y = op("Add", x, constant(1.0))
    array = np.zeros(4, np.float32)

    async with tier.session(g) as session:
        for count in range(1, 8):
            assert (await session.run(y, {x: array}))[0] == count
            y = op("Add", y, constant(1.0))


async def test_the_graph_may_grow_while_runs_are_planned():
    with graph() as g:
        x = feed([4])
        ends = []
        for k in range(10):
            y = x
            for _ in range(100):
                y = op("Add", y, constant(float(k)))
            ends.append(y)
    array = np.zeros(4, np.float32)

    async with session_on(g, "off") as session:
        runs = [asyncio.create_task(session.run(end, {x: array})) for end in ends]
        for _ in range(100):
            await asyncio.sleep(0)
            op("Neg", x)
            op("Const", value=np.float32(1), dtype=ends[0].dtype).op.add_control_inputs([ends[0].op])
        results = await asyncio.gather(*runs)

    for k, result in enumerate(results):
        np.testing.assert_array_equal(result, np.full(4, 100 * k))


async def test_many_runs_of_different_signatures_at_once(tier: Tier):
    with graph() as g:
        x, z = feed([8]), feed([8])
        sums = [op("Add", op("Mul", x, constant(float(k))), z) for k in range(12)]
    array = np.arange(8, dtype=np.float32)

    async with tier.session(g) as session:

        async def ask(k: int, scale: float) -> None:
            first = k % 12
            fetches: Any = [sums[first], {"x": sums[(first + 1) % 12]}] if k % 3 else sums[first]
            result = await session.run(fetches, {x: array * scale, z: array})
            value = result[0] if k % 3 else result
            np.testing.assert_allclose(value, array * scale * first + array)

        await asyncio.gather(*(ask(k, float(k % 7)) for k in range(240)))


async def test_a_thousand_runs_of_one_step_at_once(tier: Tier):
    with graph() as g:
        x = feed([16])
        y = op("Mul", op("Add", x, constant(1.0)), x)

    async with tier.session(g) as session:
        results = await asyncio.gather(
            *(session.run(y, {x: np.full(16, k, np.float32)}) for k in range(1000))
        )

    for k, result in enumerate(results):
        np.testing.assert_array_equal(result, np.full(16, k * (k + 1)))


async def test_a_stateful_kernel_is_one_for_all_signatures():
    class Counter:
        def __init__(self, context: Any) -> None:
            self.count = 0

        def __call__(self) -> Any:
            self.count += 1
            return np.int64(self.count)

    ops = Ops()
    ops.add("TestCounter() -> (n:int64) {stateful}", lambda: None, kernel=Counter)
    try:
        with graph() as g:
            n = op("TestCounter")
            m = op("Neg", n)

        async with session_on(g, "off") as session:
            assert [await session.run(n), await session.run(m), (await session.run([n, m]))[0]] == [1, -2, 3]
    finally:
        ops.forget()


# Looking inside


async def test_explain_tells_items_programs_breaks_and_the_native_share(ops: Ops):
    ops.broken("TestBreak", lambda x: x + 1)
    with graph() as g:
        x = feed([8])
        y = op("Add", op("TestBreak", op("Mul", x, x), name="odd"), x)

    async with session_on(g, "eager") as session:
        await session.run(y, {x: np.ones(8, np.float32)})
        text = await session.explain(y, {x: None})
        share = await session.native_share(y, {x: None})

    assert "break at 'odd' (TestBreak): no native kernel" in text
    assert "2 of 3 nodes native" in text
    assert share == pytest.approx(2 / 3)


async def test_explain_before_any_run_says_that_there_is_no_program():
    with graph() as g:
        x = feed([8])
        y = op("Mul", x, x)

    async with session_on(g, "eager") as session:
        assert "no program yet" in await session.explain(y, {x: None})
        with pytest.raises(GraphTypeError):
            await session.explain(None)


async def test_a_session_leaves_no_graph_behind():
    """Closing releases plans and kernels: a graph without other references is freed."""
    with graph() as g:
        x = feed([4])
        y = op("Mul", x, x)
    async with session_on(g, "eager") as session:
        await session.run(y, {x: np.ones(4, np.float32)})
        assert executors(session)
    ref = __import__("weakref").ref(y.op)

    del g, x, y, session
    gc.collect()

    assert ref() is None


def test_graphs_are_made_without_a_loop():
    assert isinstance(Graph(), Graph)
