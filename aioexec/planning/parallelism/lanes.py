"""Cutting programs into tasks: straight stretches of dear rows become regions, whose tasks several workers do at once.

A stretch is straight if nothing in it stops the walker or goes elsewhere, and nobody goes into it. Its rows wait for each
other where one writes what the other touches. They are dealt out one by one, the latest that became ready first, so that
chains stay together: to the open task as long as that makes it wait for nothing more and keeps it below the grain, or below
a share if the row only goes on with what is there; else to the next. A row that does not fit waits till the task is closed.
A dear row with units becomes several tasks.

All of it follows from shapes, static costs and the number of workers; and no bit of the results from the latter, since every
row computes what it would have anyway, but for very large products: BLAS adds up the last columns of a share in its own way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from heapq import heapify, heappop, heappush

from aioexec.data_classes import dataclass
from aioexec.planning.layout.buffers import Buffer
from aioexec.planning.layout.pending import Pending, PendingOperand, PendingRow, labels

SHARE_NS = 50_000
"""Estimated work below which waking another worker does not pay."""
_PART_NS = 25_000
"""Estimated work of a part of a row: one who looks for work has begun it in a few microseconds."""
_LEAST_GRAIN_NS = 20_000
"""Estimated work of a task: what the workers wait for each other in the end is less than that."""
_FEW_PER_LANE = 2
"""Parts of a dear row: workers come at different times, and are not equally fast."""
MOST_PER_LANE = 8
"""The most parts, of a row so dear that each is a long one."""
_LONG_PART_NS = 60_000
"""Estimated work of a part above which more of them pay: as long may one worker wait for another before the next row, and all
else for a loop that helps."""
_TASK_NS = 200
_TASKS_PER_LANE = 64
"""No more than that where they may be dearer: who takes a task looks at all of them."""


@dataclass(slots=True, eq=False)
class Task:
    """Rows that one worker does in their order, which is the program's.

    Attributes:
        rows: each with its number in the program; parts of one have the same.
        waits: the tasks it waits for, a bit each; `before`: they and all they wait for.
        next: numbers of the tasks that wait for it.
    """

    rows: list[tuple[int, PendingRow]] = field(default_factory=list)
    cost: int = 0
    waits: int = 0
    before: int = 0
    next: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class PendingParallelRegion:
    """A stretch in tasks, in an order in which they may begin.

    Attributes:
        start: the row in the new program, directly before those of its tasks.
        scratch: memory for what lives in one task only, `lane_bytes` for each lane; None: nothing does.
    """

    tasks: list[Task]
    start: int = -1
    scratch: Buffer | None = None
    lane_bytes: int = 0

    @property
    def positions(self) -> tuple[int, int]:
        """The first and the last position of its rows."""
        positions = [row.position for task in self.tasks for _, row in task.rows]
        return min(positions), max(positions)


@dataclass(frozen=True, slots=True)
class Cut:
    """A program with regions.

    Attributes:
        rows: each region is followed by the rows of its tasks.
        places: for each row of the old program the rows of the new one that do it.
    """

    rows: list[Pending | PendingParallelRegion]
    parallel_regions: list[PendingParallelRegion]
    places: list[tuple[int, ...]]


def cut(rows: Sequence[Pending], lanes: int, same: Mapping[int, Buffer]) -> Cut | None:
    """Cut a program for so many workers, and move its labels; None: it stays as it is.

    Args:
        same: buffers that may be the same memory as another, by id().
    """
    if lanes < 2:
        return None
    found: dict[int, tuple[int, PendingParallelRegion]] = {}
    reached = -1
    for begin, end in _stretches(rows):
        tasks = _tasks([row for row in rows[begin:end] if isinstance(row, PendingRow)], lanes, same)
        if tasks is None:
            continue
        for task in tasks:
            task.rows = [(begin + number, row) for number, row in task.rows]
        region = PendingParallelRegion(tasks)
        if region.positions[0] > reached:
            found[begin] = end, region
            reached = region.positions[1]
    return _assemble(rows, found) if found else None


def _assemble(rows: Sequence[Pending], found: Mapping[int, tuple[int, PendingParallelRegion]]) -> Cut:
    made: list[Pending | PendingParallelRegion] = []
    places: list[tuple[int, ...]] = [()] * len(rows)
    begins = [0] * (len(rows) + 1)
    index = 0
    while index < len(rows):
        begins[index] = len(made)
        if index not in found:
            places[index] = (len(made),)
            made.append(rows[index])
            index += 1
            continue
        index, region = found[index]
        region.start = len(made)
        made.append(region)
        for task in region.tasks:
            for number, row in task.rows:
                places[number] = (*places[number], len(made))
                made.append(row)
    begins[index] = len(made)
    for label in labels(rows):
        label.row = begins[label.row]
    return Cut(made, [region for _, region in found.values()], places)


def _stretches(rows: Sequence[Pending]) -> Iterator[tuple[int, int]]:
    """First row and end of each straight stretch that is dear enough to be looked at."""
    entered = {label.row for label in labels(rows)}
    begin, cost = 0, 0
    for index, row in enumerate(rows):
        plain = isinstance(row, PendingRow) and row.after is None
        if not plain or index in entered:
            if cost >= 2 * SHARE_NS:
                yield begin, index
            begin, cost = (index if plain else index + 1), 0
        if isinstance(row, PendingRow) and plain:
            cost += row.launch.cost
    if cost >= 2 * SHARE_NS:
        yield begin, len(rows)


def _tasks(rows: Sequence[PendingRow], lanes: int, same: Mapping[int, Buffer]) -> list[Task] | None:
    """A stretch in tasks; None if that gains too little."""
    total = sum(row.launch.cost for row in rows)
    tasks = _in_order(_Dealer(rows, lanes, same, total).tasks)
    gain = total - _makespan(tasks, lanes) - _TASK_NS * len(tasks)
    return tasks if 2 * gain >= SHARE_NS else None


def waits(rows: Sequence[PendingRow], same: Mapping[int, Buffer]) -> list[set[int]]:
    """For each row those it waits for: where one of the two writes what the other touches."""
    found: list[set[int]] = []
    writer: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    for number, row in enumerate(rows):
        mine: set[int] = set()
        for key, writes in _accesses(row, same).items():
            if key in writer:
                mine.add(writer[key])
            if writes:
                mine.update(readers.pop(key, ()))
                writer[key] = number
            else:
                readers.setdefault(key, []).append(number)
        found.append(mine)
    return found


def _accesses(row: PendingRow, same: Mapping[int, Buffer]) -> dict[int, bool]:
    """The buffers a row touches, by id(), and whether it writes them; of what may be the same memory, one."""

    def keys(operands: Sequence[PendingOperand]) -> Iterator[int]:
        return (id(same.get(id(buffer), buffer)) for buffer, _ in operands)

    return dict.fromkeys(keys(row.reads), False) | dict.fromkeys(keys(row.writes), True)


def parts(row: PendingRow, lanes: int, grain: int) -> list[PendingRow]:
    """A dear row in parts for several workers, any other as it is. Follows from shapes and static costs alone.

    Args:
        grain: estimated work of a task below which there would be too many of them.
    """
    launch = row.launch
    units = launch.units
    if units is None or launch.cost < 2 * _PART_NS:
        return [row]
    total = launch.words[units.word]
    few = min(_FEW_PER_LANE * lanes, launch.cost // _PART_NS)
    wanted = max(few, min(MOST_PER_LANE * lanes, launch.cost // max(_LONG_PART_NS, grain)))
    wanted -= wanted % lanes if wanted > lanes else 0  # as many for each, else one of them ends later
    step = -(-total // (wanted * units.grain)) * units.grain
    found = []
    for first in range(0, total, step):
        operands = tuple(
            (buffer, offset + first * stride)
            for (buffer, offset), stride in zip(row.operands, units.strides, strict=True)
        )
        count = min(step, total - first)
        words = (*launch.words[: units.word], count, *launch.words[units.word + 1 :])
        part = replace(launch, words=words, cost=max(launch.cost * count // total, 1), units=None)
        found.append(replace(row, launch=part, operands=operands))
    return found


class _Dealer:
    """Deals the rows of one stretch to tasks.

    Constant: `parts` of each row; `bottom`, for each row the cost from its beginning to the end of all that waits for it.
    Changing: `tasks`, the last of which is open if `_is_open`; `_where`, for each row the tasks it is in, a bit each;
    `_ready`, rows that may be dealt, the next one last; `_aside`, those that do not fit the open task, in the order they
    were tried.
    """

    def __init__(
        self, rows: Sequence[PendingRow], lanes: int, same: Mapping[int, Buffer], total: int
    ) -> None:
        self.rows = rows
        self.grain = max(total // (_TASKS_PER_LANE * lanes), _LEAST_GRAIN_NS)
        self.parts = [parts(row, lanes, self.grain) for row in rows]
        self.waits = waits(rows, same)
        self.next: list[list[int]] = [[] for _ in rows]
        for number, mine in enumerate(self.waits):
            for other in mine:
                self.next[other].append(number)
        self.bottom = [row.launch.cost for row in rows]
        for number in reversed(range(len(rows))):
            self.bottom[number] += max((self.bottom[k] for k in self.next[number]), default=0)
        self.tasks: list[Task] = []
        self._is_open = False
        self._where = [0] * len(rows)
        self._left = [len(mine) for mine in self.waits]
        self._ready = [number for number in reversed(range(len(rows))) if not self._left[number]]
        self._aside: list[int] = []
        self._deal()

    def _deal(self) -> None:
        while self._ready or self._aside:
            if not self._ready:
                self._close()
            number = self._ready.pop()
            if self._is_open and not self._fits(number):
                self._aside.append(number)
                continue
            if not self._is_open:
                self._open(number)
            else:
                self._add(number)
            self._release(number)

    def _close(self) -> None:
        self._is_open = False
        self._ready += reversed(self._aside)
        self._aside.clear()

    def _needs(self, number: int) -> tuple[int, int]:
        """The tasks a row waits for, and those with all they wait for."""
        direct = before = 0
        for other in self.waits[number]:
            direct |= self._where[other]
        left = direct
        while left:
            bit = left & -left
            left ^= bit
            before |= bit | self.tasks[bit.bit_length() - 1].before
        return direct, before

    def _fits(self, number: int) -> bool:
        """Whether a row may go to the open task: it follows what is there, or begins a chain that waits for just the same."""
        task, bit = self.tasks[-1], 1 << (len(self.tasks) - 1)
        cost = task.cost + self.rows[number].launch.cost
        full = max(self.grain, task.rows[0][1].launch.cost)
        if len(self.parts[number]) > 1:
            return False
        _, before = self._needs(number)
        if before & bit:
            return cost <= max(full, SHARE_NS) * 3 // 2 and not before & ~(task.before | bit)
        return cost <= full and before == task.before

    def _open(self, number: int) -> None:
        direct, before = self._needs(number)
        found = self.parts[number]
        for row in found:
            self._where[number] |= 1 << len(self.tasks)
            self.tasks.append(Task([(number, row)], row.launch.cost, direct, before))
        self._is_open = len(found) == 1

    def _add(self, number: int) -> None:
        task, bit = self.tasks[-1], 1 << (len(self.tasks) - 1)
        direct, _ = self._needs(number)
        task.rows.append((number, self.rows[number]))
        task.cost += self.rows[number].launch.cost
        task.waits |= direct & ~bit
        self._where[number] = bit

    def _release(self, number: int) -> None:
        """Let those go on that waited for a row; where ways part that are dear, the task ends."""
        freed = []
        for other in self.next[number]:
            self._left[other] -= 1
            if not self._left[other]:
                freed.append(other)
        self._ready += sorted(freed, reverse=True)
        ways = [self.bottom[other] for other in freed]
        if not self._is_open or sum(ways) - max(ways, default=0) >= self.grain:
            self._close()


def _in_order(tasks: Sequence[Task]) -> list[Task]:
    """Tasks in the order to begin them: first what most depends on; each before all that wait for it."""
    bottom = [max(task.cost, 1) for task in tasks]
    for number in reversed(range(len(tasks))):
        for other in _bits(tasks[number].waits):
            bottom[other] = max(bottom[other], max(tasks[other].cost, 1) + bottom[number])
    order = sorted(range(len(tasks)), key=lambda number: (-bottom[number], number))
    place = {number: index for index, number in enumerate(order)}
    found = [tasks[number] for number in order]
    for index, task in enumerate(found):
        task.rows.sort(key=lambda numbered: numbered[0])
        task.before = sum(1 << place[number] for number in _bits(task.before))
        task.waits = sum(1 << place[number] for number in _bits(task.waits))
        for other in _bits(task.waits):
            found[other].next.append(index)
    return found


def _bits(mask: int) -> Iterator[int]:
    while mask:
        bit = mask & -mask
        mask ^= bit
        yield bit.bit_length() - 1


def _makespan(tasks: Sequence[Task], lanes: int) -> int:
    """How long so many workers take, each beginning the first task that is ready."""
    left = [task.waits.bit_count() for task in tasks]
    ready = [number for number, count in enumerate(left) if not count]
    heapify(ready)
    running: list[tuple[int, int]] = []
    now = 0
    while ready or running:
        while ready and len(running) < lanes:
            number = heappop(ready)
            heappush(running, (now + tasks[number].cost, number))
        now, done = heappop(running)
        for other in tasks[done].next:
            left[other] -= 1
            if not left[other]:
                heappush(ready, other)
    return now
