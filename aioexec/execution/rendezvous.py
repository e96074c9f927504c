"""Rendezvous: the exchange of values between the partitions of a step.

A `Table` holds, for each key, a FIFO queue of values without a receiver or of receivers without a value, never both.
`IntraProcessRendezvous` is the table of one step with futures as receivers. Both belong to the step's event loop, and nothing
here suspends: a producer never waits, a receiver waits on a future of its own.

The two ends of a transfer agree on a key, a text that is the same in TensorFlow:

    source device;incarnation of the source device (16 hex digits);destination device;edge name;frame id:iteration
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Iterable
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import AbortedError, InternalError, InvalidArgumentError, OpError
from aioexec.graph.kernels.kernel import Attrs

FrameIteration = tuple[int, int]
"""The id of a frame and the iteration in it; (0, 0) outside of loops."""

Received = tuple[Any, bool]
"""A value, and whether it is dead (then the value means nothing)."""

_DEVICE = r"/job:[^/;]+/replica:\d+/task:\d+/device:[^/:;]+:\d+"
_KEY = re.compile(
    rf"(?P<src>{_DEVICE});(?P<incarnation>[0-9a-f]{{16}});(?P<dst>{_DEVICE});(?P<edge>[^;]+);(?P<frame>\d+):(?P<iteration>\d+)"
)
_UNSIGNED = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class ParsedKey:
    """The fields of a key; the incarnation as an unsigned number."""

    src_device: str
    src_incarnation: int
    dst_device: str
    edge_name: str
    frame_iteration: FrameIteration


def create_key(
    src_device: str,
    src_incarnation: int,
    dst_device: str,
    edge_name: str,
    frame_iteration: FrameIteration = (0, 0),
) -> str:
    """The key of a transfer; the incarnation may be the signed attribute of a Send or Recv."""
    frame, iteration = frame_iteration
    return f"{src_device};{src_incarnation & _UNSIGNED:016x};{dst_device};{edge_name};{frame}:{iteration}"


def transfer_key(attrs: Attrs, frame_iteration: FrameIteration = (0, 0)) -> str:
    """The key of a Send or Recv with these attributes."""
    return create_key(
        attrs["send_device"],
        attrs["send_device_incarnation"],
        attrs["recv_device"],
        attrs["tensor_name"],
        frame_iteration,
    )


def parse_key(key: str) -> ParsedKey:
    """Parse a key.

    Raises:
        InvalidArgumentError: it is not of the form above.
    """
    match = _KEY.fullmatch(key)
    if match is None:
        raise InvalidArgumentError(
            f"Invalid rendezvous key: {key!r}; expected "
            "'<source device>;<incarnation, 16 hex digits>;<destination device>;<edge name>;<frame>:<iteration>'"
        )
    return ParsedKey(
        match["src"],
        int(match["incarnation"], 16),
        match["dst"],
        match["edge"],
        (int(match["frame"]), int(match["iteration"])),
    )


def check_received(value: Any, declared: DType, receiver: str) -> None:
    """Check a received value against the dtype that the receiving node declares; `receiver` describes it for the error.

    Raises:
        InternalError: the value has another dtype, or a reference was declared, which cannot be transferred.
    """
    if declared.is_ref or (isinstance(value, np.ndarray | np.generic) and value.dtype != declared.numpy):
        came = value.dtype.name if isinstance(value, np.ndarray | np.generic) else type(value).__name__
        raise InternalError(
            f"{receiver}: output 0 of type {came} does not match declared output type {declared.name}"
        )


Receiver = TypeVar("Receiver")


class Table(Generic[Receiver]):
    """Matches values and receivers by key. A pure state machine: a receiver is any object of the caller.

    State: `_values` and `_receivers` hold, by key, what waits for the other side, in order of arrival. No queue is empty, no
    key is in both, and an aborted table holds nothing.
    """

    def __init__(self) -> None:
        self.error: OpError | None = None
        self._values: dict[str, deque[Received]] = {}
        self._receivers: dict[str, deque[Receiver]] = {}

    def send(self, key: str, received: Received) -> Receiver | None:
        """Remove and return the first receiver; None: there is none, and the value is kept.

        Raises:
            OpError: the table was aborted with this error.
        """
        if self.error is not None:
            raise self.error
        receiver = _pop(self._receivers, key)
        if receiver is None:
            self._values.setdefault(key, deque()).append(received)
        return receiver

    def take(self, key: str) -> Received | None:
        """The oldest value of a key, if there is one.

        Raises:
            OpError: the table was aborted with this error.
        """
        if self.error is not None:
            raise self.error
        return _pop(self._values, key)

    def wait(self, key: str, receiver: Receiver) -> None:
        """Queue a receiver, after `take` has returned None."""
        self._receivers.setdefault(key, deque()).append(receiver)

    def take_receiver(self, key: str) -> Receiver | None:
        """Remove and return the first receiver of a key, if one waits."""
        return _pop(self._receivers, key)

    def take_receivers(self, source: str) -> list[Receiver]:
        """Remove all receivers of values from devices whose names begin with `source`."""
        keys = [key for key in self._receivers if key.startswith(source)]
        return [receiver for key in keys for receiver in self._receivers.pop(key)]

    def awaited(self) -> list[str]:
        """The keys on which receivers wait."""
        return list(self._receivers)

    def take_values(self) -> list[tuple[str, Received]]:
        """Remove all values, with their keys."""
        values = [(key, value) for key, line in self._values.items() for value in line]
        self._values.clear()
        return values

    def withdraw(self, key: str, receiver: Receiver) -> None:
        """Remove a receiver from its queue, if it is there; the others keep their order."""
        line = self._receivers.get(key)
        if line is not None and receiver in line:
            line.remove(receiver)
            if not line:
                del self._receivers[key]

    def abort(self, error: OpError) -> list[Receiver]:
        """End all transfers with an error; only the first one counts. Returns the waiting receivers, for the caller to fail."""
        if self.error is not None:
            return []
        self.error = error
        waiting = [receiver for line in self._receivers.values() for receiver in line]
        self._values.clear()
        self._receivers.clear()
        return waiting

    def unmatched(self) -> list[str]:
        """Keys on which one side still waits for the other."""
        return [*self._values, *self._receivers]

    def check_invariants(self) -> None:
        assert all(self._values.values()), "an empty queue of values"
        assert all(self._receivers.values()), "an empty line of receivers"
        assert not self._values.keys() & self._receivers.keys(), "a value and a receiver missed each other"
        assert self.error is None or not self.unmatched(), "something outlived the abort"


Item = TypeVar("Item")


def _pop(queues: dict[str, deque[Item]], key: str) -> Item | None:
    queue = queues.get(key)
    if queue is None:
        return None
    item = queue.popleft()
    if not queue:
        del queues[key]
    return item


class Waiting(Protocol):
    """A receiver: a future, or an object with this part of a future's interface."""

    def done(self) -> bool:
        """Whether it waits no more."""
        ...

    def set_result(self, result: Received, /) -> None: ...
    def set_exception(self, exception: OpError, /) -> None: ...


