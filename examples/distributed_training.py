r"""Training with parameter servers, which keep the variables, and workers, each with a graph of the whole model.

    python examples/distributed_training.py launch --ps 1 --workers 2 --directory DIRECTORY

starts a process for each task, restarts those that die, and prints the accuracy of the trained model on handwritten digits.
Kill any process at any time, also with `kill -9`: workers continue, from the last checkpoint in DIRECTORY if a parameter server
or the first worker, the chief, was lost. All processes must have access to DIRECTORY.

    TF_CONFIG='{"cluster": {"ps": ["10.0.0.1:2222"], "worker": ["10.0.0.2:2222", "10.0.0.3:2222"]}}' \
        python examples/distributed_training.py task --job worker --index 0 --directory DIRECTORY

runs one task. Workers train asynchronously, or with `--sync` synchronously: each step applies the mean of the gradients of all
of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

import aioexec as ax
from aioexec.demo import digits

HIDDEN = 256
BATCH = 64
LEARNING_RATE = 0.01
"""Falls to 0 in the last step, so that it matters little which worker's steps came last."""

CHECKPOINTS = 20
"""While a model is trained."""


@dataclass(frozen=True, slots=True)
class Model:
    """The parts of a graph that are fed and fetched."""

    images: ax.Tensor
    labels: ax.Tensor
    accuracy: ax.Tensor
    train: Any
    optimizer: Any


def build(steps: int, replicas: int | None = None) -> Model:
    """A network of two layers, and what trains it; with `replicas`, as many workers together."""
    ax.set_random_seed(0)
    images = ax.placeholder(ax.float32, [None, digits.SIZE * digits.SIZE])
    labels = ax.placeholder(ax.int32, [None])
    logits = _dense("logits", ax.nn.relu(_dense("hidden", images, HIDDEN)), digits.CLASSES)
    losses = ax.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    step = ax.train.get_or_create_global_step()
    rate = ax.train.polynomial_decay(LEARNING_RATE, step, steps, 0.0)
    optimizer: Any = ax.train.AdamOptimizer(rate)
    if replicas is not None:
        optimizer = ax.train.SyncReplicasOptimizer(optimizer, replicas, replicas)
    classes = ax.argmax(logits, 1, output_type=ax.int32)
    return Model(
        images=images,
        labels=labels,
        accuracy=ax.reduce_mean(ax.cast(ax.equal(classes, labels), ax.float32)),
        train=optimizer.minimize(ax.reduce_mean(losses), global_step=step),
        optimizer=optimizer,
    )


def _dense(name: str, inputs: ax.Tensor, size: int) -> ax.Tensor:
    with ax.variable_scope(name):
        weights = ax.get_variable("weights", [inputs.shape[1].value, size])
        biases = ax.get_variable("biases", [size], initializer=ax.zeros_initializer())
        outputs: ax.Tensor = ax.matmul(inputs, weights) + biases
        return outputs


async def run_task(job: str, index: int, directory: str, steps: int, sync: bool = False) -> None:
    """One process of the cluster that TF_CONFIG describes: a worker until it has trained, a parameter server for good."""
    cluster = ax.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec()
    async with ax.train.Server(cluster, job, index) as server:
        if job == "ps":
            await server.join()
        else:
            await train(server.target, cluster, index, directory, steps, sync)


