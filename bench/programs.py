"""The time of a step of programs written for TensorFlow 1.x, ported by `aioexec port`.

The programs are those of `tests/programs/`. Each runs in a process of its own for some seconds; measured is what a call of
`session.run` takes in the second half of that time, with the program's own work between two calls.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import subprocess
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from bench.workload import Case, Sample, Workload
from tests.programs.programs import PROGRAMS
from tests.programs.running import Program, imported, write

QUESTION = __doc__.splitlines()[0]
MEASURES = "time from one session.run to the next"
ROUNDS = 2
TOLERANCE = 1e-3
CASES = [Case(program.name) for program in PROGRAMS]
STEPS = 20_000
"""What a program is asked for; it is stopped before."""
SECONDS = 8.0


class EnoughError(BaseException):
    """The time is over; no program catches it."""


class Clock:
    """The ends of the calls of `session.run`, in seconds; raises `EnoughError` after the last."""

    def __init__(self, seconds: float) -> None:
        self._end = perf_counter() + seconds
        self.ends: list[float] = []

    def tick(self) -> None:
        now = perf_counter()
        self.ends.append(now)
        if now > self._end:
            raise EnoughError

    def as_json(self) -> dict[str, float]:
        half = (self.ends[0] + self.ends[-1]) / 2
        late = [end for end in self.ends if end >= half]
        return {"seconds": (late[-1] - late[0]) / (len(late) - 1), "calls": len(self.ends)}


def time_aioexec(program: Program, folder: Path, seconds: float) -> dict[str, float]:
    """Run a program in this process after the port."""
    import aioexec as ax
    from aioexec.porting.port import port

    clock, run = Clock(seconds), ax.Session.run

    async def timed(*args: Any, **kwargs: Any) -> Any:
        value = await run(*args, **kwargs)
        clock.tick()
        return value

    ax.Session.run = timed  # type: ignore[method-assign]
    write(folder, {path: result.text for path, result in port(program.texts).items()})
    try:
        with ax.Graph().as_default(), imported(folder, program.module) as module:
            returned = module.main(STEPS)
            if inspect.iscoroutine(returned):
                asyncio.run(returned)
    except EnoughError:
        pass
    return clock.as_json()


def time_tensorflow(program: Program, folder: Path, seconds: float) -> dict[str, float]:
    """Run a program, or its reference, in this process."""
    import tensorflow

    tf = tensorflow.compat.v1
    clock, run = Clock(seconds), tf.Session.run

    def timed(*args: Any, **kwargs: Any) -> Any:
        value = run(*args, **kwargs)
        clock.tick()
        return value

    tf.Session.run = timed
    sys.modules["tensorflow"] = tf
    tf.disable_v2_tensorshape()
    write(folder, program.reference)
    try:
        with tf.Graph().as_default(), imported(folder, program.module) as module:
            module.main(STEPS)
    except EnoughError:
        pass
    return clock.as_json()


def _workload(peer: str, case: Case) -> Workload:
    async def measure(seconds: float) -> Sample:
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_USE_LEGACY_KERAS": "1"}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.programs", peer, case.name,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
        )  # fmt: skip
        output, errors = await process.communicate()
        if not output.strip():
            raise RuntimeError(errors.decode().strip().splitlines()[-1])
        found = json.loads(output.splitlines()[-1])
        return Sample([found["seconds"]], {"calls": found["calls"]})

    return Workload(lambda: None, lambda: np.zeros(0, np.float32), measure)


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    return _workload("aioexec", case)


def tensorflow(case: Case) -> Workload:
    return _workload("tensorflow", case)


def main(peer: str, name: str) -> None:
    """Time one program, print the figures and end, with whatever threads the program has left."""
    program = next(program for program in PROGRAMS if program.name == name)
    measured = {"aioexec": time_aioexec, "tensorflow": time_tensorflow}[peer]
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measured(program, Path(folder), SECONDS)), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
