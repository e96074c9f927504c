"""Limits of what requests may take, over all protocols."""

from __future__ import annotations

from aioexec.data_classes import dataclass
from aioexec.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of a server's requests.

    Attributes:
        json_bytes: of a body in JSON. Python parses 1 MiB in about 15 ms, during which the event loop waits: it needs the
            interpreter lock, in any thread.
        request_bytes: of any other body, compressed or not.
        requests: that may be under way; further ones are refused with `ResourceExhaustedError`.
        bytes_under_way: of the bodies of all these requests.
    """

    json_bytes: int = 1 << 20
    request_bytes: int = 1 << 24
    requests: int = 1024
    bytes_under_way: int = 1 << 28

    def __post_init__(self) -> None:
        for name in ("json_bytes", "request_bytes", "requests", "bytes_under_way"):
            if getattr(self, name) < 1:
                raise InvalidArgumentError(f"Limits: {name} must be positive, got {getattr(self, name)!r}")
