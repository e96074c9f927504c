"""A cluster whose tasks are Ray actors, for programs that need more than one machine.

The program of a task is that of any TensorFlow cluster: it reads TF_CONFIG, starts its `Server`, and trains or serves. Ray
chooses the node of each task and restarts tasks that die:

    async with RayCluster({"ps": 1, "worker": 2}, tasks={"worker": TaskOptions(num_cpus=4)}) as cluster:
        results = await cluster.run(main)  # async def main(): ... TFConfigClusterResolver().cluster_spec() ...

A restarted task runs its program from the beginning, at its previous address; a monitored session continues from the last
checkpoint, which must be readable from every node of the Ray cluster. A task whose node is lost gets another address, unknown
to the other tasks: then all of them are restarted.

Tasks reach each other over the network, so each cluster has a token of its own that all its calls carry.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import secrets
import socket
import tempfile
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import field
from pathlib import Path
from types import TracebackType
from typing import Any

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from aioexec.data_classes import dataclass
from aioexec.distributed.cluster.cluster import ClusterSpec
from aioexec.distributed.security.security import TOKEN_VARIABLE
from aioexec.errors import FailedPreconditionError, InvalidArgumentError

Program = Callable[..., Awaitable[Any]]

logger = logging.getLogger(__name__)

_NOTICE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """The resources that Ray gives each task of a job.

    Attributes:
        num_cpus, num_gpus: processors, also parts of them.
        memory: bytes that Ray reserves, 0 for none.
        resources: custom resources of the Ray cluster, and how much of them.
        max_restarts: how often a task that dies is started again; -1 for ever.
    """

    num_cpus: float = 1.0
    num_gpus: float = 0.0
    memory: int = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    max_restarts: int = -1

    def bundle(self) -> dict[str, float]:
        """The resources that a placement group reserves for a task."""
        asked = {"CPU": self.num_cpus, "GPU": self.num_gpus, "memory": self.memory, **self.resources}
        return {name: amount for name, amount in asked.items() if amount}


class MovedError(FailedPreconditionError):
    """A task was restarted on another node than its cluster has it on."""


class _Task:
    """The actor of one task; runs the program in an event loop of its own, in one of the actor's threads."""

    def new_address(self) -> str:
        """A free address of this node."""
        host = ray.util.get_node_ip_address()
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.bind((host, 0))
            return f"[{host}]:{probe.getsockname()[1]}" if ":" in host else f"{host}:{probe.getsockname()[1]}"

    def run(self, config: Mapping[str, Any], token: str, program: Program, arguments: tuple[Any, ...]) -> Any:
        """Run the program of this task from its beginning.

        Raises:
            MovedError: the task was restarted on another node.
        """
        own = config["task"]
        address = config["cluster"][own["type"]][own["index"]]
        here = ray.util.get_node_ip_address()
        if address.rpartition(":")[0].strip("[]") != here:
            raise MovedError(
                f"task {own['type']}:{own['index']} was at {address}, and was restarted on {here}"
            )
        with tempfile.TemporaryDirectory() as directory:
            secret = Path(directory) / "token"
            secret.touch(mode=0o600)
            secret.write_text(token, encoding="ascii")
            os.environ["TF_CONFIG"] = json.dumps(config)
            os.environ[TOKEN_VARIABLE] = str(secret)
            return asyncio.run(_await_program(program, arguments))


async def _await_program(program: Program, arguments: tuple[Any, ...]) -> Any:
    return await program(*arguments)


def _start_ray(cpus: float) -> None:
    """Join the Ray cluster of RAY_ADDRESS, or start one on this machine with resources for `cpus` processors."""
    if os.environ.get("RAY_ADDRESS"):
        ray.init(log_to_driver=False)
    else:
        count = max(math.ceil(cpus), os.cpu_count() or 1)
        ray.init(num_cpus=count, include_dashboard=False, log_to_driver=False)


