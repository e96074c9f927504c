"""Calls between peers in one event loop, on its clock: for tests and simulations of whole clusters.

A `MemoryNetwork` connects *hosts* by name; a program on a host makes its channels and listeners with a `MemoryTransport` of it.

- A killed host is gone for all its transports; a transport made later belongs to a new life under the same name.
- A frozen host is silent: messages from and to it wait until it thaws. Its own timers run on.
- A lost message breaks its connection `give_up` seconds later, like TCP after its retransmissions: no stream has holes.
- A notification that arrives after the reply is dropped.
- A repeated request reaches the handler again if it carries a request id, by which the handler must recognise it; the
  connection drops other repetitions.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from aioexec.distributed.transport.answers import PostedCall
from aioexec.distributed.transport.memory.network import (
    HostListener,
    Kind,
    Life,
    MemoryNetwork,
    Message,
    copied,
    host_of,
)
from aioexec.distributed.transport.status import error_from, message_of
from aioexec.distributed.transport.transport import (
    NOTIFICATION_BYTES,
    Answered,
    Call,
    Channel,
    Handlers,
    Listener,
    Notify,
    Payload,
    Posted,
    Transport,
)
from aioexec.errors import (
    CancelledError,
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
    OpError,
    UnavailableError,
    UnimplementedError,
    from_exception,
)


class _Refused(UnavailableError):
    """No listener is at the address; a call with `wait_for_ready` tries again."""


class Connection:
    """Both ends of a channel's connection to an address.

    Constant: `peer` (its name), `_network`, `_client`, `_address`.

    Changing: `broken` is the reason why the caller's end was closed, or None; `_waiting` holds the futures of the calls under
    way, `_followed` the callbacks for notifications of calls, each with the numbers of the messages received. `_listener` is
    the one that took the first request, and has closed its end once `_has_hung_up`; `_handled` holds its tasks by call, None
    for a call that was cancelled.
    """

    def __init__(self, network: MemoryNetwork, client: Life, address: str) -> None:
        self.peer = network.name_connection(client.host)
        self.broken: str | None = None
        self._network = network
        self._client = client
        self._address = address
        self._host = host_of(address)  # of the address
        self._listener: HostListener | None = None
        self._has_hung_up = False
        self._calls = 0
        self._waiting: dict[int, asyncio.Future[Payload] | _PostedCall] = {}
        self._followed: dict[int, tuple[Notify, set[int]]] = {}
        self._handled: dict[int, list[asyncio.Task[None]] | None] = {}
        client.connections[self] = None

    # The caller's end

    async def call(
        self, method: str, request: Payload, deadline: float | None, notify: Notify | None = None
    ) -> Payload:
        """Send a request, wait for its reply."""
        reply: asyncio.Future[Payload] = asyncio.get_running_loop().create_future()
        number = self._send_request(method, request, deadline, reply)
        if notify is not None:
            self._followed[number] = notify, set()
        try:
            return _placed(await reply, request)
        finally:
            self._followed.pop(number, None)
            self.withdraw(method, number)

    def post(self, method: str, request: Payload, answered: Answered) -> Posted:
        """Send a request whose reply goes to a callback."""
        posted = _PostedCall(self, method, request, answered)
        posted.number = self._send_request(method, request, None, posted)
        return posted

    def _send_request(
        self,
        method: str,
        request: Payload,
        deadline: float | None,
        reply: asyncio.Future[Payload] | _PostedCall,
    ) -> int:
        content = copied(request, method, is_reply=False)
        self._calls += 1
        self._waiting[self._calls] = reply
        self._say("request", method, self._calls, content, deadline)
        return self._calls

    def withdraw(self, method: str, number: int) -> None:
        """Cancel a call: its reply is no longer wanted."""
        if self._waiting.pop(number, None) is not None and self.broken is None:
            self._say("cancel", method, number)

    def close(self) -> None:
        """Close the caller's end; a message closes the other."""
        self._end(f"the channel to {self._address} was closed")
        if not self._client.is_dead:
            self._say("close")

    def _say(
        self, kind: Kind, method: str = "", call: int = 0, content: Any = None, deadline: float | None = None
    ) -> None:
        self._network.send(self, kind, self._client.host, self._host, method, call, content, deadline)

    def _on_reply(self, message: Message) -> None:
        reply = self._waiting.pop(message.call, None)
        if reply is None or reply.done():
            return
        if message.kind == "reply":
            reply.set_result(message.content)
        else:
            reply.set_exception(message.content)

    def _on_notification(self, message: Message) -> None:
        notify, seen = self._followed.get(message.call, (None, set()))
        if notify is None or message.number in seen:
            return
        seen.add(message.number)
        try:
            notify(message.content)
        except Exception as error:
            del self._followed[message.call]
            reply = self._waiting.pop(message.call, None)
            if reply is not None:
                reply.set_exception(from_exception(error))
                self._say("cancel", message.method, message.call)

    def _end(self, reason: str) -> None:
        if self.broken is not None:
            return
        self.broken = reason
        self._client.connections.pop(self, None)
        waiting, self._waiting = self._waiting, {}
        for reply in waiting.values():
            if not reply.done():
                reply.set_exception(UnavailableError(reason))

    # Both ends

    def on_message(self, message: Message) -> None:
        """Handle a message that has arrived at one end."""
        match message.kind:
            case "close":
                self.hang_up()
            case "closed":
                self._end(message.content)
            case _ if self.broken is not None:
                return
            case "request":
                self._begin(message)
            case "cancel":
                self._cancel(message.call)
            case "notification":
                self._on_notification(message)
            case _:
                self._on_reply(message)

    def break_off(self, reason: str) -> None:
        """Break the connection for both ends at once."""
        if self.broken is None:
            self._network.note(f"break {self.peer}")
        self._end(reason)
        self.hang_up()

    # The listener's end

    def dismiss(self, reason: str) -> None:
        """Close the listener's end, after its messages in transit; a message closes the caller's."""
        self.hang_up()
        if self.broken is None:
            self._network.send(self, "closed", self._host, self._client.host, content=reason)

    def hang_up(self) -> None:
        """Refuse further requests, and cancel those under way."""
        self._has_hung_up = True
        handled, self._handled = self._handled, {}
        for tasks in handled.values():
            for task in tasks or ():
                task.cancel()
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.on_connection_lost(self)

    def _begin(self, message: Message) -> None:
        """Start the handler of a request. A repeated one is handled only if it has a request id, and its reply is dropped."""
        listener = self._listener or self._network.listener(self._address)
        if listener is None or not listener.takes_calls or self._has_hung_up:
            self._respond(message, "refused", _Refused(f"no listener at {self._address}"))
            return
        if self._listener is None:
            self._listener = listener
            listener.on_connection_made(self)
        tasks = self._handled.get(message.call, [])
        is_repeated = message.call in self._handled
        if tasks is None or (is_repeated and not _has_request_id(message)):
            return
        task = listener.start_handler(
            self._handle(message, listener.handlers, answers=not is_repeated), message.method
        )
        self._handled[message.call] = [*tasks, task]

    async def _handle(self, message: Message, handlers: Handlers, *, answers: bool) -> None:
        kind: Kind = "error"
        answer: Payload | OpError
        try:
            reply = await self._call_handler(message, handlers)
            kind, answer = "reply", copied(reply, message.method, is_reply=True)
        except TimeoutError:
            answer = DeadlineExceededError("Deadline Exceeded")
        except asyncio.CancelledError:
            if not self._handled.get(message.call):  # the caller has cancelled it
                raise
            answer = CancelledError(f"{message.method} was cancelled at {self._address}")
        except Exception as error:
            failed = from_exception(error)
            answer = error_from(failed.error_code, message_of(failed), failed.payloads)
        if answers:
            self._respond(message, kind, answer)
            self._forget(message.call)

    async def _call_handler(self, message: Message, handlers: Handlers) -> Payload:
        handler = handlers.get(message.method)
        if handler is None:
            raise UnimplementedError(f"{message.method} is not served at {self._address}")
        async with asyncio.timeout_at(message.deadline):
            return await handler(
                message.content, Call(self.peer, message.deadline, partial(self._notify, message))
            )

    def _notify(self, request: Message, payload: Payload) -> None:
        if any(each is not None and each.nbytes > NOTIFICATION_BYTES for each in payload.tensors):
            raise InternalError(
                f"{request.method}: expected at most {NOTIFICATION_BYTES} bytes in a notification"
            )
        self._respond(request, "notification", copied(payload, request.method, is_reply=True))

    def _respond(self, message: Message, kind: Kind, content: Payload | OpError) -> None:
        if self.broken is None and not (self._has_hung_up and kind != "refused"):
            self._network.send(
                self, kind, self._host, self._client.host, message.method, message.call, content
            )

    def _cancel(self, call: int) -> None:
        for task in self._handled.pop(call, None) or ():
            task.cancel()
        if self._network.fate is not None:
            self._handled[call] = None  # its request may still arrive, or arrive again

    def _forget(self, call: int) -> None:
        if self._network.fate is None:  # otherwise its request may arrive again
            self._handled.pop(call, None)


