"""The same graph, built by the same code, in TensorFlow 1.x's session and in aioexec's.

A benchmark writes `build(lib, case)` once against TensorFlow 1.x's names; `lib` is `tensorflow.compat.v1` or `aioexec`. The
setup of the other peers is shared here too.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.workload import Case, Workload

Array = np.ndarray[Any, Any]


@dataclass
class Graphed:
    """The fetches and feeds of a graph.

    Attributes:
        outputs: the tensors to fetch and compare.
        train: an operation to run instead of fetching when timing, if the step trains.
        initialized: whether there are variables to initialise first.
        checked_steps: for training: the number of steps whose outputs are compared.
    """

    outputs: Sequence[Any]
    feeds: Mapping[Any, Array] = field(default_factory=dict)
    train: Any = None
    initialized: bool = False
    checked_steps: int = 5

    @property
    def fetches(self) -> list[Any]:
        return [*self.outputs] if self.train is None else [self.train, *self.outputs]


Build = Callable[[Any, Case], Graphed]


def tensorflow_session(
    build: Build, case: Case, inter_op: int = 0, devices: int = 1, target: str = ""
) -> tuple[Any, Graphed]:
    """Build a graph in TensorFlow and return a session that is ready to run it."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow.compat.v1 as tf

    config = tf.ConfigProto(inter_op_parallelism_threads=inter_op, device_count={"CPU": devices})
    with tf.Graph().as_default() as graph:
        built = build(tf, case)
        session = tf.Session(target, graph=graph, config=config)
        if built.initialized:
            session.run(tf.global_variables_initializer())
    return session, built


def tensorflow(build: Build, case: Case, inter_op: int = 0, devices: int = 1, target: str = "") -> Workload:
    """Run a graph with TensorFlow's session."""
    session, built = tensorflow_session(build, case, inter_op, devices, target)
    fetches, feeds = built.fetches, dict(built.feeds)

    def step() -> Any:
        return session.run(fetches, feeds)

    def outputs() -> list[Any]:
        if built.train is None:
            return [*step()]
        return [
            np.stack(values) for values in zip(*(step()[1:] for _ in range(built.checked_steps)), strict=True)
        ]

    return Workload(step, outputs)


async def aioexec_session(
    build: Build, case: Case, stack: AsyncExitStack, devices: int = 1, target: str = ""
) -> tuple[Any, Graphed]:
    """Build a graph in aioexec and return an open session that is ready to run it."""
    import aioexec as ax

    config = ax.ConfigProto(device_count={"CPU": devices})
    config.aioexec.jit = "eager"  # compiled before the first result: what is timed is the compiled program
    with ax.Graph().as_default() as graph:
        built = build(ax, case)
        initializer = ax.global_variables_initializer() if built.initialized else None
    session = await stack.enter_async_context(ax.Session(target, graph=graph, config=config))
    if initializer is not None:
        await session.run(initializer)
    return session, built


async def aioexec(
    build: Build, case: Case, stack: AsyncExitStack, devices: int = 1, target: str = ""
) -> Workload:
    """Run a graph with aioexec's session."""
    session, built = await aioexec_session(build, case, stack, devices, target)
    fetches, feeds = built.fetches, dict(built.feeds)

    async def step() -> Any:
        return await session.run(fetches, feeds)

    async def outputs() -> list[Any]:
        if built.train is None:
            return [*await step()]
        rows = [(await step())[1:] for _ in range(built.checked_steps)]
        return [np.stack(values) for values in zip(*rows, strict=True)]

    async def share() -> str:
        return str((await session.explain(fetches, feeds)).splitlines()[-1])

    return Workload(step, outputs, native_share=None if target else share)


def onnxruntime_session(
    nodes: Sequence[Any],
    inputs: Mapping[str, Sequence[Any]],
    outputs: Sequence[str],
    weights: Mapping[str, Array],
) -> Any:
    """Make an onnxruntime session of a float32 graph given as ONNX nodes."""
    import onnx
    import onnxruntime as ort

    graph = onnx.helper.make_graph(
        list(nodes),
        "bench",
        [
            onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, list(shape))
            for name, shape in inputs.items()
        ],
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def onnxruntime(session: Any, feeds: Mapping[str, Array]) -> Workload:
    """Run an onnxruntime session."""
    feeds = dict(feeds)
    return Workload(lambda: session.run(None, feeds))


def jax(function: Callable[..., Any], *arguments: Any) -> Workload:
    """Run a function compiled by JAX, with its arguments on the device and its result waited for."""
    import jax as library

    compiled = library.jit(function)
    placed = [library.device_put(argument) for argument in arguments]

    def step() -> Any:
        return library.block_until_ready(compiled(*placed))

    return Workload(step)
