"""Traced runs: every node of a program has a record, with times in order, by the thread it ran on."""

from __future__ import annotations

import threading
from time import perf_counter_ns
from typing import Any

import numpy as np
import pytest

from aioexec.devices.jit.walker import INLINE_FUEL, Outcome
from aioexec.devices.threads.workers import Workers
from aioexec.errors import InvalidArgumentError
from aioexec.execution.programs.program import Program
from aioexec.execution.programs.trace import Traced, note_known, note_node, traced
from aioexec.execution.programs.walk import Walk
from aioexec.observability.step_stats import StepStatsCollector
from aioexec.planning.subgraph import Node
from tests.tiers import (
    Ops,
    constant,
    feed,
    graph,
    op,
    ops as ops,  # a fixture
    programs,
    read,
    resource,
    session_on,
)

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


async def program_of(fetches: list[Any], feeds: dict[Any, Any]) -> Program:
    """The program of a signature, as a session makes it."""
    async with session_on(fetches[0].graph, "eager") as session:
        await session.run(fetches, feeds)
        return programs(session)[-1]


def walked(run: Walk) -> int:
    """Walk inline to the end, as an item runner does."""
    outcome = run.walk(run.start(run.walker.start_inline), run.walker.resume_inline)
    while outcome == Outcome.PAUSED:
        outcome = run.walk(run.walker.resume_inline(run.frame.words), run.walker.resume_inline)
    run.give_back(outcome == Outcome.DONE)
    return outcome


def records(run: Walk) -> list[Traced]:
    assert run.trace is not None
    return list(traced(run.trace, run.program.variant))


def names(found: list[Traced]) -> list[str]:
    return [record.instruction.node.name for record in found]


def assert_in_order(found: list[Traced], began: int, ended: int) -> None:
    now = began
    for record in found:
        assert now <= record.start <= record.end, names(found)
        now = record.end
    assert now <= ended


async def test_each_row_is_stamped_when_it_runs_by_the_clock_of_perf_counter():
    with graph():
        x = feed([64, 64], name="x")
        a = op("Mul", x, x, name="a")
        y = op("Exp", a, name="y")
    array = np.zeros((64, 64), np.float32)
    program = await program_of([y], {x: array})

    began = perf_counter_ns()
    run = Walk(program, [array], in_place=True, traced=True)
    assert walked(run) == Outcome.DONE
    ended = perf_counter_ns()

    found = records(run)
    assert names(found) == ["a", "y"]
    assert_in_order(found, began, ended)
    assert all(record.end > record.start for record in found), "nothing that computes takes no time"
    assert {record.thread_id for record in found} == {threading.get_native_id()}
    np.testing.assert_array_equal(run.outputs[0], np.ones((64, 64)))


@pytest.mark.behaviour(77)
async def test_nodes_without_rows_are_told_at_their_place_without_length():
    """A reshape is an alias, a shape follows from the feed: neither has a row, both ran."""
    with graph():
        x = feed([None, 2], name="x")
        first = op("Neg", x, name="first")
        shape = op("Shape", first, name="shape")
        flat = op("Reshape", first, constant([-1], "int32"), name="flat")
        last = op("Neg", flat, name="last")
    array = np.ones((3, 2), np.float32)
    program = await program_of([last, shape], {x: array})
    run = Walk(program, [array], in_place=True, traced=True)

    walked(run)

    found = records(run)
    assert sorted(names(found)) == ["first", "flat", "last", "shape"]
    assert_in_order(found, 0, perf_counter_ns())
    times = {record.instruction.node.name: record for record in found}
    assert times["flat"].start == times["flat"].end >= times["first"].end
    assert times["last"].start >= times["flat"].end


async def test_breaks_are_stamped_too(ops: Ops):
    seen: list[int] = []

    def watch(x: Any) -> Any:
        seen.append(perf_counter_ns())
        return x + 1

    ops.broken("TestWatch", watch)
    with graph():
        x = feed([2], name="x")
        y = op("Neg", op("TestWatch", op("Neg", x, name="before"), name="break"), name="after")
    array = np.ones(2, np.float32)
    program = await program_of([y], {x: array})
    run = Walk(program, [array], in_place=True, traced=True)

    walked(run)

    found = records(run)
    assert names(found) == ["before", "break", "after"]
    assert_in_order(found, 0, perf_counter_ns())
    assert found[1].start <= seen[-1] <= found[1].end


async def test_a_run_that_fails_is_told_up_to_the_node_that_failed(ops: Ops):
    def refuse(x: Any) -> Any:
        if x[0] > 0:
            raise InvalidArgumentError("no")
        return x

    ops.broken("TestRefuse", refuse)
    with graph():
        x = feed([2], name="x")
        flat = op("Reshape", x, constant([1, 2], "int32"), name="flat")
        back = op("Reshape", op("Abs", flat, name="abs"), constant([2], "int32"), name="back")
        y = op("Neg", op("TestRefuse", back, name="refuse"), name="never")
    program = await program_of([y], {x: np.zeros(2, np.float32)})
    run = Walk(program, [np.ones(2, np.float32)], in_place=True, traced=True)

    with pytest.raises(InvalidArgumentError, match="refuse"):
        walked(run)

    assert names(records(run)) == ["flat", "abs", "back", "refuse"]
    run.give_back(done=False)