def _placed(reply: Payload, request: Payload) -> Payload:
    """A reply whose large tensors are in the arrays that the request makes for them."""
    if request.allocate is None:
        return reply
    tensors = list(reply.tensors)
    for k, each in enumerate(tensors):
        if each is not None and each.nbytes > NOTIFICATION_BYTES and not each.dtype.hasobject:
            tensors[k] = request.allocate(each.dtype, each.shape)
            tensors[k][...] = each
    return Payload(reply.message, tensors)


class _PostedCall(PostedCall):
    """A call over a `_connection` whose result goes to a callback; `number` is 0 until it was sent."""

    def __init__(self, connection: Connection, method: str, request: Payload, answered: Answered) -> None:
        super().__init__(answered)
        self._request = request
        self.number = 0
        self._connection = connection
        self._method = method  # of the call

    def cancel(self) -> None:
        self.give_up()
        self._connection.withdraw(self._method, self.number)

    def set_result(self, payload: Payload) -> None:
        self.deliver(_placed(payload, self._request))

    def set_exception(self, error: OpError) -> None:
        if self.number:
            self.deliver(error)
        else:  # the connection broke while the request was sent: `post` must return before the callback is called
            asyncio.get_running_loop().call_soon(self.deliver, error)


def _has_request_id(message: Message) -> bool:
    return bool(getattr(message.content.message, "request_id", 0))


