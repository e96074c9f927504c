"""Queue runners for the length of a block."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

from aioexec.graph.graph import get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.train.coordination.coordinator import Coordinator

_is_open: ContextVar[bool] = ContextVar("queue_runners_are_open", default=False)


class NestedQueueRunnerError(Exception):
    """A block of `QueueRunners` is inside another one of the same task."""


@contextlib.asynccontextmanager
async def QueueRunners(session: Any) -> AsyncIterator[None]:
    """Run the queue runners of the default graph until the block is left: `async with QueueRunners(session)`.

    Raises:
        NestedQueueRunnerError: the block is inside another one.
    """
    if _is_open.get():
        raise NestedQueueRunnerError("QueueRunners cannot be nested")
    token = _is_open.set(True)
    coordinator = Coordinator()
    threads = [
        thread
        for runner in get_default_graph().get_collection(GraphKeys.QUEUE_RUNNERS)
        for thread in runner.create_threads(session, coord=coordinator, daemon=True, start=True)
    ]
    try:
        yield
    finally:
        _is_open.reset(token)
        coordinator.request_stop()
        await coordinator.join(threads, stop_grace_period_secs=120)
