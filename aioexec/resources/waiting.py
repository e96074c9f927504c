"""Waiting without a thread: requests that stand in line for a resource, and the futures of what they come to.

A resource that callers may have to wait for is a `WaitingRoom`: a pure state machine whose verbs return their result if it
can be had at once, else an `Attempt`, which stands in a `Line` until another verb lets it be served. `waiting` makes a
future of an attempt for the event loop. All of it is used on one thread.

Invariant: whenever a verb has returned, no line can get any further, or goes on in the next turn of the loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from typing import Any

from aioexec.errors import OpError


class Attempt:
    """A request that waits for its turn.

    `is_done` once it is over; then `error` or `result` says how, and `wake` was called, once.
    """

    __slots__ = ("error", "is_done", "result", "wake")

    def __init__(self) -> None:
        self.is_done = False
        self.error: OpError | None = None
        self.result: Any = None
        self.wake: Callable[[], None] = _no_waiter

    def advance(self) -> bool:
        """Do what can be done now; whether the resource changed."""
        raise NotImplementedError

    def restore(self) -> None:
        """Put back what was taken; called when nothing will come of it."""

    def succeed(self, result: Any = None) -> None:
        self.is_done, self.result = True, result

    def fail(self, error: OpError) -> None:
        self.is_done, self.error = True, error

    def outcome(self) -> Any:
        """The result.

        Raises:
            OpError: it failed.
        """
        if self.error is not None:
            raise self.error
        return self.result


def _no_waiter() -> None:
    """Wakes no caller: it has not gone to sleep yet, or has left."""


class When(Attempt):
    """Waits until `is_ready`, then is what `act` gives or raises; `undo` makes good what that took."""

    __slots__ = ("_act", "_undo", "is_ready")

    def __init__(
        self,
        is_ready: Callable[[], bool],
        act: Callable[[], Any],
        undo: Callable[[Any], None] | None = None,
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


class Line(deque[Attempt]):
    """Attempts in the order they came. If it `is_strict` only its head is served, else any that can be."""

    def __init__(self, is_strict: bool = True) -> None:
        super().__init__()
        self.is_strict = is_strict


class WaitingRoom:
    """What lines of callers wait for; a subclass has the verbs and what they change.

    `_goes_on`: the loop in whose next turn the lines are served again, since one of them can get further.
    """

    def __init__(self, *lines: Line) -> None:
        self._lines = lines
        self._goes_on: asyncio.AbstractEventLoop | None = None

    def withdraw(self, attempt: Attempt) -> None:
        """The caller no longer waits: what it took is put back, what it brought stays. Harmless when it is done."""
        if attempt.is_done:
            return
        attempt.is_done, attempt.wake = True, _no_waiter
        for line in self._lines:
            if attempt in line:
                line.remove(attempt)
        attempt.restore()
        self._flush()

    def undo(self, attempt: Attempt) -> None:
        """The attempt was served, but its result was not read: what it took is put back, what it brought stays."""
        attempt.restore()
        self._flush()

    def _submit(self, line: Line, attempt: Attempt) -> Any:
        """Serve the lines with the attempt at the end of one: its result if it is done, else itself."""
        line.append(attempt)
        self._flush()
        return attempt.outcome() if attempt.is_done else attempt

    def _flush(self) -> None:
        """Serve all lines until none gets any further."""
        changed = True
        while changed:
            changed, most = False, 0
            for line in self._lines:
                if line:
                    changed |= self._serve(line)
                    most += 1 if line.is_strict else 2
            if most < 2:
                return  # what the only line did lets no other attempt proceed

    def goes_on_later(self) -> bool:
        """Serve the lines again in the next turn of the running loop; False if there is none."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        if self._goes_on is not loop:
            self._goes_on = loop
            loop.call_soon(self._go_on)
        return True

    def _go_on(self) -> None:
        self._goes_on = None
        self._flush()

    def _serve(self, line: Line) -> bool:
        changed = False
        if not line.is_strict:
            for attempt in list(line):
                if (
                    not attempt.is_done
                ):  # else it was served meanwhile, by an attempt that came when another one was woken
                    changed |= self._serve_one(line, attempt)
            return changed
        while line:
            attempt = line[0]
            changed |= self._serve_one(line, attempt)
            if not attempt.is_done:
                break
        return changed

    def _serve_one(self, line: Line, attempt: Attempt) -> bool:
        changed = attempt.advance()
        if attempt.is_done:
            line.remove(attempt)
            self._wake(attempt)
        return changed

    def _dismiss(self, line: Line, error: Callable[[], OpError]) -> None:
        """All attempts in a line fail."""
        while line:
            attempt = line.popleft()
            attempt.fail(error())
            self._wake(attempt)

    @staticmethod
    def _wake(attempt: Attempt) -> None:
        wake, attempt.wake = attempt.wake, _no_waiter
        wake()

    def check_invariants(self) -> None:
        for line in self._lines:
            assert not any(attempt.is_done for attempt in line)
            for attempt in list(line)[: 1 if line.is_strict else None]:
                assert not (isinstance(attempt, When) and attempt.is_ready()), "waits for nothing"


class _Waiting(asyncio.Future[Any]):
    """The future of an attempt. Cancelling it withdraws the attempt at once: no element is handed to a caller that has left.

    A task that is cancelled comes to cancel what it awaits only at its next turn; until then it may still be served. So
    cancelling a future that is done, but whose result was not taken (`_is_taken`), gives back what it was served.
    """

    def __init__(self, room: WaitingRoom, attempt: Attempt, finish: Callable[[Any], Any]) -> None:
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
        except Exception as error:  # it is the waiting caller's, not that of the caller that wakes it
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
    room: WaitingRoom, attempt: Attempt, finish: Callable[[Any], Any] = lambda result: result
) -> asyncio.Future[Any]:
    """A future of what `finish` makes of an attempt's result, in the running loop."""
    return _Waiting(room, attempt, finish)
