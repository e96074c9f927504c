"""The rendezvous of a step whose partitions are in several processes.

A value stays in the process that made it until it is requested. A receiver of a value made in this process waits at this
process's table; a receiver of a value made elsewhere requests it from that process, by a call that the transport makes and
owns. Where two processes have agreed on it (`Exchange`), values are pushed to the other's table without a request, and
receivers wait at their own process's table.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Protocol

from aioexec.errors import AbortedError, CancelledError, OpError, UnknownError
from aioexec.execution.rendezvous import IntraProcessRendezvous, Received, Waiting, fail_receivers

Fetch = Callable[[str], "asyncio.Future[Received]"]
"""Starts to receive the value of a key from where it is made. Cancelling the future ends the call; it fails by OpErrors."""


class Exchange(Protocol):
    """Pushes one step's values to other tasks. `notified` are the tasks to which values were pushed."""

    notified: set[str]

    def push(self, key: str, value: Any, is_dead: bool) -> bool:
        """Push a value to the task that receives it; False if that task requests it, or is in this process."""
        ...

    def expect_push(self, key: str) -> bool:
        """Whether the value of a key is pushed to this process."""
        ...


class RemoteRendezvous(IntraProcessRendezvous):
    """The part of a distributed rendezvous that is in this process.

    Args:
        task: the prefix of the names of this process's devices, "/job:worker/replica:0/task:0".
        fetch: receives from another process.
        exchange: pushes values; None: every value is requested.

    `_prefix` is the task's name with a slash. `_calls` are the pending requests, each with its key and its receiver; there are
    none after an abort. `_announced` are keys whose values must be requested although the exchange pushes others.
    """

    def __init__(self, task: str, fetch: Fetch, exchange: Exchange | None = None) -> None:
        super().__init__()
        self._prefix = f"{task}/"
        self._fetch = fetch
        self._exchange = exchange
        self._calls: dict[asyncio.Future[Received], tuple[str, Waiting]] = {}
        self._announced: set[str] = set()

    def join(self, task: str, fetch: Fetch) -> None:
        """Use other device names: the step belongs to a session with its own cluster, in which all values are requested."""
        self._prefix = f"{task}/"
        self._fetch = fetch
        self._exchange = None

    def recv_here(self, key: str) -> asyncio.Future[Received]:
        """`recv` of a value that is sent in this process, whatever its device is called here."""
        return super().recv(key)

    @property
    def is_empty(self) -> bool:
        """Whether there are neither values nor receivers."""
        return not self._calls and not self._table.unmatched()

    # Sending

    def send(self, key: str, value: Any, is_dead: bool = False) -> None:
        if self._exchange is not None and self.error is None:
            while (receiver := self._table.take_receiver(key)) is not None:
                if not receiver.done():
                    receiver.set_result((value, is_dead))
                    return
            if self._exchange.push(key, value, is_dead):
                return
        super().send(key, value, is_dead)

    def push_kept(self) -> None:
        """Push the values kept until now, if they can be pushed from now on."""
        for key, received in self._table.take_values():
            self.send(key, *received)

    # Receiving

    def _waits_here(self, key: str) -> bool:
        """Whether a value arrives at this table without a request."""
        if key.startswith(self._prefix):  # a key begins with the device that sends
            return True
        return self._exchange is not None and key not in self._announced and self._exchange.expect_push(key)

    def expect(self, key: str, receiver: Waiting) -> None:
        if self._waits_here(key):
            super().expect(key, receiver)
        else:
            self._call(key, receiver)

    def recv(self, key: str) -> asyncio.Future[Received]:
        if self._waits_here(key):
            return super().recv(key)
        received = self._table.take(key)
        future: asyncio.Future[Received] = asyncio.get_running_loop().create_future()
        if received is not None:
            future.set_result(received)
            return future
        call = self._call(key, future)
        future.add_done_callback(lambda done: call.cancel() if done.cancelled() else None)
        return future

    def _call(self, key: str, receiver: Waiting) -> asyncio.Future[Received]:
        call = self._fetch(key)
        self._calls[call] = key, receiver
        call.add_done_callback(self._on_reply)
        return call

    def _on_reply(self, call: asyncio.Future[Received]) -> None:
        error = CancelledError("the transfer was cancelled") if call.cancelled() else call.exception()
        _, receiver = self._calls.pop(call, (None, None))
        if receiver is None or receiver.done():
            return
        if error is None:
            receiver.set_result(call.result())
        elif isinstance(error, OpError):
            receiver.set_exception(error)
        else:
            receiver.set_exception(UnknownError(f"the transfer failed: {error!r}"))

    # Pushed values

    def on_value_pushed(self, key: str, value: Any, is_dead: bool) -> None:
        """Deliver a pushed value; a request that was made for it meanwhile is cancelled."""
        for call, (wanted, receiver) in self._calls.items():
            if wanted == key:
                del self._calls[call]
                call.cancel()
                if not receiver.done():
                    receiver.set_result((value, is_dead))
                return
        if self.error is None:
            super().send(key, value, is_dead)

    def on_value_announced(self, key: str) -> None:
        """Record that the value of a key must be requested; request it now if a receiver waits."""
        self._announced.add(key)
        while (receiver := self._table.take_receiver(key)) is not None:
            if not receiver.done():
                self._call(key, receiver)

    def on_task_lost(self, task: str, error: OpError) -> None:
        """Fail the receivers that wait for a task from which nothing arrives any more."""
        fail_receivers(self._table.take_receivers(f"{task}/"), error)

    @property
    def notified(self) -> Collection[str]:
        """The tasks to which values were pushed."""
        return () if self._exchange is None else self._exchange.notified

    def on_task_cut_off(self, task: str, error: OpError) -> None:
        """Abort if values were pushed to a task to which nothing can be sent any more: they may be lost."""
        if task in self.notified:
            self.start_abort(error)

    def awaited(self) -> list[str]:
        """The keys on which receivers wait at this table."""
        return self._table.awaited()

    def is_all_from(self, task: str) -> bool:
        """Whether there are only values that a task has sent."""
        keys = [*self._table.unmatched(), *self._announced]
        return not self._calls and all(key.startswith(f"{task}/") for key in keys)

    # The end

    def start_abort(self, error: OpError) -> None:
        calls, self._calls = self._calls, {}
        super().start_abort(error)
        if calls:
            for call in calls:
                call.cancel()
            fail_receivers([receiver for _, receiver in calls.values()], error)

    def close(self) -> list[str]:
        called = [key for key, _ in self._calls.values()]
        left = super().close()
        if called:
            self.start_abort(AbortedError("the step of this rendezvous has ended"))
        return left + called

    def check_invariants(self) -> None:
        super().check_invariants()
        assert self.error is None or not self._calls, "a call outlived the abort"
