"""The time from process start to the first result of an MLP (784-512-512-10, batch 32)."""

import json
import os
import subprocess
import sys
from textwrap import dedent
from typing import Any

import numpy as np

from bench.workload import Case, Workload

QUESTION = __doc__
MEASURES = "time of a process, start to end"
CASES = [Case("import, build, first run", size=32)]
ROUNDS = 3
REFERENCES = ["numpy"]  # aioexec is built on it


def started(program: str) -> Workload:
    """Time a Python process; what it prints is JSON and is compared."""
    source = dedent(program)

    def step() -> Any:
        result = subprocess.run(
            [sys.executable, "-c", source],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
        if result.returncode != 0:
            raise RuntimeError(result.stderr.strip().splitlines()[-1])
        return np.float32(json.loads(result.stdout.splitlines()[-1]))

    return Workload(step)


def aioexec(case: Case) -> Workload:
    return started(f"""
        import asyncio
        import aioexec as ax
        from bench import mlp
        from bench.workload import Case

        async def main():
            built = mlp.build_inference(ax, Case("", size={case.size}))
            async with ax.Session() as session:
                await session.run(ax.global_variables_initializer())
                [y] = await session.run(built.outputs, built.feeds)
            print(y.tolist())

        asyncio.run(main())
    """)


def tensorflow(case: Case) -> Workload:
    return started(f"""
        from bench import mlp, sessions
        from bench.workload import Case

        session, built = sessions.tensorflow_session(mlp.build_inference, Case("", size={case.size}))
        [y] = session.run(built.outputs, built.feeds)
        print(y.tolist())
    """)


def onnxruntime(case: Case) -> Workload:
    return started(f"""
        from bench import mlp

        [y] = mlp.onnxruntime_session().run(None, {{"x": mlp.images({case.size})}})
        print(y.tolist())
    """)


def numpy(case: Case) -> Workload:
    return started(f"""
        from bench import mlp

        print(mlp.numpy_forward(mlp.images({case.size}), mlp.weights()).tolist())
    """)
