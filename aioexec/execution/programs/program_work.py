"""Estimates of the duration of a program's parts, made when it is linked; they decide whether runs begin on the event loop."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from aioexec.graph.kernels.work import UNBOUNDED
from aioexec.planning.instruction import with_inner
from aioexec.planning.layout.variant import Break, Place, ProgramRow, Variant
from aioexec.planning.workload import work_beyond_inputs

LONGEST_TASK_NS = 200_000
"""Estimated duration of the longest task or row in a run that the event loop walks in slices."""


def is_in_slices(variant: Variant) -> bool:
    """Whether the tasks of a program, and the rows outside of parallel regions, are short enough for slices on the loop."""
    alone = set(range(len(variant.rows)))
    longest = 0
    for region in variant.parallel_regions:
        for task in region.tasks:
            alone.difference_update(range(task.start, task.end))
            longest = max(longest, _cost_of(variant, range(task.start, task.end)))
    return max([longest, *(_cost_of(variant, [row]) for row in alone)]) <= LONGEST_TASK_NS


def _cost_of(variant: Variant, rows: Iterable[int]) -> int:
    return sum(row.cost for k in rows if isinstance(row := variant.rows[k], ProgramRow))


def work_of_break(row: Break) -> float:
    """Estimated nanoseconds of a reference kernel beyond those the layout counts for its inputs; from shapes alone."""
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
    """Whether the duration of a row follows only from its values: for strings, for lists, and for loops and conditionals."""
    return row.instruction.structure is not None or any(
        isinstance(source, int) or (isinstance(source, np.ndarray) and source.dtype == object)
        for source in row.inputs
    )
