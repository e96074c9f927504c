"""Queues of a graph as application code uses them: awaited, beside the steps that use the same queue.

    frames = queue.in_session(session)
    await frames.put(frame)                 # waits while the queue is full
    async for result in results.in_session(session):
        ...                                 # ends when the queue is closed and empty

Each call is a step of the session: it stands in the same line as all others, is cancelled like them, and fails as they do.
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
    """What is needed of a session."""

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
    """A queue in a session; made by `QueueBase.in_session`.

    Constant: the nodes that its calls run. They are made with it, so it must be there before the graph is finalised.
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
        """Bring one element in: a value, a list or tuple of them, or with names a dict.

        Raises:
            CancelledError: the queue is closed.
            InvalidArgumentError: the element is not of its shapes.
        """
        components = self._queue.in_order(vals)
        await self._session.run(self._enqueue, dict(zip(self._fed, components, strict=True)))

    async def get(self) -> Any:
        """The next element: a value, a list of them if there are several components, or with names a dict.

        Raises:
            OutOfRangeError: the queue is closed and empty.
        """
        return await self._session.run(self._dequeue)

    async def size(self) -> int:
        """How many elements are in the queue."""
        return int(await self._session.run(self._size))

    async def close(self, cancel_pending_enqueues: bool = False) -> None:
        """Let nothing more in.

        Raises:
            CancelledError: the queue was closed before (not with `cancel_pending_enqueues`).
        """
        await self._session.run(self._close[cancel_pending_enqueues])

    def __aiter__(self) -> SessionQueue:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.get()
        except OutOfRangeError:
            raise StopAsyncIteration from None
