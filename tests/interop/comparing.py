"""Runs a graph with TensorFlow, then the same GraphDef here, and reports differences of the results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import aioexec as ax
from tests.interop.building import Builder, Built

TOLERANCES = {"float64": 1e-11, "float32": 2e-6, "float16": 2e-3, "bfloat16": 2e-2}
"""Allowed difference of an element, relative to it and to the largest of its array; other dtypes must be equal."""


@dataclass(frozen=True, eq=False)
class Recorded:
    """A graph of TensorFlow's, with what it gave there; tensors and operations by name."""

    graph_def: Any
    fetches: list[str]
    feeds: list[dict[str, Any]]
    init: str | None
    train: str | None
    results: list[list[Any]]
    tolerance: float

    @property
    def op_types(self) -> list[str]:
        return [node.op for node in self.graph_def.node]


@dataclass
class Recorder:
    """TensorFlow's side; `_done` remembers what was run."""

    tf: Any
    _done: dict[Builder, Recorded] = field(default_factory=dict)

    def record(self, build: Builder) -> Recorded:
        """Build a graph and run it, unless that was done before."""
        if build not in self._done:
            self._done[build] = self._record(build)
        return self._done[build]

    def _record(self, build: Builder) -> Recorded:
        tf = self.tf
        with tf.Graph().as_default() as graph:
            built = build(tf)
            graph_def = ax.GraphDef.FromString(graph.as_graph_def().SerializeToString())
            with self.session() as session:
                results = self._run(session, built)
        return Recorded(
            graph_def,
            [tensor.name for tensor in built.fetches],
            [{tensor.name: value for tensor, value in feed.items()} for feed in built.feeds],
            None if built.init is None else built.init.name,
            None if built.train is None else built.train.name,
            results,
            built.tolerance,
        )

    def session(self, graph: Any = None) -> Any:
        """A session of TensorFlow's that keeps to one processor."""
        config = self.tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        return self.tf.Session(graph=graph, config=config)

    def _run(self, session: Any, built: Built) -> list[list[Any]]:
        if built.init is not None:
            session.run(built.init)
        fetches = [list(built.fetches), [] if built.train is None else built.train]
        return [session.run(fetches, feed)[0] for feed in built.feeds]


def imported(graph_def: Any) -> ax.Graph:
    """A graph of ours with the nodes of a GraphDef."""
    with ax.Graph().as_default() as graph:
        ax.import_graph_def(graph_def, name="")
    return graph


def session_here(graph: ax.Graph, jit: str) -> ax.Session:
    config = ax.ConfigProto()
    config.aioexec.jit = jit
    return ax.Session(graph=graph, config=config)


async def run_here(recorded: Recorded, jit: str) -> list[list[Any]]:
    """Run what was recorded in a session of ours."""
    async with session_here(imported(recorded.graph_def), jit) as session:
        if recorded.init is not None:
            await session.run(recorded.init)
        fetches = [recorded.fetches, [] if recorded.train is None else recorded.train]
        return [(await session.run(fetches, feed))[0] for feed in recorded.feeds]


def differences(recorded: Recorded, results: Sequence[Sequence[Any]]) -> list[str]:
    """Where the results are not TensorFlow's: run, fetch, and how far off."""
    found = []
    for run, (ours, theirs) in enumerate(zip(results, recorded.results, strict=True)):
        for name, got, expected in zip(recorded.fetches, ours, theirs, strict=True):
            problem = difference(got, expected, recorded.tolerance)
            if problem:
                found.append(f"run {run}, {name}: {problem}")
    return found


def difference(got: Any, expected: Any, factor: float) -> str:
    """How a value differs from the expected one; "" if it does not."""
    got, expected = np.asarray(got), np.asarray(expected)
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return f"{got.dtype}{list(got.shape)} instead of {expected.dtype}{list(expected.shape)}"
    tolerance = factor * TOLERANCES.get(expected.dtype.name, 0.0)
    if not tolerance:
        return "" if np.array_equal(got, expected) else f"{got} instead of {expected}"
    got, expected = got.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(expected)
    if not np.array_equal(got[~finite], expected[~finite], equal_nan=True):
        return f"{got} instead of {expected}"
    worst = float(np.max(np.abs(got[finite] - expected[finite]), initial=0.0))
    scale = float(np.max(np.abs(expected[finite]), initial=0.0))
    return "" if worst <= tolerance * scale else f"{worst:.2e} off, at most {tolerance * scale:.2e} allowed"
