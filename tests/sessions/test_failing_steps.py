"""Errors of steps name the node, on every tier, and leave the session usable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aioexec.errors import (
    InvalidArgumentError,
    NotFoundError,
    OpError,
)
from aioexec.graph import registry
from aioexec.graph.registry import NOT_DIFFERENTIABLE
from tests.tiers import Ops, Tier, constant, feed, graph, op, read, resource, session_on


async def test_a_cycle_is_refused_by_name():
    with graph() as g:
        a = op("Neg", constant(1.0), name="first")
        b = op("Neg", a, name="second")
        c = constant(5.0)
        a.op.add_control_inputs([b.op])

    async with session_on(g, "eager") as session:
        for _ in range(2):
            with pytest.raises(InvalidArgumentError, match=r"cycle.*'first', 'second'"):
                await session.run(b)
        assert await session.run(c) == 5


async def test_an_op_that_is_not_registered_is_refused_where_it_is_used():
    with graph() as g:
        a = constant(1.0)
        with pytest.raises(NotFoundError, match="'NoSuchOp'"):
            op("NoSuchOp", a)

    async with session_on(g, "off") as session:
        assert await session.run(a) == 1


async def test_an_op_without_a_kernel_fails_every_run_of_its_graph_by_name():
    row = registry.register(
        "TestBare() -> (x:float)", shape=lambda context: [()], kernel=None, gradient=NOT_DIFFERENTIABLE
    )
    try:
        with graph() as g:
            x, a = op("TestBare", name="bare"), constant(1.0)

        async with session_on(g, "eager") as session:
            for fetch in (x, a):
                with pytest.raises(
                    InvalidArgumentError, match=r"No OpKernel was registered to support Op 'TestBare'.*'bare'"
                ):
                    await session.run(fetch)
    finally:
        del registry._registry.rows[row.name]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("odd"), InvalidArgumentError),
        (TypeError("odd"), InvalidArgumentError),
        (ZeroDivisionError("odd"), OpError),
        (KeyError("odd"), OpError),
        (MemoryError("odd"), OpError),
        (NotFoundError("odd"), NotFoundError),
    ],
)
async def test_a_kernel_that_raises_is_named_with_its_node(
    tier: Tier, ops: Ops, error: Exception, kind: type
):
    def fail(x: Any) -> Any:
        if x[0]:
            raise error
        return x

    ops.broken("TestFail", fail)
    with graph() as g:
        x = feed([None])
        y = op("Add", op("TestFail", op("Mul", x, constant(1.0)), name="broken/one"), constant(1.0))

    async with tier.session(g) as session:
        for _ in range(3):
            with pytest.raises(kind, match=r"TestFail 'broken/one' on .*CPU:0: .*odd.*created at") as raised:
                await session.run(y, {x: np.ones(4, np.float32)})
            assert isinstance(raised.value, OpError)
            assert raised.value.op is g.get_operation_by_name("broken/one")
            assert (raised.value.node_def.name, raised.value.node_def.op) == ("broken/one", "TestFail")
            np.testing.assert_array_equal(await session.run(y, {x: np.zeros(4, np.float32)}), np.ones(4))


async def test_a_constant_that_cannot_be_computed_fails_when_the_step_runs(tier: Tier, ops: Ops):
    """Folding is no reason to fail at another time or under another name."""

    def fail(x: Any) -> Any:
        raise ZeroDivisionError("never")

    ops.add("TestPureFail(x:T) -> (y:T) [T:type]", fail)
    with graph() as g:
        good = op("Add", constant(1.0), constant(2.0))
        bad = op("TestPureFail", constant(1.0), name="bad")

    async with tier.session(g) as session:
        with pytest.raises(OpError, match=r"TestPureFail 'bad'.*never"):
            await session.run([good, bad])
        assert await session.run(good) == 3


async def test_shapes_that_do_not_fit_fail_alike_on_every_tier(tier: Tier):
    with graph() as g:
        x, z = feed(None), feed(None)
        y = op("Add", x, z, name="sum")

    async with tier.session(g) as session:
        for _ in range(3):
            with pytest.raises(InvalidArgumentError, match="Add 'sum'"):
                await session.run(y, {x: np.ones(2, np.float32), z: np.ones(3, np.float32)})
        np.testing.assert_array_equal(await session.run(y, {x: [1.0], z: [2.0, 3.0]}), [3, 4])


async def test_a_native_row_that_reports_a_status_fails_as_the_reference_does(tier: Tier):
    with graph() as g:
        x, z = feed([None], "int32"), feed([None], "int32")
        y = op("FloorDiv", x, z, name="quotient")
        total = op("Add", y, x)

    async with tier.session(g) as session:
        for _ in range(3):
            with pytest.raises(InvalidArgumentError, match=r"FloorDiv 'quotient' on .*[Dd]ivision by zero"):
                await session.run(total, {x: [1, 2, 3], z: [1, 0, 1]})
            np.testing.assert_array_equal(await session.run(total, {x: [7, 8], z: [2, -3]}), [10, 5])


async def test_a_step_that_fails_keeps_what_was_finished_and_tears_nothing(tier: Tier):
    """v is written, then a row fails, then w would have been written."""
    with graph() as g:
        v, w = resource([1000], name="v"), resource([1000], name="w")
        divisor = feed([], "int32")
        init = [op("AssignVariableOp", each, np.zeros(1000, np.float32)) for each in (v, w)]
        first = op("AssignAddVariableOp", v, np.ones(1000, np.float32))
        with g.control_dependencies([first]):
            quotient = op("FloorDiv", constant(6, "int32"), divisor)
        with g.control_dependencies([quotient]):
            second = op("AssignAddVariableOp", w, np.ones(1000, np.float32))
            third = op("AssignAddVariableOp", v, np.ones(1000, np.float32))
        values = [read(v), read(w)]

    async with tier.session(g) as session:
        await session.run(init)
        for count in range(1, 4):
            with pytest.raises(InvalidArgumentError):
                await session.run([second, third], {divisor: 0})
            a, b = await session.run(values)
            np.testing.assert_array_equal(a, np.full(1000, count))
            np.testing.assert_array_equal(b, np.zeros(1000))
        await session.run([second, third], {divisor: 1})
        a, b = await session.run(values)
        np.testing.assert_array_equal(a, np.full(1000, 5))
        np.testing.assert_array_equal(b, np.ones(1000))


async def test_the_first_error_is_the_one_that_is_raised(tier: Tier, ops: Ops):
    ops.broken("TestFirst", lambda x: (_ for _ in ()).throw(NotFoundError("the first")))
    ops.broken("TestSecond", lambda x: (_ for _ in ()).throw(InvalidArgumentError("the second")))
    with graph() as g:
        x = feed([])
        a = op("TestFirst", x)
        b = op("TestSecond", x)

    async with tier.session(g) as session:
        with pytest.raises(NotFoundError, match="the first"):
            await session.run([b, a], {x: 1.0})
