"""Queues: elements in the order of their kind, callers in FIFO order.

A `Queue` is a `BlockingResource` with two wait queues: callers that enqueue or close, and callers that dequeue. Only the head
of each queue is served, as far as possible: `dequeue_many` takes elements as they arrive, and `enqueue_many` inserts its
elements one by one.

Large batches are inserted and taken by single operations on the container, since element-wise they would block the event loop.

State: `_elements`, tuples with one array per component; `_enqueues` and `_dequeues`, the two wait queues; `is_closed`.

Invariants (`check_invariants`): no caller waits for elements that are `available`, none waits to enqueue while there is room,
none waits in a closed queue. The size exceeds `capacity` only after a withdrawn or failed attempt has returned what it took:
no element is ever lost.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from aioexec.dtypes import DType
from aioexec.errors import CancelledError, InvalidArgumentError, OutOfRangeError
from aioexec.resources.waiting import Attempt, BlockingResource, WaitQueue
from aioexec.shapes import Dims, is_fully_defined, num_elements

Element: TypeAlias = tuple[Any, ...]
UNBOUNDED = sys.maxsize
_ASSUMED_CAPACITY = 2**31 - 1
"""The capacity that TensorFlow assumes for an unbounded queue."""


class _Enqueue(Attempt):
    """Enqueues elements; those from `_next` on are not inserted yet."""

    __slots__ = ("_elements", "_next", "_queue")

    def __init__(self, queue: Queue, elements: Sequence[Element]) -> None:
        super().__init__()
        self._queue = queue
        self._elements = elements
        self._next = 0

    def advance(self) -> bool:
        queue = self._queue
        if queue.is_closed:
            self.fail(CancelledError(f"{queue.kind} {queue.name!r} is closed."))
            return False
        missing = len(self._elements) - self._next
        count = min(missing, queue.room)
        if count == len(self._elements):
            queue.push_many(self._elements)
        elif count:
            queue.push_many(self._elements[self._next : self._next + count])
        self._next += count
        if count == missing:
            self._elements = ()
            self.succeed()
        return count > 0


class _Dequeue(Attempt):
    """Dequeues `wanted` elements or, if `partial`, the rest of a closed queue; `taken` are those it has."""

    __slots__ = ("_queue", "partial", "taken", "wanted")

    def __init__(self, queue: Queue, wanted: int, partial: bool) -> None:
        super().__init__()
        self._queue = queue
        self.wanted = wanted
        self.partial = partial
        self.taken: list[Element] = []

    def advance(self) -> bool:
        queue = self._queue
        missing = self.wanted - len(self.taken)
        count = min(missing, queue.available)
        if count < missing and not queue.dequeues_incrementally and not queue.is_closed:
            return False
        is_long = count > queue.max_per_turn and queue.serve_later()
        if is_long:
            count = queue.max_per_turn
        if count > 0:
            self.taken += queue.pop_many(count)
        if is_long:
            return False  # others wait behind it, as if the rest had not arrived
        if len(self.taken) == self.wanted or (queue.is_closed and self.partial and self.taken):
            self.finish()
        elif queue.is_closed:
            self.restore()
            self.fail(
                OutOfRangeError(
                    f"{queue.kind} {queue.name!r} is closed and has insufficient elements "
                    f"(requested {self.wanted}, current size {queue.size})"
                )
            )
        return count > 0

    def finish(self) -> None:
        self.succeed(self.taken)

    def restore(self) -> None:
        self._queue.put_back(self.taken)
        self.taken = []


class _DequeueOne(_Dequeue):
    """Dequeues one element; the result is the element, not a list."""

    __slots__ = ()

    def __init__(self, queue: Queue) -> None:
        super().__init__(queue, 1, partial=False)

    def finish(self) -> None:
        self.succeed(self.taken[0])


class _Close(Attempt):
    """Closes the queue after all earlier enqueues."""

    __slots__ = ("_queue",)

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self._queue = queue

    def advance(self) -> bool:
        if self._queue.is_closed:
            self.fail(CancelledError(f"Queue {self._queue.name!r} is already closed."))
            return False
        self._queue.is_closed = True
        self.succeed()
        return True


class Queue(BlockingResource):
    """A queue of at most `capacity` elements (unbounded if negative); its kind determines which element is next.

    Constant: name, dtypes of the components, their `dims` (() if any), `element_bytes` (0 if unknown), capacity, device (full
    name).
    """

    kind = "Queue"
    dequeues_incrementally = True
    """Whether `dequeue_many` takes elements as they arrive, rather than all at once."""
    max_per_turn = 16384
    """Elements that are taken per iteration of a running loop."""

    def __init__(
        self,
        name: str,
        dtypes: Sequence[DType],
        dims: Sequence[Dims] = (),
        capacity: int = -1,
        device: str = "",
    ) -> None:
        self.name = name
        self.dtypes = tuple(dtypes)
        self.dims = self._checked(dims)
        self.element_bytes = sum(
            (num_elements(item) or 0) * dtype.numpy.itemsize
            for item, dtype in zip(self.dims, self.dtypes, strict=False)
        )
        self.capacity = UNBOUNDED if capacity < 0 else capacity
        self.device = device
        self.is_closed = False
        self._enqueues = WaitQueue()
        self._dequeues = WaitQueue()
        super().__init__(self._enqueues, self._dequeues)

    def _checked(self, dims: Sequence[Dims]) -> tuple[Dims, ...]:
        """Return a fully defined shape for each component; None means scalar.

        Raises:
            InvalidArgumentError: the number of shapes differs, or one is not fully defined.
        """
        if dims and len(dims) != len(self.dtypes):
            raise InvalidArgumentError(
                f"{self.kind} {self.name!r}: Different number of component types. "
                f"Expected a shape for each of {len(self.dtypes)} components, got {len(dims)}"
            )
        known = tuple([() if item is None else item for item in dims])
        for item in known:
            if not is_fully_defined(item):
                raise InvalidArgumentError(f"{self.kind} {self.name!r}: Shape {item} is not fully defined")
        return known

    # Implemented by the kinds of queues

    @property
    def size(self) -> int:
        raise NotImplementedError

    @property
    def available(self) -> int:
        """The number of elements that can be taken now."""
        return self.size

    def push(self, element: Element) -> None:
        raise NotImplementedError

    def prepared(self, elements: list[Element], firsts: Any) -> Sequence[Element]:
        """Return the elements in the form that `enqueue_many` inserts fastest; thread-safe.

        Args:
            firsts: their first components, stacked.
        """
        return elements

    def push_many(self, elements: Sequence[Element]) -> None:
        """Push elements in order."""
        raise NotImplementedError

    def pop(self) -> Element:
        """Take the next element; there must be one."""
        raise NotImplementedError

    def pop_many(self, count: int) -> list[Element]:
        """Take the next elements in order; there must be that many."""
        raise NotImplementedError

    def put_back(self, elements: Sequence[Element]) -> None:
        """Return elements that were taken to the front, in their order."""
        raise NotImplementedError

    @property
    def shared_properties(self) -> dict[str, Any]:
        """The properties on which nodes that share the queue must agree, by their names in error messages."""
        return {"capacity": self.capacity, "component types": self.dtypes, "component shapes": self.dims}

    @property
    def room(self) -> int:
        return max(self.capacity - self.size, 0)

    @property
    def can_dequeue_now(self) -> bool:
        """Whether an element can be taken now."""
        return not self._dequeues and self.available > 0

    # Verbs

    def enqueue(self, element: Element) -> Attempt | None:
        """Enqueue an element; return None if done, else an Attempt.

        Raises:
            CancelledError: the queue is closed.
        """
        if self.is_closed or self.size >= self.capacity:  # else nothing waits in this queue
            served: Attempt | None = self._submit(self._enqueues, _Enqueue(self, [element]))
            return served
        self.push(element)
        if self._dequeues:
            self._flush()
        return None

    def enqueue_many(self, elements: Sequence[Element]) -> Attempt | None:
        """Enqueue elements one by one, in order; return None if done, else an Attempt.

        Raises:
            CancelledError: the queue is closed.
        """
        if not elements:
            return None
        served: Attempt | None = self._submit(self._enqueues, _Enqueue(self, elements))
        return served

    def dequeue(self) -> Element | Attempt:
        """Dequeue the next element, or return an Attempt.

        Raises:
            OutOfRangeError: the queue is closed and empty.
        """
        if not self.can_dequeue_now:
            served: Element | Attempt = self._submit(self._dequeues, _DequeueOne(self))
            return served
        element = self.pop()
        if self._enqueues:
            self._flush()
        return element

    def dequeue_many(self, count: int) -> list[Element] | Attempt:
        """Dequeue the next `count` elements, which may exceed the capacity, or return an Attempt.

        Raises:
            OutOfRangeError: the queue is closed and has fewer.
        """
        if count == 0:
            return []
        served: list[Element] | Attempt = self._submit(self._dequeues, _Dequeue(self, count, partial=False))
        return served

    def dequeue_up_to(self, count: int) -> list[Element] | Attempt:
        """Dequeue the next `count` elements, or the rest of a closed queue; or return an Attempt.

        Raises:
            OutOfRangeError: the queue is closed and empty.
        """
        if count == 0:
            return []
        served: list[Element] | Attempt = self._submit(self._dequeues, _Dequeue(self, count, partial=True))
        return served

    def close(self, cancel_pending_enqueues: bool = False) -> Attempt | None:
        """Reject further enqueues; return None if done, else an Attempt.

        Earlier enqueues are served first, or fail with CancelledError if `cancel_pending_enqueues`.

        Raises:
            CancelledError: the queue was already closed (unless `cancel_pending_enqueues`).
        """
        if not cancel_pending_enqueues:
            served: Attempt | None = self._submit(self._enqueues, _Close(self))
            return served
        self.is_closed = True
        self._fail_all(self._enqueues, lambda: CancelledError("Enqueue operation was cancelled"))
        self._flush()
        return None

    def give_back(self, elements: Sequence[Element]) -> None:
        """Return elements that were dequeued but not delivered to the front."""
        self.put_back(elements)
        self._flush()

    def check_invariants(self) -> None:
        super().check_invariants()
        if self._dequeues and not self._scheduled_on:
            head = self._dequeues[0]
            assert isinstance(head, _Dequeue)
            missing = head.wanted - len(head.taken)
            assert self.available <= 0 if self.dequeues_incrementally else self.available < missing
        assert not (self._enqueues and self.room)
        assert not (self.is_closed and (self._enqueues or self._dequeues))
        for attempt in list(self._dequeues)[1:]:
            assert isinstance(attempt, _Dequeue)
            assert not attempt.taken, "only the head takes"


class FIFOQueue(Queue):
    """Dequeues elements in the order in which they were enqueued."""

    kind = "FIFOQueue"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._elements: deque[Element] = deque()

    @property
    def size(self) -> int:
        return len(self._elements)

    def push(self, element: Element) -> None:
        self._elements.append(element)

    def push_many(self, elements: Sequence[Element]) -> None:
        self._elements.extend(elements)

    def pop(self) -> Element:
        return self._elements.popleft()

    def pop_many(self, count: int) -> list[Element]:
        if count == len(self._elements):
            taken = list(self._elements)
            self._elements.clear()
            return taken
        pop = self._elements.popleft
        return [pop() for _ in range(count)]

    def put_back(self, elements: Sequence[Element]) -> None:
        self._elements.extendleft(reversed(elements))


class PaddingFIFOQueue(FIFOQueue):
    """A FIFO queue whose elements may differ in unknown dimensions; batches are padded."""

    kind = "PaddingFIFOQueue"

    def _checked(self, dims: Sequence[Dims]) -> tuple[Dims, ...]:
        if len(dims) != len(self.dtypes):
            raise InvalidArgumentError(
                f"Shapes must be provided for all components, but received {len(self.dtypes)} dtypes "
                f"and {len(dims)} shapes."
            )
        if None in dims:
            raise InvalidArgumentError(f"{self.kind} {self.name!r}: shape <unknown> must have known rank.")
        return tuple(dims)


class RandomShuffleQueue(Queue):
    """Dequeues elements in random order; while open, it keeps `min_after_dequeue` elements.

    Constant: `_choose`, which maps a size and a count to positions, the k-th among size - k elements; `seeds`.
    """

    kind = "RandomShuffleQueue"
    max_per_turn = 4096

    def __init__(
        self,
        *args: Any,
        min_after_dequeue: int,
        seeds: tuple[int, int],
        choose: Callable[[int, int], Sequence[int]],
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        if min_after_dequeue < 0:
            raise InvalidArgumentError(f"min_after_dequeue {min_after_dequeue} must be >= 0")
        most = min(self.capacity, _ASSUMED_CAPACITY)
        if min_after_dequeue >= most:
            raise InvalidArgumentError(f"min_after_dequeue {min_after_dequeue} must be < capacity {most}")
        self.min_after_dequeue = min_after_dequeue
        self.seeds = seeds
        self._choose = choose
        self._elements: list[Element] = []

    @property
    def size(self) -> int:
        return len(self._elements)

    @property
    def available(self) -> int:
        return self.size if self.is_closed else self.size - self.min_after_dequeue

    @property
    def shared_properties(self) -> dict[str, Any]:
        return super().shared_properties | {
            "min_after_dequeue": self.min_after_dequeue,
            "random seeds": self.seeds,
        }

    def push(self, element: Element) -> None:
        self._elements.append(element)

    def push_many(self, elements: Sequence[Element]) -> None:
        self._elements.extend(elements)

    def pop(self) -> Element:
        return self.pop_many(1)[0]

    def pop_many(self, count: int) -> list[Element]:
        """Replace each chosen element by the last one."""
        elements, taken = self._elements, []
        for k in self._choose(len(elements), count):
            taken.append(elements[k])
            elements[k] = elements[-1]
            elements.pop()
        return taken

    def put_back(self, elements: Sequence[Element]) -> None:
        self._elements.extend(elements)
