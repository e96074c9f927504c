"""The interface between the services of processes and the transports that carry their messages.

Masters, workers and sessions communicate by *calls*: a method of TensorFlow's services, a request, a reply. A `Transport` makes
`Channel`s, over which calls are made, and `Listener`s, which pass calls to *handlers*. Code above this interface is independent
of gRPC, sockets and clocks other than the loop's; code below it is independent of graphs.

A request or reply is a `Payload`: the message, and beside it the tensors that belong into it (see `methods`). A transport
that can move tensors without protobuf does so; the others put them into the message.

Guarantees of every implementation:

- The handler runs at most once for a call. Whether it has run is unknown after `UnavailableError` and `DeadlineExceededError`.
- Cancelling a call, its timeout and the loss of the connection cancel the handler's task on the other side.
- Errors of a handler arrive as the OpError of the same code, with its message; see `status`.
"""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from aioexec.data_classes import dataclass
from aioexec.errors import OpError, UnimplementedError


@dataclass(slots=True)  # not frozen, which triples what it takes to make one, and every message is one
class Payload:
    """A message, and the tensors that belong into it, in the order in which `methods` finds their places.

    Attributes:
        message: of the class that `methods.METHODS` says.
        tensors: arrays; what is no array (a resource handle, a variant) stays in the message, and None stands here.
    """

    message: Any
    tensors: Sequence[Any] = ()


Notify = Callable[[Payload], None]

NOTIFICATION_BYTES = 1 << 16
"""The most bytes that a tensor of a notification may have."""


@dataclass(slots=True)
class Call:
    """The properties of a call that a handler gets beside its request.

    Attributes:
        peer: identifies the caller's connection: one text for all calls over it, different for each connection.
        deadline: of the caller, on the loop's clock, or None. The transport cancels the handler then.
        notify: sends the caller a notification before the reply, without waiting; None if the transport cannot. It is
            small (`NOTIFICATION_BYTES`), dropped if the caller does not follow, and arrives once unless the call is lost;
            notifications may overtake each other.
    """

    peer: str
    deadline: float | None = None
    notify: Notify | None = None


Handler = Callable[[Payload, Call], Awaitable[Payload]]
Handlers = Mapping[str, Handler]
"""By method, "MasterService/RunStep"; what is missing is unimplemented."""


Answered = Callable[["Payload | OpError"], None]
"""Called once, with the reply of a call or its error."""


class Posted(Protocol):
    """A call under way whose result goes to a callback instead of an awaiting task."""

    def cancel(self) -> None:
        """Cancel it like a `Channel.call`; the callback is not called any more."""
        ...


class Channel(abc.ABC):
    """Calls to one peer. It connects at the first call, and again after the peer was away."""

    def __init__(self, address: str) -> None:
        self.address = address

    @abc.abstractmethod
    async def call(
        self, method: str, request: Payload, timeout: float | None = None, *, wait_for_ready: bool = False
    ) -> Payload:
        """Make a call, and wait for its reply; cancelling this cancels the handler.

        Args:
            timeout: seconds, None for none.
            wait_for_ready: wait for a peer that is not there, instead of failing.

        Raises:
            UnavailableError: the peer cannot be reached, or was lost while the call was under way.
            DeadlineExceededError: no reply within `timeout`.
            OpError: of the handler.
        """

    def post(self, method: str, request: Payload, answered: Answered) -> Posted | None:
        """Make a call that needs no task: when this returns it was sent, and `answered` is called later, in the turn of
        the loop in which the reply comes. None: the channel cannot do so now, and nothing was sent; use `call`.
        """
        return None

    async def follow(self, method: str, request: Payload, notify: Notify) -> None:
        """Make a call for the notifications of its handler; it lasts until the handler ends, or `notify` raises.

        Raises:
            UnimplementedError: this way has only requests and replies.
            UnavailableError: the peer was lost.
            OpError: of the handler.
        """
        raise UnimplementedError(f"{method}: this channel carries no notifications, to {self.address}")

    @abc.abstractmethod
    async def close(self) -> None:
        """Cancel what is under way and give the connection back; closing twice is fine."""


class Listener(abc.ABC):
    """Takes calls at an address, and hands them to handlers; each call is a task."""

    address: str
    """The address it listens at, "host:port", with the assigned port if it was made with port 0. Known once it was made."""

    @abc.abstractmethod
    async def start(self) -> None:
        """Take calls from now on.

        Raises:
            UnavailableError: the address cannot be listened at.
        """

    def drain(self) -> None:  # noqa: B027  # a transport without health checks has nothing to do
        """Have health checks say that this ends, where there are any; calls are taken still."""

    @abc.abstractmethod
    async def stop(self, grace: float | None = None) -> None:
        """Take no more calls, wait for those under way, cancel what is left after `grace` seconds (None: at once); the port
        is free then. Stopping twice is fine."""


class Transport(abc.ABC):
    """A way for calls to travel."""

    @abc.abstractmethod
    def channel(self, address: str) -> Channel:
        """A new channel to "host:port"; the caller closes it."""

    @abc.abstractmethod
    def listener(
        self, address: str, handlers: Handlers, on_peer_gone: Callable[[str], None] | None = None
    ) -> Listener:
        """A listener at "host:port" (port 0: any that is free), which takes calls once it was started.

        Args:
            on_peer_gone: called with a `Call.peer` that will make no more calls, where the transport can know it.

        Raises:
            UnavailableError: the address cannot be listened at.
            FailedPreconditionError: listening there would be insecure.
        """
