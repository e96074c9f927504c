"""Runs the programs: in TensorFlow, then the same bytes here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import aioexec as ax
from aioexec.graph import registry
from tests.interop.whole_graphs import classifiers, generative, images, pipelines, sequences
from tests.interop.whole_graphs.building import PROGRAMS, Builder, Run

MODULES = (classifiers, images, sequences, generative, pipelines)
"""Imported for the programs they add."""

RTOL = 1e-4
"""Of float32: losses of fifty steps amplify what the order of a summation leaves."""


@dataclass(frozen=True, eq=False)
class Recorded:
    """A program with what each run gave in TensorFlow; tensors and operations by name."""

    graph_def: Any
    runs: list[Run]
    results: list[list[Any]]
    typical: int

    @property
    def missing(self) -> list[str]:
        """Ops of the graph, and of its functions, that are not known here."""
        nodes = [*self.graph_def.node, *(n for f in self.graph_def.library.function for n in f.node_def)]
        own = {function.signature.name for function in self.graph_def.library.function}
        return sorted(op for op in {node.op for node in nodes} - own if not registry.is_registered(op))


def record(tf: Any, build: Builder) -> Recorded:
    """Build a program and run it with TensorFlow."""
    found = recorded_without_results(tf, build)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(tf.GraphDef.FromString(found.graph_def.SerializeToString()), name="")
        with tf.Session(graph=graph, config=deterministic(tf)) as session:
            for run in found.runs:
                found.results.append(session.run([list(run.fetches), list(run.targets)], run.feeds)[0])
    return found


def recorded_without_results(tf: Any, build: Builder) -> Recorded:
    """Build a program and export it."""
    with tf.Graph().as_default() as graph:
        built = build(tf)
        if built.graph_def is not None:
            tf.import_graph_def(built.graph_def, name="")
        exported = tf.train.export_meta_graph(graph=graph).graph_def
    runs = [
        Run(
            [name(each) for each in run.fetches],
            {name(key): value for key, value in run.feeds.items()},
            [name(each) for each in run.targets],
        )
        for run in built.runs
    ]
    return Recorded(ax.GraphDef.FromString(exported.SerializeToString()), runs, [], built.typical)


def deterministic(tf: Any) -> Any:
    """A configuration that keeps to one processor."""
    return tf.ConfigProto(
        intra_op_parallelism_threads=1, inter_op_parallelism_threads=1, operation_timeout_in_ms=20_000
    )


def name(of: Any) -> str:
    return of if isinstance(of, str) else str(of.name)


def session_here(recorded: Recorded, jit: str) -> ax.Session:
    with ax.Graph().as_default() as graph:
        ax.import_graph_def(recorded.graph_def, name="")
    config = ax.ConfigProto(operation_timeout_in_ms=240_000)  # a first run waits for what it compiles
    config.aioexec.jit = jit
    return ax.Session(graph=graph, config=config)


async def differences(recorded: Recorded, jit: str) -> list[str]:
    """Run a program here; what is not as TensorFlow had it."""
    found = []
    async with session_here(recorded, jit) as session:
        for k, (run, wanted) in enumerate(zip(recorded.runs, recorded.results, strict=True)):
            results, _ = await session.run([list(run.fetches), list(run.targets)], run.feeds)
            for fetch, got, expected in zip(run.fetches, results, wanted, strict=True):
                problem = difference(np.asarray(got), np.asarray(expected))
                found += [f"run {k}, {fetch}: {problem}"] if problem else []
    return found


def difference(got: Any, expected: Any) -> str:
    """How a value differs from the expected one; "" if it does not."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return f"{got.dtype}{list(got.shape)} instead of {expected.dtype}{list(expected.shape)}"
    if expected.dtype.kind != "f":
        return "" if np.array_equal(got, expected) else f"{got} instead of {expected}"
    scale = min(float(np.max(np.abs(expected), initial=0.0)), 1.0)
    close = np.allclose(got, expected, rtol=RTOL, atol=RTOL * scale, equal_nan=True)
    return "" if close else f"{got} instead of {expected}"


async def native_share(recorded: Recorded) -> str:
    """The last line of the session's explanation of the typical run: the share of native nodes, and the others by op."""
    run = recorded.runs[recorded.typical]
    async with session_here(recorded, "eager") as session:
        for each in recorded.runs[: recorded.typical + 1]:
            await session.run([list(each.fetches), list(each.targets)], each.feeds)
        explained = await session.explain([list(run.fetches), list(run.targets)], run.feeds)
    return str(explained).splitlines()[-1]


__all__ = ["PROGRAMS", "Recorded", "differences", "native_share", "record", "recorded_without_results"]
