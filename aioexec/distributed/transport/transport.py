"""The interface between the services of processes and the transports that carry their messages.

Masters, workers and sessions communicate by *calls*: a method of TensorFlow's services, a request, a reply. A `Transport` makes
`Channel`s, over which calls are made, and `Listener`s, which pass calls to *handlers*. Code above this interface is independent
of gRPC, sockets and clocks other than the loop's; code below it is independent of graphs.

A request or reply is a `Payload`: the message, and its tensors beside it (see `methods`). A transport that can send tensors
without protobuf does so; the others put them into the message.

Guarantees of every implementation:

- The handler runs at most once for a call. Whether it has run is unknown after `UnavailableError` and `DeadlineExceededError`.
- Cancelling a call, its timeout and the loss of the connection cancel the handler's task on the other side.
- Errors of a handler arrive as the OpError of the same code, with its message; see `status`.
"""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.errors import OpError, UnimplementedError

Allocate = Callable[[np.dtype[Any], tuple[int, ...]], "np.ndarray[Any, Any]"]
"""Makes an array of a dtype and a shape, with any content."""


@dataclass(slots=True)  # not frozen: construction would take three times as long
class Payload:
    """A message and its tensors, in the order of their places in `methods`.

    Attributes:
        message: of the class given by `methods.METHODS`.
        tensors: arrays; None for a tensor that stays in the message (a resource handle, a variant).
        allocate: of a request: makes the arrays for large tensors of the reply; a transport may ignore it.
    """

    message: Any
    tensors: Sequence[Any] = ()
    allocate: Allocate | None = None


Notify = Callable[[Payload], None]

NOTIFICATION_BYTES = 1 << 16
"""The most bytes that a tensor of a notification may have."""


@dataclass(slots=True)
class Call:
    """The properties of a call for its handler, besides the request.

    Attributes:
        peer: identifies the caller's connection: the same text for all calls over it, different for each connection.
        deadline: of the caller, on the loop's clock, or None. The transport cancels the handler then.
        notify: sends the caller a notification before the reply, without waiting; None if the transport cannot. It is small
            (`NOTIFICATION_BYTES`), dropped if the caller does not follow, and arrives once unless the call is lost;
            notifications may overtake each other.
        metadata: what the caller sent beside the request, such as a trace's context; () if the transport carries none.
    """

    peer: str
    deadline: float | None = None
    notify: Notify | None = None
    metadata: Sequence[tuple[str, str | bytes]] = ()


Handler = Callable[[Payload, Call], Awaitable[Payload]]
Handlers = Mapping[str, Handler]
"""By method, "MasterService/RunStep"; other methods are unimplemented."""


Answered = Callable[["Payload | OpError"], None]
"""Called once, with the reply of a call or its error."""


class Posted(Protocol):
    """A call under way whose result goes to a callback instead of an awaiting task."""

    def cancel(self) -> None:
        """Cancel it like a `Channel.call`; the callback will not be called."""
        ...


class Channel(abc.ABC):
    """Calls to one peer, at "host:port", `address`. It connects at the first call, and again after a lost connection."""

    def __init__(self, address: str) -> None:
        self.address = address

    @abc.abstractmethod
    async def call(
        self, method: str, request: Payload, timeout: float | None = None, *, wait_for_ready: bool = False
    ) -> Payload:
        """Make a call, and wait for its reply; cancellation cancels the handler.

        Args:
            timeout: seconds, None for none.
            wait_for_ready: wait for an unreachable peer, instead of failing.

        Raises:
            UnavailableError: the peer cannot be reached, or was lost while the call was under way.
            DeadlineExceededError: no reply within `timeout`.
            OpError: of the handler.
        """

    def post(self, method: str, request: Payload, answered: Answered) -> Posted | None:
        """Make a call without a task: it is sent when this returns, and `answered` is called in the loop iteration in which the
        reply arrives. None: the channel cannot do so now, and nothing was sent; use `call`."""
        return None

    async def follow(self, method: str, request: Payload, notify: Notify) -> None:
        """Make a call for the notifications of its handler; it lasts until the handler ends, or `notify` raises.

        Raises:
            UnimplementedError: the transport supports only requests and replies.
            UnavailableError: the peer was lost.
            OpError: of the handler.
        """
        raise UnimplementedError(f"{method}: this channel carries no notifications, to {self.address}")

    @abc.abstractmethod
    async def close(self) -> None:
        """Cancel calls under way and release the connection; repeated calls have no effect."""


class Listener(abc.ABC):
    """Takes calls at an address, and passes them to handlers; each call is a task."""

    address: str
    """The address it listens at, "host:port", with the assigned port if it was made with port 0. Known from construction on."""

    @abc.abstractmethod
    async def start(self) -> None:
        """Begin to take calls.

        Raises:
            UnavailableError: cannot listen at the address.
        """

    def drain(self) -> None:  # noqa: B027  # a transport without health checks has nothing to do
        """Make health checks, if there are any, report NOT_SERVING; calls are still taken."""

    @abc.abstractmethod
    async def stop(self, grace: float | None = None) -> None:
        """Stop taking calls, wait for those under way, cancel the rest after `grace` seconds (None: at once), and free the
        port. Repeated calls have no effect."""


class Transport(abc.ABC):
    """An implementation of calls between processes."""

    @abc.abstractmethod
    def channel(self, address: str) -> Channel:
        """A new channel to "host:port"; the caller closes it."""

    @abc.abstractmethod
    def listener(
        self, address: str, handlers: Handlers, on_peer_gone: Callable[[str], None] | None = None
    ) -> Listener:
        """A listener at "host:port" (port 0: any free one), which takes calls after `start`.

        Args:
            on_peer_gone: called with a `Call.peer` whose connection has ended, if the transport can detect that.

        Raises:
            UnavailableError: cannot listen at the address.
            FailedPreconditionError: listening there would be insecure.
        """
