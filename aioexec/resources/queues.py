"""Queues: elements in the order of their kind, callers in the order they called.

A `Queue` is a waiting room with two lines: callers that bring elements or close, and callers that take them. Only the
head of a line is served, as far as possible, so `dequeue_many` takes elements as they come, and `enqueue_many` brings
its elements in one by one.

Many elements are brought in and taken by one operation on what holds them, since one by one they would hold the event loop.

State: `_elements`, tuples with one array for each component; `_bringing` and `_taking`, the two lines; `is_closed`.

Invariants (`check_invariants`): no caller waits for elements while there are some `available`, none waits to bring one while
there is room, none waits in a closed queue. There may be more elements than `capacity` only because a withdrawn or failed
attempt has put back what it took: no element is ever lost.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from aioexec.dtypes import DType
from aioexec.errors import CancelledError, InvalidArgumentError, OutOfRangeError
from aioexec.resources.waiting import Attempt, Line, WaitingRoom
from aioexec.shapes import Dims, is_fully_defined, num_elements

Element: TypeAlias = tuple[Any, ...]
UNBOUNDED = sys.maxsize


class _Bring(Attempt):
    """Brings elements in; those from `_next` on are still outside."""

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


class _Take(Attempt):
    """Takes `wanted` elements, or, if `partial`, what is left of a closed queue; `taken` are those it has."""

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
        if count < missing and not queue.gives_some and not queue.is_closed:
            return False
        is_long = count > queue.most_at_once and queue.goes_on_later()
        if is_long:
            count = queue.most_at_once
        if count > 0:
            self.taken += queue.pop_many(count)
        if is_long:
            return False  # others wait behind it, as if the rest had not come yet
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


class _TakeOne(_Take):
    """Takes one element, which is the result itself."""

    __slots__ = ()

    def __init__(self, queue: Queue) -> None:
        super().__init__(queue, 1, partial=False)

    def finish(self) -> None:
        self.succeed(self.taken[0])


class _Close(Attempt):
    """Closes the queue when all that came before has been brought in."""

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


class Queue(WaitingRoom):
    """A queue of at most `capacity` elements, any number if it is negative; its kind says which element is next.

    Constant: name, dtypes of the components, their `dims` (() if they may be of any shape), `element_bytes` (0 if not known),
    capacity, device (full name).
    """

    kind = "Queue"
    gives_some = True
    """Whether a taker of many elements takes them as they come, not all at once."""
    most_at_once = 16384
    """Elements that are taken in one turn of a running loop."""

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
        self._bringing = Line()
        self._taking = Line()
        super().__init__(self._bringing, self._taking)

    def _checked(self, dims: Sequence[Dims]) -> tuple[Dims, ...]:
        """A shape for each component, entirely known; a component without one is scalar.

        Raises:
            InvalidArgumentError: these are not such shapes.
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

    # What a kind of queue says

    @property
    def size(self) -> int:
        raise NotImplementedError

    @property
    def available(self) -> int:
        """How many elements can be taken now."""
        return self.size

    def push(self, element: Element) -> None:
        raise NotImplementedError

    def prepared(self, elements: list[Element], firsts: Any) -> Sequence[Element]:
        """The elements as `enqueue_many` takes them soonest; may be called on any thread.

        Args:
            firsts: their first components, side by side.
        """
        return elements

    def push_many(self, elements: Sequence[Element]) -> None:
        """Push elements in order."""
        raise NotImplementedError

    def pop(self) -> Element:
        """Take the next element; there is one."""
        raise NotImplementedError

    def pop_many(self, count: int) -> list[Element]:
        """Take the next elements in order; there are so many."""
        raise NotImplementedError

    def put_back(self, elements: Sequence[Element]) -> None:
        """Make elements that were taken the next ones again, in their order."""
        raise NotImplementedError

    @property
    def asked_for(self) -> dict[str, Any]:
        """What nodes that share the queue must agree on, in the words of their error."""
        return {"capacity": self.capacity, "component types": self.dtypes, "component shapes": self.dims}

    @property
    def room(self) -> int:
        return max(self.capacity - self.size, 0)

    @property
    def gives_at_once(self) -> bool:
        """Whether one element can be had now."""
        return not self._taking and self.available > 0

    # Verbs

    def enqueue(self, element: Element) -> Attempt | None:
        """Bring one element in; None if that is done.

        Raises:
            CancelledError: the queue is closed.
        """
        if self.is_closed or self.size >= self.capacity:  # else there is no waiter in this line
            served: Attempt | None = self._submit(self._bringing, _Bring(self, [element]))
            return served
        self.push(element)
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
        served: Attempt | None = self._submit(self._bringing, _Bring(self, elements))
        return served

    def dequeue(self) -> Element | Attempt:
        """The next element.

        Raises:
            OutOfRangeError: the queue is closed and empty.
        """
        if not self.gives_at_once:
            served: Element | Attempt = self._submit(self._taking, _TakeOne(self))
            return served
        element = self.pop()
        if self._bringing:
            self._flush()
        return element

    def dequeue_many(self, count: int) -> list[Element] | Attempt:
        """The next `count` elements; the queue may be smaller than that.

        Raises:
            OutOfRangeError: the queue is closed and has fewer.
        """
        if count == 0:
            return []
        served: list[Element] | Attempt = self._submit(self._taking, _Take(self, count, partial=False))
        return served

    def dequeue_up_to(self, count: int) -> list[Element] | Attempt:
        """The next `count` elements, or what a closed queue has left.

        Raises:
            OutOfRangeError: the queue is closed and empty.
        """
        if count == 0:
            return []
        served: list[Element] | Attempt = self._submit(self._taking, _Take(self, count, partial=True))
        return served

    def close(self, cancel_pending_enqueues: bool = False) -> Attempt | None:
        """Take no more elements in; None if that is done.

        Callers that wait to bring elements go first, or with `cancel_pending_enqueues` fails with CancelledError.

        Raises:
            CancelledError: the queue was closed before (not with `cancel_pending_enqueues`).
        """
        if not cancel_pending_enqueues:
            served: Attempt | None = self._submit(self._bringing, _Close(self))
            return served
        self.is_closed = True
        self._dismiss(self._bringing, lambda: CancelledError("Enqueue operation was cancelled"))
        self._flush()
        return None

    def give_back(self, elements: Sequence[Element]) -> None:
        """Make elements that were dequeued, and come to nothing, the next ones again."""
        self.put_back(elements)
        self._flush()

    def check_invariants(self) -> None:
        super().check_invariants()
        if self._taking and not self._goes_on:
            head = self._taking[0]
            assert isinstance(head, _Take)
            missing = head.wanted - len(head.taken)
            assert self.available <= 0 if self.gives_some else self.available < missing
        assert not (self._bringing and self.room)
        assert not (self.is_closed and (self._bringing or self._taking))
        for attempt in list(self._taking)[1:]:
            assert isinstance(attempt, _Take)
            assert not attempt.taken, "only the head takes"


