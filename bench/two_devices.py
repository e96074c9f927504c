"""The time of a step with one edge between two devices.

A feed arrives at the first device, so a fed step whose first node is on the second one has two edges; the case of one edge
starts from a variable.
"""

from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from bench import sessions
from bench.sessions import Graphed
from bench.workload import Case, Workload

QUESTION = __doc__.splitlines()[0]
CASES = [
    Case("one edge: CPU:1 to CPU:0", size=64, variant="variable"),
    Case("two edges: the feed crosses too", size=64, variant="fed"),
]
DEVICES = 2


def build(lib: Any, case: Case) -> Graphed:
    value = np.linspace(-2, 2, case.size, dtype=np.float32)
    is_fed = case.variant == "fed"
    with lib.device("/cpu:1"):
        x = lib.placeholder(lib.float32, [case.size], name="x") if is_fed else lib.Variable(value)
        y = lib.tanh(x) + np.float32(1)
    with lib.device("/cpu:0"):
        z = y * np.float32(2)
    return Graphed([z], {x: value} if is_fed else {}, initialized=not is_fed)


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    return await sessions.aioexec(build, case, stack, devices=DEVICES)


def tensorflow(case: Case) -> Workload:
    return sessions.tensorflow(build, case, devices=DEVICES)


def tensorflow_inline(case: Case) -> Workload:
    return sessions.tensorflow(build, case, inter_op=-1, devices=DEVICES)
