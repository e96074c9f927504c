"""The peak memory of a training of 20 steps in a new process.

Row "process": library, graph, variables and steps. Row "steps": the increase after the variables were initialised.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np

from bench.workload import Case, Sample, Workload

QUESTION = __doc__.splitlines()[0]
MEASURES = "peak of resident memory"
UNIT = "MiB"
ROUNDS = 2
CASES = [
    Case(f"{name}, {part}", size=size, variant=f"{module} {variant} {part}")
    for name, module, variant, size in [
        ("MLP, SGD", "mlp_training", "sgd", 64),
        ("MLP, Adam", "mlp_training", "adam", 64),
        ("CNN, SGD", "cnn", "training", 32),
    ]
    for part in ("process", "steps")
]
STEPS = 20


class Peaks:
    """Resident memory of this process in MiB, for the programs below, from Linux."""

    def __init__(self) -> None:
        self.before = _status("VmHWM")
        self.held = _status("VmRSS")
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the peak

    def report(self, losses: Any) -> None:
        import resource

        after = _status("VmHWM")
        children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        reported = {"process": max(self.before, after), "steps": after - self.held, "children": children}
        print(json.dumps({**reported, "losses": [float(loss) for loss in losses]}))


def _status(field: str) -> float:
    text = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = [line for line in text.splitlines() if line.startswith(field + ":")]
    return int(line.split()[1]) / 1024


def training(program: str, case: Case) -> Workload:
    """Run a program that trains and reports its peaks, in a process of its own each time."""
    module, variant, part = case.variant.split()
    built = (
        f"from bench import {module} as question\ncase = Case('', size={case.size}, variant={variant!r})\n"
    )
    common = f"from bench.memory import STEPS, Peaks\nfrom bench.workload import Case\n{built}"

    def spend() -> dict[str, Any]:
        result = subprocess.run(
            [sys.executable, "-c", common + dedent(program)],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
        if result.returncode != 0:
            raise RuntimeError(result.stderr.strip().splitlines()[-1])
        reported: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
        return reported

    async def measure(seconds: float) -> Sample:
        reported = spend()
        return Sample([reported[part]], {"largest process it started, MiB": reported["children"]})

    return Workload(lambda: None, lambda: np.float32(spend()["losses"]), measure)


def aioexec(case: Case) -> Workload:
    return training(
        """
        import asyncio
        from contextlib import AsyncExitStack
        from bench import sessions

        async def main():
            async with AsyncExitStack() as stack:
                session, built = await sessions.aioexec_session(question.build, case, stack)
                peaks = Peaks()
                steps = [await session.run(built.fetches, built.feeds) for _ in range(STEPS)]
                peaks.report([loss for _, loss in steps])

        asyncio.run(main())
        """,
        case,
    )


def tensorflow(case: Case) -> Workload:
    return training(
        """
        from bench import sessions

        session, built = sessions.tensorflow_session(question.build, case)
        peaks = Peaks()
        steps = [session.run(built.fetches, built.feeds) for _ in range(STEPS)]
        peaks.report([loss for _, loss in steps])
        """,
        case,
    )
