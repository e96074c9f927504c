"""FileWriter: each kind of event in the file, in the order of addition, and errors."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import (
    FailedPreconditionError,
    GraphTypeError,
    GraphValueError,
    InvalidArgumentError,
    NotFoundError,
)
from aioexec.formats.event_files import summary_iterator
from aioexec.formats.protos import (
    Event,
    GraphDef,
    MetaGraphDef,
    RunMetadata,
    SessionLog,
    Summary,
    SummaryMetadata,
)
from aioexec.observability.event_writer import THREAD_NAME
from aioexec.observability.summary_writer import FileWriter
from aioexec.ops.io.plugin_assets import PluginAsset, get_plugin_asset

NOW = 1_800_000_000.25


@pytest.fixture(autouse=True)
def wall_clock(monkeypatch):
    monkeypatch.setattr(time, "time", lambda: NOW)


def untyped(value: Any) -> Any:
    """A value whose type checkers do not see: it is of a type that is refused."""
    return value


def files(directory: Path) -> list[Path]:
    """In the order they were begun."""
    return sorted(directory.glob("events.*"), key=lambda path: int(path.name.rsplit(".", 1)[1]))


async def events(directory: Path) -> list[Event]:
    """All but the first, which states the version."""
    return await asyncio.to_thread(
        lambda: [event for path in files(directory) for event in summary_iterator(path)][1:]
    )


def scalar(tag: str, value: float, plugin: str = "") -> Summary:
    described = (
        SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=plugin)) if plugin else None
    )
    return Summary(value=[Summary.Value(tag=tag, simple_value=value, metadata=described)])


# Making one


def test_making_a_writer_touches_neither_the_disk_nor_a_loop(tmp_path):
    FileWriter(tmp_path / "run")

    assert list(tmp_path.iterdir()) == []
    assert not [thread for thread in threading.enumerate() if thread.name == THREAD_NAME]


async def test_a_writer_that_was_told_nothing_leaves_no_file(tmp_path):
    async with FileWriter(str(tmp_path)) as writer:
        await writer.flush()

    assert list(tmp_path.iterdir()) == []


def test_the_directory_is_kept_as_text(tmp_path):
    assert FileWriter(tmp_path).get_logdir() == str(tmp_path)


async def test_a_suffix_ends_the_name_of_the_file(tmp_path):
    async with FileWriter(tmp_path, filename_suffix=".eval") as writer:
        writer.add_summary(scalar("a", 1))

    assert [path.suffix for path in tmp_path.iterdir()] == [".eval"]


# Summaries


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(lambda summary: summary, id="proto"),
        pytest.param(lambda summary: summary.SerializeToString(), id="bytes"),
        pytest.param(lambda summary: np.array(summary.SerializeToString(), object), id="array"),
        pytest.param(lambda summary: np.bytes_(summary.SerializeToString()), id="numpy bytes"),
    ],
)
async def test_a_summary_may_come_as_a_proto_or_as_its_bytes(tmp_path, form):
    async with FileWriter(tmp_path) as writer:
        writer.add_summary(form(scalar("loss", 1.5)), 7)

    assert await events(tmp_path) == [Event(wall_time=NOW, step=7, summary=scalar("loss", 1.5))]


@pytest.mark.parametrize("step", [None, 0, 5, np.int64(5), np.array(5), 5.9, True, -1, (1 << 63) - 1])
async def test_a_step_may_be_any_number(tmp_path, step):
    async with FileWriter(tmp_path) as writer:
        writer.add_summary(scalar("loss", 1.5), step)

    assert [event.step for event in await events(tmp_path)] == [0 if step is None else int(step)]


async def test_only_the_first_metadata_of_a_tag_is_written(tmp_path):
    async with FileWriter(tmp_path) as writer:
        for step in range(2):
            writer.add_summary(scalar("J", 1.5, plugin="scalars"), step)
        writer.add_summary(scalar("other", 1.5, plugin="scalars"), 2)
        writer.add_summary(scalar("plain", 1.5), 3)
        writer.add_summary(scalar("plain", 1.5, plugin="scalars"), 4)

    values = [event.summary.value[0] for event in await events(tmp_path)]
    assert [value.metadata.plugin_data.plugin_name for value in values] == [
        "scalars",
        "",
        "scalars",
        "",
        "scalars",
    ]


async def test_metadata_that_was_not_taken_is_not_known(tmp_path):
    (tmp_path / "taken").write_text("")
    writer = FileWriter(tmp_path / "taken" / "run")
    writer.add_summary(scalar("a", 1, plugin="scalars"), 1)
    while threads := [thread for thread in threading.enumerate() if thread.name == THREAD_NAME]:
        await asyncio.to_thread(threads[0].join)

    with pytest.raises(FailedPreconditionError, match="taken"):
        writer.add_summary(scalar("b", 1, plugin="scalars"), 2)
    (tmp_path / "taken").unlink()
    writer.add_summary(scalar("b", 1, plugin="scalars"), 2)
    await writer.close()

    written = await events(tmp_path / "taken" / "run")
    assert [event.summary.value[0].HasField("metadata") for event in written] == [True, True]


@pytest.mark.parametrize(
    ("summary", "error"),
    [
        (b"\xff\xffno summary", InvalidArgumentError),
        ("text", GraphTypeError),
        (None, GraphTypeError),
        (np.array([b"", b""], object), GraphTypeError),
        (GraphDef(), GraphTypeError),
    ],
)
async def test_what_is_no_summary_is_refused_and_leaves_no_event(tmp_path, summary, error):
    async with FileWriter(tmp_path) as writer:
        with pytest.raises(error, match="ummary"):
            writer.add_summary(summary)

    assert list(tmp_path.iterdir()) == []


def test_a_step_of_more_than_64_bits_is_refused(tmp_path):
    with pytest.raises(InvalidArgumentError, match="Value out of range"):
        FileWriter(tmp_path).add_summary(scalar("a", 1), 1 << 63)


async def test_summaries_of_a_session_are_written_as_they_are_fetched(tmp_path):
    with ax.Graph().as_default() as graph:
        values = ax.placeholder(ax.float32, [None])
        ax.summary.scalar("mean", ax.reduce_mean(values))
        ax.summary.histogram("values", values)
        merged = ax.summary.merge_all()
        async with ax.Session(graph=graph) as session, FileWriter(tmp_path) as writer:
            for step in range(3):
                writer.add_summary(await session.run(merged, {values: [step, step + 1]}), step)

    written = await events(tmp_path)
    assert [event.step for event in written] == [0, 1, 2]
    assert [event.summary.value[0].simple_value for event in written] == [0.5, 1.5, 2.5]
    assert [event.summary.value[1].histo.max for event in written] == [1, 2, 3]


# Graphs


async def test_a_writer_of_a_graph_begins_with_it(tmp_path):
    with ax.Graph().as_default() as graph:
        ax.constant([1.0, 2.0], name="c")
    async with FileWriter(tmp_path, graph) as writer:
        writer.add_summary(scalar("a", 1), 1)

    first, second, third = await events(tmp_path)
    node = GraphDef.FromString(first.graph_def).node[0]
    assert node.name == "c"
    assert node.attr["_output_shapes"].list.shape[0].dim[0].size == 2
    assert MetaGraphDef.FromString(second.meta_graph_def).graph_def.node[0].name == "c"
    assert third.HasField("summary")


@pytest.mark.parametrize("argument", ["graph", "graph_def"])
async def test_a_graph_def_is_written_as_it_is(tmp_path, argument):
    graph_def = GraphDef()
    graph_def.node.add(name="n", op="NoOp")
    async with FileWriter(tmp_path) as writer:
        writer.add_graph(**{"graph": None, argument: graph_def}, global_step=4)

    assert await events(tmp_path) == [Event(wall_time=NOW, step=4, graph_def=graph_def.SerializeToString())]


def test_a_graph_that_is_none_is_refused(tmp_path):
    writer = FileWriter(tmp_path)

    with pytest.raises(GraphTypeError, match="The passed graph must be an instance of `Graph`"):
        writer.add_graph("graph")
    with pytest.raises(TypeError, match="got NoneType"):
        writer.add_graph(None)
    with pytest.raises(GraphValueError, match="Please pass only graph, or graph_def"):
        writer.add_graph(ax.Graph(), graph_def=GraphDef())


async def test_a_meta_graph_is_written(tmp_path):
    meta_graph_def = MetaGraphDef()
    meta_graph_def.meta_info_def.tags.append("train")
    async with FileWriter(tmp_path) as writer:
        writer.add_meta_graph(meta_graph_def, 1)
        with pytest.raises(
            GraphTypeError, match="meta_graph_def must be type MetaGraphDef, saw type: GraphDef"
        ):
            writer.add_meta_graph(untyped(GraphDef()))

    (event,) = await events(tmp_path)
    assert event.meta_graph_def == meta_graph_def.SerializeToString()


async def test_assets_of_plugins_are_written_beside_the_events(tmp_path):
    class Palette(PluginAsset):
        plugin_name = "palette"

        def assets(self) -> dict[str, str]:
            return {"colours.txt": "red"}

    graph = ax.Graph()
    get_plugin_asset(Palette, graph)
    async with FileWriter(tmp_path, graph):
        pass

    assert (tmp_path / "plugins" / "palette" / "colours.txt").read_text() == "red"


# Run metadata


async def test_run_metadata_is_written_under_its_tag(tmp_path):
    with ax.Graph().as_default() as graph:
        doubled = ax.constant(2.0) * 2.0
        metadata = RunMetadata()
        async with ax.Session(graph=graph) as session, FileWriter(tmp_path) as writer:
            await session.run(
                doubled, options=ax.RunOptions(trace_level=ax.RunOptions.FULL_TRACE), run_metadata=metadata
            )
            writer.add_run_metadata(metadata, "step 5", 5)

    (event,) = await events(tmp_path)
    assert (event.step, event.tagged_run_metadata.tag) == (5, "step 5")
    stats = RunMetadata.FromString(event.tagged_run_metadata.run_metadata).step_stats
    assert [each.node_stats for each in stats.dev_stats]


async def test_a_tag_of_run_metadata_is_used_once(tmp_path):
    async with FileWriter(tmp_path) as writer:
        writer.add_run_metadata(RunMetadata(), "t", 1)

        with pytest.raises(GraphValueError, match="The provided tag was already used"):
            writer.add_run_metadata(RunMetadata(), "t", 2)
        with pytest.raises(GraphTypeError, match="run_metadata must be type RunMetadata"):
            writer.add_run_metadata(untyped(GraphDef()), "u")


async def test_a_session_log_is_written(tmp_path):
    log = SessionLog(status=SessionLog.CHECKPOINT, checkpoint_path="model.ckpt-3")
    async with FileWriter(tmp_path) as writer:
        writer.add_session_log(log, 3)

    assert await events(tmp_path) == [Event(wall_time=NOW, step=3, session_log=log)]


async def test_an_event_is_written_as_it_is(tmp_path):
    event = Event(wall_time=1.5, step=2, summary=scalar("a", 1))
    async with FileWriter(tmp_path) as writer:
        writer.add_event(event)
        with pytest.raises(GraphTypeError, match="event must be type Event"):
            writer.add_event(untyped(scalar("a", 1)))

    assert await events(tmp_path) == [event]


# Its life


async def test_a_flush_makes_events_readable(tmp_path):
    async with FileWriter(tmp_path) as writer:
        for step in range(100):
            writer.add_summary(scalar("a", step), step)
        await writer.flush()

        assert [event.step for event in await events(tmp_path)] == list(range(100))


async def test_a_closed_writer_warns_and_writes_nothing(tmp_path):
    writer = FileWriter(tmp_path)
    writer.add_summary(scalar("a", 1), 1)
    await writer.close()

    with pytest.warns(UserWarning, match="Attempting to use a closed FileWriter"):
        writer.add_summary(scalar("a", 1), 2)
    with pytest.warns(UserWarning, match="Attempting to use a closed FileWriter"):
        writer.add_event(Event())
    with pytest.warns(UserWarning, match="Attempting to use a closed FileWriter"):
        await writer.flush()
    await writer.close()
    assert [event.step for event in await events(tmp_path)] == [1]


async def test_a_reopened_writer_begins_another_file(tmp_path):
    writer = FileWriter(tmp_path)
    writer.add_summary(scalar("a", 1), 1)
    writer.reopen()
    writer.add_summary(scalar("a", 1), 2)
    await writer.close()
    writer.reopen()
    writer.add_summary(scalar("a", 1), 3)
    await writer.close()

    first, second = await asyncio.to_thread(
        lambda: [list(summary_iterator(path)) for path in files(tmp_path)]
    )
    assert [event.step for event in first] == [0, 1, 2]
    assert [event.step for event in second] == [0, 3]


async def test_a_directory_that_cannot_be_made_is_told_at_the_flush(tmp_path):
    (tmp_path / "taken").write_text("")
    writer = FileWriter(tmp_path / "taken" / "run")
    writer.add_summary(scalar("a", 1), 1)

    with pytest.raises(FailedPreconditionError, match="taken"):
        await writer.flush()
    (tmp_path / "taken").unlink()
    await writer.close()

    assert [event.step for event in await events(tmp_path / "taken" / "run")] == [1]


async def test_a_removed_file_is_told_and_followed_by_another(tmp_path):
    writer = FileWriter(tmp_path)
    writer.add_summary(scalar("a", 1), 1)
    await writer.flush()
    files(tmp_path)[0].unlink()
    writer.add_summary(scalar("a", 1), 2)

    with pytest.raises(NotFoundError, match="has disappeared"):
        await writer.flush()
    writer.add_summary(scalar("a", 1), 3)
    await writer.close()

    assert [event.step for event in await events(tmp_path)] == [3]


async def test_events_may_be_added_from_threads(tmp_path):
    async with FileWriter(tmp_path) as writer:

        def add(first: int) -> None:
            for step in range(first, first + 100):
                writer.add_summary(scalar("a", step), step)

        await asyncio.gather(*(asyncio.to_thread(add, first) for first in (0, 100, 200)))

    assert sorted(event.step for event in await events(tmp_path)) == list(range(300))
