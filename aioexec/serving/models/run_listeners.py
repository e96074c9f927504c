"""The interface of listeners of a repository, which are called after each run, and when a version is closed."""

from __future__ import annotations

import asyncio
from typing import Protocol

from aioexec.data_classes import dataclass
from aioexec.errors import CANCELLED, UNKNOWN, OpError


@dataclass(frozen=True, slots=True)
class Run:
    """A request that a model has run: its rows, its time in seconds, and the canonical code of its outcome."""

    model: str
    version: int
    signature: str
    rows: int
    seconds: float
    code: int


def code_of(error: BaseException) -> int:
    """Return the canonical code of a run that ended with an exception."""
    if isinstance(error, OpError):
        return error.error_code
    return CANCELLED if isinstance(error, asyncio.CancelledError) else UNKNOWN


class RunListener(Protocol):
    """Is called in the loop's thread after each run; it must be fast, and raise nothing."""

    def on_run(self, run: Run) -> None:
        """A request has been run, or failed."""

    def on_step(self, model: str, version: int, rows: int) -> None:
        """A step has been run, for one request or, with batching, several."""

    def on_unload(self, model: str, version: int) -> None:
        """A version is closed; it has no further runs, unless it is loaded again."""
