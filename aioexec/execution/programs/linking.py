"""Linking: encodes a variant's rows for the walker, with the addresses of kernels, and its parallel regions for their lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.devices.jit import walker as walking
from aioexec.devices.jit.walker import HEADER, Walker
from aioexec.devices.threads import parallel_region as region_state
from aioexec.graph.kernels.kernel import Kernel
from aioexec.planning.layout.variant import Jump, ParallelRegion, ProgramRow, Row, Variant

Array = np.ndarray[Any, Any]
_JUMP_NS = 5


def address_of(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


@dataclass(frozen=True, slots=True, eq=False)
class LinkedRegion:
    """A parallel region and the initial `state` of its executions, which points to `tasks` and `successors`.

    `word` is the word of a frame that holds the address of the team.
    """

    region: ParallelRegion
    word: int
    state: Array
    tasks: Array
    successors: Array


MOST_NS: Final = 1 << 62
"""Bound on the cost of a row: estimates have no limit, words have."""


def link(
    variant: Variant, walker: Walker, address: Callable[[Kernel], int], waiting: Array
) -> tuple[Array, Array, dict[int, LinkedRegion]]:
    """Rows and blocks as the walker reads them, and the parallel regions by their rows.

    Args:
        waiting: the words of the workers' spinning queue.
    """
    rows = np.zeros((max(len(variant.rows), 1), walking.ROW_WORDS), np.int64)
    numbers = {id(row): number for number, row in enumerate(variant.parallel_regions)}
    found = [
        _region_block(row, HEADER + variant.slots + numbers[id(row)], waiting)
        if isinstance(row, ParallelRegion)
        else _block(row, address)
        for row in variant.rows
    ]
    starts = np.cumsum([0, *(len(block) for block in found)])
    memory = np.concatenate([*found, np.zeros(1, np.int64)])
    base = address_of(memory)
    regions: dict[int, LinkedRegion] = {}
    for index, row in enumerate(variant.rows):
        place = base + 8 * int(starts[index])
        if isinstance(row, Jump):
            kernel = walker.jump if row.predicate is None else walker.jump_unless
            rows[index] = kernel, place, _JUMP_NS, 0
        elif isinstance(row, ProgramRow):
            rows[index] = address(row.kernel), place, min(row.cost, MOST_NS), 0
        elif isinstance(row, ParallelRegion):
            tasks = (variant.rows[k] for task in row.tasks for k in range(task.start, task.end))
            cost = sum(task.cost for task in tasks if isinstance(task, ProgramRow)) // row.lanes
            rows[index] = 0, place, min(cost, MOST_NS), 0
            regions[index] = _link(row, HEADER + variant.slots + numbers[id(row)])
    return rows, memory, regions


def _region_block(region: ParallelRegion, word: int, waiting: Array) -> Array:
    """The block of a parallel region, see `devices.threads.team`."""
    return np.array([word, region.end, address_of(waiting)], np.int64)


def _block(row: Row, address: Callable[[Kernel], int]) -> Array:
    """The block of a row; empty if Python runs the row."""
    if isinstance(row, Jump):
        slot, offset = row.predicate or (0, 0)
        return np.array([HEADER + slot, offset, row.target], np.int64)
    if not isinstance(row, ProgramRow):
        return np.zeros(0, np.int64)
    head = [word for slot, offset in row.operands for word in (HEADER + slot, offset)]
    called = () if row.calls is None else (address(row.calls),)
    reals = np.array(row.reals, np.float64).view(np.int64)
    return np.concatenate([np.array([*head, *row.words, *called], np.int64), reals])


def _link(region: ParallelRegion, word: int) -> LinkedRegion:
    tasks = np.zeros((len(region.tasks), 4), np.int64)
    successors = np.array([*(k for task in region.tasks for k in task.next), 0], np.int64)
    state = np.zeros(region_state.HEADER + region_state.TASK_WORDS * len(region.tasks), np.int64)
    state[region_state.LEFT] = state[region_state.COUNT] = len(region.tasks)
    state[region_state.TASKS], state[region_state.SUCCESSORS] = address_of(tasks), address_of(successors)
    first = 0
    for k, task in enumerate(region.tasks):
        tasks[k] = task.start, task.end, first, first + len(task.next)
        first += len(task.next)
        place = region_state.HEADER + region_state.TASK_WORDS * k
        state[place + region_state.WAITS], state[place + region_state.REACHED] = task.waits, task.start
    return LinkedRegion(region, word, state, tasks, successors)
