"""Memory assignment for programs with parallel regions.

Within a region only the dependences of its tasks order them. So a buffer may reuse the memory of another there only if all
tasks that touch the other one precede all tasks that touch this one. A buffer used in one task only is in the memory of the
lane that runs the task: that memory is reused for one task after another, and stays in the worker's cache.

Outside of regions, live ranges are intervals of positions; a region counts as one position ("moment").
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import field

from aioexec.data_classes import dataclass
from aioexec.planning.layout.buffers import ALIGNMENT, Buffer, lay_out
from aioexec.planning.layout.pending import touched
from aioexec.planning.parallelism.lanes import Cut, PendingParallelRegion, Task

_SMALL = 4096  # bytes up to which a buffer is placed by its interval alone
_MOST_LARGE = 2000  # buffers up to which all pairs are compared


@dataclass(slots=True, eq=False)
class _Block:
    """Buffers that share one place, one after another.

    Attributes:
        born, dies: moments; `past`: whether it is needed after the moment `dies` has ended.
        tasks: by the moment of a region, the bit set of tasks that touch it; `after`: of tasks that all of these wait for.
        shown: moments at which a row outside of tasks touches it; `carried`: it holds a loop variable.
    """

    buffers: list[Buffer]
    nbytes: int
    born: int
    dies: int
    past: bool = False
    tasks: dict[int, int] = field(default_factory=dict)
    after: dict[int, int] = field(default_factory=dict)
    shown: set[int] = field(default_factory=set)
    carried: bool = False
    offset: int = 0


@dataclass(slots=True, eq=False)
class _Use:
    """The rows that touch a buffer.

    Attributes:
        rows: those in tasks: the moment of the region, the number of the task, the number of the row, the offset.
        shown: the moments of all others.
    """

    rows: list[tuple[int, int, int, int]] = field(default_factory=list)
    shown: set[int] = field(default_factory=set)


def lay_out_lanes(buffers: Sequence[Buffer], program: Cut, lanes: int, lane_slot: int) -> int:
    """Assign every arena buffer its offset, and buffers of one task the lane's slot; returns the size of the arena."""
    return _Placer(buffers, program, lanes, lane_slot).size


