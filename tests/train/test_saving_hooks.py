"""CheckpointSaverHook and its listeners: the times and contents of saves, and calls of listeners."""

import asyncio
import logging
import os
import re
from pathlib import Path

import pytest

import aioexec as ax
from aioexec import train
from aioexec.errors import GraphValueError, OpError
from aioexec.formats.protos import SessionLog
from aioexec.train.errors import TrainingStateError
from tests.train.hooked import Model, events_in, folder as folder, model as model, trained

pytestmark = pytest.mark.usefixtures("virtual_clock")


class Listener(train.CheckpointSaverListener):
    """Records its calls; requests a stop after the checkpoint at `stop_at`."""

    def __init__(self, stop_at=None):
        self.calls = []
        self._stop_at = stop_at

    def begin(self):
        self.calls.append("begin")

    def before_save(self, session, global_step_value):
        self.calls.append(f"before {global_step_value}")

    def after_save(self, session, global_step_value):
        self.calls.append(f"after {global_step_value}")
        return global_step_value == self._stop_at

    def end(self, session, global_step_value):
        self.calls.append(f"end {global_step_value}")


def saved(folder):
    """The steps of the checkpoints in a directory."""
    return sorted(int(re.findall(r"\d+", each.name)[0]) for each in Path(folder).glob("model.ckpt-*.index"))


def graph_text(folder):
    return Path(folder, "graph.pbtxt").read_text()


def saves(listener):
    return [int(call.split()[1]) for call in listener.calls if call.startswith("after")]


async def test_a_saver_hook_wants_one_interval(folder):
    for secs, steps in ((None, None), (1, 1)):
        with pytest.raises(GraphValueError, match="every_secs"):
            train.CheckpointSaverHook(folder, secs, steps)


async def test_a_saver_hook_wants_a_saver_or_a_scaffold(model: Model, folder):
    with pytest.raises(GraphValueError, match="both saver and scaffold"):
        train.CheckpointSaverHook(folder, save_secs=1, saver=train.Saver(), scaffold=train.Scaffold())


async def test_checkpoints_are_saved_at_the_start_each_so_many_steps_and_at_the_end(model: Model, folder):
    listener = Listener()
    hook = train.CheckpointSaverHook(
        folder, save_steps=3, saver=train.Saver(max_to_keep=9), listeners=[listener]
    )

    await trained(model, [hook], 8)

    assert saves(listener) == saved(folder) == [0, 3, 6, 8]


async def test_a_checkpoint_of_the_last_step_is_not_saved_twice(model: Model, folder):
    listener = Listener()
    hook = train.CheckpointSaverHook(folder, save_steps=3, saver=train.Saver(), listeners=[listener])

    await trained(model, [hook], 6)

    assert saves(listener) == [0, 3, 6]


async def test_checkpoints_are_saved_each_so_many_seconds(model: Model, folder):
    listener = Listener()
    hook = train.CheckpointSaverHook(folder, save_secs=10, saver=train.Saver(), listeners=[listener])

    await trained(model, [hook], 9, seconds=3.0)

    assert saves(listener) == [0, 5, 9]  # the fifth step begins after 12 seconds, the ninth after 24


async def test_steps_that_advance_by_several_are_saved_as_soon_as_they_are_there(model: Model, folder):
    listener = Listener()
    hook = train.CheckpointSaverHook(folder, save_steps=10, saver=train.Saver(), listeners=[listener])

    await trained(model, [hook], 8, by=[4] * 8)

    assert saves(listener) == [0, 12, 24, 32]


async def test_listeners_are_called_in_their_order(model: Model, folder):
    first, second = Listener(), Listener()
    second.calls = first.calls
    hook = train.CheckpointSaverHook(folder, save_steps=9, saver=train.Saver(), listeners=[first, second])

    await trained(model, [hook], 1)

    once = ["begin", "before 0", "after 0", "before 1", "after 1", "end 1"]
    assert first.calls == [each for call in once for each in (call, call)]


async def test_listeners_may_be_awaited(model: Model, folder):
    calls: list[object] = []

    class Slow(train.CheckpointSaverListener):
        async def begin(self):
            calls.append("begin")

        async def before_save(self, session, global_step_value):
            await asyncio.sleep(1.0)
            calls.append(("before", int(await session.run(model.global_step))))

        async def after_save(self, session, global_step_value):
            await asyncio.sleep(1.0)
            calls.append(("after", global_step_value))
            return True

        async def end(self, session, global_step_value):
            calls.append(("end", global_step_value))

    hook = train.CheckpointSaverHook(folder, save_steps=1, saver=train.Saver(), listeners=[Slow()])

    assert await trained(model, [hook], 5) == 1
    assert calls == ["begin", ("before", 0), ("after", 0), ("before", 1), ("after", 1), ("end", 1)]


async def test_a_listener_ends_the_loop_after_a_step(model: Model, folder, caplog):
    hook = train.CheckpointSaverHook(
        folder, save_steps=2, saver=train.Saver(), listeners=[Listener(stop_at=4)]
    )

    with caplog.at_level(logging.INFO):
        assert await trained(model, [hook], 9) == 4
    assert "A CheckpointSaverListener requested that training be stopped." in caplog.text
    assert f"Saving checkpoints for 4 into {folder}/model.ckpt." in caplog.text


