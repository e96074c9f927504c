"""A session of a worker: the graphs that a master has registered with it, and the steps that run them by handle.

It shares the implementation of a direct session (`Host`). Devices, and with them variables and queues, belong to the task and
are shared by all its sessions, unless the master requests an isolated session: that has state of its own under the same names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from aioexec.data_classes import dataclass
from aioexec.devices.device_set import DeviceMgr
from aioexec.devices.threads.pools import hold_pool
from aioexec.distributed.transport.answers import Answer
from aioexec.distributed.transport.transport import Payload
from aioexec.distributed.worker.event_steps import MakeReply, answer_of
from aioexec.distributed.worker.partial_run import PartialRunPart
from aioexec.distributed.worker.step_table import StepEntry, StepTable
from aioexec.distributed.worker.worker_cache import WorkerCache
from aioexec.errors import AbortedError, CancelledError, InvalidArgumentError, OpError, from_exception
from aioexec.execution.executor import Executor
from aioexec.execution.remote_rendezvous import RemoteRendezvous
from aioexec.execution.rendezvous import Received, parse_key
from aioexec.execution.step import SharedStep, StepSettings
from aioexec.observability.step_stats import StepStatsCollector
from aioexec.planning.plan import Plan
from aioexec.sessions.host import Host
from aioexec.sessions.options import SessionOptions
from aioexec.sessions.steps import Steps


def session_options(own: SessionOptions, config: Any) -> SessionOptions:
    """The options of a session with this ConfigProto; unset fields are the server's."""
    asked = SessionOptions.from_config("", config)
    return asked if config.aioexec.jit else replace(asked, jit=own.jit)


def isolated_devices(devices: DeviceMgr, task: str = "") -> DeviceMgr:
    """Copies of devices with the same attributes and state of their own; renamed for another task, if one is given."""
    made = []
    for each in devices.list_devices():
        name = f"{task}/device:{each.name.rpartition('/device:')[2]}" if task else each.name
        made.append(type(each)(replace(each.attributes, name=name), hold_pool(each.workers)))
    return DeviceMgr(made)


@dataclass(frozen=True, slots=True)
class Peers:
    """The cluster of a session: this task's name in it, and all tasks.

    Attributes:
        task: this task's name.
        workers: channels to all tasks.
        fetch: for a cluster that only this session uses, and closes: starts to receive the value of a key in a step.
    """

    task: str
    workers: WorkerCache
    fetch: Callable[[int, str], asyncio.Future[Received]] | None

    def join(self, rendezvous: RemoteRendezvous, step_id: int) -> None:
        """Make a step's rendezvous receive from the tasks of this cluster."""
        if self.fetch is not None:
            rendezvous.join(self.task, partial(self.fetch, step_id))

    async def close(self) -> None:
        """Release what belongs to this session alone."""
        if self.fetch is not None:
            await self.workers.close()


