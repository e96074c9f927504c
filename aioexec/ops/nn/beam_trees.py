"""`GatherTree`: the sequences of a beam search, followed back from their last steps through the parents of each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.errors import InvalidArgumentError
from aioexec.graph.kernels.kernel import Attrs, Launch, Launches, LoopKernel, Native, Operand, Spec, plain
from aioexec.graph.kernels.loop_language import Pointer
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.shapes import Dims

Array = np.ndarray[Any, Any]


def _shape(context: ShapeContext) -> Sequence[Dims]:
    ids, parents, longest, end = context.inputs
    shapes.with_rank(longest, 1)
    shapes.with_rank(end, 0)
    return [shapes.merge(shapes.with_rank(ids, 3), shapes.with_rank(parents, 3))]


def _gather_tree(ids: Array, parents: Array, longest: Array, end: Array) -> Array:
    if ids.ndim != 3 or ids.shape != parents.shape or longest.shape != ids.shape[1:2] or end.ndim:
        raise InvalidArgumentError(
            "step_ids and parent_ids must be 3-D and of equal shape, with one max_sequence_lengths per row and a scalar "
            f"end_token, got shapes {ids.shape}, {parents.shape}, {longest.shape} and {end.shape}"
        )
    steps, batch, width = ids.shape
    found = np.full_like(ids, end)
    for row in range(batch):
        count = min(steps, int(longest[row]))
        beams = np.arange(width)
        for step in reversed(range(count)):
            if ((beams < 0) | (beams >= width)).any():
                raise InvalidArgumentError(_OUTSIDE)
            found[step, row] = ids[step, row, beams]
            beams = parents[step, row, beams]
        ended = np.logical_or.accumulate(found[:count, row] == end, axis=0)
        found[:count, row][ended] = end
    return found


def follow_beams(
    ids: Pointer,
    parents: Pointer,
    longest: Pointer,
    end: Pointer,
    found: Pointer,
    steps: int,
    batch: int,
    width: int,
) -> int:
    """For each beam: its symbols from the last step to the first, then the end token after the first end token."""
    each = batch * width
    for k in range(each):
        row = k // width
        count = min(steps, longest[row])
        for step in range(steps):
            found[step * each + k] = end[0]
        beam = k - row * width
        for back in range(count):
            if beam < 0 or beam >= width:
                return 1
            place = (count - 1 - back) * each + row * width + beam
            found[(count - 1 - back) * each + k] = ids[place]
            beam = parents[place]
        ended = 0
        for step in range(count):
            if ended:
                found[step * each + k] = end[0]
            elif found[step * each + k] == end[0]:
                ended = 1
    return 0


def _bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    ids, parents, longest, end = inputs
    if len(ids.shape) != 3 or ids.shape != parents.shape or longest.shape != ids.shape[1:2] or end.shape:
        return None
    kernel = LoopKernel(follow_beams, ("int32",) * 5, 3, 0)
    operands = (*(Operand("input", k) for k in range(4)), Operand("output", 0))
    return Launches((Launch(kernel, operands, ids.shape, cost=10 + 4 * ids.size),))


_OUTSIDE = "GatherTree: parent id of a beam is out of range"

register(
    "GatherTree(step_ids:T, parent_ids:T, max_sequence_lengths:int32, end_token:T) -> (beams:T) [T:type{int32}]",
    shape=_shape,
    kernel=plain(_gather_tree),
    native=Native(_bind, statuses=((InvalidArgumentError, _OUTSIDE),)),
    gradient=NOT_DIFFERENTIABLE,
)
