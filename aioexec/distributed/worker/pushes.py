"""Values that tasks push to each other without a request.

A task that receives values from another one *follows* it, by a long-lived call (`Peer/Push`): the sender notifies it of each
value made for it, as soon as the value exists. Such a value costs one message, without request and reply. Large values are only
announced, and the receiver requests them, since it allocates their memory.

Invariant: from the first notification until the call ends, every value for the follower is pushed or announced. When the call
ends, notifications in transit are lost, so both sides fail the steps that may have lost one: the receiver those in which it
waits for a value of the sender, the sender those of which it has notified the receiver. TensorFlow's tasks, tasks that have
only gRPC, and tasks of a cluster that is defined by one session (there a task name may mean another task) are not followed;
their values are requested.

No wait is unbounded: a value that does not arrive for a while is requested, as if it had been announced. The reply reports
failures that cause no notification: that the sender's step failed, or had ended when the connection was lost, or that the
sender is unresponsive. A sender detects that it has lost its follower when the same task requests, over another connection, a
value of a step of which it was notified.

Threading: all of it belongs to the loop of the task's server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from time import perf_counter_ns
from typing import Any, Final, NamedTuple

import numpy as np

from aioexec.distributed.transport.methods import METHODS
from aioexec.distributed.transport.push_messages import Pushed
from aioexec.distributed.transport.transport import NOTIFICATION_BYTES, Call, Channel, Notify, Payload
from aioexec.distributed.worker.step_table import StepTable
from aioexec.distributed.worker.transfer_log import TransferLog
from aioexec.errors import InternalError, InvalidArgumentError, OpError, UnavailableError, UnimplementedError
from aioexec.execution.rendezvous import ParsedKey
from aioexec.text_cache import cached_by_text

PUSH: Final = "Peer/Push"
_Request = METHODS[PUSH].request
_Response = METHODS[PUSH].response

_ARRAYS: Final = (np.ndarray, np.generic)

LOOK_SECONDS: Final = 0.5
"""The interval, in seconds, of checks for missing values; a value that is awaited at two checks in a row is requested."""


class _Follower(NamedTuple):
    """A task that follows this one.

    Attributes:
        notify: sends it a notification.
        peer: the connection of its call.
        ended: ends the call once it is done.
    """

    notify: Notify
    peer: str
    ended: asyncio.Future[None]


class StepExchange:
    """Pushes the values of one step, `step_id`, by the task's `_pushes`: the `Exchange` of the step's rendezvous."""

    __slots__ = ("_pushes", "notified", "step_id")

    def __init__(self, pushes: Pushes, step_id: int) -> None:
        self._pushes = pushes
        self.step_id = step_id
        self.notified: set[str] = set()  # the tasks to which values of the step were pushed or announced

    def push(self, key: str, value: Any, is_dead: bool) -> bool:
        pushes = self._pushes
        if not pushes.followers:
            return False
        follower, is_ours = pushes.route(key)
        target = pushes.followers.get(follower)
        if target is None:
            return False
        self.notified.add(follower)
        travels = is_ours and (is_dead or _is_small(value))
        message = Pushed(self.step_id, key, is_dead, not travels)
        target.notify(Payload(message, [value] if travels and not is_dead else ()))
        return travels

    def expect_push(self, key: str) -> bool:
        return self._pushes.expect_push(key)


class Pushes:
    """Both directions of one task.

    Args:
        task: its name.
        source_of: parses a key; raises OpErrors if its device is not on this task.

    Changing: `followers`, the tasks that follow this one; `_following`, the calls by which this one follows others, by task;
    `_sources`, the tasks among these that have sent their first notification; `_refused`, devices, with their incarnations, of
    tasks that cannot be followed; `_timer`, set while a value of a source may be awaited; `_waited`, the steps and keys that
    were awaited at the last check.
    """

    def __init__(
        self, task: str, steps: StepTable, log: TransferLog, source_of: Callable[[str], ParsedKey]
    ) -> None:
        self._task = task
        self._steps = steps
        self._log = log  # of received values
        self._source_of = source_of
        self.route = cached_by_text(1 << 14)(self._route)  # `_route`, cached
        self.followers: dict[str, _Follower] = {}
        self._following: dict[str, asyncio.Task[None]] = {}
        self._sources: set[str] = set()
        self._refused: set[str] = set()
        self._is_closed = False  # set by `close`, never reset
        self._timer: asyncio.TimerHandle | None = None
        self._waited: set[tuple[int, str]] = set()

    async def close(self) -> None:
        """End the calls of followers, and the calls by which this task follows others."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for follower in self.followers.values():
            follower.ended.cancel()
        following = [*self._following.values()]
        for each in following:
            each.cancel()
        if following:
            await asyncio.wait(following)

    # As a sender

    async def serve(self, request: Payload, call: Call) -> Payload:
        """Handler: push all values for a task to it, until the connection ends.

        Raises:
            UnimplementedError: its connection carries no notifications.
            InvalidArgumentError: the request does not name another task.
        """
        follower = request.message.task
        if call.notify is None:
            raise UnimplementedError(f"{PUSH}: this connection carries no notifications")
        if not follower or follower == self._task:
            raise InvalidArgumentError(f"{PUSH}: expected the name of another task, got {follower!r}")
        self._end(follower)
        ended = asyncio.get_running_loop().create_future()
        mine = self.followers[follower] = _Follower(call.notify, call.peer, ended)
        try:
            call.notify(Payload(Pushed()))
            for step in self._steps.all():
                step.rendezvous.push_kept()
            await ended
        finally:
            if self.followers.get(follower) is mine:
                self._end(follower)
        return Payload(_Response())

    def _end(self, follower: str) -> None:
        """Stop notifying a follower, and fail the steps of which it was notified."""
        former = self.followers.pop(follower, None)
        if former is None:
            return
        if not former.ended.done():
            former.ended.set_result(None)
        error = UnavailableError(f"{self._task} can send {follower} nothing more: the connection was lost")
        for step in self._steps.all():
            step.rendezvous.on_task_cut_off(follower, error)

    def on_request(self, step_id: int, follower: str, peer: str) -> None:
        """A task requests a value over a connection. If it follows over another one, the notifications on that one are lost."""
        known = self.followers.get(follower)
        if known is not None and known.peer != peer and self._steps.has_notified(step_id, follower):
            self._end(follower)

    def _route(self, key: str) -> tuple[str, bool]:
        """The task a value is for, and whether its device is on this task; if not, a request for it will raise the error."""
        try:
            parsed = self._source_of(key)
        except OpError:
            return key.split(";")[2].partition("/device:")[0], False
        return parsed.dst_device.partition("/device:")[0], True

    # As a receiver

    def expect_push(self, key: str) -> bool:
        """Whether the value of a key will be pushed; if so, the timer checks waits for it."""
        if not self._sources or key.partition("/device:")[0] not in self._sources:
            return False
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._check_missing)
        return True

    def follow(self, key: str, channel: Channel) -> None:
        """Follow the task that has just replied with the value of a key over this channel."""
        source, _, _ = key.partition("/device:")
        if self._is_closed or source == self._task or source in self._following:
            return
        device = ";".join(key.split(";", 2)[:2])
        if device not in self._refused:
            following = asyncio.get_running_loop().create_task(
                self._follow(source, device, channel), name=f"{self._task} follows {source}"
            )
            self._following[source] = following

    def doubt(self, source: str) -> None:
        """A task was lost: retry following it, since it may come back with another transport."""
        self._refused = {device for device in self._refused if not device.startswith(f"{source}/")}

    async def _follow(self, source: str, device: str, channel: Channel) -> None:
        why = "the call has ended"
        try:
            request = Payload(_Request(task=self._task))
            await channel.follow(PUSH, request, partial(self._on_notification, source))
        except UnimplementedError:
            self._refused.add(device)
        except OpError as error:
            why = error.message
        finally:
            del self._following[source]
            self._on_source_lost(source, why)

    def _on_notification(self, source: str, payload: Payload) -> None:
        message = payload.message
        key, step_id = message.rendezvous_key, message.step_id
        if not key:
            self._sources.add(source)
            return
        value = payload.tensors[0] if payload.tensors else None
        if value is None and not (message.is_dead or message.is_kept):
            raise InternalError(f"{PUSH} of {key}: there is no tensor")
        step = self._steps.enter_early(step_id)
        if step is None:
            return
        if message.is_kept:
            step.rendezvous.on_value_announced(key)
            return
        if self._log.is_on:
            self._log.note(step_id, key, perf_counter_ns(), value)
        step.rendezvous.on_value_pushed(key, value, message.is_dead)

    def _on_source_lost(self, source: str, why: str) -> None:
        """Fail the waits for values of a task, and drop the steps that consist only of values that it has pushed."""
        if source not in self._sources:
            return
        self._sources.discard(source)
        error = UnavailableError(f"{source} sends {self._task} nothing more: {why}")
        for step in self._steps.all():
            step.rendezvous.on_task_lost(source, error)
            if step.owner is None and not step.uses and step.rendezvous.is_all_from(source):
                self._steps.end(step.step_id, error)

    # Missing values

    def _check_missing(self) -> None:
        """Request the values that were awaited at the last check and still are."""
        self._timer = None
        waited, self._waited = self._waited, set()
        for step in self._steps.all():
            for key in step.rendezvous.awaited():
                if key.partition("/device:")[0] not in self._sources:
                    continue
                if (step.step_id, key) in waited:
                    step.rendezvous.on_value_announced(key)
                else:
                    self._waited.add((step.step_id, key))
        if self._waited:
            self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._check_missing)


def _is_small(value: Any) -> bool:
    """Whether a value is pushed rather than announced."""
    return isinstance(value, _ARRAYS) and value.nbytes <= NOTIFICATION_BYTES and not value.dtype.hasobject
