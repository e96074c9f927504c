"""The time that the hooks of a training session add to a step.

Steps of a small model, whose hooks never act: run by the session itself, by a monitored session without hooks, and by one with
the three hooks that MonitoredTrainingSession adds. The cost is the difference of two rows.
"""

import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from bench.workload import Case, Workload

QUESTION = "The time that the hooks of a training session add to a step."
CASES = [
    Case("plain step", variant="plain"),
    Case("monitored, no hooks", variant="bare"),
    Case("monitored, 3 stock hooks", variant="hooks"),
]
NEVER = 10**9
CHECKED_STEPS = 5


def build(lib: Any, case: Case, directory: str, config: Any) -> tuple[Any, list[Any]]:
    """A monitored session, and what to fetch in a step that trains."""
    inputs = np.linspace(-1, 1, 64, dtype=np.float32).reshape(16, 4)
    weights = lib.get_variable("weights", [4, 1], initializer=lib.zeros_initializer())
    loss = lib.reduce_mean(lib.square(lib.matmul(inputs, weights) - 1.0))
    summary = lib.summary.scalar("loss", loss)
    global_step = lib.train.get_or_create_global_step()
    step = lib.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=global_step)
    hooks = []
    if case.variant == "hooks":
        hooks = [
            lib.train.StepCounterHook(every_n_steps=NEVER, output_dir=directory),
            lib.train.SummarySaverHook(save_steps=NEVER, output_dir=directory, summary_op=summary),
            lib.train.CheckpointSaverHook(directory, save_steps=NEVER),
        ]
    return lib.train.SingularMonitoredSession(hooks, config=config), [step, loss]


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    import aioexec as ax

    directory = stack.enter_context(tempfile.TemporaryDirectory())
    config = ax.ConfigProto()
    config.aioexec.jit = "eager"
    with ax.Graph().as_default():
        monitored, fetches = build(ax, case, directory, config)
    session = await stack.enter_async_context(monitored)
    run = session.raw_session().run if case.variant == "plain" else session.run

    async def step() -> Any:
        return await run(fetches)

    async def outputs() -> list[Any]:
        return [np.stack([(await step())[1] for _ in range(CHECKED_STEPS)])]

    return Workload(step, outputs)


def tensorflow(case: Case) -> Workload:
    import tensorflow.compat.v1 as tf

    tf.logging.set_verbosity(tf.logging.ERROR)
    with tf.Graph().as_default():
        session, fetches = build(tf, case, tempfile.mkdtemp(), None)
    run: Callable[..., Any] = session.raw_session().run if case.variant == "plain" else session.run

    def step() -> Any:
        return run(fetches)

    return Workload(step, lambda: [np.stack([step()[1] for _ in range(CHECKED_STEPS)])])
