"""The time to save and to restore 200 MiB, and the lateness of a 1 ms heartbeat meanwhile.

aioexec's save returns once the checkpoint is on the disk; TensorFlow leaves that to the system. Both write the meta graph too.
A save removes the older of two checkpoints; "nothing removed" leaves that out, since its time depends on the file system: with
discard enabled, removing a file on disk takes longer than writing it, removing one that is only in the page cache does not.
"""

import tempfile
from contextlib import AsyncExitStack
from functools import partial
from itertools import count
from time import perf_counter
from typing import Any

from bench import sessions
from bench.sessions import Graphed
from bench.workload import Case, Sample, Workload, call, measure_lag

QUESTION = __doc__.splitlines()[0]
MEASURES = "time of one; in rows of lag, the 99th percentile of the lag"
ROUNDS = 5
MIB = 1 << 20
VARIABLES = 25
CASES = [
    Case("save", size=200, variant="save"),
    Case("save, nothing removed", size=200, variant="save first"),
    Case("restore", size=200, variant="restore"),
    Case("lag while saving", size=200, variant="save lag"),
    Case("lag while restoring", size=200, variant="restore lag"),
]


def build(lib: Any, case: Case) -> Graphed:
    elements = case.size * MIB // VARIABLES // 4
    variables = [
        lib.Variable(lib.linspace(float(k), k + 1.0, elements), use_resource=k % 2 == 0, name=f"v{k}")
        for k in range(VARIABLES)
    ]
    return Graphed([lib.reduce_mean(variable) for variable in variables], initialized=True)


def saver_of(lib: Any, session: Any) -> Any:
    with session.graph.as_default():
        return lib.train.Saver(max_to_keep=2)


async def workload(case: Case, lib: Any, session: Any, built: Graphed, folder: str) -> Workload:
    """Save again and again, or restore what was saved once; `call` takes the peer's way of doing so."""
    saver, steps = saver_of(lib, session), count()
    saved = await call(lambda: saver.save(session, f"{folder}/first", write_state=False))

    def step() -> Any:
        if case.variant.startswith("restore"):
            return saver.restore(session, saved)
        return saver.save(session, f"{folder}/model", global_step=next(steps))

    async def first_saves(seconds: float) -> Sample:
        samples: list[float] = []
        end = perf_counter() + seconds
        while not samples or perf_counter() < end:
            before = perf_counter()
            path = await call(lambda: saver.save(session, f"{folder}/only", write_state=False))
            samples.append(perf_counter() - before)
            lib.train.remove_checkpoint(path)
        return Sample(samples)

    if case.variant == "save first":
        return Workload(partial(call, step), lambda: session.run([*built.outputs]), first_saves)
    measure = partial(measure_lag, step) if case.variant.endswith("lag") else None
    return Workload(partial(call, step), lambda: session.run([*built.outputs]), measure)


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    import aioexec as lib

    session, built = await sessions.aioexec_session(build, case, stack)
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    return await workload(case, lib, session, built, folder)


async def tensorflow(case: Case, stack: AsyncExitStack) -> Workload:
    session, built = sessions.tensorflow_session(build, case)
    import tensorflow.compat.v1 as lib

    stack.enter_context(session.graph.as_default())  # else its saver takes it that there is no graph
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    return await workload(case, lib, session, built, folder)