def fail_receivers(receivers: Iterable[Waiting], error: OpError) -> None:
    """Fail the receivers that still wait."""
    for receiver in receivers:
        if not receiver.done():
            receiver.set_exception(error)
            if isinstance(receiver, asyncio.Future):
                receiver.exception()  # marks it as retrieved, so that asyncio does not log it: the step reports it


class IntraProcessRendezvous:
    """The rendezvous of one step, all of whose partitions are in this process."""

    def __init__(self) -> None:
        self._table: Table[Waiting] = Table()

    @property
    def error(self) -> OpError | None:
        """The error with which it was aborted."""
        return self._table.error

    def send(self, key: str, value: Any, is_dead: bool = False) -> None:
        """Deliver a value to the first receiver, or keep it.

        Raises:
            OpError: the rendezvous was aborted with this error.
        """
        received = (value, is_dead)
        while (receiver := self._table.send(key, received)) is not None:
            if not receiver.done():
                receiver.set_result(received)
                return

    def try_recv(self, key: str) -> Received | None:
        """The value and its dead bit if it has been sent: the fast path, to be tried before `expect` and `recv`.

        Raises:
            OpError: the rendezvous was aborted with this error.
        """
        return self._table.take(key)

    def expect(self, key: str, receiver: Waiting) -> None:
        """Queue a receiver, whose result will be set; `try_recv` has just returned None."""
        self._table.wait(key, receiver)

    def recv(self, key: str) -> asyncio.Future[Received]:
        """A future of the value and its dead bit; cancelling it removes the receiver.

        Raises:
            OpError: the rendezvous was aborted with this error.
        """
        received = self._table.take(key)
        future: asyncio.Future[Received] = asyncio.get_running_loop().create_future()
        if received is not None:
            future.set_result(received)
            return future
        self._table.wait(key, future)
        future.add_done_callback(lambda done: self._table.withdraw(key, done) if done.cancelled() else None)
        return future

    def start_abort(self, error: OpError) -> None:
        """Fail all receivers, and all sends and receives from now on, with an error; only the first one counts."""
        fail_receivers(self._table.abort(error), error)

    def close(self) -> list[str]:
        """End the step; returns the keys that were left unmatched: none after a step without an error."""
        left = self._table.unmatched()
        if left:
            self.start_abort(AbortedError("the step of this rendezvous has ended"))
        return left

    def check_invariants(self) -> None:
        self._table.check_invariants()
