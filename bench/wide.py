"""The time of 256 independent branches (64×64 matmul, tanh, sum) joined by one addition."""

from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from bench import sessions
from bench.sessions import Graphed
from bench.workload import Case, Workload

QUESTION = __doc__
CASES = [Case("256 branches", size=256)]


def inputs(case: Case) -> tuple[sessions.Array, list[sessions.Array]]:
    generator = np.random.default_rng(7)
    x, *matrices = (generator.standard_normal((1 + case.size, 64, 64)) / 8).astype(np.float32)
    return x, matrices


def build(lib: Any, case: Case) -> Graphed:
    fed, weights = inputs(case)
    x = lib.placeholder(lib.float32, [64, 64], name="x")
    branches = [lib.reduce_sum(lib.tanh(lib.matmul(x, lib.constant(w)))) for w in weights]
    return Graphed([lib.add_n(branches)], {x: fed})


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    return await sessions.aioexec(build, case, stack)


def tensorflow(case: Case) -> Workload:
    return sessions.tensorflow(build, case)


def onnxruntime(case: Case) -> Workload:
    from onnx import helper

    fed, weights = inputs(case)
    nodes = []
    for i in range(case.size):
        nodes += [
            helper.make_node("MatMul", ["x", f"w{i}"], [f"product{i}"]),
            helper.make_node("Tanh", [f"product{i}"], [f"tanh{i}"]),
            helper.make_node("ReduceSum", [f"tanh{i}"], [f"sum{i}"], keepdims=0),
        ]
    nodes.append(helper.make_node("Sum", [f"sum{i}" for i in range(case.size)], ["y"]))
    named = {f"w{i}": w for i, w in enumerate(weights)}
    session = sessions.onnxruntime_session(nodes, {"x": [64, 64]}, ["y"], named)
    return sessions.onnxruntime(session, {"x": fed})


def jax(case: Case) -> Workload:
    import jax.numpy as jnp

    fed, weights = inputs(case)
    return sessions.jax(lambda x, ws: sum(jnp.sum(jnp.tanh(x @ w)) for w in ws), fed, weights)


def numpy(case: Case) -> Workload:
    x, weights = inputs(case)
    return Workload(lambda: np.sum([np.sum(np.tanh(x @ w)) for w in weights], dtype=np.float32))
