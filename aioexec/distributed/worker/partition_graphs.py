"""Imports graphs from a master: this task's part of a step, placed, pruned, with both ends of every transfer.

They are imported like other GraphDefs, except that nodes may have names that users cannot give ("_cloop/Enter"), be colocated
with nodes of other tasks, and be fused.
"""

from __future__ import annotations

from typing import Any

from aioexec.distributed.worker.fused_nodes import expanded
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.graph import Graph
from aioexec.graph.io.collector import collector_disabled
from aioexec.graph.io.function_def_import import import_library
from aioexec.graph.io.graphdef_nodes import Importer
from aioexec.graph.io.graphdef_source import Source
from aioexec.graph.kernels.kernel import Role
from aioexec.graph.node import Operation
from aioexec.planning.subgraph import Signature

_ENDS = (Role.SEND, Role.NEXT_ITERATION)


class PartitionGraph(Graph):
    """A graph whose names `Source` has validated."""

    def _check_name(self, name: str) -> None:
        if not name.startswith("_"):
            super()._check_name(name)


def import_partition(graph_def: Any) -> Graph:
    """Make a graph of the nodes of a partition's GraphDef.

    Raises:
        UnimplementedError: see `fused_nodes`.
        NotFoundError: an op is not registered.
        InvalidArgumentError: the graph is malformed.
    """
    graph = PartitionGraph()
    graph_def = expanded(graph_def)
    try:
        import_library(graph.functions, graph_def)
        with graph.as_default(), collector_disabled():
            source = Source(graph_def, None, set(), graph.functions, is_partition=True)
            Importer(graph, source, "", {}).add_nodes()
    except GraphValueError as error:
        raise InvalidArgumentError(error.message) from error
    for op in graph.get_operations():
        op.created_at = ""  # only the client that made the graph has the location
    graph.oldest_producer = graph_def.versions.producer
    return graph


def signature(graph: Graph) -> Signature:
    """The signature that runs all of a partition: operations without consumers, sends, and the control nodes of loops."""
    targets = [op for op in graph.get_operations() if op.row.role in _ENDS or not _is_used(op)]
    return Signature((), (), tuple(targets))


def _is_used(op: Operation) -> bool:
    return any(tensor.consumers() for tensor in op.outputs)
