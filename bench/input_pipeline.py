"""The time per batch of examples that queue runners assemble.

Numbers pass through the queue of a producer, a computation and a second queue, and are dequeued in batches. A step takes so
many that the initial content of the queues does not matter.
"""

from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from bench.workload import Case, Workload

QUESTION = "The time per batch of examples that queue runners assemble."
MEASURES = "time of 50 batches of 32 examples"
CASES = [Case("in order", variant="batch"), Case("mixed", variant="shuffle_batch")]
EXAMPLES = 1000
BATCHES = 50
BATCH = 32
CAPACITY = 64


def build(lib: Any, case: Case) -> Any:
    number = lib.train.range_input_producer(EXAMPLES, seed=1).dequeue()
    example = [number, lib.sqrt(lib.cast(number, lib.float32))]
    if case.variant == "batch":
        return lib.train.batch(example, BATCH, capacity=CAPACITY)
    return lib.train.shuffle_batch(example, BATCH, CAPACITY, CAPACITY // 2, seed=1)


def checked(batch: Any) -> list[Any]:
    """The property of every batch: that roots are roots. The numbers in it depend on the seeds."""
    numbers, roots = batch
    return [np.array(numbers.shape), np.isclose(np.sqrt(numbers), roots)]


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    import aioexec as ax

    with ax.Graph().as_default():
        batch = build(ax, case)
        session = await stack.enter_async_context(ax.Session())
        coord = ax.train.Coordinator()
        threads = ax.train.start_queue_runners(session, coord)

    async def stop() -> None:
        coord.request_stop()
        await coord.join(threads)

    stack.push_async_callback(stop)

    async def step() -> Any:
        for _ in range(BATCHES):
            taken = await session.run(batch)
        return taken

    async def outputs() -> list[Any]:
        return checked(await step())

    return Workload(step, outputs)


def tensorflow(case: Case) -> Workload:
    import tensorflow.compat.v1 as tf

    tf.logging.set_verbosity(tf.logging.ERROR)
    with tf.Graph().as_default():
        batch = build(tf, case)
        session = tf.Session()
        tf.train.start_queue_runners(session, tf.train.Coordinator())

    def step() -> Any:
        for _ in range(BATCHES):
            taken = session.run(batch)
        return taken

    return Workload(step, lambda: checked(step()))
