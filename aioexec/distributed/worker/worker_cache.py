"""Channels to the other tasks of a cluster, made at first use, one for each task."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack

from aioexec.distributed.transport.transport import Channel, Transport
from aioexec.errors import InvalidArgumentError


class WorkerCache:
    """Channels by task name, "/job:worker/replica:0/task:1"; its creator closes it."""

    def __init__(self, addresses: Mapping[str, str], transport: Transport) -> None:
        self._addresses = dict(addresses)  # by task name, in the order of the cluster
        self._transport = transport  # makes the channels
        self._channels: dict[str, Channel] = {}  # by task name, those in use

    @property
    def tasks(self) -> list[str]:
        """The names of all tasks, including this one, in the order of the cluster."""
        return list(self._addresses)

    def address(self, task: str) -> str:
        """The address of a task.

        Raises:
            InvalidArgumentError: the task is not in the cluster.
        """
        address = self._addresses.get(task)
        if address is None:
            raise InvalidArgumentError(f"{task} is not in the cluster; its tasks are {self.tasks}")
        return address

    def locate(self, task: str, address: str) -> None:
        """Set the address of a task, once its port is known."""
        self._addresses[task] = address

    def channel(self, task: str) -> Channel:
        """The channel to a task.

        Raises:
            InvalidArgumentError: the task is not in the cluster.
        """
        channel = self._channels.get(task)
        if channel is None:
            channel = self._channels[task] = self._transport.channel(self.address(task))
        return channel

    def elsewhere(self, addresses: Mapping[str, str]) -> WorkerCache:
        """A cache for the tasks of another cluster, over the same transport; the caller closes it."""
        return WorkerCache(addresses, self._transport)

    async def close(self) -> None:
        """Close every channel, even if closing one of them fails."""
        channels, self._channels = self._channels, {}
        async with AsyncExitStack() as stack:
            for channel in channels.values():
                stack.push_async_callback(channel.close)
