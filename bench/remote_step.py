"""The time of a step on a server, in this process and in another one.

One node, fed and fetched, so that the round trip is timed.
"""

from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from bench import clusters, sessions
from bench.sessions import Graphed
from bench.workload import Case, Workload

QUESTION = __doc__.splitlines()[0]
SIZE = 64
CASES = [
    Case("server in the same process", size=SIZE, variant="same"),
    Case("server in another process", size=SIZE, variant="other"),
]


def build(lib: Any, case: Case) -> Graphed:
    x = lib.placeholder(lib.float32, [case.size], name="x")
    return Graphed([lib.square(x)], {x: np.linspace(-1, 1, case.size, dtype=np.float32)})


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    if case.variant == "same":
        import aioexec as ax

        server = await stack.enter_async_context(ax.train.Server.create_local_server())
        return await sessions.aioexec(build, case, stack, target=server.target)
    targets = await clusters.servers("aioexec", 1, stack)
    return await sessions.aioexec(build, case, stack, target=targets[0])


async def tensorflow(case: Case, stack: AsyncExitStack) -> Workload:
    if case.variant == "same":
        import tensorflow.compat.v1 as tf

        server = tf.train.Server.create_local_server()
        return sessions.tensorflow(build, case, target=server.target)
    targets = await clusters.servers("tensorflow", 1, stack)
    return sessions.tensorflow(build, case, target=targets[0])
