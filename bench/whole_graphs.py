"""The time of a step of programs that TensorFlow exported, and its native share.

The programs are those of tests/interop/whole_graphs, built by TensorFlow in a separate process: training steps of small
networks, with TensorFlow's gradients and optimisers. Both peers import the same bytes.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.workload import Case, Workload

QUESTION = __doc__.splitlines()[0]
CASES = [
    Case("LeNet", variant="lenet"),
    Case("residual CNN", variant="residual_network"),
    Case("LSTM", variant="lstm"),
    Case("LSTM of functions", variant="lstm_of_functions"),
    Case("transformer", variant="transformer_block"),
]
CHECKED_STEPS = 5
REPOSITORY = Path(__file__).parents[1]


@dataclass(frozen=True)
class Exported:
    """A training step of an exported graph, by name."""

    graph_def: bytes
    init: list[str]
    fetches: list[list[str]]
    feeds: Mapping[str, Any]


def exported(case: Case) -> Exported:
    """Have TensorFlow build the program elsewhere: its threads and memory are no part of what is measured."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "program.npz")
        command = [sys.executable, "-m", "tests.interop.whole_graphs", case.variant, str(file)]
        subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
        with np.load(file) as held:
            feeds = {str(name): held[f"feed{k}"] for k, name in enumerate(held["feeds"])}
            fetches = [held["fetches"].tolist(), held["targets"].tolist()]
            return Exported(held["graph_def"].tobytes(), held["init"].tolist(), fetches, feeds)


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    import aioexec as ax

    program = exported(case)
    config = ax.ConfigProto()
    config.aioexec.jit = "eager"  # compiled before the first result: what is timed is the compiled program
    with ax.Graph().as_default() as graph:
        ax.import_graph_def(ax.GraphDef.FromString(program.graph_def), name="")
    session = await stack.enter_async_context(ax.Session(graph=graph, config=config))
    await session.run(program.init)

    async def step() -> Any:
        return (await session.run(program.fetches, program.feeds))[0]

    async def outputs() -> Any:
        return [np.stack([await step() for _ in range(CHECKED_STEPS)])]

    async def share() -> str:
        return str((await session.explain(program.fetches, program.feeds)).splitlines()[-1])

    return Workload(step, outputs, native_share=share)


def tensorflow(case: Case) -> Workload:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow.compat.v1 as tf

    program = exported(case)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(tf.GraphDef.FromString(program.graph_def), name="")
    session = tf.Session(graph=graph)
    session.run(program.init)

    def step() -> Any:
        return session.run(program.fetches, program.feeds)[0]

    return Workload(step, lambda: [np.stack([step() for _ in range(CHECKED_STEPS)])])
