"""Calls to a server in the same process and loop: the handler runs in the caller's own task, without copies.

Such a call costs no task and no loop iteration beyond those of the handler, and cancellation or timeout of the caller cancels
the handler directly. Requests and replies are passed by reference and belong to the receiver: the sender must not change them
afterwards.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakKeyDictionary

from aioexec.distributed.transport.status import error_from, message_of
from aioexec.distributed.transport.transport import Call, Channel, Handlers, Listener, Payload
from aioexec.errors import DeadlineExceededError, UnavailableError, UnimplementedError, from_exception

PeerGone = Callable[[str], None]

_peers = itertools.count(1)


class _Places:
    """The listeners of one loop by address. `waiting` are the calls to addresses without a listener."""

    def __init__(self) -> None:
        self.listeners: dict[str, LocalListener] = {}
        self.waiting: dict[str, list[asyncio.Future[None]]] = {}


_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _Places] = WeakKeyDictionary()


def _places() -> _Places:
    loop = asyncio.get_running_loop()
    places = _loops.get(loop)
    if places is None:
        places = _loops[loop] = _Places()
    return places


class LocalListener(Listener):
    """Serves an address in this loop.

    Constant: `handlers`, by method; `on_peer_gone`, called with the `Call.peer` of a channel that was closed or dropped.
    Changing: `_calls`, the calls under way.
    """

    def __init__(self, address: str, handlers: Handlers, on_peer_gone: PeerGone | None = None) -> None:
        self.address = address
        self.handlers = handlers
        self.on_peer_gone = on_peer_gone
        self._calls: set[_Running] = set()
        self._quiet: asyncio.Future[None] | None = None  # done when no call is left; None without waiters

    async def start(self) -> None:
        self.serve()

    def serve(self) -> None:
        """Begin to take calls.

        Raises:
            UnavailableError: the address is in use.
        """
        places = _places()
        if places.listeners.setdefault(self.address, self) is not self:
            raise UnavailableError(f"cannot listen at {self.address}: a server of this process does")
        for waiting in places.waiting.pop(self.address, ()):
            if not waiting.done():
                waiting.set_result(None)

    def refuse(self) -> None:
        """Stop taking calls; those under way go on."""
        places = _places()
        if places.listeners.get(self.address) is self:
            del places.listeners[self.address]

    async def stop(self, grace: float | None = None) -> None:
        self.refuse()
        try:
            async with asyncio.timeout(grace or 0):
                await self._wait_until_quiet()
        except TimeoutError:
            for call in list(self._calls):
                call.cancel_handler()
            await self._wait_until_quiet()

    async def _wait_until_quiet(self) -> None:
        while self._calls:
            if self._quiet is None:
                self._quiet = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._quiet)

    def on_call_begun(self, call: _Running) -> None:
        self._calls.add(call)

    def on_call_ended(self, call: _Running) -> None:
        self._calls.discard(call)
        if not self._calls and self._quiet is not None:
            self._quiet.set_result(None)
            self._quiet = None


class _Running:
    """A call under way. While `_is_lost`, one cancellation of its task was requested by the server, not by the caller."""

    def __init__(self, task: asyncio.Task[object]) -> None:
        self._task = task
        self._before = task.cancelling()  # cancellations of the task that were requested before the call
        self._is_lost = False

    def cancel_handler(self) -> None:
        """Cancel the handler because its server ends."""
        if not self._is_lost:
            self._is_lost = True
            self._task.cancel()

    def uncancel(self) -> bool:
        """Take back the server's cancellation of the task, if there is one; returns whether it was the only one."""
        if not self._is_lost:
            return False
        self._is_lost = False
        return self._task.uncancel() <= self._before


class LocalChannel(Channel):
    """Calls to the listener at an address of this loop.

    Changing: `_under_way`, its calls, which `close` cancels; `_served_by`, the listener of the latest call, None before it.
    """

    _served_by: LocalListener | None = None

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._peer = f"local:{next(_peers)}"  # identifies this channel for handlers
        self._loop = asyncio.get_running_loop()
        self._places = _places()  # of the loop the channel belongs to
        self._under_way: set[_Running] = set()
        self._is_closed = False  # set by `close`, never reset

    async def call(
        self, method: str, request: Payload, timeout: float | None = None, *, wait_for_ready: bool = False
    ) -> Payload:
        if timeout is None:
            return await self._call(method, request, None, wait_for_ready)
        deadline = asyncio.get_running_loop().time() + timeout
        try:
            async with asyncio.timeout_at(deadline):
                return await self._call(method, request, deadline, wait_for_ready)
        except TimeoutError:
            raise DeadlineExceededError(
                f"{method} at {self.address}: no reply within {timeout:g} s"
            ) from None

    async def _call(
        self, method: str, request: Payload, deadline: float | None, wait_for_ready: bool
    ) -> Payload:
        task = asyncio.current_task()
        assert task is not None
        running = _Running(task)
        self._under_way.add(running)
        listener: LocalListener | None = None
        try:
            listener = await self._find_listener(wait_for_ready)
            handler = listener.handlers.get(method)
            if handler is None:
                raise UnimplementedError(f"{method} is not served at {self.address}")
            listener.on_call_begun(running)
            return await handler(request, Call(self._peer, deadline))
        except asyncio.CancelledError:
            if not running.uncancel():
                raise
            raise UnavailableError(f"the connection to {self.address} was lost during {method}") from None
        except Exception as error:
            failed = from_exception(error)
            raise error_from(failed.error_code, message_of(failed), failed.payloads) from error
        finally:
            running.uncancel()  # the handler ended otherwise
            self._under_way.discard(running)
            if listener is not None:
                listener.on_call_ended(running)

    async def _find_listener(self, wait_for_ready: bool) -> LocalListener:
        while not self._is_closed:
            listener = self._places.listeners.get(self.address)
            if listener is not None:
                self._served_by = listener
                return listener
            if not wait_for_ready:
                raise UnavailableError(f"no listener at {self.address}")
            await self._wait_until_served()
        raise UnavailableError(f"the channel to {self.address} was closed")

    async def _wait_until_served(self) -> None:
        waiting = asyncio.get_running_loop().create_future()
        others = self._places.waiting.setdefault(self.address, [])
        others.append(waiting)
        try:
            await waiting
        finally:
            with suppress(ValueError):
                others.remove(waiting)

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        for call in list(self._under_way):
            call.cancel_handler()
        served_by, self._served_by = self._served_by, None
        if served_by is not None and served_by.on_peer_gone is not None:
            served_by.on_peer_gone(self._peer)

    def __del__(self) -> None:
        """Notify the listener that this channel makes no more calls. May run in any thread."""
        served_by = self._served_by
        if served_by is not None and served_by.on_peer_gone is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(served_by.on_peer_gone, self._peer)


def serve_locally(address: str, handlers: Handlers, on_peer_gone: PeerGone | None = None) -> LocalListener:
    """Serve an address to the running loop, from now on.

    Raises:
        UnavailableError: the address is in use.
    """
    listener = LocalListener(address, handlers, on_peer_gone)
    listener.serve()
    return listener


async def stop_locally(address: str, grace: float | None = None) -> None:
    """Stop serving an address: wait `grace` seconds for the calls under way, then cancel them."""
    listener = _places().listeners.get(address)
    if listener is not None:
        await listener.stop(grace)


def local_channel(address: str) -> LocalChannel | None:
    """A channel to a server of this process and loop, or None if none serves this address."""
    return LocalChannel(address) if address in _places().listeners else None