class MemoryTransport(Transport):
    """Channels and listeners of one host in a network."""

    def __init__(self, network: MemoryNetwork, host: str) -> None:
        self.network = network
        self.host = host
        self._life = network.live(host)  # the host's life in which this transport was made

    def channel(self, address: str) -> MemoryChannel:
        return MemoryChannel(self.network, self._life, address)

    def listener(
        self, address: str, handlers: Handlers, on_peer_gone: Callable[[str], None] | None = None
    ) -> MemoryListener:
        host, _, port = address.rpartition(":")
        if host != self.host or not port.isdigit():
            raise InvalidArgumentError(f"expected an address of the host {self.host!r}, got {address!r}")
        if port == "0":
            address = f"{host}:{self.network.free_port()}"
        return MemoryListener(self.network, self._life, address, handlers, on_peer_gone)


class MemoryChannel(Channel):
    """A channel in a network; the first call connects it, and the first one after it broke reconnects it."""

    def __init__(self, network: MemoryNetwork, life: Life, address: str) -> None:
        super().__init__(address)
        self._network = network
        self._life = life  # of the host that calls
        self._connection: Connection | None = None  # the latest; it may be broken
        self._is_closed = False  # set by `close`, never reset

    async def call(
        self, method: str, request: Payload, timeout: float | None = None, *, wait_for_ready: bool = False
    ) -> Payload:
        deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
        try:
            async with asyncio.timeout_at(deadline):
                if not wait_for_ready:
                    return await self._connect().call(method, request, deadline)
                while True:
                    connection = self._connect()
                    await self._network.ready(self.address).wait()
                    with contextlib.suppress(_Refused):
                        return await connection.call(method, request, deadline)
        except TimeoutError:
            raise DeadlineExceededError(f"{method} to {self.address}: Deadline Exceeded") from None

    def post(self, method: str, request: Payload, answered: Answered) -> Posted | None:
        try:
            return self._connect().post(method, request, answered)
        except UnavailableError:
            return None

    async def follow(self, method: str, request: Payload, notify: Notify) -> None:
        await self._connect().call(method, request, None, notify)

    def _connect(self) -> Connection:
        if self._is_closed:
            raise UnavailableError(f"the channel to {self.address} was closed")
        if self._life.is_dead:
            raise UnavailableError(f"{self._life.host} was killed and cannot connect")
        if self._connection is None or self._connection.broken is not None:
            self._connection = Connection(self._network, self._life, self.address)
        return self._connection

    async def close(self) -> None:
        self._is_closed = True
        connection, self._connection = self._connection, None
        if connection is not None and connection.broken is None:
            connection.close()


