"""Where nodes of replicated training go: variables to parameter servers, in turn, everything else to the worker."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from aioexec.errors import GraphTypeError
from aioexec.graph.device_spec import DeviceSpec
from aioexec.graph.node import Operation

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
"""Ops whose state parameter servers keep."""


def replica_device_setter(
    ps_tasks: int = 0,
    ps_device: str = "/job:ps",
    worker_device: str = "/job:worker",
    merge_devices: bool = True,
    cluster: Any = None,
    ps_ops: Collection[str] | None = None,
    ps_strategy: Callable[[Operation], int] | None = None,
) -> Callable[[Operation], str] | None:
    """A function for `tf.device` that places nodes; None if there are no parameter servers.

    Args:
        ps_tasks: how many parameter servers there are; of `cluster`, if that is given.
        merge_devices: fill in what the device asked for leaves open; otherwise it is taken as it is.
        cluster: a ClusterSpec, or a dict of jobs to their tasks.
        ps_ops: types of ops to put on parameter servers: `STANDARD_PS_OPS` by default.
        ps_strategy: the task for a node; one after the other by default.

    Raises:
        GraphTypeError: `ps_strategy` is no function.
    """
    if cluster is not None:
        jobs = cluster.as_dict() if hasattr(cluster, "as_dict") else dict(cluster)
        ps_tasks = len(jobs.get(DeviceSpec.from_string(ps_device).job) or ())
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
            server = DeviceSpec.from_string(ps_device)
            if server.job and (not asked.job or asked.job == server.job):
                server = server.replace(task=choose(op))
            return server.make_merged_spec(asked).to_string()
        return DeviceSpec.from_string(worker_device or "").make_merged_spec(asked).to_string()

    return place


class _InTurn:
    """Tasks one after the other, then again from the first."""

    def __init__(self, tasks: int) -> None:
        self._tasks = tasks
        self._next = 0

    def __call__(self, op: Operation) -> int:
        task, self._next = self._next, (self._next + 1) % self._tasks
        return task
