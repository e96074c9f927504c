"""Tasks that take their first step at once, instead of in the loop's next turn.

A coroutine that completes without waiting is over when `begin` returns, which saves a request one turn of the loop. Python
3.12 has this as `eager_start`; here it uses only the hooks that asyncio documents for extension, so that it is the same on
every version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from contextvars import copy_context
from typing import Any, TypeVar

Result = TypeVar("Result")


def begin(coroutine: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
    """Make a task of a coroutine and take its first step now. A task that is running continues afterwards."""
    begun = _Begun(coroutine)
    context = copy_context()
    loop = asyncio.get_running_loop()
    running = asyncio.current_task(loop)
    task = loop.create_task(begun, context=context)
    if running is not None:
        asyncio.tasks._leave_task(loop, running)
    asyncio.tasks._enter_task(loop, task)
    try:
        context.run(begun.take_first_step)
    finally:
        asyncio.tasks._leave_task(loop, task)
        if running is not None:
            asyncio.tasks._enter_task(loop, running)
    return task


class _Begun(Coroutine[Any, Any, Result]):
    """A coroutine that is a step ahead of the task that drives it.

    `_waits_for` is what it waits for since its first step, until the task has asked for it; `_ended` is how that step has
    ended, if it was the last.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Result]) -> None:
        self.__qualname__ = getattr(coroutine, "__qualname__", "")  # what a task is shown as
        self._coroutine = coroutine
        self._waits_for: Any = None
        self._is_ahead = True
        self._ended: BaseException | None = None

    def take_first_step(self) -> None:
        """Run until it waits for something."""
        try:
            self._waits_for = self._coroutine.send(None)
        except BaseException as error:  # handed to the task, whose step this is
            self._ended = error

    def send(self, value: Any) -> Any:
        if not self._is_ahead:
            return self._coroutine.send(value)
        return self._caught_up()

    def throw(self, *error: Any) -> Any:
        if self._is_ahead and self._ended is None:
            waits_for = self._caught_up()
            # Cancelled before the task has the future it waits for: cancelling that future raises in the coroutine.
            if waits_for is not None and waits_for.cancel():
                return waits_for
        elif self._is_ahead:
            return self._caught_up()
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Result]:
        raise NotImplementedError("a task drives this by its steps")

    def _caught_up(self) -> Any:
        self._is_ahead = False
        ended, self._ended = self._ended, None
        if ended is not None:
            raise ended
        waits_for, self._waits_for = self._waits_for, None
        return waits_for
