"""A gRPC server whose accepts outlive the tasks that wait for them.

`grpc.aio` keeps the memory that the core fills for the next call in the coroutine that waits for it. If that coroutine is
cancelled, as `asyncio.run` does with every task at its end, the memory is freed while the core still has its address, and zeros
are written there when the server shuts down or is dropped: into whatever Python object lies there by
then.

So here a cancellation does not reach an accept: it ends when a call comes or the server is stopped. `GrpcListener` stops its
server while the loop still runs, also when every task of the loop is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from grpc._cython import cygrpc
from grpc.aio._server import Server


class _Core(cygrpc.AioServer):  # type: ignore[misc]  # grpc has no types
    async def _request_call(self) -> Any:
        """Wait for a call, or for the failure with which the core answers a server that shuts down."""
        accept: Coroutine[Any, Any, Any] = super()._request_call()
        answered: asyncio.Future[None] = accept.send(None)  # it waits once, for the core
        answered._asyncio_future_blocking = False
        cancelled = None
        while not answered.done():
            try:
                await asyncio.wait([answered])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            answered.exception()  # or asyncio reports it as never retrieved
            raise cancelled
        answered.result()
        try:
            accept.send(None)
        except StopIteration as end:
            return end.value
        raise AssertionError("an accept waits once")


class AcceptingServer(Server):  # type: ignore[misc]
    """What `grpc.aio.server(options=…)` makes, with safe accepts."""

    def __init__(self, options: tuple[tuple[str, int], ...]) -> None:
        super().__init__(None, (), (), options, None, None)
        self._server = _Core(self._loop, None, (), (), options, None)

    def __del__(self) -> None:
        """The loop may be closed: `GrpcListener` stops its server in time."""