async def test_a_listener_that_asks_to_stop_after_the_first_checkpoint_is_not_heard(model: Model, folder):
    hook = train.CheckpointSaverHook(
        folder, save_steps=2, saver=train.Saver(), listeners=[Listener(stop_at=0)]
    )

    assert await trained(model, [hook], 3) == 3


async def test_the_graph_is_written_beside_the_checkpoints(model: Model, folder):
    hook = train.CheckpointSaverHook(folder, save_steps=9, saver=train.Saver(), checkpoint_basename="other")

    await trained(model, [hook], 1)

    assert 'name: "weight"' in graph_text(folder)
    assert {"other-0.meta", "other-1.meta", "other-1.index", "checkpoint"} <= set(os.listdir(folder))


async def test_the_graph_need_not_be_written(model: Model, folder):
    hook = train.CheckpointSaverHook(folder, save_steps=9, saver=train.Saver(), save_graph_def=False)

    await trained(model, [hook], 1)

    assert [each for each in os.listdir(folder) if each.endswith((".meta", ".pbtxt"))] == []


async def test_the_event_file_has_the_graph_and_each_checkpoint(model: Model, folder):
    await trained(model, [train.CheckpointSaverHook(folder, save_steps=2, saver=train.Saver())], 3)

    events = await events_in(folder)
    logs = [
        (event.step, event.session_log.status, event.session_log.checkpoint_path)
        for event in events
        if event.HasField("session_log")
    ]
    assert logs == [(step, SessionLog.CHECKPOINT, f"{folder}/model.ckpt") for step in (0, 2, 3)]
    graphs = [
        event.WhichOneof("what")
        for event in events
        if event.WhichOneof("what") in ("graph_def", "meta_graph_def")
    ]
    assert graphs == ["graph_def", "meta_graph_def", "graph_def", "meta_graph_def"]


async def test_the_scaffolds_saver_saves(model: Model, folder):
    scaffold = train.Scaffold()
    hook = train.CheckpointSaverHook(folder, save_steps=2, scaffold=scaffold)

    async with train.MonitoredSession(train.ChiefSessionCreator(scaffold), [hook]) as session:
        await session.run(model.train_op)

    assert saved(folder) == [0, 1]


async def test_the_one_saver_of_the_graph_saves(model: Model, folder):
    hook = train.CheckpointSaverHook(folder, save_steps=2)
    ax.add_to_collection(ax.GraphKeys.SAVERS, train.Saver())

    await trained(model, [hook], 1)

    assert saved(folder) == [0, 1]


@pytest.mark.parametrize(("savers", "message"), [(0, "No items in collection"), (2, "More than one item")])
async def test_a_hook_without_a_saver_wants_one_in_the_graph(model: Model, folder, savers, message):
    for _ in range(savers):
        ax.add_to_collection(ax.GraphKeys.SAVERS, train.Saver())
    hook = train.CheckpointSaverHook(folder, save_steps=2)

    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        await hook.begin()
        with pytest.raises(TrainingStateError, match=message):
            await hook.after_create_session(session, train.Coordinator())


async def test_training_goes_on_from_the_checkpoint(model: Model, folder):
    for expected in ([0, 2], [0, 2, 4]):
        hook = train.CheckpointSaverHook(folder, save_steps=9, saver=train.Saver())
        creator = train.ChiefSessionCreator(checkpoint_dir=folder)
        async with train.MonitoredSession(creator, [hook]) as session:
            for _ in range(2):
                await session.run(model.train_op)
        assert saved(folder) == expected


async def test_a_checkpoint_whose_saving_was_cancelled_is_saved_at_the_end(model: Model, folder):
    class Slow(Listener):
        async def before_save(self, session, global_step_value):
            super().before_save(session, global_step_value)
            await asyncio.sleep(100.0 if self.calls.count("before 2") == 1 else 0.0)

    listener = Slow()
    hook = train.CheckpointSaverHook(folder, save_steps=2, saver=train.Saver(), listeners=[listener])

    async with train.MonitoredSession(hooks=[hook]) as session:
        await session.run(model.train_op)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(50):
                await session.run(model.train_op)

    assert saves(listener) == saved(folder) == [0, 2]


async def test_nothing_is_saved_at_the_end_of_a_loop_that_failed(model: Model, folder):
    listener = Listener()
    hook = train.CheckpointSaverHook(folder, save_steps=9, saver=train.Saver(), listeners=[listener])

    with pytest.raises(OpError, match="out of order"):
        async with train.MonitoredSession(hooks=[hook]) as session:
            await session.run(model.train_op)
            raise OpError("out of order")

    assert listener.calls == ["begin", "before 0", "after 0"]


@pytest.mark.parametrize("method", ["begin", "before_save", "after_save", "end"])
async def test_an_error_of_a_listener_is_the_loops(model: Model, folder, method):
    listener = Listener()

    def fail(*args):
        raise OpError(f"no {method}")

    setattr(listener, method, fail)
    hook = train.CheckpointSaverHook(folder, save_steps=1, saver=train.Saver(), listeners=[listener])

    with pytest.raises(OpError, match=f"no {method}"):
        await trained(model, [hook], 2)


async def test_a_directory_that_cannot_be_made_is_an_error(model: Model, folder):
    os.mknod(f"{folder}/file")
    hook = train.CheckpointSaverHook(f"{folder}/file/below", save_steps=1, saver=train.Saver())

    with pytest.raises(OpError, match="file/below"):
        await trained(model, [hook], 1)
    with pytest.raises(OpError, match="file/below"):
        await ax.summary.FileWriterCache.clear()
