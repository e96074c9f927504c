"""Noticing a peer that has frozen: it neither answers nor closes its connections, so no call to it would ever end.

While calls to a peer are under way, it is asked for its status now and then; any peer answers that, TensorFlow's too, and
whatever it answers, it lives. How long a call takes does not matter. Where nothing comes for long enough, all calls under way
fail; the next one tries again.

Silence is counted in small pieces, each of the same length however late our own loop came to look: a loop that was held for a
minute has heard nothing in it, and that says nothing about the peer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from aioexec.distributed.methods import METHODS
from aioexec.distributed.settings import Liveness
from aioexec.distributed.status import SILENT, with_payload
from aioexec.distributed.transport import Channel, Handlers, Listener, Payload, Tell, Transport
from aioexec.errors import OpError, UnavailableError

_STATUS: Final = "WorkerService/GetStatus"
_LOOKS: Final = 20
"""Pieces of the patience; between two of them the loop gets to what has come."""


def watched(channel: Channel, liveness: Liveness) -> Channel:
    """A channel around another that fails calls to a silent peer; closing it closes the other."""
    return _WatchedChannel(channel, liveness)


class _WatchedChannel(Channel):
    """Pings while calls are under way.

    `_under_way` are the calls, each as what can end it. `_timer` is set while the next look is to come, `_watching` while pings
    are made: never both, and one of them whenever a call is under way.
    """

    def __init__(self, channel: Channel, liveness: Liveness) -> None:
        super().__init__(channel.address)
        self._channel = channel
        self._liveness = liveness
        self._under_way: dict[asyncio.Timeout, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._watching: asyncio.Task[None] | None = None

    async def call(
        self, method: str, request: Payload, timeout: float | None = None, *, wait_for_ready: bool = False
    ) -> Payload:
        if self._timer is None and self._watching is None:
            self._timer = asyncio.get_running_loop().call_later(self._liveness.interval, self._look)
        silence = asyncio.timeout(None)
        try:
            async with silence:
                self._under_way[silence] = None
                return await self._channel.call(method, request, timeout, wait_for_ready=wait_for_ready)
        except TimeoutError:
            silent = UnavailableError(f"{self.address} has not answered for {self._liveness.patience} s")
            raise with_payload(silent, SILENT) from None
        finally:
            del self._under_way[silence]

    async def follow(self, method: str, request: Payload, told: Tell) -> None:
        """Not watched: this lasts, and who waits for something of a silent peer hears of it by other calls."""
        await self._channel.follow(method, request, told)

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

    def _look(self) -> None:
        """Calls that end within an interval cost no ping, and no task."""
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
        """Ask once, and end all calls if nothing comes."""
        answer = asyncio.ensure_future(self._ask())
        try:
            for _ in range(_LOOKS):
                await asyncio.wait({answer}, timeout=self._liveness.patience / _LOOKS)
                if answer.done() or not self._under_way:
                    return
            now = asyncio.get_running_loop().time()
            for call in self._under_way:
                call.reschedule(now)
        finally:
            answer.cancel()
            await asyncio.wait({answer})

    async def _ask(self) -> None:
        try:
            await self._channel.call(_STATUS, Payload(METHODS[_STATUS].request()))
        except OpError:
            return  # an answer, or the connection is lost, which the calls notice themselves


class Watched(Transport):
    """A transport around another, whose channels are watched."""

    def __init__(self, transport: Transport, liveness: Liveness) -> None:
        self._transport = transport
        self._liveness = liveness

    def channel(self, address: str) -> Channel:
        return watched(self._transport.channel(address), self._liveness)

    def listener(
        self, address: str, handlers: Handlers, on_peer_gone: Callable[[str], None] | None = None
    ) -> Listener:
        return self._transport.listener(address, handlers, on_peer_gone)
