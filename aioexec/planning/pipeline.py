"""From a signature to a plan: prune, optimise, place, partition, cut into items; the passes, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aioexec.graph.graph import Graph
from aioexec.planning.items import cut_items
from aioexec.planning.plan import Plan, assemble
from aioexec.planning.prune import prune
from aioexec.planning.simplify import drop_identities, fold_constants, merge_common_subexpressions
from aioexec.planning.subgraph import Bind, Signature, Subgraph

Pass = Callable[[Subgraph, Bind], None]

PASSES: list[Pass] = [
    fold_constants,
    merge_common_subexpressions,
    drop_identities,
]


def make_plan(graph: Graph, signature: Signature, bind: Bind, devices: Sequence[str]) -> Plan:
    """Plan a signature; runs in the planner thread.

    Args:
        bind: makes, or finds, the reference kernel of an operation for this session.
        devices: full names, the client device first.

    Raises:
        InvalidArgumentError: the graph has a cycle.
    """
    while True:
        mutations = graph.mutations
        subgraph = prune(signature)
        for node in subgraph.nodes:
            node.device = devices[0]
        for simplify in PASSES:
            simplify(subgraph, bind)
        items = cut_items(subgraph, signature.is_partial)
        if graph.mutations == mutations:
            partition = assemble(subgraph, items, bind, devices[0], signature.is_partial)
            return Plan(signature, (partition,))
