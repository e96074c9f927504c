"""The time to import a GraphDef."""

from contextlib import AsyncExitStack
from typing import Any

from bench.workload import Case, Workload

QUESTION = __doc__
CASES = [Case("1,000 nodes", size=1_000), Case("10,000 nodes", size=10_000)]


def graph_bytes(lib: Any, nodes: int) -> bytes:
    """Additions and products over small constants, every tenth node a constant, each using the two before it."""
    with lib.Graph().as_default() as graph:
        before = last = lib.constant([1.0, 2.0], name="start")
        for k in range(nodes - 1):
            if k % 10 == 0:
                made = lib.constant([float(k), 1.0])
            elif k % 2:
                made = lib.add(last, before)
            else:
                made = lib.multiply(last, before)
            before, last = last, made
    return bytes(graph.as_graph_def().SerializeToString())


def importing(lib: Any, case: Case) -> Workload:
    """Parse and import; the graph is thrown away."""
    import os

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow.compat.v1 as tf

    serialized = graph_bytes(tf, case.size)

    def step() -> Any:
        with lib.Graph().as_default() as graph:
            lib.import_graph_def(lib.GraphDef.FromString(serialized), name="")
        return [len(graph.get_operations())]

    return Workload(step)


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    import aioexec as lib

    return importing(lib, case)


def tensorflow(case: Case) -> Workload:
    import tensorflow.compat.v1 as tf

    return importing(tf, case)
