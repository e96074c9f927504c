"""The time per batch of examples that queue runners assemble, or datasets.

Numbers pass through the queue of a producer, a computation and a second queue, and are dequeued in batches; or a dataset maps
them, one at a time or eight, and batches them. A step takes so many that what was computed before it does not matter.
"""

from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from bench.workload import Case, Workload

QUESTION = "The time per batch of examples that queue runners assemble, or datasets."
MEASURES = "time of 50 batches of 32 examples"
CASES = [
    Case("in order", variant="batch"),
    Case("mixed", variant="shuffle_batch"),
    Case("dataset, 1 call at once", size=1, variant="dataset"),
    Case("dataset, 8 calls at once", size=8, variant="dataset"),
]
EXAMPLES = 1000
BATCHES = 50
BATCH = 32
CAPACITY = 64


def build(lib: Any, case: Case) -> Any:
    if case.variant == "dataset":
        return of_dataset(lib, case.size)
    number = lib.train.range_input_producer(EXAMPLES, seed=1).dequeue()
    example = [number, lib.sqrt(lib.cast(number, lib.float32))]
    if case.variant == "batch":
        return lib.train.batch(example, BATCH, capacity=CAPACITY)
    return lib.train.shuffle_batch(example, BATCH, CAPACITY, CAPACITY // 2, seed=1)


def of_dataset(lib: Any, calls: int) -> Any:
    """A batch of a dataset whose function is called for so many elements at once."""
    numbers = lib.data.Dataset.range(EXAMPLES).shuffle(EXAMPLES, seed=1).repeat()
    mapped = numbers.map(lambda x: [x, lib.sqrt(lib.cast(x, lib.float32))], num_parallel_calls=calls)
    return mapped.batch(BATCH).prefetch(1).make_one_shot_iterator().get_next()


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
        threads = ax.train.start_queue_runners(session, coord) if case.variant != "dataset" else []

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
        if case.variant != "dataset":
            tf.train.start_queue_runners(session, tf.train.Coordinator())

    def step() -> Any:
        for _ in range(BATCHES):
            taken = session.run(batch)
        return taken

    return Workload(step, lambda: checked(step()))
