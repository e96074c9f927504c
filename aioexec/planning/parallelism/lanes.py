"""Forms parallel regions: expensive straight-line stretches of a program are split into tasks that several workers run.

A stretch is straight-line code: no row in it stops the walker or jumps, and no jump leads into it. Two of its rows are ordered
if one writes a buffer that the other reads or writes. Tasks are formed by list scheduling:

    1. Take the row that became ready last, so that chains stay together.
    2. Append it to the open task if it adds no dependence to the task, and keeps its cost below the grain, or below a share if
       the row depends on the task itself. Otherwise set it aside until the task is closed.
    3. When no ready row fits, close the task, and open the next one with a row that was set aside.
    4. An expensive row with units (see `parts`) is split into several tasks.

The result follows from shapes, static costs and the number of workers. The number of workers does not change the computed
values, since each row computes the same as without regions. Exception: very large matrix products, where BLAS accumulates the
last columns of a part in another order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from heapq import heapify, heappop, heappush

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.kernel import ElementwiseKernel
from aioexec.planning.layout.buffers import Buffer
from aioexec.planning.layout.pending import Pending, PendingJump, PendingOperand, PendingRow, labels

SHARE_NS = 50_000
"""The least estimated work for which it pays to wake another worker."""
_PART_NS = 12_500
"""The least estimated work of a part of a row: a spinning thread begins it within a few microseconds."""
_LEAST_GRAIN_NS = 20_000
"""The least estimated work of a task: an upper bound on the time that workers wait for each other at the end of a region."""
_FEW_PER_LANE = 2
"""Parts per lane of an expensive row: helpers arrive at different times, and are not equally fast."""
MOST_PER_LANE = 8
"""The most parts per lane, for a row so expensive that each part is still long."""
_LONG_PART_NS = 60_000
"""Estimated work of a part above which a row is split further: a worker may wait for one part before the next row begins, and
the other callbacks of an event loop wait for the part that the loop runs."""
_LOOP_DIVISOR = 16
"""Divisor of the least work of parts and tasks in a loop: its regions follow each other, so helpers spin when one begins."""
_LONG_NS = 10_000_000
"""Estimated work of a stretch from which its order counts for memory, too."""
_WINDOWS = 64
"""Windows of a long stretch: a task may run while those of the window before it run, not earlier."""
_MOST_LONGER = 1.02
"""The most by which a stretch may take longer so that it takes less memory."""
_TASK_NS = 200
_TASKS_PER_LANE = 64
"""The most tasks per lane, unless their cost would be below the least: a thread that claims a task scans all of them."""


@dataclass(slots=True, eq=False)
class Task:
    """A task of a parallel region: rows that one thread runs in program order.

    Attributes:
        rows: each with its number in the program; parts of one row have the same number.
        waits: bit set of the tasks it waits for; `before`: these and, transitively, all that they wait for.
        next: numbers of the tasks that wait for this one.
    """

    rows: list[tuple[int, PendingRow]] = field(default_factory=list)
    cost: int = 0
    waits: int = 0
    before: int = 0
    next: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class PendingParallelRegion:
    """A stretch of a program as tasks, in an order in which they may begin.

    Attributes:
        start: the row of the region in the new program, directly before those of its tasks.
        scratch: memory for buffers used in one task only, `lane_bytes` for each lane; None: there are none.
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
    """A program with parallel regions.

    Attributes:
        rows: each region is followed by the rows of its tasks.
        places: for each row of the old program the rows of the new one that replace it.
    """

    rows: list[Pending | PendingParallelRegion]
    parallel_regions: list[PendingParallelRegion]
    places: list[tuple[int, ...]]


def cut(rows: Sequence[Pending], lanes: int, same: Mapping[int, Buffer]) -> Cut | None:
    """Form the parallel regions of a program for so many workers, and adjust its labels; None: there are none.

    Args:
        same: maps the id() of a buffer to another one that may be the same memory.
    """
    if lanes < 2:
        return None
    found: dict[int, tuple[int, PendingParallelRegion]] = {}
    reached = -1
    for begin, end, divisor in _stretches(rows):
        stretch = [row for row in rows[begin:end] if isinstance(row, PendingRow)]
        tasks = _tasks(stretch, lanes, same, divisor)
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


def _stretches(rows: Sequence[Pending]) -> Iterator[tuple[int, int, int]]:
    """First row and end of each straight-line stretch that is expensive enough to consider, and the divisor for its tasks.

    The copies of the variables of a loop at its end have the position of the loop; they are in no stretch of its body.
    """
    entered = {label.row for label in labels(rows)}
    loops = [
        (row.target.row, index)
        for index, row in enumerate(rows)
        if isinstance(row, PendingJump) and row.target.row <= index
    ]
    begin, cost = 0, 0
    for index, row in enumerate([*rows, None]):
        plain = isinstance(row, PendingRow) and row.after is None
        if not plain or index in entered or _begins_again(rows[begin], row):
            divisor = _LOOP_DIVISOR if any(first <= begin and index <= last for first, last in loops) else 1
            if cost >= 2 * SHARE_NS:
                yield begin, index, divisor
            begin, cost = (index if plain else index + 1), 0
        if isinstance(row, PendingRow) and plain:
            cost += row.launch.cost


