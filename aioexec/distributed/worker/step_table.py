"""The steps a task takes part in, by step id, each with the rendezvous that holds its values.

A step is in the table from its first call, which may be another task's request for a value, until its master reports its end. A
dead master does not report it, so steps without a call for a long time are dropped, and the number of steps is bounded.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from aioexec.errors import AbortedError, OpError, ResourceExhaustedError
from aioexec.execution.remote_rendezvous import RemoteRendezvous

MOST_STEPS = 1 << 16
MOST_ENDED = 1 << 14
IDLE_SECONDS = 3600.0

NewRendezvous = Callable[[int], RemoteRendezvous]
"""Makes the rendezvous of a step."""


class StepEntry:
    """One step.

    Constant: `step_id`, `rendezvous`. Changing: `uses` counts the calls under way for it; `used_before` is the number of the
    next check for idle steps when such a call last began or ended; `runs` counts its executions, all for one session, the
    `owner`; `stops` are callbacks for its end; `quiet` is an event that is set when no execution is left, None while there is
    no waiter.
    """

    __slots__ = ("owner", "quiet", "rendezvous", "runs", "step_id", "stops", "used_before", "uses")

    def __init__(self, step_id: int, rendezvous: RemoteRendezvous) -> None:
        self.step_id = step_id
        self.rendezvous = rendezvous
        self.uses = 0
        self.used_before = 0
        self.runs = 0
        self.owner: object = None
        self.stops: list[Callable[[OpError], None]] = []
        self.quiet: asyncio.Event | None = None

    def begin_run(self, owner: object, stop: Callable[[OpError], None] | None = None) -> None:
        """Begin an execution; if the step is ended, `stop` or the functions in `stops` are called."""
        self.runs += 1
        self.owner = owner
        if stop is not None:
            self.stops.append(stop)

    def end_run(self) -> None:
        """End an execution that has begun."""
        self.runs -= 1
        if self.runs == 0 and self.quiet is not None:
            self.quiet.set()


class StepTable:
    """The steps of a task by id, in the order of their last use.

    Changing: `_ended` are ids of steps that have ended, oldest first, each with the tasks to which its values were pushed.
    `_timer` checks for idle steps periodically, `_look` is the number of the next check; the timer also runs while there is no
    step, since the next one is likely to come before it fires.

    Args:
        new_rendezvous: makes the rendezvous of a step.
        most_steps: the limit; a further step is refused, unless an idle one can be dropped for it.
        idle_seconds: the least time that a step without calls is kept.
    """

    def __init__(
        self, new_rendezvous: NewRendezvous, most_steps: int = MOST_STEPS, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self._new_rendezvous = new_rendezvous
        self._most_steps = most_steps
        self._idle_seconds = idle_seconds
        self._steps: OrderedDict[int, StepEntry] = OrderedDict()
        self._ended: OrderedDict[int, tuple[str, ...]] = OrderedDict()
        self._look = 0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._steps)

    def __contains__(self, step_id: int) -> bool:
        return step_id in self._steps

    def rendezvous(self, step_id: int) -> RemoteRendezvous:
        """The rendezvous of a step of this task's own master, which must `end` it; made if there is none."""
        return self.enter(step_id).rendezvous

    def enter(self, step_id: int) -> StepEntry:
        """Find or make a step, which is in use until `leave`.

        Raises:
            ResourceExhaustedError: there are too many steps.
        """
        step = self._steps.get(step_id)
        if step is None:
            step = self._new_step(step_id)
        else:
            self._steps.move_to_end(step_id)
        step.uses += 1
        step.used_before = self._look
        return step

    def enter_early(self, step_id: int) -> StepEntry | None:
        """The step of a pushed value, made if there is none, without counting as a use. None: the step has ended.

        Raises:
            ResourceExhaustedError: there are too many steps.
        """
        step = self._steps.get(step_id)
        if step is None and step_id not in self._ended:
            step = self._new_step(step_id)
        return step

    def all(self) -> list[StepEntry]:
        """The steps there are."""
        return list(self._steps.values())

    def leave(self, step: StepEntry) -> None:
        """End a use of the step, which may have ended meanwhile; the counterpart of `enter`."""
        step.uses -= 1
        if self._steps.get(step.step_id) is not step:
            return
        if step.uses == 0 and step.owner is None and step.rendezvous.is_empty:
            # the only uses were requests for values, and no part of the step has run here
            self._forget(step.step_id)
            return
        step.used_before = self._look
        self._steps.move_to_end(step.step_id)

    def has_ended(self, step_id: int) -> bool:
        """Whether a step has ended recently, and was not begun again."""
        return step_id in self._ended

    def has_notified(self, step_id: int, task: str) -> bool:
        """Whether values of a step, which may have ended recently, were pushed to a task."""
        step = self._steps.get(step_id)
        return task in (self._ended.get(step_id, ()) if step is None else step.rendezvous.notified)

    def end(self, step_id: int, error: OpError | None = None) -> None:
        """Abort a step and remove it; the end of an unknown step is recorded."""
        step = self._forget(step_id)
        self._ended[step_id] = () if step is None else tuple(step.rendezvous.notified)
        if len(self._ended) > MOST_ENDED:
            self._ended.popitem(last=False)
        if step is None or (error is None and not step.runs and step.rendezvous.is_empty):
            return  # no state of it is left, or none that an error could reach
        error = error or AbortedError(f"step {step_id} has ended")
        step.rendezvous.start_abort(error)
        for stop in step.stops:
            stop(error)

    def end_if_over(self, step_id: int) -> bool:
        """End a step whose part has run here if all values it sent were received; returns whether it was ended."""
        step = self._steps.get(step_id)
        if step is None or step.runs or not step.rendezvous.is_empty:
            return False
        self.end(step_id)
        return True

    async def end_and_wait(self, step_id: int) -> None:
        """End a step, and wait until its executions here have ended: its resources are released then."""
        step = self._steps.get(step_id)
        self.end(step_id)
        if step is not None and step.runs:
            step.quiet = step.quiet or asyncio.Event()
            await step.quiet.wait()

    def _forget(self, step_id: int) -> StepEntry | None:
        return self._steps.pop(step_id, None)

    def end_steps_of(self, owner: object) -> None:
        """End the steps of a closed session: the messages that end them may have been lost."""
        for step_id in [step_id for step_id, step in self._steps.items() if step.owner is owner]:
            self.end(step_id)

    def close(self) -> None:
        """End all steps."""
        for step_id in list(self._steps):
            self.end(step_id, AbortedError(f"step {step_id} was under way when its task shut down"))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Idle steps

    def _new_step(self, step_id: int) -> StepEntry:
        if len(self._steps) >= self._most_steps:
            self._make_room()
        self._ended.pop(step_id, None)
        step = self._steps[step_id] = StepEntry(step_id, self._new_rendezvous(step_id))
        step.used_before = self._look
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._idle_seconds, self._drop_idle)
        return step

    def _make_room(self) -> None:
        for step_id, step in self._steps.items():
            if not step.uses:
                self.end(step_id, _dropped_error(step_id))
                return
        raise ResourceExhaustedError(f"{len(self._steps)} steps are under way on this task, the limit")

    def _drop_idle(self) -> None:
        for step_id, step in list(self._steps.items()):
            if step.used_before == self._look:
                break
            if not step.uses:
                self.end(step_id, _dropped_error(step_id))
        self._look += 1
        self._timer = None
        if self._steps:
            self._timer = asyncio.get_running_loop().call_later(self._idle_seconds, self._drop_idle)

    def check_invariants(self) -> None:
        assert len(self._steps) <= self._most_steps
        assert len(self._ended) <= MOST_ENDED
        assert not self._steps.keys() & self._ended.keys(), "a step that has ended is still running"
        assert self._timer is not None or not self._steps, "there are steps, but no timer looks for idle ones"
        for step in self._steps.values():
            assert step.uses >= 0
            assert step.runs >= 0
            assert step.owner is not None or not step.runs, "what runs belongs to a session"
            step.rendezvous.check_invariants()


def _dropped_error(step_id: int) -> AbortedError:
    return AbortedError(f"step {step_id} was dropped: nothing has happened in it for long")
