"""Tasks that run their first step synchronously, instead of in the loop's next iteration.

A coroutine that completes without waiting is done when `begin` returns, which saves a request one iteration of the loop. Python
3.12 has this as `eager_start`; here only hooks that asyncio documents for extension are used, so that all versions behave
alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from contextvars import copy_context
from typing import Any, TypeVar

Result = TypeVar("Result")


def begin(coroutine: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
    """Make a task of a coroutine and run its first step now. The current task continues afterwards."""
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
    """A coroutine that has run one step more than its task.

    `_waits_for` is the future it yielded in its first step, until the task fetches it; `_ended` is the exception that ended
    that step, if it was the last one.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Result]) -> None:
        self.__qualname__ = getattr(coroutine, "__qualname__", "")  # shown in the task's repr
        self._coroutine = coroutine
        self._waits_for: Any = None
        self._is_ahead = True  # until the task takes its first step
        self._ended: BaseException | None = None

    def take_first_step(self) -> None:
        """Run until the coroutine waits for something."""
        try:
            self._waits_for = self._coroutine.send(None)
        except BaseException as error:  # re-raised in the task
            self._ended = error

    def send(self, value: Any) -> Any:
        if not self._is_ahead:
            return self._coroutine.send(value)
        return self._catch_up()

    def throw(self, *error: Any) -> Any:
        if self._is_ahead and self._ended is None:
            waits_for = self._catch_up()
            # Cancelled before the task has the future it waits for: cancelling that future raises in the coroutine.
            if waits_for is not None and waits_for.cancel():
                return waits_for
        elif self._is_ahead:
            return self._catch_up()
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Result]:
        raise NotImplementedError("a task drives this by its steps")

    def _catch_up(self) -> Any:
        self._is_ahead = False
        ended, self._ended = self._ended, None
        if ended is not None:
            raise ended
        waits_for, self._waits_for = self._waits_for, None
        return waits_for
