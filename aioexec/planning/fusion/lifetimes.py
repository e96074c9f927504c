"""Updates the live ranges of buffers, and their reuse of memory, after rows have moved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from aioexec.planning.layout.buffers import Buffer, Local
from aioexec.planning.layout.pending import Pending, PendingOperand, PendingRow, touched

if TYPE_CHECKING:
    from aioexec.planning.layout.layout import Layout


class Move(NamedTuple):
    """A row that runs at another position than it was laid out at; one with parts is new."""

    row: PendingRow
    position: int


def update_live_ranges(buffers: list[Buffer], rows: list[Pending], moves: list[Move]) -> None:
    """Extend live ranges for rows that have moved; keeps only those heirs that are still valid."""
    for row, position in moves:
        for buffer in _arena(row.operands):
            buffer.dies = max(buffer.dies, position)
        for buffer in _arena(row.writes):
            buffer.born = min(buffer.born, position)
    parents: dict[int, list[Buffer]] = {}
    for buffer in buffers:
        for heir in buffer.heirs:
            parents.setdefault(id(heir), []).append(buffer)
    for row, position in moves:
        for buffer in _arena(row.writes):
            for parent in parents.pop(id(buffer), ()):
                parent.heirs = [
                    heir for heir in parent.heirs if heir is not buffer
                ]  # it may have been removed before
        for buffer in _arena(row.operands):
            buffer.heirs = [heir for heir in buffer.heirs if heir.born != position]
    counts = _touched_at(rows, moves)
    for row, position in moves:
        if row.parts:
            _add_heirs(row, position, counts)


def _arena(operands: Iterable[PendingOperand]) -> Iterator[Buffer]:
    return (buffer for buffer, _ in operands if buffer.slot is None)


def _touched_at(rows: list[Pending], moves: list[Move]) -> dict[tuple[int, int], int]:
    """The number of rows that touch a buffer at a position."""
    positions = {id(row): position for row, position in moves}
    counts: dict[tuple[int, int], int] = {}
    for row in rows:
        if isinstance(row, PendingRow):
            position = positions.get(id(row), row.position)
            for buffer in set(map(id, touched(row))):
                counts[buffer, position] = counts.get((buffer, position), 0) + 1
    return counts


def _add_heirs(row: PendingRow, position: int, counts: dict[tuple[int, int], int]) -> None:
    """Let outputs of a row reuse inputs whose live ranges end there, if it reads each element just before it writes it."""
    words = row.launch.words
    rank, count = words[0], len(row.reads)
    strides = [words[1 + rank * (k + 1) : 1 + rank * (k + 2)] for k in range(len(row.operands))]
    spare = [
        k
        for k, (buffer, offset) in enumerate(row.reads)
        if buffer.slot is None
        and buffer.dies == position
        and offset == 0
        and counts[id(buffer), position] == 1
        and sum(other is buffer for other, _ in row.operands) == 1
    ]
    for k, (buffer, offset) in enumerate(row.writes, count):
        if buffer.slot is not None or buffer.born != position or offset or counts[id(buffer), position] != 1:
            continue
        for j in spare:
            parent = row.operands[j][0]
            if strides[j] == strides[k] and parent.nbytes == buffer.nbytes:
                parent.heirs.append(buffer)
                spare.remove(j)
                break


def kept(layout: Layout) -> Iterator[Buffer]:
    """Buffers with readers other than rows: those of outputs, and of lists."""
    outputs = [layout.values[value] for value in layout.item.outputs]
    yield from (each.buffer for each in outputs if isinstance(each, Local))
    for slab in layout.slabs:
        yield from slab.buffers()


def without_unused(buffers: list[Buffer], before: list[Pending], after: list[Pending]) -> list[Buffer]:
    """The buffers that rows still touch; the values of the others stay in registers."""
    gone = _touched(before) - _touched(after)
    return [buffer for buffer in buffers if id(buffer) not in gone]


def _touched(rows: list[Pending]) -> set[int]:
    return {id(buffer) for row in rows if isinstance(row, PendingRow) for buffer in touched(row)}
