"""The calls and tasks of a session that are not part of a step: datasets compute elements ahead with them.

They end before the session's engine is closed. The event loop's thread only.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from aioexec.execution.begun import NowaitResult
from aioexec.execution.engine import Engine
from aioexec.execution.step import DEFAULT

if TYPE_CHECKING:
    from aioexec.resources.datasets.work import Work

Result = TypeVar("Result")
CallNowait = Callable[[Any, Sequence[Any]], NowaitResult]


class Background:
    """The tasks of one session that outlive steps.

    Constant: `_engine`; `_call_nowait`, which begins to run the body of a function. Changing: `_tasks`; `_works` to close;
    `is_closing`, set once, after which no task begins.
    """

    def __init__(self, engine: Engine, call_nowait: CallNowait) -> None:
        self._engine = engine
        self._call_nowait = call_nowait
        self._tasks: set[asyncio.Task[None]] = set()
        self._works: dict[Work, None] = {}
        self.is_closing = False

    def start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine until it ends or the session closes; of a session that closes it is cancelled at once."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self.is_closing:
            task.cancel()
        return task

    def call_nowait(self, body: Any, inputs: Sequence[Any]) -> NowaitResult:
        """Begin to run the body of a function, if that is possible without waiting.

        Raises:
            OpError: of the node that failed.
        """
        return self._call_nowait(body, inputs)

    def call(self, body: Any, inputs: Sequence[Any]) -> Awaitable[Sequence[Any]]:
        """Run the body of a function, as a step that is cancelled with the awaiting task."""
        return self._engine.call(body, inputs, DEFAULT)

    async def run_in_worker(self, call: Callable[[], Result]) -> Result:
        """Make a call on a worker thread, in a copy of the caller's context variables."""
        context = contextvars.copy_context()
        return await self._engine.workers.submit(partial(context.run, call)).result()

    def keep(self, work: Work) -> None:
        """Close `work` before the session closes, unless it is closed by then."""
        self._works[work] = None

    def forget(self, work: Work) -> None:
        """Keep `work` no longer."""
        self._works.pop(work, None)

    async def close(self) -> None:
        """Cancel all tasks and wait for their ends, then close all works; to be called again if it was cancelled."""
        self.is_closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        while self._works:
            await next(iter(self._works)).close()
