"""Summaries of `ax.contrib.summary` are written by steps."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec as ax

summary = ax.contrib.summary


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


async def written(folder: Path) -> list[tuple[int, str]]:
    """Step and tag of each summary in the event file."""

    def read() -> list[tuple[int, str]]:
        (path,) = folder.glob("events*")
        events: Any = ax.train.summary_iterator(str(path))
        return [(event.step, value.tag) for event in events for value in event.summary.value]

    return await asyncio.to_thread(read)


async def test_steps_write_their_summaries(tmp_path: Path):
    step = ax.train.get_or_create_global_step()
    writer = summary.create_file_writer(str(tmp_path), flush_millis=1000)
    with writer.as_default(), summary.always_record_summaries():
        summary.scalar("loss", ax.constant(2.0), step=ax.constant([7], ax.int64)[0])
        summary.histogram("values", ax.constant([1.0, 2.0]), family="f")
        summary.image("picture", ax.zeros([1, 2, 2, 1], ax.uint8))
        summary.audio("sound", ax.zeros([1, 8, 1]), 8.0, 1)
        summary.generic("tensor", ax.constant([1, 2]))
        with summary.never_record_summaries():
            summary.scalar("never", ax.constant(1.0))
        flush = summary.flush()

    async with ax.Session() as session:
        await session.run([ax.global_variables_initializer(), summary.summary_writer_initializer_op()])
        await session.run([summary.all_summary_ops(), ax.assign_add(step, 0)])
        await session.run(flush)
        await session.run(writer.close())
    assert sorted(await written(tmp_path)) == [
        (0, "f/f/values"),
        (0, "picture/image/0"),
        (0, "sound/audio"),
        (0, "tensor"),
        (7, "loss"),
    ]


async def test_some_steps_write_their_summaries(tmp_path: Path):
    step = ax.train.get_or_create_global_step()
    writer = summary.create_file_writer(str(tmp_path))
    with writer.as_default(), summary.record_summaries_every_n_global_steps(2):
        record = summary.scalar("loss", ax.constant(2.0))
        more = ax.assign_add(step, 1)

    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        for _ in range(4):
            await session.run(record)
            await session.run(more)
        await session.run(writer.close())
    assert await written(tmp_path) == [(0, "loss"), (2, "loss")]


async def test_without_a_file_nothing_is_written():
    writer = summary.create_file_writer(None)
    with summary.always_record_summaries():
        alone = summary.scalar("loss", ax.constant(2.0))
        with writer.as_default():
            nothing = summary.scalar("loss", ax.constant(2.0))
            assert summary.should_record_summaries() is True

    async with ax.Session() as session:
        await session.run([alone, nothing, writer.flush(), writer.close(), summary.flush()])
    assert summary.all_summary_ops() == []
    assert summary.should_record_summaries() is False


async def test_a_graph_is_recorded(tmp_path: Path, graph: Any):
    writer = summary.create_file_writer(str(tmp_path))
    ax.constant(np.float32(1.0), name="only")
    async with ax.Session() as session:
        with writer.as_default():
            await summary.initialize(graph, session)
        await session.run(writer.close())

    def read() -> list[Any]:
        (path,) = tmp_path.glob("events*.v2")
        return [event for event in ax.train.summary_iterator(str(path)) if event.graph_def]

    (event,) = await asyncio.to_thread(read)
    assert "only" in [node.name for node in ax.GraphDef.FromString(event.graph_def).node]
