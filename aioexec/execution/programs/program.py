"""A program: a variant linked to kernels, immutable but for its pool of frames and its measured cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from aioexec.devices.jit.walker import Walker
from aioexec.devices.threads.workers import Workers
from aioexec.execution.programs.frame import Frame, FramePool
from aioexec.execution.programs.linking import MOST_NS, link
from aioexec.execution.programs.program_work import depends_on_data, is_in_slices, work_of_break
from aioexec.graph.kernels.kernel import Kernel
from aioexec.graph.kernels.work import UNBOUNDED
from aioexec.planning.layout.variant import Variant

if TYPE_CHECKING:
    from aioexec.observability.cost_model import CostModel

Array = np.ndarray[Any, Any]
JUMPING_INLINE_LIMIT_NS = 50_000
"""Estimated nanoseconds an inline walk of unknown duration may take before it moves to a worker."""
INLINE_LIMIT_NS = 150_000
"""The longest run that begins and ends inline: less than two hops between threads take, and less than a third of a tick."""
_WINDOW_NS = 2_000_000
"""Total duration of the runs that count as recent."""
_LONGEST_COUNTED_NS = _WINDOW_NS // 2
"""What a run adds to that at most: one slow run says little, as the system may have run another process meanwhile."""
_ENDLESS = 1 << 62


class Settled(Protocol):
    """What a program knows of its `execution.settled_variables`: the program for the next run, and the one that packs them."""

    packed: Program | None

    def current(self) -> Program: ...


class Program(FramePool):
    """A variant whose kernels have addresses.

    Constant: `variant`, `rows`, `blocks` (the memory the walker reads), `parallel_regions` by row, `device`, `workers`;
    `is_for_loops`, the event loop may walk a run in slices (see `program_run`); `may_move`, the duration of a run depends on
    data, so a run that begins inline may have to move to a worker; `is_stateless`, there are no jumps, breaks or variables. In
    a program with parallel regions nothing is written in place.

    Changing, on the event loop: `at_hand`, idle frames that a walk on the loop may use without a lease, since nothing else
    runs before it ends; `rooms`, the length that lists reached, by slot; `cost`, nanoseconds of a run: estimated, then the
    least of recent runs; `_least` and `_spent`, the least and the total of the runs since; `inline`, runs begin and end on the
    loop; `last_used`, a count; `settled`, of a program that only reads variables: the one that runs while these stay.
    """

    def __init__(
        self,
        variant: Variant,
        walker: Walker,
        address: Callable[[Kernel], int],
        device: str,
        workers: Workers,
    ) -> None:
        super().__init__()
        self.variant = variant
        self.walker = walker
        self.device = device
        self.workers = workers
        self.rows, self.blocks, self.parallel_regions = link(variant, walker, address, workers.waiting)
        self.at_hand: Sequence[Frame] = self.frames
        work = [work_of_break(row) for row in variant.breaks]
        self.cost = variant.cost + sum(int(each) for each in work if each < UNBOUNDED)
        self.may_move = variant.jumps or any(map(depends_on_data, variant.breaks))
        self.unbroken = not (variant.breaks or variant.objects or variant.given or variant.object_inputs)
        self.is_stateless = self.unbroken and not self.may_move and not variant.uses
        self._is_for_workers = bool(self.parallel_regions) or UNBOUNDED in work
        self.is_for_loops = self.unbroken and not self.may_move and is_in_slices(variant)
        self.inline_limit_ns = JUMPING_INLINE_LIMIT_NS if variant.jumps else INLINE_LIMIT_NS
        self.fuel = (
            JUMPING_INLINE_LIMIT_NS
            if variant.jumps
            else min(max(JUMPING_INLINE_LIMIT_NS, variant.cost), MOST_NS)
        )
        self.inline = not self._is_for_workers and self.cost <= self.inline_limit_ns
        self._least, self._spent = _ENDLESS, 0
        self.last_used = 0
        self.settled: Settled | None = None
        self.rooms: dict[int, int] = {}
        self.specs = [(spec.shape, spec.dtype) for _, spec in variant.outputs]

    def new_frame(self) -> Frame:
        return Frame(self)

    def expect(self, costs: CostModel) -> None:
        """Raise the estimate, before the first run, to the measured cost of the nodes that break the program."""
        measured = sum(costs.least(row.instruction.node.name) or 0 for row in self.variant.breaks)
        if measured > self.cost:
            self.cost = measured
            self.inline = not self._is_for_workers and measured <= self.inline_limit_ns

    def record_duration(self, nanoseconds: int) -> None:
        """Update the cost from the duration of a run.

        The least duration of recent runs counts, since it is insensitive to other load on the machine. So one cheap run makes
        the following runs inline; all runs of a window must have been expensive for them to leave the loop.
        """
        self._least = nanoseconds if nanoseconds < self._least else self._least
        self._spent += nanoseconds if nanoseconds < _LONGEST_COUNTED_NS else _LONGEST_COUNTED_NS
        if nanoseconds <= self.inline_limit_ns and not self._is_for_workers:
            self.inline = True
        if self._spent > _WINDOW_NS:
            self.cost = self._least
            self.inline = self.inline and self.cost <= self.inline_limit_ns * 5 // 4
            self._least, self._spent = _ENDLESS, 0
