"""Queues for application code, which awaits them on the event loop.

    frames = queue.in_session(session)
    await frames.put(frame)                 # waits while the queue is full
    async for result in results.in_session(session):
        ...                                 # ends when the queue is closed and empty

Each call runs a step of the session: it waits in the queue's FIFO order among other steps, is cancelled and fails as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from aioexec.dtypes import DType
from aioexec.errors import OutOfRangeError
from aioexec.graph.node import Operation, Tensor
from aioexec.ops.array.identity import placeholder
from aioexec.shapes import TensorShape


class RunsSteps(Protocol):
    """The part of a session that this module uses."""

    async def run(self, fetches: Any, feed_dict: Any = None) -> Any: ...


class GraphQueue(Protocol):
    """The part of `QueueBase` that a `SessionQueue` uses."""

    @property
    def queue_ref(self) -> Tensor: ...
    @property
    def name(self) -> str: ...
    @property
    def dtypes(self) -> list[DType]: ...
    @property
    def shapes(self) -> list[TensorShape]: ...
    @property
    def names(self) -> list[str] | None: ...
    def enqueue(self, vals: Any) -> Operation: ...
    def dequeue(self) -> Any: ...
    def close(self, cancel_pending_enqueues: bool = False) -> Operation: ...
    def size(self) -> Tensor: ...
    def in_order(self, vals: Any) -> Sequence[Any]: ...


class SessionQueue:
    """A queue in a session; created by `QueueBase.in_session`.

    Constant: the nodes that its calls run. They are added to the graph on construction, which must precede `finalize`.
    """

    def __init__(self, queue: GraphQueue, session: RunsSteps) -> None:
        self._queue = queue
        self._session = session
        graph = queue.queue_ref.graph
        with (
            graph.as_default(),
            graph.control_dependencies(None),
            graph.name_scope(f"{queue.name}_in_session"),
        ):
            self._fed: list[Tensor] = [
                placeholder(dtype, shape) for dtype, shape in zip(queue.dtypes, queue.shapes, strict=True)
            ]
            parts: Any = self._fed if queue.names is None else dict(zip(queue.names, self._fed, strict=True))
            self._enqueue = queue.enqueue(parts)
            self._dequeue = queue.dequeue()
            self._size = queue.size()
            self._close = {cancels: queue.close(cancels) for cancels in (False, True)}

    async def put(self, vals: Any) -> None:
        """Enqueue one element: a value, a list or tuple of values, or with names a dict.

        Raises:
            CancelledError: the queue is closed.
            InvalidArgumentError: the element does not have the component shapes.
        """
        components = self._queue.in_order(vals)
        await self._session.run(self._enqueue, dict(zip(self._fed, components, strict=True)))

    async def get(self) -> Any:
        """Dequeue one element: a value, a list if there are several components, or with names a dict.

        Raises:
            OutOfRangeError: the queue is closed and empty.
        """
        return await self._session.run(self._dequeue)

    async def size(self) -> int:
        """Return the number of elements."""
        return int(await self._session.run(self._size))

    async def close(self, cancel_pending_enqueues: bool = False) -> None:
        """Close the queue: later enqueues fail.

        Raises:
            CancelledError: the queue was already closed (unless `cancel_pending_enqueues`).
        """
        await self._session.run(self._close[cancel_pending_enqueues])

    def __aiter__(self) -> SessionQueue:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.get()
        except OutOfRangeError:
            raise StopAsyncIteration from None
