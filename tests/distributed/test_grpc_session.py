"""The client side of sessions on servers: the requests it sends, and its handling of replies."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AsyncExitStack
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec import errors
from aioexec.distributed.client import grpc_session
from aioexec.distributed.transport import channels
from aioexec.distributed.transport.transport import Payload
from aioexec.execution.budget import TICK_NS
from aioexec.formats.protos import RunMetadata, RunOptions
from tests.distributed.scripted_master import Scripted

TARGET = "grpc://nowhere.example:2222"


@pytest.fixture
async def there(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    channel = Scripted()
    monkeypatch.setattr(channels, "channel_to", lambda address: channel)
    return channel


@pytest.fixture
def graph() -> ax.Graph:
    with ax.Graph().as_default() as made:
        x = ax.placeholder(ax.float32, [], name="x")
        ax.add(x, 1.0, name="y")
        ax.multiply(x, 2.0, name="z")
        ax.no_op(name="train")
    return made


# Requests


@pytest.mark.parametrize(
    "target", ["grpc://", "grpc://host", "grpc://host:", "grpc://:1", "grpc://a:70000", "grpc://a:b"]
)
def test_a_target_without_an_address_is_refused(target: str):
    with pytest.raises(errors.InvalidArgumentError, match="host:port"):
        ax.Session(target, graph=ax.Graph())


async def test_nothing_is_sent_before_there_is_something_to_run(there: Scripted, graph: ax.Graph):
    async with ax.Session(TARGET, graph=graph):
        pass

    assert there.calls == []
    assert there.is_closed


async def test_the_graph_is_sent_with_the_first_run_and_its_growth_with_later_ones(
    there: Scripted, graph: ax.Graph
):
    config = ax.ConfigProto(allow_soft_placement=True)
    async with ax.Session(TARGET, graph=graph, config=config) as session:
        await session.run("y:0", {"x:0": 1.0})
        await session.run("y:0", {"x:0": 1.0})
        with graph.as_default():
            w = ax.identity(graph.get_tensor_by_name("y:0"), name="w")
        await session.run(w, {"x:0": 1.0})
        with graph.as_default():
            ax.identity(w, name="v")
        await session.run("v:0", {"x:0": 1.0})

    assert there.names == [
        "CreateSession", "RunStep", "RunStep", "ExtendSession", "RunStep", "ExtendSession", "RunStep", "CloseSession",
    ]  # fmt: skip
    created, first, second = (there.calls[place][1] for place in (0, 3, 5))
    assert created.target == TARGET
    assert created.config.allow_soft_placement
    assert [node.name for node in created.graph_def.node] == [op.name for op in graph.get_operations()][:-2]
    assert [[node.name for node in each.graph_def.node] for each in (first, second)] == [["w"], ["v"]]
    assert [each.current_graph_version for each in (first, second)] == [0, 1]
    assert {each.session_handle for _, each, *_ in there.calls[1:]} == {"00000000000000aa"}


def test_graphs_that_are_sent_at_once_leave_the_loop_to_others(
    monkeypatch: pytest.MonkeyPatch, graph: ax.Graph
):
    """Each takes more than the budget of a tick here, so each is exported in a tick of its own."""
    now = itertools.count(step=2 * TICK_NS)
    monkeypatch.setattr(grpc_session, "perf_counter_ns", lambda: next(now))
    monkeypatch.setattr(channels, "channel_to", lambda address: Scripted())
    exported: list[int] = []
    turns = [0]
    export = graph.as_graph_def

    def observed(**arguments: Any) -> Any:
        exported.append(turns[0])
        return export(**arguments)

    monkeypatch.setattr(graph, "as_graph_def", observed)

    def count_turn(loop: asyncio.AbstractEventLoop) -> None:
        turns[0] += 1
        loop.call_soon(count_turn, loop)

    async def run_nowait() -> None:
        count_turn(asyncio.get_running_loop())
        async with AsyncExitStack() as stack:
            sessions = [await stack.enter_async_context(ax.Session(TARGET, graph=graph)) for _ in range(5)]
            await asyncio.gather(*(session.run("train") for session in sessions))

    asyncio.run(run_nowait())

    assert len(set(exported)) == 5


async def test_devices_are_listed_without_a_graph_which_follows(there: Scripted, graph: ax.Graph):
    async with ax.Session(TARGET, graph=graph) as session:
        assert await session.list_devices() == []
        await session.run("y:0", {"x:0": 1.0})

    assert there.names == ["CreateSession", "ListDevices", "ExtendSession", "RunStep", "CloseSession"]
    assert not there.calls[0][1].graph_def.node
    assert len(there.calls[2][1].graph_def.node) == len(graph.get_operations())


async def test_a_step_is_asked_for_by_names_with_ports_and_an_id_of_its_own(there: Scripted, graph: ax.Graph):
    async with ax.Session(TARGET, graph=graph) as session:
        for _ in range(2):
            await session.run([graph.get_tensor_by_name("y:0"), "train"], {"x:0": 5.0})

    first, second = (each for name, each, *_ in there.calls if name == "RunStep")
    assert ([each.name for each in first.feed], list(first.fetch), list(first.target)) == (
        ["x:0"],
        ["y:0"],
        ["train"],
    )
    assert first.store_errors_in_response_body
    assert first.HasField("options")
    assert 0 not in (first.request_id, second.request_id)
    assert first.request_id != second.request_id
    assert there.fed[1] == [5.0]
    assert there.fed[1][0].dtype == np.float32


async def test_what_comes_twice_is_asked_for_once_and_what_is_fed_not_at_all(
    there: Scripted, graph: ax.Graph
):
    value = np.float32(5)
    there.values = {"y:0": np.float32(6), "z:0": np.float32(10)}
    async with ax.Session(TARGET, graph=graph) as session:
        assert await session.run(["z:0", "x:0", "y:0", "z:0"], {"x:0": value}) == [10, 5, 6, 10]
        asked = list(there.last.fetch)
        before = len(there.calls)
        assert await session.run("x:0", {"x:0": value}) == 5
        assert len(there.calls) == before

    assert sorted(asked) == ["y:0", "z:0"]


@pytest.mark.parametrize(
    ("run", "session", "expected"),
    [(200, 0, 200), (0, 300, 300), (200, 300, 200), (300, 200, 200), (-1, 0, 0)],
)
async def test_the_least_timeout_is_the_call_s_and_reported(
    there: Scripted, graph: ax.Graph, run: int, session: int, expected: int
):
    config = ax.ConfigProto(operation_timeout_in_ms=session)
    async with ax.Session(TARGET, graph=graph, config=config) as opened:
        await opened.run(
            "y:0", {"x:0": 1.0}, options=RunOptions(timeout_in_ms=run, trace_level=RunOptions.SOFTWARE_TRACE)
        )

    name, message, timeout, _ = there.calls[1]
    assert name == "RunStep"
    assert max(message.options.timeout_in_ms, 0) == expected
    assert message.options.trace_level == 1
    assert (
        timeout or 0.0
    ) <= expected / 1000 + 1e-6  # the loop's clock has large numbers: their differences are rounded
    assert (timeout is None) == (expected == 0)
    assert there.calls[0][2] == (session / 1000 or None)


@pytest.mark.behaviour(153)
async def test_a_step_that_takes_too_long_is_cancelled_there(
    there: Scripted, graph: ax.Graph, virtual_clock: Any
):
    there.gate.clear()
    async with ax.Session(TARGET, graph=graph) as session:
        with pytest.raises(errors.DeadlineExceededError):
            await session.run("y:0", {"x:0": 1.0}, options=RunOptions(timeout_in_ms=50))

        assert there.cancelled == 1


async def test_cancelling_a_run_cancels_the_call_and_leaves_the_session(there: Scripted, graph: ax.Graph):
    async with ax.Session(TARGET, graph=graph) as session:
        await session.run("y:0", {"x:0": 1.0})
        there.gate.clear()
        running = asyncio.create_task(session.run("y:0", {"x:0": 1.0}))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        there.gate.set()

        assert there.cancelled == 1
        assert await session.run("y:0", {"x:0": 1.0}) == 1


# Replies


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda names: [*names, "ghost:0"], "unrequested fetch: ghost:0"),
        (lambda names: [], "no value for y:0"),
        (lambda names: ["z:0"], "unrequested fetch: z:0"),
    ],
)
async def test_an_answer_to_another_question_is_an_error(
    there: Scripted, graph: ax.Graph, change: Any, said: str
):
    there.reorder = change
    async with ax.Session(TARGET, graph=graph) as session:
        with pytest.raises(errors.InternalError, match=said):
            await session.run("y:0", {"x:0": 1.0})


async def test_a_value_of_another_dtype_is_an_error(there: Scripted, graph: ax.Graph):
    there.values = {"y:0": np.int64(3)}
    async with ax.Session(TARGET, graph=graph) as session:
        with pytest.raises(errors.InternalError, match="y:0: expected float32 from the server, got int64"):
            await session.run("y:0", {"x:0": 1.0})


@pytest.mark.parametrize(
    "text",
    [
        "From /job:ps/replica:0/task:0:\nbad\n\t [[{{node y}}]]\nRecent warning and error logs:\n somebody else's",
        "Add 'y' on /job:ps/replica:0/task:0/device:CPU:0: bad\n\t [[{{node y}}]]",
        "From /job:ps/replica:0/task:0:\nAdd 'y' on /job:ps/replica:0/task:0/device:CPU:0: bad\n\t [[{{node y}}]]",
    ],
)
async def test_an_error_is_that_of_the_client_s_operation(there: Scripted, graph: ax.Graph, text: str):
    there.values = {"failure": (errors.OUT_OF_RANGE, text)}
    async with ax.Session(TARGET, graph=graph) as session:
        with pytest.raises(errors.OutOfRangeError) as caught:
            await session.run("y:0", {"x:0": 1.0})

    operation = graph.get_operation_by_name("y")
    assert caught.value.op is operation
    assert caught.value.node == "y"
    assert caught.value.node_def.op == operation.type
    assert caught.value.message.startswith(f"{operation.type} 'y'")
    assert caught.value.message.endswith(f"; created at {operation.created_at}")
    assert caught.value.message.count("created at") == caught.value.message.count("'y'") == 1
    assert "somebody" not in caught.value.message


@pytest.mark.parametrize("code", range(1, 17))
async def test_every_code_becomes_its_class(there: Scripted, graph: ax.Graph, code: int):
    there.values = {"failure": (code, "said there")}
    async with ax.Session(TARGET, graph=graph) as session:
        with pytest.raises(errors.exception_type_from_error_code(code), match="said there") as caught:
            await session.run("y:0", {"x:0": 1.0})

    assert caught.value.op is None


async def test_metadata_is_what_the_server_says(there: Scripted, graph: ax.Graph):
    metadata = RunMetadata()
    async with ax.Session(TARGET, graph=graph) as session:
        await session.run("y:0", {"x:0": 1.0}, run_metadata=metadata)
        with pytest.raises(errors.GraphTypeError, match="run_metadata"):
            await session.run("y:0", {"x:0": 1.0}, run_metadata=3)

    assert [each.device for each in metadata.step_stats.dev_stats] == ["there"]


# Servers that are away


async def test_a_server_is_awaited_when_the_session_is_made_and_no_later(there: Scripted, graph: ax.Graph):
    async with ax.Session(TARGET, graph=graph) as session:
        await session.run("y:0", {"x:0": 1.0})

    assert [(name, waits) for name, _, _, waits in there.calls] == [
        ("CreateSession", True), ("RunStep", False), ("CloseSession", False),
    ]  # fmt: skip


async def test_a_call_that_could_not_connect_is_made_again_with_the_same_id(
    there: Scripted, graph: ax.Graph, virtual_clock: Any
):
    async with ax.Session(TARGET, graph=graph) as session:
        await session.run("y:0", {"x:0": 1.0})
        there.failures = [errors.UnavailableError("gone"), errors.UnavailableError("still gone")]
        await session.run("z:0", {"x:0": 1.0})
        requests = [each.request_id for name, each, *_ in there.calls if name == "RunStep"]

    assert len(requests) == 4
    assert len(set(requests)) == 2


@pytest.mark.parametrize("then", [errors.UnavailableError("later"), errors.AbortedError("received twice")])
async def test_a_server_that_stays_away_is_unavailable(
    there: Scripted, graph: ax.Graph, virtual_clock: Any, then: Exception
):
    async with ax.Session(TARGET, graph=graph) as session:
        await session.run("y:0", {"x:0": 1.0})
        there.failures = [errors.UnavailableError("lost at first"), *[then] * 3]
        with pytest.raises(errors.UnavailableError, match="lost at first"):
            await session.run("y:0", {"x:0": 1.0})
        there.failures = []

        assert await session.run("y:0", {"x:0": 1.0}) == 1


async def test_an_extension_that_is_refused_leaves_the_session(there: Scripted, graph: ax.Graph):
    async with ax.Session(TARGET, graph=graph) as session:
        await session.run("y:0", {"x:0": 1.0})
        with graph.as_default():
            w = ax.constant(1.0, name="w")
        there.failures = [errors.InvalidArgumentError("no such thing here")]
        with pytest.raises(errors.InvalidArgumentError, match="no such thing"):
            await session.run(w)
        assert await session.run("y:0", {"x:0": 1.0}) == 1
        await session.run(w)

    extensions = [each for name, each, *_ in there.calls if name == "ExtendSession"]
    assert [[node.name for node in each.graph_def.node] for each in extensions] == [["w"], ["w"]]
    assert [each.current_graph_version for each in extensions] == [0, 0]


async def test_a_cancelled_waiter_does_not_stop_the_creation(there: Any, graph: ax.Graph):
    made = asyncio.Event()
    create = there.CreateSession

    async def slowly(request: Any, reply: Any) -> Payload:
        await made.wait()
        return await create(request, reply)

    there.CreateSession = slowly
    async with ax.Session(TARGET, graph=graph) as session:
        cancelled = asyncio.create_task(session.run("y:0", {"x:0": 1.0}))
        other = asyncio.create_task(session.run("z:0", {"x:0": 1.0}))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        cancelled.cancel()
        made.set()

        assert await other == 1
        with pytest.raises(asyncio.CancelledError):
            await cancelled

    assert there.names == ["CreateSession", "RunStep", "CloseSession"]


async def test_a_close_that_is_refused_ends_the_session_all_the_same(there: Scripted, graph: ax.Graph):
    session = ax.Session(TARGET, graph=graph)
    await session.run("y:0", {"x:0": 1.0})
    there.failures = [errors.AbortedError("Session is not found")]

    with pytest.raises(errors.AbortedError, match="not found"):
        await session.close()
    await session.close()

    assert there.is_closed
    with pytest.raises(errors.SessionClosedError):
        await session.run("y:0", {"x:0": 1.0})


async def test_a_server_that_is_away_lets_a_session_close(there: Scripted, graph: ax.Graph, caplog: Any):
    session = ax.Session(TARGET, graph=graph)
    await session.run("y:0", {"x:0": 1.0})
    there.failures = [errors.UnavailableError("gone")]

    await session.close()

    assert "was not notified" in caplog.text
    assert there.is_closed


async def test_a_session_that_closes_while_it_is_made_ends_the_call(there: Any, graph: ax.Graph):
    never = asyncio.Event()

    async def forever(request: Any, reply: Any) -> Payload:
        await never.wait()
        raise AssertionError("the event is never set")

    there.CreateSession = forever
    session = ax.Session(TARGET, graph=graph)
    running = asyncio.create_task(session.run("y:0", {"x:0": 1.0}))
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    await session.close(grace=0)

    with pytest.raises(errors.SessionClosedError):
        await running
    assert there.names == ["CreateSession"]


# Parts and callables


async def test_a_partial_run_names_its_handle(there: Scripted, graph: ax.Graph):
    async with ax.Session(TARGET, graph=graph) as session:
        handle = await session.partial_run_setup(["y:0", "train"], ["x:0"])
        setup = there.last
        value = await session.partial_run(handle, ["y:0", "train"], {"x:0": 2})

    assert (list(setup.feed), list(setup.fetch), list(setup.target)) == (["x:0"], ["y:0"], ["train"])
    assert setup.request_id
    assert value == [1, None]
    step = there.calls[-2][1]
    assert (step.partial_run_handle, list(step.fetch), list(step.target)) == ("0", ["y:0"], ["train"])
    assert there.fed[-2][0].dtype == np.float32


async def test_a_callable_s_values_are_counted_here_and_its_fetches_asked_for_once(
    there: Scripted, graph: ax.Graph
):
    options = ax.CallableOptions(feed=["x"], fetch=["y", "z:0", "y:0"], target=["train"])
    async with ax.Session(TARGET, graph=graph) as session:
        function = await session._make_callable_from_options(options)
        made = there.last
        for values in ((), (1.0, 2.0)):
            before = len(there.calls)
            with pytest.raises(
                errors.InvalidArgumentError, match=f"Expected 1 feed tensors, but got {len(values)}"
            ):
                await function(*values)
            assert len(there.calls) == before
        assert await function(1) == [3, 4, 3]
        await function.release()

    assert (list(made.options.feed), list(made.options.fetch)) == (["x:0"], ["y:0", "z:0"])
    assert [name for name in there.names if "Callable" in name] == [
        "MakeCallable",
        "RunCallable",
        "ReleaseCallable",
    ]
    assert {each.handle for name, each, *_ in there.calls if name in ("RunCallable", "ReleaseCallable")} == {
        7
    }


@pytest.mark.parametrize(
    "field",
    [
        {"tensor_connection": [{"from_tensor": "x:0", "to_tensor": "y:0"}]},
        {"feed_devices": {"x:0": "/cpu:0"}},
        {"fetch_devices": {"y:0": "/cpu:0"}},
    ],
)
async def test_what_servers_ignore_is_refused(there: Scripted, graph: ax.Graph, field: Any):
    async with ax.Session(TARGET, graph=graph) as session:
        with pytest.raises(errors.UnimplementedError, match=next(iter(field))):
            await session._make_callable_from_options(
                ax.CallableOptions(feed=["x:0"], fetch=["y:0"], **field)
            )

    assert there.calls == []


async def test_reset_needs_no_session(there: Scripted):
    await ax.Session.reset(TARGET, ["a", "b"], config=ax.ConfigProto(device_filters=["/job:ps"]))

    [(name, message, _, waits)] = there.calls
    assert (name, list(message.container), list(message.device_filters), waits) == (
        "Reset",
        ["a", "b"],
        ["/job:ps"],
        True,
    )
    assert there.is_closed


async def test_a_handle_is_read_by_a_step_and_not_fed_for_its_tensor():
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [2])
        kept, y = ax.get_session_handle(x * 2.0), x + 1.0
    async with (
        ax.train.Server.create_local_server() as server,
        ax.Session(server.target, graph=graph) as session,
    ):
        handle = await session.run(kept, {x: [1.0, 2.0]})
        assert (await handle.eval()).tolist() == [2.0, 4.0]
        with pytest.raises(errors.UnimplementedError, match="is on the server"):
            await session.run(y, {x: handle})
        await handle.delete()
        with pytest.raises(errors.InvalidArgumentError):
            await handle.eval()
