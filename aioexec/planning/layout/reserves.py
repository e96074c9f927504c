"""Moves the checks for the capacity of lists to the beginning of straight-line code.

A push to a list first checks that there is capacity, and if not enlarges the list. Checks jump, so they would end the stretches
of rows that workers share. A check touches nothing but its own list, so it may come before all rows of its stretch that do not
use the list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.planning.layout.list_launches import RESERVE
from aioexec.planning.layout.pending import Label, Pending, PendingJump, PendingRow, labels, touched

if TYPE_CHECKING:
    from aioexec.planning.layout.layout import Layout

_ROWS = 3
"""The rows of a check: that which jumps if there is capacity, that which enlarges the list, and the jump back."""


def move_reserves(layout: Layout) -> None:
    """Move the checks of a finished layout, in place."""
    pending = layout.pending
    if any(_is_reserve(row) for row in pending):
        moving = _Moving(pending)
        moving.run()
        layout.versions.renumber(moving.places)
        layout.pending = moving.made


class _Moving:
    """One pass over the rows of a layout.

    Constant: `_labels`, by the number of the row they lead to. Changing: `made`, the rows in their new order; `places`, the new
    number of each row; `_begins`, for the first row of each stretch the new number of what is first in it now. Of the present
    stretch: `_checks`, the numbers of its checks, `_plain`, those of its other rows, and `_used`, the id()s of their buffers.
    """

    def __init__(self, pending: list[Pending]) -> None:
        self.made: list[Pending] = []
        self.places: dict[int, int] = {}
        self._pending = pending
        self._labels: dict[int, list[Label]] = {}
        for label in labels(pending):
            self._labels.setdefault(label.row, []).append(label)
        self._begins: dict[int, int] = {}
        self._checks: list[int] = []
        self._plain: list[int] = []
        self._used: set[int] = set()

    def run(self) -> None:
        """Fill `made` and `places`, and update all labels."""
        number, count = 0, len(self._pending)
        own: set[int] = set()
        while number < count:
            row = self._pending[number]
            is_check = _is_reserve(row)
            if is_check:
                own |= {id(label) for label in self._own(number)}
            if any(id(label) not in own for label in self._labels.get(number, ())):
                self._end_stretch()
            if is_check and not self._used.isdisjoint(map(id, touched(row))):
                self._end_stretch()
            if is_check or (isinstance(row, PendingRow) and row.after is None):
                (self._checks if is_check else self._plain).append(number)
                self._used.update(map(id, touched(row)))
            else:
                self._end_stretch()
                self._put(number)
            number += _ROWS if is_check else 1
        self._end_stretch()
        for row_number, found in self._labels.items():
            for label in found:
                if id(label) not in own:
                    label.row = self._begins.get(row_number, self.places.get(row_number, len(self.made)))

    def _own(self, check: int) -> tuple[Label, Label]:
        """The labels of a check: where it begins, and what it jumps to."""
        row, jump = self._pending[check], self._pending[check + 2]
        assert isinstance(row, PendingRow)
        assert isinstance(jump, PendingJump)
        assert row.after is not None
        return jump.target, row.after

    def _end_stretch(self) -> None:
        """Put the checks of the present stretch, then its other rows."""
        rows = sorted((*self._plain, *self._checks))
        if rows:
            self._begins[rows[0]] = len(self.made)
        for check in self._checks:
            begin, after = self._own(check)
            begin.row = len(self.made)
            for k in range(_ROWS):
                self._put(check + k)
            after.row = len(self.made)
        for number in self._plain:
            self._put(number)
        self._checks, self._plain, self._used = [], [], set()

    def _put(self, number: int) -> None:
        self.places[number] = len(self.made)
        self.made.append(self._pending[number])


def _is_reserve(row: Pending) -> bool:
    return isinstance(row, PendingRow) and row.launch.kernel is RESERVE
