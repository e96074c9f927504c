"""CoroutineThread: what a ported program uses for a thread whose target has become a coroutine function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import count
from typing import Any

from aioexec.train.coordination.task_thread import TaskThread

_numbers = count(1)


class CoroutineThread(TaskThread):
    """A task with the constructor and the methods of `threading.Thread`; `join` is a coroutine.

    A coordinator joins it as it joins threads. When the program ends it is cancelled if nothing joined it.

    Args:
        group: None.
        target: called with `args` and `kwargs` when it is started; an awaitable result is awaited.
        daemon: stored; the task never keeps the program running.
    """

    def __init__(
        self,
        group: None = None,
        target: Callable[..., Any] | None = None,
        name: str | None = None,
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        super().__init__(self._begin, name or f"CoroutineThread-{next(_numbers)}", bool(daemon))
        self._call = None if target is None else partial(target, *args, **(kwargs or {}))

    def setDaemon(self, daemonic: bool) -> None:
        """Store `daemon`."""
        self.daemon = daemonic

    async def _begin(self) -> None:
        result = self.run()
        if inspect.isawaitable(result):
            await result

    def run(self) -> Any:
        """Call the target; a subclass may override it, as a coroutine function too."""
        return None if self._call is None else self._call()