class _Placer:
    """The state of one placing: `moments`, the first and last position of each region; `uses` of buffers, by id()."""

    def __init__(self, buffers: Sequence[Buffer], program: Cut, lanes: int, lane_slot: int) -> None:
        self.moments = [region.positions for region in program.parallel_regions]
        self.regions = {
            first: region for (first, _), region in zip(self.moments, program.parallel_regions, strict=True)
        }
        self.uses: dict[int, _Use] = {}
        self._note_uses(program)
        blocks = self._blocks([buffer for buffer in buffers if buffer.slot is None])
        shared = self._place_in_lanes(blocks, lanes, lane_slot)
        large = [block for block in shared if block.nbytes > _SMALL]
        if len(large) > _MOST_LARGE:
            large = []
        place_large(large)
        base = max((block.offset + block.nbytes for block in large), default=0)
        taken = {id(block) for block in large}
        self.size = base + _place_by_time([block for block in shared if id(block) not in taken], base)
        for block in shared:
            for buffer in block.buffers:
                buffer.offset = block.offset

    # Uses of buffers

    def _note_uses(self, program: Cut) -> None:
        inside: set[int] = set()
        for moment, region in self.regions.items():
            for k, task in enumerate(region.tasks):
                for number, row in task.rows:
                    inside.add(id(row))
                    for buffer, offset in row.operands:
                        self._use(buffer).rows.append((moment, k, number, offset))
        for pending in program.rows:
            if not isinstance(pending, PendingParallelRegion) and id(pending) not in inside:
                for buffer in touched(pending):
                    self._use(buffer).shown.add(self._moment(pending.position))

    def _use(self, buffer: Buffer) -> _Use:
        return self.uses.setdefault(id(buffer), _Use())

    def _moment(self, position: int) -> int:
        """The moment of a position: for all positions of a region, its first one."""
        index = bisect_right(self.moments, (position, 1 << 62)) - 1
        return self.moments[index][0] if index >= 0 and position <= self.moments[index][1] else position

    # Blocks

    def _blocks(self, buffers: Sequence[Buffer]) -> list[_Block]:
        """One block for each buffer and the heirs that reuse its memory."""
        there = {id(buffer) for buffer in buffers}
        parents = {id(heir): buffer for buffer in buffers for heir in buffer.heirs if id(heir) in there}
        found: dict[int, _Block] = {}
        given: set[int] = set()
        for buffer in sorted(buffers, key=lambda buffer: buffer.born):
            parent = parents.get(id(buffer))
            if parent is None or id(parent) in given or not self._may_inherit(buffer, parent):
                found[id(buffer)] = self._block(buffer)
                continue
            given.add(id(parent))
            block = found[id(buffer)] = found[id(parent)]
            self._join(block, self._block(buffer))
        return list({id(block): block for block in found.values()}.values())

    def _block(self, buffer: Buffer) -> _Block:
        use = self._use(buffer)
        nbytes = -(-max(buffer.nbytes, 1) // ALIGNMENT) * ALIGNMENT
        born, dies, past = (self._moment(position) for position in (buffer.born, buffer.dies, buffer.past))
        block = _Block([buffer], nbytes, born, dies, past == dies)
        block.shown, block.carried = set(use.shown), buffer.carried
        for moment, k, _, _ in use.rows:
            task = self.regions[moment].tasks[k]
            block.tasks[moment] = block.tasks.get(moment, 0) | 1 << k
            block.after[moment] = block.after.get(moment, -1) & task.before
        return block

    def _join(self, block: _Block, other: _Block) -> None:
        block.buffers += other.buffers
        last = max(block.dies, other.dies)
        block.past = any(each.past and each.dies == last for each in (block, other))
        block.born, block.dies = min(block.born, other.born), last
        block.shown |= other.shown
        block.carried |= other.carried
        for moment, tasks in other.tasks.items():
            block.tasks[moment] = block.tasks.get(moment, 0) | tasks
            block.after[moment] = block.after.get(moment, -1) & other.after[moment]

    def _may_inherit(self, heir: Buffer, parent: Buffer) -> bool:
        """Whether only the rows that first write the heir still read its parent then; all other uses of the parent precede."""
        if not parent.may_pass_on(heir):
            return False
        moment = self._moment(heir.born)
        writes = [(number, k, offset) for at, k, number, offset in self._use(heir).rows if at == moment]
        if not writes or moment in self._use(heir).shown:
            return not any(at == moment for at, _, _, _ in self._use(parent).rows)
        first, _, _ = min(writes)
        places = {k: offset for number, k, offset in writes if number == first}
        tasks = self.regions[moment].tasks
        for at, k, number, offset in self._use(parent).rows:
            if at != moment:
                continue
            if number == first and places.get(k) == offset:
                continue
            if not all((k == other and number < first) or tasks[other].before >> k & 1 for other in places):
                return False
        return True

    # Places

    def _place_in_lanes(self, blocks: Iterable[_Block], lanes: int, lane_slot: int) -> list[_Block]:
        """Place blocks used in one task only; returns the other blocks, and a block for the lanes of each region."""
        shared: list[_Block] = []
        local: dict[tuple[int, int], list[_Block]] = {}
        for block in blocks:
            place = self._only_task(block)
            if place is None:
                shared.append(block)
            else:
                local.setdefault(place, []).append(block)
        for (moment, k), mine in local.items():
            region = self.regions[moment]
            region.lane_bytes = max(region.lane_bytes, self._place_in_task(region.tasks[k], mine))
            for block in mine:
                for buffer in block.buffers:
                    buffer.slot, buffer.offset = lane_slot, block.offset
        for moment, region in self.regions.items():
            if region.lane_bytes:
                region.scratch = Buffer(region.lane_bytes * lanes, born=moment, dies=moment)
                shared.append(_Block([region.scratch], region.scratch.nbytes, moment, moment))
        return shared

    def _only_task(self, block: _Block) -> tuple[int, int] | None:
        if block.shown or block.carried or len(block.tasks) != 1:
            return None
        ((moment, tasks),) = block.tasks.items()
        if tasks & (tasks - 1) or block.born < moment or block.dies > moment:
            return None  # a loop may carry a list to its next iteration, which may run in another lane
        return moment, tasks.bit_length() - 1

    def _place_in_task(self, task: Task, blocks: list[_Block]) -> int:
        time = {number: k for k, (number, _) in enumerate(task.rows)}
        for block in blocks:
            times = [time[use[2]] for buffer in block.buffers for use in self._use(buffer).rows]
            block.born, block.dies = min(times), max(times)
        return _place_by_time(blocks, 0)


def _place_by_time(blocks: Sequence[_Block], base: int) -> int:
    """Place blocks by their intervals of moments; returns the bytes they take."""
    buffers = [Buffer(block.nbytes, born=block.born, dies=block.dies) for block in blocks]
    size = lay_out(buffers)
    for block, buffer in zip(blocks, buffers, strict=True):
        block.offset = base + buffer.offset
    return size


def place_large(blocks: Sequence[_Block]) -> None:
    """Place blocks, the largest first, each in the best-fitting gap between blocks that may be live at the same time."""
    placed: list[_Block] = []
    for block in sorted(blocks, key=lambda block: -block.nbytes):
        taken = sorted(
            (other.offset, other.offset + other.nbytes)
            for other in placed
            if not (_precedes(block, other) or _precedes(other, block))
        )
        offset, best, gap = 0, -1, 0
        for begin, end in taken:
            if begin - offset >= block.nbytes and (best < 0 or begin - offset < gap):
                best, gap = offset, begin - offset
            offset = max(offset, end)
        block.offset = best if best >= 0 else offset
        placed.append(block)


def _precedes(one: _Block, other: _Block) -> bool:
    """Whether all rows that touch one block have ended before any row that touches the other begins."""
    if one.dies != other.born:
        return one.dies < other.born
    if one.past:
        return False
    mine = one.tasks.get(one.dies, 0)
    if not mine or one.dies not in other.tasks or one.dies in one.shown | other.shown:
        return False
    return not mine & ~other.after[one.dies]
