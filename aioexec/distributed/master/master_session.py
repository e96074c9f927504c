"""A session of a master: a direct session whose graph may use the devices of other tasks.

Nodes are placed on all devices of the cluster. This task's partitions run here, in the session's own executors; those of other
tasks are registered there once per plan, and run by handle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import numpy as np

from aioexec.devices.device import DeviceAttributes
from aioexec.devices.device_set import DeviceMgr, DeviceSet
from aioexec.devices.remote import RemoteDevice
from aioexec.distributed.master.remote_parts import DistributedParts, DistributedStep, RegisteredPart
from aioexec.distributed.transport.answers import Answer
from aioexec.distributed.transport.gathering import gather
from aioexec.distributed.transport.methods import METHODS
from aioexec.distributed.transport.status import POSSIBLY_RESTARTED
from aioexec.distributed.transport.transport import Channel, Payload
from aioexec.distributed.worker.event_steps import MakeReply, answer_of
from aioexec.distributed.worker.worker import Worker
from aioexec.distributed.worker.worker_session import Peers
from aioexec.dtypes import as_dtype
from aioexec.errors import (
    AbortedError,
    CancelledError,
    InternalError,
    InvalidArgumentError,
    OpError,
    UnavailableError,
)
from aioexec.execution.executor import Executor
from aioexec.graph.graph import Graph
from aioexec.observability.metrics import STEPS
from aioexec.planning.partition import signed
from aioexec.planning.plan import Plan, RemotePartition
from aioexec.sessions.direct import DirectSession
from aioexec.sessions.named_steps import NamedStep
from aioexec.sessions.names import find_operation, parse_tensor_name
from aioexec.sessions.options import SessionOptions
from aioexec.sessions.reordering import Reordered

GET_STATUS = "WorkerService/GetStatus"

CLOSE_SECONDS = 10.0
"""Seconds that a closing session waits for the reply of another task."""


class MasterSession(DirectSession):
    """One client's session.

    Constant: `_peers`, its cluster; `tasks`, the other tasks it uses. Changing: `graph_version`, the number of extensions,
    under the lock `extending`; `_opened`, tasks on which this session is open; `_remote`, their devices; `_doubtful`, tasks
    with failures, and whether they have lost their registered graphs; `_cleanups`, background calls, awaited by `close`;
    `_graphs`, by task the handles of graphs registered for the present devices. `_undeleted`, shared by the sessions of a
    master: by task the handles of sessions whose deletion there failed.
    """

    def __init__(
        self,
        options: SessionOptions,
        devices: DeviceMgr,
        worker: Worker,
        peers: Peers,
        tasks: Sequence[str],
        bits: Callable[[int], int],
        undeleted: dict[str, list[str]],
    ) -> None:
        super().__init__(options, devices, lambda _: None, f"{bits(64):016x}")
        self._undeleted = undeleted if peers.fetch is None else {}
        self.tasks = tuple(tasks)
        self.graph_version = 0
        self.extending = asyncio.Lock()
        self._worker = worker
        self._peers = peers
        self._numbers = Random(bits(64))  # the system's generator is slow, and steps need two numbers each
        self._opened: set[str] = set()
        self._remote: dict[str, list[RemoteDevice]] = {}
        self._doubtful: dict[str, bool] = {}
        self._mending = asyncio.Lock()
        self._graphs: dict[str, list[str]] = {}
        self._cleanups: dict[asyncio.Task[None], None] = {}

    @property
    def task(self) -> str:
        """The name of this task in the session's cluster."""
        return self._peers.task

    # The other tasks

    async def open(self) -> None:
        """Open a session on every other task, and get its devices; waits for tasks that are not reachable yet."""
        await gather(self._open_at(task, wait_for_ready=True) for task in self.tasks)
        self._use_devices()

    async def _open_at(self, task: str, *, wait_for_ready: bool = False) -> None:
        channel = self._peers.workers.channel(task)
        devices = await get_devices(channel, wait_for_ready=wait_for_ready)
        self._opened.add(task)
        await self._ask(task, "CreateWorkerSession", wait_for_ready=wait_for_ready, **self._opening(task))
        self._remote[task] = [RemoteDevice(_renamed(each, task)) for each in devices]
        for handle in self._undeleted.pop(task, ()):
            if handle != self.session_handle:
                with suppress(OpError):
                    await self._delete_at(task, handle)

    def _opening(self, task: str) -> dict[str, Any]:
        job, _, index = task.removeprefix("/job:").partition("/replica:0/task:")
        return {
            "session_handle": self.session_handle,
            "server_def": {
                "job_name": job,
                "task_index": int(index),
                "protocol": "grpc",
                "default_session_config": self.options.config,
                "cluster": None if self._peers.fetch is None else self.options.config.cluster_def,
            },
            "isolate_session_state": self.options.isolate_session_state or self._peers.fetch is not None,
            "master_task": self.task,
            "master_incarnation": signed(self.client_device.attributes.incarnation),
        }

    async def _ask(
        self,
        task: str,
        name: str,
        timeout: float | None = None,
        *,
        wait_for_ready: bool = False,
        **fields: Any,
    ) -> Any:
        method = f"WorkerService/{name}"
        request = METHODS[method].request(**fields)
        channel = self._peers.workers.channel(task)
        reply = await channel.call(method, Payload(request), timeout, wait_for_ready=wait_for_ready)
        return reply.message

    def _use_devices(self) -> None:
        """Use the present devices for placement; plans for other devices are discarded."""
        remote = [device for task in self.tasks for device in self._remote.get(task, ())]
        self.device_set = DeviceSet([*self.device_mgr.list_devices(), *remote])
        self.forget_plans()
        graphs, self._graphs = self._graphs, {}
        for task, handles in graphs.items():
            for handle in handles:
                self._send(
                    task,
                    "DeregisterGraph",
                    session_handle=self.session_handle,
                    create_worker_session_called=True,
                    graph_handle=handle,
                )

    # Plans

    async def new_executor(self, plan: Plan) -> Executor:
        if not plan.remote:
            return await super().new_executor(plan)
        assert self.graph is not None
        graph = self.graph
        parts = await gather(self._register_part(part, graph) for part in plan.remote)
        return Executor(plan, self.engine, DistributedParts(parts, self._new_step, self._new_request_id))

    async def _register_part(self, part: RemotePartition, graph: Graph) -> RegisteredPart:
        graph_def = await self.in_planner(partial(_graph_def, part, graph))
        try:
            reply = await self._ask(
                part.task,
                "RegisterGraph",
                session_handle=self.session_handle,
                create_worker_session_called=True,
                graph_def=graph_def,
                graph_options=None if self.options.config is None else self.options.config.graph_options,
                config_proto=self.options.config,
            )
        except OpError as error:
            self._record_failure(part.task, error)
            raise
        self._graphs.setdefault(part.task, []).append(reply.graph_handle)
        channel = self._peers.workers.channel(part.task)
        return RegisteredPart(
            part.task, channel, self.session_handle, reply.graph_handle, self._record_failure
        )

    # Steps

    def begin_nowait(
        self,
        feeds: tuple[str, ...],
        outputs: tuple[str, ...],
        targets: tuple[str, ...],
        values: Sequence[Any],
        make_reply: MakeReply,
    ) -> Answer | None:
        """Begin a known step without special options, synchronously; None if it has to wait."""
        step = self._named.get((feeds, outputs, targets))
        if step is None or self._doubtful or not self.runs_nowait or not self.steps.life.is_open:
            return None
        found = step.executor.run_nowait(values)
        if found is None:
            return None
        STEPS.value += 1
        if isinstance(found, list):
            return Answer(reply=make_reply(step.ordered(found)))

        def ordered(result: list[Any] | OpError) -> Payload | OpError:
            return make_reply(result if isinstance(result, OpError) else step.ordered(result))

        return answer_of(found, self.steps, ordered)

    def has_reports(self, options: Any) -> bool:
        """Whether a step with these RunOptions has reports: a trace, partition graphs or a cost model."""
        return (
            options.trace_level > 0
            or options.output_partition_graphs
            or self.options.graph_options.build_cost_model > 0
        )

    def _new_request_id(self) -> int:
        return self._numbers.getrandbits(62) + 1

    def _new_step(self, parts: Sequence[RegisteredPart]) -> DistributedStep:
        step_id = self._numbers.getrandbits(55) + 1
        rendezvous = self._worker.steps.rendezvous(step_id)
        self._peers.join(rendezvous, step_id)
        return DistributedStep(step_id, rendezvous, parts, self._clean_up)

    def _clean_up(self, step_id: int, parts: Sequence[RegisteredPart]) -> None:
        """Call CleanupGraph on every task, in the background; `close` awaits these calls."""
        self._worker.steps.end(step_id)
        for part in parts:
            self._send(part.task, "CleanupGraph", step_id=step_id)

    def _send(self, task: str, name: str, **fields: Any) -> None:
        """Make a call in the background. A lost task is recorded as doubtful, to be checked before the next step."""

        async def ask() -> None:
            with suppress(OpError):
                await self._ask(task, name, CLOSE_SECONDS, **fields)

        asking = asyncio.ensure_future(ask())
        self._cleanups[asking] = None
        asking.add_done_callback(self._cleanups.pop)

    def _record_failure(self, task: str, error: OpError) -> None:
        """Mark a task that was lost, or may have been restarted, as doubtful: the next step checks its state first."""
        if isinstance(error, AbortedError) and (
            POSSIBLY_RESTARTED in error.payloads or "handle is not found" in error.message
        ):
            self._doubtful[task] = True
        elif isinstance(error, UnavailableError | AbortedError):
            self._doubtful.setdefault(task, False)

    async def run(
        self,
        options: Any,
        feeds: Sequence[tuple[str, Any]],
        output_names: Sequence[str],
        target_names: Sequence[str],
        metadata: Any = None,
    ) -> list[Any]:
        self._check_dtypes(feeds)
        if self._doubtful:
            asked = (tuple([name for name, _ in feeds]), tuple(output_names), tuple(target_names))
            known = self._named.get(asked)
            await self.mend(None if known is None else _tasks_of(known.executor))
        return await super().run(options, feeds, output_names, target_names, metadata)

    def _check_dtypes(self, feeds: Sequence[tuple[str, Any]]) -> None:
        """Refuse values of a wrong dtype; conversion is the client's part."""
        graph = self.graph
        for name, value in feeds:
            node, index = parse_tensor_name(name)
            op = None if graph is None else find_operation(graph, node)
            if op is None or index >= len(op.outputs) or not isinstance(value, np.ndarray):
                continue
            declared = op.outputs[index].dtype.base_dtype
            if value.dtype != declared.numpy and not value.dtype.hasobject:
                given = _type_name(value.dtype)
                raise InternalError(
                    f"Output 0 of type {given} does not match declared output type {_type_name(declared.numpy)} "
                    f"for node {{{{node _recv_{node}_{index}}}}}"
                )

    async def mend(self, tasks: Collection[str] | None = None) -> None:
        """Check the state of tasks that failed, and reopen this session on those that were restarted.

        Args:
            tasks: those a step needs. None: all of them, and unreachable ones are skipped.

        Raises:
            UnavailableError: a needed task is unreachable.
        """
        doubtful = [task for task in self._doubtful if tasks is None or task in tasks]
        if doubtful:
            async with self._mending:
                for task in doubtful:
                    with nullcontext() if tasks is not None else suppress(UnavailableError):
                        await self._mend(task)

    async def _mend(self, task: str) -> None:
        has_lost = self._doubtful.get(task)
        if has_lost is None:
            return  # mended by another call meanwhile
        known = {device.attributes for device in self._remote[task]}
        found = await get_devices(self._peers.workers.channel(task))
        if has_lost or known != {_renamed(each, task) for each in found}:
            await self._open_at(task)
            self._use_devices()
        self._doubtful.pop(task, None)

    @property
    def is_doubtful(self) -> bool:
        """Whether `mend` has tasks to check."""
        return bool(self._doubtful)

    # The graph

    async def _step_of(
        self, graph: Graph, feeds: tuple[str, ...], outputs: tuple[str, ...], targets: tuple[str, ...]
    ) -> NamedStep:
        if (feeds, outputs, targets) not in self._named:
            await self._wait_until_extended()
        return await super()._step_of(graph, feeds, outputs, targets)

    async def partial_run_setup(
        self, feed_names: Sequence[str], output_names: Sequence[str], target_names: Sequence[str]
    ) -> str:
        await self._wait_until_extended()
        return await super().partial_run_setup(feed_names, output_names, target_names)

    async def partial_run(
        self, handle: str, feeds: Sequence[tuple[str, Any]], output_names: Sequence[str]
    ) -> list[Any]:
        if not self._partial_runs.is_open(handle):
            raise InvalidArgumentError("Must run PartialRunSetup before performing partial runs")
        return await super().partial_run(handle, feeds, output_names)

    async def make_callable(self, options: Any) -> int:
        await self._wait_until_extended()
        await self.mend()
        return await super().make_callable(options)

    async def run_callable(self, handle: int, feeds: Sequence[Any], metadata: Any = None) -> list[Any]:
        await self.mend()
        return await super().run_callable(handle, feeds, metadata)

    async def _wait_until_extended(self) -> None:
        """Wait until no extension is under way: names are never looked up in a partly extended graph."""
        while self.extending.locked():
            async with self.extending:
                pass

    # Close

    async def close(self, grace: float | None = None) -> None:
        if grace == 0 and self.steps.life.is_open:
            self.about_to_close()
            self.steps.cancel(CancelledError("Step was cancelled by an explicit call to `Session::Close()`."))
        await super().close(grace)

    async def list_devices(self) -> list[DeviceAttributes]:
        local = await super().list_devices()
        return local + [device.attributes for task in self.tasks for device in self._remote.get(task, ())]

    async def shut_down(self) -> None:
        for each in list(self._cleanups):
            each.cancel()
        await asyncio.gather(*self._cleanups, *map(self._close_at, self.tasks), return_exceptions=True)
        try:
            await super().shut_down()
        finally:
            await self._peers.close()

    async def _close_at(self, task: str) -> None:
        """Delete this session on a task; if that is unreachable, the next session that opens there deletes it."""
        if task in self._opened:
            await self._delete_at(task, self.session_handle)

    async def _delete_at(self, task: str, handle: str) -> None:
        try:
            await self._ask(task, "DeleteWorkerSession", CLOSE_SECONDS, session_handle=handle)
        except BaseException:
            self._undeleted.setdefault(task, []).append(handle)
            raise


