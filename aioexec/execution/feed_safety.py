"""What a step does with its feeds, which are the caller's arrays: it refers to them until it ends.

What the caller writes into them meanwhile may show in the results, but must not lead outside of any memory. So what may be an
index or a shape is copied before the step looks at it: kernels look twice, to check it and to follow it. And nobody can take
the memory of a feed away: NumPy resizes no array that is weakly referenced, whatever it is told not to check.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from aioexec.devices.threads.workers import Workers
from aioexec.errors import ResourceExhaustedError
from aioexec.graph.node import Tensor
from aioexec.planning.workload import HEAVY_BYTES

Array = np.ndarray[Any, Any]
_INDICES = frozenset(np.dtype(name) for name in ("int16", "int32", "int64"))


def index_feeds(tensors: Iterable[Tensor]) -> tuple[int, ...]:
    """The positions of feeds that may be indices or shapes."""
    return tuple(k for k, tensor in enumerate(tensors) if tensor.dtype.numpy in _INDICES)


def with_own_indices(feeds: Sequence[Any], positions: Sequence[int]) -> list[Any] | None:
    """Feeds with copies at these positions; None: that takes long."""
    if any(isinstance(feeds[k], np.ndarray) and feeds[k].nbytes > HEAVY_BYTES for k in positions):
        return None
    return _copied(feeds, positions)


async def having_own_indices(feeds: Sequence[Any], positions: Sequence[int], workers: Workers) -> list[Any]:
    """The same, however long it takes."""
    found = with_own_indices(feeds, positions)
    if found is None:
        found = await workers.submit(partial(_copied, feeds, positions)).result()
    return found


def _copied(feeds: Sequence[Any], positions: Sequence[int]) -> list[Any]:
    own = list(feeds)
    for k in positions:
        try:
            own[k] = np.array(feeds[k])
        except MemoryError as error:
            raise ResourceExhaustedError(f"OOM: a copy of a feed takes {feeds[k].nbytes} bytes") from error
    return own


def kept_in_place(feeds: Iterable[Any]) -> list[weakref.ref[Array]]:
    """What keeps the memory of feeds where it is for as long as somebody has it."""
    arrays = [feed for feed in feeds if isinstance(feed, np.ndarray)]
    return [
        weakref.ref(each) for array in arrays for each in (array, array.base) if isinstance(each, np.ndarray)
    ]
