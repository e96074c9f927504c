"""Common parts of hook tests: a graph that counts steps, loops over it, writers that record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import aioexec as ax
from aioexec import train
from aioexec.train.hooks.file_writer_cache import FileWriterCache
from aioexec.train.off_loop import off_loop


@dataclass(frozen=True)
class Model:
    """`train_op` adds 1 to `weight` and to the global step; `by` is how much the step advances, 1 unless fed."""

    graph: Any
    global_step: Any
    weight: Any
    by: Any
    train_op: Any


@pytest.fixture
def model() -> Iterator[Model]:
    with ax.Graph().as_default() as graph:
        global_step = train.get_or_create_global_step()
        weight = ax.Variable(0.0, name="weight")
        by = ax.placeholder_with_default(ax.constant(1, ax.int64), [], name="by")
        train_op = ax.group(ax.assign_add(weight, 1.0), ax.assign_add(global_step, by))
        yield Model(graph, global_step, weight, by, train_op)


@pytest_asyncio.fixture
async def folder(tmp_path: Path) -> AsyncIterator[str]:
    """A directory for checkpoints and event files; writers opened there are closed."""
    yield str(tmp_path)
    await FileWriterCache.clear()


async def trained(
    model: Model, hooks: Iterable[Any], steps: int, seconds: float = 0.0, by: Iterable[int] = ()
) -> int:
    """Train until a hook asks to stop, or for so many steps, `seconds` each; return how many there were."""
    advances = iter(by)
    async with train.MonitoredSession(hooks=hooks) as session:
        for done in range(steps):
            if session.should_stop():
                return done
            advance = next(advances, None)
            await session.run(model.train_op, None if advance is None else {model.by: advance})
            await asyncio.sleep(seconds)
    return steps


@dataclass
class RememberingWriter:
    """Stands for a FileWriter: remembers what it is given."""

    events: list[tuple[str, Any, int | None]] = field(default_factory=list)
    flushes: int = 0

    def add_summary(self, summary: Any, global_step: int | None = None) -> None:
        self.events.append(("summary", summary, global_step))

    def add_session_log(self, session_log: Any, global_step: int | None = None) -> None:
        self.events.append(("session_log", session_log, global_step))

    async def flush(self) -> None:
        self.flushes += 1

    def steps(self, kind: str) -> list[int | None]:
        return [step for each, _, step in self.events if each == kind]


async def events_in(folder: str) -> list[Any]:
    """The events in the one event file of a directory, all writers closed."""
    await FileWriterCache.clear()
    return await off_loop(_events_in, folder)


def _events_in(folder: str) -> list[Any]:
    (path,) = Path(folder).glob("events.out.tfevents.*")
    return list(train.summary_iterator(str(path)))
