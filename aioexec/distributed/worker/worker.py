"""The worker of a server: TensorFlow's WorkerService. It runs this task's parts of steps, and serves their values.

A step's master sends RunGraph, other workers RecvTensor, in any order. When a part fails, the step's rendezvous is aborted:
each later RecvTensor gets the error, marked as derived, since the root cause reaches the master as the reply to RunGraph.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from aioexec.devices.device_set import BorrowedDevices, DeviceMgr
from aioexec.distributed.cluster.cluster import addresses_of, task_name
from aioexec.distributed.transport.answers import Answer
from aioexec.distributed.transport.gathering import gather
from aioexec.distributed.transport.methods import METHODS
from aioexec.distributed.transport.request_ids import RecentRequestIds
from aioexec.distributed.transport.status import (
    DERIVED,
    POSSIBLY_RESTARTED,
    error_from,
    is_derived,
    message_of,
    with_payload,
)
from aioexec.distributed.transport.transport import Call, Handlers, Payload
from aioexec.distributed.transport.variant_codec import is_variant, variant_to_proto
from aioexec.distributed.worker.pushes import PUSH, Pushes, StepExchange
from aioexec.distributed.worker.step_table import StepTable
from aioexec.distributed.worker.transfer_log import TransferLog
from aioexec.distributed.worker.transfers import RECV_TENSOR, Transfers
from aioexec.distributed.worker.worker_cache import WorkerCache
from aioexec.distributed.worker.worker_session import Peers, WorkerSession, isolated_devices, session_options
from aioexec.errors import AbortedError, InvalidArgumentError, OpError, UnimplementedError, from_exception
from aioexec.execution.remote_rendezvous import RemoteRendezvous
from aioexec.execution.rendezvous import ParsedKey, parse_key
from aioexec.in_thread import in_thread
from aioexec.sessions.options import SessionOptions
from aioexec.text_cache import cached_by_text

_RecvTensorResponse = METHODS[RECV_TENSOR].response
_RunGraphResponse = METHODS["WorkerService/RunGraph"].response

_parsed = cached_by_text(1 << 14)(parse_key)  # outside of loops all steps have the same keys


class Worker:
    """Sessions by handle, and the steps under way.

    Constant: `task`, its name; `devices`, shared by the sessions and owned by the worker's creator; `_workers`, channels to all
    tasks; `_options`, the server's, to which sessions add their own; `_log`, of received values; `_transfers`, requests of
    values from other tasks; `_pushes`, values that tasks send each other without a request. Changing: `steps`, those that this
    task takes part in; `_sessions`, the open sessions by handle; `_legacy`, the session of masters that open none, made at
    their first request; `_requests`, the ids of recent requests.
    """

    def __init__(
        self,
        task: str,
        devices: DeviceMgr,
        workers: WorkerCache,
        options: SessionOptions,
        bits: Callable[[int], int] = secrets.randbits,
    ) -> None:
        self.task = task
        self.devices = devices
        self.steps = StepTable(self._new_rendezvous)
        self._workers = workers
        self._options = options
        self._bits = bits  # the source of random numbers
        self._sessions: dict[str, WorkerSession] = {}
        self._legacy: WorkerSession | None = None
        self._requests = RecentRequestIds()
        self._log = TransferLog()
        self._transfers = Transfers(devices, self._log, bits)
        self._pushes = Pushes(task, self.steps, self._log, self._check_source)

    def handlers(self) -> Handlers:
        """The handlers of a listener, by method."""
        return {
            "WorkerService/GetStatus": self._get_status,
            "WorkerService/CreateWorkerSession": self._create_worker_session,
            "WorkerService/DeleteWorkerSession": self._delete_worker_session,
            "WorkerService/RegisterGraph": self._register_graph,
            "WorkerService/DeregisterGraph": self._deregister_graph,
            "WorkerService/RunGraph": self._run_graph,
            "WorkerService/CleanupGraph": self._cleanup_graph,
            "WorkerService/CleanupAll": self._cleanup_all,
            RECV_TENSOR: self._recv_tensor,
            "WorkerService/MarkRecvFinished": self._mark_recv_finished,
            "WorkerService/Logging": self._logging,
            "WorkerService/Tracing": self._tracing,
            PUSH: self._pushes.serve,
        }

    async def close(self) -> None:
        """End all steps and sessions."""
        sessions = list(self._sessions.values())
        if self._legacy is not None:
            sessions.append(self._legacy)
        self._sessions, self._legacy = {}, None
        self.steps.close()
        try:
            await gather(session.close() for session in sessions)
        finally:
            await gather([self._pushes.close(), self._transfers.close()])

    async def _get_status(self, request: Payload, call: Call) -> Payload:
        attributes = [each.to_proto() for each in self.devices.list_device_attributes()]
        return _reply("GetStatus", device_attributes=attributes)

    # Sessions

    async def _create_worker_session(self, request: Payload, call: Call) -> Payload:
        message = request.message
        handle = message.session_handle
        if not handle:
            raise InvalidArgumentError("CreateWorkerSession: session_handle must be non-empty")
        await self._close_sessions_before(message.master_task, message.master_incarnation)
        if handle not in self._sessions:
            options = self._options
            if message.server_def.HasField("default_session_config"):
                options = session_options(options, message.server_def.default_session_config)
                options = replace(options, log_device_placement=False)  # the master logs it
            master = (message.master_task, message.master_incarnation)
            devices, peers = self._borrow_devices(), None
            if message.server_def.cluster.job:
                peers = self.peers(message.server_def)
                devices = isolated_devices(self.devices, peers.task)
            elif message.isolate_session_state:
                devices = isolated_devices(self.devices)
            self._sessions[handle] = WorkerSession(
                options, devices, handle, self.steps, self._bits, master, peers
            )
        return _reply("CreateWorkerSession")

    def peers(self, server_def: Any) -> Peers:
        """The cluster of one session, as its master describes it: with other addresses, and other names, also of this task."""
        workers = self._workers.elsewhere(addresses_of(server_def))
        task = task_name(server_def.job_name, server_def.task_index)
        return Peers(task, workers, partial(self._transfers.fetch, workers))

    async def _close_sessions_before(self, task: str, incarnation: int) -> None:
        """Close the sessions of earlier incarnations of a master: a restarted master has no record of them."""
        if not task:
            return
        gone = [
            handle
            for handle, session in self._sessions.items()
            if session.master[0] == task and session.master[1] != incarnation
        ]
        error = AbortedError(f"the master {task} has been restarted: its worker sessions were deleted")
        await gather([self._sessions.pop(handle).close(error) for handle in gone])

    def _borrow_devices(self) -> DeviceMgr:
        return BorrowedDevices(self.devices.list_devices())

    async def _delete_worker_session(self, request: Payload, call: Call) -> Payload:
        session = self._sessions.pop(request.message.session_handle, None)
        if session is not None:
            await session.close()
        return _reply("DeleteWorkerSession")

    def _find_session(self, message: Any) -> WorkerSession:
        """The session of a request.

        Raises:
            AbortedError: no session has its handle.
        """
        handle = message.session_handle
        if not handle or not message.create_worker_session_called:
            if self._legacy is None:
                self._legacy = WorkerSession(
                    self._options, self._borrow_devices(), "", self.steps, self._bits
                )
            return self._legacy
        session = self._sessions.get(handle)
        if session is None:
            error = AbortedError(
                f'Session handle is not found: {handle}. Possibly this worker ("{self.task}") just restarted.'
            )
            raise with_payload(error, POSSIBLY_RESTARTED)
        return session

    # Graphs

    async def _register_graph(self, request: Payload, call: Call) -> Payload:
        message = request.message
        return _reply(
            "RegisterGraph", graph_handle=await self._find_session(message).register(message.graph_def)
        )

    async def _deregister_graph(self, request: Payload, call: Call) -> Payload:
        message = request.message
        self._find_session(message).deregister(message.graph_handle)
        return _reply("DeregisterGraph")

    # Steps

    def _run_graph(self, request: Payload, call: Call) -> Awaitable[Payload]:
        message = request.message
        try:
            self._requests.check(message.request_id, "RunGraph (Worker)")
            session = self._find_session(message)
            if len(message.send) != len(request.tensors):
                raise InvalidArgumentError(
                    f"expected {len(message.send)} tensors to send, got {len(request.tensors)}"
                )
            make_reply = partial(self._make_part_reply, message)
            answer = (
                session.begin_nowait(message, request.tensors, make_reply)
                if _is_plain(message, call)
                else None
            )
        except Exception as error:
            return Answer(reply=_failed_part(message, error))
        return self._run_in_task(session, request, call) if answer is None else answer

    async def _run_in_task(self, session: WorkerSession, request: Payload, call: Call) -> Payload:
        message = request.message
        reply = _RunGraphResponse()
        try:
            values = await session.run(message, request.tensors, call.deadline, reply)
            result = self._make_part_reply(message, values, reply)
        except Exception as error:
            result = _failed_part(message, error)
        if isinstance(result, OpError):
            raise result
        return result

    def _make_part_reply(
        self, message: Any, result: list[Any] | OpError, reply: Any = None
    ) -> Payload | OpError:
        """The reply to a master: the result of this task's part of its step."""
        if isinstance(result, OpError):
            return _failed_part(message, result)
        reply = _RunGraphResponse() if reply is None else reply
        for key in message.recv_key:
            reply.recv.add(name=key)
        reply.aioexec_step_is_over = not message.is_partial and self.steps.end_if_over(message.step_id)
        return Payload(reply, result)

    async def _cleanup_graph(self, request: Payload, call: Call) -> Payload:
        await self.steps.end_and_wait(request.message.step_id)
        return _reply("CleanupGraph")

    async def _cleanup_all(self, request: Payload, call: Call) -> Payload:
        self.devices.clear_containers(list(request.message.container))
        return _reply("CleanupAll")

    # Values

    async def _recv_tensor(self, request: Payload, call: Call) -> Payload:
        message = request.message
        self._requests.check(message.request_id, "RecvTensor (Worker)")
        step_id, key = message.step_id, message.rendezvous_key
        receiver = self._check_source(key).dst_device.partition("/device:")[0]
        self._pushes.on_request(step_id, receiver, call.peer)
        if self.steps.has_ended(step_id):
            raise with_payload(AbortedError(f"step {step_id} has ended"), DERIVED)
        step = self.steps.enter(step_id)
        try:
            value, is_dead = await step.rendezvous.recv_here(key)
        except OpError as error:
            raise _derived(error) from error
        finally:
            self.steps.leave(step)
        reply = _RecvTensorResponse(is_dead=is_dead, send_start_micros=time.time_ns() // 1000)
        if is_variant(value):
            reply.tensor.CopyFrom(await in_thread(variant_to_proto, value))
            return Payload(reply, [None])
        return Payload(reply, [_NOTHING if is_dead else _array(value, key)])

    def _check_source(self, key: str) -> ParsedKey:
        """Parse a key; refuse one that this incarnation of the task does not send.

        Raises:
            InvalidArgumentError: the key is malformed, or no device here is its source.
            AbortedError: its device is of an earlier incarnation of this task.
        """
        parsed = _parsed(key)
        source = self.devices.lookup_device(f"/device:{parsed.src_device.rpartition('/device:')[2]}")
        if source.attributes.incarnation != parsed.src_incarnation:
            raise AbortedError(
                f"RecvTensor expects a different device incarnation: {parsed.src_incarnation} vs. "
                f'{source.attributes.incarnation}. Your worker job ("{self.task}") was probably restarted. '
                "Check your worker job for the reason why it was restarted."
            )
        return parsed

    def _new_rendezvous(self, step_id: int) -> RemoteRendezvous:
        fetch = partial(self._transfers.fetch, self._workers, step_id, pushes=self._pushes)
        return RemoteRendezvous(self.task, fetch, StepExchange(self._pushes, step_id))

    async def _mark_recv_finished(self, request: Payload, call: Call) -> Payload:
        return _reply("MarkRecvFinished")

    # Logging

    async def _logging(self, request: Payload, call: Call) -> Payload:
        """Switch the log of received values on or off, and reply with its records."""
        message, log = request.message, self._log
        log.is_on = message.enable_rpc_logging or (log.is_on and not message.disable_rpc_logging)
        if message.clear:
            log.clear()
        reply = METHODS["WorkerService/Logging"].response()
        for step_id, stats in log.step_stats_of(message.fetch_step_id).items():
            reply.step.add(step_id=step_id, step_stats=stats)
        return Payload(reply)

    async def _tracing(self, request: Payload, call: Call) -> Payload:
        raise UnimplementedError("Tracing")


_NOTHING = np.zeros(0, np.float32)
"""The tensor that is sent for a dead value."""


def _is_plain(message: Any, call: Call) -> bool:
    """Whether a part has no options, deadline or received values, so that it can run without a task."""
    asked = message.exec_opts
    return not (
        message.is_partial
        or message.recv_key
        or asked.record_timeline
        or asked.record_partition_graphs
        or call.deadline is not None
    )


def _failed_part(message: Any, error: Exception) -> Payload | OpError:
    failed = from_exception(error)
    if not message.store_errors_in_response_body or is_derived(failed):
        return failed  # the response body has no field for "derived"
    return Payload(_RunGraphResponse(status_code=failed.error_code, status_error_message=message_of(failed)))


def _reply(name: str, **fields: Any) -> Payload:
    return Payload(METHODS[f"WorkerService/{name}"].response(**fields))


def _derived(error: OpError) -> OpError:
    """A copy of an error for a waiter that did not cause it, marked as derived."""
    return with_payload(error_from(error.error_code, message_of(error), error.payloads), DERIVED)


def _array(value: Any, key: str) -> Any:
    """A value in a form that can be sent.

    Raises:
        InvalidArgumentError: the value is valid on its own device only.
    """
    if isinstance(value, np.ndarray | np.generic):
        return value
    if isinstance(value, bytes):
        return np.array(value, dtype=object)
    raise InvalidArgumentError(f"{key}: a {type(value).__name__} cannot be sent to another task")