class FIFOQueue(Queue):
    """Gives elements in the order they came."""

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
    """A FIFO queue whose elements may differ in the dimensions that are not given; batches of them are padded."""

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
    """Gives any of its elements, but while it is open only if at least `min_after_dequeue` are left.

    Constant: `_choose`, from a size and a count to positions: one among so many elements, then one among one fewer, and so on;
    `seeds`, which that goes by.
    """

    kind = "RandomShuffleQueue"
    most_at_once = 4096

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
        if min_after_dequeue >= self.capacity:
            raise InvalidArgumentError(
                f"min_after_dequeue {min_after_dequeue} must be < capacity {self.capacity}"
            )
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
    def asked_for(self) -> dict[str, Any]:
        return super().asked_for | {"min_after_dequeue": self.min_after_dequeue, "random seeds": self.seeds}

    def push(self, element: Element) -> None:
        self._elements.append(element)

    def push_many(self, elements: Sequence[Element]) -> None:
        self._elements.extend(elements)

    def pop(self) -> Element:
        return self.pop_many(1)[0]

    def pop_many(self, count: int) -> list[Element]:
        """The last element takes the place of each chosen one."""
        elements, taken = self._elements, []
        for k in self._choose(len(elements), count):
            taken.append(elements[k])
            elements[k] = elements[-1]
            elements.pop()
        return taken

    def put_back(self, elements: Sequence[Element]) -> None:
        self._elements.extend(elements)
