"""The part of a RunConfig that the environment variable TF_CONFIG determines: the cluster, and this process's task in it.

TF_CONFIG holds JSON: {"cluster": {job: [address, ...]}, "task": {"type": job, "index": number}}, and optionally "model_dir",
"session_master", "eval_session_master" and "service". Without a cluster everything is local.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from aioexec.data_classes import dataclass
from aioexec.distributed.cluster.cluster import ClusterSpec
from aioexec.errors import GraphTypeError, GraphValueError


class TaskType:
    """The jobs that an estimator knows."""

    MASTER: Final = "master"
    PS: Final = "ps"
    WORKER: Final = "worker"
    CHIEF: Final = "chief"
    EVALUATOR: Final = "evaluator"


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The cluster, and the place of this process; see the properties of RunConfig."""

    cluster_spec: ClusterSpec = field(default_factory=lambda: ClusterSpec({}))
    task_type: str = TaskType.WORKER
    task_id: int = 0
    global_id_in_cluster: int | None = 0
    master: str = ""
    evaluation_master: str = ""
    is_chief: bool = True
    num_ps_replicas: int = 0
    num_worker_replicas: int = 1
    service: Mapping[str, Any] | None = None


def read_environment() -> dict[str, Any]:
    """The content of TF_CONFIG; empty if it is not set."""
    found: dict[str, Any] = json.loads(os.environ.get("TF_CONFIG") or "{}")
    return found


def settings_from(tf_config: Mapping[str, Any]) -> ClusterSettings:
    """The settings that the content of TF_CONFIG describes.

    Raises:
        GraphValueError: the cluster has not exactly one chief, or the task is not in it.
        GraphTypeError: "service" is no dict.
    """
    service = tf_config.get("service")
    if service is not None and not isinstance(service, dict):
        raise GraphTypeError(f'If "service" is set in TF_CONFIG, it must be a dict. Given {type(service)}')
    cluster, task = ClusterSpec(tf_config.get("cluster", {})), tf_config.get("task", {})
    if not cluster:
        return _local(tf_config, task, service)
    has_master = TaskType.MASTER in cluster.jobs
    if has_master and TaskType.CHIEF in cluster.jobs:
        raise GraphValueError("If `master` node exists in `cluster`, job `chief` is not supported.")
    chief = TaskType.MASTER if has_master else TaskType.CHIEF
    task_type, task_id = _task_in(cluster, task, chief)
    if task_type == TaskType.EVALUATOR:
        if has_master:
            raise GraphValueError(
                "If `master` node exists in `cluster`, task_type `evaluator` is not supported."
            )
        return _evaluator(tf_config, task_id, service)
    return ClusterSettings(
        cluster_spec=cluster,
        task_type=task_type,
        task_id=task_id,
        global_id_in_cluster=_global_id(cluster, task_type, task_id, chief),
        master=_master(tf_config, cluster, task_type, task_id),
        is_chief=task_type == chief,
        num_ps_replicas=_count(cluster, TaskType.PS),
        num_worker_replicas=_count(cluster, TaskType.WORKER) + _count(cluster, chief),
        service=service,
    )


def _local(tf_config: Mapping[str, Any], task: Mapping[str, Any], service: Any) -> ClusterSettings:
    if task.get("type", TaskType.WORKER) != TaskType.WORKER:
        raise GraphValueError('If "cluster" is not set in TF_CONFIG, task type must be WORKER.')
    if int(task.get("index", 0)) != 0:
        raise GraphValueError('If "cluster" is not set in TF_CONFIG, task index must be 0.')
    return ClusterSettings(
        master=tf_config.get("session_master", ""),
        evaluation_master=tf_config.get("eval_session_master", ""),
        service=service,
    )


def _evaluator(tf_config: Mapping[str, Any], task_id: int, service: Any) -> ClusterSettings:
    """The evaluator is no member of the cluster."""
    return ClusterSettings(
        task_type=TaskType.EVALUATOR,
        task_id=task_id,
        global_id_in_cluster=None,
        evaluation_master=tf_config.get("eval_session_master", ""),
        is_chief=False,
        num_worker_replicas=0,
        service=service,
    )


def _task_in(cluster: ClusterSpec, task: Mapping[str, Any], chief: str) -> tuple[str, int]:
    if chief not in cluster.jobs:
        raise GraphValueError(f'If "cluster" is set in TF_CONFIG, it must have one "{chief}" node.')
    if cluster.num_tasks(chief) > 1:
        raise GraphValueError(f'The "cluster" in TF_CONFIG must have only one "{chief}" node.')
    task_type, index = task.get("type"), task.get("index")
    if not task_type:
        raise GraphValueError('If "cluster" is set in TF_CONFIG, task type must be set.')
    if index is None:
        raise GraphValueError('If "cluster" is set in TF_CONFIG, task index must be set.')
    task_id = int(index)
    if task_id < 0:
        raise GraphValueError("Task index must be non-negative number.")
    if task_type == TaskType.EVALUATOR:
        return task_type, task_id
    if task_type not in cluster.jobs:
        raise GraphValueError(
            f"{task_type} is not a valid task_type in the cluster_spec {cluster!r}; these values may come from the "
            "environment variable TF_CONFIG"
        )
    if task_id >= cluster.num_tasks(task_type):
        raise GraphValueError(
            f"{task_id} is not a valid task_id for task_type {task_type} in the cluster_spec {cluster!r}; these values may "
            "come from the environment variable TF_CONFIG"
        )
    return task_type, task_id


def _master(tf_config: Mapping[str, Any], cluster: ClusterSpec, task_type: str, task_id: int) -> str:
    """The target of sessions: this task's own server; none in a cluster of one task."""
    if "session_master" in tf_config:
        return str(tf_config["session_master"])
    if len(cluster.jobs) == 1 and cluster.num_tasks(cluster.jobs[0]) == 1:
        return ""
    return f"grpc://{cluster.task_address(task_type, task_id)}"


def _global_id(cluster: ClusterSpec, task_type: str, task_id: int, chief: str) -> int:
    """The number of this task among all: the chief is 0, parameter servers come last, other jobs by name."""
    others = sorted(set(cluster.jobs) - {chief, TaskType.PS})
    before = 0
    for job in (chief, *others, TaskType.PS):
        if job == task_type:
            break
        before += _count(cluster, job)
    return before + task_id


def _count(cluster: ClusterSpec, job: str) -> int:
    return cluster.num_tasks(job) if job in cluster.jobs else 0
