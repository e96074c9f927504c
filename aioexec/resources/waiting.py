"""Waiting without a thread: requests queue for a resource, and the event loop awaits their futures.

A resource on which callers may have to wait is a `BlockingResource`, a pure state machine: its methods return their result if
it is available, else an `Attempt`, which is queued in a `WaitQueue` until another method allows it to be served. `waiting`
returns a future of an attempt. Everything runs on the event loop's thread.

Invariant: when a method returns, no queue can progress, or another service is scheduled for the next iteration of the loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from typing import Any

from aioexec.errors import OpError


class Attempt:
    """A queued request.

    `is_done` when it has completed; then `error` or `result` is set, and `wake` was called once.
    """

    __slots__ = ("error", "is_done", "result", "wake")

    def __init__(self) -> None:
        self.is_done = False
        self.error: OpError | None = None
        self.result: Any = None
        self.wake: Callable[[], None] = _no_op

    def advance(self) -> bool:
        """Make what progress is possible now; return whether the resource changed."""
        raise NotImplementedError

    def restore(self) -> None:
        """Return what was taken; called when the result will not be delivered."""

    def succeed(self, result: Any = None) -> None:
        self.is_done, self.result = True, result

    def fail(self, error: OpError) -> None:
        self.is_done, self.error = True, error

    def outcome(self) -> Any:
        """Return the result.

        Raises:
            OpError: the request failed.
        """
        if self.error is not None:
            raise self.error
        return self.result


def _no_op() -> None:
    """Do nothing: no caller waits yet, or none waits any more."""


class WaitUntil(Attempt):
    """Waits until `is_ready`; the result is that of `act`. `undo` reverts its effect."""

    __slots__ = ("_act", "_undo", "is_ready")

    def __init__(
        self, is_ready: Callable[[], bool], act: Callable[[], Any], undo: Callable[[Any], None] | None = None
    ) -> None:
        super().__init__()
        self.is_ready = is_ready
        self._act = act
        self._undo = undo

    def advance(self) -> bool:
        if not self.is_ready():
            return False
        try:
            self.succeed(self._act())
        except OpError as error:
            self.fail(error)
        return True

    def restore(self) -> None:
        if self._undo is not None and self.result is not None:
            result, self.result = self.result, None
            self._undo(result)


class WaitQueue(deque[Attempt]):
    """Attempts in FIFO order. If `is_strict`, only the head is served, else any attempt that can be."""

    def __init__(self, is_strict: bool = True) -> None:
        super().__init__()
        self.is_strict = is_strict


class BlockingResource:
    """A resource with queues of waiting callers; subclasses have the methods and the state.

    `_scheduled_on`: the loop in whose next iteration the queues will be served again.
    """

    def __init__(self, *queues: WaitQueue) -> None:
        self._queues = queues
        self._scheduled_on: asyncio.AbstractEventLoop | None = None

    def withdraw(self, attempt: Attempt) -> None:
        """Remove an attempt that is not done: what it took is returned to the resource, what it added stays."""
        if attempt.is_done:
            return
        attempt.is_done, attempt.wake = True, _no_op
        for queue in self._queues:
            if attempt in queue:
                queue.remove(attempt)
        attempt.restore()
        self._flush()

    def undo(self, attempt: Attempt) -> None:
        """Revert an attempt that was served but whose result was not read: what it took is returned, what it added stays."""
        attempt.restore()
        self._flush()

    def _submit(self, queue: WaitQueue, attempt: Attempt) -> Any:
        """Append an attempt to a queue and serve the queues; return its result if it is done, else the attempt."""
        queue.append(attempt)
        self._flush()
        return attempt.outcome() if attempt.is_done else attempt

    def _flush(self) -> None:
        """Serve all queues until none makes progress."""
        changed = True
        while changed:
            changed, most = False, 0
            for queue in self._queues:
                if queue:
                    changed |= self._serve(queue)
                    most += 1 if queue.is_strict else 2
            if most < 2:
                return  # the only queue with attempts does not enable others

    def serve_later(self) -> bool:
        """Serve the queues again in the next iteration of the running loop; False if there is no running loop."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        if self._scheduled_on is not loop:
            self._scheduled_on = loop
            loop.call_soon(self._resume)
        return True

    def _resume(self) -> None:
        self._scheduled_on = None
        self._flush()

    def _serve(self, queue: WaitQueue) -> bool:
        changed = False
        if not queue.is_strict:
            for attempt in list(queue):
                if (
                    not attempt.is_done
                ):  # else it was served meanwhile, by an attempt that came when another one was woken
                    changed |= self._serve_one(queue, attempt)
            return changed
        while queue:
            attempt = queue[0]
            changed |= self._serve_one(queue, attempt)
            if not attempt.is_done:
                break
        return changed

    def _serve_one(self, queue: WaitQueue, attempt: Attempt) -> bool:
        changed = attempt.advance()
        if attempt.is_done:
            queue.remove(attempt)
            self._wake(attempt)
        return changed

    def _fail_all(self, queue: WaitQueue, error: Callable[[], OpError]) -> None:
        """Fail all attempts in a queue."""
        while queue:
            attempt = queue.popleft()
            attempt.fail(error())
            self._wake(attempt)

    @staticmethod
    def _wake(attempt: Attempt) -> None:
        wake, attempt.wake = attempt.wake, _no_op
        wake()

    def check_invariants(self) -> None:
        for queue in self._queues:
            assert not any(attempt.is_done for attempt in queue)
            for attempt in list(queue)[: 1 if queue.is_strict else None]:
                assert not (isinstance(attempt, WaitUntil) and attempt.is_ready()), "waits for nothing"


class _AttemptFuture(asyncio.Future[Any]):
    """The future of an attempt. Cancelling it withdraws the attempt at once, so that no element goes to a caller that has
    left.

    A cancelled task cancels its future only in its next iteration; until then the attempt may be served. Cancelling a future
    that is done but whose result was not taken (`_is_taken`) therefore returns what it was served.
    """

    def __init__(self, room: BlockingResource, attempt: Attempt, finish: Callable[[Any], Any]) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self._room = room
        self._attempt = attempt
        self._finish = finish
        self._is_taken = False
        attempt.wake = self._wake

    def _wake(self) -> None:
        if self._attempt.error is not None:
            self.set_exception(self._attempt.error)
            return
        try:
            result = self._finish(self._attempt.result)
        except Exception as error:  # raised to the waiting caller, not to the one that wakes it
            self.set_exception(error)
            self._room.undo(self._attempt)
        else:
            self.set_result(result)

    def result(self) -> Any:
        result = super().result()
        self._is_taken = True
        return result

    def __await__(self) -> Generator[Any, None, Any]:
        try:
            result = yield from super().__await__()
        except asyncio.CancelledError:
            self.cancel()
            raise
        self._is_taken = True
        return result

    def cancel(self, msg: Any = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled:
            self._room.withdraw(self._attempt)
        elif not self._is_taken and not self.cancelled():
            self._is_taken = True
            self._room.undo(self._attempt)
        return cancelled


def waiting(
    room: BlockingResource, attempt: Attempt, finish: Callable[[Any], Any] = lambda result: result
) -> asyncio.Future[Any]:
    """Return a future, in the running loop, of `finish(result)` of an attempt."""
    return _AttemptFuture(room, attempt, finish)
