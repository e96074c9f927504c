"""A queue that is filled ahead of its use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aioexec.graph.scopes import name_scope
from aioexec.ops.containers.queue_class import FIFOQueue, PaddingFIFOQueue, QueueBase
from aioexec.train.input.queue_runner import QueueRunner, add_queue_runner
from aioexec.train.input.queue_summaries import summarize_share


def prefetch_queue(
    tensors: Any,
    capacity: int = 8,
    num_threads: int = 1,
    dynamic_pad: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> QueueBase:
    """Return a queue of tensors, a list or a dict of them; a queue runner that fills it is added.

    Args:
        num_threads: the number of tasks that enqueue.
        dynamic_pad: dimensions that are None may differ.
    """
    names = sorted(tensors) if isinstance(tensors, Mapping) else None
    listed = [tensors[key] for key in names] if names is not None else list(tensors)
    with name_scope(name, "prefetch_queue", listed) as scope:
        make = PaddingFIFOQueue if dynamic_pad else FIFOQueue
        queue = make(
            capacity,
            dtypes=[tensor.dtype.base_dtype for tensor in listed],
            shapes=[tensor.shape for tensor in listed],
            names=names,
            shared_name=shared_name,
        )
        add_queue_runner(QueueRunner(queue, [queue.enqueue(tensors, name=scope)] * num_threads))
        summarize_share(f"fraction_of_{capacity}_full", queue.size(), capacity)
        return queue
