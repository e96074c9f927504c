"""Checks the limits and buckets of a `Batcher`."""

from __future__ import annotations

import math
from collections.abc import Iterable

from aioexec.errors import GraphValueError


def check_limits(max_batch_size: int, max_delay: float, max_queue: int) -> None:
    """Check the limits of a batcher.

    Raises:
        GraphValueError: one of them is out of range.
    """
    if max_batch_size < 1:
        raise GraphValueError(f"Batcher: max_batch_size must be at least 1, got {max_batch_size!r}")
    if not 0 <= max_delay < math.inf:
        raise GraphValueError(f"Batcher: max_delay must be a number of seconds, got {max_delay!r}")
    if max_queue < 1:
        raise GraphValueError(f"Batcher: max_queue must be at least 1, got {max_queue!r}")


def bucket_sizes(max_batch_size: int, buckets: Iterable[int] | None) -> list[int]:
    """The sizes of batches, increasing; by default the powers of two below the largest one, and that one.

    Raises:
        GraphValueError: a bucket is not between 1 and `max_batch_size`, or the largest one is smaller.
    """
    if buckets is None:
        return [1 << power for power in range((max_batch_size - 1).bit_length())] + [max_batch_size]
    sizes = sorted(set(buckets))
    if not sizes or sizes[0] < 1 or sizes[-1] != max_batch_size:
        raise GraphValueError(
            f"Batcher: buckets must be at least 1, and the largest one max_batch_size, {max_batch_size}; got {sizes}"
        )
    return sizes