class MemoryListener(Listener):
    """A listener of a host in a network.

    Constant: `address`, with the assigned port; `handlers`, by method; `_on_peer_gone`, called with the `Call.peer` of each
    connection that has ended. Changing: `_connections`, those made to it; `_tasks`, the calls under way, which `stop` awaits.
    """

    def __init__(
        self,
        network: MemoryNetwork,
        life: Life,
        address: str,
        handlers: Handlers,
        on_peer_gone: Callable[[str], None] | None,
    ) -> None:
        self.address = address
        self.handlers = handlers
        self.takes_calls = False  # between `start` and `stop`
        self._network = network
        self._life = life  # of the host that listens
        self._on_peer_gone = on_peer_gone
        self._connections: dict[Connection, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        if self._life.is_dead:
            raise UnavailableError(f"{self._life.host} was killed")
        if self.address in self._life.listeners:
            raise UnavailableError(f"cannot listen at {self.address}: the address is in use")
        self._life.listeners[self.address] = self
        self.takes_calls = True
        self._network.ready(self.address).set()

    async def stop(self, grace: float | None = None) -> None:
        self._stop_taking_calls()
        if self._tasks and grace is not None:
            await asyncio.wait(self._tasks, timeout=grace)
        for connection in list(self._connections):
            connection.dismiss(f"{self.address} was closed")
        if self._tasks:
            await asyncio.wait(self._tasks)

    def abandon(self) -> None:
        """Cancel the calls under way, because the host was killed."""
        self._stop_taking_calls()
        for connection in list(self._connections):
            connection.break_off(f"{self._life.host} was lost")

    def _stop_taking_calls(self) -> None:
        if self.takes_calls:
            self.takes_calls = False
            del self._life.listeners[self.address]
            self._network.ready(self.address).clear()

    def on_connection_made(self, connection: Connection) -> None:
        """Add a connection made to this listener."""
        self._connections[connection] = None

    def on_connection_lost(self, connection: Connection) -> None:
        """Remove a connection that has ended."""
        self._connections.pop(connection, None)
        if self._on_peer_gone is not None and not self._life.is_dead:
            self._on_peer_gone(connection.peer)

    def start_handler(self, handling: Coroutine[Any, Any, None], method: str) -> asyncio.Task[None]:
        """Start the task of a call."""
        task = asyncio.get_running_loop().create_task(handling, name=f"{self.address} {method}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
