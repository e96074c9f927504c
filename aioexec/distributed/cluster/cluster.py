"""The description of a cluster: jobs, their tasks, and the address of each.

A `ClusterSpec` holds plain dicts; its protobuf message is made on demand, so that describing a cluster does not load protobuf.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aioexec.errors import GraphTypeError, GraphValueError, InternalError, InvalidArgumentError
from aioexec.sessions.options import own_message

MOST_TASKS = 1 << 20
"""An upper bound on task indices, since lists of that length are made."""


class ClusterSpec:
    """The jobs of a cluster; equal to another, or to a dict of dicts, with the same tasks at the same addresses."""

    _jobs: dict[str, dict[int, str]]
    __hash__ = None  # type: ignore[assignment]  # as TensorFlow's: it equals dicts

    def __init__(self, cluster: Any) -> None:
        """Describe a cluster.

        Args:
            cluster: job names to lists of addresses, or to dicts from task indices to addresses if some tasks are unknown; a
                ClusterDef; or another ClusterSpec.

        Raises:
            GraphTypeError: the argument is none of these.
            GraphValueError: an invalid task index.
        """
        if isinstance(cluster, ClusterSpec):
            self._jobs = {name: dict(tasks) for name, tasks in cluster._jobs.items()}
        elif isinstance(cluster, Mapping):
            self._jobs = {_text("Job name", name): _tasks(name, tasks) for name, tasks in cluster.items()}
        elif getattr(getattr(cluster, "DESCRIPTOR", None), "name", None) == "ClusterDef":
            self._jobs = {job.name: _tasks(job.name, dict(job.tasks)) for job in cluster.job}
        else:
            raise GraphTypeError(
                "`cluster` must be a dictionary mapping one or more job names to lists of network addresses, "
                f"or a `ClusterDef` protocol buffer, got {cluster!r}"
            )

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __eq__(self, other: object) -> bool:
        return self._jobs == (other._jobs if isinstance(other, ClusterSpec) else other)

    def __repr__(self) -> str:
        jobs = self.as_dict()
        return f"ClusterSpec({{{', '.join(f'{name!r}: {jobs[name]!r}' for name in sorted(jobs))}}})"

    def as_dict(self) -> dict[str, Any]:
        """The addresses of each job: a list if all indices up to the last one have an address, else a dict."""
        return {name: list(tasks.values()) if _is_dense(tasks) else tasks for name, tasks in self._sorted()}

    def _sorted(self) -> Iterable[tuple[str, dict[int, str]]]:
        return ((name, dict(sorted(tasks.items()))) for name, tasks in self._jobs.items())

    def as_cluster_def(self) -> Any:
        """This cluster as a ClusterDef, jobs sorted by name."""
        from aioexec.formats.protos import ClusterDef, JobDef  # loads protobuf

        return ClusterDef(job=[JobDef(name=name, tasks=tasks) for name, tasks in sorted(self._jobs.items())])

    @property
    def jobs(self) -> list[str]:
        """The names of the jobs."""
        return list(self._jobs)

    def num_tasks(self, job_name: str) -> int:
        """The number of tasks of a job.

        Raises:
            GraphValueError: no such job.
        """
        return len(self._job(job_name))

    def task_indices(self, job_name: str) -> list[int]:
        """The indices of a job's tasks, in order.

        Raises:
            GraphValueError: no such job.
        """
        return sorted(self._job(job_name))

    def task_address(self, job_name: str, task_index: int) -> str:
        """The address of a task.

        Raises:
            GraphValueError: no such job, no such task.
        """
        address = self._job(job_name).get(task_index)
        if address is None:
            raise GraphValueError(f"No task with index {task_index!r} in job {job_name!r}")
        return address

    def job_tasks(self, job_name: str) -> list[str | None]:
        """The addresses of a job by task index; None where unknown.

        Raises:
            GraphValueError: no such job.
        """
        tasks = self._job(job_name)
        return [tasks.get(index) for index in range(max(tasks, default=-1) + 1)]

    def _job(self, name: str) -> dict[int, str]:
        job = self._jobs.get(name)
        if job is None:
            raise GraphValueError(f"No such job in cluster: {name!r}")
        return job


def _tasks(job: Any, tasks: Any) -> dict[int, str]:
    if isinstance(tasks, list | tuple):
        tasks = dict(enumerate(tasks))
    if not isinstance(tasks, Mapping):
        raise GraphTypeError(
            f"The tasks for job {job!r} must be a list or a dictionary from integers to strings, got {tasks!r}"
        )
    return {_index(job, index): _text("Task address", address) for index, address in tasks.items()}


def _index(job: Any, index: Any) -> int:
    try:
        number = int(index)
    except (TypeError, ValueError):
        raise GraphValueError(f"a task of job {job!r} needs a number as its index, got {index!r}") from None
    if not 0 <= number < MOST_TASKS:
        raise GraphValueError(
            f"a task of job {job!r} needs an index from 0 to {MOST_TASKS - 1}, got {index!r}"
        )
    return number


def _text(what: str, value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode()
    if not isinstance(value, str):
        raise GraphTypeError(f"{what} {value!r} must be bytes or unicode")
    return value


def _is_dense(tasks: Mapping[int, str]) -> bool:
    return bool(tasks) and max(tasks) + 1 == len(tasks)


# Tasks


def task_name(job: str, index: int) -> str:
    """The prefix of the names of a task's devices."""
    return f"/job:{job}/replica:0/task:{index}"


