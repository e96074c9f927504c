"""Values that tasks send each other unasked.

A task that receives from another one *follows* it, by a call that lasts (`Peer/Push`), and is told each value made for it as
soon as it is there. So a value costs one message, and no answer, and nobody waits for a request. Large values are announced
only: who receives them asks, for memory for them is the receiver's to have.

What both sides may count on: what is made after the first thing that was told comes unasked, or is announced, until the call
has ended. When it ends whatever was on its way is lost, so both sides fail the steps it may have belonged to: the receiver what
he waits for, the sender the steps of which he has told something. TensorFlow's tasks and those that speak only gRPC are asked
as ever, and so are tasks of clusters that only one session knows, for there the same names mean others.

Nobody waits in vain: what does not come for a while is asked for, as if it had been announced. So the receiver hears that the
sender's step has failed, or was over when the connection was lost, or that the sender is silent, all of which nobody else may
tell him. A sender whose follower is silent hears it when the same task asks over another connection for something in a step
of which it was told something.
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
"""What is waited for at two looks in a row is asked for."""


class _Follower(NamedTuple):
    """Who is told values: how, over which connection, and what ends that."""

    notify: Notify
    peer: str
    ended: asyncio.Future[None]


class StepExchange:
    """How one step's values travel unasked: the `Exchange` of its rendezvous."""

    __slots__ = ("_pushes", "step_id", "told")

    def __init__(self, pushes: Pushes, step_id: int) -> None:
        self._pushes = pushes
        self.step_id = step_id
        self.told: set[str] = set()

    def push(self, key: str, value: Any, is_dead: bool) -> bool:
        pushes = self._pushes
        if not pushes.followers:
            return False
        follower, is_ours = pushes.route(key)
        target = pushes.followers.get(follower)
        if target is None:
            return False
        self.told.add(follower)
        travels = is_ours and (is_dead or _is_small(value))
        message = Pushed(self.step_id, key, is_dead, not travels)
        target.notify(Payload(message, [value] if travels and not is_dead else ()))
        return travels

    def comes(self, key: str) -> bool:
        return self._pushes.comes(key)


class Pushes:
    """Both directions of one task.

    Args:
        task: its name.
        source_of: takes a key apart; raises OpErrors where it is not of a device here.

    `followers` are tasks that follow this one; `_following` are the calls by which this one follows others, `_sources` those
    of them that have begun; `_refused` are devices, with their incarnations, of tasks that cannot be followed. `_timer` is set
    while somebody may wait for a source, `_waited` are the steps and keys of which that was so at the last look.
    """

    def __init__(
        self, task: str, steps: StepTable, log: TransferLog, source_of: Callable[[str], ParsedKey]
    ) -> None:
        self._task = task
        self._steps = steps
        self._log = log
        self._source_of = source_of
        self.route = cached_by_text(1 << 14)(self._found_route)
        self.followers: dict[str, _Follower] = {}
        self._following: dict[str, asyncio.Task[None]] = {}
        self._sources: set[str] = set()
        self._refused: set[str] = set()
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._waited: set[tuple[int, str]] = set()

    async def close(self) -> None:
        """Follow nobody, and tell nobody anything."""
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

    # To others

    async def serve(self, request: Payload, call: Call) -> Payload:
        """Handler: tell a task all values that are made for it, until it is gone.

        Raises:
            UnimplementedError: there is no way to tell it anything.
            InvalidArgumentError: it does not say who it is.
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
        """Tell a task nothing any more: steps of which it was told something cannot go on."""
        former = self.followers.pop(follower, None)
        if former is None:
            return
        if not former.ended.done():
            former.ended.set_result(None)
        error = UnavailableError(f"{self._task} can send {follower} nothing more: the connection was lost")
        for step in self._steps.all():
            step.rendezvous.cut_off(follower, error)

    def asked(self, step_id: int, follower: str, peer: str) -> None:
        """A task asks over a connection for a value that is made for it: what it was told over another one is lost."""
        known = self.followers.get(follower)
        if known is not None and known.peer != peer and self._steps.has_notified(step_id, follower):
            self._end(follower)

    def _found_route(self, key: str) -> tuple[str, bool]:
        """The task a value goes to, and whether it is really from here: if it is not, whoever asks for it is told why."""
        try:
            parsed = self._source_of(key)
        except OpError:
            return key.split(";")[2].partition("/device:")[0], False
        return parsed.dst_device.partition("/device:")[0], True

    # From others

    def comes(self, key: str) -> bool:
        """Whether what a key names comes unasked; who waits for it then is looked after."""
        if not self._sources or key.partition("/device:")[0] not in self._sources:
            return False
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)
        return True

    def follow(self, key: str, channel: Channel) -> None:
        """Have the task that has just told a value over this channel send unasked what else it makes for this one."""
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
        """A task was lost, and may be reached in another way when it is there again."""
        self._refused = {device for device in self._refused if not device.startswith(f"{source}/")}

    async def _follow(self, source: str, device: str, channel: Channel) -> None:
        why = "the call has ended"
        try:
            request = Payload(_Request(task=self._task))
            await channel.follow(PUSH, request, partial(self._received, source))
        except UnimplementedError:
            self._refused.add(device)
        except OpError as error:
            why = error.message
        finally:
            del self._following[source]
            self._lost(source, why)

    def _received(self, source: str, payload: Payload) -> None:
        message = payload.message
        key, step_id = message.rendezvous_key, message.step_id
        if not key:
            self._sources.add(source)
            return
        value = payload.tensors[0] if payload.tensors else None
        if value is None and not (message.is_dead or message.is_kept):
            raise InternalError(f"{PUSH} of {key}: there is no tensor")
        step = self._steps.early(step_id)
        if step is None:
            return
        if message.is_kept:
            step.rendezvous.announced(key)
            return
        if self._log.is_on:
            self._log.note(step_id, key, perf_counter_ns(), value)
        step.rendezvous.pushed(key, value, message.is_dead)

    def _lost(self, source: str, why: str) -> None:
        """Fail who waits for values of a task, and drop steps of which nothing but its values is known."""
        if source not in self._sources:
            return
        self._sources.discard(source)
        error = UnavailableError(f"{source} sends {self._task} nothing more: {why}")
        for step in self._steps.all():
            step.rendezvous.lost(source, error)
            if step.owner is None and not step.uses and step.rendezvous.is_all_from(source):
                self._steps.end(step.step_id, error)

    # What does not come

    def _look(self) -> None:
        """Have values asked for that somebody has waited for since the last look."""
        self._timer = None
        waited, self._waited = self._waited, set()
        for step in self._steps.all():
            for key in step.rendezvous.awaited():
                if key.partition("/device:")[0] not in self._sources:
                    continue
                if (step.step_id, key) in waited:
                    step.rendezvous.announced(key)
                else:
                    self._waited.add((step.step_id, key))
        if self._waited:
            self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)


def _is_small(value: Any) -> bool:
    """Whether a value is sent unasked."""
    return isinstance(value, _ARRAYS) and value.nbytes <= NOTIFICATION_BYTES and not value.dtype.hasobject
