"""FIFO queues: elements in the order they came, callers in the order they called.

`FIFOQueue` is a pure state machine. A verb that can be done at once returns its value; otherwise it returns an `Attempt`,
which waits in one of two lines: who brings elements or closes, and who takes them. Only the head of a line is served, as far as
possible, so `dequeue_many` takes elements as they come, and `enqueue_many` brings its elements in one by one. `waiting` makes a
future of an attempt for the event loop. All of it is used on one thread.

State: `_elements`, tuples with one array for each component; `_bringing` and `_taking`, the two lines; `is_closed`.

Invariants (`check_invariants`): nobody waits for elements while there are some, nobody waits to bring one while there is room,
nobody waits in a closed queue. There may be more elements than `capacity` only because a withdrawn or failed attempt has put
back what it took: no element is ever lost.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeAlias

from aioexec.dtypes import DType
from aioexec.errors import CancelledError, InvalidArgumentError, OpError, OutOfRangeError
from aioexec.shapes import Dims, num_elements

Element: TypeAlias = tuple[Any, ...]
UNBOUNDED = sys.maxsize


class Attempt:
    """A verb that waits for its turn.

    `is_done` once it is over; then `error` or `result` says how, and `wake` was called, once.
    """

    __slots__ = ("error", "is_done", "result", "wake")

    def __init__(self) -> None:
        self.is_done = False
        self.error: OpError | None = None
        self.result: Any = None
        self.wake: Callable[[], None] = _nobody

    def advance(self, queue: FIFOQueue) -> bool:
        """Do what can be done now, at the head of the line; whether the queue changed."""
        raise NotImplementedError

    def restore(self, queue: FIFOQueue) -> None:
        """Put back what was taken; called when nothing will come of it."""

    def succeed(self, result: Any = None) -> None:
        self.is_done, self.result = True, result

    def fail(self, error: OpError) -> None:
        self.is_done, self.error = True, error

    def outcome(self) -> Any:
        """The result.

        Raises:
            OpError: it failed.
        """
        if self.error is not None:
            raise self.error
        return self.result


def _nobody() -> None:
    """Wakes nobody: the caller has not gone to sleep yet, or has left."""


class _Bring(Attempt):
    """Brings elements in; `rest` are those still outside."""

    __slots__ = ("rest",)

    def __init__(self, elements: Sequence[Element]) -> None:
        super().__init__()
        self.rest = deque(elements)

    def advance(self, queue: FIFOQueue) -> bool:
        if queue.is_closed:
            self.fail(CancelledError(f"{queue.kind} {queue.name!r} is closed."))
            return False
        count = min(len(self.rest), queue.room)
        for _ in range(count):
            queue.push(self.rest.popleft())
        if not self.rest:
            self.succeed()
        return count > 0


class _Take(Attempt):
    """Takes `wanted` elements, or, if `partial`, what is left of a closed queue; `taken` are those it has."""

    __slots__ = ("partial", "taken", "wanted")

    def __init__(self, wanted: int, partial: bool) -> None:
        super().__init__()
        self.wanted = wanted
        self.partial = partial
        self.taken: list[Element] = []

    def advance(self, queue: FIFOQueue) -> bool:
        count = min(self.wanted - len(self.taken), queue.size)
        self.taken += [queue.pop() for _ in range(count)]
        if len(self.taken) == self.wanted or (queue.is_closed and self.partial and self.taken):
            self.finish()
        elif queue.is_closed:
            self.restore(queue)
            self.fail(
                OutOfRangeError(
                    f"{queue.kind} {queue.name!r} is closed and has insufficient elements "
                    f"(requested {self.wanted}, current size {queue.size})"
                )
            )
        return count > 0

    def finish(self) -> None:
        self.succeed(self.taken)

    def restore(self, queue: FIFOQueue) -> None:
        queue.put_back(self.taken)
        self.taken = []


class _TakeOne(_Take):
    """Takes one element, which is the result itself."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(1, partial=False)

    def finish(self) -> None:
        self.succeed(self.taken[0])


