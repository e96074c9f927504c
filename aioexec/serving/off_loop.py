"""Runs work on the loop or in a thread, by its size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from aioexec.in_thread import in_thread

Result = TypeVar("Result")

_LARGEST_INLINE: Final = 1 << 14
"""The most bytes of JSON to parse or serialize on the loop, in a fraction of a millisecond; more is done in a thread."""


async def run_sized(size: int, work: Callable[[], Result]) -> Result:
    """Run work proportional to `size` bytes of JSON, on the loop if it is short."""
    return work() if size <= _LARGEST_INLINE else await in_thread(work)
