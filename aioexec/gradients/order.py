"""The order of a backward walk: reverse topological, where a loop is one unit for the nodes around it."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from aioexec.errors import GraphValueError
from aioexec.gradients.places import Frame, Places, is_loop_switch, predicate
from aioexec.graph.kernels.kernel import Role
from aioexec.graph.node import Operation, Tensor

Unit = Operation | Frame
"""A unit of the walk: an operation, or a loop as a whole."""

Orders = dict[Frame | None, list[Unit]]
"""The units of each loop, consumers first; under None those outside of all loops, or in loops that are not differentiated."""


def by_index(operations: Iterable[Operation]) -> Orders:
    """The order of a graph without loops: by decreasing index, since an operation has a higher index than its inputs."""
    return {None: [*sorted(operations, key=_index, reverse=True)]}


def by_place(
    operations: Iterable[Operation], live: set[Tensor], places: Places, undifferentiated: set[Frame]
) -> Orders:
    """The order within each loop.

    Args:
        live: the tensors that gradients propagate through.
        undifferentiated: the loops that are not differentiated, since they contain all xs and ys.

    Raises:
        GraphValueError: there is none.
    """
    levels: dict[Frame | None, _Level] = {}
    switches = _CanonicalSwitches()
    chains = {op: _chain(op, places, undifferentiated, switches) for op in sorted(operations, key=_index)}
    for op, chain in chains.items():
        for frame, unit in chain:
            levels.setdefault(frame, _Level()).add(unit, op.index)
        for tensor in op.inputs:
            if tensor in live and tensor.op in chains and tensor.op.row.role is not Role.NEXT_ITERATION:
                _connect(levels, chain, chains[tensor.op])
    return {frame: level.in_order() for frame, level in levels.items()}


_Chain = list[tuple[Frame | None, Unit]]


def _index(op: Operation) -> int:
    return op.index


def _chain(
    op: Operation, places: Places, undifferentiated: set[Frame], switches: _CanonicalSwitches
) -> _Chain:
    """The unit that an operation belongs to on each level, the outermost first."""
    closed = [frame for frame in places.home(op).around() if frame not in undifferentiated][::-1]
    levels: list[Frame | None] = [None, *closed]
    return list(zip(levels, [*closed, switches.canonical(op)], strict=True))


def _connect(levels: dict[Frame | None, _Level], user: _Chain, used: _Chain) -> None:
    """Record that one unit uses another, on the level where their chains diverge."""
    for (frame, first), (_, second) in zip(user, used, strict=False):
        if first is not second:
            levels.setdefault(frame, _Level()).connect(first, second)
            return


class _CanonicalSwitches:
    """One Switch for all of the same tensor and predicate, so that their gradients meet in one Merge."""

    def __init__(self) -> None:
        self._first: dict[tuple[Tensor, Tensor], Operation] = {}

    def canonical(self, op: Operation) -> Operation:
        if op.row.role is not Role.SWITCH or is_loop_switch(op):
            return op
        return self._first.setdefault((op.inputs[0], predicate(op)), op)


class _Level:
    """The units of one level; `_used_by` counts the users of each that are not in the order yet."""

    def __init__(self) -> None:
        self._indexes: dict[Unit, int] = {}
        self._uses: dict[Unit, dict[Unit, None]] = {}
        self._used_by: dict[Unit, int] = {}

    def add(self, unit: Unit, index: int) -> None:
        self._indexes[unit] = max(index, self._indexes.get(unit, 0))
        self._uses.setdefault(unit, {})
        self._used_by.setdefault(unit, 0)

    def connect(self, user: Unit, used: Unit) -> None:
        self.add(user, 0)
        self.add(used, 0)
        if used not in self._uses[user]:
            self._uses[user][used] = None
            self._used_by[used] += 1

    def in_order(self) -> list[Unit]:
        """Every unit after its users, ties by decreasing index."""
        ready = [unit for unit, count in self._used_by.items() if count == 0]
        heap = [(-self._indexes[unit], place) for place, unit in enumerate(ready)]
        heapq.heapify(heap)
        found: list[Unit] = []
        while heap:
            unit = ready[heapq.heappop(heap)[1]]
            found.append(unit)
            for used in self._uses[unit]:
                self._used_by[used] -= 1
                if self._used_by[used] == 0:
                    heapq.heappush(heap, (-self._indexes[used], len(ready)))
                    ready.append(used)
        if len(found) < len(self._uses):
            stuck = sorted(unit.name for unit in self._uses if unit not in set(found))
            raise GraphValueError(f"gradients: the graph has a cycle: {stuck[:5]}")
        return found
