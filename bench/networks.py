"""The time of a step of whole networks, as TensorFlow writes them.

The weights are random; frozen: they are constants. aioexec and TensorFlow import the same bytes. Each peer has a fresh process:
its notes say when, from its first import, the first result was there and when the step was native, and its resident memory;
those of aioexec also the lag of a heartbeat in the same event loop, with both cores busy.
"At the peak" is the least time that this machine takes for the products of a step, or for reading its weights once.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from bench.network_graphs.files import Exported, exported, onnx_model
from bench.peak import Peak
from bench.workload import FOLDER, Case, Sample, Workload, measure_lag

QUESTION = __doc__.splitlines()[0]
PROCESS_PER_CASE = True
TOLERANCE = 1e-4
REFERENCES = ["peak"]
ON_DEMAND = ["torch_compiled"]  # minutes of compilation for each network
CASES = [
    Case(f"{title}, batch {batch}{'' if kind == 'frozen' else ', variables'}", batch, f"{name} {kind}")
    for title, name, kind, batches in [
        ("ResNet-50", "resnet50", "frozen", (1, 8)),
        ("ResNet-50", "resnet50", "variables", (1,)),
        ("MobileNet v1", "mobilenet_v1", "frozen", (1, 8, 32)),
        ("MobileNet v2", "mobilenet_v2", "frozen", (1, 8)),
        ("Inception v3", "inception_v3", "frozen", (1, 8)),
        ("EfficientNet-B0", "efficientnet_b0", "frozen", (1, 8)),
        ("U-Net", "unet", "frozen", (1,)),
        ("BERT-base", "bert_base", "frozen", (1, 8)),
        ("BERT-base", "bert_base", "variables", (1,)),
        ("BERT-large", "bert_large", "frozen", (1,)),
        ("GPT-2 a token", "gpt2", "frozen", (1, 8)),
        ("Transformer", "translator", "frozen", (1, 8)),
        ("LSTM 256", "lstm_256", "frozen", (8, 32)),
        ("LSTM 256", "lstm_256", "variables", (8,)),
        ("LSTM 1024", "lstm_1024", "frozen", (8,)),
        ("GRU 256", "gru_256", "frozen", (8,)),
        ("GRU 1024", "gru_1024", "frozen", (8,)),
        ("DLRM", "dlrm", "frozen", (1, 32)),
        ("DLRM", "dlrm", "variables", (32,)),
        ("wide and deep", "wide_and_deep", "frozen", (1, 32)),
        ("WaveNet", "wavenet", "frozen", (1,)),
        ("ResNet-50 training", "resnet50_training", "variables", (8,)),
        ("BERT-base training", "bert_base_training", "variables", (4,)),
        ("LSTM 256 training", "lstm_256_training", "variables", (64,)),
    ]
    for batch in batches
]
CHECKED_STEPS = 3
"""Of training: as many steps from the initial values are compared."""

NATIVE = 0.99
"""The share from which on a step counts as native."""

PATIENCE, QUIET = 180.0, 10.0
"""Seconds after which compilation is taken to be over: if nothing is native, or if a smaller share has not changed."""


def network(case: Case) -> Exported:
    name, kind = case.variant.split()
    return exported(Path(os.environ[FOLDER], "network"), name, case.size, kind)


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    return await aioexec_workload(network(case), stack)


async def aioexec_workload(program: Exported, stack: AsyncExitStack) -> Workload:
    started = perf_counter()
    import aioexec as ax

    with ax.Graph().as_default() as graph:
        ax.import_graph_def(ax.GraphDef.FromString(program.graph_def), name="")
    session = await stack.enter_async_context(ax.Session(graph=graph))
    if program.init:
        await session.run(program.init, program.weights)
    fetches, feeds = [program.outputs, program.targets], program.feeds

    async def step() -> Any:
        return (await session.run(fetches, feeds))[0]

    async def outputs() -> Any:
        if not program.targets:
            return await step()
        await session.run(program.init, program.weights)
        return np.stack([await step() for _ in range(CHECKED_STEPS)])

    async def share() -> str:
        return str((await session.explain(fetches, feeds)).splitlines()[-1])

    await step()
    notes = {"first result s": perf_counter() - started}
    notes["native s"] = await _native_at(step, partial(session.native_share, fetches, feeds)) - started
    notes["not native %"] = 100 * (1 - await session.native_share(fetches, feeds))
    workload = Workload(step, outputs, native_share=share, notes=lambda: notes | _memory())

    async def measure(seconds: float) -> Sample:
        """Time steps; then repeat them beside a heartbeat, which a stopped process between two rounds would delay."""
        sample = await workload.time_steps(seconds)
        lag = await measure_lag(step, seconds)
        sample.notes |= {"lag p99 ms": lag.seconds[0] * 1e3, "lag max ms": lag.notes["lag max ms"]}
        return sample

    workload.measure = measure
    return workload


async def _native_at(step: Callable[[], Any], share: Callable[[], Any]) -> float:
    """Repeat a step until it is native; return when its native share rose for the last time."""
    latest, reached = perf_counter(), 0.0
    while reached < NATIVE and perf_counter() - latest < (QUIET if reached else PATIENCE):
        await step()
        await asyncio.sleep(0)
        if (now := await share()) > reached:
            latest, reached = perf_counter(), now
    return latest


def tensorflow(case: Case) -> Workload:
    return tensorflow_workload(network(case))


def tensorflow_workload(program: Exported) -> Workload:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    started = perf_counter()
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default() as graph:
        tf.import_graph_def(tf.GraphDef.FromString(program.graph_def), name="")
    session = tf.Session(graph=graph)
    if program.init:
        session.run(program.init, program.weights)
    fetches, feeds = [program.outputs, program.targets], program.feeds

    def step() -> Any:
        return session.run(fetches, feeds)[0]

    def outputs() -> Any:
        if not program.targets:
            return step()
        session.run(program.init, program.weights)
        return np.stack([step() for _ in range(CHECKED_STEPS)])

    step()
    notes = {"first result s": perf_counter() - started}
    return Workload(step, outputs, notes=lambda: notes | _memory())


def onnxruntime(case: Case) -> Workload | None:
    name, kind = case.variant.split()
    if kind != "frozen":
        return None
    program = network(case)
    path, feeds = onnx_model(program, name), program.feeds
    started = perf_counter()
    import onnxruntime as library

    session = library.InferenceSession(path, providers=["CPUExecutionProvider"])

    def step() -> Any:
        return session.run(None, feeds)

    step()
    notes = {"first result s": perf_counter() - started}
    return Workload(step, notes=lambda: notes | _memory())


def torch(case: Case) -> Workload | None:
    name, kind = case.variant.split()
    if kind == "frozen":
        return _torch_inference(case, lambda function: function)
    return _torch_training(case) if name.endswith("training") else None


def torch_compiled(case: Case) -> Workload | None:
    def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
        import torch._inductor.config as options
        from torch import compile as compile_

        options.freezing = True  # weights are constants: packed once, batch norm folded
        return compile_(function)

    return _torch_inference(case, compiled) if case.variant.endswith("frozen") else None


def _torch_inference(case: Case, made: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Workload:
    program = network(case)
    started = perf_counter()
    import torch as library

    from bench.network_graphs.torch_layers import Weights
    from bench.network_graphs.torch_networks import TORCH_NETWORKS

    weights = Weights(library.from_numpy(value) for value in program.weights.values())
    function = made(TORCH_NETWORKS[case.variant.split()[0]](weights))
    feeds = [library.from_numpy(value) for value in program.feeds.values()]

    def step() -> Any:
        with library.inference_mode():
            return [result.numpy() for result in _listed(function(*feeds))]

    step()
    notes = {"first result s": perf_counter() - started}
    return Workload(step, notes=lambda: notes | _memory())


def _torch_training(case: Case) -> Workload:
    program = network(case)
    started = perf_counter()
    import torch as library

    from bench.network_graphs.torch_training import TORCH_TRAINING

    values = [library.from_numpy(value) for value in program.weights.values()]
    training = TORCH_TRAINING[case.variant.split()[0]](values)
    feeds = [library.from_numpy(value) for value in program.feeds.values()]

    def step() -> Any:
        return [training.step(*feeds)]

    def outputs() -> Any:
        training.restart()
        return np.stack([step() for _ in range(CHECKED_STEPS)])

    step()
    notes = {"first result s": perf_counter() - started}
    return Workload(step, outputs, notes=lambda: notes | _memory())


def _listed(results: Any) -> list[Any]:
    return [*results] if isinstance(results, list | tuple) else [results]


def _memory() -> dict[str, float]:
    """The resident memory of this process and its peak, from Linux."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    fields = dict(line.split(":") for line in status.splitlines())
    return {
        f"{name} MiB": int(fields[field].split()[0]) / 1024
        for name, field in (("resident", "VmRSS"), ("most resident", "VmHWM"))
    }


def peak(case: Case) -> Workload:
    """The least time for a step's products, or for reading its weights once: `bench/peak.py` says how it is measured."""
    program = network(case)
    rates = Peak(program.read_bytes)

    async def measure(seconds: float) -> Sample:
        end = perf_counter() + seconds
        while perf_counter() < end:
            rates.measure()
        least = rates.least_seconds(program.flops, program.read_bytes)
        return Sample(
            [least], {"Gflop/s": rates.flops_per_second / 1e9, "GB/s": rates.bytes_per_second / 1e9}
        )

    work = {"Gflop": program.flops / 1e9, "MB": program.read_bytes / 1e6}
    return Workload(lambda: None, list, measure, notes=lambda: work)