def addresses_of(server_def: Any) -> dict[str, str]:
    """The addresses of all tasks of a ServerDef, by task name."""
    return {
        task_name(job.name, index): address
        for job in server_def.cluster.job
        for index, address in sorted(job.tasks.items())
    }


def make_server_def(
    server_or_cluster_def: Any,
    job_name: str | None = None,
    task_index: int | None = None,
    protocol: str | None = None,
    config: Any = None,
) -> Any:
    """The ServerDef of a task; the other arguments override `server_or_cluster_def`.

    Args:
        server_or_cluster_def: a ServerDef, or an argument of ClusterSpec.

    Raises:
        GraphTypeError: an argument of a wrong type.
        GraphValueError: the task is ambiguous.
    """
    from aioexec.formats.protos import ServerDef  # loads protobuf

    kind = getattr(getattr(server_or_cluster_def, "DESCRIPTOR", None), "name", None)
    if kind == "ServerDef":
        made = ServerDef()
        made.CopyFrom(own_message(server_or_cluster_def, "ServerDef", "server_or_cluster_def"))
        made.job_name = made.job_name if job_name is None else _text("job_name", job_name)
        made.task_index = made.task_index if task_index is None else _number(task_index)
        made.protocol = protocol or made.protocol or "grpc"
    else:
        cluster = _cluster_of(server_or_cluster_def)
        job = _only_job(cluster) if job_name is None else _text("job_name", job_name)
        index = _only_task(cluster, job) if task_index is None else _number(task_index)
        made = ServerDef(
            cluster=cluster.as_cluster_def(), job_name=job, task_index=index, protocol=protocol or "grpc"
        )
    if config is not None:
        made.default_session_config.MergeFrom(own_message(config, "ConfigProto", "config"))
    return made


def _cluster_of(described: Any) -> ClusterSpec:
    try:
        return ClusterSpec(described)
    except GraphTypeError as error:
        raise GraphTypeError(
            "Could not convert `server_or_cluster_def` to a `ServerDef` or `ClusterSpec`: " + error.message
        ) from None


def _number(index: Any) -> int:
    if isinstance(index, bool) or not isinstance(index, int) or not -(1 << 31) <= index < 1 << 31:
        raise GraphTypeError(f"task_index must be an integer, got {index!r}")
    return index


def _only_job(cluster: ClusterSpec) -> str:
    if len(cluster.jobs) != 1:
        raise GraphValueError(f"Must specify an explicit `job_name`: the jobs are {cluster.jobs}")
    return cluster.jobs[0]


def _only_task(cluster: ClusterSpec, job: str) -> int:
    indices = cluster.task_indices(job)
    if len(indices) != 1:
        raise GraphValueError(f"Must specify an explicit `task_index`: the tasks of {job!r} are {indices}")
    return indices[0]


def own_address(server_def: Any) -> str:
    """The address of the task of a ServerDef, "host:port".

    Raises:
        InternalError: the cluster has no such task.
        InvalidArgumentError: a malformed address, of any task.
    """
    job = next((job for job in server_def.cluster.job if job.name == server_def.job_name), None)
    if job is None:
        raise InternalError(f'Job "{server_def.job_name}" was not defined in cluster')
    address = job.tasks.get(server_def.task_index)
    if address is None:
        raise InternalError(f'Task {server_def.task_index} was not defined in job "{job.name}"')
    host, _, port = address.rpartition(":")
    if server_def.port:
        return f"{host or address}:{server_def.port}"
    if not host or not _is_port(port):
        raise InvalidArgumentError(f'Could not parse port for local server from "{address}".')
    for task, other in addresses_of(server_def).items():
        if not (":" in other and _is_port(other.rpartition(":")[2])):
            raise InvalidArgumentError(f'Could not interpret "{other}" as a host-port pair ({task})')
    return str(address)


def _is_port(text: str) -> bool:
    return text.isdecimal() and len(text) <= 5 and int(text) < 1 << 16
