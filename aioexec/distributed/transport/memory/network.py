"""A simulated network of hosts in one event loop: messages with latency, which may be lost, delayed or repeated.

All communication is by `Message`s, which arrive after `latency` seconds as copies: no two hosts share a message or an array.
`MemoryNetwork.fate` is called for each message, and may lose, delay or repeat it; hosts can be killed and frozen.

The behaviour is deterministic: no randomness, no clock but the loop's, ties in order of sending. `log`, if set, is called with
a line of names and counters for each event.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import field, replace
from typing import Any, Literal, Protocol

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.distributed.transport.methods import METHODS, take_out
from aioexec.distributed.transport.transport import Handlers, Payload

LATENCY: float = 0.0001
"""The default latency, in seconds."""

GIVE_UP: float = 2.0
"""The default time, in seconds, after which a connection with a lost message breaks."""

_MOST_BYTES = 1 << 40

Kind = Literal["request", "notification", "reply", "error", "refused", "cancel", "close", "closed"]
"""The caller sends "request", "cancel" and "close", the listener the others."""

Fate = Sequence[float]
"""Extra seconds for each copy of a message that arrives: (0.0,) is the usual value, () loses it, two numbers repeat it."""

AS_USUAL: Fate = (0.0,)


class Connection(Protocol):
    """The network's interface to a channel's connection, which `peer` names."""

    peer: str

    def on_message(self, message: Message) -> None: ...
    def break_off(self, reason: str) -> None: ...


class HostListener(Protocol):
    """The network's interface to a listener: its `handlers` by method, and whether it `takes_calls`."""

    takes_calls: bool
    handlers: Handlers

    def on_connection_made(self, connection: Any) -> None: ...
    def on_connection_lost(self, connection: Any) -> None: ...
    def start_handler(self, handling: Coroutine[Any, Any, None], method: str) -> asyncio.Task[None]: ...
    def abandon(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Message:
    """A message in transit.

    Attributes:
        number: counts the messages of the network.
        kind: its kind.
        source: the sending host.
        target: the receiving host.
        method: of the call it belongs to, "" for none.
        call: the number of the call within its connection, 0 for none.
        content: a Payload, or an OpError, or None.
        deadline: of the call, on the loop's clock.
    """

    number: int
    kind: Kind
    source: str
    target: str
    connection: Connection
    method: str = ""
    call: int = 0
    content: Any = None
    deadline: float | None = None

    def __str__(self) -> str:
        about = f" {self.method}" if self.method else ""
        return f"{self.source} > {self.target} {self.kind}{about} {self.connection.peer}#{self.call}"


@dataclass(eq=False, slots=True)
class Life:
    """A host from its first transport until it is killed: its listeners by address, and the connections it has made."""

    host: str
    is_dead: bool = False  # since the host was killed
    listeners: dict[str, HostListener] = field(default_factory=dict)
    connections: dict[Connection, None] = field(default_factory=dict)


class MemoryNetwork:
    """Hosts that exchange messages; belongs to one event loop.

    Attributes:
        latency: seconds a message takes.
        give_up: seconds after which a connection with a lost message breaks.
        fate: decides over each message when it is sent; None: all arrive as usual.
        log: called with the text of each event.
    """

    def __init__(self, latency: float = LATENCY, give_up: float = GIVE_UP) -> None:
        self.latency = latency
        self.give_up = give_up
        self.fate: Callable[[Message], Fate] | None = None
        self.log: Callable[[str], None] | None = None
        self._lives: dict[str, Life] = {}  # by name, the hosts that are alive
        self._frozen: dict[str, list[Message]] = {}  # messages held for a frozen host
        self._on_their_way: list[tuple[float, int, Message]] = []  # a heap; ties in order of `_sent`
        self._sent = 0  # the number of messages so far
        self._copies = 0  # the number of copies sent so far, which orders simultaneous ones
        self._connections: dict[str, int] = {}  # the number of connections a host has made
        self._ports = 0  # the number of ports given so far
        self._ready: dict[str, asyncio.Event] = {}  # set while an address has a listener

    # Hosts

    def is_alive(self, host: str) -> bool:
        """Whether a transport of this host can be used."""
        return host in self._lives

    def kill(self, host: str) -> None:
        """Kill a host: calls from and to it fail, its handlers are cancelled, messages in transit are dropped."""
        life = self._lives.pop(host, None)
        if life is None:
            return
        self.note(f"kill {host}")
        held = self._frozen.pop(host, ())
        life.is_dead = True
        for message in held:
            message.connection.break_off(f"{host} was lost")
        for connection in list(life.connections):
            connection.break_off(f"{host} was lost")
        for listener in list(life.listeners.values()):
            listener.abandon()

    def freeze(self, host: str) -> None:
        """Hold all messages from and to a host."""
        self.note(f"freeze {host}")
        self._frozen.setdefault(host, [])

    def thaw(self, host: str) -> None:
        """Deliver the held messages of a host, in order, and stop holding."""
        held = self._frozen.pop(host, None)
        if held is None:
            return
        self.note(f"thaw {host}")
        for message in held:
            self._arrive(message)

    def note(self, event: str) -> None:
        """Add an event to the log."""
        if self.log is not None:
            self.log(event)

    def live(self, host: str) -> Life:
        """The current life of a host; a new one if it has none."""
        return self._lives.setdefault(host, Life(host))

    def name_connection(self, host: str) -> str:
        """A name for a connection made by a host."""
        number = self._connections[host] = self._connections.get(host, 0) + 1
        return f"{host}/{number}"

    # Addresses

    def free_port(self) -> int:
        """A port that was not used before."""
        self._ports += 1
        return 49151 + self._ports

    def ready(self, address: str) -> asyncio.Event:
        """An event that is set while an address has a listener."""
        return self._ready.setdefault(address, asyncio.Event())

    def listener(self, address: str) -> HostListener | None:
        """The present listener at an address."""
        life = self._lives.get(host_of(address))
        return None if life is None else life.listeners.get(address)

    # Messages

    def send(
        self,
        connection: Connection,
        kind: Kind,
        source: str,
        target: str,
        method: str = "",
        call: int = 0,
        content: Any = None,
        deadline: float | None = None,
    ) -> None:
        """Send a message, subject to its fate."""
        self._sent += 1
        message = Message(self._sent, kind, source, target, connection, method, call, content, deadline)
        fate = AS_USUAL if self.fate is None else self.fate(message)
        loop = asyncio.get_running_loop()
        self.note(str(message) if tuple(fate) == AS_USUAL else f"{message} {_described(fate)}")
        if not fate:
            loop.call_later(self.give_up, connection.break_off, f"a message to {target} was lost")
        for index, extra in enumerate(fate):
            if index and isinstance(content, Payload):
                message = replace(
                    message, content=copied(content, method, is_reply=kind in ("notification", "reply"))
                )
            self._copies += 1
            when = loop.time() + self.latency + extra
            heapq.heappush(self._on_their_way, (when, self._copies, message))
            loop.call_at(when, self._deliver, when)

    def _deliver(self, until: float) -> None:
        while self._on_their_way and self._on_their_way[0][0] <= until:
            self._arrive(heapq.heappop(self._on_their_way)[2])

    def _arrive(self, message: Message) -> None:
        for host in (message.source, message.target):
            if host in self._frozen:
                self._frozen[host].append(message)
                return
        message.connection.on_message(message)


def host_of(address: str) -> str:
    """The host of "host:port"."""
    return address.rpartition(":")[0]


def _described(fate: Fate) -> str:
    if not fate:
        return "lost"
    return f"after {' and '.join(f'{extra:.6f}' for extra in fate)} s more"


def copied(payload: Payload, method: str, *, is_reply: bool) -> Payload:
    """A deep copy for the receiver. Tensors inside the message are taken out, as by an encoding."""
    described = METHODS[method]
    message = type(payload.message).FromString(payload.message.SerializeToString())
    if payload.tensors:
        return Payload(message, [None if each is None else np.array(each) for each in payload.tensors])
    place = described.received if is_reply else described.sent
    return Payload(message, take_out(message, place, _MOST_BYTES))
