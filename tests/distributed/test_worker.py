"""A worker's service to its master and its peers: parts of steps, requested values, derived errors."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.distributed.transport.status import is_derived
from aioexec.distributed.transport.transport import Payload
from aioexec.errors import (
    AbortedError,
    CancelledError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
    UnavailableError,
    UnimplementedError,
)
from aioexec.execution.rendezvous import create_key
from aioexec.graph.apply import apply_no_output_op, apply_tuple_op
from aioexec.testing.tasks import all_tasks_blocked
from tests.distributed.toy_workers import SESSION, ToyWorkers, device, two as two, waiter


async def producer(two: ToyWorkers, value: Any = 3.0) -> str:
    """A graph of worker 0 that sends a value to worker 1."""
    return await two.register(0, lambda: two.send(ax.constant(value) * 1.0, 0, 1, "a"))


async def consumer(two: ToyWorkers) -> str:
    """A graph of worker 1 that doubles what worker 0 sends, and sends it on."""
    return await two.register(1, lambda: two.send(two.recv(ax.float32, 0, 1, "a") * 2.0, 1, 1, "b"))


@pytest.mark.parametrize("first", [0, 1])
async def test_parts_of_a_step_may_begin_in_any_order(two, first):
    graphs = [await producer(two), await consumer(two)]
    step, key = two.new_step(), two.key(1, 1, "b")

    async def part(index: int) -> Payload:
        return await two.run(index, graphs[index], step, recv_key=[key] if index else [])

    tasks = {index: asyncio.create_task(part(index)) for index in (first, 1 - first)}

    reply = await tasks[1]
    assert [each.name for each in reply.message.recv] == [key]
    np.testing.assert_array_equal(reply.tensors, [6.0])
    await tasks[0]


async def test_values_come_with_the_call_and_go_with_its_reply(two):
    graph = await two.register(0, lambda: two.send(two.recv(ax.float32, 0, 0, "fed") + 1.0, 0, 0, "got"))
    fed, got = two.key(0, 0, "fed"), two.key(0, 0, "got")

    reply = await two.run(
        0, graph, two.new_step(), tensors=[np.float32(4.0)], send=[{"name": fed}], recv_key=[got]
    )

    np.testing.assert_array_equal(reply.tensors, [5.0])


async def test_a_value_may_be_asked_for_before_the_step_is_known(two):
    step = two.new_step()
    asked = asyncio.create_task(two.call(0, "RecvTensor", step_id=step, rendezvous_key=two.key(0, 1, "a")))
    await all_tasks_blocked()
    assert step in two.workers[0].steps

    await two.run(0, await producer(two), step)

    np.testing.assert_array_equal((await asked).tensors, [3.0])


async def test_dead_values_are_marked_as_dead(two):
    def build() -> Any:
        dead = apply_tuple_op("Switch", ax.constant(1.0), ax.constant(False))[1]
        return two.send(dead, 0, 1, "a")

    step = two.new_step()
    await two.run(0, await two.register(0, build), step)

    reply = await two.call(0, "RecvTensor", step_id=step, rendezvous_key=two.key(0, 1, "a"))

    assert reply.message.is_dead


# Errors


async def test_an_error_fails_the_step_and_is_derived_in_replies_to_requests_for_its_values(two):
    def build() -> Any:
        with ax.control_dependencies([ax.Assert(ax.constant(False) & True, ["no more"])]):
            return two.send(ax.constant(1.0) * 1.0, 0, 1, "a")

    graph, step, key = await two.register(0, build), two.new_step(), two.key(0, 1, "a")
    waiting = asyncio.create_task(two.call(0, "RecvTensor", step_id=step, rendezvous_key=key))
    await all_tasks_blocked()

    with pytest.raises(InvalidArgumentError, match="no more") as root:
        await two.run(0, graph, step)
    assert not is_derived(root.value)

    for asking in (waiting, two.call(0, "RecvTensor", step_id=step, rendezvous_key=key)):
        with pytest.raises(InvalidArgumentError, match="no more") as followed:
            await asking
        assert is_derived(followed.value)


async def test_a_part_that_misses_a_value_fails_with_a_derived_error(two):
    def build() -> Any:
        queue = ax.FIFOQueue(1, [ax.float32], shapes=[[]])
        with ax.control_dependencies([queue.close()]):
            return two.send(queue.dequeue(), 0, 1, "a")

    graphs = [await two.register(0, build), await consumer(two)]
    step = two.new_step()
    parts = [asyncio.create_task(two.run(index, graphs[index], step)) for index in (1, 0)]

    errors = await asyncio.gather(*parts, return_exceptions=True)

    assert all(isinstance(error, OutOfRangeError) for error in errors)
    assert [is_derived(error) for error in errors] == [True, False]


async def test_errors_may_travel_in_the_body(two):
    graph = await two.register(0, lambda: ax.Assert(ax.constant(False) & True, ["no more"]))

    reply = await two.run(0, graph, two.new_step(), store_errors_in_response_body=True)

    assert reply.message.status_code == InvalidArgumentError.code
    assert "no more" in reply.message.status_error_message
    assert "{{node Assert" in reply.message.status_error_message


async def test_a_peer_that_is_away_fails_the_part_that_needs_it(two):
    graph, step = await consumer(two), two.new_step()
    del two.transport.handlers["toy:0"]

    with pytest.raises(UnavailableError, match="toy:0"):
        await two.run(1, graph, step)


async def test_a_cancelled_call_ends_its_step_and_leaves_its_queue_alone(two):
    waits, puts = await waiter(two)
    step = two.new_step()
    running = asyncio.create_task(two.run(1, waits, step))
    asked = asyncio.create_task(
        two.call(1, "RecvTensor", step_id=step, rendezvous_key=two.key(1, 0, "taken"))
    )
    await all_tasks_blocked()

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    with pytest.raises(CancelledError):
        await asked

    await two.run(1, puts, two.new_step())
    await two.run(1, waits, two.new_step())


@pytest.mark.parametrize("turns", range(8))
async def test_a_call_can_be_cancelled_at_any_time(two, turns):
    graphs = [await producer(two), await consumer(two)]
    step = two.new_step()
    parts = [asyncio.create_task(two.run(index, graphs[index], step)) for index in (1, 0)]
    for _ in range(turns):
        await asyncio.sleep(0)

    for part in parts:
        part.cancel()
    await asyncio.gather(*parts, return_exceptions=True)
    for index in (0, 1):
        await two.call(index, "CleanupGraph", step_id=step)

    assert [len(each.steps) for each in two.workers] == [0, 0]
    again = two.new_step()
    replies = await asyncio.gather(*(two.run(index, graphs[index], again) for index in (1, 0)))
    assert len(replies) == 2


async def test_a_cleanup_ends_what_still_runs_and_is_answered_when_that_is_quiet(two):
    waits, puts = await waiter(two)
    step = two.new_step()
    running = asyncio.create_task(two.run(1, waits, step))
    await all_tasks_blocked()

    await two.call(1, "CleanupGraph", step_id=step)

    assert len(two.workers[1].steps) == 0
    with pytest.raises(AbortedError, match="has ended"):
        await running
    await two.run(1, puts, two.new_step())
    await two.run(1, waits, two.new_step())


async def test_a_value_of_a_step_that_has_ended_is_refused_at_once(two):
    step = two.new_step()
    await two.run(0, await producer(two), step)
    await two.call(0, "CleanupGraph", step_id=step)

    with pytest.raises(AbortedError, match="has ended") as refused:
        await two.call(0, "RecvTensor", step_id=step, rendezvous_key=two.key(0, 1, "a"))

    assert is_derived(refused.value)


# Errors


BAD_KEYS = [
    ("", InvalidArgumentError, "Invalid rendezvous key"),
    ("a;b;c", InvalidArgumentError, "Invalid rendezvous key"),
    (
        create_key("/job:worker/replica:0/task:0/device:GPU:7", 1, device(1), "a"),
        InvalidArgumentError,
        "GPU:7",
    ),
    (create_key(device(0), 1, device(1), "a"), AbortedError, "different device incarnation"),
]


@pytest.mark.parametrize(("key", "kind", "message"), BAD_KEYS)
async def test_keys_that_mean_nothing_here_are_refused(two, key, kind, message):
    with pytest.raises(kind, match=message):
        await two.call(0, "RecvTensor", step_id=two.new_step(), rendezvous_key=key)


async def test_a_part_neither_takes_nor_gives_values_of_other_tasks(two):
    graph = await producer(two)

    for fields in ({"send": [{"name": two.key(1, 0, "x")}]}, {"recv_key": [two.key(1, 0, "x")]}):
        with pytest.raises(InvalidArgumentError, match=r"Invalid rendezvous key \(src\)"):
            await two.run(
                0, graph, two.new_step(), tensors=[np.float32(1)] if "send" in fields else [], **fields
            )


async def test_what_nothing_sends_is_not_waited_for(two):
    with pytest.raises(InvalidArgumentError, match="no node of the graph sends it"):
        await two.run(0, await producer(two), two.new_step(), recv_key=[two.key(0, 0, "never")])


async def test_a_request_is_answered_once(two):
    graph, step = await producer(two), two.new_step()
    await two.run(0, graph, step, request_id=77)

    for again in (
        two.run(0, graph, step, request_id=77),
        two.call(0, "RecvTensor", step_id=step, rendezvous_key=two.key(0, 1, "a"), request_id=77),
    ):
        with pytest.raises(AbortedError, match="received twice"):
            await again


async def test_unknown_handles_are_refused(two):
    graph = await producer(two)

    with pytest.raises(AbortedError, match="Graph handle is not found: dead"):
        await two.run(0, "dead", two.new_step())
    with pytest.raises(AbortedError, match="Graph handle is not found: dead"):
        await two.call(0, "DeregisterGraph", session_handle=SESSION, graph_handle="dead")
    await two.call(
        0, "DeregisterGraph", session_handle=SESSION, create_worker_session_called=True, graph_handle=graph
    )
    with pytest.raises(AbortedError, match=f"Graph handle is not found: {graph}"):
        await two.run(0, graph, two.new_step())


async def test_graphs_that_make_no_sense_are_refused(two):
    graph_def = ax.GraphDef()
    graph_def.node.add(name="x", op="NoSuchOp")
    with pytest.raises(NotFoundError, match="NoSuchOp"):
        await two.call(
            0, "RegisterGraph", session_handle=SESSION, create_worker_session_called=True, graph_def=graph_def
        )
    graph_def.node[0].op = "Neg"
    with pytest.raises(InvalidArgumentError):
        await two.call(
            0, "RegisterGraph", session_handle=SESSION, create_worker_session_called=True, graph_def=graph_def
        )


async def test_tracing_is_not_implemented_as_in_tensorflow(two):
    with pytest.raises(UnimplementedError):
        await two.call(0, "Tracing")


# Status and logging


async def test_devices_are_listed_with_their_incarnations(two):
    reply = await two.call(1, "GetStatus")

    (attributes,) = reply.message.device_attributes
    assert (attributes.name, attributes.device_type, attributes.incarnation) == (
        device(1),
        "CPU",
        two.incarnation(1),
    )


async def test_a_timeline_and_the_graphs_that_ran_come_with_the_reply_if_asked_for(two):
    graph = await two.register(
        0, lambda: two.send(ax.negative(ax.random.uniform([2]), name="less"), 0, 1, "a")
    )

    reply = await two.run(
        0, graph, two.new_step(), exec_opts={"record_timeline": True, "record_partition_graphs": True}
    )

    (of_device,) = reply.message.step_stats.dev_stats
    assert "less" in {node.node_name for node in of_device.node_stats}
    (ran,) = reply.message.partition_graph
    assert "less" in {node.name for node in ran.node}


async def test_received_values_are_reported_while_logging_is_on(two):
    graphs = [await producer(two), await consumer(two)]
    steps = [two.new_step() for _ in range(3)]
    for step, switch in zip(
        steps, ({"enable_rpc_logging": True}, {}, {"disable_rpc_logging": True}), strict=True
    ):
        await two.call(1, "Logging", **switch)
        await asyncio.gather(*(two.run(index, graphs[index], step) for index in (1, 0)))

    logged = (await two.call(1, "Logging", fetch_step_id=steps)).message.step

    assert [each.step_id for each in logged] == steps[:2]
    (of_device,) = logged[0].step_stats.dev_stats
    assert of_device.device == device(1)
    assert [node.node_name for node in of_device.node_stats] == ["RecvTensor"]
    assert not (await two.call(1, "Logging", clear=True, fetch_step_id=steps)).message.step


async def test_nothing_is_left_of_a_step_that_could_have_been_given_up(two, tmp_path):
    def saved() -> Any:
        prefix = ax.constant(str(tmp_path / "saved"))
        return apply_no_output_op("SaveV2", prefix, ax.constant(["a"]), ax.constant([""]), [ax.constant(1.0)])

    await two.run(0, await two.register(0, saved), two.new_step())

    (session,) = two.workers[0]._sessions.values()
    assert not session.engine.cancellation_manager._children
    session.engine.cancellation_manager.check_invariants()
