"""GraphDefs of real programs that are small enough for thousands of mutations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aioexec.formats.protos import GraphDef
from tests.interop import (
    graphs_control_flow,
    graphs_forward,
    graphs_functional,
    graphs_functions,
    graphs_gradients,
    graphs_reference,
    graphs_training,
)
from tests.interop.building import Builder
from tests.interop.whole_graphs.running import PROGRAMS, recorded_without_results

MODULES = (
    graphs_control_flow,
    graphs_forward,
    graphs_functional,
    graphs_functions,
    graphs_gradients,
    graphs_reference,
    graphs_training,
)
WHOLE = ("logistic_regression", "queues_and_readers", "variational_autoencoder")
"""The smaller ones of the whole graphs."""

LARGEST = 150  # nodes, those of functions included


@dataclass(frozen=True, eq=False)
class Source:
    """A graph with a way to run it; tensors and operations by name."""

    name: str
    graph_def: GraphDef
    fetches: list[str]
    feeds: dict[str, Any]
    first: list[str]
    """Operations that are run before: the initialisers."""


def sources(tf: Any) -> list[Source]:
    """All of them, each built by TensorFlow; none is run there."""
    small = [found for found in _graphs(tf) if _size(found.graph_def) <= LARGEST]
    return [*small, *_whole(tf)]


def _graphs(tf: Any) -> Iterator[Source]:
    for module in MODULES:
        for build in module.GRAPHS:
            yield _built(tf, f"{module.__name__.rpartition('_')[2]}-{build.__name__}", build)


def _built(tf: Any, name: str, build: Builder) -> Source:
    with tf.Graph().as_default() as graph:
        built = build(tf)
        exported = GraphDef.FromString(graph.as_graph_def().SerializeToString())
    return Source(
        name,
        exported,
        [tensor.name for tensor in built.fetches],
        {tensor.name: value for tensor, value in (built.feeds or [{}])[0].items()},
        [op.name for op in (built.init, built.train) if op is not None],
    )


def _whole(tf: Any) -> Iterator[Source]:
    for name in WHOLE:
        found = recorded_without_results(tf, PROGRAMS[name])
        init, run = found.runs[0], found.runs[found.typical]
        yield Source(name, found.graph_def, list(run.fetches), dict(run.feeds), [*init.targets, *run.targets])


def _size(graph_def: GraphDef) -> int:
    return len(graph_def.node) + sum(len(function.node_def) for function in graph_def.library.function)
