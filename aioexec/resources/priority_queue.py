"""Priority queues.

Elements that are enqueued in batches are kept as sorted runs; a heap holds the head of each run and all single elements. Many
elements are dequeued by merging the runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from aioexec.dtypes import DType, int64
from aioexec.errors import InvalidArgumentError
from aioexec.resources.queues import UNBOUNDED, Element, Queue
from aioexec.shapes import Dims

Array: TypeAlias = np.ndarray[Any, Any]
_MANY = 64
"""Elements from which bulk operations pay off."""


class _Prepared(list[Element]):
    """Elements in their original order, and the `order` in which they are kept: the next last, of equals the oldest."""

    def __init__(self, elements: Sequence[Element], priorities: Array) -> None:
        super().__init__(elements)
        self.order = priorities.argsort(kind="stable")[::-1]
        self.priorities = priorities[self.order]
        self.sorted = [elements[k] for k in self.order.tolist()]


class _Run:
    """Sorted elements, the next one last, with their priorities and tickets. Taken ones are removed from `elements` only.

    Constant: `span`, the lowest and highest ticket.
    """

    __slots__ = ("elements", "priorities", "span", "tickets")

    def __init__(self, prepared: _Prepared, tickets: Array) -> None:
        """Args: ascending tickets of the elements in their original order."""
        self.elements = prepared.sorted
        self.priorities = prepared.priorities
        self.tickets = tickets[prepared.order]
        self.span = int(tickets[0]), int(tickets[-1])

    def head(self) -> _Entry:
        last = len(self.elements) - 1
        return int(self.priorities[last]), int(self.tickets[last]), self

    def first(self, count: int) -> tuple[Array, Array, list[Element]]:
        """Return priorities, tickets and elements of the next `count`, in order."""
        left = len(self.elements)
        next_ones = slice(max(left - count, 0), left)
        return (
            self.priorities[next_ones][::-1],
            self.tickets[next_ones][::-1],
            self.elements[next_ones][::-1],
        )


_Entry: TypeAlias = tuple[int, int, Element | _Run]
"""(priority, ticket, an element or a run whose head has these)."""


class PriorityQueue(Queue):
    """Dequeues the element of lowest priority, its first component; among equals the oldest.

    State: `_heap` of (priority, ticket, element or run), `_size`; tickets ascend from `_last`, those of returned elements
    descend from `_first`.
    """

    kind = "PriorityQueue"
    dequeues_incrementally = False
    max_per_turn = UNBOUNDED

    def __init__(
        self, name: str, dtypes: Sequence[DType], dims: Sequence[Dims] = (), *args: Any, **options: Any
    ) -> None:
        if len(dims) != len(dtypes):
            raise InvalidArgumentError(
                f"{self.kind} {name!r}: Different number of component types. "
                f"Expected a shape for each of {len(dtypes)} components, got {len(dims)}"
            )
        super().__init__(name, [int64, *dtypes], [(), *dims], *args, **options)
        self._heap: list[_Entry] = []
        self._size = 0
        self._first = self._last = 0

    @property
    def size(self) -> int:
        return self._size

    def push(self, element: Element) -> None:
        self._last += 1
        self._size += 1
        heappush(self._heap, (int(element[0]), self._last, element))

    def push_many(self, elements: Sequence[Element]) -> None:
        if len(elements) < _MANY:
            for element in elements:
                self.push(element)
            return
        self._add_run(elements, self._last + 1)
        self._last += len(elements)

    def prepared(self, elements: list[Element], firsts: Any) -> Sequence[Element]:
        return elements if len(elements) < _MANY else _Prepared(elements, np.array(firsts, np.int64))

    def _add_run(self, elements: Sequence[Element], ticket: int) -> None:
        """Add elements as a run with tickets from `ticket` on."""
        if not isinstance(elements, _Prepared):
            elements = _Prepared(elements, np.array([int(element[0]) for element in elements], np.int64))
        run = _Run(elements, np.arange(ticket, ticket + len(elements)))
        heappush(self._heap, run.head())
        self._size += len(elements)

    def pop(self) -> Element:
        held = self._heap[0][2]
        self._size -= 1
        if not isinstance(held, _Run):
            heappop(self._heap)
            return held
        element: Element = held.elements.pop()
        if held.elements:
            heapreplace(self._heap, held.head())
        else:
            heappop(self._heap)
        return element

    def pop_many(self, count: int) -> list[Element]:
        if count < _MANY:
            return [self.pop() for _ in range(count)]
        runs = self._as_runs()
        priorities, tickets, elements = zip(*[run.first(count) for run in runs], strict=True)
        self._size -= count
        if len(runs) == 1:
            del runs[0].elements[-count:]
            self._heap = [run.head() for run in runs if run.elements]
            return list(elements[0])
        pool = [element for each in elements for element in each]
        order = _merged(runs, np.concatenate(priorities), np.concatenate(tickets))[:count]
        sources = np.repeat(np.arange(len(runs)), [len(each) for each in elements])
        for run, taken in zip(runs, np.bincount(sources[order], minlength=len(runs)).tolist(), strict=True):
            if taken:
                del run.elements[-taken:]
        self._heap = [run.head() for run in runs if run.elements]
        heapify(self._heap)
        return [pool[k] for k in order.tolist()]

    def _as_runs(self) -> list[_Run]:
        """Return the runs in the order of their first tickets; single elements form another run."""
        runs = [held for _, _, held in self._heap if isinstance(held, _Run)]
        alone = [entry for entry in self._heap if not isinstance(entry[2], _Run)]
        if alone:
            alone.sort(key=lambda entry: entry[1])
            priorities, tickets = (np.array([entry[k] for entry in alone], np.int64) for k in (0, 1))
            runs.append(_Run(_Prepared([entry[2] for entry in alone], priorities), tickets))  # type: ignore[misc]
        return sorted(runs, key=lambda run: run.span)

    def put_back(self, elements: Sequence[Element]) -> None:
        if len(elements) >= _MANY:
            self._first -= len(elements)
            self._add_run(elements, self._first)
            return
        for element in reversed(elements):
            self._first -= 1
            self._size += 1
            heappush(self._heap, (int(element[0]), self._first, element))

    def check_invariants(self) -> None:
        super().check_invariants()
        assert self._size == sum(
            len(held.elements) if isinstance(held, _Run) else 1 for _, _, held in self._heap
        )


def _merged(runs: Sequence[_Run], priorities: Array, tickets: Array) -> Array:
    """Return the merged order of the first elements of several runs: by priority, then ticket."""
    if all(one.span[1] < other.span[0] for one, other in pairwise(runs)):
        return priorities.argsort(kind="stable")
    return np.lexsort((tickets, priorities))
