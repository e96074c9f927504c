"""The time per node in a chain of 1000 cheap ones (sin, mul, tanh, add in turn)."""

from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from bench import sessions
from bench.sessions import Graphed
from bench.workload import Case, Workload

QUESTION = __doc__
MEASURES = "time of a step of 1000 nodes"
CASES = [Case("64 elements", size=64), Case("1e6 elements", size=1_000_000)]
NODES = 1000
FACTOR = np.float32(1.5)
OFFSET = np.float32(0.1)


def fed(case: Case) -> sessions.Array:
    return np.linspace(-2, 2, case.size, dtype=np.float32)


def chained(x: Any, sin: Any, tanh: Any) -> Any:
    """Compute the chain with the operators of whatever `x` is."""
    for _ in range(NODES // 4):
        x = tanh(sin(x) * FACTOR) + OFFSET
    return x


def build(lib: Any, case: Case) -> Graphed:
    x = lib.placeholder(lib.float32, [case.size], name="x")
    return Graphed([chained(x, lib.sin, lib.tanh)], {x: fed(case)})


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    return await sessions.aioexec(build, case, stack)


def tensorflow(case: Case) -> Workload:
    return sessions.tensorflow(build, case)


def tensorflow_inline(case: Case) -> Workload:
    return sessions.tensorflow(build, case, inter_op=-1)


def onnxruntime(case: Case) -> Workload:
    from onnx import helper

    nodes = []
    name = "x"
    for i in range(NODES // 4):
        nodes += [
            helper.make_node("Sin", [name], [f"sin{i}"]),
            helper.make_node("Mul", [f"sin{i}", "factor"], [f"mul{i}"]),
            helper.make_node("Tanh", [f"mul{i}"], [f"tanh{i}"]),
            helper.make_node("Add", [f"tanh{i}", "offset"], [f"add{i}"]),
        ]
        name = f"add{i}"
    constants = {"factor": np.asarray(FACTOR), "offset": np.asarray(OFFSET)}
    session = sessions.onnxruntime_session(nodes, {"x": [case.size]}, [name], constants)
    return sessions.onnxruntime(session, {"x": fed(case)})


def jax(case: Case) -> Workload:
    import jax.numpy as jnp

    return sessions.jax(lambda x: chained(x, jnp.sin, jnp.tanh), fed(case))


def torch(case: Case) -> Workload:
    import torch as library

    x = library.from_numpy(fed(case))
    factor, offset = float(FACTOR), float(OFFSET)

    def step() -> Any:
        with library.inference_mode():
            y = x
            for _ in range(NODES // 4):
                y = library.tanh(library.sin(y) * factor) + offset
            return y.numpy()

    return Workload(step)


def numpy(case: Case) -> Workload:
    x = fed(case)
    return Workload(lambda: chained(x, np.sin, np.tanh))
