"""The master of a server: TensorFlow's MasterService, implemented on this server's sessions.

Handlers translate between messages and `MasterSession`. Errors have TensorFlow's codes and texts, since clients depend on them:
upon `AbortedError` for an unknown session, a monitored session creates a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from aioexec.devices.device import DeviceAttributes
from aioexec.devices.device_set import BorrowedDevices
from aioexec.distributed.cluster.cluster import task_name
from aioexec.distributed.master.graph_syntax import check_syntax
from aioexec.distributed.master.master_session import MasterSession
from aioexec.distributed.master.remote_sessions import get_devices
from aioexec.distributed.master.session_table import SessionTable
from aioexec.distributed.transport.answers import Answer
from aioexec.distributed.transport.gathering import gather
from aioexec.distributed.transport.methods import METHODS
from aioexec.distributed.transport.request_ids import RecentRequestIds
from aioexec.distributed.transport.settings import Collection
from aioexec.distributed.transport.status import reported_by_master
from aioexec.distributed.transport.transport import Call, Handlers, Payload
from aioexec.distributed.worker.worker import Worker
from aioexec.distributed.worker.worker_cache import WorkerCache
from aioexec.distributed.worker.worker_session import Peers, isolated_devices, session_options
from aioexec.errors import AbortedError, InvalidArgumentError, OpError, from_exception
from aioexec.formats.protos import RunMetadata, RunOptions, ServerDef
from aioexec.graph.device_spec import parse
from aioexec.sessions.options import SessionOptions

_PLAIN = RunOptions()
_StepResponse = METHODS["MasterService/RunStep"].response

FEW_NODES = 1000
"""Graphs of fewer nodes are checked on the event loop."""


class Master:
    """Sessions by handle.

    Args:
        task: its name, "/job:worker/replica:0/task:0".
        worker: the worker of the same server; its devices are the client devices of all sessions here.
        workers: channels to all tasks.
        options: the server's; sessions add their own.
        collection: when to close sessions that were left open.

    Changing: `_sessions`, the open sessions; `_ends`, tasks that close a session in the background; `_undeleted`, see
    `RemoteSessions`; `_requests`, the ids of recent requests.
    """

    def __init__(
        self,
        task: str,
        worker: Worker,
        workers: WorkerCache,
        options: SessionOptions,
        bits: Callable[[int], int],
        collection: Collection | None = None,
    ) -> None:
        self.task = task
        self._worker = worker
        self._workers = workers
        self._options = options
        self._bits = bits  # the source of random numbers
        self._sessions = SessionTable(collection or Collection(), self._collect)
        self._ends: dict[MasterSession, asyncio.Task[None]] = {}
        self._undeleted: dict[str, list[str]] = {}
        self._requests = RecentRequestIds()

    def handlers(self) -> Handlers:
        """The handlers of a listener, by method."""
        return {
            "MasterService/CreateSession": self._create_session,
            "MasterService/ExtendSession": self._extend_session,
            "MasterService/PartialRunSetup": self._partial_run_setup,
            "MasterService/RunStep": self._run_step,
            "MasterService/CloseSession": self._close_session,
            "MasterService/ListDevices": self._list_devices,
            "MasterService/Reset": self._reset,
            "MasterService/MakeCallable": self._make_callable,
            "MasterService/RunCallable": self._run_callable,
            "MasterService/ReleaseCallable": self._release_callable,
        }

    @property
    def session_count(self) -> int:
        """The number of open sessions."""
        return len(self._sessions)

    async def close(self, grace: float | None = 0.0) -> None:
        """Close every session, even if the calling task is cancelled. `grace` also bounds closes under way."""
        hurried = list(self._ends)
        for session in self._sessions.pop_all():
            self._end(session, grace)
        await gather(session.close(grace) for session in hurried)
        if self._ends:
            await asyncio.wait(self._ends.values())

    def on_peer_gone(self, peer: str) -> None:
        """Callback of the transport: a client's connection has ended."""
        self._sessions.on_peer_gone(peer)

    def _collect(self, session: MasterSession) -> None:
        self._end(session, 0.0)

    def _end(self, session: MasterSession, grace: float | None) -> None:
        end = self._ends[session] = asyncio.get_running_loop().create_task(session.close(grace))
        end.add_done_callback(lambda _: self._ends.pop(session))

    # Sessions

    def _find_session(self, handle: str, call: Call) -> MasterSession:
        session = self._sessions.find(handle, call.peer)
        if session is None:
            raise AbortedError(f"Session {handle} is not found.")
        return session

    async def _create_session(self, request: Payload, call: Call) -> Payload:
        message = request.message
        options = session_options(self._options, message.config)
        peers = self._peers(message.config.cluster_def)
        if peers.task != self.task:
            devices = isolated_devices(self._worker.devices, peers.task)
        elif options.isolate_session_state:
            devices = isolated_devices(self._worker.devices)
        else:
            devices = BorrowedDevices(self._worker.devices.list_devices())
        tasks = [
            task for task in _filtered(peers.workers.tasks, options.device_filters) if task != peers.task
        ]
        session = MasterSession(options, devices, self._worker, peers, tasks, self._bits, self._undeleted)
        try:
            await session.open()
            await self._check_graph(session, message.graph_def)
            await session.create(message.graph_def)
        except BaseException:
            await session.close(0)
            raise
        self._sessions.add(session, call.peer)
        return _reply("MasterService/CreateSession", session_handle=session.session_handle)

    @staticmethod
    async def _check_graph(session: MasterSession, graph_def: Any) -> None:
        if len(graph_def.node) < FEW_NODES:
            check_syntax(graph_def)
        else:
            await session.in_planner(partial(check_syntax, graph_def))

    def _peers(self, cluster: Any) -> Peers:
        """The cluster of a session: the server's, or that of the client's ServerDef, in which this task may have another name.

        Raises:
            InvalidArgumentError: this task is not in the cluster, or under the same name.
        """
        if not cluster.job:
            return Peers(self.task, self._workers, None)
        own = self._workers.address(self.task)
        found = [(job.name, index) for job in cluster.job for index in job.tasks if job.tasks[index] == own]
        if not found:
            raise InvalidArgumentError(
                "The master (current machine) is not included in the provided cluster_def. "
                f"Expected a task at {own}, got {cluster}"
            )
        server_def = ServerDef(cluster=cluster, job_name=found[0][0], task_index=found[0][1])
        if task_name(*found[0]) == self.task:
            raise InvalidArgumentError(
                "The ClusterSpec names the job and task index to be the same names that were provided when the "
                "server booted. This is currently not allowed."
            )
        return self._worker.peers(server_def)

    async def _extend_session(self, request: Payload, call: Call) -> Payload:
        message = request.message
        session = self._find_session(message.session_handle, call)
        async with session.extending:
            if message.current_graph_version != session.graph_version:
                raise AbortedError(
                    f"Current version is {session.graph_version} but caller expected {message.current_graph_version}."
                )
            await self._check_graph(session, message.graph_def)
            await session.extend(message.graph_def)
            session.graph_version += 1
        return _reply("MasterService/ExtendSession", new_graph_version=session.graph_version)

    async def _close_session(self, request: Payload, call: Call) -> Payload:
        handle = request.message.session_handle
        session = self._sessions.pop(handle)
        if session is None:
            raise AbortedError(f"Session {handle} is not found. Possibly, this master has restarted.")
        await session.close(0)
        return _reply("MasterService/CloseSession")

    async def _list_devices(self, request: Payload, call: Call) -> Payload:
        handle = request.message.session_handle
        session = self._sessions.find(handle, call.peer)
        if session is not None:
            devices = await session.list_devices()
        elif handle:
            raise InvalidArgumentError(f"Session {handle} is not found. Possibly, this master has restarted.")
        else:
            devices = await self._list_all_devices()
        task = self.task if session is None else session.task
        local = {each.name for each in devices if each.name.startswith(f"{task}/")}
        return _reply(
            "MasterService/ListDevices",
            local_device=[each.to_proto() for each in devices if each.name in local],
            remote_device=[each.to_proto() for each in devices if each.name not in local],
        )

    async def _list_all_devices(self) -> list[DeviceAttributes]:
        """Ask all tasks for their devices, this one's first; wait for tasks that are not reachable yet."""
        others = [
            get_devices(self._workers.channel(task), wait_for_ready=True)
            for task in self._workers.tasks
            if task != self.task
        ]
        return [*self._worker.devices.list_device_attributes(), *chain.from_iterable(await gather(others))]

    async def _reset(self, request: Payload, call: Call) -> Payload:
        containers = list(request.message.container)
        await gather(session.close(0) for session in self._sessions.pop_all())
        self._worker.devices.clear_containers(containers)
        tasks = _filtered(self._workers.tasks, list(request.message.device_filters))
        await gather(self._clean_all(task, containers) for task in tasks if task != self.task)
        return _reply("MasterService/Reset")

    async def _clean_all(self, task: str, containers: Sequence[str]) -> None:
        method = "WorkerService/CleanupAll"
        request = METHODS[method].request(container=containers)
        await self._workers.channel(task).call(method, Payload(request))

    # Steps

    def _run_step(self, request: Payload, call: Call) -> Awaitable[Payload]:
        message = request.message
        feeds, fetches = tuple([each.name for each in message.feed]), tuple(message.fetch)
        try:
            self._requests.check(message.request_id, "RunStep (Master)")
            session = self._find_session(message.session_handle, call)
            if len(feeds) != len(request.tensors):
                raise InvalidArgumentError(
                    f"expected {len(feeds)} tensors of feeds, got {len(request.tensors)}"
                )
            if not message.partial_run_handle and (
                not message.HasField("options") or message.options == _PLAIN
            ):
                make_reply = partial(_make_step_reply, message)
                targets = tuple(message.target)
                answer = session.begin_nowait(feeds, fetches, targets, request.tensors, make_reply)
                if answer is not None:
                    return answer
        except Exception as error:
            return Answer(reply=_failed_step(message, error))
        return self._run_in_task(session, message, list(zip(feeds, request.tensors, strict=True)), fetches)

    async def _run_in_task(
        self, session: MasterSession, message: Any, feeds: Sequence[tuple[str, Any]], fetches: Sequence[str]
    ) -> Payload:
        targets, metadata = (
            tuple(message.target),
            RunMetadata() if session.has_reports(message.options) else None,
        )
        try:
            if message.partial_run_handle:
                values = await session.partial_run(message.partial_run_handle, feeds, [*fetches, *targets])
            else:
                values = await session.run(message.options, feeds, fetches, targets, metadata)
            result = _make_step_reply(message, values[: len(fetches)], metadata)
        except Exception as error:
            result = _failed_step(message, error)
        if isinstance(result, OpError):
            raise result
        return result

    async def _partial_run_setup(self, request: Payload, call: Call) -> Payload:
        message = request.message
        self._requests.check(message.request_id, "PartialRunSetup (Master)")
        session = self._find_session(message.session_handle, call)
        handle = await session.partial_run_setup(
            list(message.feed), list(message.fetch), list(message.target)
        )
        return _reply("MasterService/PartialRunSetup", partial_run_handle=handle)

    async def _make_callable(self, request: Payload, call: Call) -> Payload:
        message = request.message
        self._requests.check(message.request_id, "MakeCallable (Master)")
        handle = await self._find_session(message.session_handle, call).make_callable(message.options)
        return _reply("MasterService/MakeCallable", handle=handle)

    async def _run_callable(self, request: Payload, call: Call) -> Payload:
        message = request.message
        self._requests.check(message.request_id, "RunCallable (Master)")
        reply = METHODS["MasterService/RunCallable"].response()
        session = self._find_session(message.session_handle, call)
        values = await session.run_callable(message.handle, list(request.tensors), reply.metadata)
        return Payload(reply, [_array(value) for value in values])

    async def _release_callable(self, request: Payload, call: Call) -> Payload:
        message = request.message
        await self._find_session(message.session_handle, call).release_callable(message.handle)
        return _reply("MasterService/ReleaseCallable")


def _filtered(tasks: Sequence[str], filters: Sequence[str]) -> list[str]:
    """The tasks that match a session's device filters."""
    wanted = [parse(each).without_device() for each in filters]
    return [task for task in tasks if not filters or any(each.matches(parse(task)) for each in wanted)]


def _make_step_reply(message: Any, result: list[Any] | OpError, metadata: Any = None) -> Payload | OpError:
    """The reply to a client's step."""
    if isinstance(result, OpError):
        return _failed_step(message, result)
    reply = _StepResponse(metadata=metadata)
    for name in message.fetch:
        reply.tensor.add(name=name)
    return Payload(reply, [_array(value) for value in result])


def _failed_step(message: Any, error: Exception) -> Payload | OpError:
    failed = from_exception(error)
    if not message.store_errors_in_response_body:
        return failed
    return Payload(
        _StepResponse(status_code=failed.error_code, status_error_message=reported_by_master(failed))
    )


def _reply(method: str, **fields: Any) -> Payload:
    return Payload(METHODS[method].response(**fields))


def _array(value: Any) -> Any:
    """A fetched value as an array; a string as a scalar of dtype object."""
    if isinstance(value, np.ndarray):
        return value
    return np.array(value, dtype=object if isinstance(value, bytes | str) else None)
