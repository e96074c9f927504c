"""A gRPC server whose pending accepts outlive the tasks that await them.

`grpc.aio` keeps the memory that the core fills for the next call in the coroutine that awaits that call. If the coroutine is
cancelled, as `asyncio.run` cancels every task at its end, the memory is freed while the core still has its address: the core
writes to it when the server shuts down, and by then it may belong to another Python object.

Here a cancellation does not reach an accept. An accept ends when a call arrives or when the server shuts down. `GrpcListener`
shuts its server down while the loop still runs, also when the loop cancels every task (see `loop_end`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any

from grpc._cython import cygrpc
from grpc.aio._server import Server


class _Core(cygrpc.AioServer):
    async def _request_call(self) -> Any:
        """Wait for a call, or for the failure that the core reports when the server shuts down."""
        accept: Coroutine[Any, Any, Any] = super()._request_call()
        answered: asyncio.Future[None] = accept.send(None)  # it waits once, for the core
        answered._asyncio_future_blocking = False  # done by a task for the future that its coroutine awaits
        cancelled = await _settle(answered)
        if cancelled is not None:
            answered.exception()  # otherwise asyncio reports it as never retrieved
            raise cancelled
        answered.result()
        try:
            accept.send(None)
        except StopIteration as end:
            return end.value
        raise AssertionError("an accept waits once")


async def _settle(answered: asyncio.Future[None]) -> asyncio.CancelledError | None:
    """Wait until a future is done, and return the last cancellation that came meanwhile; it does not reach the future.

    `asyncio.wait` would do, in twice the time, for each call.
    """
    cancelled = None
    while not answered.done():
        waiter = asyncio.get_running_loop().create_future()
        wake = partial(_wake, waiter)
        answered.add_done_callback(wake)
        try:
            await waiter
        except asyncio.CancelledError as error:
            cancelled = error
        finally:
            answered.remove_done_callback(wake)
    return cancelled


def _wake(waiter: asyncio.Future[None], answered: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class AcceptingServer(Server):
    """The server of `grpc.aio.server(options=…)`, with safe accepts."""

    def __init__(self, options: tuple[tuple[str, int], ...]) -> None:
        # The base class's constructor is not called: it makes a core server, and one that is never shut down is never freed.
        self._loop = cygrpc.get_working_loop()
        self._server = _Core(self._loop, None, (), (), options, None)

    def __del__(self) -> None:
        """Overrides a shutdown on a loop that may be closed; `GrpcListener` has stopped its server by then."""
