"""A session of a master: a direct session whose graph may use the devices of other tasks.

Nodes are placed on all devices of the cluster. This task's partitions run here, in the session's own executors; those of other
tasks are registered there once per plan, and run by handle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

import numpy as np

from aioexec.devices.device import DeviceAttributes
from aioexec.devices.device_set import DeviceMgr, DeviceSet
from aioexec.distributed.master.doubtful_tasks import DoubtfulTasks
from aioexec.distributed.master.remote_parts import DistributedParts, DistributedStep, RegisteredPart
from aioexec.distributed.master.remote_sessions import RemoteSessions
from aioexec.distributed.transport.answers import Answer
from aioexec.distributed.transport.gathering import gather
from aioexec.distributed.transport.transport import Payload
from aioexec.distributed.worker.event_steps import MakeReply, answer_of
from aioexec.distributed.worker.worker import Worker
from aioexec.distributed.worker.worker_session import Peers
from aioexec.dtypes import as_dtype
from aioexec.errors import CancelledError, InternalError, InvalidArgumentError, OpError
from aioexec.execution.executor import Executor
from aioexec.graph.graph import Graph
from aioexec.observability.metrics import STEPS
from aioexec.planning.plan import Plan, RemotePartition
from aioexec.sessions.direct import DirectSession
from aioexec.sessions.named_steps import NamedStep
from aioexec.sessions.names import find_operation, parse_tensor_name
from aioexec.sessions.options import SessionOptions
from aioexec.sessions.reordering import Reordered


class MasterSession(DirectSession):
    """One client's session.

    Constant: `_peers`, its cluster; `_worker`, the worker of the same server; `_remote`, the sessions on the other tasks;
    `_numbers`, the source of the ids of steps and requests. Changing: `graph_version`, the number of extensions, under the lock
    `extending`; `_doubtful`, tasks that may have lost the session; `_graphs`, by task the handles of graphs registered there
    for the present devices.
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
        self.graph_version = 0
        self.extending = asyncio.Lock()
        self._worker = worker
        self._peers = peers
        self._numbers = Random(bits(64))  # the system's generator is slow, and steps need two numbers each
        incarnation = self.client_device.attributes.incarnation
        self._remote = RemoteSessions(self.session_handle, options, incarnation, peers, tasks, undeleted)
        self._doubtful = DoubtfulTasks(self._restore_at)
        self._graphs: dict[str, list[str]] = {}

    @property
    def task(self) -> str:
        """The name of this task in the session's cluster."""
        return self._peers.task

    # The other tasks

    async def open(self) -> None:
        """Open a session on every other task, and use its devices; waits for tasks that are not reachable yet."""
        await self._remote.open_all()
        self._use_devices()

    def _use_devices(self) -> None:
        """Use the present devices for placement; plans for other devices are discarded."""
        self.device_set = DeviceSet([*self.device_mgr.list_devices(), *self._remote.devices])
        self.forget_plans()
        graphs, self._graphs = self._graphs, {}
        for task, handles in graphs.items():
            for handle in handles:
                self._remote.send(
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
            reply = await self._remote.call(
                part.task,
                "RegisterGraph",
                session_handle=self.session_handle,
                create_worker_session_called=True,
                graph_def=graph_def,
                graph_options=None if self.options.config is None else self.options.config.graph_options,
                config_proto=self.options.config,
            )
        except OpError as error:
            self._doubtful.record_failure(part.task, error)
            raise
        self._graphs.setdefault(part.task, []).append(reply.graph_handle)
        channel = self._peers.workers.channel(part.task)
        return RegisteredPart(
            part.task, channel, self.session_handle, reply.graph_handle, self._doubtful.record_failure
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
        if step is None or self._doubtful.tasks or not self.runs_nowait or not self.steps.life.is_open:
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
        """Call CleanupGraph on every task, in the background."""
        self._worker.steps.end(step_id)
        for part in parts:
            self._remote.send(part.task, "CleanupGraph", step_id=step_id)

    async def run(
        self,
        options: Any,
        feeds: Sequence[tuple[str, Any]],
        output_names: Sequence[str],
        target_names: Sequence[str],
        metadata: Any = None,
    ) -> list[Any]:
        self._check_dtypes(feeds)
        if self._doubtful.tasks:
            asked = (tuple([name for name, _ in feeds]), tuple(output_names), tuple(target_names))
            known = self._named.get(asked)
            await self._doubtful.check(None if known is None else _tasks_of(known.executor))
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

    async def _restore_at(self, task: str, has_lost_graphs: bool) -> None:
        """Open this session on a task again, if its devices show that it was restarted, or it has lost the graphs."""
        if has_lost_graphs or await self._remote.has_other_devices(task):
            await self._remote.open(task)
            self._use_devices()

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
        await self._doubtful.check()
        return await super().partial_run_setup(feed_names, output_names, target_names)

    async def partial_run(
        self, handle: str, feeds: Sequence[tuple[str, Any]], output_names: Sequence[str]
    ) -> list[Any]:
        if not self._partial_runs.is_open(handle):
            raise InvalidArgumentError("Must run PartialRunSetup before performing partial runs")
        return await super().partial_run(handle, feeds, output_names)

    async def make_callable(self, options: Any) -> int:
        await self._wait_until_extended()
        await self._doubtful.check()
        return await super().make_callable(options)

    async def run_callable(self, handle: int, feeds: Sequence[Any], metadata: Any = None) -> list[Any]:
        await self._doubtful.check()
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
        return local + [device.attributes for device in self._remote.devices]

    async def shut_down(self) -> None:
        await self._remote.close()
        try:
            await super().shut_down()
        finally:
            await self._peers.close()


def _type_name(dtype: np.dtype[Any]) -> str:
    """The name of a dtype in errors of TensorFlow's runtime."""
    name = as_dtype(dtype).name
    return {"float16": "half", "float32": "float", "float64": "double"}.get(name, name)


def _tasks_of(executor: Executor | Reordered) -> set[str]:
    """The other tasks with a partition in a plan."""
    planned = executor.executor if isinstance(executor, Reordered) else executor
    return {part.task for part in planned.plan.remote}


def _graph_def(part: RemotePartition, graph: Graph) -> Any:
    from aioexec.planning.export import subgraph_to_graph_def

    return subgraph_to_graph_def(part.subgraph, functions=graph.functions)
