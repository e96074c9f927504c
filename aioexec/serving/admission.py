"""Admission of requests: how many may be under way, and the bytes of their bodies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aioexec.errors import ResourceExhaustedError, UnavailableError
from aioexec.serving.limits import Limits


class Admission:
    """The requests under way of a server, over all protocols. Runs in the loop's thread.

    Changing: `requests` and `bytes`, of the requests under way; `is_draining`, whether new ones are refused.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.requests = 0
        self.bytes = 0
        self.is_draining = False

    @contextmanager
    def admit(self, size: int) -> Iterator[None]:
        """Count a request with a body of `size` bytes in the block.

        Raises:
            ResourceExhaustedError: too many requests or bytes are under way.
            UnavailableError: the server is about to end.
        """
        self._check(size)
        self.requests += 1
        self.bytes += size
        try:
            yield
        finally:
            self.requests -= 1
            self.bytes -= size

    def _check(self, size: int) -> None:
        limits = self._limits
        if self.is_draining:
            raise UnavailableError("the server is about to end")
        if self.requests >= limits.requests:
            raise ResourceExhaustedError(f"{self.requests} requests are under way, try again later")
        if self.requests and self.bytes + size > limits.bytes_under_way:
            raise ResourceExhaustedError(
                f"requests of {self.bytes} bytes are under way, {size} more are too many; try again later"
            )