class RayCluster:
    """A cluster of Ray actors; `async with` reserves their resources.

    Args:
        jobs: the number of tasks of each job.
        tasks: the options of a job's tasks, if not `TaskOptions()`.
        strategy: how tasks are spread over nodes: "PACK", "SPREAD", "STRICT_PACK" or "STRICT_SPREAD".

    Unless the process has joined a Ray cluster before (`ray.init(...)`), it joins that of RAY_ADDRESS, or starts one on this
    machine, which accepts all tasks however few processors there are.

    State: `_actors` by job and index, while a program runs; `_group`, the placement group of their resources; `_token`, of
    their calls; `_has_started_ray`: leaving stops Ray.
    """

    def __init__(
        self, jobs: Mapping[str, int], tasks: Mapping[str, TaskOptions] | None = None, strategy: str = "PACK"
    ) -> None:
        unknown = sorted(set(tasks or ()) - set(jobs))
        if unknown or not jobs or any(count < 1 for count in jobs.values()):
            raise InvalidArgumentError(
                f"RayCluster: expected jobs with one task or more, and options for these only; got {dict(jobs)}, "
                f"options for {sorted(tasks or ())}"
            )
        self._jobs = dict(jobs)
        self._options = {job: (tasks or {}).get(job, TaskOptions()) for job in jobs}
        self._strategy = strategy
        self._token = secrets.token_hex(16)
        self._actors: dict[tuple[str, int], Any] = {}
        self._group: Any = None
        self._has_started_ray = False

    async def __aenter__(self) -> RayCluster:
        try:
            await self._start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    async def _start(self) -> None:
        bundles = [self._options[job].bundle() for job, _ in self._tasks()]
        if not ray.is_initialized():
            self._has_started_ray = True
            await asyncio.to_thread(_start_ray, sum(bundle.get("CPU", 0) for bundle in bundles))
        self._group = placement_group(bundles, strategy=self._strategy)
        ready = asyncio.ensure_future(self._group.ready())
        while not (await asyncio.wait([ready], timeout=_NOTICE_SECONDS))[0]:
            logger.warning("waiting for Ray to have room for %s", bundles)
        ready.result()

    def _tasks(self) -> list[tuple[str, int]]:
        return [(job, index) for job, count in self._jobs.items() for index in range(count)]

    def _start_actors(self) -> None:
        for place, (job, index) in enumerate(self._tasks()):
            asked = self._options[job]
            actor = ray.remote(_Task).options(
                num_cpus=asked.num_cpus,
                num_gpus=asked.num_gpus,
                memory=asked.memory or None,
                resources=dict(asked.resources) or None,
                max_restarts=asked.max_restarts,
                max_task_retries=asked.max_restarts,
                scheduling_strategy=PlacementGroupSchedulingStrategy(self._group, place),
            )
            self._actors[job, index] = actor.remote()

    def _stop_actors(self) -> None:
        actors, self._actors = self._actors, {}
        for actor in actors.values():
            ray.kill(actor)

    async def _stop(self) -> None:
        self._stop_actors()
        if self._group is not None:
            remove_placement_group(self._group)
            self._group = None
        if self._has_started_ray:
            self._has_started_ray = False
            await asyncio.to_thread(ray.shutdown)

    async def run(
        self, program: Program, *arguments: Any, wait_for: Collection[str] | None = None
    ) -> dict[str, list[Any]]:
        """Run a program in every task, and return its results by job; when the awaited jobs are done, the other tasks are
        stopped.

        Args:
            program: an async function that Ray can pickle; called with `arguments` in each task, which TF_CONFIG identifies.
            wait_for: jobs to wait for; by default all but "ps".

        Raises:
            RayError: a task could not be run, and will not be restarted again.
            Exception: the first exception of a task's program.
        """
        waited = {job for job in self._jobs if job != "ps"} if wait_for is None else set(wait_for)
        if not waited or waited - set(self._jobs):
            raise InvalidArgumentError(
                f"RayCluster.run: expected some of the jobs {sorted(self._jobs)} to wait for, got {sorted(waited)}"
            )
        while True:
            try:
                return await self._run(program, arguments, waited)
            except MovedError:
                continue
            finally:
                self._stop_actors()

    async def _run(
        self, program: Program, arguments: tuple[Any, ...], waited: Collection[str]
    ) -> dict[str, list[Any]]:
        self._start_actors()
        keys = list(self._actors)
        addresses = await asyncio.gather(*(self._actors[key].new_address.remote() for key in keys))
        spec = self._spec(dict(zip(keys, addresses, strict=True)))
        running = {asyncio.ensure_future(self._run_task(key, spec, program, arguments)): key for key in keys}
        results: dict[tuple[str, int], Any] = {}
        try:
            while any(key[0] in waited for key in running.values()):
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    results[running.pop(task)] = task.result()
        finally:
            for task in running:
                task.cancel()
        return {
            job: [results[job, index] for index in range(count)]
            for job, count in self._jobs.items()
            if job in waited
        }

    def _spec(self, addresses: Mapping[tuple[str, int], str]) -> ClusterSpec:
        return ClusterSpec(
            {job: [addresses[job, index] for index in range(count)] for job, count in self._jobs.items()}
        )

    async def _run_task(
        self, key: tuple[str, int], spec: ClusterSpec, program: Program, arguments: tuple[Any, ...]
    ) -> Any:
        job, index = key
        config = {"cluster": spec.as_dict(), "task": {"type": job, "index": index}}
        try:
            return await self._actors[key].run.remote(config, self._token, program, arguments)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
