"""The runtime of a session: one executor per signature, one kernel per node, BLAS limited to one thread."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from aioexec.devices.jit import blas
from aioexec.errors import InvalidArgumentError
from aioexec.planning.pipeline import Planner
from aioexec.planning.subgraph import Signature
from tests.sessions.direct_sessions import new_direct
from tests.tiers import Ops, constant, executors, feed, graph, op, resource, session_on


async def test_a_signature_is_planned_once_however_many_ask(monkeypatch: pytest.MonkeyPatch):
    planned: list[Signature] = []

    def counted(planner: Planner, signature: Signature) -> Any:
        planned.append(signature)
        return plan(planner, signature)

    plan = Planner.plan
    monkeypatch.setattr(Planner, "plan", counted)
    with graph() as g:
        x = feed([])
        y = op("Neg", x)
        signatures = [Signature((x,), (y,), ()), Signature((), (y,), ())]
    session = new_direct(graph=g)

    found = await asyncio.gather(*(session.executor(signatures[k % 2]) for k in range(20)))
    await session.close()

    assert len({id(executor) for executor in found}) == 2
    assert sorted(planned, key=lambda signature: len(signature.feeds)) == signatures[::-1]


async def test_a_plan_that_fails_fails_for_all_who_wait_and_is_tried_again():
    with graph() as g:
        a = op("Neg", constant(1.0))
        b = op("Neg", a)
        a.op.add_control_inputs([b.op])
    session = new_direct(graph=g)
    signature = Signature((), (b,), ())

    for _ in range(2):
        failed = await asyncio.gather(
            *(session.executor(signature) for _ in range(5)), return_exceptions=True
        )
        assert [type(error) for error in failed] == [InvalidArgumentError] * 5
    await session.close()


async def test_structures_that_mean_the_same_share_a_plan():
    with graph() as g:
        x = feed([], name="x")
        y = op("Neg", x, name="y")

    async with session_on(g, "off") as session:
        await session.run(y, {x: 1.0})
        await session.run([y], {"x:0": 1.0})
        await session.run({"a": "y:0", "b": (y,)}, {x: 1.0})
        assert len(executors(session)) == 1
        await session.run("y", {x: 1.0})
        assert len(executors(session)) == 2


async def test_nodes_with_one_shared_name_share_a_variable():
    with graph() as g:
        attrs = {"dtype": constant(0.0).dtype, "shape": (2,)}
        v = op("VarHandleOp", shared_name="same", **attrs)
        w = op("VarHandleOp", shared_name="same", **attrs)
        apart = op("VarHandleOp", shared_name="same", container="elsewhere", **attrs)
        wrong = op("VarHandleOp", shared_name="same", dtype=attrs["dtype"], shape=(3,))
        init = [op("AssignVariableOp", each, constant([k, k])) for each, k in ((v, 1.0), (apart, 5.0))]
        values = [op("ReadVariableOp", each, dtype=attrs["dtype"]) for each in (v, w, apart)]
        refused = op("ReadVariableOp", wrong, dtype=attrs["dtype"])

    async with session_on(g, "eager") as session:
        await session.run(init)
        assert [value[0] for value in await session.run(values)] == [1, 1, 5]
        with pytest.raises(InvalidArgumentError, match="'same' is shared with another node"):
            await session.run(refused)


async def test_two_sessions_share_nothing():
    with graph() as g:
        v = resource([])
        init = op("AssignVariableOp", v, feed([], name="x"))
        value = op("ReadVariableOp", v, dtype=constant(0.0).dtype)

    async with session_on(g, "off") as first, session_on(g, "eager") as second:
        await first.run(init, {"x:0": 1.0})
        await second.run(init, {"x:0": 2.0})
        assert [await first.run(value), await second.run(value)] == [1, 2]


async def test_blas_has_one_thread_while_any_session_plans_and_its_own_again_afterwards():
    library = blas.find()
    if library is None:
        pytest.skip("NumPy's BLAS cannot be reached here")
    before = library.get_threads()
    library.set_threads_count(2)
    try:
        with graph() as g:
            a = constant(np.ones(2))
        async with session_on(g, "off") as first:
            await first.run(a)
            async with session_on(g, "off") as second:
                await second.run(a)
                assert library.get_threads() == 1
            assert library.get_threads() == 1
        assert library.get_threads() == 2
    finally:
        library.set_threads_count(before)


async def test_kernels_are_bound_once_for_all_signatures(ops: Ops):
    bound: list[int] = []

    def bind(context: Any) -> Any:
        bound.append(1)
        return np.negative

    ops.add("TestBound(x:T) -> (y:T) [T:type] {stateful}", np.negative, kernel=bind)
    with graph() as g:
        x = feed([])
        y = op("TestBound", x)
        z = op("Neg", y)

    async with session_on(g, "off") as session:
        for fetch in (y, z, [y, z], y.op):
            await session.run(fetch, {x: 1.0})

    assert bound == [1]


@pytest.mark.parametrize("jit", ["off", "eager"])
async def test_an_executor_counts_its_steps(jit: str):
    with graph() as g:
        x = feed([4])
        y = op("Mul", x, x)

    async with session_on(g, jit) as session:
        for _ in range(7):
            await session.run(y, {x: np.ones(4, np.float32)})
        (executor,) = executors(session)

    assert executor.step_count == 7
