"""Placement for replicated training: variables on the parameter servers, round-robin, everything else on the worker."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from aioexec.distributed.cluster.cluster import ClusterSpec
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.device_spec import DeviceSpec
from aioexec.graph.node import Operation
from aioexec.shapes import TensorShape

STANDARD_PS_OPS = (
    "Variable",
    "VariableV2",
    "AutoReloadVariable",
    "MutableHashTable",
    "MutableHashTableV2",
    "MutableHashTableOfTensors",
    "MutableHashTableOfTensorsV2",
    "MutableDenseHashTable",
    "MutableDenseHashTableV2",
    "VarHandleOp",
    "BoostedTreesEnsembleResourceHandleOp",
    "BoostedTreesQuantileStreamResourceHandleOp",
    "ResourceConditionalAccumulator",
    "DecisionTreeResource",
)
"""Ops whose state is placed on parameter servers."""


def replica_device_setter(
    ps_tasks: int = 0,
    ps_device: str = "/job:ps",
    worker_device: str = "/job:worker",
    merge_devices: bool = True,
    cluster: Any = None,
    ps_ops: Collection[str] | None = None,
    ps_strategy: Callable[[Operation], int] | None = None,
) -> Callable[[Operation], str] | None:
    """A device function for `tf.device`; None if there are no parameter servers.

    Args:
        ps_tasks: the number of parameter servers; taken from `cluster`, if that is given.
        merge_devices: complete the requested device; otherwise it is used unchanged.
        cluster: a ClusterSpec, or an argument of ClusterSpec.
        ps_ops: types of ops to put on parameter servers: `STANDARD_PS_OPS` by default.
        ps_strategy: from a node to the index of its task; round-robin by default.

    Raises:
        GraphTypeError: `ps_strategy` is not callable, `cluster` describes no cluster.
    """
    if cluster is not None:
        jobs = ClusterSpec(cluster).as_dict()
        ps_tasks = len(jobs.get(DeviceSpec.from_string(ps_device).job or "", ()))
    if ps_tasks == 0:
        return None
    choose = _InTurn(ps_tasks) if ps_strategy is None else ps_strategy
    if not callable(choose):
        raise GraphTypeError(f"ps_strategy must be callable, got {ps_strategy!r}")
    kept = STANDARD_PS_OPS if ps_ops is None else ps_ops

    def place(op: Operation) -> str:
        if not merge_devices and op.device:
            return op.device
        asked = DeviceSpec.from_string(op.device or "")
        if ps_device and op.type in kept:
            return _on_server(DeviceSpec.from_string(ps_device), asked, choose, op)
        return DeviceSpec.from_string(worker_device or "").make_merged_spec(asked).to_string()

    return place


def _on_server(
    server: DeviceSpec, asked: DeviceSpec, choose: Callable[[Operation], int], op: Operation
) -> str:
    """The device of a node on a parameter server; a task is chosen unless the node requests another job."""
    if server.job and (not asked.job or asked.job == server.job):
        server = server.replace(task=choose(op))
    return server.make_merged_spec(asked).to_string()


class _InTurn:
    """The round-robin strategy."""

    def __init__(self, tasks: int) -> None:
        self._tasks = tasks
        self._next = 0

    def __call__(self, op: Operation) -> int:
        task, self._next = self._next, (self._next + 1) % self._tasks
        return task


class GreedyLoadBalancingStrategy:
    """A `ps_strategy`: each node goes to the task with the least load so far; ties go to the first.

    `_loads` are the loads of the tasks.
    """

    def __init__(self, num_tasks: int, load_fn: Callable[[Operation], float]) -> None:
        """Start with no load.

        Args:
            load_fn: from a node to its load, such as `byte_size_load_fn`.
        """
        self._load = load_fn
        self._loads = [0.0] * num_tasks

    def __call__(self, op: Operation) -> int:
        task = min(range(len(self._loads)), key=self._loads.__getitem__)
        self._loads[task] += self._load(op)
        return task


def byte_size_load_fn(op: Operation) -> float:
    """A load function: the size of a variable in bytes.

    Raises:
        GraphValueError: its size is not known.
    """
    output = op.outputs[0]
    shape = output.get_shape()
    if not shape.is_fully_defined():  # a variable's own is set after placement
        shape = TensorShape(op.get_attr("shape"))
    if not shape.is_fully_defined():
        raise GraphValueError(f"{op.type} {op.name!r}: its load is the size of {shape}, which is not known")
    return (shape.num_elements() or 0) * (output.dtype.size or 0)
