"""Constants of loops and branches on a device with memory of its own: what uses them waits in place of them.

A constant in a loop or a branch has control inputs, so that it is alive when its consumers are. As a node it would be copied to
the device in each iteration. Without control inputs it is copied once for all steps.
"""

from __future__ import annotations

from aioexec.graph.kernels.kernel import Role
from aioexec.graph.kernels.kernel_registry import RUN_BY_ENGINE
from aioexec.planning.subgraph import Node, Subgraph


def free_constants(part: Subgraph) -> None:
    """Move the control inputs of the constants of a partition to their consumers, where all of these compute."""
    consumers = part.consumers()
    kept = {id(node) for node in (*part.targets, *(node for node, _ in part.fetches))}
    for node in part.nodes:
        if node.feed is not None or node.row.role is not Role.CONSTANT or not node.controls:
            continue
        users = consumers.get(id(node), [])
        if id(node) in kept or not users or not all(_may_wait(user, node) for user in users):
            continue
        for user in users:
            user.controls = list(dict.fromkeys([*user.controls, *node.controls]))
        node.values = node.values or (node.op.attrs["value"],)
        node.controls = []


def _may_wait(user: Node, constant: Node) -> bool:
    return user.feed is None and user.row.role not in RUN_BY_ENGINE and constant not in user.controls
