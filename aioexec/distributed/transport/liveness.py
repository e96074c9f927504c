"""Detection of an unresponsive peer, which neither replies nor closes its connections, so that calls to it would never end.

While calls to a peer are under way, it is pinged periodically by a request for its status. Any peer replies to that,
TensorFlow's too, and any reply counts. The duration of a call does not matter. If a ping is not answered within the timeout,
all calls under way fail; the next call tries again.

The timeout is counted in small pieces, each of which counts as its length however late its timer fires: a loop that was blocked
for a minute has read nothing during it, which is no evidence about the peer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from aioexec.distributed.transport.methods import METHODS
from aioexec.distributed.transport.settings import Liveness
from aioexec.distributed.transport.status import SILENT, with_payload
from aioexec.distributed.transport.transport import (
    Answered,
    Channel,
    Handlers,
    Listener,
    Notify,
    Payload,
    Posted,
    Transport,
)
from aioexec.errors import OpError, UnavailableError

_STATUS: Final = "WorkerService/GetStatus"
_LOOKS: Final = 20
"""Pieces of the timeout; between two of them the loop processes received data."""


def watch_channel(channel: Channel, liveness: Liveness) -> Channel:
    """Wrap a channel to fail calls to an unresponsive peer; closing the wrapper closes the channel."""
    return _WatchedChannel(channel, liveness)


class _WatchedChannel(Channel):
    """Pings while calls are under way.

    Constant: `_channel`, over which calls and pings are made; `_liveness`, the interval of pings and their timeout.
    `_under_way` are the calls, each with a method to end it. `_timer` is set while the first ping is scheduled, `_watching`
    while pings are sent: never both, and one of them whenever a call is under way.
    """

    def __init__(self, channel: Channel, liveness: Liveness) -> None:
        super().__init__(channel.address)
        self._channel = channel
        self._liveness = liveness
        self._under_way: dict[_Awaited | _Posted, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._watching: asyncio.Task[None] | None = None

    async def call(
        self, method: str, request: Payload, timeout: float | None = None, *, wait_for_ready: bool = False
    ) -> Payload:
        if timeout is None and not wait_for_ready:
            answer: asyncio.Future[Payload] = asyncio.get_running_loop().create_future()
            posted = self.post(method, request, partial(_settle, answer))
            if posted is not None:
                return await _await_posted(answer, posted)
        awaited = _Awaited(asyncio.timeout(None))
        try:
            async with awaited.silence:
                self._begin(awaited)
                return await self._channel.call(method, request, timeout, wait_for_ready=wait_for_ready)
        except TimeoutError:
            raise self._silent_error() from None
        finally:
            del self._under_way[awaited]

    def post(self, method: str, request: Payload, answered: Answered) -> Posted | None:
        posted = _Posted(answered, self._under_way)
        call = self._channel.post(method, request, posted.on_reply)
        if call is None:
            return None
        posted.call = call
        self._begin(posted)
        return posted

    def _begin(self, call: _Awaited | _Posted) -> None:
        self._under_way[call] = None
        if self._timer is None and self._watching is None:
            self._timer = asyncio.get_running_loop().call_later(self._liveness.interval, self._begin_watching)

    def _silent_error(self) -> OpError:
        silent = UnavailableError(f"{self.address} has not answered for {self._liveness.timeout} s")
        return with_payload(silent, SILENT)

    async def follow(self, method: str, request: Payload, notify: Notify) -> None:
        """Not watched, since the call is long-lived; other calls detect an unresponsive peer."""
        await self._channel.follow(method, request, notify)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            if self._watching is not None:
                self._watching.cancel()
                await asyncio.wait({self._watching})
        finally:
            await self._channel.close()

    def _begin_watching(self) -> None:
        """Begin to ping; calls that end within the first interval cost neither a ping nor a task."""
        self._timer = None
        if self._under_way:
            self._watching = asyncio.get_running_loop().create_task(
                self._watch(), name=f"liveness of {self.address}"
            )

    async def _watch(self) -> None:
        try:
            while self._under_way:
                await self._ping()
                await asyncio.sleep(self._liveness.interval)
        finally:
            self._watching = None

    async def _ping(self) -> None:
        """Ping once, and fail all calls if no reply comes."""
        answer = asyncio.ensure_future(self._request_status())
        try:
            for _ in range(_LOOKS):
                await asyncio.wait({answer}, timeout=self._liveness.timeout / _LOOKS)
                if answer.done() or not self._under_way:
                    return
            for call in list(self._under_way):
                call.end(self._silent_error())
        finally:
            answer.cancel()
            await asyncio.wait({answer})

    async def _request_status(self) -> None:
        try:
            await self._channel.call(_STATUS, Payload(METHODS[_STATUS].request()))
        except OpError:
            return  # a reply, or a lost connection, which the calls notice themselves


class _Awaited:
    """A call that a task awaits."""

    __slots__ = ("silence",)

    def __init__(self, silence: asyncio.Timeout) -> None:
        self.silence = silence  # expires when the peer counts as unresponsive

    def end(self, error: OpError) -> None:
        self.silence.reschedule(asyncio.get_running_loop().time())


class _Posted:
    """A call whose result goes to a callback; it is in `_under_way` until it is over."""

    __slots__ = ("_answered", "_under_way", "call")

    def __init__(self, answered: Answered, under_way: dict[_Awaited | _Posted, None]) -> None:
        self._answered = answered  # the caller's callback
        self._under_way = under_way
        self.call: Posted | None = None  # of the wrapped channel, once it was made

    def on_reply(self, reply: Payload | OpError) -> None:
        self._under_way.pop(self, None)
        self._answered(reply)

    def cancel(self) -> None:
        self._under_way.pop(self, None)
        if self.call is not None:
            self.call.cancel()

    def end(self, error: OpError) -> None:
        self.cancel()
        self._answered(error)


def _settle(answer: asyncio.Future[Payload], reply: Payload | OpError) -> None:
    if answer.done():  # cancelled, which the caller is about to see
        return
    if isinstance(reply, Payload):
        answer.set_result(reply)
    else:
        answer.set_exception(reply)


async def _await_posted(answer: asyncio.Future[Payload], posted: Posted) -> Payload:
    try:
        return await answer
    except asyncio.CancelledError:
        posted.cancel()
        raise


class Watched(Transport):
    """Wraps a transport: its channels are watched, with the intervals of `liveness`."""

    def __init__(self, transport: Transport, liveness: Liveness) -> None:
        self._transport = transport
        self._liveness = liveness

    def channel(self, address: str) -> Channel:
        return watch_channel(self._transport.channel(address), self._liveness)

    def listener(
        self, address: str, handlers: Handlers, on_peer_gone: Callable[[str], None] | None = None
    ) -> Listener:
        return self._transport.listener(address, handlers, on_peer_gone)
