"""The time of one run of a graph of one node, fed and fetched."""

from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from bench import sessions
from bench.sessions import Graphed
from bench.workload import Case, Workload

QUESTION = __doc__
REFERENCES = ["numpy"]  # a bare call of a ufunc: no graph, no feeds, no fetches
CASES = [Case("square of 1 element", size=1), Case("square of 64 elements", size=64)]


def fed(case: Case) -> sessions.Array:
    return np.linspace(-1, 1, case.size, dtype=np.float32)


def build(lib: Any, case: Case) -> Graphed:
    x = lib.placeholder(lib.float32, [case.size], name="x")
    return Graphed([lib.square(x)], {x: fed(case)})


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    return await sessions.aioexec(build, case, stack)


def tensorflow(case: Case) -> Workload:
    return sessions.tensorflow(build, case)


def tensorflow_inline(case: Case) -> Workload:
    return sessions.tensorflow(build, case, inter_op=-1)


def onnxruntime(case: Case) -> Workload:
    from onnx import helper

    node = helper.make_node("Mul", ["x", "x"], ["y"])
    session = sessions.onnxruntime_session([node], {"x": [case.size]}, ["y"], {})
    return sessions.onnxruntime(session, {"x": fed(case)})


def jax(case: Case) -> Workload:
    return sessions.jax(lambda x: x * x, fed(case))


def numpy(case: Case) -> Workload:
    x = fed(case)
    return Workload(lambda: np.square(x))
