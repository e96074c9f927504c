"""Supervisors: their defaults, their services and timing, and the end of everything."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

import aioexec as ax
from aioexec import train
from aioexec.errors import AbortedError, DeadlineExceededError, GraphValueError, OutOfRangeError
from aioexec.formats.protos import SessionLog
from aioexec.train.errors import TrainingStateError
from tests.train.hooked import Model, events_in, folder, model

__all__ = ["folder", "model"]  # fixtures


@pytest.fixture(autouse=True)
def steps_take_no_time(request, monkeypatch):
    """Time stands still while a step runs, of which a part is planned and computed in threads."""
    if "virtual_clock" not in request.fixturenames:
        return
    run = ax.Session.run

    async def held(*args: Any, **options: Any) -> Any:
        loop: Any = asyncio.get_running_loop()
        with loop.clock.hold():
            return await run(*args, **options)

    monkeypatch.setattr(ax.Session, "run", held)


async def steps(supervisor: train.Supervisor, model: Model, count: int, seconds: float = 0) -> int:
    """So many steps, each after some seconds, unless a stop is requested; how many there were."""
    async with supervisor.managed_session() as session:
        for done in range(count):
            await asyncio.sleep(seconds)
            if supervisor.should_stop():
                return done
            await session.run(model.train_op)
    return count


def names(folder: str) -> set[str]:
    return {name for name in os.listdir(folder) if not name.startswith("events")}


# Construction


def test_what_is_not_given_is_made_collected_and_the_graph_is_read_only(model):
    supervisor = train.Supervisor()

    made = {
        ax.GraphKeys.READY_OP: supervisor.ready_op,
        ax.GraphKeys.INIT_OP: supervisor.init_op,
        ax.GraphKeys.LOCAL_INIT_OP: supervisor.local_init_op,
        ax.GraphKeys.SAVERS: supervisor.saver,
        ax.GraphKeys.GLOBAL_STEP: supervisor.global_step,
    }
    assert {key: model.graph.get_collection(key) for key in made} == {key: [one] for key, one in made.items()}
    assert supervisor.summary_op is None
    assert supervisor.ready_for_local_init_op is None
    assert supervisor.summary_writer is None
    assert supervisor.save_path is None
    assert model.graph.finalized


def test_what_is_in_collections_is_taken(model):
    mine = ax.group(ax.global_variables_initializer(), name="mine")
    ax.add_to_collection(ax.GraphKeys.INIT_OP, mine)
    ax.add_to_collection(ax.GraphKeys.INIT_OP, ax.no_op())

    assert train.Supervisor().init_op is mine


def test_what_is_given_as_none_is_not_there(model):
    supervisor = train.Supervisor(
        init_op=None, local_init_op=None, ready_op=None, saver=None, summary_op=None, global_step=None
    )

    for attribute in ("init_op", "local_init_op", "ready_op", "saver", "summary_op", "global_step"):
        assert getattr(supervisor, attribute) is None


def test_a_graph_without_variables_needs_no_saver():
    with ax.Graph().as_default() as graph:
        supervisor = train.Supervisor(graph)

    assert supervisor.saver is None
    assert supervisor.global_step is None


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_a_tensor_named_global_step_is_taken_if_it_counts(dtype):
    with ax.Graph().as_default():
        ax.Variable(ax.constant(0, dtype), name="global_step")
        supervisor = train.Supervisor()

    found = supervisor.global_step
    assert (found is None) == (dtype == "float32")
    assert found is None or found.name == "global_step:0"


def test_replicas_need_to_know_where_variables_are(model):
    with pytest.raises(GraphValueError, match="all Variables must have their device set"):
        train.Supervisor(is_chief=False)


# Sessions


async def test_a_model_is_initialised_then_restored(model, folder, virtual_clock):
    def initialise(session: Any) -> None:
        calls.append(session)

    calls: list[Any] = []
    first = train.Supervisor(logdir=folder, init_fn=initialise, save_model_secs=10)
    assert await steps(first, model, 5, seconds=3) == 5
    assert len(calls) == 1

    again = train.Supervisor(logdir=folder, init_fn=initialise)
    async with again.managed_session() as session:
        assert await session.run(model.global_step) == 3  # at ten seconds
    assert len(calls) == 1


async def test_a_chief_writes_its_graph_for_people_and_for_tensorboard(model, folder, virtual_clock):
    await steps(train.Supervisor(logdir=folder), model, 1)

    assert "graph.pbtxt" in names(folder)
    kinds = [event.WhichOneof("what") for event in await events_in(folder)]
    assert kinds.count("graph_def") == kinds.count("meta_graph_def") == 1


async def test_others_wait_for_the_model_and_write_nothing(folder, virtual_clock):
    with ax.Graph().as_default(), ax.device("/cpu:0"):
        weight = ax.Variable(1.0)
        supervisor = train.Supervisor(is_chief=False, logdir=folder, ready_op=None)
    async with supervisor.managed_session() as session:
        await session.run(weight.initializer)
        with pytest.raises(TrainingStateError, match="Only chief supervisor can start standard services"):
            await supervisor.start_standard_services(session)

    assert names(folder) == set()
    assert supervisor.summary_writer is None


async def test_waiting_for_a_model_may_take_too_long(virtual_clock):
    with ax.Graph().as_default(), ax.device("/cpu:0"):
        ax.Variable(1.0)
        supervisor = train.Supervisor(is_chief=False)

    with pytest.raises(DeadlineExceededError):
        await supervisor.prepare_or_wait_for_session(max_wait_secs=5)


async def test_a_session_whose_services_cannot_start_is_closed(model, tmp_path, virtual_clock):
    (tmp_path / "file").touch()
    supervisor = train.Supervisor(logdir=str(tmp_path / "file" / "below"), summary_writer=None)

    with pytest.raises(ax.errors.OpError):
        async with supervisor.managed_session():
            pass


async def test_a_session_may_be_had_without_services(model, folder, virtual_clock):
    supervisor = train.Supervisor(logdir=folder, save_summaries_secs=1, save_model_secs=1)
    session = await supervisor.prepare_or_wait_for_session(start_standard_services=False)
    await session.run(model.train_op)
    await asyncio.sleep(100)
    await supervisor.stop()
    await session.close()

    assert names(folder) == {"graph.pbtxt"}


async def test_without_a_directory_there_are_no_services(model, caplog, virtual_clock):
    supervisor = train.Supervisor()
    async with supervisor.managed_session() as session:
        assert await supervisor.start_standard_services(session) is None
    assert "Standard services need a 'logdir'" in caplog.text


# Services


async def test_checkpoints_are_saved_on_a_timer(model, folder, virtual_clock):
    supervisor = train.Supervisor(logdir=folder, save_model_secs=10, save_summaries_secs=0)
    await steps(supervisor, model, 8, seconds=3)

    assert {name for name in names(folder) if name.endswith(".index")} == {
        "model.ckpt-0.index",
        "model.ckpt-3.index",
        "model.ckpt-6.index",
    }
    logs = [event for event in await events_in(folder) if event.HasField("session_log")]
    assert [(event.session_log.status, event.step) for event in logs] == [
        (SessionLog.START, 0),
        (SessionLog.CHECKPOINT, 0),
        (SessionLog.CHECKPOINT, 3),
        (SessionLog.CHECKPOINT, 6),
        (SessionLog.STOP, 0),
    ]


async def test_summaries_and_steps_a_second_are_written_on_a_timer(model, folder, virtual_clock):
    with model.graph.as_default():
        ax.summary.scalar("weight now", model.weight)
        supervisor = train.Supervisor(logdir=folder, save_summaries_secs=10, save_model_secs=0)
    await steps(supervisor, model, 8, seconds=3)

    found: dict[str, list[tuple[int, float]]] = {}
    for event in await events_in(folder):
        for value in event.summary.value:
            found.setdefault(value.tag, []).append((event.step, value.simple_value))
    assert found["weight_now"] == [(0, 0.0), (3, 3.0), (6, 6.0)]
    rates = dict(found["global_step/sec"])
    assert rates[3] == pytest.approx(0.3)
    assert rates[6] == pytest.approx(0.3)


async def test_services_do_without_a_global_step(folder, virtual_clock):
    with ax.Graph().as_default():
        weight = ax.Variable(2.0)
        ax.summary.scalar("weight", weight)
        supervisor = train.Supervisor(logdir=folder, save_summaries_secs=10, save_model_secs=10)
    async with supervisor.managed_session():
        await asyncio.sleep(15)

    assert "model.ckpt.index" in names(folder)
    written = [event for event in await events_in(folder) if event.HasField("summary")]
    assert [(event.step, event.summary.value[0].simple_value) for event in written] == [(0, 2.0)] * 2


async def test_checkpoints_need_no_events(model, folder, virtual_clock):
    supervisor = train.Supervisor(logdir=folder, save_model_secs=10, summary_writer=None)
    await steps(supervisor, model, 1, seconds=5)

    assert "model.ckpt-0.index" in names(folder)
    assert not [name for name in os.listdir(folder) if name.startswith("events")]


async def test_a_checkpoint_that_cannot_be_saved_stops_the_training(model, folder, virtual_clock):
    class Broken(train.Saver):
        async def save(self, *args: Any, **options: Any) -> Any:
            raise ax.errors.ResourceExhaustedError("the disk is full")

    with model.graph.as_default():
        supervisor = train.Supervisor(logdir=folder, saver=Broken(), save_model_secs=10)

    with pytest.raises(ax.errors.ResourceExhaustedError, match="the disk is full"):
        await steps(supervisor, model, 100, seconds=1)


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_functions_are_called_beside_the_training(model, kind, virtual_clock):
    supervisor = train.Supervisor()
    calls: list[int] = []

    async def awaited(number: int) -> None:
        calls.append(number)

    supervisor.loop(10, calls.append if kind == "plain" else awaited, args=(7,))
    supervisor.coord.clear_stop()
    session = await supervisor.prepare_or_wait_for_session()
    await asyncio.sleep(25)
    supervisor.request_stop()
    await supervisor.wait_for_stop()
    await supervisor.stop()
    await session.close()

    assert calls == [7, 7, 7]


async def test_a_summary_of_the_users_is_written_at_the_present_step(model, folder, virtual_clock):
    supervisor = train.Supervisor(logdir=folder, save_summaries_secs=0, save_model_secs=0)
    summary = ax.Summary(value=[ax.Summary.Value(tag="mine", simple_value=2.0)])
    async with supervisor.managed_session() as session:
        await session.run(model.train_op)
        await supervisor.summary_computed(session, summary)
        await supervisor.summary_computed(session, summary.SerializeToString(), global_step=9)

    steps_seen = [event.step for event in await events_in(folder) if event.HasField("summary")]
    assert steps_seen == [1, 9]
    with pytest.raises(TrainingStateError, match="requires a summary writer"):
        await train.Supervisor(summary_writer=None).summary_computed(ax.Session(), summary)


async def test_queue_runners_run_beside_the_training(model, virtual_clock):
    queue = train.range_input_producer(5, num_epochs=1, shuffle=False)
    dequeue = queue.dequeue()
    supervisor = train.Supervisor()
    seen = []
    async with supervisor.managed_session() as session:
        while not supervisor.should_stop():
            seen.append(int(await session.run(dequeue)))

    assert seen == [0, 1, 2, 3, 4]


# Ends


@pytest.mark.parametrize(
    "error", [OutOfRangeError("the end"), StopIteration(), StopAsyncIteration()], ids=repr
)
async def test_a_block_that_ends_the_input_just_ends(model, error, virtual_clock):
    supervisor = train.Supervisor()
    async with supervisor.managed_session():
        raise error

    assert supervisor.should_stop()
    assert supervisor.coord.joined


async def test_the_error_of_a_block_is_raised_when_all_has_ended(model, folder, virtual_clock):
    supervisor = train.Supervisor(logdir=folder)
    session: Any = None
    with pytest.raises(KeyError, match="mine"):
        async with supervisor.managed_session() as session:
            raise KeyError("mine")

    with pytest.raises(ax.errors.CancelledError, match="closed"):
        await session.run(model.train_op)
    logs = [event.session_log.status for event in await events_in(folder) if event.HasField("session_log")]
    assert logs[-1] == SessionLog.STOP


async def test_the_error_of_a_service_is_raised_when_the_block_is_left(model, folder, virtual_clock):
    supervisor = train.Supervisor(logdir=folder)

    def fail() -> None:
        raise AbortedError("in a service")

    with pytest.raises(AbortedError, match="in a service"):
        async with supervisor.managed_session() as session:
            supervisor.loop(5, fail)
            while not supervisor.should_stop():
                await session.run(model.train_op)
                await asyncio.sleep(1)


async def test_a_stop_from_another_task_ends_the_loop(model, virtual_clock):
    supervisor = train.Supervisor()
    asyncio.get_running_loop().call_later(10, supervisor.request_stop)

    assert await steps(supervisor, model, 100, seconds=3) == 3


async def test_an_error_inside_stop_on_exception_is_raised_at_the_end(model, virtual_clock):
    supervisor = train.Supervisor()
    with pytest.raises(AbortedError, match="reported"):
        async with supervisor.managed_session():
            with supervisor.stop_on_exception():
                raise AbortedError("reported")


async def test_a_supervisor_may_manage_session_after_session(model, folder, virtual_clock):
    supervisor = train.Supervisor(logdir=folder, save_model_secs=0)
    for _ in range(2):
        assert await steps(supervisor, model, 2) == 2

    written = [name for name in os.listdir(folder) if name.startswith("events")]
    assert len(written) == 2


async def test_the_writer_may_stay_open(model, folder, virtual_clock):
    supervisor = train.Supervisor(logdir=folder, save_model_secs=0, save_summaries_secs=0)
    async with supervisor.managed_session(close_summary_writer=False):
        pass
    supervisor.summary_writer.add_session_log(SessionLog(status=SessionLog.CHECKPOINT), 3)
    await supervisor.summary_writer.close()

    logs = [event.session_log.status for event in await events_in(folder) if event.HasField("session_log")]
    assert logs == [SessionLog.START, SessionLog.CHECKPOINT]


async def test_what_does_not_stop_in_time_is_named_and_ended(model, virtual_clock):
    supervisor = train.Supervisor(stop_grace_secs=2)

    async def stay() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(RuntimeError, match=r"threads still running: LooperThread-.*stay"):
        async with supervisor.managed_session():
            supervisor.loop(None, stay)
            await asyncio.sleep(1)


@pytest.mark.parametrize("passes", [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89])
async def test_a_managed_session_that_is_cancelled_anywhere_leaves_nothing(
    model, folder, passes, virtual_clock
):
    supervisor = train.Supervisor(logdir=folder, save_model_secs=1, save_summaries_secs=1)
    train_task = asyncio.create_task(steps(supervisor, model, 1000, seconds=0.1))
    for _ in range(passes):
        await asyncio.sleep(0)
    train_task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await train_task


async def test_a_stop_that_is_cancelled_ends_what_is_late_at_once(model, virtual_clock):
    supervisor = train.Supervisor()
    ended = []

    async def stay() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append(virtual_clock.time())

    async def managed() -> None:
        async with supervisor.managed_session():
            supervisor.loop(None, stay)
            await asyncio.sleep(1)

    managing = asyncio.create_task(managed())
    await asyncio.sleep(10)
    managing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await managing

    assert ended == [10]


# The basic loop


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_a_step_function_is_called_until_it_is_enough(model, kind, virtual_clock):
    supervisor = train.Supervisor()
    calls: list[Any] = []

    def plain(session: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append((args, kwargs))
        if len(calls) == 3:
            supervisor.request_stop()
        return session.run(model.train_op)

    async def awaited(session: Any, *args: Any, **kwargs: Any) -> None:
        await plain(session, *args, **kwargs)

    await train.basic_train_loop(supervisor, plain if kind == "plain" else awaited, (1,), {"two": 2})

    assert calls == [((1,), {"two": 2})] * 3


async def test_an_aborted_step_begins_again_with_a_new_session(model, virtual_clock):
    supervisor = train.Supervisor()
    sessions: list[Any] = []

    def step(session: Any) -> None:
        sessions.append(session)
        if len(sessions) == 1:
            raise AbortedError("a server began anew")
        raise OutOfRangeError("the end")

    await train.basic_train_loop(supervisor, step)

    assert len(sessions) == 2
    assert sessions[0] is not sessions[1]


async def test_another_error_of_a_step_is_raised(model, virtual_clock):
    def step(session: Any) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError):
        await train.basic_train_loop(train.Supervisor(), step)
