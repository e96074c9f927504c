"""Common parts of runtime tests: direct sessions from their factory, without `Session`."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from aioexec.formats.protos import ConfigProto
from aioexec.graph.graph import Graph
from aioexec.sessions import factory
from aioexec.sessions.direct import DirectSession
from aioexec.sessions.options import SessionOptions


def new_direct(config: Any = None, graph: Graph | None = None) -> DirectSession:
    """A direct session; with NumPy kernels by default."""
    config = ConfigProto() if config is None else config
    config.aioexec.jit = config.aioexec.jit or "off"
    session = factory.new_session(SessionOptions.from_config("", config))
    assert isinstance(session, DirectSession)
    if graph is not None:
        session.attach(graph)
    return session


@contextlib.asynccontextmanager
async def direct(config: Any = None, graph: Graph | None = None) -> AsyncIterator[DirectSession]:
    session = new_direct(config, graph)
    try:
        yield session
    finally:
        await session.close(0)