class _Close(Attempt):
    """Closes the queue when all that came before has been brought in."""

    __slots__ = ()

    def advance(self, queue: FIFOQueue) -> bool:
        if queue.is_closed:
            self.fail(CancelledError(f"Queue {queue.name!r} is already closed."))
            return False
        queue.is_closed = True
        self.succeed()
        return True


class FIFOQueue:
    """A queue of at most `capacity` elements, any number if it is negative.

    Constant: name, dtypes of the components, their `dims` (() if they may be of any shape), `element_bytes` (0 if not known),
    capacity, device (full name).
    """

    kind = "FIFOQueue"

    def __init__(
        self,
        name: str,
        dtypes: Sequence[DType],
        dims: Sequence[Dims] = (),
        capacity: int = -1,
        device: str = "",
    ) -> None:
        if dims and len(dims) != len(dtypes):
            raise InvalidArgumentError(
                f"{self.kind} {name!r}: expected a shape for each of {len(dtypes)} components, got {len(dims)}"
            )
        self.name = name
        self.dtypes = tuple(dtypes)
        self.dims = tuple(dims)
        self.element_bytes = sum(
            (num_elements(item) or 0) * dtype.numpy.itemsize
            for item, dtype in zip(self.dims, self.dtypes, strict=False)
        )
        self.capacity = UNBOUNDED if capacity < 0 else capacity
        self.device = device
        self.is_closed = False
        self._elements: deque[Element] = deque()
        self._bringing: deque[Attempt] = deque()
        self._taking: deque[Attempt] = deque()

    @property
    def size(self) -> int:
        return len(self._elements)

    @property
    def room(self) -> int:
        return max(self.capacity - len(self._elements), 0)

    # Verbs

    def enqueue(self, element: Element) -> Attempt | None:
        """Bring one element in; None if that is done.

        Raises:
            CancelledError: the queue is closed.
        """
        if self.is_closed or len(self._elements) >= self.capacity:  # else nobody waits in this line
            return self._submit(self._bringing, _Bring([element]))  # type: ignore[no-any-return]
        self._elements.append(element)
        if self._taking:
            self._flush()
        return None

    def enqueue_many(self, elements: Sequence[Element]) -> Attempt | None:
        """Bring elements in one by one, in order; none at all is done at once.

        Raises:
            CancelledError: the queue is closed.
        """
        if not elements:
            return None
        return self._submit(self._bringing, _Bring(elements))  # type: ignore[no-any-return]

    def dequeue(self) -> Element | Attempt:
        """The first element.

        Raises:
            OutOfRangeError: the queue is closed and empty.
        """
        if not self._elements:  # else nobody waits in this line
            return self._submit(self._taking, _TakeOne())  # type: ignore[no-any-return]
        element = self._elements.popleft()
        if self._bringing:
            self._flush()
        return element

    def dequeue_many(self, count: int) -> list[Element] | Attempt:
        """The first `count` elements; the queue may be smaller than that.

        Raises:
            OutOfRangeError: the queue is closed and has fewer.
        """
        if count == 0:
            return []
        return self._submit(self._taking, _Take(count, partial=False))  # type: ignore[no-any-return]

    def dequeue_up_to(self, count: int) -> list[Element] | Attempt:
        """The first `count` elements, or what a closed queue has left.

        Raises:
            OutOfRangeError: the queue is closed and empty.
        """
        if count == 0:
            return []
        return self._submit(self._taking, _Take(count, partial=True))  # type: ignore[no-any-return]

    def close(self, cancel_pending_enqueues: bool = False) -> Attempt | None:
        """Take no more elements in; None if that is done.

        Who waits to bring elements goes first, or with `cancel_pending_enqueues` fails with CancelledError.

        Raises:
            CancelledError: the queue was closed before (not with `cancel_pending_enqueues`).
        """
        if not cancel_pending_enqueues:
            return self._submit(self._bringing, _Close())  # type: ignore[no-any-return]
        self.is_closed = True
        cancelled, self._bringing = self._bringing, deque()
        for attempt in cancelled:
            attempt.fail(CancelledError("Enqueue operation was cancelled"))
            _wake(attempt)
        self._flush()
        return None

    def withdraw(self, attempt: Attempt) -> None:
        """The caller no longer waits: what it took is put back, what it brought stays. Harmless when it is done."""
        if attempt.is_done:
            return
        attempt.is_done, attempt.wake = True, _nobody
        for line in (self._bringing, self._taking):
            if attempt in line:
                line.remove(attempt)
        attempt.restore(self)
        self._flush()

    def undo(self, attempt: Attempt) -> None:
        """The attempt was served, but nobody has looked at its result: what it took is put back, what it brought stays."""
        attempt.restore(self)
        self._flush()

    def give_back(self, elements: Sequence[Element]) -> None:
        """Make elements that were dequeued, and come to nothing, the first ones again."""
        self.put_back(elements)
        self._flush()

    # Used by attempts

    def push(self, element: Element) -> None:
        self._elements.append(element)

    def pop(self) -> Element:
        return self._elements.popleft()

    def put_back(self, elements: Sequence[Element]) -> None:
        """Make elements that were taken the first ones again, in their order."""
        self._elements.extendleft(reversed(elements))

    # Service

    def _submit(self, line: deque[Attempt], attempt: Attempt) -> Any:
        """Serve the lines with the attempt at the end of one: its result if it is done, else itself."""
        line.append(attempt)
        self._flush()
        return attempt.outcome() if attempt.is_done else attempt

    def _flush(self) -> None:
        """Serve both lines until neither gets any further."""
        changed = True
        while changed:
            changed = self._serve(self._bringing) | self._serve(self._taking)

    def _serve(self, line: deque[Attempt]) -> bool:
        changed = False
        while line:
            attempt = line[0]
            changed |= attempt.advance(self)
            if not attempt.is_done:
                break
            line.popleft()
            _wake(attempt)
        return changed

    def check_invariants(self) -> None:
        waiting = [*self._bringing, *self._taking]
        assert not any(attempt.is_done for attempt in waiting)
        assert not (self._taking and self._elements)
        assert not (self._bringing and self.room)
        assert not (self.is_closed and waiting)
        for attempt in list(self._taking)[1:]:
            assert isinstance(attempt, _Take)
            assert not attempt.taken, "only the head takes"


