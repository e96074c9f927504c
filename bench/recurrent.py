"""The time of a dynamic LSTM over 100 steps, forward and as a training step."""

from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from bench import sessions
from bench.sessions import Graphed
from bench.workload import Case, Workload

QUESTION = __doc__
STEPS, FEATURES = 100, 32
BATCH = 32
TOLERANCE = 1e-3
CASES = [
    Case("forward, 64 units", size=64, variant="forward"),
    Case("training step (SGD), 64 units", size=64, variant="training"),
    Case("forward, 256 units", size=256, variant="forward"),
]


def build(lib: Any, case: Case) -> Graphed:
    units = case.size
    random = np.random.default_rng(7)
    x = lib.placeholder(lib.float32, [STEPS, BATCH, FEATURES], name="x")
    weights = lib.get_variable(
        "weights",
        initializer=(random.standard_normal((FEATURES + units, 4 * units)) * 0.1).astype(np.float32),
        use_resource=True,
    )
    inputs = lib.TensorArray(lib.float32, STEPS, element_shape=[BATCH, FEATURES]).unstack(x)
    outputs = lib.TensorArray(lib.float32, STEPS, element_shape=[BATCH, units])
    zeros = lib.zeros([BATCH, units])
    kernel = weights.read_value()

    def body(step: Any, written: Any, cell: Any, hidden: Any) -> Any:
        joined = lib.concat([inputs.read(step), hidden], 1)
        new, at, forget, out = lib.split(lib.matmul(joined, kernel), 4, 1)
        cell = cell * lib.sigmoid(forget + np.float32(1)) + lib.sigmoid(at) * lib.tanh(new)
        hidden = lib.tanh(cell) * lib.sigmoid(out)
        return step + 1, written.write(step, hidden), cell, hidden

    loop = lib.while_loop(lambda step, *rest: step < STEPS, body, [0, outputs, zeros, zeros])
    loss = lib.reduce_mean(lib.square(loop[1].stack()))
    feeds = {x: random.standard_normal((STEPS, BATCH, FEATURES)).astype(np.float32)}
    if case.variant == "forward":
        return Graphed([loss], feeds, initialized=True)
    (gradient,) = lib.gradients(loss, [kernel])
    train = weights.assign_sub(gradient * np.float32(0.5), read_value=False)
    return Graphed([loss], feeds, train=train, initialized=True)


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    return await sessions.aioexec(build, case, stack)


def tensorflow(case: Case) -> Workload:
    return sessions.tensorflow(build, case)
