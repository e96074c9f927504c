"""The rules by which items become ready, one by one: dead values, merges, frames and their iterations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.execution.propagator import DEAD
from tests.execution.schedules import Schedule, partition_of
from tests.tiers import Ops, constant, feed, graph, op


@pytest.fixture(autouse=True)
def slow(ops: Ops) -> None:
    """An op that is an item of its own and ends when a test ends it."""
    ops.add("Slow(x:T) -> (y:T) [T:type] {stateful}", lambda step, x: x, asynchronous=True)


def numbers(schedule: Schedule, name: str) -> list[int]:
    """The iterations in which a node is running, and alive."""
    return sorted(each.iteration.number for each in schedule.begun(name) if not each.dead)


# Switch and Merge


@pytest.mark.behaviour(68, 69)
@pytest.mark.parametrize("taken", [0, 1])
def test_what_follows_an_output_that_is_not_taken_is_dead_by_data_and_by_control(taken: int):
    with graph() as g:
        x, y = feed([], "int32"), feed([], "int32")
        switch = g.create_op("Switch", [x, op("Greater", y, 0)])
        followers = [op("Neg", output) for output in switch.outputs]
        waiting = []
        for follower in followers:
            with g.control_dependencies([follower]):
                waiting.append(op("Neg", y))
    schedule = Schedule(partition_of([*followers, *waiting], [x, y]), [5, taken])
    schedule.run_all_but()

    expected: list[Any] = [DEAD] * 4
    expected[taken], expected[2 + taken] = -5, -taken
    assert schedule.fetched() == expected
    schedule.check_end()


@pytest.mark.behaviour(69)
def test_who_waits_for_a_switch_runs_whichever_way_it_goes():
    with graph() as g:
        x, y = feed([], "int32"), feed([], "int32")
        switch = g.create_op("Switch", [x, op("Greater", y, 0)])
        with g.control_dependencies([switch]):
            after = op("Neg", y)
    partition = partition_of([after], [x, y])

    for pred in (0, 1):
        schedule = Schedule(partition, [5, pred])
        schedule.run_all_but()
        assert schedule.fetched() == [-pred]


@pytest.mark.behaviour(69)
def test_a_node_waits_for_all_it_depends_on_even_if_some_of_it_is_dead():
    with graph() as g:
        x, y = feed([], "int32"), feed([], "int32")
        dead = g.create_op("Switch", [x, op("Greater", y, 0)]).outputs[0]
        late = op("Slow", x, name="late")
        both = op("Add", dead, late, name="both")
    schedule = Schedule(partition_of([both], [x, y]), [5, 1])

    schedule.run_all_but("late")
    assert schedule.fetched() == [None]

    schedule.run_all_but()
    assert schedule.fetched() == [DEAD]
    schedule.check_end()


def merge_of_two() -> tuple[Any, list[Any]]:
    """A Merge of `first` and `second`, that come from different Switches; what it puts out, and the feeds."""
    with graph() as g:
        feeds = [feed([], "int32") for _ in range(4)]
        x, y, p, q = feeds
        first = g.create_op("Switch", [x, op("Greater", p, 0)]).outputs[1]
        second = g.create_op("Switch", [y, op("Greater", q, 0)]).outputs[1]
        inputs = [op("Neg", first, name="first"), op("Neg", second, name="second")]
        return g.create_op("Merge", inputs, name="merge").outputs, feeds


@pytest.mark.behaviour(70)
@pytest.mark.parametrize("held", [0, 1])
def test_a_merge_goes_on_with_the_first_live_input_and_says_which_it_was(held: int):
    outputs, feeds = merge_of_two()
    schedule = Schedule(partition_of(outputs, feeds), [5, 6, 1, 1])

    schedule.run_all_but(("first", "second")[held])
    early = schedule.fetched()
    schedule.run_all_but()

    assert early == [(-6, -5)[held], 1 - held]
    assert schedule.fetched() == early
    schedule.check_end()


@pytest.mark.behaviour(70)
def test_a_merge_waits_for_a_live_input_while_one_may_still_come():
    outputs, feeds = merge_of_two()
    schedule = Schedule(partition_of(outputs, feeds), [5, 6, 0, 1])

    schedule.run_all_but("second")
    assert schedule.fetched() == [None, None]

    schedule.run_all_but()
    assert schedule.fetched() == [-6, 1]


@pytest.mark.behaviour(70)
def test_a_merge_is_dead_when_all_its_inputs_are():
    outputs, feeds = merge_of_two()
    schedule = Schedule(partition_of(outputs, feeds), [5, 6, 0, 0])
    schedule.run_all_but()

    assert schedule.fetched() == [DEAD, DEAD]
    schedule.check_end()


@pytest.mark.behaviour(70)
def test_a_merge_waits_for_its_control_edges_and_dead_ones_do_not_kill_it():
    with graph() as g:
        x, p = feed([], "int32"), feed([], "int32")
        switch = g.create_op("Switch", [x, op("Greater", p, 0)])
        untaken = op("Neg", switch.outputs[0], name="untaken")
        with g.control_dependencies([untaken]):
            merge = g.create_op("Merge", [switch.outputs[0], switch.outputs[1]])
    schedule = Schedule(partition_of(merge.outputs, [x, p]), [5, 1])

    schedule.run_all_but("untaken")
    assert schedule.fetched() == [None, None]

    schedule.run_all_but()
    assert schedule.fetched() == [5, 1]
    schedule.check_end()


def test_a_merge_of_constants_runs_at_once():
    with graph() as g:
        merge = g.create_op("Merge", [constant(2, "int32"), constant(3, "int32")])
    schedule = Schedule(partition_of(merge.outputs), [])
    schedule.run_all_but()

    assert schedule.fetched() == [2, 0]


def test_a_control_trigger_runs_although_what_it_waits_for_is_dead():
    with graph() as g:
        x, p = feed([], "int32"), feed([], "int32")
        dead = op("Neg", g.create_op("Switch", [x, op("Greater", p, 0)]).outputs[0], name="dead")
        with g.control_dependencies([dead]):
            trigger = op("ControlTrigger")
        with g.control_dependencies([trigger]):
            after = op("Neg", x)
    schedule = Schedule(partition_of([after], [x, p]), [5, 1])

    schedule.run_all_but("dead")
    assert schedule.fetched() == [None]

    schedule.run_all_but()
    assert schedule.fetched() == [-5]


# Frames


def loop(parallel: int, late: bool = False) -> tuple[Any, list[Any]]:
    """x grows by y, three times; `while/work` takes long, and so does `late`, which computes y from a feed."""
    with graph():
        x, y = feed([], "int32"), feed([], "int32")
        step = op("Slow", y, name="late") if late else y

        def body(i: Any, value: Any) -> Any:
            return i + 1, value + step + 0 * op("Slow", i, name="work")

        result = ax.while_loop(
            lambda i, value: i < 3, body, [ax.constant(0), x], parallel_iterations=parallel, name="while"
        )
        return result[1], [x, y]


@pytest.mark.behaviour(71)
@pytest.mark.parametrize("parallel", [1, 2, 3, 10])
def test_as_many_iterations_run_at_a_time_as_the_loop_allows(parallel: int):
    result, feeds = loop(parallel)
    schedule = Schedule(partition_of([result], feeds), [5, 2])

    schedule.run_all_but("while/work")
    assert numbers(schedule, "while/work") == list(range(min(parallel, 3)))

    schedule.run_all_but()
    assert schedule.fetched() == [11]
    schedule.check_end()


@pytest.mark.behaviour(71)
def test_an_iteration_is_forgotten_when_it_and_all_before_it_are_done():
    result, feeds = loop(10)
    schedule = Schedule(partition_of([result], feeds), [5, 2])
    schedule.run_all_but("while/work")
    (frame,) = schedule.propagator.outermost.children.values()
    alive = [list(frame.iterations)]

    for number in (1, 0, 2):
        schedule.end(schedule.place("while/work", number))
        schedule.run_all_but("while/work")
        alive.append(list(frame.iterations))

    assert alive == [[0, 1, 2, 3], [0, 1, 2, 3], [2, 3], [3]]
    schedule.run_all_but()
    schedule.check_end()


@pytest.mark.behaviour(72)
def test_what_is_the_same_in_each_iteration_reaches_those_made_before_and_after_it_came():
    result, feeds = loop(2, late=True)
    schedule = Schedule(partition_of([result], feeds), [5, 2])

    schedule.run_all_but("late")
    (frame,) = schedule.propagator.outermost.children.values()
    assert list(frame.iterations) == [0, 1]

    schedule.run_all_but()
    assert schedule.fetched() == [11]
    schedule.check_end()


@pytest.mark.behaviour(73)
def test_an_exit_that_was_never_alive_is_dead_outside_once_the_loop_is_over():
    with graph() as g:
        x, p = feed([], "int32"), feed([], "int32")
        exits = []

        def body(i: Any) -> Any:
            taken = g.create_op("Switch", [i, op("Greater", p, 0)]).outputs[1]
            exits.append(op("Exit", taken, name="exit"))
            return op("Slow", i, name="work") + 1

        result = ax.while_loop(lambda i: i < 2, body, [x], name="while")
        after = op("Neg", exits[0], name="after")
    partition = partition_of([result, after], [x, p])

    schedule = Schedule(partition, [0, 0])
    for number in range(3):
        schedule.run_all_but("while/work")
        assert not schedule.runs[partition.producers[partition.fetches[1]]]
        schedule.end(schedule.place("while/work", number))
    schedule.run_all_but()

    assert schedule.fetched() == [2, DEAD]
    schedule.check_end()


@pytest.mark.behaviour(73)
def test_an_exit_is_alive_outside_while_its_loop_still_runs():
    with graph():
        x = feed([], "int32")

        def body(i: Any, value: Any) -> Any:
            return i + 1, op("Slow", value, name="work")

        first, second = ax.while_loop(lambda i, value: i < 1, body, [ax.constant(0), x], name="while")
        after = op("Neg", first)
    schedule = Schedule(partition_of([after, second], [x]), [5])

    schedule.run_all_but("while/work")
    assert schedule.fetched() == [-1, None]

    schedule.run_all_but()
    assert schedule.fetched() == [-1, 5]
    schedule.check_end()


@pytest.mark.parametrize("taken", [0, 1])
def test_a_loop_on_a_branch_that_is_not_taken_ends_without_an_iteration_of_its_body(taken: int):
    with graph():
        x, p = feed([], "int32"), feed([], "int32")

        def looped() -> Any:
            return ax.while_loop(lambda i: i < 3, lambda i: op("Maximum", i + 1, x, name="body"), [x])

        result = ax.cond(op("Greater", p, 0), looped, lambda: op("Neg", x))
    schedule = Schedule(partition_of([result], [x, p]), [1, taken])
    schedule.run_all_but()

    assert schedule.fetched() == [3 if taken else -1]
    schedule.check_end()


def test_what_has_come_for_the_next_iteration_stays_when_the_loop_ends_there():
    """A NextIteration that is dead puts its output nowhere: it stands where the one before has put its own."""
    with graph():
        x = feed([], "int32")

        def body(i: Any, value: Any) -> Any:
            return i + 1, op("Slow", x, name="work")

        results = ax.while_loop(lambda i, value: i < 1, body, [ax.constant(0), x], name="while")
    schedule = Schedule(partition_of([results[1]], [x]), [5])
    schedule.run_all_but("while/work")
    schedule.end(schedule.place("while/work"))

    schedule.run_all_but()

    np.testing.assert_array_equal(schedule.fetched(), [5])


def test_the_name_of_a_frame_may_be_any_bytes():
    with graph() as g:
        x = feed([], "int32")
        result = ax.while_loop(lambda i: i < 3, lambda i: op("Slow", i + 1), [x])
        for node in g.get_operations():
            if node.type == "Enter":
                node.set_attr("frame_name", b"\xff")
    schedule = Schedule(partition_of([result], [x]), [0])

    schedule.run_all_but()

    assert schedule.fetched() == [3]
