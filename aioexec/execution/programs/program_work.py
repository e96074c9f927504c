"""How long the parts of a program take, estimated when it is made: what decides whether a run may begin on the event loop."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from aioexec.graph.kernels.work import UNBOUNDED
from aioexec.planning.instruction import with_inner
from aioexec.planning.layout.variant import Break, Place, ProgramRow, Variant
from aioexec.planning.workload import work_beyond_inputs

LONGEST_TASK_NS = 200_000
"""Estimated time of the longest task, or row, that a loop may do of a run that is not inline."""


def is_in_slices(variant: Variant) -> bool:
    """Whether the tasks of a program are short enough for a loop, and the rows that are in none."""
    alone = set(range(len(variant.rows)))
    dearest = 0
    for region in variant.parallel_regions:
        for task in region.tasks:
            alone.difference_update(range(task.start, task.end))
            dearest = max(dearest, _cost_of(variant, range(task.start, task.end)))
    return max([dearest, *(_cost_of(variant, [row]) for row in alone)]) <= LONGEST_TASK_NS


def _cost_of(variant: Variant, rows: Iterable[int]) -> int:
    return sum(row.cost for k in rows if isinstance(row := variant.rows[k], ProgramRow))


def work_of_break(row: Break) -> float:
    """Nanoseconds of a reference kernel beyond those the layout counts for its inputs, as far as they follow from shapes."""
    if any(
        inner.structure is not None and inner.structure.is_loop for inner in with_inner([row.instruction])
    ):
        return UNBOUNDED
    if depends_on_data(row):
        return 0.0
    inputs = [source.spec if isinstance(source, Place) else source for source in row.inputs]
    outputs = sum(output[1].nbytes for output in row.outputs if not isinstance(output, int))
    return work_beyond_inputs(row.instruction, inputs, outputs)


def depends_on_data(row: Break) -> bool:
    """Whether it shows only when a row is reached how long it takes: of strings, of lists, and of what is in a branch."""
    return row.instruction.structure is not None or any(
        isinstance(source, int) or (isinstance(source, np.ndarray) and source.dtype == object)
        for source in row.inputs
    )
