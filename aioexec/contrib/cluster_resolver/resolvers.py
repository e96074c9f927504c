"""Cluster resolvers: objects that know the addresses of a cluster and the target of sessions."""

from __future__ import annotations

from typing import Any

from aioexec.distributed.cluster.cluster import ClusterSpec
from aioexec.errors import GraphTypeError, UnimplementedError
from aioexec.estimator.cluster_settings import read_environment

_LOCAL = ("", "local")


class ClusterResolver:
    """The interface of a resolver; subclasses define both methods."""

    def cluster_spec(self) -> ClusterSpec | None:
        """The cluster; None for a local one."""
        raise NotImplementedError(f"{type(self).__name__} does not define cluster_spec")

    def master(
        self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None
    ) -> str:
        """The target of sessions: of a task, or of the resolver's own one."""
        raise NotImplementedError(f"{type(self).__name__} does not define master")


class SimpleClusterResolver(ClusterResolver):
    """A cluster that is given.

    Args:
        cluster_spec: a ClusterSpec.
        master: the target of sessions, if no task is asked for.
        task_type, task_id, environment, num_accelerators: properties of the own task.
        rpc_layer: the scheme of targets.

    Raises:
        GraphTypeError: `cluster_spec` is no ClusterSpec.
    """

    def __init__(
        self,
        cluster_spec: ClusterSpec,
        master: str = "",
        task_type: str | None = None,
        task_id: int | None = None,
        environment: str = "",
        num_accelerators: Any = None,
        rpc_layer: str | None = None,
    ) -> None:
        if not isinstance(cluster_spec, ClusterSpec):
            raise GraphTypeError("cluster_spec must be a `tf.train.ClusterSpec`.")
        self._cluster_spec = cluster_spec
        self._master = master
        self.task_type = task_type
        self.task_id = task_id
        self.environment = environment
        self.rpc_layer = rpc_layer
        self._accelerators = num_accelerators

    def cluster_spec(self) -> ClusterSpec:
        return self._cluster_spec

    def master(
        self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None
    ) -> str:
        if task_type is None or task_id is None:
            return self._master
        scheme = rpc_layer or self.rpc_layer
        address = self._cluster_spec.task_address(task_type, task_id)
        return f"{scheme}://{address}" if scheme else address

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> Any:
        """What the constructor was given."""
        return self._accelerators


class TFConfigClusterResolver(SimpleClusterResolver):
    """The cluster of the environment variable TF_CONFIG; the arguments replace what it says."""

    def __init__(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
        environment: str | None = None,
    ) -> None:
        content = read_environment()
        task = content.get("task", {})
        spec = ClusterSpec(content.get("cluster", {}))
        kind = task.get("type") if task_type is None else task_type
        index = task.get("index") if task_id is None else task_id
        super().__init__(
            spec,
            "",
            kind,
            None if index is None else int(index),
            content.get("environment", "") if environment is None else environment,
            None,
            content.get("rpc_layer", "grpc") if rpc_layer is None else rpc_layer,
        )
        if spec and kind is not None and self.task_id is not None:
            self._master = self.master(kind, self.task_id)


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
        """The cluster of the given server; None for a local one."""
        return ClusterSpec({self._job_name: [self._master.removeprefix("grpc://")]}) if self._master else None

    def master(
        self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None
    ) -> str:
        return self._master

    def get_master(self) -> str:
        """The same as `master`."""
        return self.master()
