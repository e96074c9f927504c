"""Memory safety of feeds, which are the caller's arrays: a step refers to them until it ends.

If the caller writes into a feed meanwhile, the results may change, but no kernel may access memory outside of an array. So
feeds that may be indices or shapes are copied before the step reads them: a kernel reads them twice, first to check them and
then to use them. Nor can the memory of a feed be freed: NumPy does not resize an array that is weakly referenced, even with
`refcheck=False`.
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
    """Feeds with copies at these positions; None: the copies would take too long for the event loop."""
    if any(isinstance(feeds[k], np.ndarray) and feeds[k].nbytes > HEAVY_BYTES for k in positions):
        return None
    return _copy(feeds, positions)


async def copy_index_feeds(feeds: Sequence[Any], positions: Sequence[int], workers: Workers) -> list[Any]:
    """Feeds with copies at these positions; large ones are copied on a worker."""
    found = with_own_indices(feeds, positions)
    if found is None:
        found = await workers.submit(partial(_copy, feeds, positions)).result()
    return found


def _copy(feeds: Sequence[Any], positions: Sequence[int]) -> list[Any]:
    own = list(feeds)
    for k in positions:
        try:
            own[k] = np.array(feeds[k])
        except MemoryError as error:
            raise ResourceExhaustedError(f"OOM: a copy of a feed takes {feeds[k].nbytes} bytes") from error
    return own


def prevent_resizing(feeds: Iterable[Any]) -> list[weakref.ref[Array]]:
    """Weak references that prevent the memory of feeds from being resized as long as the references exist."""
    arrays = [feed for feed in feeds if isinstance(feed, np.ndarray)]
    return [
        weakref.ref(each) for array in arrays for each in (array, array.base) if isinstance(each, np.ndarray)
    ]
