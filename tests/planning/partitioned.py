"""Common parts of partitioning tests: devices, and subgraphs partitioned as their nodes are placed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from aioexec.graph.kernels.kernel import Role
from aioexec.planning.partition import partition
from aioexec.planning.subgraph import Node, Subgraph
from tests.planning.planned import pruned

A, B, C = (f"/job:localhost/replica:0/task:0/device:CPU:{k}" for k in range(3))
INCARNATIONS = {A: 0x1234, B: 2**64 - 2, C: 7}

_numbers = itertools.count()


def new_name(prefix: str) -> str:
    return f"{prefix}/_{next(_numbers)}"


def placed(subgraph: Subgraph, where: Mapping[str, str]) -> Subgraph:
    """Put each node on the device of its name, or on the client's."""
    for node in subgraph.nodes:
        node.device = A if node.feed is not None else where.get(node.name, A)
    return subgraph


def cut(
    where: Mapping[str, str],
    fetches: Sequence[Any] = (),
    feeds: Sequence[Any] = (),
    targets: Sequence[Any] = (),
) -> dict[str, Subgraph]:
    parts = partition(placed(pruned(fetches, feeds, targets), where), INCARNATIONS, new_name, A)
    for part in parts.values():
        part.check_invariants()
    return parts


def of_role(part: Subgraph, role: Role) -> list[Node]:
    return [node for node in part.nodes if node.feed is None and node.row.role is role]


def kinds(part: Subgraph) -> list[str]:
    return [node.op.type for node in part.nodes]


def the(nodes: Sequence[Node]) -> Node:
    (node,) = nodes
    return node