async def test_a_run_cancelled_before_it_starts_has_no_records():
    with graph():
        x = feed([2], name="x")
        y = op("Neg", x, name="y")
    array = np.ones(2, np.float32)
    program = await program_of([y], {x: array})
    run = Walk(program, [array], in_place=True, traced=True)
    run.cancel()

    assert walked(run) == Outcome.CANCELLED

    assert records(run) == []


async def test_what_moved_to_a_worker_is_told_by_its_thread():
    with graph():
        x = feed([2], name="x")
        y = op("Exp", op("Neg", x, name="first"), name="second")
    array = np.ones(2, np.float32)
    program = await program_of([y], {x: array})
    run = Walk(program, [array], in_place=True, traced=True)
    run.frame.words[INLINE_FUEL] = 0  # enough for one row
    outcome = run.start(run.walker.start_inline)
    assert outcome == Outcome.PAUSED
    workers = Workers(1, "test-worker")
    threads: list[int] = []

    def go_on() -> int:
        threads.append(threading.get_native_id())
        return run.walk_released(outcome, workers)

    assert await workers.submit(go_on).result() == Outcome.DONE
    await workers.close()
    run.give_back(done=True)

    assert [record.thread_id for record in records(run)] == [threading.get_native_id(), threads[0]]


async def test_a_run_that_is_not_traced_has_no_trace():
    with graph():
        x = feed([2], name="x")
        y = op("Neg", x, name="y")
    array = np.ones(2, np.float32)
    program = await program_of([y], {x: array})

    watched = Walk(program, [array], in_place=True, traced=True)
    walked(watched)
    stamps = records(watched)
    plain = Walk(program, [array], in_place=True)
    assert plain.frame is watched.frame, "the frame is used again"
    walked(plain)

    assert plain.trace is None
    assert records(watched) == stamps


@pytest.mark.behaviour(77)
async def test_records_say_what_the_nodes_took_and_put_out():
    with graph():
        x, v = feed([None], name="x"), resource([3], name="v")
        init = op("AssignVariableOp", v, constant([1.0, 2.0, 3.0]))
        value = read(v)
        y = op("Add", x, value, name="y")
        shape = op("Shape", y, name="shape")
    async with session_on(y.graph, "eager") as session:
        await session.run(init)
        await session.run([y, shape], {x: [1.0, 2.0, 3.0]})
        program = programs(session)[-1]
        run = Walk(program, [np.ones(3, np.float32)], in_place=False, traced=True)
        walked(run)
    collector = StepStatsCollector()

    run.give_back(True, collector)

    (device,) = collector.step_stats().dev_stats
    assert device.device == program.device
    nodes = {node.node_name: node for node in device.node_stats}
    assert nodes["y"].timeline_label == f"y = Add(x, {value.op.name})"
    (output,) = nodes["y"].output
    assert output.tensor_description.allocation_description.requested_bytes == 12
    assert {value.op.name, "y", "shape"} == set(nodes)
    for node in nodes.values():
        assert node.scheduled_nanos <= node.all_start_nanos
        assert 0 <= node.op_start_rel_nanos <= node.op_end_rel_nanos <= node.all_end_rel_nanos


def test_a_node_run_by_itself_is_told_with_what_it_put_out():
    with graph():
        split = op("Split", constant(0, "int32"), feed([4]), num_split=2, name="split")
    node = Node(split[0].op, inputs=[(Node(x.op), 0) for x in split[0].op.inputs])
    node.device = "/device:CPU:1"
    collector = StepStatsCollector()

    note_node(collector, node, CPU, 1, 2, 3, [np.zeros(2, np.float32), None])

    (record,) = collector.records
    assert (record.device, record.thread_id) == ("/device:CPU:1", threading.get_native_id())
    assert record.outputs == ((0, "float32", (2,), 8),)
    assert (record.scheduled, record.start, record.end) == (1, 2, 3)


def test_constants_and_variables_belong_to_the_step():
    with graph():
        known, variable, fed = constant([1.0, 2.0]), resource([3], name="v"), feed([2])
    nodes = [
        Node(known.op, values=(np.array([1, 2], np.float32),)),
        Node(variable.op),
        Node(fed.op, feed=fed),
    ]
    collector = StepStatsCollector()

    note_known(collector, nodes, CPU, 5)

    assert [(record.name, record.start, record.nbytes) for record in collector.records] == [
        (known.op.name, 5, 8),
        ("v", 5, 0),
    ]
