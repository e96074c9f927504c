"""Common parts of planning tests: a subgraph or plan for some fetches, with kernels bound as by a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec.devices.cpu import ThreadPoolDevice
from aioexec.devices.device import DeviceAttributes
from aioexec.devices.device_set import DeviceSet
from aioexec.devices.threads.workers import Workers
from aioexec.graph.kernels.kernel import Compute
from aioexec.graph.node import Operation
from aioexec.planning.pipeline import Planner
from aioexec.planning.plan import Partition
from aioexec.planning.prune import prune
from aioexec.planning.subgraph import Node, Signature, Subgraph
from aioexec.resources.manager import ResourceManager
from aioexec.sessions.host import NodeContext

DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"


class Binder:
    """Makes kernels, once a node."""

    def __init__(self) -> None:
        self.resources = ResourceManager()
        self.bound: dict[Operation, Compute] = {}

    def __call__(self, op: Operation, device: str = "") -> Compute:
        if op not in self.bound:
            inputs, outputs = ([tensor.dtype for tensor in each] for each in (op.inputs, op.outputs))
            assert op.row.kernel is not None
            background: Any = None  # nothing runs
            functions = op.graph.functions
            self.bound[op] = op.row.kernel(
                NodeContext(op.name, device, op.attrs, inputs, outputs, self.resources, functions, background)
            )
        return self.bound[op]


def signature(
    fetches: Sequence[Any] = (), feeds: Sequence[Any] = (), targets: Sequence[Any] = ()
) -> Signature:
    return Signature(tuple(feeds), tuple(fetches), tuple(targets))


def pruned(fetches: Sequence[Any] = (), feeds: Sequence[Any] = (), targets: Sequence[Any] = ()) -> Subgraph:
    subgraph = prune(signature(fetches, feeds, targets))
    subgraph.check_invariants()
    return subgraph


def plan(fetches: Sequence[Any] = (), feeds: Sequence[Any] = (), targets: Sequence[Any] = ()) -> Partition:
    """The one partition of a plan for one device."""
    graph = next(iter([*fetches, *targets])).graph
    devices = DeviceSet([ThreadPoolDevice(DeviceAttributes(DEVICE, "CPU"), Workers(1, "unused"))])
    (made,) = Planner(graph, Binder(), devices).plan(signature(fetches, feeds, targets)).partitions
    made.subgraph.check_invariants()
    return made


def names(subgraph: Subgraph) -> list[str]:
    return [node.name for node in subgraph.nodes]


def by_name(subgraph: Subgraph) -> dict[str, Node]:
    return {node.name: node for node in subgraph.nodes}
