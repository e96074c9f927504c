"""Small integers that the host computes, in the partition of a device with memory of its own.

Some values are wanted in main memory: the predicates of loops and conditionals, shapes, indices of lists. Where such a value
follows from others that are there, as counters of loops and the dimensions of inputs do, its node is computed on the processor,
with those before it. Else it is computed on the device and copied, and what needs it waits for the device.

Only integers and truth values are computed: they are the same wherever that is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod

from aioexec.graph.kernels.kernel import Role
from aioexec.graph.kernels.kernel_registry import label_of
from aioexec.planning.subgraph import Edge, Node

_MOST = 64
"""Elements of a value that the host computes; see `execution.memory.item_programs`."""
_PASSES = (Role.MERGE, Role.ENTER, Role.EXIT, Role.NEXT_ITERATION, Role.IDENTITY)


def passed_on(node: Node) -> list[Edge] | None:
    """The inputs of a node of which one is its output 0, unchanged and in the same memory; None if it computes."""
    if node.feed is not None or node.is_constant:
        return None
    if node.row.role is Role.SWITCH:
        return node.inputs[:1]
    is_single = node.row.role is not Role.IDENTITY or len(node.inputs) == 1
    return node.inputs if node.row.role in _PASSES and is_single else None


def compute_on_host(
    nodes: Sequence[Node], wanted: Iterable[Edge], is_on_host: Callable[[Edge], bool]
) -> None:
    """Mark the nodes that the processor computes, or that pass values in main memory, by `Node.on_host`.

    Args:
        nodes: those of the partition, in order.
        wanted: the edges that are wanted in main memory.
        is_on_host: whether an edge is there; for an edge of a node that is marked too.
    """
    able = _Able(nodes, is_on_host)
    for edge in wanted:
        for node in able.needed_for(edge):
            node.on_host = True
    for node in nodes:  # what the processor has computed stays there as long as it is passed on
        edges = passed_on(node) if node in able else None
        if edges and any(producer.on_host for producer, _ in edges) and all(map(is_on_host, edges)):
            node.on_host = True


class _Able:
    """Finds the nodes that the processor can compute. Constant: `_can`, their ids."""

    def __init__(self, nodes: Iterable[Node], is_on_host: Callable[[Edge], bool]) -> None:
        self._is_on_host = is_on_host
        able = {id(node): node for node in nodes if _is_able(node)}
        users: dict[int, list[Node]] = {}
        for node in able.values():
            for producer, _ in _inputs(node):
                users.setdefault(id(producer), []).append(node)
        self._can = set(able)
        waiting = [*able.values()]
        while waiting:  # the largest set in which all inputs are in the set, or in main memory
            node = waiting.pop()
            if id(node) in self._can and not all(map(self._is_there, _inputs(node))):
                self._can.remove(id(node))
                waiting += users.get(id(node), ())

    def __contains__(self, node: Node) -> bool:
        return id(node) in self._can

    def _is_there(self, edge: Edge) -> bool:
        return id(edge[0]) in self._can or self._is_on_host(edge)

    def needed_for(self, edge: Edge) -> Iterator[Node]:
        """The nodes to mark for a value to be in main memory; none if that is not possible. Each is marked before the next."""
        waiting = [edge]
        while waiting:
            producer, _ = found = waiting.pop()
            if producer in self and not self._is_on_host(found):
                yield producer
                waiting += _inputs(producer)


def _inputs(node: Node) -> list[Edge]:
    found = passed_on(node)
    return node.inputs if found is None else found


def _is_able(node: Node) -> bool:
    """Whether a node computes small integers and truth values, or passes a small value, and does nothing else."""
    if node.feed is not None or node.is_constant or node.structure is not None:
        return False
    if passed_on(node) is not None:
        return not node.output_dtype(0).is_ref and all(map(_is_small, [*_inputs(node), (node, 0)]))
    row = node.row
    if not node.is_pure or not node.inputs or row.kernel is None or row.shape_only or label_of(node.op.attrs):
        return False
    edges = [*node.inputs, *((node, k) for k in range(node.output_count))]
    return all(_is_exact(edge) and _is_small(edge) for edge in edges)


def _is_exact(edge: Edge) -> bool:
    dtype = edge[0].output_dtype(edge[1])
    return not dtype.is_ref and (dtype.is_integer or dtype.is_bool)


def _is_small(edge: Edge) -> bool:
    producer, index = edge
    if producer.values is not None:
        return producer.values[index].size <= _MOST
    dims = producer.op.outputs[index].dims if producer.feed is None else producer.feed.dims
    return dims is not None and None not in dims and prod(dim or 0 for dim in dims) <= _MOST
