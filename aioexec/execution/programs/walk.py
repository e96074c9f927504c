"""Walking a program: each stretch of native rows in one call of the walker, and the rows that it stops at.

A `Walk` calls the walker until the program is done or paused. Between stretches it executes the rows that the walker stops
at: those of `python_rows`, and parallel regions. `program_run.ProgramRun` decides which thread walks.
"""

from __future__ import annotations

from time import perf_counter_ns

import numpy as np

from aioexec.devices.jit import walker as walking
from aioexec.devices.jit.walker import Entry, Outcome
from aioexec.devices.threads.parallel_region import ENDLESS
from aioexec.devices.threads.workers import Workers
from aioexec.errors import InternalError, OpError
from aioexec.execution.programs.parallel_regions import region_run
from aioexec.execution.programs.python_rows import execute_row
from aioexec.execution.programs.run_memory import RunMemory
from aioexec.planning.instruction import locate
from aioexec.planning.layout.variant import ProgramRow


class Walk(RunMemory):
    """The execution of the rows of one run."""

    __slots__ = ()

    def start(self, entry: Entry) -> int:
        """Begin; if an input is not contiguous and aligned, copy the inputs and begin again."""
        outcome = entry(self.frame.words, *self.arrays)
        if outcome == Outcome.UNALIGNED:
            self.arrays = [np.require(array, requirements=["C", "A"]) for array in self.arrays]
            outcome = entry(self.frame.words, *self.arrays)
        return outcome

    def walk(self, outcome: int, resume: Entry, until: int | None = None) -> int:
        """Continue from an outcome until it is DONE or PAUSED; after the time `until`, no further break or task is begun.

        Raises:
            OpError: a node failed; CANCELLED is left to the caller.
        """
        if outcome == Outcome.BREAK:
            with np.errstate(all="ignore"):
                outcome = self._walk_breaks(resume, until)
        if outcome == Outcome.FAILED:
            raise self._failure()
        return outcome

    def _walk_breaks(self, resume: Entry, until: int | None) -> int:
        """Execute rows at which the walker stops, until the outcome is another one, or the time is over.

        Native rows that follow a break are few, or the walker's fuel bounds them: to go on with them takes less than a worker.
        """
        outcome: int = Outcome.BREAK
        while outcome == Outcome.BREAK:
            position = int(self.frame.words[walking.PC])
            began = 0 if self.trace is None else perf_counter_ns()
            try:
                outcome = self._stopped_at(position, until)
            finally:
                if self.trace is not None:
                    self.trace.stamp(position, began)
            if outcome != Outcome.DONE:
                break
            self.frame.words[walking.PC] += 1
            is_over = until is not None and perf_counter_ns() > until
            if is_over and position in self.program.parallel_regions:
                return Outcome.PAUSED
            outcome = resume(self.frame.words)
            if outcome == Outcome.BREAK and is_over:
                return Outcome.PAUSED
        return outcome

    def _stopped_at(self, position: int, until: int | None) -> int:
        """Run a row at which the walker stops: DONE, or the outcome that ends the walk."""
        if position in self.program.parallel_regions:
            return self._execute_region(position, until)
        return execute_row(self, self.program.variant.rows[position], until)

    def _execute_region(self, position: int, until: int | None) -> int:
        """Execute a parallel region as its owner, with helpers: DONE, PAUSED, CANCELLED, or FAILED, as of a walk."""
        self.region = region = region_run(self.program, self.frame, position)
        outcome = region.execute(ENDLESS if until is None else until)
        if self.trace is not None:
            region.note_threads(self.trace)
        if outcome == Outcome.DONE:
            self.frame.words[walking.PC] = region.link.region.end - 1  # the region was one row for the walker
            self.region = None
        return outcome

    def _resume(self, resume: Entry) -> int:
        """Continue after a pause; a region that has begun, until its helpers have left, even if the run is cancelled."""
        return resume(self.frame.words) if self.region is None else Outcome.BREAK

    def walk_released(self, outcome: int | None, workers: Workers) -> int:
        """Start (None) or continue, on one of these workers; PAUSED: other jobs wait for the thread."""
        walker = self.walker
        if self.trace is not None:
            self.trace.note_row(0 if outcome is None else int(self.frame.words[walking.PC]))
        if outcome is None:
            outcome = self.walk(self.start(walker.start_released), walker.resume_released)
        else:
            outcome = self.walk(self._resume(walker.resume_released), walker.resume_released)
        while outcome == Outcome.PAUSED and not workers.are_wanted:
            outcome = self.walk(walker.resume_released(self.frame.words), walker.resume_released)
        return outcome

    def walk_inline(self, outcome: int | None, until: int) -> int:
        """Start (None) or continue on the loop until a time; PAUSED: continue by `walk_inline` again, or by `walk_released`."""
        walker = self.walker
        entered = self.start(walker.start_inline) if outcome is None else self._resume(walker.resume_inline)
        return self.walk(entered, walker.resume_inline, until)

    def cancel(self) -> None:
        """Request that the walk stop before its next row; from any thread."""
        self.frame.spoilt = True
        self.frame.words[walking.CANCEL] = 1
        if self.inner is not None:
            self.inner.cancel()
        for region in tuple(self.frame.regions.values()):  # the walk may execute any of them
            region.cancel()

    def _failure(self) -> OpError:
        words = self.frame.words
        failed = self.program.variant.rows[int(words[walking.PC])]
        assert isinstance(failed, ProgramRow)
        instruction = self.program.variant.instructions[failed.position]
        row = instruction.node.row
        statuses = row.lists.statuses if row.lists is not None else ()
        statuses = statuses or (row.native.statuses if row.native is not None else ())
        status = int(words[walking.STATUS])
        if not 1 <= status <= len(statuses):
            return locate(
                InternalError(f"native kernel returned status {status}"), instruction, self.program.device
            )
        kind, message = statuses[status - 1]
        text = message.format_map(instruction.node.op.attrs)
        return locate(kind(text), instruction, self.program.device)
