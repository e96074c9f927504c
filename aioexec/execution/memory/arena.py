"""Gives the places of a recording their memory: an arena, or the variables whose next contents are written in place.

The next content of a variable is written over the present one if its kernel allows that and no later call reads that; else it
is in the arena, and copied at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from aioexec.data_classes import dataclass
from aioexec.devices.device_program import Call, Location, Place
from aioexec.planning.layout.buffers import Buffer, lay_out

_ALIGNMENT = 256
"""Bytes, of which the offset of each place is a multiple: what kernels and libraries expect of a buffer."""


@dataclass(frozen=True, slots=True)
class Update:
    """The next content of a variable.

    Attributes:
        may_overwrite: its kernel is right if it is the memory of the present one.
    """

    number: int
    before: Place
    after: Place
    may_overwrite: bool


def lay_out_places(
    calls: Sequence[Call], inputs: Sequence[Place], updates: Sequence[Update], outputs: Sequence[Place]
) -> tuple[tuple[Call, ...], int]:
    """Set location and offset of each place; returns the calls, with those that copy contents, and the size of the arena."""
    copies = _place_updates(calls, updates)
    calls = (*(call for call in calls if not _is_in_place(call)), *copies)
    buffers = {place: _buffer(place) for place in inputs if place.nbytes}
    for k, call in enumerate(calls):
        for place in (*call.reads, *call.writes):
            _use(buffers, place.root, k)
    for place in outputs:
        _use(buffers, place.root, len(calls))
    used = {place: buffer for place, buffer in buffers.items() if buffer.dies >= 0}
    arena_bytes = lay_out(used.values())
    for place, buffer in used.items():
        place.offset = buffer.offset
    return calls, arena_bytes


def _place_updates(calls: Sequence[Call], updates: Sequence[Update]) -> list[Call]:
    """Have contents written over those before where that is right; returns the calls that copy the others at the end."""
    last_reads: dict[Place, int] = {}
    first_writes: dict[Place, int] = {}
    for k, call in enumerate(calls):
        last_reads.update((place.root, k) for place in call.reads)
        for place in call.writes:
            first_writes.setdefault(place.root, k)
    sources = {update.after.root for update in updates}
    begin, end = list[Call](), list[Call]()
    for update in updates:
        before, after = update.before, update.after
        is_free = last_reads.get(before, -1) <= first_writes.get(after, len(calls))
        if update.may_overwrite and is_free and before not in sources:
            after.location, after.number = Location.VARIABLE, update.number
            continue
        if after.root.location is Location.VARIABLE:  # another variable's, which may be written first
            kept = Place(after.device, after.dtype, after.shape)
            begin.append(Call(None, (after,), (kept,)))
            after = kept
        end.append(Call(None, (after,), (before,)))
    return begin + end


def _is_in_place(call: Call) -> bool:
    """Whether a copy leaves the content of a variable where it is."""
    if call.work is not None:
        return False
    (source,), (target,) = call.reads, call.writes
    return target.location is source.location is Location.VARIABLE and target.number == source.number


def _use(buffers: dict[Place, Buffer], place: Place, moment: int) -> None:
    """Extend the live range of a place in the arena to a moment."""
    if place.location is Location.ARENA and place.nbytes:
        buffers.setdefault(place, _buffer(place, moment))
    if place in buffers:
        buffers[place].dies = moment


def _buffer(place: Place, born: int = -1) -> Buffer:
    return Buffer(-(-place.nbytes // _ALIGNMENT) * _ALIGNMENT, born=born)