def _begins_again(first: Pending, row: Pending | None) -> bool:
    """Whether a row belongs to what is around the stretch of the first: it copies a variable of the loop."""
    return isinstance(row, PendingRow) and row.position < first.position


def _tasks(
    rows: Sequence[PendingRow], lanes: int, same: Mapping[int, Buffer], divisor: int
) -> list[Task] | None:
    """The tasks of a stretch; None if running them in parallel gains too little."""
    total = sum(row.launch.cost for row in rows)
    made = _ListScheduler(rows, lanes, same, total, divisor).tasks
    tasks = _arranged(made, _by_path(made))
    span = _makespan(tasks, lanes)
    if total >= _LONG_NS:
        in_windows = _arranged(_in_windows(made, total // _WINDOWS), range(len(made)))
        if _makespan(in_windows, lanes) <= _MOST_LONGER * span:
            tasks = in_windows
    gain = total - span - _TASK_NS * len(tasks)
    return tasks if 2 * gain >= SHARE_NS else None


def waits(rows: Sequence[PendingRow], same: Mapping[int, Buffer]) -> list[set[int]]:
    """For each row the earlier rows it depends on: one of the two writes a buffer that the other reads or writes.

    Rows that are shares of one piece of work do not depend on each other.
    """
    found: list[set[int]] = []
    writers: dict[int, list[int]] = {}  # the last one, or the shares of it so far
    before: dict[int, set[int]] = {}  # the rows that those had to wait for
    readers: dict[int, list[int]] = {}
    for number, row in enumerate(rows):
        mine: set[int] = set()
        for key, writes in _accesses(row, same).items():
            last = writers.get(key, [])
            if last and key not in readers and all(_is_share_of(row, rows[other]) for other in last):
                mine |= before[key]
                last.append(number)
                continue
            needs = set(last)
            if writes:
                needs.update(readers.pop(key, ()))
                writers[key], before[key] = [number], needs
            else:
                readers.setdefault(key, []).append(number)
            mine |= needs
        found.append(mine)
    return found


def _is_share_of(row: PendingRow, other: PendingRow) -> bool:
    """Whether two rows are shares of one instruction's work, each with scratch memory of its own if they need any.

    Shares have the units that `ops.common.shares` has made for them. What all units use, without a stride, is only read.
    Launches of elementwise kernels are cached instead, so rows that have nothing to do with each other have the same units: two
    updates of a variable, for one.
    """
    units = row.launch.units
    if units is None or units is not other.launch.units or row.position != other.position:
        return False
    if isinstance(row.launch.kernel, ElementwiseKernel):
        return False
    operands = zip(units.strides, row.operands, other.operands, strict=True)
    return all(not stride or mine[1] != theirs[1] for stride, mine, theirs in operands)


def _accesses(row: PendingRow, same: Mapping[int, Buffer]) -> dict[int, bool]:
    """The buffers a row touches, by id(), and whether it writes them; buffers that may be the same memory are one."""

    def keys(operands: Sequence[PendingOperand]) -> Iterator[int]:
        return (id(same.get(id(buffer), buffer)) for buffer, _ in operands)

    return dict.fromkeys(keys(row.reads), False) | dict.fromkeys(keys(row.writes), True)


def parts(row: PendingRow, lanes: int, grain: int, divisor: int = 1) -> list[PendingRow]:
    """Split an expensive row into parts for several workers; any other is returned as it is.

    The result follows from shapes and static costs alone.

    Args:
        grain: least estimated work of a task, so that there are not too many of them.
        divisor: of the least work of a part.
    """
    launch = row.launch
    units = launch.units
    least = max(_PART_NS // divisor, 1)
    if units is None or launch.cost < 2 * least:
        return [row]
    total = launch.words[units.word]
    few = min(_FEW_PER_LANE * lanes, launch.cost // least)
    wanted = max(few, min(MOST_PER_LANE * lanes, launch.cost // max(_LONG_PART_NS, grain)))
    wanted = min(wanted, max(lanes, total // units.share))
    wanted -= wanted % lanes if wanted > lanes else 0  # the same number for each lane, else one ends later
    grains = -(-total // units.grain)
    least, larger = divmod(grains, max(min(wanted, grains), 1))
    found: list[PendingRow] = []
    first = 0
    while first < total:  # the larger parts first, so that threads end at the same time
        step = (least + (len(found) < larger)) * units.grain
        operands = tuple(
            (buffer, offset + first * stride)
            for (buffer, offset), stride in zip(row.operands, units.strides, strict=True)
        )
        count = min(step, total - first)
        words = units.words_of(launch.words, first, count)
        part = replace(launch, words=words, cost=max(launch.cost * count // total, 1), units=None)
        found.append(replace(row, launch=part, operands=operands))
        first += step
    return found


class _ListScheduler:
    """Assigns the rows of one stretch to tasks, by the list scheduling described in the module.

    Constant: `parts` of each row; `grain`, the least work of a task; `share`, the most of one that continues a chain;
    `bottom`, the cost of the longest path from each row to the end of the stretch. Changing: `tasks`, the last of which is open
    if `_is_open`; `_where`, for each row the bit set of tasks it is in; `_ready`, a stack of rows that may be assigned;
    `_aside`, those that do not fit the open task, in the order they were tried.
    """

    def __init__(
        self, rows: Sequence[PendingRow], lanes: int, same: Mapping[int, Buffer], total: int, divisor: int
    ) -> None:
        self.rows = rows
        self.grain = max(total // (_TASKS_PER_LANE * lanes), _LEAST_GRAIN_NS // divisor)
        self.share = SHARE_NS // divisor
        self.parts = [parts(row, lanes, self.grain, divisor) for row in rows]
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
        self._assign()

    def _assign(self) -> None:
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
        """The tasks a row waits for, and these with all they transitively wait for."""
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
        """Whether a row may join the open task: it depends on the task, or waits for exactly the same tasks as it does."""
        task, bit = self.tasks[-1], 1 << (len(self.tasks) - 1)
        cost = task.cost + self.rows[number].launch.cost
        full = max(self.grain, task.rows[0][1].launch.cost)
        if len(self.parts[number]) > 1:
            return False
        _, before = self._needs(number)
        if before & bit:
            return cost <= max(full, self.share) * 3 // 2 and not before & ~(task.before | bit)
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
        """Make rows ready that waited for a row; close the task if more than one expensive path begins after it."""
        freed = []
        for other in self.next[number]:
            self._left[other] -= 1
            if not self._left[other]:
                freed.append(other)
        self._ready += sorted(freed, reverse=True)
        ways = [self.bottom[other] for other in freed]
        if not self._is_open or sum(ways) - max(ways, default=0) >= self.grain:
            self._close()


def _by_path(tasks: Sequence[Task]) -> list[int]:
    """The numbers of tasks by the length of the path that depends on them, longest first."""
    bottom = [max(task.cost, 1) for task in tasks]
    for number in reversed(range(len(tasks))):
        for other in _bits(tasks[number].waits):
            bottom[other] = max(bottom[other], max(tasks[other].cost, 1) + bottom[number])
    return sorted(range(len(tasks)), key=lambda number: (-bottom[number], number))


def _in_windows(tasks: Sequence[Task], cost: int) -> list[Task]:
    """Tasks that also wait for all tasks that come long before them: those before the previous window of so much cost.

    Of these, it suffices to name those of the last two windows on which no other one depends. `before` is left out.
    """
    found: list[Task] = []
    begins = [0]  # the first tasks of windows
    ends = 0  # the tasks to wait for
    spent = 0
    for number, task in enumerate(tasks):
        if spent >= cost:
            begins.append(number)
            spent = 0
            ends = _ends(found, *begins[-4:-1:2]) if len(begins) > 3 else _ends(found, 0, begins[-2])
        spent += task.cost
        found.append(Task(task.rows, task.cost, task.waits | (ends & ~task.before)))
    return found


def _ends(tasks: Sequence[Task], begin: int, end: int) -> int:
    """The tasks of a range, as a bit set, for which no other one of it waits."""
    found = waited_for = 0
    for number in range(begin, end):
        found |= 1 << number
        waited_for |= tasks[number].waits
    return found & ~waited_for


def _arranged(tasks: Sequence[Task], order: Sequence[int]) -> list[Task]:
    """Put tasks, and their rows, in order; each task precedes all that wait for it."""
    place = {number: index for index, number in enumerate(order)}
    found: list[Task] = []
    for index, number in enumerate(order):
        task = tasks[number]
        waits = before = 0
        for other in (place[other] for other in _bits(task.waits)):
            waits |= 1 << other
            before |= 1 << other | found[other].before
            found[other].next.append(index)
        found.append(Task(sorted(task.rows, key=lambda numbered: numbered[0]), task.cost, waits, before))
    return found


def _bits(mask: int) -> Iterator[int]:
    while mask:
        bit = mask & -mask
        mask ^= bit
        yield bit.bit_length() - 1


def _makespan(tasks: Sequence[Task], lanes: int) -> int:
    """The time that `lanes` workers take, each of which claims the first ready task."""
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