async def get_devices(channel: Channel, *, wait_for_ready: bool = False) -> list[DeviceAttributes]:
    """The devices of a task."""
    reply = await channel.call(
        GET_STATUS, Payload(METHODS[GET_STATUS].request()), wait_for_ready=wait_for_ready
    )
    return [DeviceAttributes.from_proto(each) for each in reply.message.device_attributes]


def _type_name(dtype: np.dtype[Any]) -> str:
    """The name of a dtype in errors of TensorFlow's runtime."""
    name = as_dtype(dtype).name
    return {"float16": "half", "float32": "float", "float64": "double"}.get(name, name)


def _renamed(attributes: DeviceAttributes, task: str) -> DeviceAttributes:
    """A device with the task's name in the session's cluster; the task reports it under the name it was started with."""
    return replace(attributes, name=f"{task}/device:{attributes.name.rpartition('/device:')[2]}")


def _tasks_of(executor: Executor | Reordered) -> set[str]:
    """The other tasks with a partition in a plan."""
    planned = executor.executor if isinstance(executor, Reordered) else executor
    return {part.task for part in planned.plan.remote}


def _graph_def(part: RemotePartition, graph: Graph) -> Any:
    from aioexec.planning.export import subgraph_to_graph_def

    return subgraph_to_graph_def(part.subgraph, functions=graph.functions)
