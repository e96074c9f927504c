"""Requests of passes over datasets, and their execution in tasks of a session.

A pass never waits: it returns a `Request`, and its caller waits until that has an answer or an error. `Work` runs requests in
tasks that belong to a session, so a step that stops waiting loses nothing: the request continues, and its answer is there for
the next caller. If the session closes first, the request is open again, and the next session that needs it runs it.
The event loop's thread only.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np

from aioexec.errors import OpError, from_exception

Array = np.ndarray[Any, Any]
Element = tuple[Array, ...]
Waiter = asyncio.Future[None]

TURN = 256
"""Elements that a pass handles before other tasks of the event loop run."""


class Pending(Protocol):
    """A step that has begun; `finish` must be awaited."""

    async def finish(self) -> list[Any]: ...


class Background(Protocol):
    """Calls and tasks of a session that are not part of a step."""

    @property
    def is_closing(self) -> bool: ...

    def start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine until it ends or the session closes."""
        ...

    def call_nowait(self, body: Any, inputs: Sequence[Any]) -> Sequence[Any] | Pending | None:
        """Begin to run the body of a function; None: it must be awaited from the start."""
        ...

    def call(self, body: Any, inputs: Sequence[Any]) -> Awaitable[Sequence[Any]]:
        """Run the body of a function."""
        ...

    def run_in_worker(self, call: Callable[[], Any]) -> Awaitable[Any]:
        """Make a call on a worker thread."""
        ...

    def keep(self, work: Work) -> None:
        """Close `work` before the session closes, unless it is closed by then."""
        ...

    def forget(self, work: Work) -> None: ...


# Requests


class Request:
    """What a pass waits for: has an answer or an error, or is open. The base class is a signal, which another request gives.

    `is_in_flight`: a task runs it. `waiters` are woken when that ends, with or without an answer.
    """

    __slots__ = ("answer", "error", "is_in_flight", "waiters")
    is_signal: ClassVar[bool] = True

    def __init__(self) -> None:
        self.answer: Element | None = None
        self.error: OpError | None = None
        self.is_in_flight = False
        self.waiters: list[Waiter] = []

    @property
    def is_open(self) -> bool:
        return self.answer is None and self.error is None

    @property
    def parts(self) -> Sequence[Request]:
        """The requests to wait for: one of them suffices."""
        return (self,)

    async def run(self, work: Work) -> Element:
        """Return the answer; not for signals."""
        raise NotImplementedError

    def outcome(self) -> Element:
        """Return the answer.

        Raises:
            OpError: the request failed.
        """
        if self.error is not None:
            raise self.error
        assert self.answer is not None
        return self.answer

    def wake(self) -> None:
        """Wake the waiting callers, which then look whether they can continue."""
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)


class Turn(Request):
    """Lets other tasks of the event loop run."""

    __slots__ = ()
    is_signal = False

    async def run(self, work: Work) -> Element:
        await asyncio.sleep(0)
        return ()


class Turns:
    """Counts handled elements, and tells after every `TURN` of them to let other tasks run."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def due(self) -> Turn | None:
        self._count += 1
        return Turn() if self._count % TURN == 0 else None


class Call(Request):
    """Runs the body of a function; the answer is its outputs. `begun` is the step, if it has begun."""

    __slots__ = ("begun", "body", "inputs")
    is_signal = False

    def __init__(self, body: Any, inputs: Element, begun: Pending | None = None) -> None:
        super().__init__()
        self.body = body
        self.inputs = inputs
        self.begun = begun

    async def run(self, work: Work) -> Element:
        begun, self.begun = self.begun, None
        if begun is not None:
            return tuple(await begun.finish())
        return tuple(await work.background.call(self.body, self.inputs))


class InWorker(Request):
    """Makes a call on a worker."""

    __slots__ = ("function",)
    is_signal = False

    def __init__(self, function: Callable[[], Element]) -> None:
        super().__init__()
        self.function = function

    async def run(self, work: Work) -> Element:
        answer: Element = await work.background.run_in_worker(self.function)
        return answer


class AnyOf(Request):
    """Is over when one of several requests is."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[Request]) -> None:
        super().__init__()
        self._parts = parts

    @property
    def parts(self) -> Sequence[Request]:
        return self._parts


class Failed(Request):
    """A request that has failed."""

    __slots__ = ()

    def __init__(self, error: OpError) -> None:
        super().__init__()
        self.error = error


class Done(Request):
    """A request that has its answer."""

    __slots__ = ()

    def __init__(self, answer: Element) -> None:
        super().__init__()
        self.answer = answer


# Their execution


class Work:
    """The requests of one pass that a session runs.

    Constant: `background`, the session's. Changing: `_tasks` that run requests; `_finalizers`, calls to make when the pass is
    given up; `is_closed`, set by `stop` and `close`, never reset.
    """

    def __init__(self, background: Background) -> None:
        self.background = background
        self._tasks: set[asyncio.Task[None]] = set()
        self._finalizers: dict[Call, None] = {}
        self.is_closed = False
        background.keep(self)

    def call(self, body: Any, inputs: Element) -> Request:
        """Begin to run the body of a function, at once if it is cheap."""
        try:
            found = self.background.call_nowait(body, inputs)
        except OpError as error:
            return Failed(error)
        if found is None:
            return Call(body, inputs)
        if isinstance(found, list):
            return Done(tuple(found))
        call = Call(body, inputs, found)  # type: ignore[arg-type]  # no list: a step that has begun
        self.start(call)
        return call

    def start(self, request: Request) -> None:
        """Run a request in a task, unless one does, or it has ended, or is a signal."""
        if request.is_signal or request.is_in_flight or not request.is_open:
            return
        request.is_in_flight = True
        task = self.background.start(_run(request, self))
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, request))

    def _ended(self, request: Request, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        request.is_in_flight = False
        request.wake()

    async def wait(self, request: Request) -> None:
        """Run a request if needed, and wait until it has ended, or may have."""
        parts = request.parts
        for part in parts:
            self.start(part)
        if not all(part.is_open for part in parts):
            return
        waiter = asyncio.get_running_loop().create_future()
        for part in parts:
            part.waiters.append(waiter)
        try:
            await waiter
        finally:
            for part in parts:
                part.waiters.remove(waiter)

    def finalize_with(self, call: Call) -> None:
        """Make a call when the pass is given up, unless `release` comes first."""
        self._finalizers[call] = None

    def release(self, call: Call) -> None:
        self._finalizers.pop(call, None)

    def stop(self) -> None:
        """Give the pass up: stop its requests, and run its finalizers in the background."""
        self.is_closed = True
        if (self._tasks or self._finalizers) and not self.background.is_closing:
            self.background.start(self.close())
        else:
            self.background.forget(self)

    async def close(self) -> None:
        """Stop all requests, wait for their ends, and run the finalizers."""
        self.is_closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        while self._finalizers:
            call, _ = self._finalizers.popitem()
            with contextlib.suppress(OpError):
                await self.background.call(call.body, call.inputs)
        self.background.forget(self)


async def _run(request: Request, work: Work) -> None:
    try:
        request.answer = await request.run(work)
    except asyncio.CancelledError:
        raise
    except OpError as error:
        request.error = error
    except Exception as error:
        request.error = from_exception(error)
