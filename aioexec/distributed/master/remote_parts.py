"""The parts of a step that run on other tasks: the interface between the executor of the master's own part and RunGraph calls.

A graph is registered with each task; a step runs it by one RunGraph call. Values between the parts are transferred by the
rendezvous, from worker to worker. A step ends with one error, the *root* cause: a derived error, which another part caused, is
held back until the root error has come, or all parts have ended without one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from aioexec.data_classes import dataclass
from aioexec.distributed.transport.first_step import begin
from aioexec.distributed.transport.methods import METHODS
from aioexec.distributed.transport.status import error_from, is_derived
from aioexec.distributed.transport.transport import Channel, Payload, Posted
from aioexec.errors import OpError, from_exception
from aioexec.execution.partition_group import Run
from aioexec.execution.rendezvous import IntraProcessRendezvous
from aioexec.execution.step import SharedStep, Step

ROOT_ERROR_TIMEOUT = 1.0
"""Seconds that a derived error waits for its root."""

RUN_GRAPH = "WorkerService/RunGraph"
CLEANUP_GRAPH = "WorkerService/CleanupGraph"
_Request = METHODS[RUN_GRAPH].request
_CleanupRequest = METHODS[CLEANUP_GRAPH].request

QUIET_SECONDS = 10.0
"""Seconds that a failed step waits for a task to finish its part."""


@dataclass(frozen=True, slots=True)
class RegisteredPart:
    """The part of one task in a plan.

    Attributes:
        task: its name.
        channel: to the task.
        session_handle: of the session there.
        graph_handle: of the part's graph in that session.
        on_failure: called with every error of a step, of this task or another, so that the session can detect a restart of the
            task.
    """

    task: str
    channel: Channel
    session_handle: str
    graph_handle: str
    on_failure: Callable[[str, OpError], None]


class DistributedStep(SharedStep):
    """One step on several tasks; it holds derived errors back.

    Args:
        forget: called when the step is over, with the parts whose tasks still have state of it.

    `running` counts the calls under way; `_parts` are those whose tasks may have state of it; `_derived` is the first derived
    error, `_timer` ends the wait for its root.
    """

    __slots__ = ("_derived", "_forget", "_parts", "_timer", "running")

    def __init__(
        self,
        step_id: int,
        rendezvous: IntraProcessRendezvous,
        parts: Sequence[RegisteredPart],
        forget: Callable[[int, Sequence[RegisteredPart]], None],
    ) -> None:
        super().__init__(step_id, rendezvous)
        self._parts = list(parts)
        self._forget = forget
        self.running = 0
        self._derived: OpError | None = None
        self._timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        self._forget(self.step_id, self._parts)

    def remove_part(self, part: RegisteredPart) -> None:
        """Record that a task has no state of the step any more."""
        self._parts.remove(part)

    def holds_back(self, step: Step, error: BaseException) -> bool:
        if not is_derived(error) or error is self._derived or self.running == 0:
            if self._timer is not None:
                self._timer.cancel()
            return False
        if self._derived is None:
            assert isinstance(error, OpError)
            self._derived = error
            self._timer = asyncio.get_running_loop().call_later(ROOT_ERROR_TIMEOUT, step.fail, error)
        return True

    def on_part_ended(self, step: Step) -> None:
        """Record that one of the calls is over."""
        self.running -= 1
        if self.running == 0 and self._derived is not None:
            step.fail(self._derived)


class DistributedParts:
    """All other tasks' parts of one plan: the `RemoteParts` of its executor.

    Args:
        new_step: makes a step of these parts, with its id.
    """

    def __init__(
        self,
        parts: Sequence[RegisteredPart],
        new_step: Callable[[Sequence[RegisteredPart]], DistributedStep],
        new_request_id: Callable[[], int],
    ) -> None:
        self.parts = parts
        self._new_step = new_step
        self._new_request_id = new_request_id  # the id of each RunGraph call

    def new_step(self) -> DistributedStep:
        return self._new_step(self.parts)

    def runs(self, step: Step) -> Sequence[Run]:
        runs = [RemoteRun(part, step, self._new_request_id()) for part in self.parts]
        for run in runs:
            run.call()
        return runs


class RemoteRun(Run):
    """One task's part in one step: a RunGraph call.

    `_posted` is that call while it is under way, if it was posted without a task; `_ending` is the task that waits for the end
    of the part after the step has failed.
    """

    __slots__ = ("_ending", "_part", "_posted", "_request_id", "_shared")

    receives = 0

    def __init__(self, part: RegisteredPart, step: Step, request_id: int) -> None:
        super().__init__(step)
        assert isinstance(step.shared, DistributedStep)
        self._shared = step.shared  # the step on all tasks
        self._part = part
        self._request_id = request_id  # of the RunGraph call
        self._posted: Posted | None = None
        self._ending: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Does nothing: `call` has begun the part."""

    def call(self) -> None:
        """Send the RunGraph call, before any local state of the step is made."""
        self._shared.running += 1
        if self.step.deadline is None:
            self._posted = self._part.channel.post(RUN_GRAPH, self._request(), self._on_reply)
        if self._posted is not None:
            self.step.stops.append(self._stop)
            return
        task = begin(self._run())
        if not self.has_ended:
            self.step.stops.append(task.cancel)

    def _on_reply(self, reply: Payload | OpError) -> None:
        self._posted = None
        error = reply if isinstance(reply, OpError) else self._handle_response(reply.message)
        if error is not None:
            self._report_failure(error)
        self._end()

    def _stop(self) -> None:
        if self._posted is not None:
            self._posted.cancel()
            self._posted = None
            self._ending = asyncio.get_running_loop().create_task(self._end_quietly())

    async def _end_quietly(self) -> None:
        try:
            await self._wait_until_quiet()
        finally:
            self._end()

    async def _run(self) -> None:
        try:
            error = await self._call()
            if error is not None:
                self._report_failure(error)
        except asyncio.CancelledError:
            await self._wait_until_quiet()
        except Exception as error:
            self._report_failure(from_exception(error))
        finally:
            self._end()

    def _report_failure(self, error: OpError) -> None:
        self._part.on_failure(self._part.task, error)
        self.step.fail(error)

    def _end(self) -> None:
        self._shared.on_part_ended(self.step)
        self._mark_ended()

    async def _wait_until_quiet(self) -> None:
        """Wait until a failed step has ended on the task of the part. The step itself reports the error."""
        if isinstance(self.step.error, OpError):
            self._part.on_failure(self._part.task, self.step.error)
        request = _CleanupRequest(step_id=self.step.step_id)
        with suppress(OpError):  # do not wait for a task that cannot be reached
            await self._part.channel.call(CLEANUP_GRAPH, Payload(request), QUIET_SECONDS)
            self._shared.remove_part(self._part)

    async def _call(self) -> OpError | None:
        """Call RunGraph; returns the part's error."""
        deadline = self.step.deadline
        timeout = None if deadline is None else max(0.0, deadline - asyncio.get_running_loop().time())
        reply = await self._part.channel.call(RUN_GRAPH, self._request(), timeout)
        return self._handle_response(reply.message)

    def _request(self) -> Payload:
        step, part = self.step, self._part
        request = _Request(
            session_handle=part.session_handle,
            create_worker_session_called=True,
            graph_handle=part.graph_handle,
            step_id=step.step_id,
            store_errors_in_response_body=True,
            request_id=self._request_id,
        )
        if step.collector is not None:
            request.exec_opts.record_timeline = True
        return Payload(request)

    def _handle_response(self, response: Any) -> OpError | None:
        """Handle the reply of a part; returns its error."""
        if response.status_code:
            return error_from(response.status_code, response.status_error_message)
        if response.aioexec_step_is_over:
            self._shared.remove_part(self._part)
        if self.step.collector is not None:
            self.step.collector.add(response.step_stats)
        return None
