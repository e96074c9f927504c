"""Coordinator: a group of tasks that stop together, and the first error of any of them.

    coord = Coordinator()
    threads = start_queue_runners(session, coord)
    try:
        while not coord.should_stop():
            await session.run(train_op)
    except Exception as error:
        coord.request_stop(error)
    finally:
        coord.request_stop()
        await coord.join(threads)

Members are the results of `LooperThread` and `QueueRunner.create_threads`, asyncio tasks, and threads of the user.
`request_stop`, `should_stop` and `register_thread` may be called from any thread; methods that wait belong to a loop, and a
thread waits by way of the loop: `asyncio.run_coroutine_threadsafe(coord.wait_for_stop(), loop).result()`.

Differences from TensorFlow's, because tasks can be cancelled and threads cannot: a task that does not end within the grace
period is cancelled and awaited before `join` returns, so that no task is left running (a thread is, as in TensorFlow); and a
user's task that fails requests a stop with its error, so no error is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from aioexec.errors import GraphTypeError, OutOfRangeError
from aioexec.train.coordination.stop_state import StopState
from aioexec.train.coordination.task_thread import TaskThread
from aioexec.train.coordination.thread_watch import ended

logger = logging.getLogger(__name__)

Task = asyncio.Task[Any]
Member = TaskThread | Task | threading.Thread


class Coordinator:
    """Stops a group of tasks together.

    Args:
        clean_stop_exception_types: errors that stop the group without being raised: by default those that end an input,
            OutOfRangeError and StopAsyncIteration. A StopIteration counts as the former: it cannot leave a coroutine.

    State, guarded by `_lock` because threads may request a stop: `_state` decides; `_members` are registered since the last
    `join`; `_waiters` are futures of waiting calls, each resolved in its own loop.
    """

    def __init__(self, clean_stop_exception_types: Iterable[type[BaseException]] | None = None) -> None:
        ends = (OutOfRangeError, StopAsyncIteration)
        types = ends if clean_stop_exception_types is None else clean_stop_exception_types
        self._lock = threading.RLock()  # a signal handler that requests a stop may interrupt another request
        self._state = StopState(types)
        self._members: set[Member] = set()
        self._waiters: set[asyncio.Future[None]] = set()

    # Stop requests

    def request_stop(self, ex: Any = None) -> None:
        """Request all members to stop. `join` raises the error of the first request.

        Args:
            ex: the reason: an exception, or the value of `sys.exc_info()`.

        Raises:
            BaseException: `ex`, if the members were joined: `join` cannot raise it any more.
        """
        with self._lock:
            is_first = self._state.request_stop(ex)
            waiters = list(self._waiters) if is_first else []
        if is_first:
            error = self._state.error
            if error is not None:
                logger.info("Error reported to Coordinator: %s, %s", type(error), error)
        elif ex is not None:
            logger.debug("a later error reported to Coordinator: %r", ex)
        for waiter in waiters:
            with contextlib.suppress(RuntimeError):  # a closed loop has no waiters
                waiter.get_loop().call_soon_threadsafe(_wake, waiter)

    def clear_stop(self) -> None:
        """Withdraw the request: `should_stop` returns False again."""
        with self._lock:
            self._state.clear_stop()

    def should_stop(self) -> bool:
        """Whether a stop was requested."""
        return self._state.is_stopping

    @property
    def joined(self) -> bool:
        return self._state.is_joined

    def raise_requested_exception(self) -> None:
        """Raise the error of the stop request, if there is one."""
        error = self._state.error
        if error is not None:
            raise error

    @contextlib.contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """Request a stop with an error of the block, which is not raised further.

        A cancellation requests a stop without an error, and is raised further; KeyboardInterrupt and SystemExit request a stop
        with themselves as the error, and are raised further.
        """
        try:
            yield
        except Exception as error:
            self.request_stop(error)
        except BaseException as error:
            self.request_stop(error)
            raise

    # Waits

    async def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Wait until a stop is requested, or for `timeout` seconds; returns whether one is requested."""
        if self.should_stop():
            return True
        if timeout is not None and timeout <= 0:
            await asyncio.sleep(0)  # yield to the loop even if the timeout is over
        else:
            with self._stop_waiter() as waiter:
                await asyncio.wait([waiter], timeout=timeout)
        return self.should_stop()

    @contextlib.contextmanager
    def _stop_waiter(self) -> Iterator[asyncio.Future[None]]:
        """A future that is done when a stop is requested."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._waiters.add(waiter)
            if self._state.is_stopping:
                waiter.set_result(None)
        try:
            yield waiter
        finally:
            with self._lock:
                self._waiters.discard(waiter)

    # Members

    def register_thread(self, thread: Member) -> None:
        """Add a member that `join` waits for: a looper, a task or a thread.

        Raises:
            GraphTypeError: it is none of these.
        """
        if not isinstance(thread, TaskThread | asyncio.Task | threading.Thread):
            raise GraphTypeError(f"Coordinator: expected a task or thread to register, got {thread!r}")
        with self._lock:
            self._members.add(thread)
        if isinstance(thread, asyncio.Task) and thread.done():
            self._task_ended(thread)
        elif isinstance(thread, asyncio.Task):
            thread.add_done_callback(self._task_ended)

    def _task_ended(self, task: Task) -> None:
        """Stop the group when a user's task has failed."""
        if not self.joined and not task.cancelled():
            error = task.exception()
            if error is not None:
                self.request_stop(error)

    async def join(
        self,
        threads: Iterable[Member] | None = None,
        stop_grace_period_secs: float = 120,
        ignore_live_threads: bool = False,
    ) -> None:
        """Wait until all members have ended; after a stop request they have a grace period to do so.

        Tasks that have not ended by then are cancelled and awaited. Cancelling the call itself has no effect on members, which
        can be joined again.

        Args:
            threads: members to wait for besides those that are registered.
            ignore_live_threads: do not raise if members did not end in time.

        Raises:
            BaseException: the error of the stop request.
            RuntimeError: members did not end in time.
        """
        for thread in threads or ():
            if thread not in self._members:
                self.register_thread(thread)
        with self._lock:
            members = list(self._members)
        late = await self._cancel_late(members, stop_grace_period_secs)
        with self._lock:
            self._state.on_joined()
            self._members.difference_update(members)
        self.raise_requested_exception()
        if late:
            names = " ".join(sorted(late))
            if not ignore_live_threads:
                raise RuntimeError(f"Coordinator stopped with threads still running: {names}")
            logger.info("Coordinator stopped with threads still running: %s", names)

    async def _cancel_late(self, members: Iterable[Member], grace: float) -> list[str]:
        """The names of the members that had not ended after the grace period; tasks among them have been cancelled."""
        ending = {end: member for member in members if (end := _end_of(member)) is not None}
        while any(not end.done() for end in ending) and not self.should_stop():
            with self._stop_waiter() as stop:  # a new one each time: a request may be cleared again
                alive = [end for end in ending if not end.done()]
                await asyncio.wait([*alive, stop], return_when=asyncio.FIRST_COMPLETED)
        late = {end for end in ending if not end.done()}
        if late:
            _, late = await asyncio.wait(late, timeout=max(grace, 0))
        names = [_name_of(ending[end]) for end in late]
        tasks = [end for end in late if isinstance(end, asyncio.Task)]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        return names


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _name_of(member: Member) -> str:
    return member.get_name() if isinstance(member, asyncio.Task) else member.name


def _end_of(member: Member) -> asyncio.Future[Any] | None:
    """A future that is done when a member has ended; None if it is not alive."""
    task = member.task if isinstance(member, TaskThread) else member
    if task is asyncio.current_task():
        raise RuntimeError(f"{_name_of(member)}: cannot join current thread")
    if isinstance(task, threading.Thread):
        return ended(task)
    return None if task is None or task.done() else task
