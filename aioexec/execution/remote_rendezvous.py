"""The rendezvous of a step whose partitions are in several processes.

Values stay where they are made until somebody asks for them. Who receives from a device of this process asks the table of this
process; who receives from another one's asks that process, by a call that the transport makes and owns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aioexec.errors import AbortedError, CancelledError, OpError, UnknownError
from aioexec.execution.rendezvous import IntraProcessRendezvous, Received, Waiting, tell

Fetch = Callable[[str], "asyncio.Future[Received]"]
"""Starts to receive the value of a key from where it is made. Cancelling the future ends the call; it fails by OpErrors."""


class RemoteRendezvous(IntraProcessRendezvous):
    """The part of such a rendezvous that is in this process.

    Args:
        task: what the names of this process's devices begin with, "/job:worker/replica:0/task:0".
        fetch: receives from another process.

    `_prefix` is that name with a slash. `_calls` are under way, each with its key and who waits for it; there is none after an
    abort.
    """

    def __init__(self, task: str, fetch: Fetch) -> None:
        super().__init__()
        self._prefix = f"{task}/"
        self._fetch = fetch
        self._calls: dict[asyncio.Future[Received], tuple[str, Waiting]] = {}

    def join(self, task: str, fetch: Fetch) -> None:
        """Go by other names: the step belongs to a session with a cluster of its own."""
        self._prefix = f"{task}/"
        self._fetch = fetch

    def recv_here(self, key: str) -> asyncio.Future[Received]:
        """`recv` of what is sent in this process, whatever it is called here."""
        return super().recv(key)

    @property
    def is_empty(self) -> bool:
        """Whether neither a value nor anybody waits."""
        return not self._calls and not self._table.unmatched()

    def _is_local(self, key: str) -> bool:
        return key.startswith(self._prefix)  # a key begins with the device that sends

    def try_recv(self, key: str) -> Received | None:
        if self._is_local(key):
            return super().try_recv(key)
        if self.error is not None:
            raise self.error
        return None

    def expect(self, key: str, receiver: Waiting) -> None:
        if self._is_local(key):
            super().expect(key, receiver)
        else:
            self._call(key, receiver)

    def recv(self, key: str) -> asyncio.Future[Received]:
        if self._is_local(key):
            return super().recv(key)
        if self.error is not None:
            raise self.error
        future: asyncio.Future[Received] = asyncio.get_running_loop().create_future()
        call = self._call(key, future)
        future.add_done_callback(lambda done: call.cancel() if done.cancelled() else None)
        return future

    def _call(self, key: str, receiver: Waiting) -> asyncio.Future[Received]:
        call = self._fetch(key)
        self._calls[call] = key, receiver
        call.add_done_callback(self._arrived)
        return call

    def _arrived(self, call: asyncio.Future[Received]) -> None:
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

    def start_abort(self, error: OpError) -> None:
        calls = dict(self._calls)
        self._calls.clear()
        super().start_abort(error)
        for call in calls:
            call.cancel()
        tell([receiver for _, receiver in calls.values()], error)

    def close(self) -> list[str]:
        called = [key for key, _ in self._calls.values()]
        left = super().close()
        if called:
            self.start_abort(AbortedError("the step of this rendezvous has ended"))
        return left + called

    def check_invariants(self) -> None:
        super().check_invariants()
        assert self.error is None or not self._calls, "a call outlived the abort"
