"""One writer per directory, until the cache is cleared."""

from __future__ import annotations

import asyncio

import pytest

import aioexec as ax
from aioexec.errors import FailedPreconditionError
from aioexec.formats.event_files import summary_iterator
from aioexec.formats.protos import GraphDef, Summary
from aioexec.train.hooks.file_writer_cache import FileWriterCache


async def test_a_directory_has_one_writer_until_the_cache_is_cleared(tmp_path):
    first = FileWriterCache.get(str(tmp_path))
    assert FileWriterCache.get(str(tmp_path)) is first
    assert FileWriterCache.get(str(tmp_path / "other")) is not first

    await FileWriterCache.clear()

    with pytest.warns(UserWarning, match="closed FileWriter"):
        first.add_summary(Summary())
    assert FileWriterCache.get(str(tmp_path)) is not first
    await FileWriterCache.clear()


async def test_a_new_writer_begins_with_the_default_graph(tmp_path):
    with ax.Graph().as_default():
        ax.constant(1.0, name="c")
        FileWriterCache.get(str(tmp_path))
    await FileWriterCache.clear()

    def first_graph() -> GraphDef:
        (path,) = tmp_path.iterdir()
        _, event, *_ = summary_iterator(path)
        return GraphDef.FromString(event.graph_def)

    assert [node.name for node in (await asyncio.to_thread(first_graph)).node] == ["c"]


async def test_all_writers_are_closed_even_if_one_fails(tmp_path):
    (tmp_path / "taken").write_text("")
    writers = [FileWriterCache.get(str(tmp_path / name)) for name in ("taken/a", "fine", "taken/b")]

    with pytest.raises(FailedPreconditionError, match="taken/a"):
        await FileWriterCache.clear()

    for writer in writers:
        with pytest.warns(UserWarning, match="closed FileWriter"):
            writer.add_summary(Summary())
    assert len(list((tmp_path / "fine").iterdir())) == 1