def _wake(attempt: Attempt) -> None:
    wake, attempt.wake = attempt.wake, _nobody
    wake()


class _Waiting(asyncio.Future[Any]):
    """The future of an attempt. Cancelling it withdraws the attempt at once: no element is handed to who has left.

    A task that is cancelled comes to cancel what it awaits only at its next turn; until then it may still be served. So
    cancelling a future that is done, but whose result nobody has taken (`_is_taken`), gives back what it was served.
    """

    def __init__(self, queue: FIFOQueue, attempt: Attempt, finish: Callable[[Any], Any]) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self._queue = queue
        self._attempt = attempt
        self._finish = finish
        self._is_taken = False
        attempt.wake = self._wake

    def _wake(self) -> None:
        if self._attempt.error is not None:
            self.set_exception(self._attempt.error)
        else:
            self.set_result(self._finish(self._attempt.result))

    def result(self) -> Any:
        result = super().result()
        self._is_taken = True
        return result

    def __await__(self) -> Generator[Any, None, Any]:
        try:
            result = yield from super().__await__()
        except asyncio.CancelledError:
            self.cancel()
            raise
        self._is_taken = True
        return result

    def cancel(self, msg: Any = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled:
            self._queue.withdraw(self._attempt)
        elif not self._is_taken and not self.cancelled():
            self._is_taken = True
            self._queue.undo(self._attempt)
        return cancelled


def waiting(
    queue: FIFOQueue, attempt: Attempt, finish: Callable[[Any], Any] = lambda result: result
) -> asyncio.Future[Any]:
    """A future of what `finish` makes of an attempt's result, in the running loop."""
    return _Waiting(queue, attempt, finish)
