"""The time of the import, minus that of a process that imports nothing."""

import subprocess
import sys
from time import perf_counter

import numpy as np

from bench.workload import Case, Sample, Workload

QUESTION = __doc__
MEASURES = "time of a process that imports, less that of one that does not"
CASES = [Case("import")]
ROUNDS = 5
REFERENCES = ["numpy"]  # aioexec is built on it


def importing(statement: str) -> Workload:
    def spend(program: str) -> float:
        before = perf_counter()
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
        return perf_counter() - before

    async def measure(seconds: float) -> Sample:
        empty = min(spend("pass") for _ in range(3))
        return Sample([max(0.0, spend(statement) - empty)])

    return Workload(lambda: np.float32(spend(statement) > 0), measure=measure)


def aioexec(case: Case) -> Workload:
    return importing("import aioexec")


def tensorflow(case: Case) -> Workload:
    return importing("import tensorflow.compat.v1")


def onnxruntime(case: Case) -> Workload:
    return importing("import onnxruntime")


def jax(case: Case) -> Workload:
    return importing("import jax")


def torch(case: Case) -> Workload:
    return importing("import torch")


def numpy(case: Case) -> Workload:
    return importing("import numpy")
