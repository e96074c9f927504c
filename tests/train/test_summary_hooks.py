"""Hooks that write summaries."""

import pytest

import aioexec as ax
from aioexec import train
from aioexec.errors import GraphValueError
from aioexec.formats.protos import SessionLog, Summary
from tests.train.hooked import (
    Model,
    RememberingWriter,
    events_in,
    folder as folder,
    model as model,
    trained,
)

pytestmark = pytest.mark.usefixtures("virtual_clock")


def weights(writer):
    """(step, weight) of each summary a writer was given."""
    return [
        (step, Summary.FromString(summary).value[0].simple_value)
        for kind, summary, step in writer.events
        if kind == "summary"
    ]


def summary_of(model):
    return ax.summary.scalar("weight", model.weight.value())


async def test_a_summary_hook_wants_a_scaffold_or_summaries():
    for scaffold, summary_op in ((None, None), (train.Scaffold(), "x")):
        with pytest.raises(GraphValueError, match="Exactly one of scaffold or summary_op"):
            train.SummarySaverHook(save_steps=1, scaffold=scaffold, summary_op=summary_op)


async def test_a_summary_hook_wants_one_interval():
    for steps, secs in ((None, None), (1, 1)):
        with pytest.raises(GraphValueError, match="every_secs"):
            train.SummarySaverHook(steps, secs, summary_op="x")


async def test_summaries_are_written_at_the_first_step_and_each_so_many(model: Model):
    writer = RememberingWriter()
    hook = train.SummarySaverHook(save_steps=3, summary_writer=writer, summary_op=summary_of(model))

    await trained(model, [hook], 8)

    assert weights(writer) == [(1, 0.0), (4, 3.0), (7, 6.0)]
    assert writer.flushes == 1


async def test_summaries_are_written_each_so_many_seconds(model: Model):
    writer = RememberingWriter()
    hook = train.SummarySaverHook(save_secs=4, summary_writer=writer, summary_op=summary_of(model))

    await trained(model, [hook], 5, seconds=2.0)

    assert writer.steps("summary") == [1, 3, 5]


async def test_the_start_of_the_session_is_written_once_before_all_summaries(model: Model):
    writer = RememberingWriter()
    hook = train.SummarySaverHook(save_steps=1, summary_writer=writer, summary_op=summary_of(model))

    await trained(model, [hook], 2)

    assert writer.events[0] == ("session_log", SessionLog(status=SessionLog.START), 1)
    assert writer.steps("session_log") == [1]


async def test_several_summaries_may_be_given_in_a_list(model: Model):
    writer = RememberingWriter()
    ops = [summary_of(model), ax.summary.scalar("other", model.weight + 1.0)]

    await trained(model, [train.SummarySaverHook(save_steps=5, summary_writer=writer, summary_op=ops)], 2)

    assert weights(writer) == [(1, 0.0), (1, 1.0)]


async def test_the_scaffolds_summaries_are_written(model: Model):
    writer = RememberingWriter()
    summary_of(model)
    scaffold = train.Scaffold()
    hook = train.SummarySaverHook(save_steps=5, summary_writer=writer, scaffold=scaffold)

    async with train.MonitoredSession(train.ChiefSessionCreator(scaffold), [hook]) as session:
        await session.run(model.train_op)

    assert weights(writer) == [(1, 0.0)]


async def test_a_scaffold_without_summaries_writes_the_start_alone(model: Model):
    writer = RememberingWriter()
    scaffold = train.Scaffold()
    hook = train.SummarySaverHook(save_steps=1, summary_writer=writer, scaffold=scaffold)

    async with train.MonitoredSession(train.ChiefSessionCreator(scaffold), [hook]) as session:
        for _ in range(2):
            await session.run(model.train_op)

    assert [kind for kind, _, _ in writer.events] == ["session_log"]


async def test_without_a_writer_nothing_is_written(model: Model):
    assert await trained(model, [train.SummarySaverHook(save_steps=1, summary_op=summary_of(model))], 2) == 2


async def test_summaries_go_into_an_event_file(model: Model, folder):
    hook = train.SummarySaverHook(save_steps=2, output_dir=folder, summary_op=summary_of(model))

    await trained(model, [hook], 3)

    events = await events_in(folder)
    written = [(each.step, value.simple_value) for each in events for value in each.summary.value]
    assert written == [(1, 0.0), (3, 2.0)]
    assert [each.step for each in events if each.HasField("session_log")] == [1]


# At the end


async def test_summaries_at_the_end_want_somewhere_to_go():
    with pytest.raises(GraphValueError, match="log_dir or summary_writer"):
        train.SummaryAtEndHook()


async def test_summaries_are_written_at_the_end_alone(model: Model, folder):
    writer = RememberingWriter()
    fed = ax.placeholder(ax.float32, [])
    hooks = [
        train.SummaryAtEndHook(
            summary_writer=writer, summary_op=ax.summary.scalar("fed", fed), feed_dict={fed: 5.0}
        ),
        train.SummaryAtEndHook(folder, summary_op=summary_of(model)),
    ]

    await trained(model, hooks, 3)

    assert (weights(writer), writer.flushes) == ([(3, 5.0)], 1)
    written = [
        (each.step, value.simple_value) for each in await events_in(folder) for value in each.summary.value
    ]
    assert written == [(3, 3.0)]


async def test_at_the_end_all_summaries_are_written_unless_some_are_named(model: Model):
    writer = RememberingWriter()
    summary_of(model)
    hook = train.SummaryAtEndHook(summary_writer=writer)

    for _ in range(2):
        await trained(model, [hook], 1)

    assert weights(writer) == [(1, 1.0)] * 2
    assert (
        len([op for op in model.graph.get_operations() if op.type == "MergeSummary"]) == 2
    )  # and the scaffold's


async def test_a_graph_without_summaries_writes_none_at_the_end(model: Model):
    writer = RememberingWriter()

    await trained(model, [train.SummaryAtEndHook(summary_writer=writer)], 1)

    assert (writer.events, writer.flushes) == ([], 1)
