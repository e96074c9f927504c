"""The time to load a SavedModel of 100 MiB in a fresh process, after the import of the library.

Its files are in the page cache, and aioexec's compiled kernels on disk, where a process before has put them. aioexec imports a
part of itself only when it loads a model, so its first load includes that; TensorFlow imports all of itself before. The notes
have the time from the loaded model to its first answer, from the process's first line to it, imports included, and of a second
load in the same process.
"""

import asyncio
import json
import os
import subprocess
import sys
from time import perf_counter
from typing import Any

import numpy as np

from bench import saved_models
from bench.saved_models import BUILDER, FUNCTIONS, rows
from bench.workload import FOLDER, Case, Sample, Workload

QUESTION = __doc__.splitlines()[0]
MEASURES = "time of the load"
ROUNDS = 5
CASES = [Case("TensorFlow 1.x's builder", variant=BUILDER), Case("tf.saved_model.save", variant=FUNCTIONS)]

Reported = dict[str, Any]


async def load_with_aioexec(folder: str, started: float) -> Reported:
    """Load and answer, in this process."""
    import aioexec as ax

    before = perf_counter()
    async with await ax.load(folder) as model:
        loaded = perf_counter()
        outputs = await model(x=rows())
        reported = _reported(started, before, loaded, outputs["y"])
    before = perf_counter()
    async with await ax.load(folder):
        return _with_second(reported, before)


def load_in_session(folder: str, started: float) -> Reported:
    """Load with TensorFlow 1.x's loader and answer, in this process."""
    import tensorflow.compat.v1 as tf

    before = perf_counter()
    with tf.Graph().as_default(), tf.Session() as session:
        signature = tf.saved_model.load(session, ["serve"], folder).signature_def["serving_default"]
        loaded = perf_counter()
        y = session.run(signature.outputs["y"].name, {signature.inputs["x"].name: rows()})
        reported = _reported(started, before, loaded, y)
    before = perf_counter()
    with tf.Graph().as_default(), tf.Session() as session:
        tf.saved_model.load(session, ["serve"], folder)
        return _with_second(reported, before)


def load_functions(folder: str, started: float) -> Reported:
    """Load with TensorFlow 2's loader and answer, in this process."""
    import tensorflow as tf

    before = perf_counter()
    model = tf.saved_model.load(folder)
    loaded = perf_counter()
    y = model.signatures["serving_default"](x=tf.constant(rows()))["y"].numpy()
    reported = _reported(started, before, loaded, y)
    before = perf_counter()
    model = tf.saved_model.load(folder)
    return _with_second(reported, before)


def aioexec(case: Case) -> Workload:
    return _workload("asyncio.run(model_loading.load_with_aioexec(folder, started))", case)


def tensorflow(case: Case) -> Workload:
    loader = "load_in_session" if case.variant == BUILDER else "load_functions"
    return _workload(f"model_loading.{loader}(folder, started)", case)


def _reported(started: float, before: float, loaded: float, y: Any) -> Reported:
    answered = perf_counter()
    notes = {"first answer ms": (answered - loaded) * 1e3, "from start s": answered - started}
    return {"seconds": loaded - before, "notes": notes, "y": y.tolist()}


def _with_second(reported: Reported, before: float) -> Reported:
    """Add the time of the second load, which has just ended."""
    reported["notes"]["second load ms"] = (perf_counter() - before) * 1e3
    return reported


def _workload(call: str, case: Case) -> Workload:
    """Loads in fresh processes."""
    folder = os.path.join(os.environ[FOLDER], case.variant)
    saved_models.write_with_tensorflow(case.variant, folder)
    program = f"""
from time import perf_counter
started = perf_counter()
import asyncio, json, sys
from bench import model_loading
folder = sys.argv[1]
print(json.dumps({call}))
"""

    def load() -> Reported:
        result = subprocess.run(
            [sys.executable, "-c", program, folder],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
        if result.returncode != 0:
            raise RuntimeError(result.stderr.strip().splitlines()[-1])
        reported: Reported = json.loads(result.stdout.splitlines()[-1])
        return reported

    async def measure(seconds: float) -> Sample:
        reported = await asyncio.to_thread(load)
        return Sample([reported["seconds"]], reported["notes"])

    return Workload(lambda: None, lambda: np.float32(load()["y"]), measure)