class WorkerSession(Host):
    """One session. `steps` are those under way.

    Constant: `master`, task and incarnation of the master that made it; `_peers`, the cluster it is in, None for the server's
    own. Changing: `_executors`, the registered graphs by handle, and `_partial_runs`, the open partial runs by step.
    """

    def __init__(
        self,
        options: SessionOptions,
        devices: DeviceMgr,
        session_handle: str,
        table: StepTable,
        bits: Callable[[int], int],
        master: tuple[str, int] = ("", 0),
        peers: Peers | None = None,
    ) -> None:
        super().__init__(options, devices, session_handle)
        self._peers = peers
        self.master = master
        self.steps = Steps()
        self._table = table  # the steps of the task
        self._bits = bits  # the source of graph handles
        self._executors: dict[str, Executor] = {}
        self._partial_runs: dict[int, PartialRunPart] = {}

    # Graphs

    async def register(self, graph_def: Any) -> str:
        """Plan a partition; returns its handle.

        Raises:
            OpError: the graph is malformed, or cannot be planned.
        """
        with self.steps.scope():
            if self.init_error is not None:
                raise self.init_error
            plan = await self.in_planner(partial(self._plan, graph_def))
            handle = f"{self._bits(64):016x}"
            self._executors[handle] = Executor(plan, self.engine)
            return handle

    def _plan(self, graph_def: Any) -> Plan:
        from aioexec.distributed.worker.partition_graphs import (  # loads protobuf messages
            import_partition,
            signature,
        )

        self.hold_blas()
        graph = import_partition(graph_def)
        return self.new_planner(graph, self.bind).plan(signature(graph))

    def deregister(self, handle: str) -> None:
        """Remove a graph; steps under way go on.

        Raises:
            AbortedError: no graph has this handle.
        """
        if self._executors.pop(handle, None) is None:
            raise _not_found_error(handle)

    # Steps

    async def run(
        self, message: Any, tensors: Sequence[Any], deadline: float | None, reply: Any
    ) -> list[Any]:
        """Run a registered graph once, for a RunGraphRequest; returns the values to be received by the master.

        Raises:
            OpError: the step failed; its rendezvous is aborted.
        """
        executor = self._executors.get(message.graph_handle)
        if executor is None:
            raise _not_found_error(message.graph_handle)
        if message.is_partial:
            return await self._continue(executor, message, tensors)
        with self.steps.scope() as scope:
            step = self._enter(message.step_id)
            step.begin_run(self, scope.cancel)
            try:
                return await self._run(executor, step.rendezvous, message, tensors, deadline, reply)
            except BaseException as error:  # others may wait for values of a step that has not even begun
                step.rendezvous.start_abort(error if isinstance(error, OpError) else _cancelled_error())
                raise
            finally:
                step.end_run()
                self._table.leave(step)

    def begin_nowait(self, message: Any, tensors: Sequence[Any], make_reply: MakeReply) -> Answer | None:
        """Begin a registered graph for a request without options; None: it cannot begin synchronously.

        Raises:
            AbortedError: no graph has this handle.
        """
        executor = self._executors.get(message.graph_handle)
        if executor is None:
            raise _not_found_error(message.graph_handle)
        if not self.steps.life.is_open or not executor.can_begin_nowait:
            return None
        step = self._enter(message.step_id)
        step.begin_run(self)

        def end(result: list[Any] | OpError) -> Payload | OpError:
            if isinstance(result, OpError):  # others may wait for values of a step that has not even begun
                step.rendezvous.start_abort(result)
            step.end_run()
            self._table.leave(step)
            return make_reply(result)

        try:
            self._send(step.rendezvous, message.send, tensors)
            part = executor.begin_nowait(StepSettings(shared=SharedStep(message.step_id, step.rendezvous)))
        except Exception as error:
            return Answer(reply=end(from_exception(error)))
        answer = answer_of(part, self.steps, end)
        if answer.reply is None:
            step.stops.append(answer.cancel)
        return answer

    def _enter(self, step_id: int) -> StepEntry:
        """Enter a step of this session, and make it receive values from this session's cluster."""
        step = self._table.enter(step_id)
        if self._peers is not None:
            self._peers.join(step.rendezvous, step_id)
        return step

    async def _run(
        self,
        executor: Executor,
        rendezvous: RemoteRendezvous,
        message: Any,
        tensors: Sequence[Any],
        deadline: float | None,
        reply: Any,
    ) -> list[Any]:
        asked = message.exec_opts
        collector = StepStatsCollector() if asked.record_timeline else None
        shared = SharedStep(message.step_id, rendezvous)
        self._send(rendezvous, message.send, tensors)
        self._check_own(message.recv_key)
        await executor.step([], StepSettings(deadline, collector=collector, shared=shared))
        if collector is not None:
            reply.step_stats.CopyFrom(await self.in_planner(collector.step_stats))
        if asked.record_partition_graphs:
            reply.partition_graph.extend(await self.in_planner(partial(_graph_defs, executor.plan)))
        return [_take_sent(rendezvous, key) for key in message.recv_key]

    def _send(self, rendezvous: RemoteRendezvous, named: Sequence[Any], tensors: Sequence[Any]) -> None:
        self._check_own([each.name for each in named])
        for each, tensor in zip(named, tensors, strict=True):
            rendezvous.send(each.name, tensor)

    def _check_own(self, keys: Sequence[str]) -> None:
        """Refuse keys that no device here sends.

        Raises:
            InvalidArgumentError: a key is malformed, or of another task.
        """
        for key in keys:
            if parse_key(key).src_device not in self.engine.devices:
                raise InvalidArgumentError(
                    f"Invalid rendezvous key (src): {key}; expected a device of {list(self.engine.devices)}"
                )

    # Partial runs

    async def _continue(self, executor: Executor, message: Any, tensors: Sequence[Any]) -> list[Any]:
        """Begin a partial run, or continue it; any error of a call ends the run."""
        step_id = message.step_id
        entry = self._enter(step_id)
        step = self._partial_runs.get(step_id) or self._begin(executor, entry)
        goes_on = False
        try:
            self._send(entry.rendezvous, message.send, tensors)
            self._check_own(message.recv_key)
            values = await step.wait_for_values(message.recv_key)
            if message.is_last_partial_run:
                await step.wait_ended()
            goes_on = not message.is_last_partial_run
            return values
        finally:
            self._table.leave(entry)
            if not goes_on:
                self._partial_runs.pop(step_id, None)
                await step.cancel_and_wait()

    def _begin(self, executor: Executor, entry: StepEntry) -> PartialRunPart:
        run = partial(self._run_partial, executor, entry.step_id, entry.rendezvous)
        step = self._partial_runs[entry.step_id] = PartialRunPart(entry.rendezvous, run, entry.end_run)
        entry.begin_run(self, lambda error: self._abandon(entry.step_id))
        return step

    async def _run_partial(self, executor: Executor, step_id: int, rendezvous: RemoteRendezvous) -> None:
        with self.steps.scope():
            await executor.step([], StepSettings(shared=SharedStep(step_id, rendezvous)))

    def _abandon(self, step_id: int) -> None:
        """Cancel a partial run to which no further call will come."""
        step = self._partial_runs.pop(step_id, None)
        if step is not None:
            step.cancel()

    # Close

    async def close(self, error: OpError | None = None) -> None:
        """End the steps under way, with this error, and release all resources."""
        self.steps.cancel(error or AbortedError(f"worker session {self.session_handle!r} was deleted"))
        self.engine.stop_building()
        async with AsyncExitStack() as stack:
            if self._peers is not None:
                stack.push_async_callback(self._peers.close)
            stack.push_async_callback(self.release)
            await self.steps.end(0)
            self._table.end_steps_of(self)
        self._executors.clear()


def _cancelled_error() -> OpError:
    return CancelledError("the step was cancelled")


def _not_found_error(handle: str) -> AbortedError:
    return AbortedError(f"Graph handle is not found: {handle}")


def _take_sent(rendezvous: RemoteRendezvous, key: str) -> Any:
    received = rendezvous.try_recv(key)
    if received is None:
        raise InvalidArgumentError(f"{key} was requested, but no node of the graph sends it")
    return received[0]


def _graph_defs(plan: Plan) -> list[Any]:
    from aioexec.planning.export import subgraph_to_graph_def

    return [subgraph_to_graph_def(partition.shown, partition.device) for partition in plan.partitions]
