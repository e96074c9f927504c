"""Determines the cluster of a process, and its task, from its environment."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from typing import Any

from aioexec.distributed.cluster.cluster import ClusterSpec
from aioexec.errors import GraphTypeError, GraphValueError, UnimplementedError

VARIABLE = "TF_CONFIG"
_LOCAL = ("", "local")


class ClusterResolver(ABC):
    """A cluster, and the task of this process in it; unknown attributes are None.

    Attributes:
        task_type: the job of this process.
        task_id: the index of its task in the job.
        rpc_layer: the scheme of targets, "grpc".
    """

    task_type: str | None = None
    task_id: int | None = None
    rpc_layer: str | None = None

    @abstractmethod
    def cluster_spec(self) -> ClusterSpec | None:
        """The present cluster; None without one."""

    @abstractmethod
    def master(
        self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None
    ) -> str:
        """The target of sessions at a task; "" for a session in this process."""

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> dict[str, int]:
        """The numbers of a task's accelerators by type; empty here."""
        return {}

    @property
    def environment(self) -> str | None:
        """The name of the environment of the program; "" here."""
        return ""


class SimpleClusterResolver(ClusterResolver):
    """A resolver with fixed values: the arguments of the constructor."""

    def __init__(
        self,
        cluster_spec: ClusterSpec,
        master: str = "",
        task_type: str | None = None,
        task_id: int | None = None,
        environment: str = "",
        num_accelerators: dict[str, int] | None = None,
        rpc_layer: str | None = None,
    ) -> None:
        if not isinstance(cluster_spec, ClusterSpec):
            raise GraphTypeError(f"cluster_spec must be a ClusterSpec, got {cluster_spec!r}")
        if not isinstance(master, str):
            raise GraphTypeError(f"master must be a string, got {master!r}")
        self._cluster_spec = cluster_spec
        self._master = master  # the target if no task is given
        self._environment = environment
        self._num_accelerators = num_accelerators or {}
        self.task_type = task_type
        self.task_id = task_id
        self.rpc_layer = rpc_layer

    def cluster_spec(self) -> ClusterSpec:
        return self._cluster_spec

    def master(
        self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None
    ) -> str:
        address = self._master
        if task_type is not None and task_id is not None:
            address = self._cluster_spec.task_address(task_type, task_id)
        return _target(address, rpc_layer or self.rpc_layer)

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> dict[str, int]:
        return self._num_accelerators

    @property
    def environment(self) -> str:
        return self._environment


class TFConfigClusterResolver(ClusterResolver):
    """Reads the environment variable TF_CONFIG at each call; arguments of the constructor take precedence.

    `_task_type`, `_task_id`, `_rpc_layer` and `_environment` are these arguments, None where TF_CONFIG decides.
    """

    def __init__(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
        environment: str | None = None,
    ) -> None:
        self._task_type = task_type
        self._task_id = task_id
        self._rpc_layer = rpc_layer
        self._environment = environment

    @property
    def task_type(self) -> str | None:
        found = _task().get("type") if self._task_type is None else self._task_type
        return None if found is None else str(found)

    @task_type.setter
    def task_type(self, task_type: str | None) -> None:
        self._task_type = task_type

    @property
    def task_id(self) -> int | None:
        found = _task().get("index") if self._task_id is None else self._task_id
        return None if found is None else int(found)

    @task_id.setter
    def task_id(self, task_id: int | None) -> None:
        self._task_id = task_id

    @property
    def rpc_layer(self) -> str | None:
        return _configured().get("rpc_layer") if self._rpc_layer is None else self._rpc_layer

    @rpc_layer.setter
    def rpc_layer(self, rpc_layer: str | None) -> None:
        self._rpc_layer = rpc_layer

    @property
    def environment(self) -> str | None:
        return self._environment

    def cluster_spec(self) -> ClusterSpec:
        return ClusterSpec(_configured().get("cluster", {}))

    def master(
        self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None
    ) -> str:
        configured = _configured().get("session_master")
        if configured is not None:
            return str(configured)
        cluster = self.cluster_spec()
        if sum(cluster.num_tasks(job) for job in cluster.jobs) <= 1:
            return ""
        job = self.task_type if task_type is None else task_type
        index = self.task_id if task_id is None else task_id
        if job is None or index is None:
            raise GraphValueError(f"{VARIABLE} does not name this task: its `task` is {_task()!r}")
        return _target(cluster.task_address(job, index), self.rpc_layer if rpc_layer is None else rpc_layer)


class TPUClusterResolver(ClusterResolver):
    """The resolver of a TPU by its name; here only without one: for the name "" or "local", or the address of a server.

    Raises:
        UnimplementedError: another name.
    """

    def __init__(
        self,
        tpu: str | None = None,
        zone: str | None = None,
        project: str | None = None,
        job_name: str = "worker",
        coordinator_name: str | None = None,
        coordinator_address: str | None = None,
        credentials: Any = "default",
        service: Any = None,
        discovery_url: str | None = None,
    ) -> None:
        name = "" if tpu is None else tpu
        if name not in _LOCAL and not name.startswith("grpc://"):
            raise UnimplementedError(
                f"TPUClusterResolver: there are no TPUs here, so {name!r} cannot be found; run with use_tpu=False"
            )
        self._master = "" if name in _LOCAL else name
        self._job_name = job_name

    def cluster_spec(self) -> ClusterSpec | None:
        """The cluster of the given server; None without a server."""
        return ClusterSpec({self._job_name: [self._master.removeprefix("grpc://")]}) if self._master else None

    def master(
        self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None
    ) -> str:
        return self._master

    def get_master(self) -> str:
        """The same as `master`."""
        return self.master()


def _configured() -> dict[str, Any]:
    text = os.environ.get(VARIABLE, "{}")
    try:
        found = json.loads(text)
    except ValueError as error:
        raise GraphValueError(f"{VARIABLE}: expected JSON, got {text[:200]!r}: {error}") from error
    if not isinstance(found, dict):
        raise GraphTypeError(f"{VARIABLE}: expected a JSON object, got {text[:200]!r}")
    return found


def _task() -> dict[str, Any]:
    task = _configured().get("task", {})
    if not isinstance(task, dict):
        raise GraphTypeError(f"{VARIABLE}: expected `task` to be a JSON object, got {task!r}")
    return task


def _target(address: str, rpc_layer: str | None) -> str:
    return f"{rpc_layer}://{address}" if rpc_layer else address
