"""The resources of this process that a session uses: devices, thread pools, the engine, kernels by node, planners.

A direct session has a `Host`, and so has each session of a worker, whose graphs come from a master. All resources that it
acquires are released in `release`. The event loop's thread only, except `bind`, `hold_blas` and `new_planner`,
which the planner thread calls.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from aioexec.data_classes import dataclass
from aioexec.devices.device import Device
from aioexec.devices.device_set import DeviceMgr, DeviceSet
from aioexec.devices.threads.blas_threads import BlasThreads
from aioexec.devices.threads.pools import NAME, dismiss_pool, inter_op_pool, named_pool, own_pool
from aioexec.devices.threads.workers import Job, Workers
from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError, OpError, from_exception
from aioexec.execution.background import Background
from aioexec.execution.engine import Engine
from aioexec.graph.function_library import FunctionLibrary
from aioexec.graph.graph import Graph
from aioexec.graph.io.collector import collector_disabled
from aioexec.graph.kernels.kernel import Attrs, Compute
from aioexec.graph.kernels.kernel_registry import ensure_registered, find_kernel
from aioexec.graph.node import Operation
from aioexec.observability.device_log import log_notice
from aioexec.planning.subgraph import Bind
from aioexec.resources.manager import ResourceManager
from aioexec.sessions.function_bodies import Bodies
from aioexec.sessions.options import SessionOptions

if TYPE_CHECKING:
    from aioexec.planning.pipeline import Planner

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class NodeContext:
    """The node and session as visible to a kernel; the attributes are those of KernelContext."""

    node_name: str
    device: str
    attrs: Attrs
    input_dtypes: Sequence[DType]
    output_dtypes: Sequence[DType]
    resources: ResourceManager
    functions: FunctionLibrary
    background: Background


class Host:
    """The resources of one session; belongs to one event loop.

    Constant: `session_handle`, `device_mgr`, `device_set`, `pools` (the inter-op pools; steps run on the first unless they
    choose), `engine`, `loop`. `init_error` is an error of the construction, which every use raises. `_kernels` are the kernels
    of stateless nodes (those of stateful ones are in the devices' op segments), `_held_pools` the pools to release, `_serial`
    the pool that steps select as number -1. `_transfers` numbers the transfers of all plans. `options` are the session's.
    `sync_on_finish` is whether devices are synchronized after each step, `_must_sync` whether one of them needs it. `_blas`
    limits the threads of BLAS; `_bodies` runs function bodies, `background` what outlives steps. `_is_released` is set by
    `release`, never reset.
    """

    def __init__(self, options: SessionOptions, devices: DeviceMgr, session_handle: str) -> None:
        self.options = options
        self.session_handle = session_handle
        self.loop = asyncio.get_running_loop()
        self.device_mgr = devices
        self.device_set = DeviceSet(devices.list_devices())
        self.init_error: OpError | None = None
        self.pools = self._make_pools()
        self.engine = Engine(
            devices.list_devices(), options.jit, self.pools[0], options.arena_bytes, options.weights
        )
        self.sync_on_finish = os.environ.get("TF_SYNC_ON_FINISH", "true").lower() not in ("0", "false")
        self._must_sync = self.sync_on_finish and any(
            type(device).sync is not Device.sync
            and not device.has_own_memory  # a step waits for its own work there
            for device in devices.list_devices()
        )
        self._kernels: dict[tuple[Operation, str], Compute] = {}
        self._serial: Workers | None = None
        self._held_pools = list(self.pools)
        self._is_released = False
        self._transfers = itertools.count()
        self._blas = BlasThreads()
        self._bodies = Bodies(self.engine, self.new_planner, self.in_planner, self.bind)
        self.engine.call = self._bodies.call
        self.background = Background(self.engine, self._bodies.call_nowait)
        for device in devices.list_devices():
            device.op_segment.add_hold(self.session_handle)

    def _make_pools(self) -> list[Workers]:
        pools: list[Workers] = []
        try:
            for each in self.options.session_inter_op_thread_pool:
                pools.append(named_pool(each.global_name, each.num_threads, self.options))  # noqa: PERF401
        except OpError as error:
            self.init_error = error
        return pools or [inter_op_pool(self.options, self.client_device.workers)]

    @property
    def client_device(self) -> Device:
        """The device of feeds and fetches."""
        assert self.device_set.client_device is not None
        return self.device_set.client_device

    # Kernels and plans

    def bind(self, op: Operation, device: str = "", scope: str = "") -> Compute:
        """The reference kernel of a node on a device, made at its first use.

        A stateful node has one kernel for each session and scope.

        Raises:
            NotFoundError: the op has no kernel on the device.
        """
        place = self.engine.devices.get(device, self.client_device)
        if op.row.is_stateful:
            create = partial(self._make_kernel, op, place)
            return place.op_segment.find_or_create(self.session_handle, f"{scope}{op.name}", create)
        key = op, place.name
        kernel = self._kernels.get(key)
        if kernel is None:
            kernel = self._kernels.setdefault(key, self._make_kernel(op, place))
        return kernel

    def _make_kernel(self, op: Operation, device: Device) -> Compute:
        found = find_kernel(op.type, device.device_type, op.attrs, runs_cpu_kernels=device.runs_cpu_kernels)
        context = NodeContext(
            op.name,
            device.name,
            op.attrs,
            [tensor.dtype for tensor in op.inputs],
            [tensor.dtype for tensor in op.outputs],
            device.resources,
            op.graph.functions,
            self.background,
        )
        try:
            return found.make(context)
        except OpError:
            raise
        except Exception as error:
            raise from_exception(error) from error

    def hold_blas(self) -> None:
        """Limit BLAS to one thread from now on; searches the file system for it, so not on the event loop."""
        self._blas.hold()

    def new_planner(self, graph: Graph, bind: Bind) -> Planner:
        """Make a planner of a graph; `bind` makes the kernels."""
        # Imported in the planner thread, at the first plan: the import reads files, and `import aioexec` does without it.
        from aioexec.planning.pipeline import Planner

        for device in self.device_set.devices:
            ensure_registered(device.device_type)
            device.prepare()
        return Planner(
            graph,
            bind,
            self.device_set,
            allow_soft_placement=self.options.allow_soft_placement,
            place_pruned_graph=self.options.graph_options.place_pruned_graph,
            optimizer=self.options.graph_options,
            numbers=self._transfers,
            log=_log_placement if self.options.log_device_placement else None,
        )

    async def in_planner(self, call: Callable[[], Result]) -> Result:
        """Make a call in the planner thread, with the garbage collector disabled."""
        job: Job[Result] = self.engine.planner.submit(collector_disabled()(call))
        return await job.result()

    # Threads

    def workers(self, index: int) -> Workers:
        """The pool that a step selects.

        Raises:
            InvalidArgumentError: there is no pool of that number.
        """
        if index == -1:
            if self._serial is None:
                self._serial = own_pool(f"{NAME}-serial", 1)
                self._held_pools.append(self._serial)
            return self._serial
        if not 0 <= index < len(self.pools):
            raise InvalidArgumentError(f"Invalid inter_op_thread_pool: {index}")
        return self.pools[index]

    async def release(self) -> None:
        """Release everything, when no step is active; to be called again if it was cancelled."""
        await self.background.close()
        if not self._is_released:
            self._is_released = True
            for device in self.device_mgr.list_devices():
                device.op_segment.remove_hold(self.session_handle)
            self._blas.release()
            for pool in self._held_pools:
                dismiss_pool(pool)
        try:
            await self.engine.close()
        finally:
            for pool in self._held_pools:
                if pool.closed:
                    await pool.close()
            await self.device_mgr.close()
        self._kernels.clear()
        self._bodies.clear()


def _log_placement(name: str, op_type: str, device: str) -> None:
    log_notice(f"{name}: ({op_type}): {device}")
