"""Tasks that fill queues: until the end of input, a stop request, or an error; none is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import (
    CancelledError,
    GraphTypeError,
    GraphValueError,
    InvalidArgumentError,
    OutOfRangeError,
    UnknownNameError,
)
from aioexec.formats.protos import QueueRunnerDef
from aioexec.testing import all_tasks_blocked
from aioexec.train import (
    Coordinator,
    QueueRunner,
    add_queue_runner,
    limit_epochs,
    start_queue_runners,
)


@pytest.fixture(autouse=True)
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as made:
        yield made


def numbers(capacity: int = 10, name: str = "numbers") -> ax.FIFOQueue:
    return ax.FIFOQueue(capacity, ax.int32, shapes=[[]], name=name)


def limited(queue: ax.FIFOQueue, count: int, value: int = 7) -> Any:
    """An enqueue that ends after so many runs."""
    return queue.enqueue(limit_epochs(ax.constant(value), count))


def failing(queue: ax.FIFOQueue) -> Any:
    """An enqueue that fails."""
    return queue.enqueue(ax.cast(ax.strings.to_number(ax.constant("no number")), ax.int32))


async def initialized(session: ax.Session) -> None:
    await session.run(ax.local_variables_initializer())


async def drained(session: ax.Session, dequeue: Any) -> list[int]:
    """The elements of the queue until its end."""
    values = []
    while True:
        try:
            values.append(int(await session.run(dequeue)))
        except OutOfRangeError:
            return values


# Ends


async def test_a_queue_is_filled_and_closed_when_all_its_enqueues_have_come_to_their_end():
    queue = numbers()
    runner = QueueRunner(queue, [limited(queue, 3), limited(queue, 5, 8)])
    dequeue = queue.dequeue()
    async with ax.Session() as session:
        await initialized(session)
        threads = runner.create_threads(session, start=True)

        assert sorted(await drained(session, dequeue)) == [7] * 3 + [8] * 5

        for thread in threads:
            await thread.join()
    assert runner.exceptions_raised == []


async def test_enqueues_that_wait_for_room_are_kept_when_the_input_ends():
    queue = numbers(capacity=1)
    runner = QueueRunner(queue, [limited(queue, 2), limited(queue, 2)])
    dequeue = queue.dequeue()
    async with ax.Session() as session:
        await initialized(session)
        runner.create_threads(session, start=True)
        await all_tasks_blocked()

        assert await drained(session, dequeue) == [7] * 4


async def test_errors_that_mean_a_closed_queue_are_up_to_the_user():
    source, queue = numbers(name="source"), numbers()
    kinds = (OutOfRangeError, CancelledError)
    runner = QueueRunner(queue, [queue.enqueue(source.dequeue())], queue_closed_exception_types=kinds)
    cancel = source.close(cancel_pending_enqueues=True)
    coord = Coordinator()
    async with ax.Session() as session:
        threads = runner.create_threads(session, coord, start=True)
        await all_tasks_blocked()
        await session.run(cancel)

        assert await drained(session, queue.dequeue()) == []
        assert not coord.should_stop()
        coord.request_stop()
        await coord.join(threads)


async def test_a_stop_ends_tasks_that_wait_for_room():
    queue = numbers(capacity=2)
    runner = QueueRunner(queue, [queue.enqueue(1)] * 4)
    coord = Coordinator()
    async with ax.Session() as session:
        threads = runner.create_threads(session, coord, start=True)
        assert [thread.name for thread in threads][-2:] == [
            "QueueRunnerThread-numbers-numbers_enqueue",
            "QueueRunnerThread-numbers-close_on_stop",
        ]
        await all_tasks_blocked()

        coord.request_stop()
        await coord.join()

        assert not any(thread.is_alive() for thread in threads)
        assert await session.run(queue.is_closed())


async def test_a_stop_ends_tasks_that_always_find_room():
    queue = numbers(capacity=-1)
    runner = QueueRunner(queue, [queue.enqueue(1)])
    coord = Coordinator()
    async with ax.Session() as session:
        runner.create_threads(session, coord, start=True)
        size = queue.size()
        while await session.run(size) < 20:
            await asyncio.sleep(0)

        coord.request_stop()
        await coord.join()


async def test_an_error_in_one_runner_stops_all_and_is_raised():
    first, second, third = numbers(1, "first"), numbers(1, "second"), numbers(1, "third")
    for queue, enqueue in ((first, first.enqueue(1)), (second, failing(second)), (third, third.enqueue(1))):
        add_queue_runner(QueueRunner(queue, [enqueue]))
    coord = Coordinator()
    async with ax.Session() as session:
        threads = start_queue_runners(session, coord)

        with pytest.raises(InvalidArgumentError, match="no number"):
            await coord.join(threads)

        assert not any(thread.is_alive() for thread in threads)
        assert all([await session.run(queue.is_closed()) for queue in (first, second, third)])


async def test_an_error_without_a_coordinator_is_kept_by_the_runner(caplog):
    queue = numbers()
    runner = QueueRunner(queue, [failing(queue)])
    async with ax.Session() as session:
        (thread,) = runner.create_threads(session, start=True)
        await thread.join()

        (error,) = runner.exceptions_raised
        assert isinstance(error, InvalidArgumentError)
        assert "Exception in QueueRunner" in caplog.text

        assert not await session.run(queue.is_closed())
        runner.create_threads(session, start=True)
        assert runner.exceptions_raised == []


async def test_an_error_of_the_close_is_no_error_of_the_runner():
    queue = numbers()
    runner = QueueRunner(queue, [limited(queue, 1)], close_op=failing(queue), cancel_op=failing(queue))
    coord = Coordinator()
    async with ax.Session() as session:
        await initialized(session)
        runner.create_threads(session, coord, start=True)
        await all_tasks_blocked()
        coord.request_stop()

        await coord.join()


# Sessions


async def test_a_session_runs_a_runner_once_at_a_time_and_other_sessions_run_it_beside():
    queue = numbers(capacity=1)
    runner = QueueRunner(queue, [queue.enqueue(1)])
    async with ax.Session() as first, ax.Session() as second:
        assert len(runner.create_threads(first, start=True)) == 1
        assert runner.create_threads(first, start=True) == []
        assert len(runner.create_threads(second, start=True)) == 1


@pytest.mark.parametrize("has_coordinator", [True, False])
async def test_closing_the_session_ends_its_tasks(has_coordinator):
    queue = numbers(capacity=1)
    coord = Coordinator() if has_coordinator else None
    async with ax.Session() as session:
        threads = QueueRunner(queue, [queue.enqueue(1)] * 3).create_threads(session, coord, start=True)
        await all_tasks_blocked()

    assert not any(thread.is_alive() for thread in threads)
    if coord is not None:
        assert coord.should_stop()
        await coord.join()


async def test_a_session_that_is_closed_under_its_tasks_before_they_ran_leaves_none():
    queue = numbers(capacity=1)
    async with ax.Session() as session:
        threads = QueueRunner(queue, [queue.enqueue(1)] * 3).create_threads(session, start=True)

    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("passes", range(8))
async def test_a_task_that_is_cancelled_anywhere_leaves_queue_and_group_as_they_should_be(passes):
    queue = numbers(capacity=2)
    runner = QueueRunner(queue, [queue.enqueue(1)] * 2)
    coord = Coordinator()
    async with ax.Session() as session:
        threads = runner.create_threads(session, coord, start=True)
        for _ in range(passes):
            await asyncio.sleep(0)
        threads[0].cancel()

        await asyncio.sleep(0)
        coord.request_stop()
        await coord.join(threads)

        assert await session.run(queue.is_closed())
        assert await session.run(queue.size()) <= 2


async def test_tasks_that_are_not_started_yet_can_be_started_by_the_user():
    queue = numbers(capacity=1)
    coord = Coordinator()
    async with ax.Session() as session:
        threads = QueueRunner(queue, [queue.enqueue(5)]).create_threads(session, coord, daemon=True)
        assert not any(thread.is_alive() for thread in threads)
        assert all(thread.daemon for thread in threads)

        for thread in threads:
            thread.start()
        assert await session.run(queue.dequeue()) == 5

        coord.request_stop()
        await coord.join(threads)


# Starting all


async def test_the_runners_of_a_collection_are_started_in_the_default_session():
    queue, other = numbers(name="one"), numbers(name="two")
    add_queue_runner(QueueRunner(queue, [queue.enqueue(1)]))
    add_queue_runner(QueueRunner(other, [other.enqueue(2)]), collection="others")
    async with ax.Session() as session:
        coord = Coordinator()
        assert len(start_queue_runners(coord=coord)) == 2
        assert len(start_queue_runners(coord=coord, collection="others")) == 2

        assert await session.run([queue.dequeue(), other.dequeue()]) == [1, 2]

        coord.request_stop()
        await coord.join()


async def test_without_runners_there_is_a_warning_and_without_a_session_an_error(caplog):
    with pytest.raises(GraphValueError, match="No default session is registered"):
        start_queue_runners()
    with pytest.raises(GraphTypeError, match=r"sess must be a `tf.Session` object"):
        start_queue_runners(3)
    async with ax.Session():
        assert start_queue_runners() == []
    assert "when no queue runners were defined" in caplog.text


async def test_a_monitored_session_has_started_its_runners_itself():
    queue = numbers()
    add_queue_runner(QueueRunner(queue, [queue.enqueue(4)]))
    dequeue = queue.dequeue()
    async with ax.train.MonitoredSession() as session:
        assert start_queue_runners(session) == []
        assert await session.run(dequeue) == 4


# Making and moving


def test_closing_operations_are_made_where_none_are_given(graph):
    queue = numbers()
    runner = QueueRunner(queue, [queue.enqueue(1)])

    assert (runner.close_op.name, runner.cancel_op.name) == ("numbers_Close", "numbers_Close_1")
    assert runner.cancel_op.get_attr("cancel_pending_enqueues")
    assert runner.queue_closed_exception_types == (OutOfRangeError,)
    assert (runner.name, runner.queue, len(runner.enqueue_ops)) == ("numbers", queue, 1)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, GraphValueError, "Must provide queue and enqueue_ops."),
        ({"enqueue_ops": []}, GraphValueError, "Must provide queue and enqueue_ops."),
        (
            {"queue_closed_exception_types": OutOfRangeError},
            GraphTypeError,
            "must be a tuple of tf.error types",
        ),
        ({"queue_closed_exception_types": ()}, GraphTypeError, "must be a tuple of tf.error types"),
        ({"queue_closed_exception_types": (KeyError,)}, GraphTypeError, "must be a tuple of tf.error types"),
        ({"queue_closed_exception_types": (3,)}, GraphTypeError, "must be a tuple of tf.error types"),
        ({"queue_runner_def": QueueRunnerDef()}, GraphValueError, "are mutually exclusive"),
    ],
)
def test_what_makes_no_runner_is_refused(options, error, message):
    queue = numbers()
    given = {"queue": queue, "enqueue_ops": [queue.enqueue(1)], **options}
    if not options:
        given = {"queue": queue}

    with pytest.raises(error, match=message):
        QueueRunner(**given)


def test_a_runner_travels_as_a_message(graph):
    with graph.name_scope("inner"):
        queue = numbers()
        kinds = (OutOfRangeError, CancelledError)
        runner = QueueRunner(queue, [queue.enqueue(1), queue.enqueue(2)], queue_closed_exception_types=kinds)

    message = runner.to_proto()
    assert message == QueueRunnerDef(
        queue_name="inner/numbers",
        enqueue_op_name=["inner/numbers_enqueue", "inner/numbers_enqueue_1"],
        close_op_name="inner/numbers_Close",
        cancel_op_name="inner/numbers_Close_1",
        queue_closed_exception_types=["OUT_OF_RANGE", "CANCELLED"],
    )
    again = QueueRunner.from_proto(message)
    assert again.queue is queue.queue_ref.op
    assert (again.enqueue_ops, again.close_op) == (runner.enqueue_ops, runner.close_op)
    assert again.queue_closed_exception_types == kinds

    assert runner.to_proto(export_scope="outer") is None
    short = runner.to_proto(export_scope="inner")
    assert short.queue_name == "numbers"
    assert QueueRunner.from_proto(short, import_scope="inner").to_proto() == message
    with pytest.raises(UnknownNameError):
        QueueRunner.from_proto(short)


def test_a_message_of_old_means_the_end_of_input_by_its_silence(graph):
    queue = numbers()
    message = QueueRunner(queue, [queue.enqueue(1)]).to_proto()
    message.ClearField("queue_closed_exception_types")

    assert QueueRunner.from_proto(message).queue_closed_exception_types == (OutOfRangeError,)


async def test_runners_travel_with_meta_graphs(graph):
    queue = numbers()
    add_queue_runner(QueueRunner(queue, [limited(queue, 3)]))
    dequeue = queue.dequeue(name="next")
    meta_graph = ax.train.export_meta_graph()

    with ax.Graph().as_default() as other:
        ax.train.import_meta_graph(meta_graph, import_scope="there")
        coord = Coordinator()
        async with ax.Session() as session:
            await initialized(session)
            start_queue_runners(coord=coord)

            assert await drained(session, other.get_tensor_by_name(f"there/{dequeue.name}")) == [7] * 3

            coord.request_stop()
            await coord.join()


async def test_what_a_task_inherits_is_the_context_it_was_started_in(graph):
    """The default session of a task is the one at its start; a runner needs none, it has its own."""
    queue = numbers(capacity=1)
    seen: list[Any] = []

    def note() -> np.int32:
        seen.append(ax.get_default_session())
        return np.int32(1)

    runner = QueueRunner(queue, [queue.enqueue(ax.py_func(note, [], ax.int32))])
    async with ax.Session() as session:
        runner.create_threads(session, start=True)
        await session.run(queue.dequeue())

    assert seen[0] is session
