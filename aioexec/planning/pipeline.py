"""From a signature to a plan: the passes, in order."""

from __future__ import annotations

from collections.abc import Callable

from aioexec.graph.graph import Graph
from aioexec.planning.items import cut_items
from aioexec.planning.plan import Plan, assemble
from aioexec.planning.prune import prune
from aioexec.planning.simplify import Bind, drop_identities, fold_constants, merge_common_subexpressions
from aioexec.planning.subgraph import Signature, Subgraph

Pass = Callable[[Subgraph, Bind], None]

PASSES: list[Pass] = [
    fold_constants,
    merge_common_subexpressions,
    drop_identities,
]


def make_plan(graph: Graph, signature: Signature, bind: Bind) -> Plan:
    """Plan a signature; runs in the planner thread.

    Args:
        bind: makes, or finds, the reference kernel of an operation for this session.

    Raises:
        InvalidArgumentError: the graph has a cycle.
    """
    while True:
        mutations = graph.mutations
        subgraph = prune(signature)
        for simplify in PASSES:
            simplify(subgraph, bind)
        items = cut_items(subgraph)
        if graph.mutations == mutations:
            return assemble(signature, subgraph, items, bind)
