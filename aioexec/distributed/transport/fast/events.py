"""Parsed frames of the fast path; see `fast.frames`."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from math import inf
from typing import Any

from aioexec.data_classes import dataclass
from aioexec.distributed.transport.fast.tensors import Array, Tensor
from aioexec.errors import OpError


@dataclass(slots=True)
class Greeting:
    """The first frame of a connection.

    Attributes:
        version: of the protocol.
        listener: the number of the intended listener.
        nonce: the client's random bytes, part of what both sides prove.
    """

    version: int
    listener: int
    nonce: bytes


@dataclass(slots=True)
class Challenge:
    """The request for the client's proof that it has the token.

    Attributes:
        nonce: the server's random bytes, part of what both sides prove.
        proof: the server's own.
    """

    nonce: bytes
    proof: bytes


@dataclass(slots=True)
class Proof:
    """The client's proof that it has the token."""

    proof: bytes


@dataclass(slots=True)
class Welcome:
    """The client is admitted: calls may follow."""


@dataclass(slots=True)
class Closing:
    """The connection is about to close, for the `reason`."""

    reason: str


@dataclass(slots=True)
class Failure:
    """The error of a call.

    Attributes:
        call: its number.
        code, message, payloads: of the OpError.
    """

    call: int
    code: int
    message: str
    payloads: Mapping[str, bytes]


@dataclass(slots=True)
class Cancel:
    """The caller has cancelled a call."""

    call: int


class Parts:
    """A complete request or reply, or one that was refused.

    Fields that are rarely set are class attributes, since every frame makes an instance.

    Attributes:
        call: the number of the call.
        method: of a request; "" for a reply.
        timeout: seconds left for a request, infinite if unbounded.
        refused: the error with which it was refused; message and tensors are void then.
        is_notification: whether it is a notification, which precedes the reply.
        tensors: arrays, None for tensors that stayed in the message, and each `Tensor` that `values` has to decode.
        are_read: whether no `Tensor` is among them.
        takes_long: whether `values` should be called off the loop.
        missing: the announced parts that have not arrived yet, in order.
    """

    message: Any = b""
    is_notification = False
    are_read = True
    takes_long = False
    refused: OpError | None = None
    missing: deque[memoryview] | None = None

    def __init__(self, call: int, method: str = "", timeout: float = inf) -> None:
        self.call = call
        self.method = method
        self.timeout = timeout
        self.tensors: list[Any] = []

    def values(self) -> list[Array | None]:
        """The tensors as arrays, None for those that stayed in the message.

        Raises:
            DataLossError: strings whose lengths do not fit their bytes.
        """
        if not self.are_read:
            self.tensors = [each.value() if isinstance(each, Tensor) else each for each in self.tensors]
            self.are_read = True
        return self.tensors


Event = Greeting | Challenge | Proof | Welcome | Closing | Failure | Cancel | Parts
