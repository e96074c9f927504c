"""Queues under the names of `tf.queue`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.ops.containers.queue_class import (
        FIFOQueue as FIFOQueue,
        PaddingFIFOQueue as PaddingFIFOQueue,
        PriorityQueue as PriorityQueue,
        QueueBase as QueueBase,
        RandomShuffleQueue as RandomShuffleQueue,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
