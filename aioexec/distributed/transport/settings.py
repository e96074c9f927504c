"""Limits on what a peer may send, and timeouts of liveness and session collection."""

from __future__ import annotations

from aioexec.data_classes import dataclass
from aioexec.errors import GraphValueError

PROTOBUF_BYTES = (1 << 31) - 1
"""The largest message that every implementation of protobuf can parse."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits in bytes of received data; larger ones are refused with ResourceExhaustedError before memory is allocated.

    Attributes:
        message_bytes: of one message.
        graph_bytes: of one message that carries a graph (CreateSession, ExtendSession, RegisterGraph).
        tensor_bytes: of one tensor in memory, however short its encoding.
    """

    message_bytes: int = PROTOBUF_BYTES
    graph_bytes: int = 1 << 29
    tensor_bytes: int = 1 << 33

    def __post_init__(self) -> None:
        for name in ("message_bytes", "graph_bytes", "tensor_bytes"):
            value = getattr(self, name)
            if value < 1:
                raise GraphValueError(f"Limits.{name}: expected a positive number of bytes, got {value!r}")
        if self.message_bytes > PROTOBUF_BYTES:
            raise GraphValueError(
                f"Limits.message_bytes: expected at most {PROTOBUF_BYTES} (protobuf's own bound), got {self.message_bytes}"
            )


@dataclass(frozen=True, slots=True)
class Liveness:
    """When a peer that neither replies nor closes the connection counts as lost; a lost connection is noticed at once.

    An unresponsive peer is noticed after at most `interval + timeout` seconds of a call.

    Attributes:
        interval: seconds between two pings while calls are under way.
        timeout: seconds to wait for the reply to a ping.
    """

    interval: float = 0.5
    timeout: float = 2.0

    def __post_init__(self) -> None:
        for name in ("interval", "timeout"):
            value = getattr(self, name)
            if not value > 0:
                raise GraphValueError(
                    f"Liveness.{name}: expected a positive number of seconds, got {value!r}"
                )


@dataclass(frozen=True, slots=True)
class Collection:
    """When a master closes a session that its client has left open.

    Attributes:
        idle: seconds without a step, None for never; plain gRPC does not report that a client has vanished.
        orphaned: seconds after the connection of its last user ended; a client may reconnect to it until then.
    """

    idle: float | None = 7 * 24 * 3600.0
    orphaned: float | None = 6 * 3600.0

    def __post_init__(self) -> None:
        for name in ("idle", "orphaned"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise GraphValueError(f"Collection.{name}: expected None or seconds, got {value!r}")
