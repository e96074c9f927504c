"""What do batches cost that queue runners put together, example by example?

Numbers go through a queue of a producer, are computed with, go through a second queue and come out in batches. A step takes so
many that what the queues hold already does not count.
"""

from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from bench.workload import Case, Workload

QUESTION = "What do batches cost that queue runners put together, example by example?"
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
    """What is the same in every batch: that roots are roots. Which numbers are in it is left to the seeds."""
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
