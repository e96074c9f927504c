"""The contents of the frames of the fast path, parsed; see `fast.frames`."""

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
    """The first frame of a connection: which protocol version and listener the client wants."""

    version: int
    listener: int
    nonce: bytes


@dataclass(slots=True)
class Challenge:
    """The listener proves that it knows the token, and asks for the same."""

    nonce: bytes
    proof: bytes


@dataclass(slots=True)
class Proof:
    """The client's proof that it knows the token."""

    proof: bytes


@dataclass(slots=True)
class Welcome:
    """Calls may travel."""


@dataclass(slots=True)
class Closing:
    """The connection will end."""

    reason: str


@dataclass(slots=True)
class Failure:
    """The error of a call."""

    call: int
    code: int
    message: str
    payloads: Mapping[str, bytes]


@dataclass(slots=True)
class Cancel:
    """The caller has cancelled a call."""

    call: int


class Parts:
    """A request or reply that is complete, or was refused.

    What few have is left to the class, because one is made of every frame.

    Attributes:
        method: of a request; "" for a reply.
        timeout: seconds left for a request, infinite for no bound.
        refused: why it is not what was sent; message and tensors are void then.
        is_notification: whether it is a notification, which is sent before the reply.
        tensors: arrays, None for what stayed in the message, and each `Tensor` that `values` has to make an array of.
        are_read: whether there is none of the latter.
        takes_long: whether `values` is better called off the loop.
        missing: of those announced, what did not come yet, in order.
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
        """The tensors as arrays, None for what stayed in the message.

        Raises:
            DataLossError: strings whose lengths do not fit their bytes.
        """
        if not self.are_read:
            self.tensors = [each.value() if isinstance(each, Tensor) else each for each in self.tensors]
            self.are_read = True
        return self.tensors


Event = Greeting | Challenge | Proof | Welcome | Closing | Failure | Cancel | Parts