async def train(
    target: str, cluster: ax.train.ClusterSpec, index: int, directory: str, steps: int, sync: bool
) -> None:
    """What a worker does; the first is the chief, which initialises, restores and saves the model."""
    is_chief = index == 0
    worker = f"/job:worker/task:{index}"
    # without the other workers a session needs only what it uses, and does not care whether they are there
    config = ax.ConfigProto(device_filters=["/job:ps", worker])
    hooks: list[Any] = [ax.train.StopAtStepHook(last_step=steps)]
    with ax.Graph().as_default():
        with ax.device(ax.train.replica_device_setter(cluster=cluster, worker_device=worker)):
            model = build(steps, cluster.num_tasks("worker") if sync else None)
        if sync:
            hooks.append(model.optimizer.make_session_run_hook(is_chief))
        async with ax.train.MonitoredTrainingSession(
            target,
            is_chief=is_chief,
            checkpoint_dir=directory,
            hooks=hooks,
            save_checkpoint_steps=max(1, steps // CHECKPOINTS),
            config=config,
        ) as session:
            for batch in batches(seed=index):
                if session.should_stop():
                    break
                await session.run(model.train, {model.images: batch.images, model.labels: batch.labels})


def batches(seed: int) -> Iterator[digits.Examples]:
    """Digits to train with, for ever."""
    examples, random = digits.load().train, np.random.default_rng(seed)
    while True:
        yield from examples.batches(BATCH, random)


async def accuracy(directory: str) -> float:
    """The share of digits not trained with, moved by up to a pixel, that the last checkpoint reads right."""
    test = (await asyncio.to_thread(digits.load)).test
    padded = np.pad(test.images.reshape(-1, digits.SIZE, digits.SIZE), ((0, 0), (1, 1), (1, 1)))
    moved = np.lib.stride_tricks.sliding_window_view(padded, (digits.SIZE, digits.SIZE), axis=(1, 2))
    images, labels = moved.reshape(-1, digits.SIZE * digits.SIZE), np.repeat(test.labels, 9)
    with ax.Graph().as_default():
        model = build(steps=1)
        async with ax.Session() as session:
            checkpoint = await asyncio.to_thread(ax.train.latest_checkpoint, directory)
            assert checkpoint is not None
            await ax.train.Saver().restore(session, checkpoint)
            return float(await session.run(model.accuracy, {model.images: images, model.labels: labels}))


# Processes

Task = tuple[str, int]
"""A job's name and an index."""

RESTART_SECONDS = 1.0
END_SECONDS = 10.0
MOST_RESTARTS = 10
"""A task that dies more often is not likely to live."""


class Launcher:
    """Runs a Python program once for each task, as `PROGRAM ARGUMENTS --job JOB --index INDEX`.

    Constant: `cluster`, the addresses of each job. Changing: `processes`, the process of each task that has been started last.
    """

    def __init__(self, jobs: Mapping[str, int], program: Sequence[str]) -> None:
        self._program = program
        self.cluster = _free_addresses(jobs)
        self.processes: dict[Task, Process] = {}

    def tasks(self, job: str) -> list[Task]:
        """The tasks of a job."""
        return [(job, index) for index in range(len(self.cluster[job]))]

    async def run(self, job: str) -> None:
        """Run all tasks until the first of this job has ended well, and the others of it too if they do soon; end the rest.

        They may have to be ended: one that lost its session now would wait for a chief that comes no more.

        Raises:
            RuntimeError: a task died too often.
        """
        async with asyncio.TaskGroup() as group:
            kept = {
                task: group.create_task(self._kept(task))
                for name in self.cluster
                for task in self.tasks(name)
            }
            chief, *others = (kept[task] for task in self.tasks(job))
            await chief
            if others:
                await asyncio.wait(others, timeout=END_SECONDS)
            for task in kept.values():
                task.cancel()

    async def _kept(self, task: Task) -> None:
        for _ in range(1 + MOST_RESTARTS):
            status = await self._run(task)
            if status == 0:
                return
            log(task, f"died with {status}, starts again in {RESTART_SECONDS:g} s")
            await asyncio.sleep(RESTART_SECONDS)
        raise RuntimeError(f"{task}: it died more than {MOST_RESTARTS} times")

    async def _run(self, task: Task) -> int:
        """Run the process of a task to its end, which comes soon if it is not awaited any more."""
        job, index = task
        process = self.processes[task] = await asyncio.create_subprocess_exec(
            sys.executable,
            *self._program,
            f"--job={job}",
            f"--index={index}",
            env={**os.environ, "TF_CONFIG": json.dumps({"cluster": self.cluster})},
        )
        log(task, f"runs as process {process.pid}")
        try:
            return await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def log(task: Task, what: str) -> None:
    """Say something about a task."""
    print(f"{task[0]} {task[1]}: {what}", flush=True)


def _free_addresses(jobs: Mapping[str, int]) -> dict[str, list[str]]:
    """Addresses on this machine without a listener."""
    with ExitStack() as held:  # all at once, so that they are different
        return {job: [_free_address(held) for _ in range(count)] for job, count in jobs.items()}


def _free_address(held: ExitStack) -> str:
    listening = held.enter_context(socket.socket())
    listening.bind(("127.0.0.1", 0))
    return f"127.0.0.1:{listening.getsockname()[1]}"


def launcher(ps: int, workers: int, directory: str, steps: int, sync: bool = False) -> Launcher:
    """What runs the tasks of a cluster on this machine."""
    program = [
        __file__,
        "task",
        f"--directory={directory}",
        f"--steps={steps}",
        *(["--sync"] if sync else []),
    ]
    return Launcher({"ps": ps, "worker": workers}, program)


async def launch(ps: int, workers: int, directory: str, steps: int, sync: bool = False) -> float:
    """Train with processes of this machine; the accuracy."""
    await launcher(ps, workers, directory, steps, sync).run("worker")
    return await accuracy(directory)


def arguments() -> argparse.Namespace:
    """What the command line says."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--directory", required=True, help="where checkpoints are; all processes must see it")
    common.add_argument("--steps", type=int, default=2000, help="how many steps all workers do together")
    common.add_argument("--sync", action="store_true", help="workers do each step together")
    parser = argparse.ArgumentParser(description="Training with parameter servers.")
    commands = parser.add_subparsers(dest="command", required=True)
    launching = commands.add_parser("launch", parents=[common], help="all tasks, on this machine")
    launching.add_argument("--ps", type=int, default=1)
    launching.add_argument("--workers", type=int, default=2)
    task = commands.add_parser(
        "task", parents=[common], help="one task of the cluster that TF_CONFIG describes"
    )
    task.add_argument("--job", choices=["ps", "worker"], required=True)
    task.add_argument("--index", type=int, required=True)
    return parser.parse_args()


def main() -> None:
    asked = vars(arguments())
    if asked.pop("command") == "task":
        asyncio.run(run_task(**asked))
    else:
        print(f"accuracy: {asyncio.run(launch(**asked)):.3f}")


if __name__ == "__main__":
    main()
