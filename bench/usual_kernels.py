"""`python -m bench.usual_kernels`: records the kernels that are compiled when the package is built.

They are those that the workloads of the benchmarks, the programs of tests/interop/whole_graphs and the networks (both of which
TensorFlow exports), the demo and the steps of `usual_ops` need. It takes minutes, and is run when a kernel or its arguments
have changed.
"""

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

import aioexec as ax
from aioexec.demo import network
from aioexec.devices.jit import usual_kernels
from aioexec.devices.jit.library import library
from bench import networks, usual_ops, whole_graphs
from bench.network_graphs import files
from bench.workload import Case, call

WORKLOADS = (
    "step_overhead chain black_scholes wide mlp_inference mlp_training cnn monitored_step concurrent partial_run queues "
    "input_pipeline two_devices while_loop recurrent"
)
PROGRAMS = (
    "logistic_regression multilayer_perceptron word2vec variational_autoencoder deep_q_network lenet residual_network "
    "depthwise_separable_network frozen_keras_model lstm lstm_of_functions gru bidirectional_rnn transformer_block "
    "beam_search"
)

Program = Callable[[], Coroutine[Any, Any, None]]


def programs() -> Iterator[tuple[str, Program]]:
    """What is run, each with a name."""
    yield "demo", demo
    for optimizer in usual_ops.OPTIMIZERS:
        yield optimizer, partial(training, optimizer)
    yield "ops", single_ops
    for name in WORKLOADS.split():
        module = import_module(f"bench.{name}")
        for case in module.CASES:
            yield f"{name} {case.name}", partial(workload, module, case)
    for name in PROGRAMS.split():
        yield name, partial(workload, whole_graphs, Case(name, variant=name))
    for variant, batch in {case.variant: case.size for case in reversed(networks.CASES)}.items():
        yield variant, partial(network_step, variant, batch)


def eager() -> Any:
    """A configuration with which a step runs only when its kernels are compiled."""
    config = ax.ConfigProto()
    config.aioexec.jit = "eager"
    return config


async def demo() -> None:
    built = network.build()
    feeds = {built.images: np.zeros((32, 64), np.float32), built.labels: np.zeros(32, np.int32)}
    with built.graph.as_default():
        initialize = ax.global_variables_initializer()
    async with ax.Session(graph=built.graph, config=eager()) as session:
        await session.run(initialize)
        await session.run([built.train, built.loss, built.step], feeds)
        await session.run([built.classes, built.probabilities, built.accuracy], feeds)


async def training(optimizer: str) -> None:
    with ax.Graph().as_default() as graph:
        step = usual_ops.training(usual_ops.OPTIMIZERS[optimizer]())
        initialize = ax.global_variables_initializer()
    async with ax.Session(graph=graph, config=eager()) as session:
        await session.run(initialize)
        await session.run(step)


async def single_ops() -> None:
    with ax.Graph().as_default() as graph:
        steps = list(usual_ops.steps())
        initialize = ax.global_variables_initializer()
    async with ax.Session(graph=graph, config=eager()) as session:
        await session.run(initialize)
        for fetches in track(steps, "ops"):
            await session.run(fetches)


async def workload(module: Any, case: Case) -> None:
    async with AsyncExitStack() as stack:
        opened = await module.aioexec(case, stack)
        await call(opened.step)
        await asyncio.wrap_future(library().request(library().waiting))
        await call(opened.step)


async def network_step(variant: str, batch: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        exported = files.exported(Path(folder, "network"), variant.split()[0], batch, variant.split()[1])
        with ax.Graph().as_default() as graph:
            ax.import_graph_def(ax.GraphDef.FromString(exported.graph_def), name="")
        async with ax.Session(graph=graph, config=eager()) as session:
            if exported.init:
                await session.run(exported.init, exported.weights)
            await session.run([exported.outputs, exported.targets], exported.feeds)


def main() -> None:
    """Run all programs and write the list."""
    counts = {}
    for name, run in track(list(programs()), "programs"):
        before = len(library().kernels)
        asyncio.run(run())
        counts[name] = len(library().kernels) - before
    for name, count in counts.items():
        print(f"{name:40} {count:5} new kernels")
    usual_kernels.write(library().kernels)
    print(f"{len(library().kernels)} kernels")


if __name__ == "__main__":
    main()
