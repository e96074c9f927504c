"""A direct session used by names: create, extend, run, callables; as TensorFlow's C++ session behaves."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from aioexec.errors import (
    AlreadyExistsError,
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    UnimplementedError,
)
from aioexec.formats.protos import CallableOptions, ConfigProto, GraphDef, TensorConnection
from aioexec.graph.graph import Graph
from aioexec.sessions.direct import DirectSession
from tests.sessions.direct_sessions import direct, new_direct
from tests.tiers import Ops, constant, feed, graph, op, read, reference, resource

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


def network() -> Graph:
    """x, y = x * x, z = y + 1, s0 and s1 of x."""
    with graph() as g:
        x = feed([], name="x")
        y = op("Mul", x, x, name="y")
        op("Add", y, constant(1.0), name="z")
        op("IdentityN", [x, y], name="s")
    return g


# The graph


@pytest.mark.behaviour(4)
async def test_a_graph_is_created_once():
    graph_def = network().as_graph_def()

    async with direct() as session:
        await session.create(GraphDef())
        await session.create(graph_def)
        with pytest.raises(AlreadyExistsError, match="already been created"):
            await session.create(graph_def)
        await session.create(GraphDef())

        assert await session.run(None, [("x:0", 3.0)], ["z:0"], []) == [10]


@pytest.mark.behaviour(5)
async def test_a_session_without_a_graph_runs_nothing():
    async with direct() as session:
        for use in (
            session.run(None, [], ["x:0"], []),
            session.partial_run_setup([], ["x:0"], []),
            session.make_callable(CallableOptions(fetch=["x:0"])),
        ):
            with pytest.raises(InvalidArgumentError, match="Session was not created with a graph before"):
                await use


@pytest.mark.behaviour(6)
async def test_extending_adds_nodes_to_those_there_are_and_none_is_fine():
    with graph() as g:
        x = feed([], name="x")
        y = op("Mul", x, x, name="y")
        first = g.version
        with g.control_dependencies([y]):
            op("Neg", y, name="z")
    whole = g.as_graph_def()
    head = GraphDef(node=whole.node[:first])
    tail = GraphDef(node=whole.node[first:])

    async with direct() as session:
        await session.extend(head)
        await session.extend(GraphDef())
        await session.extend(tail)

        assert await session.run(None, [("x", 3.0)], ["z"], []) == [-9]
        with pytest.raises(InvalidArgumentError, match="'z', which was created by a previous call"):
            await session.extend(tail)
        with pytest.raises(OpError):
            await session.extend(GraphDef(node=[{"name": "w", "op": "Neg", "input": ["nope"]}]))
        assert await session.run(None, [("x", 2.0)], ["z"], []) == [-4]


@pytest.mark.behaviour(42)
async def test_a_static_graph_is_neither_extended_nor_cut_anew_after_its_first_run():
    config = ConfigProto()
    config.experimental.optimize_for_static_graph = True

    async with direct(config) as session:
        await session.create(network().as_graph_def())
        assert await session.run(None, [("x", 3.0)], ["z"], []) == [10]

        with pytest.raises(FailedPreconditionError, match="optimize_for_static_graph"):
            await session.extend(GraphDef(node=[{"name": "w", "op": "NoOp"}]))
        with pytest.raises(FailedPreconditionError):
            await session.run(None, [("x", 3.0)], ["y"], [])
        assert await session.run(None, [("x", 2.0)], ["z"], []) == [5]


@pytest.mark.behaviour(43)
async def test_what_was_planned_runs_after_finalize_and_nothing_else():
    async with direct(graph=network()) as session:
        assert await session.run(None, [("x", 3.0)], ["z", "y"], []) == [10, 9]
        session.finalize()

        assert await session.run(None, [("x", 2.0)], ["z", "y"], []) == [5, 4]
        assert await session.run(None, [("x", 2.0)], ["y", "z"], []) == [4, 5]
        with pytest.raises(FailedPreconditionError, match="finalized"):
            await session.run(None, [("x", 2.0)], ["y"], [])
        with pytest.raises(FailedPreconditionError, match="finalized"):
            await session.extend(network().as_graph_def())
        with pytest.raises(FailedPreconditionError, match="already finalized"):
            session.finalize()


# Steps


async def run(session: DirectSession, how: str, feeds: dict[str, Any], *names: list[str]) -> list[Any]:
    """A step: as it is, or through a callable that runs twice."""
    fetches, targets = names if len(names) == 2 else (names[0], [])
    if how == "run":
        return await session.run(None, list(feeds.items()), fetches, targets)
    handle = await session.make_callable(CallableOptions(feed=list(feeds), fetch=fetches, target=targets))
    first = await session.run_callable(handle, list(feeds.values()))
    assert len(first) == len(fetches)
    result = await session.run_callable(handle, list(feeds.values()))
    await session.release_callable(handle)
    return result


both = pytest.mark.parametrize("how", ["run", "callable"])


@both
@pytest.mark.behaviour(10, 11, 44)
async def test_targets_run_and_give_nothing(how: str):
    with graph() as g:
        v = resource([])
        op("AssignAddVariableOp", v, feed([], name="x"), name="add")
        op("AssignVariableOp", v, constant(0.0), name="zero")
        op("Neg", constant(4.0), name="four")
        value = read(v)

    async with direct(graph=g) as session:
        assert await run(session, how, {}, [], ["zero"]) == []
        assert await run(session, how, {"x:0": 2.0}, ["four:0"], ["add"]) == [-4]
        assert await run(session, "run", {}, [value.name]) == [2 if how == "run" else 4]


@both
@pytest.mark.behaviour(12, 13, 14, 44)
async def test_results_come_in_the_order_asked_and_twice_if_asked_twice(how: str):
    async with direct(graph=network()) as session:
        fetches = ["z:0", "y:0", "z", "s:1", "y:0"]

        assert await run(session, how, {"x:0": 3.0}, fetches) == [10, 9, 10, 9, 9]


@both
@pytest.mark.behaviour(15, 22, 23, 44)
async def test_any_tensor_is_fed_instead_of_its_producer(how: str, ops: Ops):
    def fail(x: Any) -> Any:
        raise ValueError("ran")

    ops.broken("TestFails", fail)
    with graph() as g:
        x = constant(1.0)
        bad = op("TestFails", x)
        y = op("Neg", bad)
        first, second = op("IdentityN", [x, x])
        z = op("Sub", first, second)

    async with direct(graph=g) as session:
        assert await run(session, how, {bad.name: 5.0}, [y.name]) == [-5]
        assert await run(session, how, {x.name: 7.0}, [z.name]) == [0]
        assert await run(session, how, {second.name: 7.0}, [z.name]) == [-6]
        assert await run(session, how, {y.name: 1.0}, [z.name]) == [0]


@both
@pytest.mark.behaviour(16, 44)
async def test_feeds_in_either_order_and_of_one_value_reach_their_own_consumers(how: str):
    with graph() as g:
        op("Sub", feed([], name="a"), feed([], name="b"), name="c")
    value = np.float32(3)

    async with direct(graph=g) as session:
        assert await run(session, how, {"a:0": 5.0, "b:0": 2.0}, ["c:0"]) == [3]
        assert await run(session, how, {"b:0": 2.0, "a:0": 5.0}, ["c:0"]) == [3]
        assert await run(session, how, {"b:0": value, "a:0": value}, ["c:0"]) == [0]
        assert len(session._by_asked) == 1


@both
@pytest.mark.behaviour(17, 18, 19, 20, 21, 44)
@pytest.mark.parametrize(
    ("feeds", "fetches", "targets", "error", "message"),
    [
        (["x:0", "x"], ["z:0"], [], InvalidArgumentError, "fed more than once"),
        (["x:0"], ["x:0"], [], InvalidArgumentError, "both fed and fetched"),
        (["x:0", "nope:0"], ["z:0"], [], NotFoundError, "unable to find feed output"),
        (["x:0", "y:1"], ["z:0"], [], InvalidArgumentError, "should have output index < 1"),
        (["x:0"], ["nope:0"], [], NotFoundError, "not found"),
        (["x:0"], ["z:1"], [], InvalidArgumentError, "z:1: output index too large, must be < 1"),
        (["x:0"], ["z:0"], ["nope", "z"], NotFoundError, "target nodes not found: nope"),
        (["x:0"], [], [], InvalidArgumentError, "at least one target"),
    ],
)
async def test_what_does_not_fit_the_graph_is_refused(
    how: str, feeds: list[str], fetches: list[str], targets: list[str], error: type[OpError], message: str
):
    async with direct(graph=network()) as session:
        with pytest.raises(error, match=message):
            if how == "run":
                await session.run(None, [(name, 1.0) for name in feeds], fetches, targets)
            else:
                await session.make_callable(CallableOptions(feed=feeds, fetch=fetches, target=targets))


@both
@pytest.mark.behaviour(24, 44)
async def test_a_fed_reference_cannot_be_assigned(how: str):
    with graph() as g:
        v = reference([], name="v")
        op("Assign", v, constant(1.0), name="assign")

    async with direct(graph=g) as session:
        with pytest.raises(InvalidArgumentError):
            await run(session, how, {"v:0": 5.0}, ["assign:0"])


@both
@pytest.mark.behaviour(28, 44)
@pytest.mark.parametrize(
    ("dtype", "value"),
    [("int32", 7), ("string", b"seven"), ("bool", True), ("float32", 7.5), ("int64", 2**40)],
)
async def test_values_of_any_type_are_fed_and_fetched(how: str, dtype: str, value: Any):
    with graph() as g:
        op("Identity", feed(None, dtype, name="x"), name="y")

    async with direct(graph=g) as session:
        (result,) = await run(session, how, {"x:0": [value]}, ["y:0"])

    assert result.tolist() == [value]


@both
@pytest.mark.behaviour(30, 31, 44)
async def test_state_lives_across_steps_and_signatures(how: str):
    with graph() as g:
        v = resource([], name="v")
        op("AssignVariableOp", v, feed([], name="x"), name="set")
        op("Neg", read(v), name="negated")
        op("AssignAddVariableOp", v, constant(1.0), name="add")

    async with direct(graph=g) as session:
        await session.run(None, [("x:0", 5.0)], [], ["set"])
        for _ in range(3):
            await session.run(None, [], [], ["add"])
        assert await run(session, how, {}, ["negated:0"]) == [-8]


@pytest.mark.behaviour(33)
async def test_many_callers_of_one_step_get_their_own_results():
    async with direct(graph=network()) as session:

        async def caller(number: int) -> bool:
            for k in range(250):
                (z,) = await session.run(None, [("x:0", float(k % 50 + number))], ["z:0"], [])
                if z != (k % 50 + number) ** 2 + 1:
                    return False
            return True

        assert await asyncio.gather(*(caller(number) for number in range(4))) == [True] * 4


async def test_signatures_that_ask_for_the_same_share_a_plan_whatever_the_order():
    with graph() as g:
        a, b = feed([], name="a"), feed([], name="b")
        op("Sub", a, b, name="d")
        op("Add", a, b, name="s")

    async with direct(graph=g) as session:
        feeds = [("a:0", 5.0), ("b:0", 2.0)]
        assert await session.run(None, feeds, ["d:0", "s:0"], []) == [3, 7]
        assert await session.run(None, feeds[::-1], ["s:0", "d:0"], []) == [7, 3]
        assert len(session._by_asked) == 1
        assert len(session._executors) == 2


# Callables


@pytest.mark.behaviour(45)
async def test_a_handle_that_was_released_or_made_up_is_refused():
    async with direct(graph=network()) as session:
        handle = await session.make_callable(CallableOptions(feed=["x:0"], fetch=["z:0"]))
        await session.release_callable(handle)

        await session.release_callable(handle)
        with pytest.raises(InvalidArgumentError, match=f"callable after handle was released: {handle}"):
            await session.run_callable(handle, [1.0])
        for use in (session.run_callable(999, []), session.release_callable(999)):
            with pytest.raises(InvalidArgumentError, match="No such callable handle: 999"):
                await use


@pytest.mark.behaviour(46, 58, 59)
async def test_a_closed_session_refuses_everything():
    session = new_direct(graph=network())
    handle = await session.make_callable(CallableOptions(feed=["x:0"], fetch=["z:0"]))

    await session.close()
    await session.close()

    for use in (
        session.run_callable(handle, [1.0]),
        session.run(None, [("x", 1.0)], ["z"], []),
        session.partial_run_setup(["x"], ["z"], []),
        session.make_callable(CallableOptions(fetch=["z:0"])),
        session.extend(GraphDef()),
        session.create(GraphDef()),
        session.list_devices(),
    ):
        with pytest.raises(CancelledError, match=r"Session has been closed\."):
            await use


@pytest.mark.behaviour(47)
async def test_a_callable_takes_as_many_values_as_it_has_feeds():
    async with direct(graph=network()) as session:
        handle = await session.make_callable(CallableOptions(feed=["x:0"], fetch=["z:0"]))

        for values in ([], [1.0, 2.0]):
            with pytest.raises(InvalidArgumentError, match="Expected 1 feed tensors, but got"):
                await session.run_callable(handle, values)


def wired(source: str, destination: str, **options: Any) -> CallableOptions:
    connection = TensorConnection(from_tensor=source, to_tensor=destination)
    return CallableOptions(tensor_connection=[connection], **options)


@pytest.mark.behaviour(48)
async def test_a_tensor_is_wired_to_the_place_of_another(ops: Ops):
    def fail(x: Any) -> Any:
        raise ValueError("ran")

    ops.broken("TestFails", fail)
    with graph() as g:
        x = feed([], name="x")
        op("Mul", x, x, name="square")
        op("Neg", op("TestFails", x, name="replaced"), name="y")

    async with direct(graph=g) as session:
        for fetch, expected in ((["y:0"], [-9]), (["y:0", "square:0"], [-9, 9])):
            options = wired("square:0", "replaced:0", feed=["x:0"], fetch=fetch)
            handle = await session.make_callable(options)
            for _ in range(2):
                assert await session.run_callable(handle, [3.0]) == expected


@pytest.mark.behaviour(49)
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (wired("z:0", "y:0", fetch=["z:0"]), InvalidArgumentError, "would create a cycle"),
        (wired("nope:0", "y:0", fetch=["z:0"]), InvalidArgumentError, "unknown node"),
        (wired("x:1", "y:0", fetch=["z:0"]), InvalidArgumentError, "unknown edge"),
        (wired("x:0", "nope:0", fetch=["z:0"]), NotFoundError, "unable to find feed output"),
        (wired("x:0", "y:0", feed=["y:0"], fetch=["z:0"]), InvalidArgumentError, "fed more than once"),
        (wired("x:0", "y:0", fetch=["y:0"]), InvalidArgumentError, "both fed and fetched"),
        (
            CallableOptions(
                fetch=["z:0"],
                tensor_connection=[TensorConnection(from_tensor="x:0", to_tensor="y:0")] * 2,
            ),
            InvalidArgumentError,
            "fed more than once",
        ),
    ],
)
async def test_a_connection_that_cannot_be_is_refused(
    options: CallableOptions, error: type[OpError], message: str
):
    async with direct(graph=network()) as session:
        with pytest.raises(error, match=message):
            await session.make_callable(options)


async def test_connections_that_make_a_cycle_together_are_refused():
    with graph() as g:
        a, b = feed([], name="a"), feed([], name="b")
        op("Neg", a, name="c")
        op("Neg", b, name="d")
    options = CallableOptions(
        fetch=["c:0"],
        tensor_connection=[
            TensorConnection(from_tensor="c:0", to_tensor="b:0"),
            TensorConnection(from_tensor="d:0", to_tensor="a:0"),
        ],
    )

    async with direct(graph=g) as session:
        with pytest.raises(InvalidArgumentError, match="would create a cycle"):
            await session.make_callable(options)


@pytest.mark.behaviour(50)
async def test_feeds_and_fetches_on_devices_that_cannot_be_are_refused():
    config = ConfigProto(device_count={"CPU": 2})
    fine = CallableOptions(feed=["x:0"], fetch=["z:0"], feed_devices={"x:0": CPU}, fetch_devices={"z:0": CPU})
    other = CallableOptions(feed=["x:0"], fetch=["z:0"], feed_devices={"x:0": "/device:CPU:1"})
    unknown = CallableOptions(feed=["x:0"], fetch=["z:0"], fetch_devices={"z:0": "/device:GPU:0"})

    async with direct(config, network()) as session:
        assert await session.run_callable(await session.make_callable(fine), [3.0]) == [10]
        with pytest.raises(UnimplementedError, match="CPU:1"):
            await session.make_callable(other)
        with pytest.raises(InvalidArgumentError, match="GPU:0"):
            await session.make_callable(unknown)
