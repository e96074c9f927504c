"""Clusters of Ray actors, in a Ray cluster on this machine; Ray is installed by the extra these tests need."""

import asyncio
import json
import os
from pathlib import Path

import pytest
import ray

from aioexec.distributed.cluster.ray import RayCluster, TaskOptions
from aioexec.errors import InvalidArgumentError
from examples import distributed_training, ray_training

pytestmark = [
    pytest.mark.interop,
    pytest.mark.sweep,  # a cluster of Ray's takes a minute, and most of a small machine
    pytest.mark.network,
    pytest.mark.allow_leaks("Ray keeps threads and sockets of its own while it runs"),
]


@pytest.fixture(scope="module", autouse=True)
def started():
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


async def reported(what):
    config = json.loads(os.environ["TF_CONFIG"])
    if config["task"]["type"] == "ps":
        await asyncio.Event().wait()
    if what == "fail" and config["task"]["index"] == 1:
        raise KeyError("of the second worker")
    return what, config["task"]["index"], {job: len(tasks) for job, tasks in config["cluster"].items()}


async def died_once(mark):
    try:
        await asyncio.to_thread(Path(mark).touch, exist_ok=False)
    except FileExistsError:
        return os.environ["TF_CONFIG"]
    os._exit(1)


async def test_every_task_runs_the_program_and_what_workers_return_comes_back():
    jobs = {"ps": 1, "worker": 2}
    async with RayCluster(jobs) as cluster:
        assert await cluster.run(reported, "said") == {"worker": [("said", 0, jobs), ("said", 1, jobs)]}
        with pytest.raises(KeyError, match="of the second worker"):
            await cluster.run(reported, "fail")
        assert (await cluster.run(reported, "again"))["worker"][0][0] == "again"


async def test_a_task_that_dies_begins_its_program_anew_where_it_was(tmp_path):
    async with RayCluster({"worker": 1}, {"worker": TaskOptions(num_cpus=0.5)}) as cluster:
        (config,) = (await cluster.run(died_once, str(tmp_path / "mark")))["worker"]

    assert json.loads(config)["task"] == {"type": "worker", "index": 0}


@pytest.mark.parametrize(
    ("jobs", "tasks"), [({}, None), ({"worker": 0}, None), ({"worker": 1}, {"ps": TaskOptions()})]
)
def test_clusters_without_tasks_are_refused(jobs, tasks):
    with pytest.raises(InvalidArgumentError, match="RayCluster: expected jobs"):
        RayCluster(jobs, tasks)


@pytest.mark.slow
async def test_the_distributed_example_learns_on_ray_what_it_learns_in_processes(tmp_path):
    steps = 400
    here = await distributed_training.launch(1, 2, str(tmp_path / "here"), steps, sync=True)
    there = await ray_training.train(1, 2, str(tmp_path / "there"), steps, sync=True)

    assert abs(here - there) < 0.01
