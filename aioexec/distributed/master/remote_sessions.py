"""The sessions that a session of a master opens on the other tasks of its cluster (TensorFlow's worker sessions), by calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from aioexec.devices.device import DeviceAttributes
from aioexec.devices.remote import RemoteDevice
from aioexec.distributed.transport.gathering import gather
from aioexec.distributed.transport.methods import METHODS
from aioexec.distributed.transport.transport import Channel, Payload
from aioexec.distributed.worker.worker_session import Peers
from aioexec.errors import OpError
from aioexec.planning.partition import signed
from aioexec.sessions.options import SessionOptions

GET_STATUS = "WorkerService/GetStatus"

CLOSE_SECONDS = 10.0
"""Seconds that a closing session waits for the reply of another task."""


class RemoteSessions:
    """The sessions of one session of a master on the other tasks, all under the same handle.

    Args:
        session_handle, options: of the master's session.
        incarnation: of the master's device, by which the other tasks detect that the master was restarted.
        peers: the cluster.
        tasks: the names of the other tasks.
        undeleted: by task the handles of sessions whose deletion there failed; shared by all sessions of a master.

    Changing: `_devices`, by task the devices there, under the names they have in this cluster; `_opened`, the tasks on which a
    session was opened; `_calls`, calls in the background.
    """

    def __init__(
        self,
        session_handle: str,
        options: SessionOptions,
        incarnation: int,
        peers: Peers,
        tasks: Sequence[str],
        undeleted: dict[str, list[str]],
    ) -> None:
        self._session_handle = session_handle
        self._options = options
        self._incarnation = incarnation
        self._peers = peers
        self._tasks = tuple(tasks)
        self._undeleted = undeleted if peers.fetch is None else {}
        self._devices: dict[str, list[RemoteDevice]] = {}
        self._opened: set[str] = set()
        self._calls: dict[asyncio.Task[None], None] = {}

    @property
    def devices(self) -> list[RemoteDevice]:
        """The devices of the other tasks."""
        return [device for task in self._tasks for device in self._devices.get(task, ())]

    async def open_all(self) -> None:
        """Open a session on every other task, and get its devices; waits for tasks that are not reachable yet."""
        await gather(self.open(task, wait_for_ready=True) for task in self._tasks)

    async def open(self, task: str, *, wait_for_ready: bool = False) -> None:
        """Open a session on a task, also again, and get its devices; sessions that were not deleted there are deleted now."""
        channel = self._peers.workers.channel(task)
        devices = await get_devices(channel, wait_for_ready=wait_for_ready)
        self._opened.add(task)
        await self.call(task, "CreateWorkerSession", wait_for_ready=wait_for_ready, **self._opening(task))
        self._devices[task] = [RemoteDevice(_renamed(each, task)) for each in devices]
        for handle in self._undeleted.pop(task, ()):
            if handle != self._session_handle:
                with suppress(OpError):
                    await self._delete(task, handle)

    def _opening(self, task: str) -> dict[str, Any]:
        job, _, index = task.removeprefix("/job:").partition("/replica:0/task:")
        return {
            "session_handle": self._session_handle,
            "server_def": {
                "job_name": job,
                "task_index": int(index),
                "protocol": "grpc",
                "default_session_config": self._options.config,
                "cluster": None if self._peers.fetch is None else self._options.config.cluster_def,
            },
            "isolate_session_state": self._options.isolate_session_state or self._peers.fetch is not None,
            "master_task": self._peers.task,
            "master_incarnation": signed(self._incarnation),
        }

    async def has_other_devices(self, task: str) -> bool:
        """Ask a task for its devices; returns whether they are others than before: the task was restarted."""
        known = {device.attributes for device in self._devices[task]}
        found = await get_devices(self._peers.workers.channel(task))
        return known != {_renamed(each, task) for each in found}

    async def call(
        self,
        task: str,
        name: str,
        timeout: float | None = None,
        *,
        wait_for_ready: bool = False,
        **fields: Any,
    ) -> Any:
        """Call a method of a task's worker with a request of these fields; returns the reply's message."""
        method = f"WorkerService/{name}"
        request = METHODS[method].request(**fields)
        channel = self._peers.workers.channel(task)
        reply = await channel.call(method, Payload(request), timeout, wait_for_ready=wait_for_ready)
        return reply.message

    def send(self, task: str, name: str, **fields: Any) -> None:
        """Make a call in the background; its errors are ignored."""

        async def call() -> None:
            with suppress(OpError):
                await self.call(task, name, CLOSE_SECONDS, **fields)

        calling = asyncio.ensure_future(call())
        self._calls[calling] = None
        calling.add_done_callback(self._calls.pop)

    async def close(self) -> None:
        """Delete the sessions. If a task is unreachable, the next session of this master that opens there deletes it."""
        for each in list(self._calls):
            each.cancel()
        deletions = [self._delete(task, self._session_handle) for task in self._tasks if task in self._opened]
        await asyncio.gather(*self._calls, *deletions, return_exceptions=True)

    async def _delete(self, task: str, handle: str) -> None:
        try:
            await self.call(task, "DeleteWorkerSession", CLOSE_SECONDS, session_handle=handle)
        except BaseException:
            self._undeleted.setdefault(task, []).append(handle)
            raise


async def get_devices(channel: Channel, *, wait_for_ready: bool = False) -> list[DeviceAttributes]:
    """Ask a task for its devices."""
    request = Payload(METHODS[GET_STATUS].request())
    reply = await channel.call(GET_STATUS, request, wait_for_ready=wait_for_ready)
    return [DeviceAttributes.from_proto(each) for each in reply.message.device_attributes]


def _renamed(attributes: DeviceAttributes, task: str) -> DeviceAttributes:
    """A device with the task's name in the session's cluster; the task reports it under the name it was started with."""
    return replace(attributes, name=f"{task}/device:{attributes.name.rpartition('/device:')[2]}")
